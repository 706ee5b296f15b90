"""Counts at every cut of the scores, from one sort, and the best cut for a goal.

A cut lies between two distinct scores, so equal scores are never parted. The classes are sorted
apart: sorting values is several times faster than sorting indices, and the counts above a cut
follow by binary search. Cuts are evaluated in blocks, so memory stays near that of the scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
_BLOCK = 1 << 18  # cuts evaluated at once: a few megabytes, which stay in cache


class Ranking(Protocol):
    """What makes one cut better than another; a goal, most of the time."""

    @property
    def is_monotone(self) -> bool:
        """Whether a further true positive never hurts and a further false positive never helps."""
        ...

    def gain(self, tp: Any, fp: Any, P: float, N: float) -> Any:
        """Return what should be large."""
        ...

    def violation(self, tp: Any, fp: Any, P: float, N: float) -> Any:
        """Return what should be zero, before anything else."""
        ...


class Cut(NamedTuple):
    """The decision "score >= lowest_positive", and what it counts."""

    lowest_positive: float | None  # None: nothing is predicted positive
    tp: float
    fp: float


class ClassScores:
    """The scores of one class in ascending order, with the weight at or above any of them."""

    def __init__(self, scores: Floats, weights: Floats | None, member: NDArray[np.bool_]) -> None:
        own = _members(scores, member)
        if weights is None:
            own.sort()
            self.sorted = own
            self._weight_from: Floats | None = None
            self.total = float(len(own))
            return
        # Each array is dropped as soon as it has served: they are the largest of a sweep.
        order = np.argsort(own)
        self.sorted = own[order]
        del own
        weight_from = np.zeros(len(order) + 1)
        np.take(_members(weights, member), order, out=weight_from[:-1], mode="clip")
        del order
        # Summed from the top, so that the weight above the highest scores is exact.
        np.cumsum(weight_from[::-1], out=weight_from[::-1])
        self._weight_from = weight_from
        self.total = float(weight_from[0])

    def from_index(self, index: NDArray[np.intp]) -> Floats:
        """Return the weight of the sorted scores from each index on."""
        if self._weight_from is None:
            return (len(self.sorted) - index).astype(np.float64)
        return np.asarray(self._weight_from[index])

    def at_or_above(self, values: Floats) -> Floats:
        """Return the weight of the scores >= each value."""
        return self.from_index(np.searchsorted(self.sorted, values, side="left"))

    def above(self, values: Floats) -> Floats:
        """Return the weight of the scores > each value."""
        return self.from_index(np.searchsorted(self.sorted, values, side="right"))

    def distinct(self) -> Iterator[NDArray[np.intp]]:
        """Yield, in blocks, the index at which each distinct score occurs first."""
        for start in range(0, len(self.sorted), _BLOCK):
            block = self.sorted[start : start + _BLOCK]
            first = np.empty(len(block), dtype=bool)
            first[0] = start == 0 or block[0] != self.sorted[start - 1]
            np.not_equal(block[1:], block[:-1], out=first[1:])
            first &= block > -np.inf  # no threshold lies below -inf
            if first.any():
                yield start + np.flatnonzero(first)


def _members(values: Floats, member: NDArray[np.bool_]) -> Floats:
    """Return the values of a class.

    compress is three times as fast as a mask as the index, but it makes a list of all indices;
    so it is given blocks.
    """
    own = np.empty(np.count_nonzero(member), dtype=values.dtype)
    begin = 0
    for start in range(0, len(values), _BLOCK):
        part = np.compress(member[start : start + _BLOCK], values[start : start + _BLOCK])
        own[begin : begin + len(part)] = part
        begin += len(part)
    return own


def best_cut(positive: ClassScores, negative: ClassScores, goal: Ranking) -> Cut:
    """Return the best cut: feasible first, then the objective, then more TP, then fewer FP.

    Where no cut is feasible, the least violation comes before the objective. For a monotone goal
    only cuts just below a positive's score can be best: any other cut has the true positives of
    the next such cut above it and at least its false positives. They are the only ones computed.
    """
    P, N = positive.total, negative.total
    best = Cut(None, 0.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # quotients are 0/0 before they are chosen
        best_rank = rank_of(goal, best.tp, best.fp, P, N)
        for values, tp, fp in _cuts(positive, negative, all_cuts=not goal.is_monotone):
            i = best_index(goal, tp, fp, P, N)
            rank = rank_of(goal, tp[i], fp[i], P, N)
            if rank > best_rank:
                best, best_rank = Cut(float(values[i]), float(tp[i]), float(fp[i])), rank
    return best


def _cuts(
    positive: ClassScores, negative: ClassScores, all_cuts: bool
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield scores just above a cut, with TP and FP, in blocks."""
    for index in positive.distinct():
        values = positive.sorted[index]
        yield values, positive.from_index(index), negative.at_or_above(values)
    if all_cuts:
        for index in negative.distinct():
            values = negative.sorted[index]
            yield values, positive.at_or_above(values), negative.from_index(index)


def sort_keys(goal: Ranking, tp: Any, fp: Any, P: float, N: float) -> tuple[Any, Any, Any, Any]:
    """Return what cuts are ranked by: -violation, gain, TP and -FP, the most important first.

    The greater, the better. The one definition of "better" for cuts and operating points.
    """
    at = (tp, fp, P, N)
    return -goal.violation(*at), goal.gain(*at), tp, -fp


def best_index(goal: Ranking, tp: Floats, fp: Floats, P: float, N: float) -> int:
    """Return the index of the best cut, the first of equals."""
    least, *others = sort_keys(goal, tp, fp, P, N)
    candidates = np.flatnonzero(least == least.max())
    for key in others:
        kept = key[candidates]
        candidates = candidates[kept == kept.max()]
    return int(candidates[0])


def rank_of(goal: Ranking, tp: float, fp: float, P: float, N: float) -> tuple[float, ...]:
    """Return the sort keys of one cut as plain numbers."""
    keys = sort_keys(goal, np.float64(tp), np.float64(fp), P, N)
    return tuple(float(key) for key in keys)
