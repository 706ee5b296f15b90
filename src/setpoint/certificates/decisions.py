"""Certificates of goals that name segments, periods or amounts.

The constraints of such a goal are of three kinds, each with a test of its own that holds at all
thresholds at once:

- *rates* of all rows or of a segment, such as ``precision >= 0.9 for each region``
  (:mod:`setpoint.certificates.simultaneous`, :mod:`setpoint.certificates.segments`);
- *budgets*, ``alarms <= 200 per day`` (:mod:`setpoint.certificates.periods`);
- *costs*, ``cost(fp=5, fn=amount) <= 3`` (:mod:`setpoint.certificates.costs`).

The kinds that occur divide the error equally, and the thresholds that pass every test are certified
together: some of them is false with a probability of at most the sum of the errors. The best of
them on the certification rows is chosen. If the objective is a cost or a profit, it has a bound of
its own, with the whole error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import check_number
from setpoint.certificates.bounds import Bound, bound_everywhere, has_bound_everywhere
from setpoint.certificates.certificate import Certificate, Choice
from setpoint.certificates.costs import CostCells, CostEverywhere, CostRows, cost_bound
from setpoint.certificates.nested import is_nested
from setpoint.certificates.periods import (
    certified_budget_threshold,
    day_thresholds,
    days_needed,
    every_day_bound,
    share_bound,
)
from setpoint.certificates.rates import least_trials, rate_of
from setpoint.certificates.sequence import TalliedRows, counted, plan, try_in_order, worst_of
from setpoint.certificates.simultaneous import Plan, certified_thresholds, is_testable_anywhere
from setpoint.certificates.threshold_set import NO_THRESHOLDS, ThresholdSet
from setpoint.errors import SetpointError
from setpoint.goals.budgets import Per, per_of
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import RECALL, Metric, format_number
from setpoint.goals.money import is_money, prices_of
from setpoint.goals.tallies import PLAIN
from setpoint.thresholds.operating_point import OperatingPoint, best_point_of, point_at
from setpoint.thresholds.sweep import Floats, best_index, threshold_below
from setpoint.thresholds.tallied import TalliedRows as CountedRows

_EVERYWHERE = ThresholdSet(((-np.inf, np.inf),))


class Sample(NamedTuple):
    """Rows to certify on.

    Attributes
    ----------
    positive : ndarray of bool
        Labels.
    scores : ndarray
        Scores.
    columns : GoalColumns
        The amounts, segments and periods that the goal names.
    planning : ndarray of bool
        Which rows plan; the others are certification rows.
    whole : ndarray of bool
        Rows of whole periods, on which budgets are tested. Labels do not matter there, so these may
        include planning rows, but none that the model has seen.
    caps : mapping of float
        The largest amounts, by name.
    """

    positive: NDArray[np.bool_]
    scores: Floats
    columns: GoalColumns
    planning: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    caps: Mapping[str, float]

    def costs(self, which: Metric, rows: NDArray[np.bool_]) -> CostRows | None:
        """Return what some rows cost with and without an alarm; None where a cap is missing."""
        prices, sign = prices_of(which), -which.sign  # a profit is a negative cost
        if any(price.amount and price.amount not in self.caps for price in prices.values()):
            return None
        low, high, value = [], [], {}
        for outcome, price in prices.items():
            most = self.caps[price.amount] if price.amount else 1.0
            ends = (0.0, sign * price.factor * most) if price.amount else (sign * price.factor,)
            low.append(min(ends))
            high.append(max(ends))
            amount: Any = 1.0
            if price.amount:
                amount = np.minimum(self.columns.amounts[price.amount][rows], most)
            value[outcome] = sign * price.factor * amount
        y = self.positive[rows]
        return CostRows.of(
            self.scores[rows],
            np.where(y, value["tp"], value["fp"]),
            np.where(y, value["fn"], value["tn"]),
            min(low),
            max(high),
        )


def check_caps(caps: Mapping[str, float] | None, goal: Goal) -> dict[str, float]:
    """Return the caps of amounts; raise SetpointError unless they are numbers above 0."""
    found = dict(caps or {})
    for name, cap in found.items():
        if not 0 < check_number(cap, f"the cap of {name}") < np.inf:
            raise SetpointError(
                f"the cap of {name!r} is {cap}; it is the largest amount that a row can have, a "
                "number above 0."
            )
        if name not in goal.amounts:
            raise SetpointError(
                f"there is a cap of {name!r}, and the goal '{goal}' names "
                f"{', '.join(goal.amounts) or 'no amounts'}."
            )
    return found


class Outcome(NamedTuple):
    """What a test says: the thresholds that pass it, and why none does."""

    thresholds: ThresholdSet
    refusal: str = ""


def certify_decisions(
    sample: Sample, goal: Goal, confidence: float, threshold: float | None, on: str
) -> Certificate:
    """Certify a threshold, given or the best that can be certified, for a goal of any kind."""
    testing = ~sample.planning if threshold is None else np.ones(len(sample.scores), dtype=bool)
    shown = sample.whole if goal.periods else testing  # counts of a part of a day mean nothing
    bound = sample.columns.take(shown).bind(goal, sample.positive[shown])
    alpha = 1 - confidence
    kinds = _kinds(bound)
    refusals, error = [], alpha / max(1, len(kinds))
    certified = _EVERYWHERE
    for kind, constraints in kinds.items():
        test = {"rates": _rates, "budgets": _budgets, "costs": _costs, "others": _others}[kind]
        outcome = test(sample, testing, Goal(bound.objective, constraints), error, threshold)
        certified = _common(certified, outcome.thresholds)
        refusals += [outcome.refusal] if outcome.refusal else []
    chosen, passed = threshold, bool(certified) and bool(kinds)
    if threshold is not None:
        passed = passed and threshold in certified
        certified = ThresholdSet.of_points([threshold] if passed else [])
    else:
        best = _best(sample, testing, bound, certified) if certified else None
        passed = passed and best is not None
        chosen = best
        if best is None:  # the closest: the best for the goal on the certification rows
            rows = sample.columns.take(testing)
            of = sample.positive[testing], sample.scores[testing]
            chosen = best_point_of(*of, None, rows, goal, on).threshold
        if kinds and best is None:
            certified = NO_THRESHOLDS
    assert chosen is not None
    at = float(chosen)
    alarm = sample.scores[shown].astype(np.float64) > at
    columns = sample.columns.take(shown)
    point = point_at(sample.positive[shown], alarm, None, columns, bound, at, on)
    bounds = [
        _bound(sample, c.metric, c.level, point, confidence, threshold, passed)
        for c in bound.constraints
    ]
    objective = _bound(sample, bound.objective, None, point, confidence, threshold, passed)
    if not kinds:  # without constraints, the bound of the objective is what is certified
        passed = objective.bound is not None and objective.kind == "exact"
        certified = ThresholdSet.of_points([at]) if passed else NO_THRESHOLDS
        if not passed:
            refusals.append(_no_bound(sample, bound.objective))
    choice: Choice = "any" if threshold is None else "beforehand"
    return Certificate(
        point.goal, at, confidence, passed, point, (*bounds, objective), choice,
        None if threshold is None else 1,
        certified_thresholds=certified, reasons=() if passed else tuple(refusals),
        periods_within=_share_within(sample, point.goal, at, error) if passed else None,
        caps=tuple(sample.caps.items()),
    )  # fmt: skip


def _kinds(goal: Goal) -> dict[str, tuple[Constraint, ...]]:
    """Return the constraints by the test that they need."""
    found: dict[str, list[Constraint]] = {}
    for c in goal.constraints:
        if per_of(c.metric) is not None:
            kind = "budgets"
        elif is_money(c.metric) and not c.metric.tallies[0].value:
            kind = "costs"
        else:
            kind = "others" if rate_of(c.metric) is None else "rates"
        found.setdefault(kind, []).append(c)
    return {kind: tuple(constraints) for kind, constraints in found.items()}


# --- the tests -----------------------------------------------------------------------------------


def _rates(
    sample: Sample, testing: NDArray[np.bool_], goal: Goal, error: float, threshold: float | None
) -> Outcome:
    """Test rates of all rows, and of segments."""
    if goal.objective.tallies != (PLAIN,):
        goal = Goal(RECALL, goal.constraints)  # it plans the order only
    arguments = (sample.positive, sample.scores, sample.columns, goal)
    tests = TalliedRows.of(*arguments, testing)
    if threshold is not None:
        at = np.array([threshold])
        passes = bool(worst_of(goal, counted(tests, goal, at), (1,))[0] <= error)
        found = ThresholdSet.of_points([threshold] if passes else [])
    elif is_nested(goal):
        found = certified_thresholds(tests, goal, None, error).thresholds
    else:
        plans = TalliedRows.of(*arguments, sample.planning)
        rows = float(testing.sum())
        if is_testable_anywhere(goal):
            planned = Plan.of(plans, goal, rows, error)
            found = certified_thresholds(tests, goal, planned, error).thresholds
        else:
            thresholds = plan(plans, goal, rows, error)
            _, passed = try_in_order(tests, goal, thresholds, error)
            found = ThresholdSet.of_points(thresholds[:passed])
    return Outcome(found) if found else Outcome(NO_THRESHOLDS, _too_few(tests, goal, error))


def _too_few(tests: TalliedRows, goal: Goal, error: float) -> str:
    """Return which rates cannot be certified with so few rows, and how many are needed."""
    small = []
    for c in goal.constraints:
        P, N = tests.of_constraint(c).totals
        kind, there = {
            "positives": ("positives", P),
            "alarms": ("positives", P),
            "negatives": ("negatives", N),
            "cases without an alarm": ("negatives", N),
        }.get(str(c.metric.population), ("rows", P + N))
        needed = least_trials(c, error)
        if needed is not None and there < needed:
            small.append(f"'{c}' needs at least {needed:,} {kind}, and there are {there:,.0f}")
    if small:
        return "; ".join(small[:3])
    if len(goal.constraints) == 1:
        return f"there are not enough rows to certify '{goal.constraints[0]}'"
    return f"there are not enough rows to certify all {len(goal.constraints)} rates at once"


def _budgets(
    sample: Sample, testing: NDArray[np.bool_], goal: Goal, error: float, threshold: float | None
) -> Outcome:
    """Test limits on the alarms per period, on the scores of all rows: labels do not matter."""
    found = _EVERYWHERE
    for c in goal.constraints:
        per = per_of(c.metric)
        assert per is not None
        if per.share is None:
            return Outcome(
                NO_THRESHOLDS,
                f"there is no bound on an average such as '{c}', as a {per.period} may have any "
                f"number of rows; 'on 95% of {per.period}s' can be certified",
            )
        at = _day_thresholds(sample, c, per)
        if threshold is not None:
            over = share_bound(at, threshold, 1 - error / len(goal.constraints), False)
            passes = per.share == 1 or 1 - over >= per.share
            own = ThresholdSet.of_points([threshold] if passes else [])
        elif per.share == 1:  # what share of periods that guarantees is said with the result
            own = _from(float(at.max()))
        else:
            lowest = certified_budget_threshold(at, per.share, 1 - error / len(goal.constraints))
            own = NO_THRESHOLDS if lowest is None else _from(lowest)
        if not own and threshold is not None:
            over = int((at > threshold).sum())
            return Outcome(
                NO_THRESHOLDS,
                f"{over} of {len(at)} {per.period}s have more than {format_number(c.level)} alarms",
            )
        if not own:
            needed = days_needed(per.share, 1 - error / len(goal.constraints))
            return Outcome(
                NO_THRESHOLDS,
                f"'{c.metric} <= {format_number(c.level)}' needs at least {needed} {per.period}s "
                f"of rows, and there are {len(at)}",
            )
        found = _common(found, own)
    return Outcome(found)


def _costs(
    sample: Sample, testing: NDArray[np.bool_], goal: Goal, error: float, threshold: float | None
) -> Outcome:
    """Test ceilings on the mean cost, and floors of the mean profit."""
    found = _EVERYWHERE
    for c in goal.constraints:
        rows = sample.costs(c.metric, testing)
        if rows is None:
            return Outcome(NO_THRESHOLDS, _no_bound(sample, c.metric))
        level, share = -c.metric.sign * c.level, error / len(goal.constraints)
        if threshold is not None:
            p = rows.sample(rows.at(threshold)).p_value(level, share)
            own = ThresholdSet.of_points([threshold] if p <= share else [])
        else:
            own = _everywhere(sample, c.metric, rows, share).certified(level)
        if not own:
            return Outcome(NO_THRESHOLDS, f"there are not enough rows to certify '{c}'")
        found = _common(found, own)
    return Outcome(found)


def _others(
    sample: Sample, testing: NDArray[np.bool_], goal: Goal, error: float, threshold: float | None
) -> Outcome:
    return Outcome(NO_THRESHOLDS, f"there is no exact bound for {goal.constraints[0].metric}")


def _everywhere(sample: Sample, which: Metric, rows: CostRows, error: float) -> CostEverywhere:
    planning = sample.costs(which, sample.planning)
    assert planning is not None  # it has the same caps
    return CostEverywhere(rows, CostCells.of(planning, len(rows)), error, planning)


def _day_thresholds(sample: Sample, constraint: Constraint, per: Per) -> Floats:
    """Return the lowest threshold at which each period that the rows cover keeps to a budget.

    A first or last day that the rows cover only in part says little about whole days.
    """
    periods = sample.columns.periods[per.period]
    covered = np.array([value not in periods.partial for value in periods.values])
    rows = sample.whole & covered[periods.codes]
    if not rows.any():
        rows = sample.whole
    present = np.unique(periods.codes[rows], return_inverse=True)[1]
    return day_thresholds(sample.scores[rows], present, int(constraint.level))


def _share_within(
    sample: Sample, goal: Goal, threshold: float, error: float
) -> tuple[str, float] | None:
    """Return the share of future periods that keep to a budget meant for every period."""
    budgets = [(c, per) for c in goal.constraints if (per := per_of(c.metric)) is not None]
    for constraint, per in budgets:
        if per.share == 1:
            at = _day_thresholds(sample, constraint, per)
            over = every_day_bound(len(at), 1 - error / len(budgets))
            if threshold < at.max():  # it was given beforehand
                over = share_bound(at, threshold, 1 - error / len(budgets), False)
            return per.period, float(np.floor(1e4 * (1 - over)) / 1e4)
    return None


# --- choosing, bounds ----------------------------------------------------------------------------


def _from(low: float) -> ThresholdSet:
    return ThresholdSet(((low, np.inf),))


def _common(first: ThresholdSet, second: ThresholdSet) -> ThresholdSet:
    """Return the thresholds that are in both sets."""
    found = [(max(a, c), min(b, d)) for a, b in first for c, d in second if max(a, c) < min(b, d)]
    return ThresholdSet(tuple(sorted(found)))


def _best(
    sample: Sample, testing: NDArray[np.bool_], goal: Goal, allowed: ThresholdSet
) -> float | None:
    """Return the allowed threshold with the best objective on the certification rows."""
    scores = sample.scores[testing].astype(np.float64)
    rows = CountedRows.of(sample.positive[testing], None, sample.columns.take(testing), goal)
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
    sample: Sample,
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
        if level is not None:
            return Bound(which, level, value, level if certified else None, "exact")
        if threshold is None:
            everywhere = _everywhere(sample, which, rows, 1 - confidence)
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


def _no_bound(sample: Sample, which: Metric) -> str:
    """Return why there is no bound on a metric."""
    if is_money(which) and not which.tallies[0].value:
        missing: Sequence[str] = [
            price.amount
            for price in prices_of(which).values()
            if price.amount and price.amount not in sample.caps
        ]
        if missing:
            return (
                f"a bound on {which} needs a cap on {missing[0]!r}, the largest amount that a row "
                f"can have: caps={{{missing[0]!r}: ...}} (--cap {missing[0]}=...)"
            )
    return f"there is no exact bound for {which}"
