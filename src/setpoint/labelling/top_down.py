"""Precision from the top: label the rows with the highest scores, and test every cut at once.

The pool is N independent draws of (score, label); scores are known, labels must be asked for.
TP(t) and FP(t) at a threshold t depend only on the labels of rows with scores above t. So the test
of all thresholds at once (``certificates/walk.py``) needs no labels below the threshold
that it certifies, and a few hundred labels at the top may do the work of a fully labelled pool.

**What may be chosen after looking at labels: everything but the start.** The theorem there bounds
the probability that *any* threshold t with precision(t) < a has (TP(t), FP(t)) in the region, over
the counts of the whole pool. Whoever labels rows, in whatever order, and stops whenever they like,
certifies only thresholds of that region; a false certificate is part of the event whose probability
is bounded. No correction for stopping or for the choice among certified thresholds is needed.

**Rows that are not labelled yet count as negatives.** The region is closed under "one false
positive less and one true positive more". If the counts with all missing labels taken as negative
are in the region, the true counts are too. Answers may therefore come in any order.

**Cuts lie between distinct scores.** Counts at t are those of all rows with scores above t, which
never divides rows with equal scores. A cut inside a tie has no threshold: the rows of the tie that
happen to be above it were selected by their labels or by chance, and new rows cannot be.

**The start must not depend on the pool.** With a start, a part of the error goes to the way down
from it. The proof looks at t*, the highest threshold at or below the start with precision(t*) < a,
and needs t* to be one fixed number. The labels of the pool must not decide the start. Neither may
its scores, as far as the proof goes: a start at a fixed *rank* makes t* depend on how many rows of
the pool lie above it, and the coupling of the proof, which turns false alarms into no alarms,
changes these ranks. A score that was chosen on other rows is safe, however badly it was chosen: a
bad start costs labels only. The same holds for ``planned``, which shapes the boundaries. Of the cut
that contains the start, only thresholds up to the start are on the way. Without a start the whole
error goes to all thresholds at once (the mixture of likelihood ratios).

**No bound on recall follows.** How many positives lie below the labelled rows is unknown.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.walk import (
    WalkTest,
    rounded_trials,
    share_anywhere,
    ville_evidence,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Answers = NDArray[np.int8]  # 1, 0, or UNKNOWN
UNKNOWN = -1

_WINDOW = 25  # labels, at least, from which the precision of the next rows is extrapolated
_SPREAD = 3.0  # standard deviations by which the extrapolation may be too low


@dataclass(frozen=True)
class TopDownTest:
    """A test of all thresholds for a floor on precision.

    Attributes
    ----------
    level : float
        The floor.
    alpha : float
        The probability of a false certificate.
    start : float or None
        The threshold from which the way down begins; it must not depend on the pool.
    planned : int
        The number of alarms for which the boundaries are best; it must not depend on the pool.
    """

    level: float
    alpha: float
    start: float | None = None
    planned: int = 100

    def passes(self, tp: Floats, k: Indices) -> tuple[Mask, Mask]:
        """Return whether tp true of k alarms pass anywhere, and whether they pass on the way."""
        fp = k - tp
        if self.start is None:
            anywhere = np.asarray(ville_evidence(tp, fp, self.level) >= 1 / self.alpha)
            return anywhere, anywhere
        walk = self._walk
        on_the_way = walk.passes_on_the_way(tp, fp, self.alpha - walk.crossing)
        return walk.passes_anywhere(tp, fp), on_the_way

    @functools.cached_property
    def _walk(self) -> WalkTest:
        error = share_anywhere(self.planned) * self.alpha
        return WalkTest(self.level, rounded_trials(self.planned), error)


def cut_sizes(scores: Floats) -> Indices:
    """Return the numbers of rows above each cut between distinct scores, in descending order."""
    last = np.append(scores[1:] != scores[:-1], True) & (scores > -np.inf)
    return np.flatnonzero(last) + 1


def certified_sizes(test: TopDownTest, scores: Floats, answers: Answers) -> Indices:
    """Return the numbers of rows above the cuts that pass.

    Parameters
    ----------
    test : TopDownTest
        The test.
    scores, answers : ndarray of shape (n,)
        Rows of the pool in descending order of the scores, from the highest; labels that are not
        known are ``UNKNOWN``. If rows are left out at the end, none may be tied with the last.
    """
    known = np.flatnonzero(answers != UNKNOWN)
    sizes = cut_sizes(scores)
    # Below the last known label only further negatives would be counted.
    sizes = (
        sizes[: np.searchsorted(sizes, known[-1] + 1, side="right")] if len(known) else sizes[:0]
    )
    if len(sizes) == 0:
        return sizes
    tp = np.cumsum(answers == 1)[sizes - 1].astype(float)
    passes, on_the_way = test.passes(tp, sizes)
    if test.start is not None:
        first = int(np.searchsorted(-scores, -test.start, side="left"))  # rows above the start
        below = np.searchsorted(sizes, max(first, 1), side="left")
        # Without a row above the start, its own test, 0 of 0, fails.
        if first > 0:
            passes[below:] |= np.logical_and.accumulate(on_the_way[below:])
    return sizes[passes]


def is_hopeless(
    test: TopDownTest,
    scores: Floats,
    answers: Answers,
    certified: int,
    chances: Floats | None = None,
) -> bool:
    """Return whether further labels are unlikely to certify a lower cut.

    It only decides when to stop, so it may be wrong: certificates are valid all the same.

    Parameters
    ----------
    test, scores, answers
        As in :func:`certified_sizes`.
    certified : int
        The number of rows above the lowest certified cut; 0 without one.
    chances : ndarray of shape (n,), optional
        A guess of the probability that each row is positive.
    """
    missing = np.flatnonzero(answers == UNKNOWN)
    k = int(missing[0]) if len(missing) else len(answers)
    if k == len(answers):
        return True
    if k < _WINDOW:  # too few to extrapolate
        return False
    window = max(_WINDOW, k // 4)
    found = int(np.count_nonzero(answers[k - window : k] == 1))
    horizon = min(len(answers), 2 * k + 4 * _WINDOW)
    sizes = np.arange(k + 1, horizon + 1)
    ahead = sizes - k
    if chances is None:
        rate = np.full(len(sizes), (found + 1) / (window + 2))
    else:
        # The guess for the next rows, corrected by how it did on the last ones.
        expected = float(chances[k - window : k].sum())
        ratio = (found + 2) / (expected + 2)
        rate = np.cumsum(np.clip(chances[k:horizon] * ratio, 0, 1)) / ahead
    tp = int(np.count_nonzero(answers[:k] == 1)) + rate * ahead
    tp += _SPREAD * np.sqrt(np.maximum(rate * (1 - rate), 0) * ahead)
    anywhere, on_the_way = test.passes(np.minimum(tp, sizes), sizes)
    if test.start is not None and _is_on_the_way(test, scores, k, certified):
        anywhere = on_the_way
    return not bool(anywhere.any())


def _is_on_the_way(test: TopDownTest, scores: Floats, k: int, certified: int) -> bool:
    """Return whether no cut on the way down has failed yet, with the first k rows labelled."""
    assert test.start is not None
    first = int(np.searchsorted(-scores, -test.start, side="left"))
    if k < first or first == 0:
        return first > 0
    sizes = cut_sizes(scores[: k + 1])
    complete = sizes[sizes <= k]
    return len(complete) == 0 or certified >= complete[-1] or complete[-1] < first
