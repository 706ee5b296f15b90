"""Features and weights of one block: converted, and looked at.

Every check takes ``where``, which says in words which value an index means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint.streams.errors import SourceError

Where = Callable[..., str]


def check_whole(value: Any, name: str) -> int:
    """Return a whole number of at least 1."""
    if not isinstance(value, Integral) or value < 1:
        raise SourceError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def check_features(X: Any, name: str) -> None:
    """Refuse what is no array or tensor of numbers with a row for each first index."""
    if not (X.dtype.kind in "biuf" if isinstance(X, np.ndarray) else not X.is_complex()):
        raise SourceError(f"{name} is of type {X.dtype}; features are numbers. Encode them first.")
    if X.ndim < 2 or 0 in X.shape[1:]:
        raise SourceError(
            f"{name} has the shape {tuple(X.shape)}; it must have a row of features "
            "for each label, (n, d) or (n, ...). Use X.reshape(-1, 1) for a single feature."
        )


def as_features(X: NDArray[Any] | Tensor, where: Where, *, copy: bool = False) -> Tensor:
    """Return what a model takes: a tensor as it is, numbers of an array as float32."""
    if isinstance(X, Tensor):
        found = X.detach()
    else:
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            array = np.ascontiguousarray(X, dtype=np.float32)
        if (copy or not array.flags.writeable) and np.may_share_memory(array, X):
            array = array.copy()
        found = torch.from_numpy(array)
    check_finite(found, where)
    return found


def check_finite(X: Tensor, where: Where) -> None:
    """Refuse NaN and infinities; ``where`` gets the index of the first."""
    if not X.is_floating_point():
        return
    # A sum is several times faster than a look at each value, and needs no memory.
    total = X.sum(dtype=torch.float32 if X.dtype.itemsize < 4 else None)
    if math.isfinite(total.item()):
        return
    wrong = (~torch.isfinite(X)).nonzero()
    if len(wrong):
        index = wrong[0].tolist()
        raise SourceError(
            f"{where(*index)} is {X[tuple(index)].item()}; fill in or drop missing and infinite "
            f"values, and scale what is too large for {str(X.dtype).removeprefix('torch.')}."
        )


def as_weights(weight: NDArray[Any], where: Where) -> Tensor:
    """Return weights as float64; ``where`` gets the row of the first that is none."""
    if weight.dtype.kind not in "biuf":
        raise SourceError(f"{where(0)} is {weight[:1].tolist()[0]!r}; a weight is a number.")
    found = np.array(weight, dtype=np.float64)
    wrong = ~((found >= 0) & (found < np.inf))
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {found[row]}; a weight is a finite number >= 0.")
    return torch.from_numpy(found)
