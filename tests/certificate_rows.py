"""Rows with scores, all outcomes of a few draws, and p-values from scipy, to test certificates."""

from itertools import product

import numpy as np
from scipy.stats import binom, binomtest, multinomial


def normal(seed=0, n=600, fraction=0.3, gap=2.5):
    """Return labels and scores from two normal distributions."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < fraction
    return y, rng.normal(size=n) + gap * y


def rows_with_counts(tp, fp, fn, tn, threshold=0.5):
    """Return labels and scores with these counts at the threshold."""
    y, alarm = (np.repeat(x, [tp, fp, fn, tn]) for x in ([True, False] * 2, [True, True, 0, 0]))
    return y, np.where(alarm, threshold + 1.0, threshold - 1.0)


def outcomes(n, chances):
    """Return all counts of n independent draws, one row each, and their chances."""
    counts = np.array([c for c in product(range(n + 1), repeat=len(chances)) if sum(c) == n])
    return counts, multinomial.pmf(counts, n, chances)


def p_value_by_hand(goal, alarm, y):
    """Return the greatest p-value of all constraints, from scipy's binomial distribution."""
    found = []
    for constraint in goal.constraints:
        success, trial = {
            "precision": (alarm & y, alarm),
            "recall": (alarm & y, y),
            "fnr": (~alarm & y, y),
            "fpr": (alarm & ~y, ~y),
            "specificity": (~alarm & ~y, ~y),
            "alarm_rate": (alarm, np.ones_like(y)),
        }[constraint.metric.name]
        k, n, level = success.sum(), trial.sum(), constraint.level
        tail = binom.sf(k - 1, n, level) if constraint.relation == ">=" else binom.cdf(k, n, level)
        found.append(tail if n else 1.0)
    return max(found)


def clopper_pearson(k, n, confidence, side="lower"):
    """Return the exact one-sided bound of a fraction."""
    alternative = "greater" if side == "lower" else "less"
    interval = binomtest(int(k), int(n), alternative=alternative).proportion_ci(confidence)
    return interval.low if side == "lower" else interval.high
