"""Sections of the page: the numbers at its top; segments, periods and money."""

from __future__ import annotations

from typing import Any

from setpoint.goals.budgets import is_count, on_or_in, per_of
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_threshold
from setpoint.report.breakdown import (
    ByPeriod,
    BySegment,
    Segment,
    by_period,
    by_segment,
    plain_name,
)
from setpoint.report.breakdown_drawings import bars_of, draw_periods, draw_segments
from setpoint.report.content import Report
from setpoint.report.data import per_cases
from setpoint.report.fractions import between
from setpoint.report.money import CASES, PER, Bill, OutcomeBill, money, money_metrics, per_case
from setpoint.report.wording import (
    capitalized,
    counted,
    in_percent,
    in_words,
    joined,
    level_text,
    metric_label,
    prices_in_words,
    shortened,
    value_text,
    with_level,
)

Tile = tuple[str, str, list[str]]  # its name, the number, and lines below
_MARKS = {True: "✓ met", False: "✗ missed", None: "– not judged"}


def sections(report: Report) -> dict[str, Any]:
    """Return the content of the sections by their names in the template; most may be empty."""
    by = by_segment(report)
    return {
        "segments": [_segments(found, i) for i, found in enumerate(by, 1) if found.segments],
        "periods": [_periods(report, found, i) for i, found in enumerate(by_period(report), 1)],
        "bills": [_bill(report, OutcomeBill(m, report)) for m in money_metrics(report.goal)],
        "decisions": _decisions(report),
        "compared": _models(report),
    }


# --- numbers at the top --------------------------------------------------------------------------


def tiles(report: Report) -> list[Tile]:
    """Return what is caught, what is real, the workload, and what else the goal is about."""
    point = report.point
    tp, fp, P, _ = point.counts
    cases = per_cases(point)
    levels = {c.metric.name: c for c in point.goal.constraints}
    caught = [f"recall {format_metric(point.recall, levels.get('recall'))}"]
    precision = format_metric(point.precision, levels.get("precision"))
    real = [f"precision {precision}" if tp + fp else "no alarms"]
    if not report.rows.chose:
        caught.append(f"long run: {between(tp, P)}")
        real.append(f"long run: {between(tp, tp + fp) if tp + fp else 'unknown'}")
    alarms = [f"{cases['tp']} real, {cases['fp']} false", f"{cases['fn']} {report.plural} missed"]
    return [
        ("caught", f"{tp:,.0f} of {P:,.0f}", caught),
        ("real alarms", f"{tp:,.0f} of {tp + fp:,.0f}", real),
        (f"alarms per {CASES:,} cases", cases["alarms"], alarms),
        *_money_tiles(report),
        *_amount_tiles(report),
        *_budget_tiles(report),
        *_segment_tiles(report),
    ]


def _money_tiles(report: Report) -> list[Tile]:
    found: list[Tile] = []
    for which in money_metrics(report.goal):
        if which.tallies[0].segment:
            continue
        bill, value = OutcomeBill(which, report), report.point.value(which.name)
        nothing = bill.write(bill.columns["no alarms"]["total"], report.currency)
        lines = [f"{per_case(which, value, report.currency)} per case", f"no alarms: {nothing}"]
        name = metric_label(which).replace(" per case", f" per {PER:,} cases")
        found.append((name, bill.write(bill.total, report.currency), lines))
    return found


def _amount_tiles(report: Report) -> list[Tile]:
    """Return how much of an amount is caught, if the goal is about that."""
    found: list[Tile] = []
    goal, point = report.point.goal, report.point
    for which in dict.fromkeys(goal.metrics):
        tally = which.tallies[0]
        if which.base.name != "recall" or not tally.amount or tally.segment:
            continue
        tp, _, P, _ = (float(x) for x in goal.counts_of(which, *point.goal_counts))
        value = f"{money(tp, report.currency, 0)} of {money(P, report.currency, 0)}"
        lines = [f"{metric_label(which)} {format_metric(point.value(which.name))}"]
        found.append((f"{in_words(tally.amount)} caught", value, lines))
    return found


def _budget_tiles(report: Report) -> list[Tile]:
    found: list[Tile] = []
    point = report.point
    for constraint in point.goal.constraints:
        which = constraint.metric
        if not is_count(which) or which.tallies[0].segment:
            continue
        text = format_metric(point.value(which.name), constraint)
        lines = [f"allowed: {format_metric(constraint.level, None, which)}"]
        for periods in by_period(report):
            if periods.per == per_of(which):
                over = int(periods.over.sum())
                lines.append(f"{over:,} of {counted(len(periods), periods.period)} above that")
        found.append((metric_label(which), text, lines))
    return found


def _segment_tiles(report: Report) -> list[Tile]:
    found: list[Tile] = []
    for constraint in report.goal.constraints:
        if not constraint.each:
            continue
        every = BySegment(report, constraint.each).measured(plain_name(constraint.metric))
        if not every:
            continue
        name, worst = every[0]
        missed = sum(not m.met for _, m in every)
        which = constraint.metric
        side = "lowest" if which.direction == "max" else "highest"
        required = level_text(constraint, report.currency)
        segments = f"{missed:,} of {counted(len(every), 'segment')}"
        found.append((
            f"{side} {metric_label(which)} in any {in_words(constraint.each)}",
            value_text(which, worst.value, report.currency, worst.constraint),
            [f"in {shortened(name, 30)}; required: {required}",
             f"{segments} {'misses' if missed == 1 else 'miss'} it"],
        ))  # fmt: skip
    return found


# --- by segment ----------------------------------------------------------------------------------


def _segments(results: BySegment, place: int) -> dict[str, Any]:
    report = results.report
    thresholds = report.segment_thresholds
    own = None if thresholds is None or thresholds.column != results.column else thresholds
    others = {n: m for n, m in results.metrics.items() if n not in ("precision", "recall")}
    judged, missed = len(results.judged), len(results.missed)
    head = [
        in_words(results.column), *(["level"] if judged else []), "cases", report.plural, "caught",
        "alarms",
        *(_header(results, name) for name in ("precision", "recall")),
        *(_header(results, name) for name in others),
        *(["threshold"] if own else []),
    ]  # fmt: skip
    rows = []
    for segment in results.drawn:
        row = _segment_row(segment, report, list(others))
        if own is not None:
            row.append(format_threshold(own.thresholds.get(segment.name, own.other)))
        rows.append([row[0], _MARKS[segment.met], *row[1:]] if judged else row)
    kind, result = "", f"On {report.rows.on}, the goal holds no segment to a level."
    if judged:
        kind = "bad" if missed else "good"
        of = f"{judged:,} segments" if judged > 1 else "segment"
        result = f"✗ {missed:,} of {judged:,} segments miss{_es(missed)} the required level."
        if missed == 0:
            result = f"✓ {'All' if judged > 1 else 'The only'} {of} reach the required level."
            result = result.replace("segment reach", "segment reaches")
        elif judged == 1:
            result = "✗ The only segment misses the required level."
    order = ", the worst first" if judged > 1 else ""
    return {
        "column": in_words(results.column),
        "kind": kind,
        "result": result,
        "remarks": results.remarks,
        "pictures": [
            (capitalized(f"{metric_label(m)} in each {in_words(results.column)}"),
             draw_segments(results, name, f"segments-{place}-{i}"))
            for i, (name, m) in enumerate(results.metrics.items())
        ],
        "caption": f"Segments of {in_words(results.column)}{order}",
        "head": head,
        "rows": rows,
    }  # fmt: skip


def _header(results: BySegment, name: str) -> str:
    which = results.metrics.get(name)
    if which is None:
        return name
    levels = [m.constraint for _, m in results.measured(name)]
    return with_level(which, levels, results.report.currency)


def _segment_row(segment: Segment, report: Report, others: list[str]) -> list[str]:
    counts = (segment.cases, segment.positives, segment.caught, segment.alarms)
    ratios = {
        "precision": (segment.caught, segment.alarms),
        "recall": (segment.caught, segment.positives),
    }
    row = [shortened(segment.name), *(f"{count:,}" for count in counts)]
    for name, (k, n) in ratios.items():
        found = segment.measured.get(name)
        level = None if found is None else found.constraint
        row.append(format_metric(k / n, level) if n else "–")
    for name in others:
        found = segment.measured.get(name)
        row.append(
            "–" if found is None else value_text(
                found.constraint.metric, found.value, report.currency, found.constraint
            )
        )  # fmt: skip
    return row


def _es(number: int) -> str:
    return "es" if number == 1 else ""


# --- by period -----------------------------------------------------------------------------------


def _periods(report: Report, periods: ByPeriod, place: int) -> dict[str, Any]:
    per, bound = periods.per, report.point.goal.constraints
    missed = any(c in report.point.missed for c in bound if c.metric.name == f"alarms {per}")
    allowed = counted(periods.level, "alarm")
    requirement = {
        None: f"{allowed} per {per.period} are allowed on average",
        1.0: f"{allowed} are allowed",
    }.get(per.share, "")
    if not requirement and per.share is not None:
        share = in_percent(per.share)
        requirement = f"{allowed} are allowed {on_or_in(per.period)} {share} of {per.period}s"
    each = bars_of(periods).each
    note = f"Only {per.period}s with at least one case are counted."
    if each > 1:
        note += f" Each bar is the busiest of {each} {per.period}s."
    rows = [
        [name, f"{alarms:,}", f"{real:,}", "✗ yes" if over else "no"]
        for name, alarms, real, over in periods.busiest_first()
    ]
    return {
        "period": per.period,
        "kind": "bad" if missed else "good",
        "result": f"{'✗' if missed else '✓'} {periods.sentence}",
        "picture": draw_periods(periods, f"periods-{place}"),
        "allowed": requirement,
        "exceeded": bool(periods.over.any()),
        "caption": f"The busiest {per.period}s" if len(periods) > len(rows) else "In numbers",
        "head": [per.period, "alarms", "real", "too many"],
        "rows": rows,
        "note": note,
    }


# --- money ---------------------------------------------------------------------------------------


def _bill(report: Report, bill: OutcomeBill) -> dict[str, Any]:
    kind = "Costs" if bill.is_cost else "Profit"
    labels = {
        "tp": f"caught {report.plural}", "fp": "false alarms", "fn": f"missed {report.plural}",
        "tn": "correctly cleared cases", "total": "total",
    }  # fmt: skip
    shown = [*bill.outcomes, "total"]
    rows = [
        [name, *(bill.write(column[key], report.currency) for key in shown)]
        for name, column in bill.columns.items()
    ]
    prices = prices_in_words(bill.which, report.terms)
    scope = bill.which.tallies[0]
    where = f" where {in_words(scope.segment)} is {in_words(scope.value)}" if scope.value else ""
    return {
        "prices": prices,
        "caption": f"{kind} per {PER:,} cases{where}, on {report.rows.on}",
        "head": ["", *(labels[key] for key in shown)],
        "rows": rows,
        "result": _compared(report, bill),
    }


def _compared(report: Report, bill: OutcomeBill) -> str:
    """Compare the classifier's total with that of the other ways to decide."""
    parts = []
    for name, column in list(bill.columns.items())[1:]:
        saved = (column["total"] - bill.total) * (1 if bill.is_cost else -1)
        amount = bill.write(abs(saved), report.currency)
        if bill.is_cost:
            words = f"{amount} {'less' if saved >= 0 else 'more'}"
        else:
            words = f"{amount} {'more' if saved >= 0 else 'less'}"
        words = "as much" if saved == 0 else words
        unmet = f" (which {against})" if (against := _caveat(report, name)) else ""
        parts.append(f"{words} {'as' if saved == 0 else 'than'} {_plural(name)}{unmet}")
    total = bill.write(abs(bill.total), report.currency)
    verb = "cost" if bill.is_cost else "lose"
    if bill.is_cost != (bill.total >= 0):
        verb = "bring in"
    return f"Per {PER:,} cases, the decisions {verb} {total}: {joined(parts)}."


def _caveat(report: Report, name: str) -> str:
    """Return what speaks against a baseline although it is cheaper; empty if nothing is known."""
    points = {other.name: point for other, point in report.baselines}
    certificate, found = report.certificate, []
    if name in points and not points[name].feasible:
        either = "" if report.point.feasible else " either"
        found.append(f"does not meet the goal{either}")
    if name in points and certificate is not None and certificate.certified and not report.broken:
        found.append("is not certified")
    return " and ".join(found)


def cheaper_baselines(report: Report, bill: Bill | None) -> str:
    """Return which baselines cost less, and what speaks against them; empty if none does."""
    if bill is None:
        return ""
    gains, found = bill.of(report.point), []
    for i, (other, _) in enumerate(report.baselines):
        if (gain := gains[f"gained{i}"]) < 0:
            less = money(-gain, bill.costs.currency, bill.digits)
            against = _caveat(report, other.name)
            but = f", but {against}" if against else ", and meets the goal on these rows as well"
            found.append(f"“{other.name}” costs {less} less{but}")
    if not found:
        return ""
    return (
        f"Per {CASES:,} cases, {'; '.join(found)}. The threshold of this page was chosen for the "
        "goal, which is not about these costs."
    )


def _plural(name: str) -> str:
    return {"no alarms": "without any alarm", "all alarms": "with an alarm on every case"}.get(
        name, name
    )


def _models(report: Report) -> dict[str, Any] | None:
    """Return the models that were trained on the same rows, with their results."""
    if not report.compared:
        return None
    metrics, _ = report.point.listed_metrics()
    levels = {c.metric.name: c for c in report.point.goal.constraints}
    certified = any(certificate is not None for _, _, certificate in report.compared)
    rows = []
    for name, point, certificate in report.compared:
        values = [
            value_text(m, point.value(m.name), report.currency, levels.get(m.name)) for m in metrics
        ]
        met = "✓ met" if point.feasible and not point.empty else "✗ not met"
        sign = "✓ yes" if certificate is not None and certificate.certified else "✗ no"
        star = "★\N{NO-BREAK SPACE}" if name == report.chosen else ""
        rows.append([
            f"{star}{name}", *values, f"{point.tp + point.fp:,.0f}",
            *([met] if levels else []), *([sign] if certified else []),
        ])  # fmt: skip
    note = (
        f"★ {report.chosen} is the model of this page. It was the best for the goal on held-out "
        f"training rows, without regard to {report.rows.on}. If another one is better here, that "
        "may be chance: whichever is the best of several on these rows is likely to be worse on "
        "new ones."
    )
    head = ["model", *map(metric_label, metrics), "alarms", *(["goal"] if levels else [])]
    return {"head": [*head, *(["certified"] if certified else [])], "rows": rows, "note": note}


def _decisions(report: Report) -> dict[str, Any] | None:
    """Return the comparison of a single threshold with decisions by expected value."""
    table = report.decisions
    if table is None:
        return None
    which = report.point.goal.objective
    price = metric_label(which).replace(" per case", f" per {PER:,} cases")
    rows = []
    for name, point in table.points.items():
        unmet = "" if point.feasible else " (goal not met)"
        total = value_text(which, PER * point.objective, report.currency)
        precision = format_metric(point.precision) if point.tp + point.fp else "–"
        alarms = f"{point.tp + point.fp:,.0f}"
        rows.append([name + unmet, total, precision, format_metric(point.recall), alarms])
    first = next(iter(table.points.values()))
    note = (
        "Single threshold: all cases are compared with the same probability. Expected value: an "
        "alarm is raised where it is expected to cost less than none, given the case’s probability "
        f"and its own prices. Here “{table.best}” is the best."
    )
    head = ["decision", price, "precision", "recall", "alarms"]
    return {
        "caption": f"Ways to decide, on {first.on}", "head": head, "rows": rows, "note": note
    }  # fmt: skip
