"""Custom metrics: their definition and its validation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from setpoint.errors import GoalError
from setpoint.goals.linear_fraction import Counts, maximum
from setpoint.goals.metrics import CountFunction, Direction, Metric, is_built_in, register

# Words of the goal language, which cannot be names of metrics.
_RESERVED = frozenset({"max", "min", "st", "and", "subject", "such", "fpor", "frop", "ofos"})
_NAME = re.compile(r"[a-z_][a-z0-9_]*")


def define_metric(
    name: str,
    value: CountFunction,
    *,
    d_tp: CountFunction | None = None,
    d_fp: CountFunction | None = None,
    direction: Direction = "max",
    monotone: bool = True,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Metric:
    """Add a custom metric to the goal language and return it.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and underscores.
    value : callable
        ``f(TP, FP, P, N)`` for floats and numpy arrays; plain arithmetic works for both.
    d_tp, d_fp : callable, optional
        Its partial derivatives. Default: central differences of half a count. All three functions
        must be finite for all counts, also where a quotient is 0/0.
    direction, monotone, bounds
        See :class:`Metric`. ``monotone=True`` is checked on a grid of counts.

    Examples
    --------
    >>> from setpoint import define_metric
    >>> profit = define_metric(
    ...     "profit", lambda tp, fp, P, N: (50 * tp - fp) / (50 * P), bounds=(-1e9, 1.0)
    ... )
    """
    if not _NAME.fullmatch(name):
        raise GoalError(
            f"metric name {name!r}: use lower-case letters, digits and underscores only."
        )
    if is_built_in(name):
        raise GoalError(f"metric name {name!r} is taken by a built-in metric.")
    if name in _RESERVED:
        raise GoalError(f"metric name {name!r} is a word of the goal language.")
    low, high = bounds
    if not low < high:
        raise GoalError(f"metric {name!r}: bounds {bounds} are not in order.")
    new = Metric(
        name,
        value,
        d_tp or _Difference(value, 0),
        d_fp or _Difference(value, 1),
        direction=direction,
        monotone=monotone,
        bounds=(float(low), float(high)),
    )
    _check_defined(new)
    if monotone and (where_not := not_monotone_at(new)):
        raise GoalError(f"metric {name!r} is not monotone: {where_not}. Pass monotone=False.")
    register(new)
    return new


@dataclass(frozen=True)
class _Difference:
    """The central difference of ``value`` in TP (0) or FP (1), inside the domain."""

    value: CountFunction
    count: int

    def __call__(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        counts, top = (tp, fp), (P, N)[self.count]
        low = maximum(counts[self.count] - 0.5, 0.0)
        high = -maximum(-(counts[self.count] + 0.5), -float(top))
        at_low = (low, fp) if self.count == 0 else (tp, low)
        at_high = (high, fp) if self.count == 0 else (tp, high)
        return (self.value(*at_high, P, N) - self.value(*at_low, P, N)) / (high - low)


def _check_defined(candidate: Metric) -> None:
    """Raise GoalError unless the metric is finite and within its bounds for all counts."""
    P, N = 3.0, 7.0
    tp, fp = (grid.ravel() for grid in np.meshgrid(np.arange(P + 1), np.arange(N + 1)))
    low, high = candidate.bounds
    for name in ("value", "d_tp", "d_fp"):
        function = getattr(candidate, name)
        for a, b in zip(tp.tolist(), fp.tolist(), strict=True):
            at = f"at TP={a:g}, FP={b:g} of P={P:g}, N={N:g}"
            try:
                with np.errstate(all="ignore"):
                    number = float(function(np.float64(a), np.float64(b), P, N))
            except Exception as error:
                raise GoalError(f"metric {candidate.name!r}: {name} fails {at}: {error}") from error
            if not np.isfinite(number):
                raise GoalError(
                    f"metric {candidate.name!r}: {name} is {number} {at}; define it there, "
                    "e.g. with numpy.where."
                )
            if name == "value" and not low - 1e-9 <= number <= high + 1e-9:
                raise GoalError(
                    f"metric {candidate.name!r} is {number:g} {at}, outside its bounds "
                    f"{candidate.bounds}; pass wider ones."
                )
    try:
        with np.errstate(all="ignore"):
            np.broadcast_to(np.asarray(candidate.value(tp, fp, P, N), dtype=float), tp.shape)
    except Exception as error:
        raise GoalError(
            f"metric {candidate.name!r} does not accept numpy arrays ({error}); use numpy.where "
            "instead of if."
        ) from error


def not_monotone_at(candidate: Metric) -> str | None:
    """Return where the metric violates monotonicity on a grid of counts, or None."""
    for P, N in ((1.0, 1.0), (3.0, 7.0), (5.0, 40.0), (12.0, 4.0)):
        tp, fp = np.meshgrid(np.arange(P + 1), np.arange(N + 1), indexing="ij")
        with np.errstate(all="ignore"):
            value = np.broadcast_to(candidate.value(tp, fp, P, N), tp.shape)
        gain = candidate.sign * np.asarray(value, dtype=float)
        slack = 1e-9 * max(1.0, float(np.abs(gain).max()))
        for axis, verb in ((0, "a further true positive makes it worse"),
                           (1, "a further false positive makes it better")):  # fmt: skip
            step = np.diff(gain, axis=axis) * (1 if axis == 0 else -1)
            if (step < -slack).any():
                i, j = np.argwhere(step < -slack)[0]
                return f"at TP={i:g}, FP={j:g} of P={P:g}, N={N:g} {verb}"
    return None
