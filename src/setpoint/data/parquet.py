"""Rows in Parquet and Arrow files, read one row group at a time."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from setpoint._internal.validation import check_whole, listed
from setpoint.data.columns import Roles, numbers, stacked
from setpoint.data.file_formats import storage_kind
from setpoint.data.label_columns import labels_in_files
from setpoint.data.rows import Block, check_finite, concatenated, grouped
from setpoint.data.table_reader import Piece, TableFile
from setpoint.errors import SchemaError, SourceError, TargetError


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
        The column of labels: booleans, 0 and 1, or any two values if ``positive`` is given.
    features : sequence of str, optional
        Columns of numbers or booleans, in this order; by default all but the others named here.
        They become float32; no value may be missing or infinite.
    positive : optional
        The positive label; the text ``"1"`` also stands for the number. The labels are then
        collected from all files first.
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
        The negative and the positive label; the former is None if it does not occur.

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
        self._roles = replace(
            self._roles, negative=labels.negative, positive=labels.positive, label_note=labels.note
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
