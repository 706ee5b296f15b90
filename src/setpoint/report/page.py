"""The report as one HTML file that makes no network requests.

The page is complete before any script runs: pictures are drawn as SVG, and a small script moves a
marker in them. Every number can be read by a screen reader and by a test. A page has about 100 to
400 KB.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from setpoint.certificates.bounds import round_conservatively
from setpoint.certificates.certificate import Certificate
from setpoint.goals.bands import BandGoal
from setpoint.goals.budgets import is_count
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_number, format_threshold
from setpoint.goals.money import is_money
from setpoint.report.band_content import BandReport, band_report_of
from setpoint.report.band_wording import band_summary
from setpoint.report.content import Report, report_of
from setpoint.report.data import ReportData, drawn_bounds, per_cases
from setpoint.report.drawings import (
    CURVE,
    draw_history,
    draw_precision_recall,
    draw_scores,
    scores_frame,
)
from setpoint.report.money import CASES, Bill, money
from setpoint.report.rendering import exactly, merged_facts, render, write_page
from setpoint.report.sections import sections
from setpoint.report.sentences import (
    CERTIFIED,
    NOT_CERTIFIED,
    certified_range,
    comparison_with_rows,
    describe_metric,
    headline,
    headline_parts,
    missed_levels,
    other_prevalence,
    threshold_choice,
)
from setpoint.report.tiles import tiles
from setpoint.report.wording import (
    goal_in_words,
    meaning,
    metric_label,
    value_text,
)
from setpoint.thresholds.operating_point import OperatingPoint


def html(report: Report | BandReport) -> str:
    """Return the page."""
    if isinstance(report, BandReport):
        from setpoint.report.band_page import band_html

        return band_html(report)
    data, certificate = ReportData(report), report.certificate
    script_data = data.for_script()
    script_data["verdicts"] = [NOT_CERTIFIED, CERTIFIED]
    script_data["frames"] = {"curve": CURVE.corners, "scores": scores_frame(data.histogram).corners}
    objective, history = metric_label(report.goal.objective), report.history
    return render(
        "page.html",
        ("page.js",),
        report=report,
        description=headline(report),
        data=script_data,
        opening=_opening(report),
        goal=_goal(report),
        bounds=None if certificate is None else _bounds(certificate, report.currency),
        choice=None if certificate is None else threshold_choice(certificate),
        prevalence=other_prevalence(report),
        comparison=comparison_with_rows(report),
        explore=_explore(data),
        certified=certified_range(report),
        curve=draw_precision_recall(data),
        curve_points=_curve_points(data),
        shows_bounds=bool(drawn_bounds(certificate)),
        scores=draw_scores(data),
        beyond=data.histogram.beyond,
        objective=objective,
        training=draw_history(history, objective) if history else [],
        facts=_facts(report),
        metrics={
            metric_label(line.metric): meaning(line.metric, report.terms)
            for line in data.lines
            if line.metric is not None
        },
        required=any(
            c.metric.name in ("precision", "recall") and not c.each for c in report.goal.constraints
        ),
        **sections(report),
    )


def summary(report: Report | BandReport, *, with_certificate: bool = True) -> str:
    """Return the main results in plain sentences, with or without those on the certificate."""
    if isinstance(report, BandReport):
        return band_summary(report, with_certificate=with_certificate)
    parts = headline_parts(report)
    if not with_certificate:
        parts = parts._replace(certificate="")
    return " ".join(filter(None, parts))


def write_report(report: Report | BandReport, path: str | Path) -> Path:
    """Write the page to a file, in one step: a failure leaves the former file as it was."""
    return write_page(html(report), path)


def write_report_of(
    classifier: Any, path: str | Path, X: Any = None, y: Any = None, **options: Any
) -> Path:
    """Write the page about a fitted classifier; parameters as in :func:`report_of`."""
    is_band = isinstance(getattr(classifier, "goal_", None), BandGoal)
    found = (band_report_of if is_band else report_of)(classifier, X, y, **options)
    return write_report(found, path)


# --- opening, goal, certificate ------------------------------------------------------------------


def _opening(report: Report) -> dict[str, Any]:
    """Return the headline, the badges, and the numbers behind them."""
    parts = headline_parts(report)
    return {
        "headline": parts.broken or parts.expected,
        "badges": _badges(report),
        "lede": " ".join(
            filter(None, [parts.broken and parts.expected, parts.goal, parts.certificate])
        ),
        "tiles": tiles(report),
        "basis": parts.basis,
        "notes": [note for note in (parts.caution, *report.notes) if note],
    }


def _badges(report: Report) -> list[tuple[str, str]]:
    """Return the state of goal and certificate as a class and a text, which has a sign too."""
    found = []
    if report.point.goal.constraints:
        met = report.point.feasible
        found.append(("good", "✓ goal met") if met else ("bad", "✗ goal not met"))
    certificate = report.certificate
    if certificate is None:
        found.append(("plain", "no certificate"))
    elif report.broken:
        found.append(("bad", "✗ certificate contradicted"))
    elif certificate.certified:
        found.append(("good", f"✓ certified at {100 * certificate.confidence:g} %"))
    else:
        found.append(("bad", "✗ certification failed"))
    return found


def _goal(report: Report) -> dict[str, str]:
    point, on, objective = report.point, report.rows.on, report.point.goal.objective
    reached = f"{metric_label(objective)} is {format_metric(point.objective)}."
    if is_money(objective) or is_count(objective):
        reached = f"{describe_metric(report, objective)}."
    if not report.point.goal.constraints:
        kind, result = "", f"On {on}, {reached}"
    elif missed := missed_levels(report):
        kind, result = "bad", f"✗ Not met on {on}: {'; '.join(missed)}."
    elif point.empty:
        kind, result = "good", f"✓ Met on {on}, but only because there are no alarms; {reached}"
    else:
        kind, result = "good", f"✓ Met on {on}; {reached}"
    return {"text": goal_in_words(report.goal, report.terms), "kind": kind, "result": result}


def _bounds(certificate: Certificate, currency: str) -> list[list[str]]:
    rows = []
    for bound in certificate.bounds:
        side, best = ("≥", "highest") if bound.metric.direction == "max" else ("≤", "lowest")
        required = best if bound.level is None else f"{side} {format_number(bound.level)}"
        draws = ""
        if bound.trials is not None:  # a phone may break the line before it, but not inside
            draws = f" ({bound.successes:,} of {bound.trials:,})".replace(" of ", "\xa0of\xa0")
        known = "unknown"
        if bound.bound is not None:
            rounded = round_conservatively(bound.metric, bound.bound)
            known = f"{side}\N{NO-BREAK SPACE}{format_number(rounded)}"
            known += "" if bound.kind == "exact" else " (estimate, no guarantee)"
        value = value_text(bound.metric, bound.value, currency)
        rows.append([metric_label(bound.metric), required, value + draws, known])
    return rows


# --- slider, comparison, facts -------------------------------------------------------------------


def _explore(data: ReportData) -> dict[str, Any]:
    """Return the slider, and tables of numbers at the chosen threshold and of the baselines."""
    report, costs = data.report, data.costs
    stops = data.steps.stops([data.chosen]).tolist()
    bill = None if costs is None else Bill(costs, report)
    points = [report.point, *(point for _, point in report.baselines)]
    columns = [_numbers(data, bill, point) for point in points]
    metrics = {
        f"metric-{line.key}": line.label + (f" (required: {line.required})" if line.level else "")
        for line in data.lines
    }
    counts = {
        "cases-alarms": "alarms", "cases-tp": "real alarms", "cases-fp": "false alarms",
        "cases-fn": f"missed {report.plural}",
    }  # fmt: skip
    such = f"{CASES:,} such cases"
    tables = {
        "Metrics": {**metrics, **({"met": "goal"} if report.goal.constraints else {})},
        f"Per {such} ({columns[0]['cases-positives']} {report.plural})": counts,
    }
    if costs is not None:
        labels = {"money-alarms": "investigating alarms", "money-misses": f"missed {report.plural}"}
        if costs.catch:
            labels["money-catches"] = f"caught {report.plural}"
        labels |= {"money-total": "total", "money-saved": "saved vs. no model"}
        for i, (baseline, _) in enumerate(report.baselines):
            labels[f"money-gained{i}"] = f"saved vs. {baseline.name}"
        tables[f"Costs per {such}"] = labels
    return {
        "last_stop": len(stops) - 1,
        "stop": stops.index(data.chosen),
        "threshold": format_threshold(report.threshold),
        "bands": _bands([data.thresholds[stop] in data.certified for stop in stops]),
        "P": f"{data.steps.P:,}",
        "N": f"{data.steps.N:,}",
        "names": [baseline.name for baseline, _ in report.baselines],
        "columns": columns,
        "tables": tables,
        "bill": bill,
    }


def _bands(certified: list[bool]) -> list[tuple[float, float]]:
    """Return start and length of every run of certified stops, half a stop wider on both sides."""
    bands, last, start = [], len(certified) - 1, 0
    for is_certified, run in groupby(certified):
        end = start + len(list(run))
        if is_certified:
            left, right = max(start - 0.5, 0.0), min(end - 0.5, float(last))
            bands.append((left, right - left))
        start = end
    return bands


def _numbers(data: ReportData, bill: Bill | None, point: OperatingPoint) -> dict[str, str]:
    """Return all numbers of a point, by their names in the script, which writes them alike."""
    found = {name: f"{int(getattr(point, name)):,}" for name in ("tp", "fn", "fp", "tn")}
    found |= {f"metric-{line.key}": line.text(point) for line in data.lines}
    found["met"] = "✓ met" if point.feasible else "✗ not met"
    found["certified"] = CERTIFIED if point.threshold in data.certified else NOT_CERTIFIED
    found |= {f"cases-{name}": text for name, text in per_cases(point).items()}
    if bill is not None:
        write = partial(money, currency=bill.costs.currency, digits=bill.digits)
        found |= {f"money-{name}": write(amount) for name, amount in bill.of(point).items()}
    false = "1 false alarm" if point.fp == 1 else f"{found['fp']} false alarms"
    caught = f"{found['tp']} of {data.steps.P:,} {data.report.plural} caught"
    found["summary"] = f"At {format_threshold(point.threshold)}: {caught}, {false}."
    return found


def _curve_points(data: ReportData) -> list[list[str]]:
    """Return the curve as a table: the highest threshold that reaches each tenth of recall."""
    steps, report = data.steps, data.report
    places = {data.chosen}
    for tenth in range(1, 11):
        reached = (steps.recall >= tenth / 10 - 1e-12).nonzero()[0]
        if len(reached):  # a positive with a score of -inf is never caught
            places.add(int(reached[-1]))
    rows = []
    for index in sorted(places):
        tp, fp = int(steps.tp[index]), int(steps.fp[index])
        at = format_threshold(float(steps.at[index]))
        if index == data.chosen:
            at = f"◆\N{NO-BREAK SPACE}{format_threshold(report.threshold)}"
        precision = format_metric(float(steps.precision[index])) if tp + fp else "–"
        rows.append(
            [at, format_metric(float(steps.recall[index])), precision, f"{tp:,}", f"{fp:,}"]
        )
    return rows


def _facts(report: Report) -> dict[str, str]:
    """Return what is needed to make the same page again."""
    _, _, P, N = report.point.counts
    rows = f"{len(report.rows):,} of {report.rows.on}"
    facts = {
        "rows of this report": f"{rows}: {P:,.0f} {report.plural}, {N:,.0f} other cases",
        "goal": str(report.goal),
        "threshold": exactly(report.threshold),
    }
    for baseline, _ in report.baselines:
        name = "tuned" if baseline is report.tuned else "baseline"
        facts[name] = f"{baseline.name}, threshold {exactly(baseline.threshold)}"
    return merged_facts(facts, report.facts)
