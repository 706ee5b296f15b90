"""The few elementwise functions that metrics need, for floats, numpy arrays and torch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Choose elementwise."""
    if isinstance(condition, torch.Tensor):
        return torch.where(condition, yes, no)
    return np.where(condition, yes, no)[()]


def sqrt(x: Any) -> Any:
    """Square root."""
    return torch.sqrt(x) if isinstance(x, torch.Tensor) else np.sqrt(x)


def maximum(x: Any, floor: float) -> Any:
    """Elementwise maximum of ``x`` and a number."""
    return x.clamp(min=floor) if isinstance(x, torch.Tensor) else np.maximum(x, floor)


def one_of_each(groups: NDArray[Any], seed: int = 0) -> NDArray[np.intp]:
    """Return the index of one row of each group, drawn by chance, in ascending order."""
    shuffled = np.random.default_rng([seed, 20_212]).permutation(len(groups))
    return np.sort(shuffled[np.unique(groups[shuffled], return_index=True)[1]])


# DOC of certificates.groups: Rows of one group are no independent draws; one row of each group is.
