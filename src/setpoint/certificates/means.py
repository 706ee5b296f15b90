"""Finite-sample bounds on a mean of bounded values, such as the cost per row, at one threshold.

The values of n rows are independent draws from [low, high]. Both ends are stated beforehand, e.g.
by a cap on amounts, and are not taken from the rows. Nothing else is assumed about the values.

**Betting** (Waudby-Smith and Ramdas, 2024). Scale the values to u in [0, 1] and test "mean >= m".
In an order that does not depend on the values, bet the fraction lambda of the present wealth on u
being below m: the wealth is multiplied by 1 + lambda (m - u). With 0 <= lambda < 1 / (1 - m),
chosen before u is seen, it stays positive, and if the mean is at least m, its expected value does
not rise from 1. So it ends at 1 / alpha or above with a probability of at most alpha (Markov).

**Which bets.** n is known, so only the final wealth matters. If sums were normal with the variance
v of the rows to come, the most powerful test would pay 1 / alpha if the final sum is low enough and
nothing otherwise. The wealth alpha W = Phi(d) on the way there has the derivative phi(d) / sqrt(v),
hence the bet

    lambda = phi(d) / (Phi(d) sqrt(v)),    d = Phi^-1(alpha W),

and no bet once W has reached 1 / alpha. The variance is estimated from the rows before and from
planning rows. A poor estimate costs power, but never validity. For values 0 and 1 the bound is
hardly wider than Clopper and Pearson's; a constant lambda is nearly twice as wide.

**Order.** Rows are taken in a random order of their positions, which is the same for all samples of
n rows. It cannot depend on their values, unless the rows were sorted by these.

**The upper bound** is the lowest m that is rejected when m descends along a fixed grid until the
first one that is not. The highest point of the grid at or below the true mean is one fixed
hypothesis: the bound is too low only if that one is rejected.

*Hoeffding and Bentkus* (Bates et al., 2021) is a reference without an order or bets. It adapts to
the mean but not to the variance, and is much wider if most values are far below their cap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri

from setpoint._internal.validation import check_fraction, check_number
from setpoint.certificates.rates import at_most
from setpoint.errors import SetpointError

Floats = NDArray[np.floating]
Method = Literal["betting", "hoeffding-bentkus"]

_BLOCKS = 64  # the fraction of the wealth to bet is set anew for each block of rows
_OWN_PLAN = 32  # without planning rows, one row of so many is one
_CAUTION = 0.03  # rows, as a fraction of all, assumed at first to have the largest variance
_MOST_OF_BET = 0.95  # of the largest bet that cannot lose everything
_COARSE = 0.02  # of the error, for each of the two coarse searches of an upper bound
_STEPS = 32  # hypotheses tested at once
_MOST_STEPS = 4000  # of one search; it then ends with the lowest m so far, which is valid


class Moments(NamedTuple):
    """Mean and second moment of values scaled to [0, 1], and the number of rows behind them."""

    mean: float
    square: float
    rows: float

    @classmethod
    def of(cls, values: Floats) -> Moments:
        """Return the moments of scaled values."""
        if len(values) == 0:
            return cls(0.0, 0.0, 0.0)
        return cls(float(values.mean()), float((values**2).mean()), float(len(values)))

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(max(self.square - self.mean**2, 0.0))


def mean_upper_bound(
    values: ArrayLike,
    low: float,
    high: float,
    confidence: float,
    *,
    planned: ArrayLike | None = None,
    method: Method = "betting",
) -> float:
    """Return an upper confidence bound on the mean of independent draws from [low, high].

    With a probability of at least ``confidence`` it is at or above the mean of the population,
    whatever the distribution and the number of rows are.

    Parameters
    ----------
    values : array-like of shape (n,)
        One value per row, in the order in which they were drawn, or any other that has nothing to
        do with the values.
    low, high : float
        The stated range of the values; it must not be taken from these rows.
    confidence : float
        1 - alpha.
    planned : array-like, optional
        Values of other rows; they make the bound sharper if they have about the same variance.
    method : {"betting", "hoeffding-bentkus"}
        The bound, to be chosen before looking at the rows.

    Examples
    --------
    >>> values = np.random.default_rng(0).choice([0, 100, 5], 1000, p=[0.98, 0.002, 0.018])
    >>> float(values.mean()), round(mean_upper_bound(values, 0, 100, 0.9), 2)
    (0.585, 1.22)
    """
    sample = Sample.of(values, low, high, planned=planned)
    return sample.upper_bound(1 - check_fraction(confidence, "confidence"), _checked(method))


# --- samples --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Values scaled to [0, 1], in a fixed random order.

    Attributes
    ----------
    values : ndarray
        The scaled values; bets are placed on them in this order.
    plan : Moments
        Mean and second moment of other rows.
    low, high : float
        The values that 0 and 1 stand for.
    """

    values: Floats
    plan: Moments
    low: float
    high: float

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        low: float,
        high: float,
        *,
        planned: ArrayLike | None = None,
    ) -> Sample:
        """Check the values and put them into a random order."""
        low, high = check_range(low, high)
        scaled = _scaled(values, low, high, "values")
        other = None if planned is None else _scaled(planned, low, high, "planned")
        return cls.in_order(scaled[random_order(len(scaled))], low, high, other)

    @classmethod
    def in_order(
        cls, values: Floats, low: float, high: float, planned: Floats | None = None
    ) -> Sample:
        """Return a sample of scaled values that are in random order already."""
        if planned is None:
            first = math.ceil(len(values) / _OWN_PLAN)
            planned, values = values[:first], values[first:]
        return cls(values, Moments.of(planned), low, high)

    def p_value(self, level: float, error: float, method: Method = "betting") -> float:
        """Return a p-value of "the mean exceeds the level"."""
        m = (level - self.low) / (self.high - self.low)
        if m >= 1:
            return 0.0  # the mean cannot exceed it
        if m <= 0 or len(self.values) == 0:
            return 1.0
        if method == "hoeffding-bentkus":
            return _hoeffding_bentkus(float(self.values.mean()), len(self.values), m)
        return float(np.exp(-max(self.log_wealth(np.array([m]), error)[0], 0.0)))

    def upper_bound(self, error: float, method: Method = "betting") -> float:
        """Return an upper bound on the mean."""
        if len(self.values) == 0:
            return self.high
        find = self._by_hoeffding_bentkus if method == "hoeffding-bentkus" else self._by_betting
        return min(self.low + find(error) * (self.high - self.low), self.high)

    def log_wealth(self, m: Floats, error: float) -> Floats:
        """Return the logarithm of the final wealth for each hypothesis "mean >= m", 0 < m < 1."""
        n, plan, log_wealth = len(self.values), self.plan, np.zeros(len(m))
        done = total = squares = 0.0
        weight = min(plan.rows, 1 + n / 10)  # planning rows may come from elsewhere
        largest = _MOST_OF_BET / (1 - m)
        target = -math.log(error)
        for values, counts in self._blocks:
            caution = 1 + _CAUTION * n * (1 - done / n) ** 3  # less as rows are seen
            square = squares - 2 * m * total + done * m**2  # of the distances from m, so far
            square += weight * (plan.square - 2 * m * plan.mean + m**2) + caution * m * (1 - m)
            remaining = (n - done) * square / (done + weight + caution)
            log_goal = np.clip(log_wealth - target, -600.0, None)
            d = ndtri(np.exp(np.minimum(log_goal, -1e-12)))
            ratio = np.exp(-(d**2) / 2 - 0.5 * math.log(2 * math.pi) - log_ndtr(d))
            bets = np.minimum(ratio / np.sqrt(remaining), largest)
            bets[log_goal >= 0] = 0.0
            log_wealth += np.log1p(bets[:, None] * (m[:, None] - values)) @ counts
            done += float(counts.sum())
            total += float(counts @ values)
            squares += float(counts @ values**2)
        return log_wealth

    @cached_property
    def _blocks(self) -> list[tuple[Floats, Floats]]:
        """The distinct values of each block, and how often each occurs."""
        n = len(self.values)
        ends = np.unique(np.linspace(0, n, min(n, _BLOCKS) + 1).astype(int))
        found = []
        for begin, end in pairwise(ends):
            values, counts = np.unique(self.values[begin:end], return_counts=True)
            found.append((values, counts.astype(float)))
        return found

    def _by_betting(self, error: float) -> float:
        """Return the lowest m rejected in a row, by three searches, each from the one before.

        A coarse grid and a finer one, with a small part of the error each, say where the last
        search begins. If neither begins below the mean, the last one passes the mean only if it
        rejects one fixed hypothesis. The errors of all three add up.
        """
        n = len(self.values)
        scale = max(self.plan.deviation, 1 / math.sqrt(n)) / math.sqrt(n)
        coarse = _COARSE * error

        def logistic(i: NDArray[np.intp], start: float) -> Floats:
            return np.asarray(1 / (1 + np.exp(0.05 * i - 5.0)))  # 0.993, ...; start is 1

        def even(step: float) -> Any:
            def points(i: NDArray[np.intp], start: float) -> Floats:
                return np.asarray((math.ceil(start / step - 1e-9) - i) * step)

            return points

        found = self._descend(1.0, logistic, coarse)
        found = self._descend(found, even(scale), coarse)
        return self._descend(found, even(0.04 * scale), error - 2 * coarse)

    def _descend(self, start: float, points: Any, error: float) -> float:
        """Return the last point below the start before the first that is not rejected."""
        lowest, first = start, 1
        while first < _MOST_STEPS:
            m = points(np.arange(first, first + _STEPS), start)
            kept = (m > 0) & (m < 1)
            m = m[: int(np.argmin(kept))] if not kept.all() else m
            if len(m) == 0:
                break
            rejected = self.log_wealth(m, error) >= -math.log(error)
            passed = len(m) if rejected.all() else int(np.argmin(rejected))
            if passed:
                lowest = float(m[passed - 1])
            if passed < _STEPS:
                break
            first += _STEPS
        return min(lowest, start)

    def _by_hoeffding_bentkus(self, error: float) -> float:
        mean, n = float(self.values.mean()), len(self.values)
        low, high = mean, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            passes = middle < 1 and _hoeffding_bentkus(mean, n, middle) <= error
            low, high = (low, middle) if passes else (middle, high)
        return high


def random_order(n: int) -> NDArray[np.intp]:
    """Return the order in which n rows are taken, a permutation that depends on n alone.

    An order that depended on the values, if only through a hash, would let bets know what comes.
    """
    return np.random.default_rng(20_213).permutation(n)


def _hoeffding_bentkus(mean: float, n: int, m: float) -> float:
    """Return a p-value of "the mean is at least m" (Bates et al., 2021)."""
    if mean >= m:
        return 1.0
    divergence = (1 - mean) * math.log((1 - mean) / (1 - m))
    if mean > 0:
        divergence += mean * math.log(mean / m)
    bentkus = math.e * float(at_most(math.ceil(n * mean - 1e-9), n, m))
    return min(math.exp(-n * divergence), bentkus, 1.0)


# --- checks ---------------------------------------------------------------------------------------


def check_range(low: float, high: float) -> tuple[float, float]:
    """Return the stated range of values; raise SetpointError if it is empty or infinite."""
    low, high = check_number(low, "low"), check_number(high, "high")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SetpointError(
            f"values must have a stated finite range with low < high, not [{low:g}, {high:g}]."
        )
    return low, high


def _checked(method: str) -> Method:
    if method not in get_args(Method):
        raise SetpointError(
            f"method is {' or '.join(map(repr, get_args(Method)))}, not {method!r}."
        )
    return method  # type: ignore[return-value]


def _finite(values: ArrayLike, name: str) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SetpointError(f"{name} must be numbers: {error}") from error
    if found.ndim != 1:
        raise SetpointError(f"{name} must hold one number per row; its shape is {found.shape}.")
    if not np.isfinite(found).all():
        at = int(np.flatnonzero(~np.isfinite(found))[0])
        raise SetpointError(f"{name} is {found[at]} in row {at}; give a finite number there.")
    return found


def _scaled(values: ArrayLike, low: float, high: float, name: str) -> Floats:
    found = (_finite(values, name) - low) / (high - low)
    outside = (found < -1e-9) | (found > 1 + 1e-9)  # beyond rounding
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        value = np.asarray(values, dtype=np.float64)[at]
        raise SetpointError(
            f"{name} must lie in the stated range [{low:g}, {high:g}]; row {at} has {value:g}. "
            "State a larger cap, or count larger amounts as the cap."
        )
    return np.asarray(np.clip(found, 0.0, 1.0))
