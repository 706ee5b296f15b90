"""Random halves of the rows: averages over them, and counts of each at the other's threshold.

The objective at the threshold that is best for all rows depends on the few rows next to it, and the
best of many models is often one that was lucky there. On random halves of the rows, each with its
own exact threshold, other rows are next to it, and luck averages out. Counts at a threshold on the
very rows that chose it are optimistic; counts of the other half are not.
"""

from __future__ import annotations

from typing import Any

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
from setpoint.thresholds.tallied import TalliedRows, best_tallied_cut

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
    factors : ndarray of shape (n, tallies), optional
        What a row counts in each of a goal's tallies, relative to its weight.
    """

    def __init__(
        self,
        positive: NDArray[np.bool_],
        weight: Floats | None = None,
        factors: Floats | None = None,
    ) -> None:
        rng = np.random.default_rng(0)  # the same halves for all models
        tallies = 1 if factors is None else factors.shape[1]
        pairs = int(np.clip(_NUMBERS // (len(positive) * tallies), 1, _PAIRS))
        self._tallied = factors is not None
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
            of_rows = None if factors is None else factors[rows].T.astype(float)
            self._classes.append((rows, inside, of_rows))

    def average(self, scores: Floats, ranking: Ranking) -> float:
        """Return the mean gain at the best cut of each half; a violation lowers it.

        A half without a feasible cut counts as 1 + its violation less than the gain there.
        """
        if self._tallied:
            return float(np.mean([
                _best(ranking, *self._tallied_counts(half, scores), *self._totals(half))
                for half in range(len(self._classes[0][1]))
            ]))  # fmt: skip
        classes = [(scores[rows], inside) for rows, inside, _ in self._classes]
        every = classes[0][0] if ranking.is_monotone else scores
        values = np.unique(every[every > -np.inf])  # no threshold lies below -inf
        (tp, P), (fp, N) = (_from_top(values, *own) for own in classes)
        with np.errstate(all="ignore"):
            if (P[0] == P).all() and (N[0] == N).all():
                return float(_best(ranking, tp, fp, float(P[0]), float(N[0])).mean())
            halves = zip(tp, fp, P.tolist(), N.tolist(), strict=True)
            return float(np.mean([_best(ranking, *half) for half in halves]))

    def cross_fitted(self, scores: Floats, ranking: Ranking) -> tuple[Any, Any]:
        """Return the true and the false positive rate of each half at the other one's threshold.

        They are means over all halves; arrays with an entry for each tally, if there are several.
        """
        rates = []
        for half in range(len(self._classes[0][1])):
            threshold = self._threshold(half, scores, ranking)
            rates.append([
                _rate(inside[half ^ 1], factors, scores[rows] > threshold)
                for rows, inside, factors in self._classes
            ])  # fmt: skip
        recall, fpr = np.mean(rates, axis=0)
        return (recall, fpr) if self._tallied else (float(recall), float(fpr))

    def _threshold(self, half: int, scores: Floats, ranking: Ranking) -> float:
        """Return the threshold that a half would set."""
        if self._tallied:
            return self._tallied_threshold(half, scores, ranking)
        positives, negatives = (
            ClassScores(scores[rows], inside[half], inside[half] > 0)
            for rows, inside, _ in self._classes
        )
        cut = best_cut(positives, negatives, ranking)
        return threshold_below(cut.lowest_positive, positives.sorted, negatives.sorted)

    # --- several tallies --------------------------------------------------------------------

    def _totals(self, half: int) -> list[Floats]:
        """Return P and N of a half in each tally."""
        return [factors @ inside[half] for _, inside, factors in self._classes]

    def _tallied_counts(self, half: int, scores: Floats) -> list[Floats]:
        """Return TP and FP of a half at all cuts of all rows, shape (tallies, cuts)."""
        values = np.unique(scores[scores > -np.inf])
        return [
            _from_top(values, scores[rows], factors * inside[half])[0]
            for rows, inside, factors in self._classes
        ]

    def _tallied_threshold(self, half: int, scores: Floats, ranking: Ranking) -> float:
        rows = np.concatenate([rows[inside[half] > 0] for rows, inside, _ in self._classes])
        labels = np.concatenate([
            np.full(int((inside[half] > 0).sum()), is_positive)
            for (_, inside, _), is_positive in zip(self._classes, (True, False), strict=True)
        ])  # fmt: skip
        weights = np.concatenate([
            (factors * inside[half])[:, inside[half] > 0] for _, inside, factors in self._classes
        ], axis=1)  # fmt: skip
        own = TalliedRows(labels, lambda some: weights[:, some], len(weights))
        cut = best_tallied_cut(own, scores[rows], ranking)
        return threshold_below(cut.lowest_positive, np.sort(scores[rows]))


def _rate(inside: Floats, factors: Floats | None, alarm: NDArray[np.bool_]) -> Any:
    """Return the fraction of a half's weight that is above a threshold, in each tally."""
    if factors is None:
        return float(inside[alarm].sum() / inside.sum())
    total = factors @ inside
    return (factors[:, alarm] @ inside[alarm]) / np.where(total > 0, total, 1.0)


def _from_top(values: Floats, scores: Floats, inside: NDArray[np.float64]) -> tuple[Floats, Floats]:
    """Return each half's weight from each value on, 0 at the end, and its total.

    No alarms at all is a cut as well: above the highest value.
    """
    place = np.searchsorted(values, scores, side="right")  # at or above so many values
    counts = np.array([np.bincount(place, own, minlength=len(values) + 1) for own in inside], float)
    from_top = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    at_cuts = np.append(from_top[:, 1:], np.zeros((len(inside), 1)), axis=1)
    return at_cuts, from_top[:, 0]


def _best(ranking: Ranking, tp: Floats, fp: Floats, P: Any, N: Any) -> NDArray[np.float64]:
    """Return the gain at the best cut along the last axis, less 1 + violation where violated."""
    with np.errstate(all="ignore"):
        keys = sort_keys(ranking, tp, fp, P, N)
    least, gain, *_ = (np.asarray(key) * np.ones_like(ranking.plain(tp)) for key in keys)
    least = np.nan_to_num(least, nan=-np.inf)
    top = least.max(axis=-1, keepdims=True)
    gain = np.where(least == top, np.nan_to_num(gain, nan=-np.inf), -np.inf).max(axis=-1)
    violated = top[..., 0] < 0
    return np.asarray(np.where(violated, gain + top[..., 0] - 1, gain))
