"""Metrics that are quotients of two functions linear in the counts, as most metrics are.

The arithmetic here takes floats, numpy arrays and torch tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Counts = Any  # a float, a numpy array or a torch tensor of (weighted) counts
# (constant, coefficient of TP, coefficient of FP); with several tallies, tuples of coefficients
Linear = tuple[Any, Any, Any]


@dataclass(frozen=True)
class LinearFraction:
    """A quotient of two functions that are linear in the counts.

    metric = (n0 + n1*TP + n2*FP) / (d0 + d1*TP + d2*FP), and ``empty`` where the denominator
    is 0. Most metrics have this form. It makes a constraint ``metric >= level`` linear:
    ``level * denominator - numerator <= 0``.
    """

    numerator: Callable[[float, float], Linear]
    denominator: Callable[[float, float], Linear]
    empty: float

    def parts(self, tp: Counts, fp: Counts, P: float, N: float) -> tuple[Any, Any]:
        """Return numerator and denominator at the given counts."""
        n0, n1, n2 = self.numerator(P, N)
        d0, d1, d2 = self.denominator(P, N)
        return n0 + _dot(n1, tp) + _dot(n2, fp), d0 + _dot(d1, tp) + _dot(d2, fp)

    def value(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the quotient, or ``empty`` where it is 0/0."""
        top, bottom = self.parts(tp, fp, P, N)
        return where(bottom > 0, top / where(bottom > 0, bottom, 1.0), self.empty)

    def d_tp(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the quotient rule in TP, and 0 where the quotient is 0/0."""
        return self._derivative(tp, fp, P, N, 1)

    def d_fp(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the quotient rule in FP, and 0 where the quotient is 0/0."""
        return self._derivative(tp, fp, P, N, 2)

    def _derivative(self, tp: Counts, fp: Counts, P: float, N: float, count: int) -> Any:
        top, bottom = self.parts(tp, fp, P, N)
        n, d = self.numerator(P, N)[count], self.denominator(P, N)[count]
        square = where(bottom > 0, bottom * bottom, 0.0)  # also 0 where it underflows
        safe = where(square > 0, square, 1.0)
        if isinstance(n, tuple):  # one for each tally
            each = zip(n, d, strict=True)
            return stack([where(square > 0, (a * bottom - top * b) / safe, 0.0) for a, b in each])
        return where(square > 0, (n * bottom - top * d) / safe, 0.0)


def _dot(coefficient: Any, counts: Counts) -> Any:
    """Return a coefficient times a count, or the sum of these over several tallies."""
    if isinstance(coefficient, tuple):
        return sum(c * x for c, x in zip(coefficient, counts, strict=True))
    return coefficient * counts


# --- arithmetic on floats, numpy arrays and torch tensors ----------------------------------------


def is_tensor(x: Any) -> bool:
    """Whether something is a torch tensor; without torch, nothing is.

    A goal is read without importing torch, which takes seconds.
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` or ``no``, elementwise."""
    if is_tensor(condition):
        return sys.modules["torch"].where(condition, yes, no)
    return np.where(condition, yes, no)[()]


def sqrt(x: Any) -> Any:
    """Return the square root."""
    return x.sqrt() if is_tensor(x) else np.sqrt(x)


def maximum(x: Any, floor: float) -> Any:
    """Return the elementwise maximum of ``x`` and a number."""
    return x.clamp(min=floor) if is_tensor(x) else np.maximum(x, floor)


def stack(parts: list[Any]) -> Any:
    """Return arrays or tensors of one shape, stacked along a new first axis."""
    if any(map(is_tensor, parts)):
        torch = sys.modules["torch"]
        shape = np.broadcast_shapes(*(np.shape(part) for part in parts))
        return torch.stack([torch.as_tensor(part).expand(shape) for part in parts])
    return np.stack(np.broadcast_arrays(*parts))
