"""Rows of one group are no independent draws; one row of each group is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def one_of_each(groups: NDArray[Any], seed: int = 0) -> NDArray[np.intp]:
    """Return the index of one row of each group, drawn by chance, in ascending order."""
    shuffled = np.random.default_rng([seed, 20_212]).permutation(len(groups))
    return np.sort(shuffled[np.unique(groups[shuffled], return_index=True)[1]])
