"""Metrics that are fractions of independent draws, with exact binomial tests and bounds.

Precision is the fraction of alarms that are real: given the number of alarms, the number of real
ones is binomial. The same holds for every metric of the form successes / trials in which each trial
is a row and each success one of the trials. This assumes nothing about the scores and is not
asymptotic (Clopper and Pearson, 1934).

F1 is included: F1 = 2J / (1 + J), where J = TP / (TP + FP + FN) is the fraction of true positives
among the rows that are positive or predicted positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv

from setpoint.goals.goal import Constraint
from setpoint.goals.linear_fraction import LinearFraction
from setpoint.goals.metrics import BUILT_IN, JACCARD, Metric, metric

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rate:
    """A metric as an increasing function of a fraction.

    Attributes
    ----------
    metric : Metric
        The metric.
    fraction : LinearFraction
        Successes over trials, both counts of rows.
    to_fraction, from_fraction : callable
        From a value of the metric to the fraction, and back.
    """

    metric: Metric
    fraction: LinearFraction
    to_fraction: Callable[[float], float]
    from_fraction: Callable[[float], float]

    def draws(self, tp: Any, fp: Any, P: Any, N: Any) -> tuple[Floats, Floats]:
        """Return successes and trials at the given counts."""
        successes, trials = self.fraction.parts(tp, fp, P, N)
        shape = np.broadcast_shapes(np.shape(successes), np.shape(trials), np.shape(tp))
        return np.broadcast_to(successes, shape) + 0.0, np.broadcast_to(trials, shape) + 0.0

    def p_value(self, level: float, tp: Any, fp: Any, P: Any, N: Any) -> Floats:
        """Return the probability of counts at least this good if the level were just missed.

        It is 1 without trials. Counts need not be whole: they may be those expected of a sample of
        another size.
        """
        k, n = self.draws(tp, fp, P, N)
        p = self.to_fraction(level)
        tail = at_least(k, n, p) if self.metric.direction == "max" else at_most(k, n, p)
        return np.asarray(np.where(n > 0, tail, 1.0))

    def bound(self, confidence: float, tp: Any, fp: Any, P: Any, N: Any) -> float:
        """Return the lower bound, or the upper one of a metric where smaller is better.

        Without trials it is the metric's worst value.
        """
        k, n = (float(x) for x in self.draws(tp, fp, P, N))
        if self.metric.direction == "max":
            fraction = 0.0 if n == 0 else lower_bound(k, n, confidence)
        else:
            fraction = 1.0 if n == 0 else upper_bound(k, n, confidence)
        return float(self.from_fraction(fraction))


def rate_of(which: Metric) -> Rate | None:
    """Return a metric as a rate, or None if it is not a fraction of independent draws."""
    if any(tally.amount for tally in which.tallies):
        return None  # an amount is not a number of draws
    plain = which.plain
    if plain.name == "f1" and plain == metric("f1"):
        assert JACCARD.fraction is not None
        return Rate(which, JACCARD.fraction, lambda f: f / (2 - f), lambda j: 2 * j / (1 + j))
    # Of built-in metrics alone it is known that they are fractions of the rows they name.
    built_in = plain.name in BUILT_IN and plain == metric(plain.name)
    if not built_in or which.fraction is None or which.population is None:
        return None
    return Rate(which, which.fraction, float, float)


def p_value(constraint: Constraint, tp: Any, fp: Any, P: Any, N: Any) -> Floats:
    """Return the p-value of "the constraint is missed"; 1 for metrics without an exact test."""
    rate = rate_of(constraint.metric)
    if rate is None:
        return np.ones(np.shape(tp))
    return rate.p_value(constraint.level, tp, fp, P, N)


def least_trials(constraint: Constraint, error: float) -> int | None:
    """Return how many trials are needed at least to certify a constraint, all of them successes.

    It is the least n with a^n <= error, a the level as a fraction of successes; None if the metric
    has no exact test, or no number is enough.

    Examples
    --------
    >>> from setpoint import Constraint
    >>> least_trials(Constraint("precision", 0.9), error=0.1)
    22
    """
    rate = rate_of(constraint.metric)
    if rate is None:
        return None
    level = rate.to_fraction(constraint.level)
    level = level if constraint.metric.direction == "max" else 1 - level
    if level <= 0:
        return 0
    if level >= 1:
        return None
    return max(1, math.ceil(math.log(error) / math.log(level) - 1e-9))


def shortage(constraint: Constraint, P: float, N: float, error: float) -> str | None:
    """Return what is missing to certify a constraint, or None if there may be enough rows.

    A precision floor needs true alarms, hence positives; npv needs negatives.
    """
    needed = least_trials(constraint, error)
    kind, there = {
        "positives": ("positives", P),
        "alarms": ("positives", P),
        "negatives": ("negatives", N),
        "cases without an alarm": ("negatives", N),
    }.get(str(constraint.metric.population), ("rows", P + N))
    if needed is None or there >= needed:
        return None
    be = "is" if there == 1 else "are"
    return f"'{constraint}' needs at least {needed:,} {kind}, and there {be} {there:,.0f}"


# --- the binomial distribution -------------------------------------------------------------------


def at_least(successes: ArrayLike, trials: ArrayLike, p: float) -> Floats:
    """Return P(K >= successes) for K ~ Binomial(trials, p), which is I_p(k, n - k + 1)."""
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.where(k <= 0, float(p > 0), betainc(np.maximum(k, 1e-300), n - k + 1, p))


def at_most(successes: ArrayLike, trials: ArrayLike, p: float) -> Floats:
    """Return P(K <= successes) for K ~ Binomial(trials, p)."""
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return at_least(n - k, n, 1 - p)


def lower_bound(successes: float, trials: float, confidence: float) -> float:
    """Return the least p at which P(K >= successes) is at least 1 - confidence."""
    if successes <= 0:
        return 0.0
    return float(betaincinv(successes, trials - successes + 1, 1 - confidence))


def upper_bound(successes: float, trials: float, confidence: float) -> float:
    """Return the greatest p at which P(K <= successes) is at least 1 - confidence."""
    return 1.0 - lower_bound(trials - successes, trials, confidence)
