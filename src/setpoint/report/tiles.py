"""The numbers at the top of the page."""

from __future__ import annotations

from setpoint.goals.budgets import is_count, per_of
from setpoint.goals.goal import format_metric
from setpoint.report.breakdown import BySegment, by_period, plain_name
from setpoint.report.content import Report
from setpoint.report.data import per_cases
from setpoint.report.fractions import between
from setpoint.report.money import CASES, PER, OutcomeBill, money, money_metrics, per_case
from setpoint.report.wording import (
    counted,
    in_words,
    level_text,
    metric_label,
    shortened,
    value_text,
)

Tile = tuple[str, str, list[str]]  # its name, the number, and lines below


def tiles(report: Report) -> list[Tile]:
    """Return what is caught, what is real, the workload, and what else the goal is about."""
    point = report.point
    tp, fp, P, _ = point.counts
    cases = per_cases(point)
    caught = [f"recall {format_metric(point.recall)}"]
    real = [f"precision {format_metric(point.precision)}" if tp + fp else "no alarms"]
    if not report.rows.chose:
        caught.append(f"long run: {between(tp, P)}")
        real.append(f"long run: {between(tp, tp + fp) if tp + fp else 'unknown'}")
    alarms = [f"{cases['tp']} real, {cases['fp']} false", f"{cases['fn']} {report.plural} missed"]
    return [
        ("caught", f"{tp:,.0f} of {P:,.0f}", caught),
        ("real alarms", f"{tp:,.0f} of {tp + fp:,.0f}", real),
        (f"alarms per {CASES:,} cases", cases["alarms"], alarms),
        *_money(report),
        *_amounts(report),
        *_budgets(report),
        *_segments(report),
    ]


def _money(report: Report) -> list[Tile]:
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


def _amounts(report: Report) -> list[Tile]:
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


def _budgets(report: Report) -> list[Tile]:
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


def _segments(report: Report) -> list[Tile]:
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
