"""Features of mean 0 and deviation 1, whatever their scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Standardizer:
    """Weighted means and deviations, robust to constant, tiny and huge features.

    scikit-learn's StandardScaler squares the values, which overflows beyond 1e154 and vanishes
    below 1e-162; here each feature is divided by its range first. Everything is computed in
    float64, so that a float32 feature far from zero keeps the little that it says.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    dtype: np.dtype[Any]

    @classmethod
    def fit(cls, X: NDArray[np.floating], weight: NDArray[np.floating]) -> Standardizer:
        """Learn from the rows of positive weight."""
        dtype, X = X.dtype, X.astype(np.float64, copy=False)
        share = weight / weight.sum(dtype=np.float64)
        low, high = X.min(axis=0), X.max(axis=0)
        half = high / 2 - low / 2  # half the range, which cannot overflow
        middle = low / 2 + high / 2
        constant = half <= 2 * np.finfo(np.float64).eps * np.abs(middle)  # rounding noise, or 0
        unit = np.where(constant, 1.0, half)
        inner = (X - middle) / unit  # in [-1, 1]
        mean = share @ inner
        deviation = np.sqrt(share @ np.square(inner - mean))
        scale = unit * deviation
        return cls(middle + mean * unit, np.where(constant | (scale == 0), np.inf, scale), dtype)

    def transform(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return standardised features; a feature that was constant becomes 0."""
        return ((X.astype(np.float64, copy=False) - self.centre) / self.scale).astype(self.dtype)
