"""Bounds on the metrics of a review band, and a test of its reviews at all bands at once.

**Reviews.** Let n rows have K + 1 <= n, and let P(Bin(n, r) <= K) (n + 1 - K) <= e. Then with a
probability of at least 1 - e, every band that reviews at most K of the rows reviews at most a
fraction r of all cases.

*Proof.* Let U_1, ..., U_n be uniform and S_i = F^-1(U_i), which has the distribution of the scores,
with or without ties. A band (l, h] has the probability F(h) - F(l), and the rows in it are those
with U in (F(l), F(h)]. If there are at most K, then F(h) - F(l) is at most the length of some K + 1
consecutive of the n + 1 spacings of U. Each such sum of K + 1 spacings has the Beta(K + 1, n - K)
distribution, which exceeds r with probability P(Bin(n, r) <= K), and there are n + 1 - K of them.
QED

If one threshold is given, bands are nested, and e needs no division by n + 1 - K. Two equal
thresholds review nothing, whatever the population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from setpoint.certificates.bounds import Bound, bounds_of
from setpoint.certificates.rates import at_most, upper_bound
from setpoint.certificates.sequence import Rows
from setpoint.goals.band_metrics import BandMetric
from setpoint.goals.bands import BandGoal
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import metric
from setpoint.thresholds.bands import BandPoint
from setpoint.thresholds.operating_point import OperatingPoint


@dataclass(frozen=True)
class BandBound(Bound):
    """A bound on a metric of a review band."""

    metric: BandMetric  # type: ignore[assignment]


def most_reviewed(n: int, rate: float, error: float, *, any_band: bool) -> int:
    """Return the largest number of n rows that a band may review, or -1 if there is none.

    A band that reviews so many certifies a review rate of at most ``rate``; with ``any_band`` at
    all bands at once, otherwise at bands of which one threshold is fixed.
    """

    def passes(k: int) -> bool:
        bands = n + 1 - k if any_band else 1
        return bands * float(at_most(float(k), float(n), rate)) <= error

    if passes(n):
        return n
    low, high = -1, n  # low passes, or there is none; high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def review_bound(k: int, n: int, confidence: float) -> float:
    """Return a bound on the rate of a band with k of n rows that holds for all bands at once.

    The error is divided among numbers of rows on a coarse grid; a band has at most the rate of the
    next larger number.
    """
    grid, largest = [0], 0
    while largest < n:
        largest = min(max(largest + 1, math.ceil(1.15 * largest)), n)
        grid.append(largest)
    at = next(most for most in grid if most >= k)
    if at == n:
        return 1.0
    return upper_bound(at, n, 1 - (1 - confidence) / (len(grid) * (n + 1 - at)))


# --- bounds on all metrics ------------------------------------------------------------------------


def bounds_of_band(
    point: BandPoint,
    goal: BandGoal,
    testing: Rows,
    confidence: float,
    given: dict[str, float | None],
    certified: bool,
) -> tuple[BandBound, ...]:
    """Return the bounds on each constrained metric, and on the objective, at a band."""
    required: list[tuple[BandMetric, float | None]] = [
        (c.metric, c.level) for c in goal.constraints
    ]
    found = []
    for which, level in [*required, (goal.objective, None)]:
        if which.side == "cost":
            found.append(BandBound(which, level, point.objective, None, "estimate"))
        elif which.side == "review":
            found.append(_review_bound(point, level, confidence, given, certified))
        else:
            found.append(_side_bound(point, which, level, testing, confidence, given, certified))
    return tuple(found)


def _side_bound(
    point: BandPoint,
    which: BandMetric,
    level: float | None,
    testing: Rows,
    confidence: float,
    given: dict[str, float | None],
    certified: bool,
) -> BandBound:
    """Return the bound on a metric of one threshold."""
    threshold = point.high if which.side == "alarm" else point.low
    tp, fp = (float(x[0]) for x in testing.counts(np.array([threshold])))
    P, N = testing.totals
    plain, mirrored = metric(str(which.at_threshold)), which.name == "clear_rate"
    constraints: tuple[Constraint, ...] = ()
    if level is not None:
        constraints = (Constraint(plain, 1 - level if mirrored else level),)
    at = OperatingPoint(threshold, tp, fp, P - tp, N - fp, Goal(plain, constraints), point.on)
    tested = None if given[which.side] is None else 1
    bound = bounds_of(at, confidence, tested, certified)[0]
    return _as_band_bound(bound, which, level, mirrored)


def _as_band_bound(
    bound: Bound, which: BandMetric, level: float | None, mirrored: bool
) -> BandBound:
    value, limit, successes = bound.value, bound.bound, bound.successes
    if mirrored:
        value, limit = 1 - value, None if limit is None else 1 - limit
        successes = None if successes is None or bound.trials is None else bound.trials - successes
    if limit is not None and level is not None and bound.level == bound.bound:
        limit = level
    return BandBound(which, level, value, limit, bound.kind, successes, bound.trials, bound.p_value)


def _review_bound(
    point: BandPoint,
    level: float | None,
    confidence: float,
    given: dict[str, float | None],
    certified: bool,
) -> BandBound:
    """Return the bound on the rate of reviews."""
    which, c = BandMetric("review_rate"), point.counts
    k, n = int(c.review), int(c.P + c.N)
    p = None if level is None else float(at_most(float(k), float(n), level))
    bound: float | None
    if point.low == point.high:
        bound = 0.0
    elif None not in given.values():
        bound = upper_bound(k, n, confidence)
    elif level is None:
        bound = review_bound(k, n, confidence)
    else:
        bound = level if certified else None
    return BandBound(which, level, point.review_rate, bound, "exact", k, n, p)
