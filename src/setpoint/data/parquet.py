"""Rows in Parquet and Arrow files, read one row group at a time."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import check_whole, listed
from setpoint.data.file_formats import storage_kind, to_canonical_type
from setpoint.data.label_columns import labels_in_files
from setpoint.data.labels import Label, Labels
from setpoint.data.rows import (
    Block,
    Units,
    Where,
    as_weights,
    check_finite,
    concatenated,
    grouped,
    hash_texts,
    units_of,
)
from setpoint.data.table_reader import Piece, TableFile
from setpoint.errors import SchemaError, SetpointError, SourceError, TargetError

pa = OptionalModule("pyarrow", "cli", "reading tables")

_ROWS = 1_024  # of all columns fit into a processor's cache
_USABLE = {
    "weight": ("number", "boolean"),
    "group": ("number", "boolean", "text", "time"),
    "time": ("number", "time"),
}


class ParquetRows:
    """Labelled rows of Parquet or Arrow files.

    Only the required columns are read, one row group at a time, and a large row group in batches.
    A record batch of an Arrow file is read as a whole unless it is large. Row group j, counted over
    all files without empty ones, belongs to shard ``j % shards``; with fewer row groups than
    processes some have nothing to read. Training stops with an error if a file is changed or
    removed while it is in use.

    Parameters
    ----------
    path_or_paths : path or sequence of paths
        Files that end in ``.parquet``, ``.pq``, ``.arrow`` or ``.feather``, or folders, of which
        all such files are read, sorted by name. Names of folders such as ``day=5`` are not read as
        columns.
    target : str
        The column of labels: booleans, 0 and 1, or any values if ``positive`` is given.
    features : sequence of str, optional
        Columns of numbers or booleans, in this order; by default all but the others named here.
        They become float32; no value may be missing or infinite.
    positive : optional
        The positive label, or a list of labels that count as positive; the text ``"1"`` also
        stands for the number. The labels are then collected from all files first, and all others
        are negative.
    weight : str, optional
        The column of weights >= 0 of the counts.
    group : str, optional
        A column of texts, integers or dates; rows of one group stay in the same split.
    time : str, optional
        A column of dates, taken in microseconds, or of numbers that grow with time.
    block_rows : int
        The largest number of rows of a block.

    Attributes
    ----------
    features : list of str
        The columns of ``X``.
    rows : int
        The number of rows, over all processes.
    classes : tuple
        The negative and the positive label; the former is None if it does not occur. If there are
        several positive labels or more than two, texts such as ``"other"`` and ``"1 or 2"``.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet
    >>> table = pa.table({"amount": [9.0, 1.0, 5.0], "fraud": ["yes", "no", "no"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pa.parquet.write_table(table, f"{folder}/a.parquet")
    ...     (block,) = ParquetRows(folder, "fraud", positive="yes").blocks()
    >>> block.X.tolist(), block.positive.tolist()
    ([[9.0], [1.0], [5.0]], [True, False, False])
    """

    def __init__(
        self,
        path_or_paths: str | Path | Sequence[str | Path],
        target: str,
        *,
        features: Sequence[str] | None = None,
        positive: Any = None,
        weight: str | None = None,
        group: str | None = None,
        time: str | None = None,
        block_rows: int = 65_536,
    ) -> None:
        self.block_rows = check_whole(block_rows, "block_rows", error=SourceError)
        self._table = TableFile(path_or_paths, streamed=True, columns=())
        self.rows = self._table.rows
        self.target, self.weight, self.group, self.time = target, weight, group, time
        self._roles = Roles(target, group, time, weight=weight)
        self.features = self._feature_names(features)
        self._columns = list(dict.fromkeys([*self.features, *self._roles.names]))
        self._table.check_columns(self._columns)
        if features is None:
            self._table.check_same_columns("Name the features to use: features=[...].")
        self._check_kinds()
        labels = labels_in_files(self._table.files, target, positive)
        self.classes = (labels.negative, labels.positive)
        self.positive_labels = labels.positive_labels
        self._roles = replace(
            self._roles,
            negative=labels.negative,
            positive=labels.positive,
            label_note=labels.note,
            positive_labels=labels.positive_labels,
        )

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of a shard; a block may hold several small row groups."""
        pieces = self._table.pieces(self._columns, self.block_rows, shard, shards)
        return map(concatenated, grouped(map(self._block, pieces), self.block_rows))

    def fingerprint(self) -> str:
        """Return a digest of samples of the files.

        It covers the columns, each file's size, its row groups, 64 samples of 64 KiB from the first
        byte to the last, and the footer of a Parquet file: position, size and, where the writer
        recorded them, minimum and maximum of each column of a row group. Names, places and dates
        of files do not matter. In a file larger than 4 MiB, a change between the samples that
        leaves all of that as it was goes unnoticed.
        """
        columns = (self.features, self.target, self.weight, self.group, self.time)
        digest = hashlib.sha256(repr((columns, tuple(map(str, self.classes)))).encode())
        for file in self._table.files:
            digest.update(file.digest().encode())
        return digest.hexdigest()

    def _block(self, piece: Piece) -> Block:
        X = torch.from_numpy(stacked([piece.read(name, numbers) for name in self.features]))
        check_finite(X, lambda row, i: piece.where(self.features[i], row))
        return self._roles.block(piece, X)

    def _feature_names(self, names: Sequence[str] | None) -> list[str]:
        if names is None:
            found = [name for name in self._table.names if name not in self._roles.names]
        else:
            found = [names] if isinstance(names, str) else list(names)
        if not found:
            raise SchemaError(
                f"{self._table.path} has no columns besides {listed(self._roles.names)}."
            )
        if self.target in found:
            raise SchemaError(f"the target {self.target!r} is among the features.")
        if twice := [name for name, count in Counter(found).items() if count > 1]:
            raise SchemaError(f"features names {listed(twice)} more than once.")
        return found

    def _check_kinds(self) -> None:
        """Raise an error if a column cannot be used for what it was named."""
        types = self._table.types
        kinds = {name: storage_kind(types[name]) for name in self._columns}
        if wrong := [n for n in self.features if kinds[n] not in ("number", "boolean")]:
            some = ", ".join(f"{name!r} ({types[name]})" for name in wrong[:8])
            more = f", ... ({len(wrong)} in all)" if len(wrong) > 8 else ""
            raise SchemaError(
                f"these columns are not numbers: {some}{more}. Use `setpoint fit`, which encodes "
                "such columns; or encode them yourself, or name the features without them."
            )
        if kinds[self.target] in ("time", "other"):
            raise TargetError(
                f"{self.target!r} is of type {types[self.target]}, which cannot be a label."
            )
        self._roles.check(types, SchemaError)


@dataclass(frozen=True)
class Roles:
    """The columns that hold labels, groups, times and weights, and the two labels.

    Checkpoints of streamed tables hold a digest of ``repr``.
    """

    target: str
    group: str | None = None
    time: str | None = None
    negative: Label | None = False
    positive: Label = True
    weight: str | None = field(default=None, repr=False)
    label_note: str = field(default="", repr=False)  # which labels are expected, for errors
    positive_labels: tuple[Any, ...] = field(default=(), repr=False)  # ``positive`` names them all

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        names = (self.target, self.weight, self.group, self.time)
        return list(dict.fromkeys(name for name in names if name is not None))

    def check(self, types: Mapping[str, Any], error: type[SetpointError]) -> None:
        """Raise an error if a column's Arrow type does not suit its role."""
        for role, usable in _USABLE.items():
            name = getattr(self, role)
            if name is not None and storage_kind(types[name]) not in usable:
                raise error(
                    f"{name!r} cannot be the {role}: it is of type {types[name]}, and must be one "
                    f"of these: {', '.join(usable)}."
                )

    def times(self, piece: Piece) -> Tensor | None:
        """Return the time of each row as a number."""
        return None if self.time is None else torch.from_numpy(piece.read(self.time, times))

    def block(self, piece: Piece, X: Tensor | None = None) -> Block:
        """Return labelled rows with these features, by default none."""
        known = self.label_note or f"the labels are {self.negative!r} and {self.positive!r}."
        match = Labels.pair(
            self.negative, self.positive, positive_labels=self.positive_labels
        ).match
        weight = torch.ones(len(piece), dtype=torch.float64)
        if self.weight is not None:
            weight = as_weights(piece.read(self.weight, numbers), partial(piece.where, self.weight))
        number = torch.arange(piece.number, piece.number + len(piece))
        return Block(
            torch.empty(len(piece), 0) if X is None else X,
            torch.from_numpy(piece.read(self.target, labels, match, known)),
            weight,
            number,
            number if self.group is None else torch.from_numpy(piece.read(self.group, groups)),
            self.times(piece),
        )


# --- columns as numbers -------------------------------------------------------------------------
# ``where`` describes the value in a given row of the column, for errors.


def numbers(column: Any, where: Where) -> NDArray[Any]:
    """Return numbers or booleans, in their own type."""
    return _array(_present(column, where))


def stacked(columns: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return columns side by side, as float32."""
    rows = len(columns[0])
    found = np.empty((rows, len(columns)), dtype=np.float32)
    with np.errstate(over="ignore"):  # infinite values raise an error later
        for start in range(0, rows, _ROWS):
            part = found[start : start + _ROWS]
            for i, column in enumerate(columns):
                part[:, i] = column[start : start + _ROWS]
    return found


def times(column: Any, where: Where) -> NDArray[np.float64]:
    """Return numbers as they are, and times as microseconds since 1970."""
    column = _present(column, where)
    if storage_kind(column.type) == "time":
        column = _microseconds(column)
    found = _array(column).astype(np.float64)
    wrong = ~np.isfinite(found)
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {found[row]}; every row needs a time.")
    return found


def groups(column: Any, where: Where) -> Units:
    """Return an integer for each row that identifies its group."""
    column = _present(column, where)
    kind = storage_kind(column.type)
    if kind == "text":
        wide = column.cast(pa.large_string())
        _, offsets, data = wide.buffers()
        ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
        return hash_texts(letters, np.diff(ends))
    return units_of(_array(_microseconds(column) if kind == "time" else column), where)


def labels(
    column: Any, where: Where, is_positive: Callable[[Any], bool | None], known: str
) -> NDArray[np.bool_]:
    """Return which labels are positive.

    ``is_positive`` returns None for a label that is neither; ``known`` then describes those that
    are expected.
    """
    coded = _present(column, where).dictionary_encode()
    codes = _array(coded.indices)
    positive = []
    for code, label in enumerate(coded.dictionary.to_pylist()):
        found = is_positive(label)
        if found is None:
            row = int((codes == code).argmax())
            if label != label or str(label).strip() == "":
                raise SourceError(f"{where(row)} is missing; drop the rows without a label.")
            raise SourceError(f"{where(row)} is {label!r}; {known}")
        positive.append(found)
    return np.asarray(np.array(positive, dtype=bool)[codes])


def _present(column: Any, where: Where) -> Any:
    """Return a column in its canonical type; raise SourceError if values are missing."""
    column = to_canonical_type(column)
    if column.null_count:
        row = int(_array(column.is_null()).argmax())
        raise SourceError(f"{where(row)} is missing; fill in missing values, or drop such rows.")
    return column


def _microseconds(column: Any) -> Any:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())


def _array(column: Any) -> NDArray[Any]:
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found
