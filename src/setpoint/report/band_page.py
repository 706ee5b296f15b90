"""The report on a review band as one HTML file that makes no network requests."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from setpoint.goals.band_metrics import BandMetric
from setpoint.goals.metrics import format_number, format_threshold
from setpoint.report.bands import (
    BandReport,
    Cases,
    band_headline_parts,
    band_missed,
    band_trivially,
)
from setpoint.report.certificate_sentences import comparison_with_rows
from setpoint.report.data import Histogram
from setpoint.report.drawings import WIDTH, histogram_parts, scores_frame
from setpoint.report.fractions import between, percent
from setpoint.report.goal_wording import goal_in_words, meaning
from setpoint.report.money import CASES, money
from setpoint.report.rendering import (
    badges_of,
    bounds_table,
    exactly,
    facts_of,
    goal_section,
    opening,
    render,
)
from setpoint.report.sections import Tile
from setpoint.report.why import reasons
from setpoint.report.wording import level_text, metric_label, value_text
from setpoint.thresholds.bands import ALARM, CLEAR, REVIEW, BandPoint

_APART = 44  # distance of the names in a picture
_USUAL = ("precision(alarm)", "recall(alarm)", "npv(clear)", "fnr(clear)", "review_rate")


def band_html(report: BandReport) -> str:
    """Return the page."""
    parts = band_headline_parts(report)
    histogram = Histogram.of(report.rows, [report.low, report.high])
    return render(
        "band.html",
        report=report,
        description=" ".join(filter(None, parts)),
        opening=opening(parts, badges_of(report), _tiles(report), report.notes),
        goal=_goal(report),
        bounds=bounds_table(report),
        remarks=_sides(report),
        prevalence="",
        comparison=comparison_with_rows(report),
        scores=draw_bands(report, histogram),
        beyond=histogram.beyond,
        decisions=_decisions(report),
        low=format_threshold(report.low),
        high=format_threshold(report.high),
        metrics_table=_metrics_table(report),
        facts=_facts(report),
        metrics={metric_label(m): meaning(m, report.terms) for m in _metrics(report)},
        baselines=[] if report.tuned is None else [report.tuned.name],
        **reasons(report.why),
    )


def _metrics(report: BandReport) -> list[BandMetric]:
    return list(dict.fromkeys([*map(BandMetric, _USUAL), *report.goal.metrics]))


# --- opening, goal -------------------------------------------------------------------------------


def _tiles(report: BandReport) -> list[Tile]:
    """Return the three decisions, what becomes of the positives, and the cost if there is one."""
    point, cases = report.point, Cases.of(report.point)
    positives, n = float(point.counts.P), sum(cases)
    real = [f"precision {_value(point, 'precision(alarm)')}" if cases.alarms else "no alarms"]
    clean = [f"npv {_value(point, 'npv(clear)')}" if cases.cleared else "nothing is cleared"]
    if not report.rows.chose and cases.alarms:
        real.append(f"long run: {between(point.alarm_positives, cases.alarms)}")
    if not report.rows.chose and cases.cleared:
        clean.append(f"long run: {between(point.clear_negatives, cases.cleared)}")
    found: list[Tile] = [
        ("real alarms", f"{point.alarm_positives:,.0f} of {cases.alarms:,.0f}", real),
        ("to review", f"{cases.reviews:,.0f} of {n:,.0f}",
         [f"{percent(cases.reviews / n)} of all cases",
          f"{point.review_positives:,.0f} {report.plural} among them"]),
        ("cleared correctly", f"{point.clear_negatives:,.0f} of {cases.cleared:,.0f}", clean),
        (f"{report.plural} found", f"{positives - point.clear_positives:,.0f} of {positives:,.0f}",
         [f"{point.alarm_positives:,.0f} by an alarm, {point.review_positives:,.0f} in review",
          f"{point.clear_positives:,.0f} cleared, and so missed"]),
    ]  # fmt: skip
    if report.goal.objective.costs is not None:
        total = [money(CASES * cost / n, report.currency, 0) for cost in (
            sum(point.costs), *point.costs)]  # fmt: skip
        lines = [f"false alarms {total[1]}", f"cleared {report.plural} {total[2]}",
                 f"reviews {total[3]}"]  # fmt: skip
        found.append((f"cost per {CASES:,} cases", total[0], lines))
    return found


def _value(point: BandPoint, name: str, currency: str = "€") -> str:
    level = next((c for c in point.goal.constraints if c.metric.name == name), None)
    which = level.metric if level is not None else point.goal.objective
    which = which if which.name == name else BandMetric(name)
    return value_text(which, point.value(name), currency, level)


def _goal(report: BandReport) -> dict[str, str]:
    objective = report.goal.objective
    value = _value(report.point, objective.name, report.currency)
    text = goal_in_words(report.goal, report.terms)
    reached = f"{metric_label(objective)} is {value}"
    return goal_section(report, text, reached, band_missed(report), band_trivially(report))


# --- certificate ---------------------------------------------------------------------------------


def _sides(report: BandReport) -> list[tuple[str, str]]:
    """Say of each side whether it is certified, as a class and a sentence."""
    certificate, found = report.certificate, []
    if certificate is None or report.broken:
        return []
    goal = certificate.goal
    for name, side, thresholds, threshold in (
        ("Alarms", "alarm", certificate.alarm_thresholds, certificate.high),
        ("Cleared cases", "clear", certificate.clear_thresholds, certificate.low),
    ):
        which = "upper" if side == "alarm" else "lower"
        if not (own := goal.of_side(side)):  # type: ignore[arg-type]
            continue
        held = " and ".join(f"{metric_label(c.metric)} {level_text(c, '')}" for c in own)
        if not thresholds:
            found.append(("bad", f"✗ {name}: no {which} threshold is certified for {held}."))
            continue
        text = f"✓ {name}: {held} is certified at the {which} threshold"
        if threshold in thresholds:
            text += f" {format_threshold(threshold)}"
            if not thresholds.is_one_threshold:
                allowed = str(thresholds).replace("-", "−")
                free = "" if goal.most_reviews is not None else ", any of which may be used"
                text += f", and at each of these{free}: {allowed}"
        else:
            text += f"s {str(thresholds).replace('-', '−')}"
        found.append(("good", f"{text}."))
    if goal.most_reviews is not None and certificate.certified:
        limit = format_number(goal.most_reviews)
        text = f"✓ Reviews: a review rate ≤\N{NO-BREAK SPACE}{limit} is certified for this band"
        found.append(("good", f"{text} and all bands inside of it."))
    return found


# --- pictures, tables, facts ---------------------------------------------------------------------


def draw_bands(report: BandReport, found: Histogram) -> Markup:
    """Draw histograms of the scores, with the three bands behind them."""
    frame = scores_frame(found, top=24)
    left, right = frame.left, WIDTH - frame.right
    low = frame.across(report.low) if report.low > -math.inf else left
    high = frame.across(report.high) if report.high < math.inf else right
    areas, middles = [], {}
    for kind, start, end in ((CLEAR, left, low), (REVIEW, low, high), (ALARM, high, right)):
        if end - start < 0.05:
            continue
        areas.append(
            f'<path class="band {kind}" d="M{start:.1f} {frame.top}H{end:.1f}'
            f'V{frame.bottom:.1f}H{start:.1f}z"/>'
        )
        middles[kind] = (start + end) / 2
    names = [
        f'<text class="middle" x="{x:.1f}" y="{frame.top - 8}">{kind}</text>'
        for kind, x in middles.items()
        if all(abs(x - other) >= _APART for name, other in middles.items() if name != kind)
    ]  # where names would overlap, the legend has to do
    cuts = [
        f'<path class="cut chosen" d="M{x:.1f} {frame.top}V{frame.bottom:.1f}"/>'
        for threshold, x in ((report.low, low), (report.high, high))
        if math.isfinite(threshold)
    ]
    described = (
        f"Histograms of the scores: {report.plural} above, all other cases below. Cases up to "
        f"{format_threshold(report.low)} are cleared, cases above {format_threshold(report.high)} "
        "raise an alarm, and cases between are reviewed."
    )
    return frame.picture("scores", described, *histogram_parts(found, frame, *areas), *cuts, *names)


def _decisions(report: BandReport) -> dict[str, Any]:
    """Return the counts by decision and class, as a table."""
    point = report.point
    cases = Cases.of(point)
    n = sum(cases)
    rows = []
    for kind, count in zip((ALARM, REVIEW, CLEAR), cases, strict=True):
        positives = getattr(point, f"{kind}_positives")
        among = percent(positives / count) if count else "–"
        rows.append([kind, f"{count:,.0f}", percent(count / n), f"{positives:,.0f}",
                     f"{count - positives:,.0f}", among])  # fmt: skip
    counts = point.counts
    rows.append(["all", f"{n:,.0f}", "100 %", f"{counts.P:,.0f}", f"{counts.N:,.0f}",
                 percent(float(counts.P) / n)])  # fmt: skip
    head = ["decision", "cases", "of all", report.plural, "other cases",
            f"{report.plural} among them"]  # fmt: skip
    return {"caption": f"Decisions on {report.rows.on}", "head": head, "rows": rows}


def _metrics_table(report: BandReport) -> dict[str, Any]:
    """Return all metrics, their required levels, and those of the baseline."""
    points = {"this band": report.point}
    if report.tuned is not None:
        points[report.tuned.name] = report.tuned.point
    levels = {c.metric: c for c in report.goal.constraints}
    rows = [
        [
            metric_label(which),
            level_text(levels[which], "") if which in levels else "",
            *(_value(point, which.name, report.currency) for point in points.values()),
        ]
        for which in _metrics(report)
    ]
    if report.goal.constraints:
        met = ("✓ met" if point.feasible else "✗ not met" for point in points.values())
        rows.append(["goal", "", *met])
    return {"caption": f"Metrics on {report.rows.on}", "head": ["metric", "required", *points],
            "rows": rows}  # fmt: skip


def _facts(report: BandReport) -> dict[str, str]:
    facts = {"lower threshold": exactly(report.low), "upper threshold": exactly(report.high)}
    if report.tuned is not None:
        other = report.tuned.point
        facts["tuned"] = f"{report.tuned.name}, {exactly(other.low)} to {exactly(other.high)}"
    return facts_of(report, facts)
