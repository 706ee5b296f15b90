"""The report about several labels as one HTML file that makes no network requests."""

from __future__ import annotations

import math
from typing import Any

from setpoint.goals.metrics import Metric, format_threshold
from setpoint.report.breakdown import MOST_DRAWN
from setpoint.report.breakdown_drawings import Dot, draw_dots
from setpoint.report.fractions import interval_of
from setpoint.report.goal_wording import meaning
from setpoint.report.labels import (
    TERMS,
    LabelResult,
    LabelsReport,
    confidence_in_words,
    goal_of_labels,
    labels_headline,
    value_of,
)
from setpoint.report.rendering import merged_facts, opening, render
from setpoint.report.sections import Tile
from setpoint.report.wording import (
    capitalized,
    level_text,
    metric_label,
    value_text,
    with_level,
)

_MARKS = {True: "✓ met", False: "✗ missed", None: "–"}
_PICTURES = 2  # metrics that are drawn

Rows = list[list[str]]


def labels_html(report: LabelsReport) -> str:
    """Return the page."""
    parts, table = labels_headline(report), _table(report)
    return render(
        "labels.html",
        report=report,
        description=" ".join(filter(None, parts)),
        opening=opening(parts, _badges(report), _tiles(report), report.notes),
        goal={"text": goal_of_labels(report), "result": ""},  # which the lede has
        pictures=_pictures(report),
        head=table[0],
        rows=table[1:],
        averages=_averages(report),
        meaning=[] if report.certificate is None else confidence_in_words(report.certificate),
        certified=_certified(report),
        most=MOST_DRAWN,
        facts=_facts(report),
        metrics={metric_label(m): meaning(m, TERMS) for m in report.metrics.values()},
    )


def _badges(report: LabelsReport) -> list[tuple[str, str]]:
    found = []
    judged, missed = len(report.judged), len(report.missed)
    if missed:
        verb = "misses" if missed == 1 else "miss"
        found.append(("bad", f"✗ {missed:,} of {judged:,} labels {verb} the goal"))
    elif not report.met:
        found.append(("bad", "✗ goal not met by all labels together"))
    elif judged or report.point.goals.on_sums:
        found.append(("good", "✓ goal met"))
    certificate = report.certificate
    if certificate is None:
        return [*found, ("plain", "no certificate")]
    if report.contradicted:
        found.append(("bad", f"✗ certificates contradicted: {len(report.contradicted):,}"))
    count, every = len(certificate.certified_labels), len(certificate.names)
    percent = f"{100 * certificate.confidence:g} %"
    kind, sign = {0: ("bad", "✗ "), every: ("good", "✓ ")}.get(count, ("plain", ""))
    text = f"{sign}{count:,} of {every:,} labels certified at {percent}"
    return [*found, (kind, text + (" jointly" if certificate.joint else " each"))]


def _tiles(report: LabelsReport) -> list[Tile]:
    point = report.point
    tp, fp, P, N = (float(x) for x in point.sums)
    rows = (P + N) / len(point.names)
    found: list[Tile] = [
        ("true labels found", f"{tp:,.0f} of {P:,.0f}", ["recall of all labels together"]),
        ("real alarms", f"{tp:,.0f} of {tp + fp:,.0f}", ["precision of all labels together"]),
        ("alarms per 1,000 rows", f"{1000 * (tp + fp) / rows:,.0f}" if rows else "–",
         [f"in {len(point.names):,} labels together"]),
    ]  # fmt: skip
    objective = point.goals.objective
    if objective is not None and not math.isnan(point.macro(objective.name)):
        lines = [f"all labels together: {value_text(objective, point.micro(objective.name), '')}"]
        if report.usual is not None:
            usual = value_text(objective, report.usual.macro(objective.name), "")
            lines.append(f"at a probability of 0.5: {usual}")
        value = value_text(objective, point.macro(objective.name), "")
        found.append((f"mean {metric_label(objective)} of a label", value, lines))
    if report.judged:
        met = len(report.judged) - len(report.missed)
        left = len(point.names) - len(report.judged)
        lines = [f"{left:,} cannot be judged"] if left else []
        found.append(("labels that meet the goal", f"{met:,} of {len(report.judged):,}", lines))
    if report.certificate is not None:
        count = len(report.certificate.certified_labels)
        lines = ["for new data, all at once" if report.certificate.joint else "each by itself"]
        found.append(("certified labels", f"{count:,} of {len(point.names):,}", lines))
    return found


# --- the labels ----------------------------------------------------------------------------------


def _table(report: LabelsReport) -> Rows:
    """Return the table of all labels, the worst first; its first row is the head."""
    certified = report.certificate is not None
    judged = any(result.met is not None for result in report.results)
    head = ["label", "positives", "alarms", "caught"]
    required = [c for goal in report.point.goals.goals for c in goal.constraints]
    head += [
        with_level(which, [c for c in required if c.metric.name == name])
        for name, which in report.metrics.items()
    ]
    head += [*(["goal"] if judged else []), *(["certified"] if certified else [])]
    rows = [head]
    for result in report.results:
        tp, fp, P, _ = result.point.counts
        row = [result.name, f"{P:,.0f}", f"{tp + fp:,.0f}", f"{tp:,.0f}"]
        levels = {c.metric.name: c for c in result.point.goal.constraints}
        row += [value_of(result.point, m, levels.get(m.name)) for m in report.metrics.values()]
        if judged:
            row.append(_mark(result))
        if certified:
            row.append(_certified_mark(result))
        rows.append(row)
    return rows


def _mark(result: LabelResult) -> str:
    if result.met is False and result.point.feasible:
        return "✗ no alarms"
    return f"– no {result.one_class}" if result.one_class else _MARKS[result.met]


def _certified_mark(result: LabelResult) -> str:
    assert result.certificate is not None
    if result.contradicted:
        return "✗ contradicted"
    return "✓ yes" if result.certificate.certified else "✗ no"


def _pictures(report: LabelsReport) -> list[tuple[str, Any, bool]]:
    """Return caption, picture and whether it has levels, for each metric of the goals."""
    shown = [r for r in report.results if not r.one_class]
    if not shown:
        return []
    goals = dict.fromkeys(report.point.goals.goals)
    named = [c.metric for goal in goals for c in goal.constraints]
    named += [goal.objective for goal in goals]
    drawn = list({which.name: which for which in named}.values())[:_PICTURES]
    found = []
    for place, which in enumerate(drawn):
        dots = _dots(shown, which)
        label = metric_label(which)
        levels = any(dot.level is not None for dot in dots)
        missed = sum(not dot.met for dot in dots)
        verdict = f" {missed} of {len(dots)} miss the required level." if levels else ""
        described = (
            f"{label} of {min(len(dots), MOST_DRAWN)} labels, the worst first, with 95 % "
            f"intervals.{verdict} The table lists the numbers."
        )
        more = f", the worst {MOST_DRAWN} of {len(dots):,}" if len(dots) > MOST_DRAWN else ""
        picture = draw_dots(dots[:MOST_DRAWN], which, f"labels-{place}", described)
        found.append((capitalized(f"{label} of each label{more}"), picture, levels))
    return found


def _dots(results: list[LabelResult], which: Metric) -> list[Dot]:
    """Return a metric of each label, the worst first; a dash if the rows do not define it."""
    found = []
    for result in results:
        point = result.point
        own = [c for c in point.goal.constraints if c.metric.name == which.name]
        level = own[0] if own else None
        text, value = value_of(point, which, level), point.value(which.name)
        low, high = interval_of(which, point.counts)
        if text == "–" or not math.isfinite(value):
            value, low, high = math.nan, None, None
        met = level is None or (level not in point.missed and not math.isnan(value))
        at = None if level is None else level.level
        found.append(Dot(result.name, value, low, high, at, met, text))
    return sorted(found, key=lambda dot: (dot.met, *_ascending(which.sign * dot.value)))


def _ascending(value: float) -> tuple[bool, float]:
    """Return a key that sorts NaN first."""
    return (False, 0.0) if math.isnan(value) else (True, value)


def _averages(report: LabelsReport) -> tuple[list[str], Rows]:
    """Return the head and the rows of micro and macro averages."""
    columns = {"chosen thresholds": report.point}
    if report.usual is not None:
        columns["at 0.5"] = report.usual
    head = ["", *(f"{kind}, {name}" for name in columns for kind in ("macro", "micro"))]
    if report.usual is None:
        head = ["", "macro", "micro"]
    rows = []
    for name, which in report.metrics.items():
        values = [v for point in columns.values() for v in (point.macro(name), point.micro(name))]
        texts = ["–" if math.isnan(value) else value_text(which, value, "") for value in values]
        rows.append([metric_label(which), *texts])
    return head, rows


def _certified(report: LabelsReport) -> Rows:
    """Return what is certified of each label: observed values, guarantees and reasons."""
    rows = []
    for result in report.results:
        found = result.certificate
        if found is None:
            continue
        levels = (f"{metric_label(c.metric)} {level_text(c, '')}" for c in found.guarantees)
        held = " and ".join(levels) or str(found.refusal)
        if result.contradicted:
            assert result.verdict is not None
            held = f"Was: {held}. {result.verdict.message}"
        rows.append([result.name, _certified_mark(result), held])
    return sorted(rows, key=lambda row: row[1] != "✗ contradicted")


def _facts(report: LabelsReport) -> dict[str, str]:
    point = report.point
    _, _, P, N = (float(x) for x in point.sums)
    facts = {
        "rows of this report": f"{(P + N) / len(point.names):,.0f} of {point.on}",
        "goal": str(point.goals),
        "thresholds": "; ".join(
            f"{name} {format_threshold(t)}"
            for name, t in list(zip(point.names, point.thresholds, strict=True))[:MOST_DRAWN]
        )
        + (
            f"; and {len(point.names) - MOST_DRAWN:,} more" if len(point.names) > MOST_DRAWN else ""
        ),
    }
    return merged_facts(facts, report.facts)
