"""Random halves of the rows: averages over them, and counts of each at the other's threshold.

The objective at the threshold that is best for all rows depends on the few rows next to it, and the
best of many models is often one that was lucky there. On random halves of the rows, each with its
own exact threshold, other rows are next to it, and luck averages out. Counts at a threshold on the
very rows that chose it are optimistic; counts of the other half are not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setpoint.thresholds.sweep import (
    ClassScores,
    Floats,
    Ranking,
    best_cut,
    sort_keys,
    threshold_below,
)

_PAIRS = 4  # pairs of complementary halves
_NUMBERS = 2**19  # rows times pairs, at most: with more rows fewer halves suffice


class Halves:
    """Random halves of labelled rows, stratified by class.

    Parameters
    ----------
    positive : ndarray of bool, shape (n,)
        Labels of both classes, at least two rows of each.
    weight : ndarray of shape (n,), optional
        Weights of the counts; None: all 1.
    """

    def __init__(self, positive: NDArray[np.bool_], weight: Floats | None = None) -> None:
        rng = np.random.default_rng(0)  # the same halves for all models
        pairs = int(np.clip(_NUMBERS // len(positive), 1, _PAIRS))
        self._classes = []
        for member in (positive, ~positive):
            rows = np.flatnonzero(member)
            own = np.ones(len(rows)) if weight is None else weight[rows].astype(float)
            half = len(rows) // 2
            inside = np.zeros((2 * pairs, len(rows)))
            for pair in range(pairs):
                order = rng.permutation(len(rows))
                for i, chosen in enumerate((order[:half], order[half : 2 * half])):
                    inside[2 * pair + i, chosen] = own[chosen]
            self._classes.append((rows, inside))

    def average(self, scores: Floats, ranking: Ranking) -> float:
        """Return the mean gain at the best cut of each half; a violation lowers it.

        A half without a feasible cut counts as 1 + its violation less than the gain there.
        """
        classes = [(scores[rows], inside) for rows, inside in self._classes]
        every = classes[0][0] if ranking.is_monotone else scores
        values = np.unique(every[every > -np.inf])  # no threshold lies below -inf
        (tp, P), (fp, N) = (_from_top(values, *own) for own in classes)
        with np.errstate(all="ignore"):
            if (P[0] == P).all() and (N[0] == N).all():
                return float(_best(ranking, tp, fp, float(P[0]), float(N[0])).mean())
            halves = zip(tp, fp, P.tolist(), N.tolist(), strict=True)
            return float(np.mean([_best(ranking, *half) for half in halves]))

    def cross_fitted(self, scores: Floats, ranking: Ranking) -> tuple[float, float]:
        """Return the true and the false positive rate of each half at the other one's threshold.

        They are means over all halves.
        """
        rates = []
        for half in range(len(self._classes[0][1])):
            threshold = self._threshold(half, scores, ranking)
            rates.append([
                float(inside[half ^ 1][scores[rows] > threshold].sum() / inside[half ^ 1].sum())
                for rows, inside in self._classes
            ])  # fmt: skip
        recall, fpr = np.mean(rates, axis=0).tolist()
        return recall, fpr

    def _threshold(self, half: int, scores: Floats, ranking: Ranking) -> float:
        """Return the threshold that a half would set."""
        positives, negatives = (
            ClassScores(scores[rows], inside[half], inside[half] > 0)
            for rows, inside in self._classes
        )
        cut = best_cut(positives, negatives, ranking)
        return threshold_below(cut.lowest_positive, positives.sorted, negatives.sorted)


def _from_top(values: Floats, scores: Floats, inside: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Return each half's weight from each value on, 0 at the end, and its total.

    No alarms at all is a cut as well: above the highest value.
    """
    place = np.searchsorted(values, scores, side="right")  # at or above so many values
    counts = np.array([np.bincount(place, own, minlength=len(values) + 1) for own in inside], float)
    from_top = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    at_cuts = np.append(from_top[:, 1:], np.zeros((len(inside), 1)), axis=1)
    return at_cuts, from_top[:, 0]


def _best(ranking: Ranking, tp: Floats, fp: Floats, P: float, N: float) -> NDArray[np.float64]:
    """Return the gain at the best cut along the last axis, less 1 + violation where violated."""
    least, gain, *_ = (np.asarray(k) * np.ones_like(tp) for k in sort_keys(ranking, tp, fp, P, N))
    least = np.nan_to_num(least, nan=-np.inf)
    top = least.max(axis=-1, keepdims=True)
    gain = np.where(least == top, np.nan_to_num(gain, nan=-np.inf), -np.inf).max(axis=-1)
    violated = top[..., 0] < 0
    return np.asarray(np.where(violated, gain + top[..., 0] - 1, gain))
