"""Counts at every cut of the scores, from one sort, and the best cut for a goal.

A cut lies between two distinct scores, so equal scores are never parted. The classes are sorted
apart: sorting values is several times faster than sorting indices, and the counts above a cut
follow by binary search. Cuts are evaluated in blocks, so memory stays near that of the scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.goals import Goal

Floats = NDArray[np.floating]
_BLOCK = 1 << 18  # cuts evaluated at once: a few megabytes, which stay in cache


class Cut(NamedTuple):
    """The decision "score >= lowest_positive", and what it counts."""

    lowest_positive: float | None  # None: nothing is predicted positive
    tp: float
    fp: float


class ClassScores:
    """The scores of one class in ascending order, with the weight at or above any value."""

    def __init__(self, scores: Floats, weights: Floats | None) -> None:
        if weights is None:
            self.sorted = np.sort(scores)
            self._cumulated = None
            self.total = float(len(scores))
        else:
            order = np.argsort(scores, kind="stable")
            self.sorted = scores[order]
            # Summed from the top, so that the weight above the highest scores is exact.
            self._cumulated = np.zeros(len(scores) + 1)
            np.cumsum(weights[order[::-1]], out=self._cumulated[1:])
            self.total = float(self._cumulated[-1])

    def at_or_above(self, values: Floats) -> Floats:
        """Return the weight of the scores >= each value."""
        count = len(self.sorted) - np.searchsorted(self.sorted, values, side="left")
        if self._cumulated is None:
            return count.astype(np.float64)
        return np.asarray(self._cumulated[count])


def best_cut(positive: ClassScores, negative: ClassScores, goal: Goal) -> Cut:
    """Return the best cut: feasible first, then the objective, then more TP, then fewer FP.

    Where no cut is feasible, the least violation comes before the objective. For a monotone goal
    only cuts just below a positive's score can be best: any other cut has the true positives of
    the next such cut above it and at least its false positives. They are the only ones computed.
    """
    P, N = positive.total, negative.total
    values = _distinct(positive.sorted)
    if not goal.is_monotone:
        values = _distinct(np.sort(np.concatenate([values, _distinct(negative.sorted)])))
    if len(values) and values[0] == -np.inf:
        values = values[1:]  # no threshold lies below -inf
    best = Cut(None, 0.0, 0.0)
    best_rank = _rank(goal, best.tp, best.fp, P, N)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        tp, fp = positive.at_or_above(block), negative.at_or_above(block)
        i = _best_index(goal, tp, fp, P, N)
        rank = _rank(goal, tp[i], fp[i], P, N)
        if rank > best_rank:
            best, best_rank = Cut(float(block[i]), float(tp[i]), float(fp[i])), rank
    return best


def _best_index(goal: Goal, tp: Floats, fp: Floats, P: float, N: float) -> int:
    violation, gain = goal.violation(tp, fp, P, N), goal.gain(tp, fp, P, N)
    candidates = np.flatnonzero(violation == violation.min())
    for key in (gain, tp, -fp):
        kept = key[candidates]
        candidates = candidates[kept == kept.max()]
    return int(candidates[0])


def _rank(goal: Goal, tp: float, fp: float, P: float, N: float) -> tuple[float, ...]:
    return (
        -float(goal.violation(tp, fp, P, N)),
        float(goal.gain(tp, fp, P, N)),
        float(tp),
        -float(fp),
    )


def _distinct(ascending: Floats) -> Floats:
    """Return each value once, without the second sort of ``numpy.unique``."""
    if len(ascending) < 2:
        return ascending
    keep = np.empty(len(ascending), dtype=bool)
    keep[0] = True
    np.not_equal(ascending[1:], ascending[:-1], out=keep[1:])
    return ascending if keep.all() else ascending[keep]
