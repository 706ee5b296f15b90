"""Tests of a floor on precision at all thresholds at once, by the walk of the labels.

**Theorem.** Let a be the floor, F = {t : precision(t) < a}, and A a set of pairs (TP, FP) that is
closed under TP + 1 and under FP - 1. The probability that (TP(t), FP(t)) lies in A for some t in F
is at most the probability that a walk of independent Bernoulli(a) steps, which counts successes as
TP and failures as FP, ever enters A.

*Proof.* Take t_1 > ... > t_K in F, and order what a row can be: positive above t_1 > positive in
(t_2, t_1] > ... > positive in (t_K, t_(K-1)] > no alarm at t_K > negative in (t_K, t_(K-1)] > ... >
negative above t_1. For each j, P(at least "positive above t_j") = P(S > t_j) precision(t_j), which
is at most P(S > t_j) a, and P(at most "negative above t_j") is at least P(S > t_j) (1 - a). For a
row whose score has the same distribution and whose label is an independent Bernoulli(a), both are
equalities. Such a row is therefore stochastically larger in this total order. Couple row by row:
every TP(t_j) can only rise and every FP(t_j) only fall, and a pair in A stays in A. In the coupled
sample labels do not depend on scores. In the order of falling scores they are the walk, and each
t_j, with or without ties, sees it at one of its times. Infinitely many t follow by limits. QED

Nothing is assumed about how precision varies with the threshold. For npv the classes and the order
are exchanged. The argument does not hold for f1, jaccard and accuracy, whose trials are not the
first rows of one order.

Two regions are used:

- **Anywhere**: the likelihood ratio of q against a, (q/a)^TP ((1-q)/(1-a))^FP, is a martingale of
  mean 1 on the walk, so the walk ever reaches 1/e with a probability of at most e (Ville). In the
  (TP, FP) plane this is a line. The probability itself is computed by a recursion over the states
  of the walk, plus e times the mean of the ratio where the recursion ends.
- **On the way**: at one fixed threshold t* in F, given k alarms there, the coupled TP(t*) is
  binomial. So b(k), the least count with P(W_k >= b(k), line not reached by k) <= d, is passed by a
  fixed false threshold, with the line never reached, with a probability of at most d. Beyond the
  recursion, P(W_k >= i) <= 1 - Phi(sqrt(2 k KL((i - 1)/k, a))) takes its place (Zubkov and Serov,
  2013).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_TRIALS = 2048  # of the recursion, which costs the square of their number
_LEAST_TRIALS = 64
_ROUNDING = 1e-9


@dataclass(frozen=True)
class WalkTest:
    """A test of "at least a fraction ``level`` of the trials succeed", for one order of trials.

    Attributes
    ----------
    level : float
        The fraction, a in the formulas.
    planned : int
        The number of trials at which the line is best; it is valid for any.
    error : float
        e, the probability with which the line may be reached.
    """

    level: float
    planned: int
    error: float

    @property
    def is_trivial(self) -> bool:
        """Whether the level is 0, so that every threshold passes."""
        return self.level <= 0

    @property
    def is_possible(self) -> bool:
        """Whether the test decides; levels near 1 would take millions of trials and never pass."""
        return 0 < self.level <= 1 - 1e-6

    @functools.cached_property
    def crossing(self) -> float:
        """The probability, at most e, that the walk ever reaches the line."""
        return _crossing(self.level, self.planned, self.error) if self.is_possible else 0.0

    def passes_anywhere(self, successes: Floats, failures: Floats) -> Mask:
        """Return whether the counts are on the line or beyond it."""
        if not self.is_possible:
            return np.full(np.shape(successes), self.is_trivial)
        win, lose = _line(self.level, self.planned, self.error)
        reached = successes * win - failures * lose
        return np.asarray(reached >= -math.log(self.error) + _ROUNDING)

    def passes_on_the_way(self, successes: Floats, failures: Floats, error: float) -> Mask:
        """Return whether the counts pass at one fixed threshold with this error, d, or anywhere."""
        passed = self.passes_anywhere(successes, failures)
        if not self.is_possible or error <= 0:
            return passed
        required = _on_the_way(self.level, self.planned, self.error, error)
        successes, trials = np.asarray(successes), np.asarray(successes + failures)
        near = trials < len(required)
        at = np.where(near, trials, 0).astype(np.int64)
        passed |= near & (successes >= required[at])
        if not near.all():
            far = ~near
            passed[far] |= _is_beyond(successes[far], trials[far], self.level, error)
        return passed


def share_anywhere(trials: float) -> float:
    """Return the fraction of the error for the line, given the number of trials to expect.

    With few trials it is less clear where to start. The constants were chosen in simulations with
    20 to 2,000 alarms, where results vary little with them.
    """
    return min(max(6 / math.sqrt(rounded_trials(trials)), 0.2), 0.85)


def rounded_trials(trials: float) -> int:
    """Return the number rounded to a coarse grid, so that few boundaries need be computed."""
    return max(2, round(2 ** (round(4 * math.log2(max(trials, 1))) / 4)))


def ville_evidence(successes: Floats, failures: Floats, level: float) -> Floats:
    """Return a mixture of likelihood ratios; it needs no plan, and 1/alpha passes anywhere."""
    q = level + (1 - level) * np.array([0.9, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12])
    win, lose = np.log(q / level), np.log((1 - q) / (1 - level))
    logs = np.multiply.outer(win, successes) + np.multiply.outer(lose, failures)
    top = logs.max(axis=0)
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(top) * np.exp(logs - top).mean(axis=0))


# --- the line -------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _line(level: float, planned: int, error: float) -> tuple[float, float]:
    """Return the logarithm of the ratio that a success adds and a failure subtracts.

    The ratio is that of the q which is expected to reach the line, if it is the truth, after half
    of the planned trials: KL(q, level) planned / 2 = log(1 / error).
    """
    target = -2 * math.log(error) / max(planned, 1)

    def divergence(q: float) -> float:
        rest = (1 - q) * math.log((1 - q) / (1 - level)) if q < 1 else 0.0
        return q * math.log(q / level) + rest

    low, high = level, 1 - 1e-9 * (1 - level)
    if divergence(high) > target:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if divergence(middle) < target else (low, middle)
    return math.log(high / level), math.log((1 - level) / (1 - high))


def _size(planned: int) -> int:
    """Return the number of trials of the recursion."""
    enough = 1 << math.ceil(math.log2(4 * max(planned, 1)))
    return min(max(enough, _LEAST_TRIALS), MOST_TRIALS)


def _line_counts(level: float, planned: int, error: float) -> Counts:
    """Return the least number of successes on the line for each number of trials."""
    win, lose = _line(level, planned, error)
    k = np.arange(_size(planned) + 1)
    line = (-math.log(error) + _ROUNDING + k * lose) / (win + lose)
    return np.asarray(np.ceil(line), dtype=np.int64)


# --- the recursion over P(W_k = w, line not reached by k) -----------------------------------------


@functools.lru_cache(maxsize=64)
def _crossing(level: float, planned: int, error: float) -> float:
    line = _line_counts(level, planned, error)
    below = np.zeros(len(line) + 1)
    below[0] = 1.0
    reached = 0.0
    for k, limit in enumerate(line.tolist()):
        _step(below, k, level)
        reached += float(below[limit:].sum())
        below[limit:] = 0.0
    win, lose = _line(level, planned, error)
    k, w = len(line) - 1, np.arange(min(int(line[-1]), len(below)))
    later = error * float((below[w] * np.exp(w * win - (k - w) * lose)).sum())
    return min(reached + later, error)


@functools.lru_cache(maxsize=64)
def _on_the_way(level: float, planned: int, line_error: float, error: float) -> Counts:
    """Return b(k) for k = 0, 1, ..., raised where needed so that the region is closed."""
    line = _line_counts(level, planned, line_error)
    found = np.empty(len(line) + 1, dtype=np.int64)
    below = np.zeros(len(line) + 1)
    below[0] = 1.0
    for k, limit in enumerate(line.tolist()):
        _step(below, k, level)
        below[limit:] = 0.0
        top = min(limit, k + 1)
        tail = np.cumsum(below[:top][::-1])  # P(W_k >= w, line not reached), from the top down
        found[k] = top - int(np.searchsorted(tail, error * (1 - _ROUNDING), side="right"))
    found[-1] = _least_beyond(len(line), level, error)  # of the first k without a recursion
    # (TP + 1, FP) and (TP, FP - 1) must pass with (TP, FP): b rises by 0 or 1 from k to k + 1.
    trials = np.arange(len(found))
    rising = np.maximum.accumulate(found)
    return np.asarray(np.maximum.accumulate((rising - trials)[::-1])[::-1] + trials)[:-1]


def _step(below: Floats, k: int, level: float) -> None:
    """Add the k-th trial to the distribution of successes, in place."""
    if k:
        below[1:] = level * below[:-1] + (1 - level) * below[1:]
        below[0] *= 1 - level


def _is_beyond(successes: Floats, trials: Floats, level: float, error: float) -> Mask:
    """Return whether Zubkov and Serov's bound on P(W_k >= successes) is at most the error."""
    u = np.maximum(successes - 1.0, 0.0)
    v = trials - u
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(u > 0, u * np.log(u / (level * trials)), 0.0)
        divergence += np.where(v > 0, v * np.log(v / ((1 - level) * trials)), 0.0)
    enough = NormalDist().inv_cdf(1 - error) ** 2 / 2 + _ROUNDING if error < 0.5 else _ROUNDING
    return np.asarray((u > level * trials) & (divergence >= enough))


def _least_beyond(trials: int, level: float, error: float) -> int:
    low, high = 0, trials + 1
    while high - low > 1:
        middle = (low + high) // 2
        passes = bool(_is_beyond(np.array([float(middle)]), np.array([trials]), level, error)[0])
        low, high = (low, middle) if passes else (middle, high)
    return high
