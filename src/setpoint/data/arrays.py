"""Rows in arrays and tensors, in memory or in mapped files."""

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
from setpoint.data.columns import (
    Units,
    as_features,
    as_weights,
    check_features,
    units_of,
)
from setpoint.data.labels import find_labels
from setpoint.data.rows import Block
from setpoint.errors import SourceError

_BYTES = 1 << 24  # digested at a time


class ArrayRows:
    """Labelled rows of arrays.

    Of mapped files (``numpy.memmap``, ``numpy.load(..., mmap_mode="r")``) one block at a time is
    in memory. Block i belongs to the shard i modulo their number; where several processes share the
    work, each must be given the same arrays.

    Parameters
    ----------
    X : ndarray or Tensor of shape (n, ...)
        Features. Numbers of an array become float32; a tensor is handed on as it is, and as views
        that must not be written to. None may be NaN or infinite.
    y : array-like of shape (n,)
        Two labels.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    groups : array-like of shape (n,), optional
        Texts, whole numbers or dates; no split parts rows of one group.
    pos_label : optional
        The positive label; by default the larger of two numbers. Of texts it must be given.
    block_rows : int, optional
        How many rows a block has at most; by default 65,536, and down to 1,024 where that would
        make less than 64 blocks.

    Attributes
    ----------
    rows : int
        How many rows there are, in all processes together.
    classes : tuple
        The negative and the positive label.
    features : list of str or None
        The names of X's columns, where it is a table that has them.

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
        self._X = _rows_of(X)
        names = list(getattr(X, "columns", ()))
        self.features = names if names and all(isinstance(name, str) for name in names) else None
        self.rows = len(self._X)
        usual = min(65_536, max(1024, -(-self.rows // 64)))
        self.block_rows = (
            usual
            if block_rows is None
            else check_whole(block_rows, "block_rows", error=SourceError)
        )
        self._y = _column(y, "y", self.rows)
        self._weight = _column(sample_weight, "sample_weight", self.rows)
        self._groups = _column(groups, "groups", self.rows)
        self.classes = find_labels(map(self._labels, self._slices()), pos_label)
        self._digest = ""

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield every so-manieth block."""
        for rows in list(self._slices())[shard::shards]:
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
            for values in self._all_values():
                digest.update(np.ascontiguousarray(values).data)
            self._digest = digest.hexdigest()
        return self._digest

    def _all_values(self) -> Iterator[NDArray[Any]]:
        """Yield all that is in the arrays, a little at a time, whatever the blocks are."""
        row_bytes = math.prod(self._X.shape[1:]) * self._X.dtype.itemsize
        for rows in _slices(self.rows, max(1, _BYTES // row_bytes)):
            yield _as_bytes(self._X[rows])
            release(self._X)
        for rows in _slices(self.rows, _BYTES // 8):
            yield self._is_positive(rows)
        if self._weight is not None:
            for rows in _slices(self.rows, _BYTES // 8):
                yield self._weights(rows).numpy()
        for rows in _slices(self.rows, _BYTES // 8):
            if (units := self._units(rows)) is not None:
                yield units

    def _slices(self) -> Iterator[slice]:
        return _slices(self.rows, self.block_rows)

    def _features(self, rows: slice) -> Tensor:
        def where(row: int, *column: int) -> str:
            return f"X[{', '.join(map(str, (rows.start + row, *column)))}]"

        found = as_features(self._X[rows], where, copy=is_mapped(self._X))
        release(self._X)
        return found

    def _labels(self, rows: slice) -> NDArray[Any]:
        return _taken(self._y, rows)

    def _is_positive(self, rows: slice) -> NDArray[np.bool_]:
        return np.asarray(self._labels(rows) == self.classes[1], dtype=bool)

    def _weights(self, rows: slice) -> Tensor:
        if self._weight is None:
            return torch.ones(rows.stop - rows.start, dtype=torch.float64)
        given = _taken(self._weight, rows)
        return as_weights(given, lambda row: f"sample_weight[{rows.start + row}]")

    def _units(self, rows: slice) -> Units | None:
        if self._groups is None:
            return None
        return units_of(_taken(self._groups, rows), lambda row: f"groups[{rows.start + row}]")


def _rows_of(X: Any) -> NDArray[Any] | Tensor:
    """Return features as an array or a tensor."""
    if hasattr(X, "tocsr"):
        raise SourceError("X is sparse; streams take dense rows. Use X.toarray() if it fits.")
    found: NDArray[Any] | Tensor = X if isinstance(X, np.ndarray | Tensor) else np.asarray(X)
    check_features(found, "X")
    if len(found) == 0:
        raise SourceError("X has no rows.")
    return found


def _column(values: Any, name: str, n: int) -> Any:
    """Return one value per row, in whatever array or tensor they came; None stays None."""
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


def _taken(values: Any, rows: slice) -> NDArray[Any]:
    """Return some entries as an array in memory."""
    part = values[rows]
    if isinstance(part, Tensor):
        part = part.detach().cpu()
        found: NDArray[Any] = (part.double() if part.is_floating_point() else part).numpy()
        return found
    found = np.array(part)
    release(values)
    return found


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


def _as_bytes(X: NDArray[Any] | Tensor) -> NDArray[Any]:
    """Return values in an array, those of a tensor as bytes, for numpy lacks some of its types."""
    if isinstance(X, Tensor):
        X = X.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return X


def release(array: Any) -> None:
    """Let go of what has been read of a mapped array; others are left alone.

    The system may keep the pages, but they no longer count as memory of this process. A mapping
    whose changes live in memory alone (mode ``"c"``) keeps its pages, for they would be lost.
    """
    mode = "c"
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            mode = array.mode
        array = array.base
    if isinstance(array, mmap.mmap) and mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)


def is_mapped(array: Any) -> bool:
    """Whether an array is, or is a part of, a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


# DOC of streams._mapped: Arrays in mapped files, whose pages go back to the system once they have been read.
