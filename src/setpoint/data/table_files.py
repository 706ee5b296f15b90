"""Parquet and Arrow files as row groups that can be read one by one."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from setpoint._internal.imports import need
from setpoint.data.table_writer import ENDINGS, ending
from setpoint.errors import TableFileError

_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather")
_BUFFER = 1 << 16  # bytes of a column that are read at a time
_LOOKED_AT, _PIECES = 1 << 16, 64  # bytes of each piece of a file that is digested
_DAMAGED = "It is damaged, cut off or something else; copy, download or export it again."


def table_paths(given: Any) -> list[Path]:
    """Return the files that a path, a folder or a list of them means, each once."""
    several = [given] if isinstance(given, str | Path) else list(given)
    found = [file for path in map(Path, several) for file in _files_at(path)]
    if not found:
        raise TableFileError("no files are given.")
    seen: set[Path] = set()
    for file in found:
        if file.resolve() in seen:
            raise TableFileError(f"{file} is named twice; its rows would count twice.")
        seen.add(file.resolve())
    return found


def open_part(path: Path) -> Part:
    """Return a file's row groups."""
    return ParquetPart(path) if ending(path) in _PARQUET else ArrowPart(path)


def dealt(parts: Sequence[Part], shard: int, shards: int) -> Iterator[tuple[Part, int, list[int]]]:
    """Yield files, the number of each one's first row, and its row groups that are a shard's.

    Of the row groups that have rows, counted over all files, j belongs to the shard j modulo their
    number. Files of which a shard has nothing are passed over.
    """
    row = turn = 0
    for part in parts:
        filled = [group for group, rows in enumerate(part.group_rows) if rows]
        if own := filled[(shard - turn) % shards :: shards]:
            yield part, row, own
        row += part.rows
        turn += len(filled)


def first_typed(filled: Sequence[Part], name: str) -> Part:
    """Return the first of some files that knows the type of a column, or the first if none does."""
    return next((p for p in filled if name in p.types and name not in p.untyped), filled[0])


class Part:
    """A file of row groups.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Its columns; of one name there may be several.
    types : dict of str to pyarrow.DataType
        Their plain types.
    untyped : frozenset of str
        Those without a single value, of which the file knows no type.
    group_rows : list of int
        How many rows each row group has.
    """

    def __init__(self, path: Path) -> None:
        pa = need("pyarrow", "cli", "reading Parquet and Arrow files")
        self.path = path
        if not path.exists():
            raise TableFileError(f"there is no file {path}.")
        try:
            self._stamp = _stamp(path)
            schema, self.group_rows = self._look()
        except (pa.ArrowException, OSError) as error:
            raise TableFileError(f"{path} cannot be read: {error} {_DAMAGED}") from error
        self.names: list[str] = list(schema.names)
        self.types = {field.name: plain_type(field.type) for field in schema}
        self.untyped = frozenset(field.name for field in schema if _is_null(field.type))

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return sum(self.group_rows)

    def batches(
        self, groups: Iterable[int], columns: Sequence[str], most: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the number in the file of a first row, and record batches of at most so many rows.

        Columns come in the order asked.
        """
        first = [0, *accumulate(self.group_rows)]
        groups = [group for group in groups if self.group_rows[group]]
        with self._in_use():
            for group, row, batch in self._read(groups, list(columns), most):
                yield first[group] + row, batch.select(list(columns))

    def digest(self) -> str:
        """Return a digest of the file's size, row groups, both ends and pieces between them.

        It covers all of a file of up to 4 MiB.
        """
        size, _ = self._stamp
        digest = hashlib.sha256(repr((size, self.group_rows)).encode())
        with self._in_use(), self.path.open("rb") as file:
            for start in range(0, size, max(_LOOKED_AT, size // _PIECES)):
                file.seek(start)
                digest.update(file.read(_LOOKED_AT))
            file.seek(max(0, size - max(_LOOKED_AT, self._footer())))
            digest.update(file.read())
        return digest.hexdigest()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Say so if the file is not what it was when it was opened first, or cannot be read."""
        pa = need("pyarrow", "cli", "reading Parquet and Arrow files")
        try:
            self._check_unchanged()
            yield
            self._check_unchanged()
        except (pa.ArrowException, OSError) as error:
            self._check_unchanged()
            raise TableFileError(f"{self.path} cannot be read: {error} {_DAMAGED}") from error

    def _check_unchanged(self) -> None:
        try:
            now = _stamp(self.path)
        except FileNotFoundError as error:
            raise TableFileError(
                f"{self.path} is gone since it was opened; put it back, or start anew without it."
            ) from error
        if now != self._stamp:
            raise TableFileError(f"{self.path} was changed while it is in use; start anew.")

    def _look(self) -> tuple[Any, list[int]]:
        """Return the schema and the rows of each row group."""
        raise NotImplementedError

    def _read(
        self, groups: list[int], columns: list[str], most: int
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield row groups, numbers of rows in them, and record batches."""
        raise NotImplementedError

    def _footer(self) -> int:
        """Return how many bytes at the end of the file describe it."""
        return 0


class ParquetPart(Part):
    """A Parquet file, of which a row group at a time is decoded, in batches."""

    def _open(self) -> Any:
        parquet = need("pyarrow.parquet", "cli", "reading Parquet files")
        # Without a buffer of bounded size whole columns of a row group would be in memory.
        return parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=_BUFFER)

    def _look(self) -> tuple[Any, list[int]]:
        with self._open() as file:
            about = file.metadata
            rows = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            return file.schema_arrow, rows

    def _read(
        self, groups: list[int], columns: list[str], most: int
    ) -> Iterator[tuple[int, int, Any]]:
        with self._open() as file:
            for group in groups:
                row = 0
                size = _even(self.group_rows[group], most)
                for batch in file.iter_batches(size, row_groups=[group], columns=columns):
                    yield group, row, batch
                    row += batch.num_rows

    def _footer(self) -> int:
        with self._open() as file:
            return int(file.metadata.serialized_size) + 8


class ArrowPart(Part):
    """An Arrow file or stream, whose record batches are its row groups."""

    @contextmanager
    def _reader(self, fields: Iterable[int] = ()) -> Iterator[Any]:
        """Open the file for reading some of its fields, or all."""
        pa = need("pyarrow", "cli", "reading Arrow files")
        ipc = need("pyarrow.ipc", "cli", "reading Arrow files")
        options = ipc.IpcReadOptions(included_fields=list(fields))
        # A mapped file would stay in memory as far as it has been read.
        with pa.OSFile(str(self.path)) as source:
            try:
                reader = ipc.open_file(source, options=options)
            except pa.ArrowInvalid:
                source.seek(0)
                reader = ipc.open_stream(source, options=options)
            yield reader

    def _look(self) -> tuple[Any, list[int]]:
        with self._reader() as whole:
            schema = whole.schema
        with self._reader([0]) as reader:
            every = _record_batches(reader)
            return schema, [batch.num_rows for _, batch in every] if schema.names else []

    def _read(
        self, groups: list[int], columns: list[str], most: int
    ) -> Iterator[tuple[int, int, Any]]:
        fields = sorted({self.names.index(name) for name in columns})
        with self._reader(fields) as reader:
            for group, batch in _record_batches(reader, groups):
                size = _even(batch.num_rows, most)
                for row in range(0, batch.num_rows, size):
                    yield group, row, batch.slice(row, size)


def _record_batches(reader: Any, groups: Iterable[int] | None = None) -> Iterator[tuple[int, Any]]:
    """Yield record batches with their numbers, by default all."""
    if hasattr(reader, "num_record_batches"):
        for group in range(reader.num_record_batches) if groups is None else groups:
            yield group, reader.get_batch(group)
    else:  # a stream has no table of contents
        wanted = None if groups is None else set(groups)
        for group, batch in enumerate(reader):
            if wanted is None or group in wanted:
                yield group, batch


def _files_at(path: Path) -> list[Path]:
    """Return a file, or the tables in a folder and its folders, sorted by their names."""
    if not path.is_dir():
        if ending(path) not in _PARQUET + _ARROW:
            raise _not_columnar(path)
        return [path]
    found = []
    for file in sorted(path.rglob("*")):
        inner = file.relative_to(path).parts
        hidden = any(part.startswith((".", "_")) for part in inner)  # e.g. _SUCCESS, .crc
        if hidden or not file.is_file() or not file.name.lower().endswith(ENDINGS):
            continue
        if ending(file) not in _PARQUET + _ARROW:
            raise _not_columnar(file)
        found.append(file)
    if not found:
        raise TableFileError(f"{path} holds no file that ends in {', '.join(_PARQUET + _ARROW)}.")
    return found


def _is_null(arrow_type: Any) -> bool:
    """Whether a type, or what a dictionary stands for, is that of a column without values."""
    types = need("pyarrow", "cli", "reading tables").types
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    return bool(types.is_null(arrow_type))


def _stamp(path: Path) -> tuple[int, int]:
    """Return what changes when a file is written anew."""
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _not_columnar(path: Path) -> TableFileError:
    return TableFileError(
        f"{path} is neither Parquet nor Arrow, and only those can be read piece by piece; write "
        "it as Parquet once."
    )


def _even(rows: int, most: int) -> int:
    """Return a size of at most so many rows that parts them evenly."""
    return math.ceil(rows / math.ceil(rows / most))


# The row numbers that pandas writes into Parquet and Arrow files say nothing about a row.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def is_pandas_index(name: str) -> bool:
    """Whether a column holds the row numbers of a data frame that was saved."""
    return _PANDAS_INDEX.fullmatch(name) is not None


def plain_type(arrow_type: Any) -> Any:
    """Return the Arrow type in which a column is handed on.

    Dictionaries become what they stand for, since each batch may have one of its own.
    """
    pa = need("pyarrow", "cli", "reading tables")
    types = pa.types
    if types.is_dictionary(arrow_type):
        return plain_type(arrow_type.value_type)
    if types.is_null(arrow_type) or types.is_decimal(arrow_type):
        return pa.float64()
    if types.is_date(arrow_type):
        return pa.timestamp("ms")
    if types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return pa.string()
    return arrow_type


def plain_batch(batch: Any) -> Any:
    """Return a record batch whose columns have plain types."""
    pa = need("pyarrow", "cli", "reading tables")
    columns = [c.cast(plain_type(c.type)) for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def of_rows(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield tables of exactly so many rows, but for the last."""
    pa = need("pyarrow", "cli", "reading tables")
    held: list[Any] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            # The rest is copied, lest a few rows keep a large block of memory alive.
            held = table.slice(rows).combine_chunks().to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(held)


def to_frame(table: Any) -> Any:
    """Return a data frame; whole numbers and booleans stay such where some are missing."""
    return table.to_pandas(types_mapper=_pandas_types().get, ignore_metadata=True)


def _pandas_types() -> dict[Any, Any]:
    pa = need("pyarrow", "cli", "reading tables")
    pd = need("pandas", "cli", "reading tables")
    bits = (8, 16, 32, 64)
    whole = {getattr(pa, f"int{b}")(): getattr(pd, f"Int{b}Dtype")() for b in bits}
    unsigned = {getattr(pa, f"uint{b}")(): getattr(pd, f"UInt{b}Dtype")() for b in bits}
    return {**whole, **unsigned, pa.bool_(): pd.BooleanDtype()}


# DOC of tabular._arrow: Arrow batches to data frames, with types that do not depend on the batch.
