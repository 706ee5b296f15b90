r"""Recall from a designed sample: label likely positives often and unlikely ones seldom.

The pool is N independent draws (S_i, Y_i). Row i is selected for labelling, L_i = 1, with a known
probability pi(S_i) >= pi_min > 0, by a coin that is tossed before any label is known. With the
floor r, let

    X_i(t) = L_i Y_i (1[S_i > t] - r) / pi(S_i).

**Fixed threshold.** E[X_i(t)] = P(Y = 1) (recall(t) - r), since E[L_i | S_i, Y_i] = pi(S_i). If
recall(t) < r the mean is negative, and for 0 <= lambda <= pi_min / r every factor
1 + lambda X_i(t) is at least 1 - lambda r / pi_min >= 0. The *wealth* after n rows,

    W_n(t) = prod_{i <= n} (1 + lambda X_i(t)),

in an order of the rows that was fixed beforehand, is then a nonnegative supermartingale with
W_0 = 1, and P(sup_n W_n(t) >= 1/alpha) <= alpha (Ville, 1939). A mean of several lambda, with
weights fixed beforehand, has the same property.

**All thresholds.** 1[S_i > t] does not rise with t and Y_i L_i / pi_i >= 0, so every factor, hence
W_n(t) for each n, and hence M(t) = sup_n W_n(t), does not rise with t. Recall does not rise either;
the false thresholds, F = {t : recall(t) < r}, have no upper end. If F contains its lower end, some
false t passes, M(t) >= 1/alpha, only if the lower end does, and that is one fixed threshold.
Otherwise take t_1 > t_2 > ... in F that converge to the lower end. Every false t is at or above
some t_j, so that some false t passes only if some t_j does. These events grow with j, and each has
a probability of at most alpha; so has their union.
Hence all thresholds with M(t) >= 1/alpha are certified together, whatever is chosen among them.

**What must not depend on the pool**: lambda and pi_min. The function pi may depend on the scores of
the pool, but on no label: given all scores and labels the coins are independent, the expectation
of the product over them is prod(1 + lambda Y_i (1[S_i > t] - r)), and the mean of that over the
rows is at most 1. If lambda depended on the scores, it might not be. Here all of it is planned on
other rows. Whether the guess behind pi is good decides how many labels are needed, not validity.

**Missing answers.** A selected row without an answer counts at each t as what is worst there: as a
negative above t, a factor of 1, and as a positive at or below t. That bounds each W_n(t) from
below, so labels may come in any order, and labelling may stop at any time.

**Precision at one threshold.** If pi is constant above t, the selected rows above t are independent
draws of what lies above t: their number of positives is binomial with precision(t), given how many
they are, and missing answers count as negatives. For a floor on both, thresholds are tested in an
order that was fixed beforehand, each for both floors with the whole error, until the first one
fails. A false certificate requires the first false threshold of that order to pass. It is one
fixed threshold, at which one floor is missed, and the test of that floor passes with a probability
of at most alpha. So both floors hold together with confidence 1 - alpha, without dividing alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from setpoint.certificates.rates import at_least
from setpoint.labelling.top_down import UNKNOWN, Answers, Floats

_SPREAD = 1.5  # standard deviations by which an extrapolation may be too low


@dataclass(frozen=True)
class RecallTest:
    """A test of all thresholds for a floor on recall.

    Attributes
    ----------
    level : float
        The floor r.
    alpha : float
        The probability of a false certificate.
    bets : tuple of float
        The values of lambda, between 0 and pi_min / r; their wealth is averaged. They must not
        depend on the pool.
    """

    level: float
    alpha: float
    bets: tuple[float, ...]


def log_wealth(
    test: RecallTest, threshold: float, scores: Floats, chances: Floats, answers: Answers
) -> float:
    """Return the logarithm of the greatest wealth over time at a threshold.

    Parameters
    ----------
    test : RecallTest
        The test.
    threshold : float
        A threshold.
    scores, chances, answers : ndarray of shape (n,)
        Scores of the selected rows, in the order that was fixed beforehand, the probabilities pi
        with which they were selected, and their labels, or ``UNKNOWN``.
    """
    above = scores > threshold
    # A negative has no effect; a missing answer has the worst one.
    counts = np.where(above, answers == 1, answers != 0)
    if not counts.any():
        return 0.0
    above, chances = above[counts], chances[counts]
    gains = (above - test.level) / chances
    bets = np.array(test.bets)[:, None]
    with np.errstate(divide="ignore"):  # a bet of everything may be lost
        logs = np.cumsum(np.log(np.maximum(1 + bets * gains, 0.0)), axis=1)
    top = logs.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    mean = np.log(np.maximum(np.exp(logs - top).mean(axis=0), 1e-300)) + top
    return float(max(mean.max(), 0.0))


def passes_recall(
    test: RecallTest, threshold: float, scores: Floats, chances: Floats, answers: Answers
) -> bool:
    """Return whether a threshold passes; arguments are as in :func:`log_wealth`."""
    return log_wealth(test, threshold, scores, chances, answers) >= -math.log(test.alpha)


def lowest_alarm(
    test: RecallTest, scores: Floats, chances: Floats, answers: Answers
) -> float | None:
    """Return the lowest score that raises an alarm at the highest threshold that passes.

    Every threshold below this score passes; None if no threshold does.
    """
    values = np.unique(scores[scores > -np.inf])[::-1]
    low, high = 0, len(values)  # the least number of distinct scores above a cut that passes
    while low < high:
        middle = (low + high) // 2
        threshold = values[middle + 1] if middle + 1 < len(values) else -np.inf
        if passes_recall(test, float(threshold), scores, chances, answers):
            high = middle
        else:
            low = middle + 1
    return float(values[low]) if low < len(values) else None


@dataclass(frozen=True)
class JointTest:
    """A test of planned thresholds, in a fixed order, for floors on precision and recall.

    Attributes
    ----------
    precision : float
        The floor on precision.
    recall : RecallTest
        The test of the floor on recall, with the whole error.
    thresholds : tuple of float
        In the order in which they are tested. They must not depend on the pool, and the
        probability of being selected must be constant above the lowest of them.
    """

    precision: float
    recall: RecallTest
    thresholds: tuple[float, ...]


def precision_p_value(level: float, threshold: float, scores: Floats, answers: Answers) -> float:
    """Return the p-value of "precision is below the level"; missing answers are negatives."""
    above = scores > threshold
    if not above.any():
        return 1.0
    found = np.count_nonzero(answers[above] == 1)
    return float(at_least(found, np.count_nonzero(above), level))


def jointly_certified(
    test: JointTest, scores: Floats, chances: Floats, answers: Answers
) -> tuple[float, ...]:
    """Return the thresholds that pass before the first one that fails."""
    passed = []
    for threshold in test.thresholds:
        p = precision_p_value(test.precision, threshold, scores, answers)
        if p > test.recall.alpha or not passes_recall(
            test.recall, threshold, scores, chances, answers
        ):
            break
        passed.append(threshold)
    return tuple(passed)


def is_out_of_reach(
    test: RecallTest | JointTest, scores: Floats, chances: Floats, answers: Answers
) -> bool:
    """Return whether the first threshold fails even if all missing answers are the best ones."""
    missing = answers == UNKNOWN
    if isinstance(test, RecallTest):
        best = np.where(missing, np.int8(1), answers)
        return lowest_alarm(test, scores, chances, best) is None
    first = test.thresholds[0]
    best = np.where(missing, (scores > first).astype(np.int8), answers)
    p = precision_p_value(test.precision, first, scores, best)
    return p > test.recall.alpha or not passes_recall(test.recall, first, scores, chances, best)


def is_unlikely(
    test: RecallTest,
    threshold: float,
    scores: Floats,
    chances: Floats,
    answers: Answers,
    guess: Floats,
) -> bool:
    """Return whether the missing answers are unlikely to certify a threshold.

    It only decides when to stop, so it may be wrong. ``guess`` holds the believed probability that
    each selected row is positive.
    """
    above = scores > threshold
    mean_bet = float(np.mean(test.bets))
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(1 + mean_bet * (above - test.level) / chances, 1e-12))
    missing = answers == UNKNOWN
    known = float(logs[answers == 1].sum())
    ahead = float((guess * logs)[missing].sum())
    spread = math.sqrt(float((guess * logs**2)[missing].sum()))
    return known + ahead + _SPREAD * spread < -math.log(test.alpha)
