"""Standardization of features: mean 0 and deviation 1, from arrays or from one pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.processes import all_gather
from setpoint.data.rows import Block


@dataclass(frozen=True)
class Standardizer:
    """Weighted means and deviations, robust to constant, tiny and huge features.

    scikit-learn's StandardScaler squares the values, which overflows beyond 1e154 and vanishes
    below 1e-162; here each feature is divided by its range first. Everything is computed in
    float64, so that a float32 feature far from zero keeps its small variation.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    dtype: np.dtype[Any]

    @classmethod
    def fit(cls, X: NDArray[np.floating], weight: NDArray[np.floating]) -> Standardizer:
        """Fit to rows of positive weight."""
        dtype, X = X.dtype, X.astype(np.float64, copy=False)
        fraction = weight / weight.sum(dtype=np.float64)
        low, high = X.min(axis=0), X.max(axis=0)
        half = high / 2 - low / 2  # half the range, which cannot overflow
        middle = low / 2 + high / 2
        constant = half <= 2 * np.finfo(np.float64).eps * np.abs(middle)  # rounding noise, or 0
        unit = np.where(constant, 1.0, half)
        inner = (X - middle) / unit  # in [-1, 1]
        mean = fraction @ inner
        deviation = np.sqrt(fraction @ np.square(inner - mean))
        scale = unit * deviation
        return cls(middle + mean * unit, np.where(constant | (scale == 0), np.inf, scale), dtype)

    def transform(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return standardized features; a feature that was constant becomes 0."""
        return ((X.astype(np.float64, copy=False) - self.centre) / self.scale).astype(self.dtype)


Columns = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Moments of some rows' features: weight, mean, sum of squares about it, and range."""

    weight: float
    mean: Columns
    squares: Columns
    low: Columns
    high: Columns

    @classmethod
    def of(cls, X: Columns, weight: Columns) -> Moments:
        """Return the moments of rows with positive weights."""
        total = float(weight.sum())
        mean = (weight / total) @ X
        return cls(total, mean, weight @ np.square(X - mean), X.min(axis=0), X.max(axis=0))

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows, after Chan, Golub and LeVeque (1979).

        Squares are never taken about zero, so that a feature far from it keeps its variation.
        """
        total = self.weight + other.weight
        apart = other.mean - self.mean
        return Moments(
            total,
            self.mean + apart * (other.weight / total),
            self.squares + other.squares + apart**2 * (self.weight * other.weight / total),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def standardizer_of(blocks: Iterable[Block]) -> Standardizer:
    """Return the standardizer of rows that come in blocks, over all processes."""
    found: Moments | None = None
    for block in blocks:
        weighty = block.weight > 0
        if weighty.any():
            X, weight = (f[weighty].double().cpu().numpy() for f in (block.X, block.weight))
            moments = Moments.of(X, weight)
            found = moments if found is None else found + moments
    every = reduce(Moments.__add__, [m for m in all_gather(found) if m is not None])
    scale = np.sqrt(every.squares / every.weight)
    constant = (every.low == every.high) | (scale == 0)
    # To float32, the type of the features: sums of several processes then agree.
    mean, scale = (x.astype(np.float32).astype(np.float64) for x in (every.mean, scale))
    return Standardizer(mean, np.where(constant, np.inf, scale), np.dtype(np.float32))
