"""Exact counts at every threshold, as a step function of it.

Between two neighbouring distinct scores nothing changes. A *step* is such an interval of
thresholds, ``low <= threshold < high``, with its counts: ``score > threshold`` is an alarm, so the
scores from ``high`` on raise one. Steps are in the order of the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 5_000  # distinct scores that are kept one and all
THINNED = 2_000  # steps that are kept of more
STOPS = 400  # of the slider

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps, all of them or some, each with exact counts.

    Attributes
    ----------
    low, high : ndarray of float
        The interval of thresholds of each step; without its upper end.
    at : ndarray of float
        A threshold inside it, with as few digits as there can be.
    tp, fp : ndarray of int
        Counts there.
    P, N : int
        Positives and negatives in all.
    whole : bool
        Whether no step was left out.
    """

    low: Floats
    high: Floats
    at: Floats
    tp: Counts
    fp: Counts
    P: int
    N: int
    whole: bool

    @classmethod
    def of(cls, y: NDArray[np.bool_], scores: NDArray[Any], keep: Iterable[float] = ()) -> Steps:
        """Return the steps of these rows.

        Of more than ``MOST`` distinct scores ``THINNED`` steps remain: those at the thresholds to
        keep, the first and the last, and others spread evenly over recall and over the logarithm
        of the number of alarms, where decisions are made.
        """
        distinct, inverse = np.unique(scores.astype(np.float64), return_inverse=True)
        positives = np.bincount(inverse[y], minlength=len(distinct))
        negatives = np.bincount(inverse[~y], minlength=len(distinct))
        P, N = int(positives.sum()), int(negatives.sum())
        low = np.concatenate([[-np.inf], distinct])
        high = np.concatenate([distinct, [np.inf]])
        tp = P - np.concatenate([[0], np.cumsum(positives)])
        fp = N - np.concatenate([[0], np.cumsum(negatives)])
        kept = np.arange(len(low))
        if low[0] == high[0]:  # a score of -inf: no threshold lies below it
            kept = kept[1:]
        whole = len(distinct) <= MOST
        if not whole:
            ends = {int(kept[0]), int(kept[-1])}
            asked = {int(np.searchsorted(distinct, t, side="right")) for t in keep}
            kept = _spread(tp, fp, kept, THINNED, sorted(ends | asked))
        low, high = low[kept], high[kept]
        at = np.array([_between(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)])
        return cls(low, high, at, tp[kept], fp[kept], P, N, whole)

    def __len__(self) -> int:
        return len(self.low)

    def find(self, threshold: float) -> int | None:
        """Return the step to which a threshold belongs, or None where that was left out."""
        index = max(int(np.searchsorted(self.low, threshold, side="right")) - 1, 0)
        inside = threshold < self.high[index] or index == len(self) - 1
        return index if inside and self.low[index] <= threshold else None

    def stops(self, keep: Iterable[int] = ()) -> NDArray[np.intp]:
        """Return the steps at which the slider stops: all of few, an even spread of many."""
        everything = np.arange(len(self))
        if len(self) <= STOPS:
            return everything
        return _spread(self.tp, self.fp, everything, STOPS, [0, len(self) - 1, *keep])

    @property
    def recall(self) -> Floats:
        """Recall at each step."""
        return self.tp / self.P

    @property
    def precision(self) -> Floats:
        """Precision at each step; 1 where there are no alarms."""
        alarms = self.tp + self.fp
        return np.where(alarms > 0, self.tp / np.maximum(alarms, 1), 1.0)


def _spread(
    tp: Counts, fp: Counts, candidates: NDArray[np.intp], most: int, always: list[int]
) -> NDArray[np.intp]:
    """Return at most so many of the candidates, evenly over recall and log of the alarms."""
    tp_, fp_ = tp[candidates], fp[candidates]
    alarms = np.log1p(tp_ + fp_)
    place = -(tp_ / max(tp_.max(), 1) + alarms / max(alarms.max(), 1e-300))  # rises
    wanted = np.linspace(place[0], place[-1], most - len(set(always)))
    nearest = np.searchsorted(place, wanted).clip(0, len(place) - 1)
    return np.union1d(candidates[nearest], np.array(sorted(set(always)), dtype=np.intp))


def _between(low: float, high: float) -> float:
    """Return a threshold of an interval that is short to write, near its middle."""
    if low == high:  # a score of +inf: only the threshold +inf lies above it
        return low
    if np.isinf(low) and np.isinf(high):
        return 0.0
    if np.isinf(low):
        return _beyond(high, -1)
    if np.isinf(high):
        return _beyond(low, 1)
    if low <= 0 < high:
        return 0.0
    middle = low / 2 + high / 2
    for digits in range(2, 18):
        short = float(f"{middle:.{digits}g}")
        if low <= short < high:
            return short
    return low


def _beyond(end: float, side: int) -> float:
    """Return a short number beyond the outermost score: above (1) or below (-1) it."""
    if end == 0:
        return 0.1 * side
    for digits in range(2, 18):
        margin = abs(end) * 10.0 ** (1 - digits)
        short = float(f"{end + side * margin:.{digits}g}")
        if np.isfinite(short) and side * (short - end) > 0:
            return short
    return end if side > 0 else math.nextafter(end, -math.inf)
