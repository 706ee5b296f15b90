"""Later rows as draws of what is monitored: segments, periods, and mean costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.certificates.decision_tests import DecisionRows
from setpoint.certificates.joint_monitor import Counted, JointVerdict, Monitored, later_scores
from setpoint.certificates.mean_monitor import Costs
from setpoint.certificates.rates import rate_of
from setpoint.errors import SetpointError
from setpoint.goals.budgets import per_of
from setpoint.goals.columns import GoalColumns, present_values
from setpoint.goals.goal import Constraint
from setpoint.goals.metrics import ALARM_RATE, format_number
from setpoint.goals.money import is_money, prices_of
from setpoint.goals.periods import beginning_of


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
        return Monitored(guarantee, named, over, threshold, f"{per.period}s")
    if is_money(which):
        ranges = _nothing(caps).cost_ranges(which)
        assert ranges is not None  # a mean is certified only with caps
        low, high = min(low for low, _ in ranges.values()), max(high for _, high in ranges.values())
        return Monitored(guarantee, name, guarantee, threshold, span=(low, high))
    segment = which.tallies[0]
    units = f"cases with {segment}" if segment.segment else "cases"
    return Monitored(guarantee, name, Constraint(which.base, guarantee.level), threshold, units)


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
) -> tuple[tuple[Counted | Costs, ...], tuple[tuple[str, str], ...]]:
    """Return what later rows say about each guarantee, and the last period of each kind."""
    positive, s = later_scores(y, scores, pos_label)
    last = tuple(
        (period, present_values(codes)[-1]) for period, codes in columns.periods.items() if len(s)
    )
    for period, name in () if after is None else after.last_periods:
        first = present_values(columns.periods[period])[:1] if period in columns.periods else ()
        if first and not _is_later(first[0], name):
            raise SetpointError(
                f"an earlier check had rows up to {name}, and these begin with {first[0]}; each "
                f"check needs whole {period}s, after those of the checks before."
            )
    alarm = s > monitored[0].threshold
    every = np.ones(len(s), dtype=bool)
    rows = DecisionRows(positive, s, columns, ~every, every, caps)
    return tuple(_draws(each, rows, alarm) for each in monitored), last


def _is_later(name: str, other: str) -> bool:
    """Return whether a period comes after another one of its kind."""
    first, second = beginning_of(name), beginning_of(other)
    try:
        return float(first) > float(second)
    except ValueError:  # dates
        return first > second


def _draws(each: Monitored, rows: DecisionRows, alarm: NDArray[np.bool_]) -> Counted | Costs:
    which = each.guarantee.metric
    if (per := per_of(which)) is not None:
        codes = rows.columns.periods[per.period]
        alarms = np.bincount(codes.codes, alarm, minlength=len(codes.values))
        there = np.bincount(codes.codes, minlength=len(codes.values)) > 0
        over = float((alarms[there] > each.guarantee.level).sum())
        return Counted(0.0, over, 0.0, float(there.sum()) - over)
    every = np.ones(len(alarm), dtype=bool)
    if each.span is not None:
        return _costs(each, rows)
    tally = which.tallies[0]
    member = rows.columns.segments[tally.segment].members(tally.value) if tally.segment else every
    return Counted.of(rows.positive[member], alarm[member])


def _costs(each: Monitored, rows: DecisionRows) -> Costs:
    """Return the costs of the rows, with the caps of the certificate and without any."""
    which, every = each.guarantee.metric, np.ones(len(rows.scores), dtype=bool)
    named = {price.amount for price in prices_of(which).values() if price.amount}
    amounts = {name: rows.columns.amounts[name] for name in named}
    above = [values > rows.caps[name] for name, values in amounts.items()]
    largest = {n: max(rows.caps[n], values.max(initial=0)) for n, values in amounts.items()}
    capped, uncapped = rows.costs(which, every), rows._replace(caps=largest).costs(which, every)
    assert capped is not None
    assert uncapped is not None
    return Costs(
        np.asarray(capped.at(each.threshold), np.float64),
        np.asarray(uncapped.at(each.threshold), np.float64),
        np.logical_or.reduce([~every, *above]),
    )
