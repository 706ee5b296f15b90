"""Rows in arrays and tensors, in memory or in memory-mapped files.

Pages of a memory-mapped file are released once they have been read, so that they do not count as
memory of this process.
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint._internal.validation import check_whole
from setpoint.data.labels import Labels
from setpoint.data.rows import (
    Block,
    Units,
    as_array,
    as_features,
    as_weights,
    bits_of,
    check_features,
    units_of,
)
from setpoint.errors import SourceError

_DIGEST_BYTES = 1 << 24  # digested at a time


class ArrayRows:
    """Labelled rows of arrays.

    Of memory-mapped files (``numpy.memmap``, ``numpy.load(..., mmap_mode="r")``) one block at a
    time is in memory. Block i belongs to shard ``i % shards``; every process of a group must be
    given the same arrays.

    Parameters
    ----------
    X : ndarray or Tensor of shape (n, ...)
        Features. Numbers of an array become float32; a tensor is passed on unchanged, as views
        that must not be written to. NaN and infinite values raise an error.
    y : array-like of shape (n,)
        Two labels, or more if ``pos_label`` names the positive ones.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    groups : array-like of shape (n,), optional
        Texts, integers or dates; rows of one group stay in the same split.
    pos_label : optional
        The positive label; by default the larger of two numbers. Required for texts, and for more
        than two labels. A list: all of these are positive, and the others negative.
    block_rows : int, optional
        The largest number of rows of a block; by default 65,536, or as few as 1,024 so that there
        are 64 blocks.

    Attributes
    ----------
    rows : int
        The number of rows, over all processes.
    classes : tuple
        The negative and the positive label.
    features : list of str or None
        The names of X's columns, if it is a table with named columns.

    Examples
    --------
    >>> source = ArrayRows(np.arange(10.0).reshape(5, 2), [0, 1, 0, 0, 1], block_rows=2)
    >>> [block.number.tolist() for block in source.blocks()]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        pos_label: Any = None,
        block_rows: int | None = None,
    ) -> None:
        self._X = _as_rows(X)
        names = list(getattr(X, "columns", ()))
        self.features = names if names and all(isinstance(name, str) for name in names) else None
        self.rows = len(self._X)
        if block_rows is None:
            block_rows = min(65_536, max(1024, -(-self.rows // 64)))
        self.block_rows = check_whole(block_rows, "block_rows", error=SourceError)
        self._y = _column(y, "y", self.rows)
        self._weight = _column(sample_weight, "sample_weight", self.rows)
        self._groups = _column(groups, "groups", self.rows)
        labels = Labels.of_blocks(map(self._labels, _slices(self.rows, self.block_rows)), pos_label)
        self.classes = (labels.negative, labels.positive)
        self.positive_labels = labels.positive_labels
        self._positive = labels
        self._digest = ""

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the blocks of a shard."""
        for rows in list(_slices(self.rows, self.block_rows))[shard::shards]:
            number = torch.arange(rows.start, rows.stop)
            units = self._units(rows)
            yield Block(
                self._features(rows),
                torch.from_numpy(self._is_positive(rows)),
                self._weights(rows),
                number,
                number if units is None else torch.from_numpy(units),
            )

    def fingerprint(self) -> str:
        """Return a digest of all values, which takes a pass the first time.

        It does not depend on ``block_rows``, nor on whether the arrays are mapped.
        """
        if not self._digest:
            facts = (str(self._X.dtype), tuple(self._X.shape), self._weight is None)
            digest = hashlib.sha256(repr((*facts, self._groups is None)).encode())
            for values in self._values():
                digest.update(np.ascontiguousarray(values).data)
            self._digest = digest.hexdigest()
        return self._digest

    def _values(self) -> Iterator[NDArray[Any]]:
        """Yield all values of the arrays in slices that do not depend on the blocks."""
        row_bytes = math.prod(self._X.shape[1:]) * self._X.dtype.itemsize
        for rows in _slices(self.rows, max(1, _DIGEST_BYTES // row_bytes)):
            values = self._X[rows]
            yield bits_of(values) if isinstance(values, Tensor) else values
            release(self._X)
        for rows in _slices(self.rows, _DIGEST_BYTES // 8):
            yield self._is_positive(rows)
        if self._weight is not None:
            for rows in _slices(self.rows, _DIGEST_BYTES // 8):
                yield self._weights(rows).numpy()
        for rows in _slices(self.rows, _DIGEST_BYTES // 8):
            if (units := self._units(rows)) is not None:
                yield units

    def _features(self, rows: slice) -> Tensor:
        def where(row: int, *column: int) -> str:
            return f"X[{', '.join(map(str, (rows.start + row, *column)))}]"

        found = as_features(self._X[rows], where, copy=_mapping_of(self._X)[0] is not None)
        release(self._X)
        return found

    def _labels(self, rows: slice) -> NDArray[Any]:
        return _in_memory(self._y, rows)

    def _is_positive(self, rows: slice) -> NDArray[np.bool_]:
        return np.array(self._positive.compare(self._labels(rows))[0], dtype=bool)

    def _weights(self, rows: slice) -> Tensor:
        if self._weight is None:
            return torch.ones(rows.stop - rows.start, dtype=torch.float64)
        return as_weights(
            _in_memory(self._weight, rows), lambda row: f"sample_weight[{rows.start + row}]"
        )

    def _units(self, rows: slice) -> Units | None:
        if self._groups is None:
            return None
        return units_of(_in_memory(self._groups, rows), lambda row: f"groups[{rows.start + row}]")


def _as_rows(X: Any) -> NDArray[Any] | Tensor:
    """Return features as an array or a tensor."""
    if hasattr(X, "tocsr"):
        raise SourceError("X is sparse; row sources are dense. Use X.toarray() if it fits.")
    found: NDArray[Any] | Tensor = X if isinstance(X, np.ndarray | Tensor) else np.asarray(X)
    check_features(found, "X")
    if len(found) == 0:
        raise SourceError("X has no rows.")
    return found


def _column(values: Any, name: str, n: int) -> Any:
    """Return one value per row, as an array or tensor; None stays None, except for y."""
    if values is None and name != "y":
        return None
    found = values if isinstance(values, np.ndarray | Tensor) else np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if tuple(found.shape) != (n,):
        raise SourceError(
            f"{name} must hold one entry per row of X, shape ({n},); it has {tuple(found.shape)}."
        )
    return found


def _in_memory(values: Any, rows: slice) -> NDArray[Any]:
    """Return some entries as an array in memory."""
    if isinstance(values, Tensor):
        return as_array(values[rows])
    found = np.array(values[rows])
    release(values)
    return found


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def release(array: Any) -> None:
    """Release the pages of a memory-mapped array; other arrays are left alone.

    A copy-on-write mapping (mode ``"c"``) keeps its pages, since its changes would be lost.
    """
    mapping, mode = _mapping_of(array)
    if mapping is not None and mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


def _mapping_of(array: Any) -> tuple[mmap.mmap | None, str]:
    """Return the mapping that an array is a view of, if any, and its mode."""
    mode = "c"
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            mode = array.mode
        array = array.base
    return (array if isinstance(array, mmap.mmap) else None), mode
