"""All thresholds tested at once for a floor on precision, without assumptions on the scores.

**Theorem.** Let a be the floor, F = {t : precision(t) < a}, and A a set of pairs (TP, FP) that is
closed under TP + 1 and FP - 1. Then the probability that (TP(t), FP(t)) is in A for some t in F is
at most the probability that a walk of independent Bernoulli(a) steps, which counts successes as TP
and failures as FP, ever enters A.

*Proof.* Take t_1 > ... > t_K in F. Order what a row can be: positive above t_1 > positive in
(t_2, t_1] > ... > no alarm at t_K > negative in (t_K, t_(K-1)] > ... > negative above t_1. For each
j, P(at least "positive above t_j") = P(S > t_j) precision(t_j) <= P(S > t_j) a, and P(at most
"negative above t_j") >= P(S > t_j) (1 - a). So a row whose label is an independent Bernoulli(a),
whatever its score, is stochastically larger in this order. Couple the rows one by one: all TP(t_j)
rise and all FP(t_j) fall together, and whoever was in A still is. In the coupled sample the labels
do not depend on the scores. In the order of falling scores they are the walk, and each t_j sees it
at one of its times. Infinitely many t follow by limits.

Two regions are used (Howard et al., 2021, discuss such boundaries):

- **Ville**: a mixture of likelihood ratios E(TP, FP) = mean over q of (q/a)^TP ((1-q)/(1-a))^FP is
  a martingale of mean 1 on the walk, and P(sup E >= 1/alpha) <= alpha.
- **Hybrid**: a line c(k) on which one likelihood ratio reaches 1/(rho alpha), so that the walk ever
  reaches it with a probability of at most rho alpha; and the least count b(k) for which
  P(W_k >= b(k), c not reached by k) <= (1 - rho) alpha, by an exact recursion. Given a *start*, a
  threshold that does not depend on the rows, every t with TP >= c is certified, and so is every t
  below the start for as long as, from there downwards, TP >= b. Proof: let t* be the highest false
  threshold at or below the start. A false t on the way down requires t* to pass, TP(t*) >= b(k).
  The theorem's coupling applies to "TP(t*) >= b, or TP(t) >= c for some t in F"; in the coupled
  sample k(t*) does not depend on the labels, and for each k the walk is in that region with a
  probability of at most (1 - rho) alpha + rho alpha.

For npv the classes and the order are exchanged. The argument does not hold for f1 and jaccard,
whose trials are not the first rows of one order.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Counts = NDArray[np.int64]

RHO = 0.7  # the share of the error that all thresholds together have; the way down has the rest
MOST_ALARMS = 6000  # the recursion costs the square of their number; beyond it, Ville
_STEPS = (0.9, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12)  # q of the mixture, as parts of the way from a to 1


def ville_evidence(tp: Floats, fp: Floats, level: float) -> Floats:
    """Return the mixture of likelihood ratios; every threshold with at least 1/alpha passes."""
    q = level + (1 - level) * np.array(_STEPS)
    win, lose = np.log(q / level), np.log((1 - q) / (1 - level))
    logs = np.multiply.outer(win, tp) + np.multiply.outer(lose, fp)
    top = logs.max(axis=0)
    return np.asarray(np.exp(top) * np.exp(logs - top).mean(axis=0))


class Boundaries(NamedTuple):
    """The least number of true alarms among k, for k = 0, 1, ..., with which a threshold passes.

    Attributes
    ----------
    anywhere : ndarray of int
        c: at any threshold.
    on_the_way : ndarray of int
        b: at a threshold on the way down from the start.
    """

    anywhere: Counts
    on_the_way: Counts


@functools.lru_cache(maxsize=64)
def hybrid_boundaries(level: float, alpha: float, planned: int, most: int) -> Boundaries:
    """Return the boundaries for up to ``most`` alarms.

    ``planned`` is the number of alarms for which they are best; they are valid for any.
    """
    q = _likely(level, math.log(1 / alpha) / max(planned / 2, 1))
    win, lose = math.log(q / level), math.log((1 - level) / (1 - q))
    k = np.arange(most + 1)
    # Where TP win - (k - TP) lose >= log(1 / (rho alpha)).
    line = (math.log(1 / (RHO * alpha)) + k * lose) / (win + lose)
    anywhere = np.ceil(line - 1e-9).astype(np.int64)
    return Boundaries(anywhere, _closed(_on_the_way(anywhere, level, (1 - RHO) * alpha)))


def _likely(level: float, divergence: float) -> float:
    """Return the q > level whose Kullback-Leibler divergence from the level is as given."""

    def of(q: float) -> float:
        rest = (1 - q) * math.log((1 - q) / (1 - level)) if q < 1 else 0.0
        return q * math.log(q / level) + rest

    low, high = level, 1 - 1e-9 * (1 - level)
    if of(high) <= divergence:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) < divergence else (low, middle)
    return high


def _on_the_way(line: Counts, level: float, alpha: float) -> Counts:
    """Return, for each k, the least b with P(W_k >= b, the line not reached by k) <= alpha."""
    found = np.empty_like(line)
    below = np.zeros(len(line) + 2)  # P(W_k = w, line not reached)
    below[0] = 1.0
    for k, limit in enumerate(line.tolist()):
        if k:
            below[1:] = level * below[:-1] + (1 - level) * below[1:]
            below[0] *= 1 - level
        below[limit:] = 0.0
        above = np.cumsum(below[min(limit, k + 1) - 1 :: -1])  # P(W_k >= w), from the top
        found[k] = min(limit, k + 1) - int(np.searchsorted(above, alpha, side="right"))
    return found


def _closed(counts: Counts) -> Counts:
    """Return the least counts, not below these, that rise by 0 or 1 from each k to the next."""
    rising = np.maximum.accumulate(counts)
    k = np.arange(len(counts))
    return np.asarray(np.maximum.accumulate((rising - k)[::-1])[::-1] + k)
