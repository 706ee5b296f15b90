"""Branch and bound over ranges of scores, for the exact threshold of a stream.

A range of keys has exact counts at both ends. They bound the violation and the gain of every cut
inside it, so a range whose bound is worse than the best cut so far is excluded.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.goals.goal import TOLERANCE, Goal
from setpoint.goals.metrics import Metric
from setpoint.thresholds.caution import Cautious
from setpoint.thresholds.histogram import BUCKETS, to_keys
from setpoint.thresholds.sweep import best_index, rank_of

# Memory limits of a pass: 64 tables of 1 MiB, or 2 MiB if rows have weights, and a million rows
# that take up to 200 bytes each when they are sorted; about 330 MB, and usually a tenth of that.
_TABLES = 64
_COLLECTED = 1 << 20
# Bounds are compared with this tolerance for rounding errors of metrics and weighted sums.
_SLACK = 2 * TOLERANCE


Floats = NDArray[np.float64]


class KeyRanges(NamedTuple):
    """Ranges of keys that do not overlap.

    Attributes
    ----------
    first : ndarray of uint64
        The lowest key.
    bits : ndarray of uint64
        A range is 2**bits keys long; 0 is a single score.
    below : ndarray of uint64
        For a single score: the next lower key of a row, or ``first`` if it is not known.
    tp, fp : ndarray
        Weights of the positives and of the negatives in the range or above it.
    positive, negative : ndarray
        Weights of the positives and of the negatives in the range.
    rows : ndarray
        The number of rows in the range.
    """

    first: NDArray[np.uint64]
    bits: NDArray[np.uint64]
    below: NDArray[np.uint64]
    tp: Floats
    fp: Floats
    positive: Floats
    negative: Floats
    rows: Floats

    def take(self, which: NDArray[np.generic]) -> KeyRanges:
        """Return some of the ranges."""
        return KeyRanges(*(column[which] for column in self))

    @property
    def last(self) -> NDArray[np.uint64]:
        """The highest key of each range."""
        return self.first + ((np.uint64(1) << self.bits) - np.uint64(1))


_EMPTY = KeyRanges(*np.empty((3, 0), dtype=np.uint64), *np.empty((5, 0)))


def concatenate(parts: Iterable[KeyRanges]) -> KeyRanges:
    """Return all ranges as one object."""
    return KeyRanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def subranges(
    parent: tuple[float, float, float, float],
    first: NDArray[np.uint64],
    bits: int,
    weights: Floats,
    rows: Floats,
) -> KeyRanges:
    """Return the subranges of a range, in ascending order.

    Parameters
    ----------
    parent : tuple of float
        TP and FP of the whole range, then the weights of positives and negatives above it.
    first, bits
        The lowest key and the size of each subrange.
    weights : ndarray of shape (2, n)
        Weights of negatives and positives in each.
    rows : ndarray of shape (n,)
        The number of rows in each.
    """
    tp, fp, tp_above, fp_above = parent
    negative, positive = weights
    tps = np.minimum(np.cumsum(positive[::-1])[::-1] + tp_above, tp)
    fps = np.minimum(np.cumsum(negative[::-1])[::-1] + fp_above, fp)
    tps[:1], fps[:1] = tp, fp  # exact, without the rounding of the sum
    below = np.concatenate((first[:1], first[:-1]))
    return KeyRanges(
        first,
        np.full(len(first), bits, dtype=np.uint64),
        below,
        tps,
        fps,
        positive,
        negative,
        rows,
    )


class Best(NamedTuple):
    """The best cut so far: the key of its lowest positive, and the next lower key if known."""

    key: int | None  # None: nothing is positive
    below: int | None
    tp: float
    fp: float
    rank: tuple[float, ...]


class Group(NamedTuple):
    """Ranges to resolve in one pass, in ascending order: ``counted`` by subrange, or collected."""

    ranges: KeyRanges
    counted: NDArray[np.bool_]


class CutSearch:
    """The best cut among the known scores, and the ranges that may still hold a better one."""

    def __init__(
        self, goal: Goal | Cautious, dtype: np.dtype[np.floating], P: float, N: float
    ) -> None:
        self._goal, self._P, self._N = goal, P, N
        self._lowest = np.uint64(to_keys(np.array(-np.inf, dtype=dtype)))
        with np.errstate(divide="ignore", invalid="ignore"):
            rank = rank_of(goal, 0.0, 0.0, P, N)
        self.best = Best(None, None, 0.0, 0.0, rank)
        self._reached = rank[:2]  # by some cut, whose score may not be known yet
        self._scale = [1.0, abs(rank[1])]
        self._open = _EMPTY

    def consider(self, ranges: KeyRanges) -> None:
        """Add ranges that a pass has resolved."""
        ranges = ranges.take(ranges.last > self._lowest)  # no threshold lies below -inf
        if not len(ranges.first):
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            self._note_edges(ranges)
            if self._goal.is_monotone:  # the best cut is just below a positive's score
                ranges = ranges.take(ranges.positive > 0)
            single = ranges.bits == 0
            self._choose(ranges.take(single))
        self._open = concatenate((self._open, ranges.take(~single)))

    def _note_edges(self, ranges: KeyRanges) -> None:
        """Update the best violation and gain: the lower ends of ranges are cuts as well."""
        at = (ranges.tp, ranges.fp, self._P, self._N)
        violation, gain = self._goal.violation(*at), self._goal.gain(*at)
        i = np.lexsort((-gain, violation))[0]
        self._reached = max(self._reached, (-float(violation[i]), float(gain[i])))
        self._scale[0] = max(self._scale[0], float(violation.max()))
        self._scale[1] = max(self._scale[1], float(np.abs(gain).max()))

    def _choose(self, cuts: KeyRanges) -> None:
        if not len(cuts.first):
            return
        i = best_index(self._goal, cuts.tp, cuts.fp, self._P, self._N)
        rank = rank_of(self._goal, cuts.tp[i], cuts.fp[i], self._P, self._N)
        if rank > self.best.rank:
            key, below = int(cuts.first[i]), int(cuts.below[i])
            known = below if below < key else None
            self.best = Best(key, known, float(cuts.tp[i]), float(cuts.fp[i]), rank)

    def next_group(self) -> Group:
        """Return the most promising ranges that memory allows, for the next pass."""
        ranges = self._open
        violation, gain = bounds(ranges, self._goal, self._P, self._N)
        # Exclude ranges whose bound is worse than the best cut by more than rounding.
        may = violation <= -self._reached[0] + _SLACK * self._scale[0]
        if self._reached[0] == 0:
            may &= gain >= self._reached[1] - _SLACK * self._scale[1]
        order = np.flatnonzero(may)
        order = order[np.lexsort((-gain[order], violation[order]))]
        collected, counted = _within_memory(order, ranges.rows)
        self._open = ranges.take(may & ~collected & ~counted)
        chosen = np.flatnonzero(collected | counted)
        chosen = chosen[np.argsort(ranges.first[chosen])]
        return Group(ranges.take(chosen), counted[chosen])


def _within_memory(
    order: NDArray[np.intp], rows: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which ranges to collect and which to count in the next pass; at least one range."""
    collected, counted = np.zeros((2, len(rows)), dtype=bool)
    room, tables = _COLLECTED, _TABLES
    for i, n in zip(order.tolist(), rows[order].tolist(), strict=True):
        if n <= room:
            room -= n
            collected[i] = True
        elif tables and n > min(_COLLECTED, BUCKETS):  # fewer rows need less memory than a table
            tables -= 1
            counted[i] = True
    return collected, counted


def bounds(ranges: KeyRanges, goal: Goal | Cautious, P: float, N: float) -> tuple[Floats, Floats]:
    """Return a lower bound of the violation and an upper bound of the gain in each range.

    The counts of a cut lie between those at the two ends of its range. A monotone metric is best
    where TP is largest and FP smallest, a quotient of linear functions at one of the four corners;
    other metrics have no bound. Caution adds at most its own value to the gain, in the objective's
    unit.
    """
    if isinstance(goal, Cautious):
        violation, gain = bounds(ranges, goal.goal, P, N)
        if not goal.is_monotone:
            return violation, gain + goal.caution * goal.unit(P, N)
        with np.errstate(divide="ignore", invalid="ignore"):
            best = goal.gain(ranges.tp, ranges.fp - ranges.negative, P, N)
        return violation, np.asarray(best)
    with np.errstate(divide="ignore", invalid="ignore"):
        violation = np.zeros(len(ranges.first))
        for constraint in goal.constraints:
            which = constraint.metric
            missed = which.sign * constraint.level - _optimistic(which, ranges, P, N)
            shortfall = missed / constraint.size
            violation += np.where(shortfall > TOLERANCE, shortfall, 0.0)
        return violation, _optimistic(goal.objective, ranges, P, N)


def _optimistic(which: Metric, ranges: KeyRanges, P: float, N: float) -> Floats:
    """Return an upper bound of the metric in each range, negated where lower is better."""
    low, high = (ranges.tp, ranges.fp), (ranges.tp - ranges.positive, ranges.fp - ranges.negative)
    if which.monotone:
        return np.asarray(which.sign * which.value(low[0], high[1], P, N))
    if which.fraction is None:
        return np.full(len(ranges.first), np.inf)
    corners = product((low[0], high[0]), (low[1], high[1]))
    values = [which.sign * which.value(tp, fp, P, N) for tp, fp in corners]
    return np.asarray(np.max(values, axis=0))
