"""Counts at every cut of the scores, from one sort, the best cut for a goal, and its threshold.

A cut lies between two distinct scores, so equal scores are never separated. Each class is sorted
by itself: sorting values is several times faster than sorting indices, and the counts above a cut
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
    """A ranking of cuts, usually a goal."""

    @property
    def is_monotone(self) -> bool:
        """Whether a further true positive never hurts and a further false positive never helps."""
        ...

    def plain(self, counts: Any) -> Any:
        """Return the counts of all rows alike."""
        ...

    def gain(self, tp: Any, fp: Any, P: Any, N: Any) -> Any:
        """Return the value to maximise among cuts of equal violation."""
        ...

    def violation(self, tp: Any, fp: Any, P: Any, N: Any) -> Any:
        """Return the value >= 0 to minimise first."""
        ...


class Cut(NamedTuple):
    """The decision "score >= lowest_positive" and its counts."""

    lowest_positive: float | None  # None: nothing is predicted positive
    tp: Any
    fp: Any


class ClassScores:
    """The scores of one class in ascending order, with the weight at or above any of them."""

    def __init__(self, scores: Floats, weights: Floats | None, member: NDArray[np.bool_]) -> None:
        scores = members(scores, member)
        if weights is None:
            scores.sort()
            self.sorted = scores
            self._weight_from: Floats | None = None
            self.total = float(len(scores))
            return
        # Each array is deleted after its last use: they are the largest of a sweep.
        order = np.argsort(scores)
        self.sorted = scores[order]
        del scores
        weight_from = np.zeros(len(order) + 1)
        np.take(members(weights, member), order, out=weight_from[:-1], mode="clip")
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


def members(values: Floats, member: NDArray[np.bool_]) -> Floats:
    """Return the values of a class.

    compress is three times as fast as indexing with a mask, but it makes a list of all indices;
    hence the blocks.
    """
    found = np.empty(np.count_nonzero(member), dtype=values.dtype)
    begin = 0
    for start in range(0, len(values), _BLOCK):
        block = np.compress(member[start : start + _BLOCK], values[start : start + _BLOCK])
        found[begin : begin + len(block)] = block
        begin += len(block)
    return found


def best_cut(positive: ClassScores, negative: ClassScores, goal: Ranking) -> Cut:
    """Return the best cut: feasible first, then the objective, then more TP, then fewer FP.

    Where no cut is feasible, the least violation comes before the objective. For a monotone goal
    only cuts just below a positive's score are computed: any other cut has the true positives of
    the next such cut above it, and at least its false positives.
    """
    P, N = positive.total, negative.total
    best = Cut(None, 0.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is replaced after the division
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
    """Yield the lowest positive scores of cuts, with TP and FP, in blocks."""
    for index in positive.distinct():
        values = positive.sorted[index]
        yield values, positive.from_index(index), negative.at_or_above(values)
    if all_cuts:
        for index in negative.distinct():
            values = negative.sorted[index]
            yield values, positive.at_or_above(values), negative.from_index(index)


def sort_keys(goal: Ranking, tp: Any, fp: Any, P: Any, N: Any) -> tuple[Any, Any, Any, Any]:
    """Return the keys that rank cuts, most important first: -violation, gain, TP and -FP.

    Greater is better. All comparisons of cuts and operating points use this order.
    """
    at = (tp, fp, P, N)
    return -goal.violation(*at), goal.gain(*at), goal.plain(tp), -goal.plain(fp)


def best_index(goal: Ranking, tp: Floats, fp: Floats, P: Any, N: Any) -> int:
    """Return the index of the best cut, the first one of several."""
    least, *others = sort_keys(goal, tp, fp, P, N)
    candidates = np.flatnonzero(least == least.max())
    for key in others:
        values = key[candidates]
        candidates = candidates[values == values.max()]
    return int(candidates[0])


def rank_of(goal: Ranking, tp: Any, fp: Any, P: Any, N: Any) -> tuple[float, ...]:
    """Return the sort keys of one cut as plain numbers."""
    keys = sort_keys(goal, np.float64(tp), np.float64(fp), P, N)
    return tuple(float(key) for key in keys)


def threshold_below(lowest_positive: float | None, *classes: Floats) -> float:
    """Return a threshold between a score and the next lower one of all classes.

    Above the highest or below the lowest score it keeps half the distance to the next one, so that
    it does not depend on the last bit of a score.
    """
    dtype = classes[0].dtype.type
    if lowest_positive is None:
        high = max(c[-1] for c in classes if len(c))
        low = _neighbour(high, classes, -1)
        return _beyond(high, low, np.inf)
    high = dtype(lowest_positive)
    low = _neighbour(high, classes, -1)
    if low is None:  # everything is positive
        return _beyond(high, _neighbour(high, classes, +1), -np.inf)
    with np.errstate(invalid="ignore"):  # infinite scores
        middle = low / 2 + high / 2  # not (low + high) / 2, which may overflow
    # The middle of neighbouring floats rounds to one of them; `score > low` is right as well.
    return float(middle if low <= middle < high else low)


def _neighbour(score: Any, classes: tuple[Floats, ...], side: int) -> Any:
    """Return the next lower (-1) or higher (+1) score of all classes, or None."""
    if side < 0:
        found = [c[i - 1] for c in classes if (i := np.searchsorted(c, score, "left")) > 0]
        return max(found, default=None)
    found = [c[i] for c in classes if (i := np.searchsorted(c, score, "right")) < len(c)]
    return min(found, default=None)


def _beyond(end: Any, inner: Any, towards: float) -> float:
    """Return a threshold outside the scores, half the last gap away from the last one."""
    dtype = type(end)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = dtype(0) if inner is None else abs(end / 2 - inner / 2)
        there = end + dtype(np.sign(towards)) * max(gap, 8 * abs(np.spacing(end)))
        if not (there > end if towards > 0 else there < end):  # no room, or infinite scores
            there = end if towards > 0 else np.nextafter(end, dtype(towards))
    return float(there)
