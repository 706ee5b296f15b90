"""Constraints that must be met with a margin of standard errors.

The best of many cuts on a few rows meets its constraints there by luck as much as by merit, and on
new rows it often misses them. A margin makes up for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.goals.goal import TOLERANCE, Constraint, Goal
from setpoint.goals.metrics import Counts, Metric, maximum, sqrt, where

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class WithMargin:
    """A ranking of cuts by a goal whose constraints must be met with a margin.

    A metric must exceed its level by ``margin`` standard errors. If no cut does, the cut that meets
    all levels and falls short of the margins by least is the best; no alarms at all, where
    precision is 1 by convention only, falls short by most. If no cut meets all levels, the ranking
    is that of the goal.

    Attributes
    ----------
    goal : Goal
        Objective and constraints.
    margin : float
        Standard errors, >= 0.
    row_weights : tuple of float
        The weight of a typical positive and of a typical negative, see :func:`row_weights_of`.
    """

    goal: Goal
    margin: float
    row_weights: tuple[float, float] = (1.0, 1.0)

    @property
    def is_monotone(self) -> bool:
        """Whether a further true positive never hurts and a further false positive never helps.

        With x successes and m failures, p = x / (x + m) exceeds a level c < p by
        t = ((1 - c) x - c m) / sqrt(x m / (x + m)) standard errors. t increases with x, as its
        logarithm's derivative is at least 1 / (2 (x + m)) + 1 / (2 x), and decreases with m. So
        p less its standard errors is monotone where it is positive, for one weight of all rows.
        """
        a, b = self.row_weights
        fractions = all(c.metric.population is not None for c in self.goal.constraints)
        return self.goal.is_monotone and fractions and a == b

    def gain(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the goal's gain."""
        return self.goal.gain(tp, fp, P, N)

    def violation(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return what the metrics less their margins fall short of their levels by, in total.

        It is at most the number k of constraints. Where a level itself is missed, it is k more than
        the goal's violation.
        """
        at, most = (tp, fp, P, N), float(len(self.goal.constraints))
        missed = self.goal.violation(*at)
        total: Any = 0.0 * missed
        for constraint in self.goal.constraints:
            short = _short_of_margin(constraint, self.margin, self.row_weights, *at)
            total = total + short * (short > TOLERANCE)
        capped = most - maximum(most - total, 0.0)
        return where(missed > 0, most + missed, capped)


def with_margin(goal: Goal, margin: float, row_weights: tuple[float, float]) -> Goal | WithMargin:
    """Return the ranking of cuts for a margin: the goal itself where there is nothing to exceed."""
    return WithMargin(goal, margin, row_weights) if margin and goal.constraints else goal


def _short_of_margin(
    constraint: Constraint,
    margin: float,
    row_weights: tuple[float, float],
    tp: Counts,
    fp: Counts,
    P: float,
    N: float,
) -> Any:
    """Return the shortfall plus the margin, at most that of the metric's worst value."""
    which, at = constraint.metric, (tp, fp, P, N)
    worst = which.bounds[0 if which.sign > 0 else 1]
    most = which.sign * (constraint.level - worst)
    found = constraint.shortfall(*at) + margin * standard_error(which, row_weights, *at)
    if np.isfinite(most):
        found = most - maximum(most - found, 0.0)
    if which.fraction is not None:  # a fraction of no rows says nothing
        _, trials = which.fraction.parts(*at)
        found = where(trials + 0.0 * tp > 0, found, most)
    return found


def standard_error(
    which: Metric, row_weights: tuple[float, float], tp: Counts, fp: Counts, P: float, N: float
) -> Any:
    """Return the standard error of a metric at a fixed threshold.

    A fraction of rows is binomial. Of other metrics, TP and FP are binomial, and the rest is the
    delta method. It is 0 where an estimate is not possible.
    """
    of_positive, of_negative = row_weights
    if which.population is not None and which.fraction is not None:
        own = {"positives": of_positive, "negatives": of_negative}
        size = own.get(which.population, max(row_weights))
        successes, trials = which.fraction.parts(tp, fp, P, N)
        trials = trials + 0.0 * tp
        safe = where(trials > 0, trials, 1.0)
        rate = successes / safe
        return sqrt(maximum(size * rate * (1 - rate), 0.0) / safe)
    variance: Any = 0.0 * (tp + fp)
    for slope, count, total, size in (
        (which.d_tp(tp, fp, P, N), tp, P, of_positive),
        (which.d_fp(tp, fp, P, N), fp, N, of_negative),
    ):
        found = slope * slope * maximum(size * count * (1 - count / total), 0.0)
        variance = variance + where(found < np.inf, found, 0.0)  # neither infinite nor NaN
    return sqrt(variance)


def row_weights_of(positive: NDArray[np.bool_], weight: Floats) -> tuple[float, float]:
    """Return by class, positives first, the sum of squared weights over the sum of weights.

    A class's total weight divided by it is the effective number of its rows (Kish, 1965).
    """
    found = []
    for own in (weight[positive].astype(float), weight[~positive].astype(float)):
        total = float(own.sum())
        found.append(float((own * own).sum()) / total if total > 0 else 1.0)
    return found[0], found[1]
