"""A table in one or many Parquet or Arrow files, of which a little at a time is in memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from setpoint._internal.imports import need
from setpoint._internal.validation import did_you_mean, listed
from setpoint.data.columns import kind_of
from setpoint.data.table_files import (
    Part,
    dealt,
    first_typed,
    is_pandas_index,
    open_part,
    plain_batch,
    table_paths,
    to_frame,
)
from setpoint.errors import SchemaError, TableFileError

_TEXT_BYTES = 24  # of a short text in a data frame


class Piece(NamedTuple):
    """Rows of one file.

    Attributes
    ----------
    path : Path
        The file.
    row : int
        The first row's number in the file.
    number : int
        The first row's number in the table.
    batch : RecordBatch
        The rows, in plain types.
    """

    path: Path
    row: int
    number: int
    batch: Any

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def frame(self, columns: Sequence[str] | None = None) -> Any:
        """Return some columns, or all, as a data frame."""
        pa = need("pyarrow", "cli", "reading tables")
        batch = self.batch if columns is None else self.batch.select(list(columns))
        return to_frame(pa.Table.from_batches([batch]))


class TableFiles:
    """One table: a file, or all files of a folder and its folders, sorted by their names.

    All files have the same columns, in any order, and those with rows the same kinds of them. A
    column without a single value in a file has the type that it has in the others.

    Parameters
    ----------
    path : path
        A file that ends in ``.parquet``, ``.pq``, ``.arrow`` or ``.feather``, or a folder of such.

    Attributes
    ----------
    names : list of str
        The columns.
    types : dict of str to pyarrow.DataType
        Their types in the first file that has rows and knows them.
    folder_columns : list of str
        What only names of folders tell, such as ``day`` where a file lies in ``day=5``; these are
        no columns.
    rows, row_groups : int
        How many there are of each; row groups without rows do not count.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._parts = [open_part(file) for file in table_paths(path)]
        self.rows = sum(part.rows for part in self._parts)
        self.row_groups = sum(rows > 0 for part in self._parts for rows in part.group_rows)
        if self.rows == 0:
            raise TableFileError(f"{path} has columns and no rows; nothing can be read.")
        filled = [part for part in self._parts if part.rows]
        self.names = _names(filled[0])
        typed = {name: first_typed(filled, name) for name in self.names}
        for part in self._parts:
            _check_same(part, filled[0], typed)
        self.types = {name: part.types[name] for name, part in typed.items()}
        self.folder_columns = self._folder_columns()

    @property
    def decoded_bytes(self) -> int:
        """About how large the table is as a data frame."""
        texts = sum(kind_of(self.types[name]) in ("text", "other") for name in self.names)
        return self.rows * (8 * (len(self.names) - texts) + _TEXT_BYTES * texts)

    def place(self, row: int) -> tuple[Path, int]:
        """Return the file of the table's row of this number, and its number there."""
        for part in self._parts:
            if row < part.rows:
                return part.path, row
            row -= part.rows
        raise IndexError(row)

    def widest_types(self) -> dict[str, Any]:
        """Return for each column a type that holds the values of all files."""
        pa = need("pyarrow", "cli", "reading tables")
        every = [
            pa.schema([(name, self._type_in(part, name)) for name in self.names])
            for part in self._parts
            if part.rows
        ]
        found = pa.unify_schemas(every, promote_options="permissive")
        return dict(zip(found.names, found.types, strict=True))

    def pieces(
        self, columns: Sequence[str], rows: int, shard: int = 0, shards: int = 1
    ) -> Iterator[Piece]:
        """Yield the rows of every so-manieth row group that has some, at most so many at a time."""
        for part, first, own in dealt(self._parts, shard, shards):
            for row, batch in part.batches(own, columns, rows):
                yield Piece(part.path, row, first + row, self._typed(part, batch))

    def fingerprint(self) -> str:
        """Return a digest of the files without reading them whole; see ``ParquetRows``."""
        digest = hashlib.sha256()
        for part in self._parts:
            digest.update(part.digest().encode())
        return digest.hexdigest()

    def _type_in(self, part: Part, name: str) -> Any:
        return self.types[name] if name in part.untyped else part.types[name]

    def _typed(self, part: Part, batch: Any) -> Any:
        """Return a file's batch in plain types, also where the file knows none."""
        pa = need("pyarrow", "cli", "reading tables")
        plain = plain_batch(batch)
        names = plain.schema.names
        if part.untyped.isdisjoint(names):
            return plain
        columns = [
            pa.nulls(len(column), self.types[name]) if name in part.untyped else column
            for name, column in zip(names, plain.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _folder_columns(self) -> list[str]:
        if not self.path.is_dir():
            return []
        inner = (part.path.relative_to(self.path).parts[:-1] for part in self._parts)
        told = (folder.partition("=") for folders in inner for folder in folders)
        names = dict.fromkeys(name for name, equals, _ in told if name and equals)
        return [name for name in names if name not in self.names]


def _names(part: Part) -> list[str]:
    return [name for name in part.names if not is_pandas_index(name)]


def _check_same(part: Part, first: Part, typed: Mapping[str, Part]) -> None:
    """Refuse a file with other columns than the first one, or other types than ``typed`` have."""
    names, wanted = _names(part), _names(first)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SchemaError(f"{part.path} has several columns called {listed(twice)}; rename them.")
    missing = [name for name in wanted if name not in names]
    more = [name for name in names if name not in wanted]
    what = "All files of a folder must have the same columns."
    if missing:
        raise SchemaError(
            f"{part.path} has no column {missing[0]!r}, and {first.path} has one."
            f"{did_you_mean(missing[0], more)} {what}"
        )
    if more:
        raise SchemaError(f"{part.path} has {listed(more)}, and {first.path} has not. {what}")
    if part.rows == 0:
        return
    for name in names:
        if name in part.untyped:  # without values some programs know no types
            continue
        now, then = part.types[name], typed[name].types[name]
        if _kind(now) != _kind(then):
            raise SchemaError(
                f"{name!r} is of type {now} in {part.path} and of type {then} in "
                f"{typed[name].path}; write all files with the same types."
            )


def _kind(arrow_type: Any) -> str:
    """Return what must agree: numbers may have any size, dates must agree in their time zone."""
    kind = kind_of(arrow_type)
    if kind == "time":
        return f"time {arrow_type.tz}"
    return str(arrow_type) if kind == "other" else kind
