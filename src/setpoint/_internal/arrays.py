"""Elementwise functions for floats, numpy arrays and torch tensors; sampling one row per group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return ``yes`` or ``no``, elementwise."""
    if isinstance(condition, torch.Tensor):
        return torch.where(condition, yes, no)
    return np.where(condition, yes, no)[()]


def sqrt(x: Any) -> Any:
    """Return the square root."""
    return torch.sqrt(x) if isinstance(x, torch.Tensor) else np.sqrt(x)


def maximum(x: Any, floor: float) -> Any:
    """Return the elementwise maximum of ``x`` and a number."""
    return x.clamp(min=floor) if isinstance(x, torch.Tensor) else np.maximum(x, floor)


def one_of_each(groups: NDArray[Any], seed: int = 0) -> NDArray[np.intp]:
    """Return the indices, in ascending order, of one randomly chosen row per group.

    Rows of one group are not independent draws; one row of each group is.
    """
    shuffled = np.random.default_rng([seed, 20_212]).permutation(len(groups))
    return np.sort(shuffled[np.unique(groups[shuffled], return_index=True)[1]])
