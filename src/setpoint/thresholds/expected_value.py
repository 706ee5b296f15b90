"""Decisions by expected value: an alarm where it is expected to cost less than none.

With the probability p of a positive and the prices of a row's four outcomes, an alarm costs
p tp + (1 - p) fp on average, and no alarm p fn + (1 - p) tn. The difference,

    saving = p (fn - tp) - (1 - p) (fp - tn),

is the *expected saving* of an alarm. Where prices differ from row to row, each row has a threshold
of its own in p. The rule is the best one if probabilities are calibrated; the single threshold of
:func:`setpoint.choose_threshold` assumes nothing, but treats all rows alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.listing import aligned
from setpoint.errors import GoalError, SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal, format_metric
from setpoint.goals.metrics import PRECISION, RECALL
from setpoint.goals.money import is_money, prices_of
from setpoint.thresholds.checks import check_rows
from setpoint.thresholds.choose import best_point_of, point_at
from setpoint.thresholds.operating_point import OperatingPoint

Floats = NDArray[np.floating]


def check_prices(goal: Goal) -> None:
    """Raise GoalError unless the objective is a cost or a profit."""
    if not is_money(goal.objective) or goal.objective.tallies[0].value:
        raise GoalError(
            f"decisions by expected value need prices; the objective of '{goal}' is "
            f"{goal.objective}. Write e.g. 'min cost(fp=5, fn=amount)'."
        )


def expected_saving(probability: Floats, goal: Goal, amounts: Mapping[str, Floats]) -> Floats:
    """Return what an alarm on each row is expected to save, compared with none.

    Parameters
    ----------
    probability : ndarray of shape (n,)
        Of a positive, calibrated.
    goal : Goal
        Its objective has the prices.
    amounts : mapping of str to ndarray
        The amounts that it names.
    """
    check_prices(goal)
    price: dict[str, Any] = {
        outcome: found.factor * (amounts[found.amount] if found.amount else 1.0)
        for outcome, found in prices_of(goal.objective).items()
    }
    sign = -goal.objective.sign  # of a profit, the prices are gains
    worth, cost = price["fn"] - price["tp"], price["fp"] - price["tn"]
    return np.asarray(sign * (probability * worth - (1 - probability) * cost))


def check_probability(given: ArrayLike) -> Floats:
    """Return probabilities as an array; raise SetpointError if some are not between 0 and 1."""
    probability = np.asarray(given, dtype=np.float64)
    wrong = ~((probability >= 0) & (probability <= 1))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise SetpointError(
            f"{int(wrong.sum()):,} of {len(probability):,} probabilities are not between 0 and 1, "
            f"the first at position {first} ({probability.flat[first]:g}); decisions by expected "
            "value need calibrated probabilities, e.g. from CalibratedClassifierCV."
        )
    return probability


@dataclass(frozen=True)
class DecisionTable:
    """Ways to decide on the same rows, with their operating points; ``print`` shows a table.

    Attributes
    ----------
    points : dict of OperatingPoint
        By name: the single threshold, decisions by expected value, no alarms and all alarms.
    """

    points: dict[str, OperatingPoint]

    @property
    def best(self) -> str:
        """The name of the best way to decide on these rows."""
        return max(self.points, key=lambda name: self.points[name].sort_key)

    def __getitem__(self, name: str) -> OperatingPoint:
        return self.points[name]

    def rows(self) -> list[list[str]]:
        """Return the table as texts, its header first."""
        goal = next(iter(self.points.values())).goal
        metrics = {m.name: m for m in (*goal.metrics, PRECISION, RECALL)}
        rows = [["decision", *metrics, "alarms", "constraints met"]]
        for name, point in self.points.items():
            values = [format_metric(point.value(name), which=m) for name, m in metrics.items()]
            met = "yes" if point.feasible else "no"
            rows.append([name, *values, f"{point.tp + point.fp:,.0f}", met])
        return rows if goal.constraints else [row[:-1] for row in rows]

    def __str__(self) -> str:
        return "\n".join(aligned(self.rows()))


def compare_decisions(
    y: ArrayLike,
    probability: ArrayLike,
    goal: str | Goal,
    *,
    amounts: Mapping[str, ArrayLike] | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> DecisionTable:
    """Compare a single threshold with decisions by expected value, row by row.

    The single threshold is the best one on these rows, which favours it slightly. Where the goal
    has constraints, the threshold of the expected saving is also the best one here; otherwise it
    is 0.

    Parameters
    ----------
    y, goal, amounts, segments, times, sample_weight, pos_label, on
        As for :func:`setpoint.choose_threshold`; the objective is a cost or a profit.
    probability : array-like of shape (n,)
        Calibrated probabilities of a positive.

    Examples
    --------
    >>> from setpoint import compare_decisions
    >>> y = [1, 0, 1, 0, 0, 1]
    >>> p = [0.9, 0.6, 0.4, 0.3, 0.2, 0.1]
    >>> amount = [200, 3, 300, 9, 8, 3]
    >>> table = compare_decisions(y, p, "min cost(fp=5, fn=amount)", amounts={"amount": amount})
    >>> table["single threshold"].objective, table["expected value"].objective
    (1.3333333333333333, 0.5)
    """
    goal = Goal.parse(goal)
    check_prices(goal)
    positive, p, weights, columns = check_rows(
        y, check_probability(probability), goal, sample_weight, amounts, segments, times, pos_label
    )
    return decisions_on(positive, p, weights, columns, goal, on)


def decisions_on(
    positive: NDArray[np.bool_],
    probability: Floats,
    weights: Floats | None,
    columns: GoalColumns,
    goal: Goal,
    on: str,
) -> DecisionTable:
    """Return the comparison on validated rows."""
    rows = positive, weights, columns, goal
    saving = expected_saving(probability, goal, columns.amounts)
    nothing = np.zeros(len(positive), dtype=bool)

    def decided(alarm: NDArray[np.bool_], threshold: float) -> OperatingPoint:
        return point_at(positive, alarm, weights, columns, goal, threshold, on)

    single = best_point_of(positive, probability, *rows[1:], on)
    valued = decided(saving > 0, 0.0)
    if goal.constraints:
        valued = best_point_of(positive, saving, *rows[1:], on)
    return DecisionTable(
        {
            "single threshold": single,
            "expected value": valued,
            "no alarms": decided(nothing, np.inf),
            "all alarms": decided(~nothing, -np.inf),
        }
    )
