"""Cuts ranked by their objective and by how likely their constraints hold on new rows.

The best of many cuts on a few rows just meets its constraints there, by luck as much as by merit,
and misses them on most other rows. To exceed a level costs objective: next to nothing with some
models, nearly all of it with others. So what is given up is weighed against what it brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr

from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.linear_fraction import Counts, maximum, sqrt, where
from setpoint.goals.metrics import Metric

Floats = NDArray[np.floating]
# Standard errors by which the best of many cuts of many models looks better than it is, about.
_OPTIMISM = 2.0


@dataclass(frozen=True)
class Cautious:
    """A ranking of cuts by gain + caution * probability that the constraints hold on new rows.

    The probability of a constraint is the normal one for the standard errors by which its metric
    exceeds its level, less two for the choice among many cuts; those of several constraints are
    multiplied. The violation is the goal's: a cut must meet its constraints as without caution.

    Attributes
    ----------
    goal : Goal
        Objective and constraints.
    caution : float
        The most of the objective that is given up for constraints that hold.
    row_weights : tuple of float
        The weight of a typical positive and of a typical negative, see :func:`row_weights_of`. A
        goal of several tallies has two numbers for each.
    """

    goal: Goal
    caution: float
    row_weights: tuple[float, ...] = (1.0, 1.0)

    @property
    def is_monotone(self) -> bool:
        """Whether a further true positive never hurts and a further false positive never helps.

        With x successes and m failures, x / (x + m) exceeds a level c by a multiple of
        t = ((1 - c) x - c m) / sqrt(x + m) standard errors. Its derivative in x has the sign of
        (1 - c) (2 m + x) + c m > 0, that in m the sign of -(2 c x + c m + (1 - c) x) < 0. The
        continuity correction makes t = max((1 - c) x - c m - 1/2, 0) / sqrt(x + m) of a t > 0,
        which adds 1/2 to the first and, as the numerator is not negative, leaves the second < 0.
        """
        return self.goal.is_monotone and all(_is_rate(c.metric) for c in self.goal.constraints)

    def plain(self, counts: Counts) -> Any:
        """Return the counts of all rows alike."""
        return self.goal.plain(counts)

    def gain(self, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return the goal's gain, plus what the probability of its constraints is worth."""
        probability: Any = 1.0
        for constraint in self.goal.constraints:
            own = self.goal.counts_of(constraint.metric, tp, fp, P, N)
            weights = self._row_weights_of(constraint.metric)
            probability = probability * _normal(errors_above(constraint, weights, *own) - _OPTIMISM)
        return self.goal.gain(tp, fp, P, N) + self.caution * self.unit(P, N) * probability

    def _row_weights_of(self, which: Metric) -> tuple[float, float]:
        """Return the weights of typical rows in a metric's tally, the last one of several."""
        place = self.goal.tallies.index(which.tallies[-1])
        positive, negative = self.row_weights[2 * place : 2 * place + 2]
        return positive, negative

    def unit(self, P: Any, N: Any) -> float:
        """Return what all of the objective is: 1, or what perfect decisions save.

        A cost has no bounds; without alarms it is what the positives cost.
        """
        if self.goal.objective.is_bounded:
            return 1.0
        at = (np.asarray(P, dtype=float), np.asarray(N, dtype=float))
        perfect, nothing = (self.goal.gain(tp, 0.0 * at[0], *at) for tp in (at[0], 0.0 * at[0]))
        return abs(float(perfect - nothing))

    def violation(self, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return the goal's violation."""
        return self.goal.violation(tp, fp, P, N)


def cautious(goal: Goal, caution: float, row_weights: tuple[float, ...]) -> Goal | Cautious:
    """Return the ranking of cuts: the goal itself without caution, or without constraints."""
    return Cautious(goal, caution, row_weights) if caution and goal.constraints else goal


def errors_above(
    constraint: Constraint,
    row_weights: tuple[float, float],
    tp: Counts,
    fp: Counts,
    P: float,
    N: float,
) -> Any:
    """Return the standard errors by which a metric exceeds its level; -inf for one of no rows.

    A fraction of rows has the standard error of a binomial whose probability is the level, and a
    continuity correction: without it, two alarms of two would seem to meet a low floor. For other
    metrics TP and FP are binomial, and the rest is the delta method. Where there is no
    standard error, the metric counts as at its level.
    """
    which, at = constraint.metric, (tp, fp, P, N)
    above = -constraint.shortfall(*at)
    if len(which.tallies) == 1:
        above = above + 0.0 * tp
    if not _is_rate(which):
        if not which.is_bounded:
            # The shortfall is relative to the level. Counts of alarms vary like Poisson numbers.
            known = 1 / max(constraint.level, 1.0) ** 0.5 if which.fraction is None else None
            error = known or _delta_error(which, row_weights, *at) / constraint.size
            return above / maximum(error, 1e-300)
        error = _delta_error(which, row_weights, *at)
        return where(error > 0, above / where(error > 0, error, 1.0), 0.0)
    assert which.fraction is not None
    known = {"positives": row_weights[0], "negatives": row_weights[1]}
    size = known.get(str(which.population), max(row_weights))
    variance = size * constraint.level * (1 - constraint.level)
    _, rows = which.fraction.parts(*at)
    rows = maximum(rows + 0.0 * tp, 0.0)
    half_a_row = size / 2 / maximum(rows, 1e-300)
    above = where(above > 0, maximum(above - half_a_row, 0.0), above)
    found = above * sqrt(rows / variance) if variance > 0 else 0.0 * above
    return where(rows > 0, found, -np.inf)  # e.g. precision, without alarms


def _is_rate(which: Metric) -> bool:
    return which.population is not None and which.fraction is not None


def _delta_error(
    which: Metric, row_weights: tuple[float, float], tp: Counts, fp: Counts, P: Any, N: Any
) -> Any:
    variance: Any = 0.0 * (tp + fp)
    for slope, count, total, size in (
        (which.d_tp(tp, fp, P, N), tp, P, row_weights[0]),
        (which.d_fp(tp, fp, P, N), fp, N, row_weights[1]),
    ):
        if len(which.tallies) > 1:
            total = np.reshape(total, (-1, *[1] * (np.ndim(count) - 1)))
        found = slope * slope * maximum(size * count * (1 - count / total), 0.0)
        variance = variance + where(found < np.inf, found, 0.0)  # neither infinite nor NaN
    return sqrt(variance if len(which.tallies) == 1 else variance.sum(axis=0))


def _normal(x: Any) -> Any:
    """Return the normal probability of a value below x."""
    return torch.special.ndtr(x) if isinstance(x, torch.Tensor) else ndtr(x)


def row_weights_of(
    positive: NDArray[np.bool_], weight: Floats, factors: Floats | None = None
) -> tuple[float, ...]:
    """Return by class, positives first, the sum of squared weights over the sum of weights.

    A class's total weight divided by it is the effective number of its rows (Kish, 1965). With
    ``factors``, shape (n, tallies), there are two numbers for each tally.
    """
    found = []
    columns = [weight] if factors is None else [weight * factor for factor in factors.T]
    for column in columns:
        for own in (column[positive].astype(float), column[~positive].astype(float)):
            total = float(own.sum())
            found.append(float((own * own).sum()) / total if total > 0 else 1.0)
    return tuple(found)
