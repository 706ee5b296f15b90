"""Branch and bound over ranges of scores: which ones cannot hold the best cut, which are next.

A range of keys has exact counts at both ends. They bound the violation and the gain of every cut
inside it, so a range whose bound is worse than the best cut so far is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.goals.goal import TOLERANCE, Goal
from setpoint.goals.metrics import Metric
from setpoint.thresholds.histogram import BUCKETS, to_keys
from setpoint.thresholds.sweep import best_index, rank_of

# What a pass may hold at most: 64 tables of 1 MiB, or 2 where rows have weights, and a million rows
# that take up to 200 bytes each when they are sorted; about 330 MB, and usually a tenth of that.
_TABLES = 64
_COLLECTED = 1 << 20
# Bounds are compared with this much room for the rounding of metrics and of weighted sums.
_SLACK = 2 * TOLERANCE


class Best(NamedTuple):
    """The best cut so far: its lowest positive's key, and the next lower one where it is known."""

    key: int | None  # None: nothing is positive
    below: int | None
    tp: float
    fp: float
    rank: tuple[float, ...]


class Group(NamedTuple):
    """Ranges to resolve in one pass, ascending: ``counted`` in parts, or else row by row."""

    spans: Spans
    counted: NDArray[np.bool_]


class CutSearch:
    """The best cut among the scores resolved, and the ranges that may still hold a better one."""

    def __init__(self, goal: Goal, dtype: np.dtype[np.floating], P: float, N: float) -> None:
        self._goal, self._P, self._N = goal, P, N
        self._lowest = np.uint64(to_keys(np.array(-np.inf, dtype=dtype)))
        with np.errstate(divide="ignore", invalid="ignore"):
            rank = rank_of(goal, 0.0, 0.0, P, N)
        self.best = Best(None, None, 0.0, 0.0, rank)
        self._reached = rank[:2]  # by some cut, if not by one whose score is known
        self._scale = [1.0, abs(rank[1])]
        self._open = NONE

    def consider(self, spans: Spans) -> None:
        """Take in ranges that were told apart."""
        spans = spans.take(spans.last > self._lowest)  # no threshold lies below -inf
        if not len(spans.first):
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            self._note_edges(spans)
            if self._goal.is_monotone:  # the best cut is just below a positive's score
                spans = spans.take(spans.positive > 0)
            single = spans.bits == 0
            self._choose(spans.take(single))
        parts = spans.take(~single)
        self._open = joined((self._open, parts))

    def _note_edges(self, spans: Spans) -> None:
        """Note what is reached at the lower ends of ranges, which are cuts as well."""
        at = (spans.tp, spans.fp, self._P, self._N)
        violation, gain = self._goal.violation(*at), self._goal.gain(*at)
        i = np.lexsort((-gain, violation))[0]
        self._reached = max(self._reached, (-float(violation[i]), float(gain[i])))
        self._scale[0] = max(self._scale[0], float(violation.max()))
        self._scale[1] = max(self._scale[1], float(np.abs(gain).max()))

    def _choose(self, cuts: Spans) -> None:
        if not len(cuts.first):
            return
        i = best_index(self._goal, cuts.tp, cuts.fp, self._P, self._N)
        rank = rank_of(self._goal, cuts.tp[i], cuts.fp[i], self._P, self._N)
        if rank > self.best.rank:
            key, below = int(cuts.first[i]), int(cuts.below[i])
            known = below if below < key else None
            self.best = Best(key, known, float(cuts.tp[i]), float(cuts.fp[i]), rank)

    def next_group(self) -> Group:
        """Return ranges for the next pass, the most promising ones that memory allows."""
        spans = self._open
        violation, gain = bounds(spans, self._goal, self._P, self._N)
        # A range is out where its bound is worse than what is reached: surely, not by rounding.
        may = violation <= -self._reached[0] + _SLACK * self._scale[0]
        if self._reached[0] == 0:
            may &= gain >= self._reached[1] - _SLACK * self._scale[1]
        order = np.flatnonzero(may)
        order = order[np.lexsort((-gain[order], violation[order]))]
        collected, counted = _within_bounds(order, spans.rows)
        self._open = spans.take(may & ~collected & ~counted)
        chosen = np.flatnonzero(collected | counted)
        chosen = chosen[np.argsort(spans.first[chosen])]
        return Group(spans.take(chosen), counted[chosen])


def _within_bounds(
    order: NDArray[np.intp], rows: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which ranges to collect and which to count in the next pass; never none of both."""
    collected, counted = np.zeros((2, len(rows)), dtype=bool)
    room, tables = _COLLECTED, _TABLES
    for i, n in zip(order.tolist(), rows[order].tolist(), strict=True):
        if n <= room:
            room -= n
            collected[i] = True
        elif tables and n > min(_COLLECTED, BUCKETS):  # fewer take less memory than a table
            tables -= 1
            counted[i] = True
    return collected, counted


Floats = NDArray[np.float64]


class Spans(NamedTuple):
    """Ranges of keys, none of which overlap.

    Attributes
    ----------
    first : ndarray of uint64
        The lowest key.
    bits : ndarray of uint64
        A range is 2**bits keys long; 0 is a single score.
    below : ndarray of uint64
        Of a single score: the next lower key that rows have; ``first`` where it is not known.
    tp, fp : ndarray
        Weights of the positives and of the negatives in the range or above it.
    positive, negative : ndarray
        Weights in the range.
    rows : ndarray
        How many rows lie in it.
    """

    first: NDArray[np.uint64]
    bits: NDArray[np.uint64]
    below: NDArray[np.uint64]
    tp: Floats
    fp: Floats
    positive: Floats
    negative: Floats
    rows: Floats

    def take(self, which: NDArray[np.generic]) -> Spans:
        """Return some of the ranges."""
        return Spans(*(column[which] for column in self))

    @property
    def last(self) -> NDArray[np.uint64]:
        """The highest key of each range."""
        return self.first + ((np.uint64(1) << self.bits) - np.uint64(1))


NONE = Spans(*np.empty((3, 0), dtype=np.uint64), *np.empty((5, 0)))


def joined(parts: Iterable[Spans]) -> Spans:
    """Return the ranges of all parts."""
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def within(
    parent: tuple[float, float, float, float],
    first: NDArray[np.uint64],
    bits: int,
    weights: Floats,
    rows: Floats,
) -> Spans:
    """Return the ranges that a range was parted into, in ascending order.

    Parameters
    ----------
    parent : tuple of float
        TP and FP of the whole range, then the weights of positives and negatives above it.
    first, bits
        The lowest key and the size of each part.
    weights : ndarray of shape (2, n)
        Weights of negatives and positives in each.
    rows : ndarray of shape (n,)
        How many rows lie in each.
    """
    tp, fp, tp_above, fp_above = parent
    negative, positive = weights
    tps = np.minimum(np.cumsum(positive[::-1])[::-1] + tp_above, tp)
    fps = np.minimum(np.cumsum(negative[::-1])[::-1] + fp_above, fp)
    tps[:1], fps[:1] = tp, fp  # not what rounding makes of it
    below = np.concatenate((first[:1], first[:-1]))
    return Spans(
        first,
        np.full(len(first), bits, dtype=np.uint64),
        below,
        tps,
        fps,
        positive,
        negative,
        rows,
    )


def bounds(spans: Spans, goal: Goal, P: float, N: float) -> tuple[Floats, Floats]:
    """Return a violation that no cut in a range is below, and a gain that none is above.

    The counts of such a cut lie between those at the two ends of its range. A monotone metric is
    best where TP is largest and FP smallest; a quotient of linear functions at one of the four
    corners; of others nothing is known.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        violation = np.zeros(len(spans.first))
        for constraint in goal.constraints:
            which = constraint.metric
            missed = which.sign * constraint.level - _optimistic(which, spans, P, N)
            violation += np.where(missed > TOLERANCE, missed, 0.0)
        return violation, _optimistic(goal.objective, spans, P, N)


def _optimistic(which: Metric, spans: Spans, P: float, N: float) -> Floats:
    """Return a bound of the metric over each range, negated where less is better."""
    low, high = (spans.tp, spans.fp), (spans.tp - spans.positive, spans.fp - spans.negative)
    if which.monotone:
        return np.asarray(which.sign * which.value(low[0], high[1], P, N))
    if which.fraction is None:
        return np.full(len(spans.first), np.inf)
    corners = product((low[0], high[0]), (low[1], high[1]))
    values = [which.sign * which.value(tp, fp, P, N) for tp, fp in corners]
    return np.asarray(np.max(values, axis=0))
