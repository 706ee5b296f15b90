"""Ranges of keys with what is counted in and above them, and how good a cut in one can be."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.goals import TOLERANCE, Goal
from setpoint.metrics import Metric

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
