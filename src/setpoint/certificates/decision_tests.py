"""Tests of the constraints that name segments, periods or amounts, at all thresholds at once.

There are three kinds of constraints, each with a test of its own:

- *rates* of all rows or of a segment, such as ``precision >= 0.9 for each region``
  (:mod:`setpoint.certificates.simultaneous`); each constraint is tested on its own rows;
- *budgets*, ``alarms <= 200 per day`` (:mod:`setpoint.certificates.periods`);
- *costs*, ``cost(fp=5, fn=amount) <= 3`` (:mod:`setpoint.certificates.costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.costs import CostCells, CostEverywhere, CostRows
from setpoint.certificates.nested import is_nested
from setpoint.certificates.periods import (
    certified_budget_threshold,
    day_thresholds,
    days_needed,
    every_day_bound,
    share_bound,
)
from setpoint.certificates.rates import p_value, rate_of, shortage
from setpoint.certificates.sequence import TalliedRows, counted, plan, try_in_order, worst_of
from setpoint.certificates.simultaneous import Plan, certified_thresholds, is_testable_anywhere
from setpoint.certificates.threshold_set import EVERY_THRESHOLD, NO_THRESHOLDS, ThresholdSet
from setpoint.goals.budgets import Per, on_or_in, per_of
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Constraint, Goal, format_metric
from setpoint.goals.metrics import RECALL, Metric, format_number
from setpoint.goals.money import is_money, prices_of
from setpoint.goals.tallies import PLAIN
from setpoint.thresholds.sweep import Floats

_LEAST_SHARE = 0.5  # of periods; a budget that is certified on fewer says nothing


class DecisionRows(NamedTuple):
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
        ranges = self.cost_ranges(which)
        if ranges is None:
            return None
        value = {}
        for outcome, price in prices_of(which).items():
            amount: Any = 1.0
            if price.amount:
                most = self.caps[price.amount]
                amount = np.minimum(self.columns.amounts[price.amount][rows], most)
            value[outcome] = -which.sign * price.factor * amount
        y = self.positive[rows]
        return CostRows.of(
            self.scores[rows],
            np.where(y, value["tp"], value["fp"]),
            np.where(y, value["fn"], value["tn"]),
            min(low for low, _ in ranges.values()),
            max(high for _, high in ranges.values()),
        )

    def cost_ranges(self, which: Metric) -> dict[str, tuple[float, float]] | None:
        """Return the least and largest cost of each outcome; None where a cap is missing.

        A profit is a negative cost.
        """
        found = {}
        for outcome, price in prices_of(which).items():
            if price.amount and price.amount not in self.caps:
                return None
            most = self.caps[price.amount] if price.amount else 1.0
            factor = -which.sign * price.factor
            ends = (0.0, factor * most) if price.amount else (factor,)
            found[outcome] = min(ends), max(ends)
        return found

    def largest_alike(self, which: Metric) -> float:
        """Return the largest mean cost of the better of alarms for all rows and for none.

        It is known without any rows.
        """
        ranges = self.cost_ranges(which) or {}
        most = {outcome: high for outcome, (_, high) in ranges.items()}
        return min(max(most["tp"], most["fp"]), max(most["fn"], most["tn"]))

    def above_cap(self, which: Metric) -> str:
        """Return how many rows have amounts above a cap, as text; empty if none has."""
        named = {price.amount for price in prices_of(which).values() if price.amount}
        counts = {n: int((self.columns.amounts[n] > self.caps[n]).sum()) for n in sorted(named)}
        return " and ".join(
            f"in {count:,} of {len(self.scores):,} rows {name} is above {self.caps[name]:,g}"
            for name, count in counts.items()
            if count
        )


class Outcome(NamedTuple):
    """What a test says: the thresholds that pass it, and why none does."""

    thresholds: ThresholdSet
    refusal: str = ""


def constraints_by_kind(goal: Goal) -> dict[str, tuple[Constraint, ...]]:
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


def tested(
    kind: str,
    sample: DecisionRows,
    testing: NDArray[np.bool_],
    goal: Goal,
    error: float,
    threshold: float | None,
    closest: Callable[[], float],
) -> Outcome:
    """Test the constraints of one kind, at one threshold or, if it is None, at all of them.

    If none passes, ``closest`` returns the one of which a refusal speaks.
    """
    if kind == "rates":
        return _test_rates(sample, testing, goal, error, threshold, closest)
    test = {
        "budgets": _test_budgets,
        "costs": _test_costs,
        "others": _test_others,
    }[kind]
    return test(sample, testing, goal, error, threshold)


def _test_rates(
    sample: DecisionRows,
    testing: NDArray[np.bool_],
    goal: Goal,
    error: float,
    threshold: float | None,
    closest: Callable[[], float],
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
    if found:
        return Outcome(found)
    return Outcome(
        NO_THRESHOLDS,
        _too_few(tests, goal, error)
        or _failing(
            tests, goal, error, closest() if threshold is None else threshold, threshold is not None
        ),
    )


def _too_few(tests: TalliedRows, goal: Goal, error: float) -> str:
    """Return which rates no threshold can show with so few rows, and how many are needed."""
    found = (shortage(c, *tests.of_constraint(c).totals, error) for c in goal.constraints)
    return _listed([text for text in found if text], "; ")


def _failing(tests: TalliedRows, goal: Goal, error: float, threshold: float, given: bool) -> str:
    """Return which rates fail at a threshold, the worst first, and what was observed there."""
    at = counted(tests, goal, np.array([threshold]))
    p = [float(p_value(c, *own)[0]) for c, own in zip(goal.constraints, at, strict=True)]
    worst_first = sorted(range(len(p)), key=lambda i: -p[i])
    failing = [i for i in worst_first if not p[i] <= error]
    shown = [_observed(goal.constraints[i], at[i]) for i in failing or worst_first[:1]]
    which = "the threshold given" if given else "the closest threshold"
    if failing:
        return f"at {which} the rows are not enough to certify: {_listed(shown, '; ')}"
    # Each test passes there, but the threshold was chosen by looking at the same rows.
    return (
        "the rows are not enough to certify a threshold that is chosen on them; at "
        f"{which} the weakest is: {shown[0]}"
    )


def _observed(constraint: Constraint, counts: tuple[Any, ...]) -> str:
    """Return the value of a rate with its counts: "precision[region=b] is 0.338 (45 of 133)"."""
    which, level = constraint.metric, format_number(constraint.level)
    rate = rate_of(which)
    assert rate is not None
    successes, trials = (int(x[0]) for x in rate.draws(*counts))
    required = f"{constraint.relation} {level} is required"
    if trials == 0:
        return f"no row counts towards {which} ({required})"
    value = rate.from_fraction(successes / trials)
    text = format_metric(value, constraint)
    return f"{which} is {text} ({successes:,} of {trials:,}; {required})"


def _listed(texts: Sequence[str], separator: str, most: int = 3) -> str:
    """Return the first texts, and how many more there are."""
    more = [f"and {len(texts) - most} more"] if len(texts) > most else []
    return separator.join([*texts[:most], *more])


def _test_budgets(
    sample: DecisionRows,
    testing: NDArray[np.bool_],
    goal: Goal,
    error: float,
    threshold: float | None,
) -> Outcome:
    """Test limits on the alarms per period, on the scores of all rows: labels do not matter."""
    found = EVERY_THRESHOLD
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
        needed = days_needed(min(per.share, _LEAST_SHARE), 1 - error / len(goal.constraints))
        if per.share == 1 and len(at) < needed:
            return Outcome(NO_THRESHOLDS, _too_few_periods(c, per, needed, len(at)))
        if threshold is not None:
            over = share_bound(at, threshold, 1 - error / len(goal.constraints), False)
            passes = not (at > threshold).any() if per.share == 1 else 1 - over >= per.share
            own = ThresholdSet.of_points([threshold] if passes else [])
        elif per.share == 1:  # what share of periods that guarantees is said with the result
            own = ThresholdSet.above(float(at.max()))
        else:
            lowest = certified_budget_threshold(at, per.share, 1 - error / len(goal.constraints))
            own = NO_THRESHOLDS if lowest is None else ThresholdSet.above(lowest)
        if not own and threshold is not None:
            over = int((at > threshold).sum())
            return Outcome(
                NO_THRESHOLDS,
                f"{on_or_in(per.period)} {over} of {len(at)} {per.period}s there are more alarms "
                f"than {format_number(c.level)}",
            )
        if not own:
            needed = days_needed(per.share, 1 - error / len(goal.constraints))
            return Outcome(NO_THRESHOLDS, _too_few_periods(c, per, needed, len(at)))
        found = found & own
    return Outcome(found)


def _too_few_periods(constraint: Constraint, per: Per, needed: int, there: int) -> str:
    """Return how many periods a budget needs."""
    budget = f"'{constraint.metric} <= {format_number(constraint.level)}'"
    return (
        f"{budget} needs at least {needed} {per.period}s of certification rows, and there "
        f"{'is' if there == 1 else 'are'} {there}"
    )


def _test_costs(
    sample: DecisionRows,
    testing: NDArray[np.bool_],
    goal: Goal,
    error: float,
    threshold: float | None,
) -> Outcome:
    """Test ceilings on the mean cost, and floors of the mean profit."""
    found = EVERY_THRESHOLD
    for c in goal.constraints:
        rows = sample.costs(c.metric, testing)
        if rows is None:
            return Outcome(NO_THRESHOLDS, no_bound(sample, c.metric))
        level, share = -c.metric.sign * c.level, error / len(goal.constraints)
        if threshold is not None:
            p = rows.sample(rows.at(threshold)).p_value(level, share)
            own = ThresholdSet.of_points([threshold] if p <= share else [])
        else:
            own = cost_everywhere(sample, c.metric, rows, share).certified(level)
        if not own:
            return Outcome(NO_THRESHOLDS, f"there are not enough rows to certify '{c}'")
        found = found & own
    return Outcome(found)


def _test_others(
    sample: DecisionRows,
    testing: NDArray[np.bool_],
    goal: Goal,
    error: float,
    threshold: float | None,
) -> Outcome:
    return Outcome(NO_THRESHOLDS, f"there is no exact bound for {goal.constraints[0].metric}")


def cost_everywhere(
    sample: DecisionRows, which: Metric, rows: CostRows, error: float
) -> CostEverywhere:
    """Return the bounds on the mean cost at all thresholds at once."""
    planning = sample.costs(which, sample.planning)
    assert planning is not None  # it has the same caps
    return CostEverywhere(rows, CostCells.of(planning, len(rows)), error, planning)


def _day_thresholds(sample: DecisionRows, constraint: Constraint, per: Per) -> Floats:
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


def shares_within(sample: DecisionRows, goal: Goal, error: float) -> tuple[tuple[str, float], ...]:
    """Return the share of future periods that keep to each budget meant for every period."""
    budgets = [(c, per) for c in goal.constraints if (per := per_of(c.metric)) is not None]
    found = []
    for constraint, per in budgets:
        if per.share == 1:
            at = _day_thresholds(sample, constraint, per)
            over = every_day_bound(len(at), 1 - error / len(budgets))
            found.append((per.period, float(np.floor(1e4 * (1 - over)) / 1e4)))
    return tuple(found)


def no_bound(sample: DecisionRows, which: Metric) -> str:
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
