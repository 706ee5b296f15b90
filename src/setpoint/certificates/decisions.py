"""Certificates of goals that name segments, periods or amounts.

The kinds of constraints that occur (:mod:`setpoint.certificates.decision_tests`) divide the error
equally, and the thresholds that pass every test are certified together: some of them is false with
a probability of at most the sum of the errors. The best of them on the certification rows is
chosen. If the objective is a cost or a profit, it has a bound of its own, with the whole error.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import listed
from setpoint.certificates.bounds import Bound, bound_everywhere, has_bound_everywhere
from setpoint.certificates.certificate import Certificate, Choice
from setpoint.certificates.costs import cost_bound
from setpoint.certificates.decision_tests import (
    DecisionRows,
    constraints_by_kind,
    cost_everywhere,
    no_bound,
    shares_within,
    tested,
)
from setpoint.certificates.rates import rate_of
from setpoint.certificates.threshold_set import EVERY_THRESHOLD, NO_THRESHOLDS, ThresholdSet
from setpoint.goals.budgets import per_of
from setpoint.goals.columns import present_values
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import Metric
from setpoint.goals.money import is_money
from setpoint.thresholds.choose import best_point_of, point_at
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import Floats, best_index, threshold_below
from setpoint.thresholds.tallied import TalliedRows


def needs_decisions(goal: Goal) -> bool:
    """Return whether a goal names segments, periods, amounts or prices."""
    named = goal.amounts or goal.segments or goal.periods
    return bool(named) or any(is_money(which) for which in goal.metrics)


def certify_decisions(
    sample: DecisionRows, goal: Goal, confidence: float, threshold: float | None, on: str
) -> Certificate:
    """Certify a threshold, given or the best that can be certified, for a goal of any kind."""
    testing = ~sample.planning if threshold is None else np.ones(len(sample.scores), dtype=bool)
    shown = sample.whole if goal.periods else testing  # counts of a part of a day mean nothing
    bound = sample.columns.take(shown).bind(goal, sample.positive[shown])
    alpha = 1 - confidence
    kinds = constraints_by_kind(bound)
    refusals, error = [], alpha / max(1, len(kinds))
    certified = EVERY_THRESHOLD

    @cache
    def closest() -> float:
        """Return the best threshold for the goal on the certification rows."""
        rows, of = sample.columns.take(testing), (sample.positive[testing], sample.scores[testing])
        return best_point_of(*of, None, rows, goal, on).threshold

    for kind, constraints in kinds.items():
        own = Goal(bound.objective, constraints)
        outcome = tested(kind, sample, testing, own, error, threshold, closest)
        certified = certified & outcome.thresholds
        refusals += [outcome.refusal] if outcome.refusal else []
    if untested := _untested(sample, bound):
        certified = NO_THRESHOLDS
        refusals.append(untested)
    chosen, passed = threshold, bool(certified) and bool(kinds)
    if threshold is not None:
        passed = passed and threshold in certified
        certified = ThresholdSet.of_points([threshold] if passed else [])
    else:
        best = _best(sample, testing, bound, certified) if certified else None
        passed = passed and best is not None
        chosen = closest() if best is None else best
        if kinds and best is None:
            certified = NO_THRESHOLDS
    assert chosen is not None
    at = float(chosen)
    alarm = sample.scores[shown].astype(np.float64) > at
    columns = sample.columns.take(shown)
    point = point_at(sample.positive[shown], alarm, None, columns, bound, at, on)
    for c in bound.constraints:
        # A cap must not hide that the rows themselves miss the level.
        if is_money(c.metric) and passed and c in point.missed and sample.above_cap(c.metric):
            passed, certified = False, NO_THRESHOLDS
            refusals.append(
                f"'{c}' is missed on these rows with the amounts as they are; the cap is too low: "
                f"{sample.above_cap(c.metric)}"
            )
    bounds = [
        _bound(sample, c.metric, c.level, point, confidence, threshold, passed)
        for c in bound.constraints
    ]
    objective = _bound(sample, bound.objective, None, point, confidence, threshold, passed)
    if not kinds and not untested:
        # without constraints, the bound of the objective is what is certified
        passed = objective.bound is not None and objective.kind == "exact"
        if not passed:
            refusals.append(no_bound(sample, bound.objective))
        elif (alike := _says_nothing(sample, objective)) is not None:
            passed = False
            refusals.append(alike)
        certified = ThresholdSet.of_points([at]) if passed else NO_THRESHOLDS
    choice: Choice = "any" if threshold is None else "beforehand"
    return Certificate(
        point.goal, at, confidence, passed, point, (*bounds, objective), choice,
        None if threshold is None else 1,
        certified_thresholds=certified, reasons=() if passed else tuple(refusals),
        periods_within=shares_within(sample, point.goal, error) if passed else (),
        caps=tuple(sample.caps.items()),
    )  # fmt: skip


def _says_nothing(sample: DecisionRows, found: Bound) -> str | None:
    """Return why a bound on a cost is worthless: alarms for all rows, or for none, have it too."""
    which = found.metric
    if not is_money(which) or which.tallies[0].value or found.bound is None:
        return None
    most = sample.largest_alike(which)
    if -which.sign * found.bound < most:
        return None
    return (
        f"the bound on {which}, {found.bound:,.4g}, says nothing: with alarms for all rows, or for "
        f"none, it is at {'most' if which.sign < 0 else 'least'} {-which.sign * most:,.4g} in any "
        "case; use more rows, or a lower cap"
    )


def _untested(sample: DecisionRows, goal: Goal) -> str:
    """Return in which segments that occur a constraint on each of them has nothing to be tested on.

    A bound goal leaves them out. Whether a small segment has any positives is chance, so leaving it
    out of a guarantee that speaks of each segment would often be false.
    """
    stated, found = goal if goal.stated is None else goal.stated, dict(goal.found)
    for c in stated.constraints:
        if not c.each:
            continue
        occurring = present_values(sample.columns.segments[c.each])
        missing = [value for value in occurring if value not in found[c.each]]
        if missing:
            return (
                f"'{c}' cannot be tested in {listed(missing, 4)}: no certification row counts "
                "there. Use more rows, or larger segments"
            )
    return ""


# --- choosing, bounds ----------------------------------------------------------------------------


def _best(
    sample: DecisionRows, testing: NDArray[np.bool_], goal: Goal, allowed: ThresholdSet
) -> float | None:
    """Return the allowed threshold with the best objective on the certification rows."""
    scores = sample.scores[testing].astype(np.float64)
    rows = TalliedRows.of(sample.positive[testing], None, sample.columns.take(testing), goal)
    ascending = np.sort(scores)
    P, N = rows.totals()
    thresholds, tps, fps = [], [], []
    top = threshold_below(None, ascending)
    if top in allowed:
        thresholds.append(top)
        tps.append(0.0 * P)
        fps.append(0.0 * N)
    for values, tp, fp in rows.cuts(scores):
        at = np.array([_inside(value, ascending, allowed) for value in values])
        kept = ~np.isnan(at)
        thresholds += at[kept].tolist()
        tps += list(tp[:, kept].T)
        fps += list(fp[:, kept].T)
    if not thresholds:
        return None
    tp, fp = np.array(tps).T, np.array(fps).T
    if goal.is_plain:
        tp, fp, P, N = tp[0], fp[0], P[0], N[0]
    with np.errstate(all="ignore"):
        return float(thresholds[best_index(_Objective(goal), tp, fp, P, N)])


def _inside(lowest: float, ascending: Floats, allowed: ThresholdSet) -> float:
    """Return a threshold just below a score that is allowed; NaN if there is none."""
    at = int(np.searchsorted(ascending, lowest, side="left"))
    below = -np.inf if at == 0 else float(ascending[at - 1])
    for low, high in allowed:
        first, last = max(low, below), min(high, lowest)
        if first < last or (first == last == np.inf):
            middle = threshold_below(lowest, ascending)
            return middle if first <= middle < last else max(first, -np.finfo(float).max)
    return np.nan


class _Objective(NamedTuple):
    """A ranking of cuts by the objective alone; constraints are certified."""

    goal: Goal

    @property
    def is_monotone(self) -> bool:
        return self.goal.is_monotone

    def plain(self, counts: Any) -> Any:
        return self.goal.plain(counts)

    def gain(self, tp: Any, fp: Any, P: Any, N: Any) -> Any:
        gain = self.goal.gain(tp, fp, P, N) + 0.0 * self.goal.plain(tp)
        return np.nan_to_num(gain, nan=-np.inf)

    def violation(self, tp: Any, fp: Any, P: Any, N: Any) -> Any:
        return 0.0 * self.goal.plain(tp)


def _bound(
    sample: DecisionRows,
    which: Metric,
    level: float | None,
    point: OperatingPoint,
    confidence: float,
    threshold: float | None,
    certified: bool,
) -> Bound:
    """Return the bound on a metric at the chosen threshold."""
    value = point.value(which.name)
    own = point.goal.counts_of(which, *point.goal_counts)
    if (per := per_of(which)) is not None and level is not None:
        alarms = own[0] + own[1]
        within = int((np.atleast_1d(alarms) <= level).sum())
        known = level if certified and per.share is not None else None
        return Bound(which, level, value, known, "exact", within, int(np.size(alarms)))
    if is_money(which) and not which.tallies[0].value:
        testing = ~sample.planning if threshold is None else np.ones(len(sample.scores), dtype=bool)
        rows = sample.costs(which, testing)
        if rows is None:
            return Bound(which, level, value, None, "estimate")
        value = -which.sign * rows.mean(point.threshold)  # with the caps
        if level is not None:
            return Bound(which, level, value, level if certified else None, "exact")
        if threshold is None:
            everywhere = cost_everywhere(sample, which, rows, 1 - confidence)
            cost = everywhere.bound(point.threshold)
        else:
            cost = cost_bound(rows, threshold, confidence)
        return Bound(which, level, value, -which.sign * cost, "exact")
    rate = rate_of(which)
    if rate is None:
        return Bound(which, level, value, None, "estimate")
    successes, trials = (int(x) for x in rate.draws(*own))
    p = None if level is None else float(rate.p_value(level, *own))
    if level is not None:
        exact = level if certified else None
    elif threshold is not None:
        exact = rate.bound(confidence, *own)
    else:
        exact = None
        if has_bound_everywhere(which, confidence):
            exact = bound_everywhere(which, confidence, successes, trials)
    return Bound(which, level, value, exact, "exact", successes, trials, p)
