"""Rows in Parquet and Arrow files, of which a row group at a time is in memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from setpoint._internal.validation import check_whole, did_you_mean, listed
from setpoint.data import columns as _columns
from setpoint.data.columns import as_weights, check_finite
from setpoint.data.label_columns import TableLabels
from setpoint.data.rows import Block, joined
from setpoint.data.table_files import (
    Part,
    dealt,
    first_typed,
    is_pandas_index,
    open_part,
    table_paths,
)
from setpoint.errors import SchemaError, SourceError, TableFileError, TargetError


class ParquetRows:
    """Labelled rows of Parquet or Arrow files.

    Only the columns that are needed are read, a row group at a time, and a large row group in
    batches; of an Arrow file that is a record batch, which is read as a whole. The row group j,
    counted over all files and without those that are empty, belongs to the shard j modulo their
    number; with fewer row groups than processes some have nothing to read. A file that is changed
    or goes while it is in use ends the training.

    Parameters
    ----------
    path_or_paths : path or sequence of paths
        Files that end in ``.parquet``, ``.pq``, ``.arrow`` or ``.feather``, or folders, of which
        all such files are read, sorted by their names. Names of folders such as ``day=5`` are no
        columns.
    target : str
        The column of labels: booleans, 0 and 1, or any two values where ``positive`` is given.
    features : sequence of str, optional
        Columns of numbers or booleans, in this order; by default all but the others named here.
        They become float32; no value may be missing or infinite.
    positive : optional
        The positive label; the text ``"1"`` also stands for the number. The labels are then
        looked up once, in all files.
    weight : str, optional
        The column of weights >= 0 of the counts.
    group : str, optional
        A column of texts, whole numbers or dates; no split parts rows of one group.
    time : str, optional
        A column of dates, which count in microseconds, or of numbers that grow with time.
    block_rows : int
        How many rows a block has at most.

    Attributes
    ----------
    features : list of str
        The columns of ``X``.
    rows : int
        How many rows there are, in all processes together.
    classes : tuple
        The negative and the positive label; the former is None where there is none.

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
        self._parts = [open_part(path) for path in table_paths(path_or_paths)]
        self.rows = sum(part.rows for part in self._parts)
        if self.rows == 0:
            raise TableFileError(f"{self._parts[0].path} and all other files have no rows.")
        self._filled = next(part for part in self._parts if part.rows)
        self.target, self.weight, self.group, self.time = target, weight, group, time
        special = [name for name in (target, weight, group, time) if name is not None]
        self.features = self._features(features, special)
        self._columns = list(dict.fromkeys([*self.features, *special]))
        self._check_files(every_column=features is None)
        self._check_kinds()
        self._labels = TableLabels(self._parts, target, positive)
        self.classes = (self._labels.negative, self._labels.positive)

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of a shard; small row groups come several in a block."""
        return joined(self._pieces(shard, shards), self.block_rows)

    def fingerprint(self) -> str:
        """Return a digest of the files without reading them whole.

        It knows the columns, each file's size, its row groups, 64 pieces of 64 KiB from the first
        byte to the last, and of a Parquet file all that its footer tells: where each column of a
        row group lies, its size, and its least and largest value where the writer noted them.
        Names, places and dates of files do not matter. Of a file larger than 4 MiB it does not see
        a change between the pieces that leaves all of that as it was.
        """
        asked = (self.features, self.target, self.weight, self.group, self.time)
        labels = (str(self._labels.negative), str(self._labels.positive))
        digest = hashlib.sha256(repr((asked, labels)).encode())
        for part in self._parts:
            digest.update(part.digest().encode())
        return digest.hexdigest()

    def _pieces(self, shard: int, shards: int) -> Iterator[Block]:
        for part, first, own in dealt(self._parts, shard, shards):
            for row, batch in part.batches(own, self._columns, self.block_rows):
                yield self._block(part.path, first, row, batch)

    def _block(self, path: Path, first: int, row: int, batch: Any) -> Block:
        """Convert a record batch whose first row has this number in its file."""

        def where(name: str, place: int) -> str:
            return f"{name!r} in row {row + place + 1:,} of {path}"

        def of(read: Callable[..., Any], name: str, *more: Any) -> Any:
            return read(batch.column(self._columns.index(name)), partial(where, name), *more)

        X = torch.from_numpy(
            _columns.stacked([of(_columns.numbers, name) for name in self.features])
        )
        check_finite(X, lambda place, i: where(self.features[i], place))
        labels = of(_columns.labels, self.target, self._labels.is_positive, self._labels.known)
        number = torch.arange(first + row, first + row + len(X))
        return Block(
            X,
            torch.from_numpy(labels),
            torch.ones(len(X), dtype=torch.float64)
            if self.weight is None
            else as_weights(of(_columns.numbers, self.weight), partial(where, self.weight)),
            number,
            number if self.group is None else torch.from_numpy(of(_columns.groups, self.group)),
            None if self.time is None else torch.from_numpy(of(_columns.times, self.time)),
        )

    def _features(self, given: Sequence[str] | None, special: list[str]) -> list[str]:
        if given is None:
            every = self._filled.names
            found = [n for n in every if n not in special and not is_pandas_index(n)]
        else:
            found = [given] if isinstance(given, str) else list(given)
        if not found:
            raise SchemaError(f"{self._filled.path} has no columns besides {listed(special)}.")
        if self.target in found:
            raise SchemaError(f"the target {self.target!r} is among the features.")
        if twice := [name for name, count in Counter(found).items() if count > 1]:
            raise SchemaError(f"features names {listed(twice)} more than once.")
        return found

    def _check_files(self, every_column: bool) -> None:
        """Refuse files that lack a column, or have another one or another type than the first."""
        first = self._filled
        typed = self._typed()
        for part in self._parts:
            for name in self._columns:
                _check_column(part, name)
                # Without values some programs know no types.
                if part.rows == 0 or name in part.untyped:
                    continue
                now, then = part.types[name], typed[name].types[name]
                if _columns.kind_of(now) != _columns.kind_of(then):
                    raise SchemaError(
                        f"{name!r} is of type {now} in {part.path} and of type {then} in "
                        f"{typed[name].path}; write all files with the same types."
                    )
            more = [n for n in part.names if n not in first.names and not is_pandas_index(n)]
            if every_column and more:
                raise SchemaError(
                    f"{part.path} has {listed(more)}, and {first.path} has not; name the features "
                    "that are to be used."
                )

    def _typed(self) -> dict[str, Part]:
        """Return for each column a file that knows its type."""
        filled = [part for part in self._parts if part.rows]
        return {name: first_typed(filled, name) for name in self._columns}

    def _check_kinds(self) -> None:
        """Refuse columns that are of no use as what they are named for."""
        types = {name: part.types[name] for name, part in self._typed().items()}
        kinds = {name: _columns.kind_of(types[name]) for name in self._columns}
        wrong = [n for n in self.features if kinds[n] not in ("number", "boolean")]
        if wrong:
            told = ", ".join(f"{name!r} ({types[name]})" for name in wrong[:8])
            more = f", ... ({len(wrong)} in all)" if len(wrong) > 8 else ""
            raise SchemaError(
                f"these columns hold no numbers: {told}{more}. `setpoint fit` encodes such "
                "columns; or else encode them yourself, or name the features without them."
            )
        if kinds[self.target] in ("time", "other"):
            raise TargetError(
                f"{self.target!r} is of type {types[self.target]}, which is no label."
            )
        for role, name, usable in (
            ("weight", self.weight, ("number", "boolean")),
            ("group", self.group, ("number", "boolean", "text", "time")),
            ("time", self.time, ("number", "time")),
        ):
            if name is not None and kinds[name] not in usable:
                raise SchemaError(
                    f"the {role} column {name!r} is of type {types[name]}; it must be "
                    f"one of these: {', '.join(usable)}."
                )


def _check_column(part: Part, name: str) -> None:
    if part.names.count(name) > 1:
        raise SchemaError(f"{part.path} has several columns of the name {name!r}; rename them.")
    if name in part.types:
        return
    if any(folder.startswith(f"{name}=") for folder in part.path.parts):
        raise SchemaError(
            f"{part.path} has no column {name!r}: it is part of the folder's name, and such "
            "columns are not read. Write it into the files as well."
        )
    raise SchemaError(
        f"{part.path} has no column {name!r}; it has {listed(part.names)}."
        f"{did_you_mean(name, part.names)}"
    )
