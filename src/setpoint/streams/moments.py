"""Means and deviations of features, from one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from setpoint._standardize import Standardizer
from setpoint.streams.parts import TRAINING
from setpoint.streams.problem import StreamProblem
from setpoint.streams.together import gather

Columns = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """What is known of some rows' features: weight, mean, sum of squares about it, and range."""

    weight: float
    mean: Columns
    squares: Columns
    low: Columns
    high: Columns

    @classmethod
    def of(cls, X: Columns, weight: Columns) -> Moments:
        """Return those of rows with positive weights."""
        total = float(weight.sum())
        mean = (weight / total) @ X
        return cls(total, mean, weight @ np.square(X - mean), X.min(axis=0), X.max(axis=0))

    def __add__(self, other: Moments) -> Moments:
        """Return those of both, as by Chan, Golub and LeVeque (1979).

        Squares are never taken about zero, so that a feature far from it keeps the little that it
        says.
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


def standardizer_of(problem: StreamProblem) -> Standardizer:
    """Read all rows once; return what brings the features of those that train to one scale."""
    found: Moments | None = None
    for block in problem.part(TRAINING):
        weighty = block.weight > 0
        if weighty.any():
            X, weight = (f[weighty].double().cpu().numpy() for f in (block.X, block.weight))
            own = Moments.of(X, weight)
            found = own if found is None else found + own
    parts: list[Moments] = [part for part in gather(found) if part is not None]
    every = reduce(Moments.__add__, parts)
    scale = np.sqrt(every.squares / every.weight)
    constant = (every.low == every.high) | (scale == 0)
    # To float32, in which the features are: sums of several processes then agree.
    mean, scale = (x.astype(np.float32).astype(np.float64) for x in (every.mean, scale))
    return Standardizer(mean, np.where(constant, np.inf, scale), np.dtype(np.float32))
