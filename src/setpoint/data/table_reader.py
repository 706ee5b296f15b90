"""Tables in files and folders, read at once, in batches or by row group.

:class:`TableFile` is the only reader of tables; :mod:`setpoint.data.file_formats` has the formats.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import did_you_mean, listed
from setpoint.data.csv_files import CsvFile, header_hint
from setpoint.data.file_formats import (
    FORMATS,
    RowGroupFile,
    SequentialFile,
    format_of,
    has_row_groups,
    open_file,
    row_group_endings,
    storage_kind,
    to_canonical_type,
)
from setpoint.errors import SchemaError, TableFileError

pa = OptionalModule("pyarrow", "cli", "reading tables")
pd = OptionalModule("pandas", "cli", "reading tables")

BATCH_ROWS = 131_072  # rows in memory at a time
_BATCH = 65_536
_TEXT_BYTES = 24  # of a short text in a data frame
# pandas writes its row numbers into Parquet and Arrow files; they do not describe a row.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Piece(NamedTuple):
    """Consecutive rows of one file."""

    path: Path
    row: int  # number of the first row in the file
    number: int  # number of the first row in the table
    batch: Any  # the rows, in canonical types

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def frame(self, columns: Sequence[str] | None = None) -> Any:
        """Return some columns, or all, as a data frame."""
        batch = self.batch if columns is None else self.batch.select(list(columns))
        return _to_frame(pa.Table.from_batches([batch]))

    def read(self, name: str, convert: Callable[..., Any], *options: Any) -> Any:
        """Return a column after conversion by ``convert(column, where, *options)``."""
        return convert(self.batch.column(name), partial(self.where, name), *options)

    def where(self, name: str, place: int) -> str:
        """Return a description of the value of a column in one of these rows."""
        return f"{name!r} in row {self.row + place + 1:,} of {self.path}"


class TableFile:
    """A table in a file or a folder, read in bounded memory.

    Values and types are the same whether a table is read at once or in batches: those of a CSV file
    are determined in a first pass over all of its rows. Integers and booleans get pandas' nullable
    types. Dates in a CSV file stay texts; a schema recognises them.

    The files of a folder must have the same columns, in any order, with values of the same kind. A
    column without any value in one file has the type that it has in the others. A file that is
    changed or removed while it is in use raises :class:`TableFileError`.

    Parameters
    ----------
    path : path or sequence of paths
        A file that ends in ``.csv``, ``.tsv``, either with ``.gz``, ``.parquet``, ``.pq``,
        ``.arrow``, ``.feather`` or ``.xlsx``. The Parquet and Arrow files of a folder and its
        subfolders, sorted by name, are one table; so are several files.
    streamed : bool
        Whether row groups must be readable one by one, which those of a CSV file are not.
    columns : sequence of str, optional
        The columns that all files must have; by default all files must have the same.

    Attributes
    ----------
    names : list of str
        The columns.
    types : dict of str to pyarrow.DataType
        Their types in the first file that has rows and records them; empty for a CSV file.
    files : list
        The files, as of :mod:`setpoint.data.file_formats`.
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        streamed: bool = False,
        columns: Sequence[str] | None = None,
    ) -> None:
        paths = [path] if isinstance(path, str | Path) else list(path)
        self.path = Path(paths[0] if paths else "")
        self._folder = self.path if len(paths) == 1 and self.path.is_dir() else None
        self.files: list[Any] = [open_file(p) for p in _find_files(paths, streamed)]
        filled = [file for file in self.files if file.rows != 0]
        first = filled[0] if filled else self.files[0]
        self.names: list[str] = _names(first)
        self.types: dict[str, Any] = {}
        if not self.names:
            raise TableFileError(f"{first.path} has no columns.")
        if not filled:
            several = " and all other files" if len(self.files) > 1 else ""
            raise TableFileError(f"{first.path}{several}: columns and no rows; nothing to read.")
        if not isinstance(first, RowGroupFile):
            _check_duplicates(first, self.names)
        elif columns is None:
            for file in self.files:
                _check_duplicates(file, _names(file))
            self.check_columns(self.names, same_zones=True)
            self.check_same_columns("All files must have the same columns.")
        else:
            self.check_columns(columns)

    @property
    def rows(self) -> int | None:
        """The number of rows; for a CSV file None before its first pass."""
        counts = [file.rows for file in self.files]
        return None if None in counts else sum(counts)

    def header_hint(self, surely: bool = False) -> str:
        """Return a sentence if the header of a CSV file looks like data; empty otherwise."""
        first = self.files[0]
        return header_hint(first.path, first.names, surely) if isinstance(first, CsvFile) else ""

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Add to a SchemaError about missing columns that the header looks like data."""
        try:
            yield
        except SchemaError as error:
            if hint := self.header_hint():
                raise SchemaError(f"{error} {hint}") from error
            raise

    @property
    def row_groups(self) -> int:
        """The number of row groups that have rows."""
        return sum(rows > 0 for file in self.files for rows in file.group_rows)

    @cached_property
    def folder_columns(self) -> list[str]:
        """Columns that exist only in names of folders, such as ``day=5``; they are not read."""
        if self._folder is None:
            return []
        inner = (file.path.relative_to(self._folder).parts[:-1] for file in self.files)
        pairs = (folder.partition("=") for folders in inner for folder in folders)
        names = dict.fromkeys(name for name, equals, _ in pairs if name and equals)
        return [name for name in names if name not in self.names]

    @property
    def decoded_bytes(self) -> int:
        """The approximate size of the table as a data frame."""
        texts = sum(storage_kind(self.types[name]) in ("text", "other") for name in self.names)
        return (self.rows or 0) * (8 * (len(self.names) - texts) + _TEXT_BYTES * texts)

    def check_columns(self, columns: Iterable[str], *, same_zones: bool = False) -> None:
        """Raise an error unless all files have these columns, with values of the same kind."""
        columns = list(columns)
        filled = [file for file in self.files if file.rows]
        typed: dict[str, RowGroupFile] = {}
        for name in columns:  # the first file that records the type, or the first
            known = (f for f in filled if name in f.types and name not in f.untyped)
            typed[name] = next(known, filled[0])
        for file in self.files:
            _check_duplicates(file, columns)
            for name in columns:
                if name not in file.types:
                    raise _no_column(file, name, columns)
                if file.rows == 0 or name in file.untyped:
                    continue  # without values some programs do not record types
                now, then = file.types[name], typed[name].types[name]
                if _comparable_type(now, same_zones) != _comparable_type(then, same_zones):
                    raise SchemaError(
                        f"{name!r} is of type {now} in {file.path} and of type {then} in "
                        f"{typed[name].path}; write all files with the same types."
                    )
        self.types |= {name: file.types[name] for name, file in typed.items()}

    def check_same_columns(self, remedy: str) -> None:
        """Raise SchemaError if a file has a column that the first one with rows has not."""
        first = next(file for file in self.files if file.rows)
        for file in self.files:
            if more := [name for name in _names(file) if name not in self.names]:
                raise SchemaError(
                    f"{file.path} has {listed(more)}, and {first.path} has not. {remedy}"
                )

    def check_names(self, columns: Iterable[str]) -> None:
        """Raise TableFileError if the table has no column of one of these names."""
        if unknown := [name for name in columns if name not in self.names]:
            raise TableFileError(
                f"{self.path} has no column {unknown[0]!r}; it has {listed(self.names)}."
                f"{did_you_mean(unknown[0], self.names)} {self.header_hint()}".rstrip()
            )

    def frames(
        self,
        rows: int = BATCH_ROWS,
        columns: Sequence[str] | None = None,
        texts: Collection[str] = (),
    ) -> Iterator[Any]:
        """Yield data frames of ``rows`` rows; the last may have fewer.

        Parameters
        ----------
        rows : int
            The number of rows of a frame.
        columns : sequence of str, optional
            Which columns, in this order; by default all.
        texts : collection of str
            Columns of a CSV file that stay texts even if all values look like numbers.
        """
        for table in _tables_of(self._batches(columns, texts), rows):
            yield _to_frame(table)

    def read(self, columns: Sequence[str] | None = None, texts: Collection[str] = ()) -> Any:
        """Return the whole table as one data frame; parameters as in ``frames``."""
        return _to_frame(pa.Table.from_batches(list(self._batches(columns, texts))))

    def pieces(
        self, columns: Sequence[str], rows: int, shard: int = 0, shards: int = 1
    ) -> Iterator[Piece]:
        """Yield the rows of one shard, at most ``rows`` at a time.

        Row group j, counted over all files without empty ones, belongs to shard ``j % shards``.
        """
        columns = list(columns)
        first = turn = 0
        for file in self.files:
            filled = [group for group, count in enumerate(file.group_rows) if count]
            groups = filled[(shard - turn) % shards :: shards]
            for row, batch in file.batches(groups, columns, rows) if groups else ():
                arrays = [
                    pa.nulls(len(column), self.types[name])
                    if name in file.untyped
                    else to_canonical_type(column)
                    for name, column in zip(columns, batch.columns, strict=True)
                ]
                yield Piece(
                    file.path, row, first + row, pa.RecordBatch.from_arrays(arrays, names=columns)
                )
            first += file.rows
            turn += len(filled)

    def widest_types(self) -> dict[str, Any]:
        """Return for each column a type that holds the values of all files."""
        every = [
            pa.schema(
                (n, self.types[n] if n in file.untyped else file.types[n]) for n in self.names
            )
            for file in self.files
            if file.rows
        ]
        found = pa.unify_schemas(every, promote_options="permissive")
        return dict(zip(found.names, found.types, strict=True))

    def place(self, row: int) -> tuple[Path, int]:
        """Return the file that holds a row of the table, and the row's number in it."""
        for file in self.files:
            if row < file.rows:
                return file.path, row
            row -= file.rows
        raise IndexError(row)

    def where(self, row: int) -> str:
        """Return a sentence that names the file of a row; empty if the table is a single file."""
        if self._folder is None and len(self.files) == 1:
            return ""
        path, there = self.place(row)
        return f" Rows are counted over all files; row {row + 1:,} is row {there + 1:,} of {path}."

    def fingerprint(self) -> str:
        """Return a digest of samples of the files; see ``ParquetRows``."""
        return hashlib.sha256("".join(file.digest() for file in self.files).encode()).hexdigest()

    def _batches(self, columns: Sequence[str] | None, texts: Collection[str]) -> Iterator[Any]:
        """Yield record batches in which a column always has the same type."""
        names = self.names if columns is None else list(columns)
        self.check_names(names)
        if not isinstance(self.files[0], RowGroupFile):
            yield from self.files[0].batches(names, texts)
            return
        wide = self.widest_types()
        for piece in self.pieces(names, _BATCH):
            try:
                arrays = [
                    column.cast(wide[name])
                    for name, column in zip(names, piece.batch.columns, strict=True)
                ]
            except pa.ArrowException as error:
                raise TableFileError(
                    f"{piece.path} has numbers that do not fit the type they have in the other "
                    f"files: {error} Write all files with the same types."
                ) from error
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> Any:
    """Return a table as a data frame.

    Parameters
    ----------
    path : path
        A file or a folder; see :class:`TableFile`.
    columns : sequence of str, optional
        Which columns; by default all.
    """
    return TableFile(path).read(columns)


def table_batches(
    path: str | Path, rows: int = BATCH_ROWS, columns: Sequence[str] | None = None
) -> Iterator[Any]:
    """Yield a table in data frames of ``rows`` rows, in bounded memory; see :func:`read_table`."""
    return TableFile(path).frames(rows, columns)


def count_rows(path: str | Path) -> int | None:
    """Return the number of rows of a table, or None if it must be read for that."""
    return TableFile(path).rows


def _find_files(paths: Sequence[str | Path], streamed: bool) -> list[Path]:
    """Return the files of paths and folders; all are known formats, and none occurs twice."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inner = [f for f in sorted(path.rglob("*")) if _is_table(f, path)]
            if not inner:
                raise TableFileError(
                    f"{path} contains no file that ends in {', '.join(row_group_endings())}."
                )
            found += inner
            streamed = True
        else:
            format_of(path)
            found.append(path)
    if not found:
        raise TableFileError("no files are given.")
    for path, count in Counter(path.resolve() for path in found).items():
        if count > 1:
            raise TableFileError(f"{path} is given twice; its rows would count twice.")
    for path in found if streamed or len(found) > 1 else ():
        if not has_row_groups(path):
            raise TableFileError(
                f"{path} cannot be read in pieces, only files that end in "
                f"{', '.join(row_group_endings())} can. Convert it to Parquet."
            )
    return found


def _is_table(file: Path, folder: Path) -> bool:
    """Whether a file in a folder is a table; hidden ones, such as _SUCCESS and .crc, are not."""
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return not hidden and file.is_file() and file.name.lower().endswith(tuple(FORMATS))


def _names(file: SequentialFile | RowGroupFile) -> list[str]:
    return [name for name in file.names if not _PANDAS_INDEX.fullmatch(name)]


def _check_duplicates(file: SequentialFile | RowGroupFile, columns: Collection[str]) -> None:
    """Raise an error if a file has several columns with one of these names."""
    counts = Counter(file.names)
    if twice := [name for name in dict.fromkeys(columns) if counts[name] > 1]:
        where = {n: [str(i + 1) for i, m in enumerate(file.names) if m == n] for n in twice}
        shown = "; ".join(f"{n!r} (columns {', '.join(where[n])})" for n in twice[:5])
        hint = header_hint(file.path, file.names) if isinstance(file, CsvFile) else ""
        raise TableFileError(
            f"{file.path} has several columns of one name: {shown}. Rename them. {hint}".rstrip()
        )


def _no_column(file: RowGroupFile, name: str, wanted: Collection[str]) -> SchemaError:
    if any(folder.startswith(f"{name}=") for folder in file.path.parts):
        return SchemaError(
            f"{file.path} has no column {name!r}: it is part of the folder's name, and such "
            "columns are not read. Write it into the files as well."
        )
    others = [other for other in file.names if other not in wanted]
    hint = did_you_mean(name, others) or did_you_mean(name, file.names)
    return SchemaError(f"{file.path} has no column {name!r}; it has {listed(file.names)}.{hint}")


def _comparable_type(arrow_type: Any, same_zones: bool) -> str:
    """Return what must agree between files: numbers may have any size."""
    kind = storage_kind(arrow_type)
    if kind == "time" and same_zones:
        return f"time {arrow_type.tz}"
    return str(arrow_type) if kind == "other" else kind


def _tables_of(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield tables of exactly ``rows`` rows; the last may have fewer."""
    pending: list[Any] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(pending)
            yield table.slice(0, rows)
            # The rest is copied, so that a few rows do not keep a large block of memory alive.
            pending = table.slice(rows).combine_chunks().to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(pending)


def _to_frame(table: Any) -> Any:
    """Return a data frame; integers and booleans keep their types if some are missing."""
    bits = (8, 16, 32, 64)
    signed = {getattr(pa, f"int{b}")(): getattr(pd, f"Int{b}Dtype")() for b in bits}
    unsigned = {getattr(pa, f"uint{b}")(): getattr(pd, f"UInt{b}Dtype")() for b in bits}
    types = {**signed, **unsigned, pa.bool_(): pd.BooleanDtype()}
    return table.to_pandas(types_mapper=types.get, ignore_metadata=True)
