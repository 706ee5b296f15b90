"""Fractions in plain English, and their confidence intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from setpoint.certificates.rates import lower_bound, rate_of, upper_bound
from setpoint.goals.metrics import Metric

FEW = 100  # with fewer, "82 of 100" would claim more digits than were observed
CONFIDENCE = 0.95  # of the intervals


class Phrase(NamedTuple):
    """A fraction in words, and whether a verb after it is in the plural."""

    text: str
    is_plural: bool

    def followed_by(self, verb: str) -> str:
        """Return the text and a verb, which is given in the plural."""
        singular = {"are": "is", "were": "was", "raise": "raises"}[verb]
        return f"{self.text} {verb if self.is_plural else singular}"


def fraction(successes: float, trials: float, one: str, many: str) -> Phrase:
    """Put a fraction into words: "82 of 100 frauds", "3 of the 7 frauds", "all 12 frauds".

    Rounding never turns some into none, or nearly all into all.
    """
    k, n = int(successes), int(trials)
    if n == 1 and k == 1:
        return Phrase(f"the only {one}", False)
    if k == 0:
        return Phrase(f"none of the {n:,} {many}" if n > 1 else f"not one {one}", False)
    if k == n:
        return Phrase(f"all {n:,} {many}", True)
    if n < FEW:
        return Phrase(f"{k} of the {n} {many}", k != 1)
    count, base = _rounded(k / n)
    if count == 0:
        return Phrase(f"fewer than 1 of {base:,} {many}", False)
    if count == base:
        return Phrase(f"more than {base - 1:,} of {base:,} {many}", True)
    return Phrase(f"{count:,} of {base:,} {many}", count != 1)


def _rounded(value: float) -> tuple[int, int]:
    """Return a fraction as a count of 10, 100 or 1,000, the smallest that is accurate enough."""
    for base, slack in ((10, 0.05), (100, 0.5)):
        count = round(value * base)
        if 0 < count < base and abs(value * base - count) <= slack + 1e-9:
            return count, base
    return round(value * 1000), 1000


def percent(value: float) -> str:
    """Put a fraction of an amount into words; rounding never makes it all or none."""
    if value in (0.0, 1.0):
        return f"{100 * value:.0f} %"
    if value < 0.001:
        return "less than 0.1 %"
    if value > 0.999:
        return "more than 99.9 %"
    digits = 0 if 0.0995 < value < 0.9905 else 1
    return f"{100 * value:.{digits}f} %"


def interval(successes: float, trials: float) -> tuple[float, float]:
    """Return the exact two-sided confidence interval of a proportion (Clopper and Pearson)."""
    if trials == 0:
        return 0.0, 1.0
    each = 1 - (1 - CONFIDENCE) / 2
    return lower_bound(successes, trials, each), upper_bound(successes, trials, each)


def intervals(
    successes: NDArray[Any], trials: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the intervals of many proportions, of at least one trial each."""
    each = (1 - CONFIDENCE) / 2

    def lower(k: NDArray[Any]) -> NDArray[np.float64]:
        some = np.maximum(k, 1)
        return np.where(k > 0, betaincinv(some, trials - some + 1, each), 0.0)

    return lower(successes), 1.0 - lower(trials - successes)


def interval_of(which: Metric, counts: Any) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a metric at counts TP, FP, P and N; None if it is no fraction."""
    rate = rate_of(which)
    if rate is None:
        return None, None
    successes, trials = (float(x) for x in rate.draws(*counts))
    low, high = (float(rate.from_fraction(end)) for end in interval(successes, trials))
    return low, high


def between(successes: float, trials: float) -> str:
    """Put the interval into words, rounded outwards: "between 75 and 88 of 100"."""
    low, high = interval(successes, trials)
    base = 100 if high >= 0.02 and low <= 0.98 else 1000
    least, most = math.floor(low * base + 1e-9), math.ceil(high * base - 1e-9)
    return f"between {least:,} and {most:,} of {base:,}"
