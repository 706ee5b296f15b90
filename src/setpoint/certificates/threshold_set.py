"""Sets of thresholds: those among which a certificate lets a person choose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError

Interval = tuple[float, float]


@dataclass(frozen=True)
class ThresholdSet:
    """Thresholds in intervals ``low <= t < high``, in rising order and apart from each other.

    Where high is inf, the interval includes it. ``t in thresholds`` tells whether a threshold
    belongs to the set; iteration yields the intervals.

    Attributes
    ----------
    intervals : tuple of (float, float)
        The ends of each interval; the first low may be -inf and the last high inf.
    """

    intervals: tuple[Interval, ...] = ()

    def __post_init__(self) -> None:
        ends = [end for interval in self.intervals for end in interval]
        pairs = all(len(interval) == 2 for interval in self.intervals)
        if not pairs or not all(a < b for a, b in pairwise(ends)):
            raise SetpointError(
                f"thresholds are intervals (low, high) in rising order, not {self.intervals}."
            )

    @classmethod
    def of(cls, low: NDArray[np.floating], high: NDArray[np.floating]) -> ThresholdSet:
        """Return the union of intervals that are in rising order and do not overlap."""
        if len(low) == 0:
            return cls()
        apart = np.flatnonzero(low[1:] != high[:-1])
        starts, ends = np.append(0, apart + 1), np.append(apart, len(low) - 1)
        return cls(tuple(zip(low[starts].tolist(), high[ends].tolist(), strict=True)))

    @classmethod
    def of_points(cls, thresholds: Iterable[float]) -> ThresholdSet:
        """Return single thresholds as a set."""
        values = np.unique(np.fromiter(thresholds, dtype=np.float64))
        values = np.minimum(values, np.finfo(np.float64).max)  # as good as inf
        return cls.of(values, np.array([_next(value) for value in values]))

    @classmethod
    def above(cls, low: float) -> ThresholdSet:
        """Return all thresholds from one on."""
        return cls(((low, math.inf),))

    def __and__(self, other: ThresholdSet) -> ThresholdSet:
        """Return the thresholds that are in both sets."""
        found = [(max(a, c), min(b, d)) for a, b in self for c, d in other if max(a, c) < min(b, d)]
        return type(self)(tuple(sorted(found)))

    @property
    def is_one_threshold(self) -> bool:
        """Whether it consists of a single number."""
        return len(self.intervals) == 1 and not self.has_ranges

    @property
    def has_ranges(self) -> bool:
        """Whether it is more than single numbers."""
        return not all(map(_is_point, self.intervals))

    def __contains__(self, threshold: Any) -> bool:
        return any(
            low <= threshold and (threshold < high or high == math.inf)
            for low, high in self.intervals
        )

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def less(self, threshold: float, dtype: Any = np.float64) -> ThresholdSet:
        """Return the set for scores from which one of its thresholds was subtracted.

        Rounding keeps it right: subtraction in the scores' dtype is monotone, so a score less the
        threshold exceeds a number of [low', high') exactly if the score exceeds one of [low, high).
        Intervals that are too narrow for the dtype are left out, but not the threshold itself.
        """
        kind = np.dtype(dtype).type
        if threshold in self and self.is_one_threshold:
            return self.of_points([0.0])
        ends = np.array(self.intervals, dtype=kind).reshape(-1, 2) - kind(threshold)
        ends = ends[ends[:, 0] < ends[:, 1]]
        found = self.of(ends[:, 0], ends[:, 1])
        if threshold not in self or 0.0 in found:
            return found
        zero = (0.0, float(np.nextafter(kind(0), kind(1))))
        return type(self)(tuple(sorted([*found.intervals, zero])))

    def __str__(self) -> str:
        n = len(self.intervals)
        if n <= _MOST_SHOWN:
            return ", ".join(map(_described, self.intervals)) or "none"
        first, last = self.intervals[0][0], self.intervals[-1][0]
        if not self.has_ranges:
            return f"{n} single thresholds from {first!r} to {last!r}"
        return f"{n} intervals, the first {_described(self.intervals[0])} and the last " + (
            _described(self.intervals[-1])
        )


EVERY_THRESHOLD = ThresholdSet.above(-math.inf)
NO_THRESHOLDS = ThresholdSet()
_DIGITS = Context(prec=6)
_MOST_SHOWN = 3
_NARROW = 1e-14  # relative width of an interval that is a single number, up to rounding


def _described(interval: Interval) -> str:
    low, high = interval
    if _is_point(interval):
        return repr(low)
    if low == -math.inf and high == math.inf:
        return "any"
    # Rounded to the inside, so that what is shown belongs to the set.
    first, last = (_DIGITS.create_decimal(Decimal(end)) for end in interval)
    if float(first) < low:
        first = _DIGITS.next_plus(first)
    if float(last) >= high:
        last = _DIGITS.next_minus(last)
    up_to = "to below 0" if high == 0 else f"to {float(last):.6g}"
    if low == -math.inf:
        return up_to.replace("to below", "below") if high == 0 else f"up {up_to}"
    if high == math.inf:
        return f"{float(first):.6g} or more"
    if high != 0 and not low <= float(first) < float(last) < high:  # too narrow for so many digits
        return f"from {low!r} to below {high!r}"
    return f"{float(first):.6g} {up_to}"


def _is_point(interval: Interval) -> bool:
    low, high = interval
    if math.isinf(low) or math.isinf(high):
        return _next(low) == high
    return high - low <= max(_NARROW * max(abs(low), abs(high)), 1e-40)


def _next(value: float) -> float:
    return math.nextafter(value, math.inf)
