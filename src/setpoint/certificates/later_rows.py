"""Later rows as draws of what is monitored: segments, periods, and mean costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.certificates.decision_tests import DecisionRows
from setpoint.certificates.joint_monitor import Counted, JointVerdict, Monitored, later_scores
from setpoint.certificates.mean_monitor import Floats
from setpoint.certificates.rates import rate_of
from setpoint.errors import SetpointError
from setpoint.goals.budgets import per_of
from setpoint.goals.columns import GoalColumns, present_values
from setpoint.goals.goal import Constraint
from setpoint.goals.metrics import ALARM_RATE, format_number
from setpoint.goals.money import is_money


def is_monitored(guarantee: Constraint) -> bool:
    """Return whether later rows can contradict a guarantee."""
    which = guarantee.metric
    per = per_of(which)
    if per is not None:
        return per.share is not None
    if is_money(which):
        return not which.tallies[0].value
    return rate_of(which) is not None


def monitored_as(
    guarantee: Constraint,
    threshold: float,
    within: Mapping[str, float],
    caps: Mapping[str, float],
) -> Monitored:
    """Return how a guarantee of a segment, on periods or on a mean is monitored.

    ``within`` are the certified fractions of periods that keep to a budget for every period.
    """
    which, name = guarantee.metric, str(guarantee.metric)
    if (per := per_of(which)) is not None:
        assert per.share is not None
        share = within.get(per.period, 1.0) if per.share == 1 else per.share
        over = Constraint(ALARM_RATE, round(1 - share, 12))
        named = f"fraction of {per.period}s with more than {format_number(guarantee.level)} alarms"
        return Monitored(guarantee, named, over, threshold, per.period)
    if is_money(which):
        ranges = _nothing(caps).cost_ranges(which)
        assert ranges is not None  # a mean is certified only with caps
        low, high = min(low for low, _ in ranges.values()), max(high for _, high in ranges.values())
        return Monitored(guarantee, name, guarantee, threshold, "case", (low, high))
    return Monitored(guarantee, name, Constraint(which.base, guarantee.level), threshold)


def _nothing(caps: Mapping[str, float]) -> DecisionRows:
    none = np.empty(0, dtype=bool)
    return DecisionRows(none, np.empty(0), GoalColumns(), none, none, caps)


def later_draws(
    monitored: tuple[Monitored, ...],
    y: ArrayLike,
    scores: ArrayLike,
    columns: GoalColumns,
    caps: Mapping[str, float],
    pos_label: Any,
    after: JointVerdict | None,
) -> tuple[tuple[Counted | Floats, ...], tuple[tuple[str, str], ...]]:
    """Return what later rows say about each guarantee, and the last period of each kind."""
    positive, s = later_scores(y, scores, pos_label)
    last = tuple(
        (period, present_values(codes)[-1]) for period, codes in columns.periods.items() if len(s)
    )
    for period, name in () if after is None else after.last_periods:
        if period in columns.periods and name in present_values(columns.periods[period]):
            raise SetpointError(
                f"rows of {name} were in an earlier check, and these have more of them; a check "
                f"needs whole {period}s."
            )
    alarm = s > monitored[0].threshold
    every = np.ones(len(s), dtype=bool)
    rows = DecisionRows(positive, s, columns, ~every, every, caps)
    return tuple(_draws(each, rows, alarm) for each in monitored), last


def _draws(each: Monitored, rows: DecisionRows, alarm: NDArray[np.bool_]) -> Counted | Floats:
    which = each.guarantee.metric
    if (per := per_of(which)) is not None:
        codes = rows.columns.periods[per.period]
        alarms = np.bincount(codes.codes, alarm, minlength=len(codes.values))
        there = np.bincount(codes.codes, minlength=len(codes.values)) > 0
        over = float((alarms[there] > each.guarantee.level).sum())
        return Counted(0.0, over, 0.0, float(there.sum()) - over)
    every = np.ones(len(alarm), dtype=bool)
    if each.span is not None:
        costs = rows.costs(which, every)
        assert costs is not None
        return np.asarray(costs.at(each.threshold), dtype=np.float64)
    tally = which.tallies[0]
    member = rows.columns.segments[tally.segment].members(tally.value) if tally.segment else every
    return Counted.of(rows.positive[member], alarm[member])
