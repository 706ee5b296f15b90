"""Prices and multipliers for a goal whose metrics are quotients, with constants computed once.

:func:`setpoint.training.descent.multiplier_step` and :func:`setpoint.method.capped_loss.prices` do
the same for every goal. For a metric (n0 + n1 TP + n2 FP) / (d0 + d1 TP + d2 FP), the derivatives
times the denominator's square are linear in the counts:

    in TP:  n1 d0 - n0 d1 + (n1 d2 - n2 d1) FP,      in FP:  n2 d0 - n0 d2 + (n2 d1 - n1 d2) TP

The square is positive and the same for both, so it does not change the ratio of the prices.
"""

from __future__ import annotations

import numpy as np

from setpoint.goals.goal import Constraint, Goal
from setpoint.method.capped_loss import Columns, unit_prices
from setpoint.training.descent import MULTIPLIER_LIMITS, SENSITIVITY, Counts


class QuotientPrices:
    """The prices of k models at their counts.

    Parameters
    ----------
    goal : Goal
        Its metrics must be quotients of linear functions.
    P, N : float
        The totals of the classes.
    dual_rate : float
        Step size of the multipliers.
    """

    def __init__(self, goal: Goal, P: float, N: float, dual_rate: float) -> None:
        fraction, sign = goal.objective.fraction, goal.objective.sign
        assert fraction is not None
        (n0, n1, n2), (d0, d1, d2) = fraction.numerator(P, N), fraction.denominator(P, N)
        self._worth = sign * (n1 * d0 - n0 * d1), sign * (n1 * d2 - n2 * d1)
        self._cost = sign * (n0 * d2 - n2 * d0), sign * (n1 * d2 - n2 * d1)
        self._constraints = [_Requirement(c, P, N) for c in goal.constraints]
        self._dual_rate = dual_rate

    def __call__(self, counts: Counts, multipliers: Columns) -> Columns:
        """Return the price of a positive and of a negative, shape (k, 2).

        The multipliers (constraints, k) are first updated in place.
        """
        tp, fp = counts
        worth, cost = unit_prices(
            self._worth[0] + self._worth[1] * fp, self._cost[0] + self._cost[1] * tp
        )
        for constraint, multiplier in zip(self._constraints, multipliers, strict=False):
            push = np.clip(SENSITIVITY * constraint.shortfall(counts), -1, 1)
            multiplier *= np.exp(self._dual_rate * push)
            np.clip(multiplier, *MULTIPLIER_LIMITS, out=multiplier)
            worth = worth + constraint.worth * multiplier
            cost = cost + constraint.cost * multiplier
        found = np.maximum(np.stack([worth, cost], axis=1), 0.0)
        return np.asarray(found / np.maximum(found.max(axis=1, keepdims=True), 1e-12))


class _Requirement:
    """A constraint, with its prices."""

    def __init__(self, constraint: Constraint, P: float, N: float) -> None:
        metric, level = constraint.metric, constraint.level
        assert metric.fraction is not None
        sign, self._bottom = metric.sign, metric.fraction.denominator(P, N)
        top = metric.fraction.numerator(P, N)
        # cleared = sign * (level * denominator - numerator)
        self._cleared = [sign * (level * d - n) for d, n in zip(self._bottom, top, strict=True)]
        self._size = constraint.size
        self._empty = float(np.nan_to_num(sign * (level - metric.fraction.empty))) / self._size
        self.worth, self.cost = map(float, unit_prices(-self._cleared[1], self._cleared[2]))

    def shortfall(self, counts: Counts) -> Columns:
        """Return the distance of the metric from its level; <= 0 where the constraint is met."""
        (c0, c1, c2), (d0, d1, d2), (tp, fp) = self._cleared, self._bottom, counts
        bottom = d0 + d1 * tp + d2 * fp
        missed = (c0 + c1 * tp + c2 * fp) / bottom / self._size
        return np.where(bottom > 0, missed, self._empty)
