"""Splits into 50 % training, 25 % validation and 25 % test rows, with test rows set apart.

Half of the rows (or groups) of every data set are set apart. The test rows of all splits are drawn
from them, and no constant and no rule of this project was chosen by a test result on them. Rows set
apart that are not test rows of a split are training or validation rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
_SEED = 12345


def set_apart(y: NDArray[np.bool_], groups: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """Return a mask of the rows that are set apart for tests."""
    groups = np.arange(len(y)) if groups is None else groups
    known = np.unique(groups)
    shuffled = np.random.default_rng(_SEED).permutation(known)
    return np.isin(groups, shuffled[: len(known) // 2])


def split(
    y: NDArray[np.bool_], groups: NDArray[np.int64] | None, seed: int
) -> tuple[Rows, Rows, Rows]:
    """Return training, validation and test rows, stratified by whether a group has positives."""
    for_tests = set_apart(y, groups)
    groups = np.arange(len(y)) if groups is None else groups
    rng = np.random.default_rng(seed)
    known, member = np.unique(groups, return_inverse=True)
    has_positive = np.bincount(member, weights=y) > 0
    testable_group = np.bincount(member, weights=for_tests) > 0
    part = np.zeros(len(known), dtype=int)
    for kind in (False, True):
        testable = rng.permutation(np.flatnonzero(testable_group & (has_positive == kind)))
        test = testable[: len(testable) // 2]
        part[test] = 2
        others = rng.permutation(np.flatnonzero((part != 2) & (has_positive == kind)))
        part[others[: len(others) // 3]] = 1
    return tuple(np.flatnonzero(part[member] == k) for k in range(3))  # type: ignore[return-value]
