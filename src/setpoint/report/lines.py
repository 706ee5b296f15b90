"""Rows of the page's table of metrics: numbers at every threshold, and how they are written.

A goal "for each region" has one row for the worst region and one for how many miss the level, so
that the table stays short, whatever the number of segments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from setpoint.goals.budgets import is_count, per_of
from setpoint.goals.goal import TOLERANCE, Constraint, Goal
from setpoint.goals.metrics import Metric, metric
from setpoint.goals.money import is_money
from setpoint.goals.tallies import Tally
from setpoint.report.breakdown import by_period
from setpoint.report.content import Report
from setpoint.report.wording import in_words, level_text, metric_label, value_text
from setpoint.thresholds.operating_point import OperatingPoint

_PLAIN = re.compile(r"\w+(\([\w.+-]*\))?", re.ASCII)


@dataclass(frozen=True, eq=False)
class Line:
    """A number at every threshold, and how it is written.

    Attributes
    ----------
    key : str
        Its name in the script.
    label : str
        Its name on the page.
    value : callable
        Its value, given a goal that is bound to the rows, and the counts in the goal's tallies.
    write : callable
        The text of a value.
    level : Constraint or None
        The level that it must reach.
    required : str
        That level as text; empty without one.
    is_rate : bool
        Whether the script writes it by the rule for fractions; otherwise it gets texts.
    metric : Metric or None
        The metric that it is the value of.
    """

    key: str
    label: str
    value: Callable[..., Any]
    write: Callable[[float], str]
    level: Constraint | None = None
    required: str = ""
    is_rate: bool = True
    metric: Metric | None = None

    def text(self, point: OperatingPoint) -> str:
        """Return its value at an operating point."""
        with np.errstate(all="ignore"):
            return self.write(float(np.squeeze(self.value(point.goal, *point.goal_counts))))

    def for_script(self, value: float) -> float | str | None:
        """Return a value for JSON, with nine decimals; None if it is NaN or infinite."""
        if not self.is_rate:
            return self.write(value)
        return round(value, 9) if math.isfinite(value) else None


def lines_of(report: Report) -> Iterator[Line]:
    """Yield precision, recall, F1 and what the goal is about."""
    goal, stated = report.point.goal, report.goal
    levels = {c.metric.name: c for c in goal.constraints}
    each = {c.metric.name for c in goal.constraints if c.metric.tallies[0].segment}
    each -= {m.name for m in stated.metrics}
    every = {m.name: m for m in (*map(metric, ("precision", "recall", "f1")), *goal.metrics)}
    budgets = by_period(report)
    for which in every.values():
        if which.name not in each:
            yield _metric_line(report, which, levels.get(which.name))
        for periods in budgets:
            if per_of(which) == periods.per and periods.per.share is not None:
                alike = [p for p in budgets if p.period == periods.period]
                place = alike.index(periods)
                yield _periods_line(periods.constraint, which, len(periods), place)
    for place, constraint in enumerate(c for c in stated.constraints if c.each):
        own = [c for c in goal.constraints if _is_one_of(c, constraint)]
        if own:
            yield from _segment_lines(report, constraint, own, f"each{place}")


def _is_one_of(bound: Constraint, stated: Constraint) -> bool:
    """Whether a constraint is that of one segment of a constraint "for each"."""
    tally = bound.metric.tallies[0]
    if tally.segment != stated.each or bound.level != stated.level:
        return False
    return bound.metric == stated.metric.within(Tally(segment=tally.segment, value=tally.value))


def _metric_line(report: Report, which: Metric, level: Constraint | None) -> Line:
    metrics = report.point.goal.metrics
    in_goal = which in metrics

    def value(goal: Goal, *counts: Any) -> Any:
        if in_goal:
            return goal.value_of(which, *counts)
        return which.value(*(goal.plain(count) for count in counts))

    # Columns may have any name; the names in the script are plain.
    is_plain = _PLAIN.fullmatch(which.name) is not None
    return Line(
        which.name if is_plain else f"goal-{metrics.index(which)}",
        metric_label(which),
        value,
        lambda found: value_text(which, found, report.currency, level),
        level,
        "" if level is None else level_text(level, report.currency),
        _is_rate(which),
        which,
    )


def _is_rate(which: Metric) -> bool:
    return not (is_money(which) or is_count(which))


def _segment_lines(
    report: Report, stated: Constraint, own: list[Constraint], key: str
) -> Iterator[Line]:
    """Yield the worst value of any segment, and in how many segments the level is missed."""
    which, column = stated.metric, in_words(stated.each)
    worst = "lowest" if which.direction == "max" else "highest"

    def extreme(goal: Goal, *counts: Any) -> Any:
        found = np.stack([which.sign * goal.value_of(c.metric, *counts) for c in own])
        return which.sign * np.fmin.reduce(found)

    def missed(goal: Goal, *counts: Any) -> Any:
        return sum((goal.shortfall_of(c, *counts) > TOLERANCE) * 1 for c in own)

    yield Line(
        key,
        f"{worst} {metric_label(which)} in any {column}",
        extreme,
        lambda found: value_text(which, found, report.currency, stated),
        stated,
        level_text(stated, report.currency),
        _is_rate(which),
    )
    yield Line(
        f"{key}-missed",
        f"segments of {column} that miss it",
        missed,
        lambda found: f"{found:,.0f} of {len(own):,}",
        is_rate=False,
    )


def _periods_line(stated: Constraint, which: Metric, periods: int, place: int) -> Line:
    """Return in how many periods there are more alarms than are allowed.

    ``place`` is that of the budget among those for the same kind of period.
    """
    assert stated.per is not None

    def over(goal: Goal, *counts: Any) -> Any:
        tp, fp, *_ = goal.counts_of(which, *counts)
        exceeds = (tp + fp > stated.level + TOLERANCE) * 1
        return exceeds.sum(axis=0) if periods > 1 else exceeds

    return Line(
        f"over-{stated.per.period}{'' if place == 0 else f'-{place + 1}'}",
        f"{stated.per.period}s with more than {stated.level:,g} alarms",
        over,
        lambda found: f"{found:,.0f} of {periods:,}",
        is_rate=False,
    )
