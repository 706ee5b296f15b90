"""File formats of tables: one class per format, which opens, reads and writes such files.

To add a format, write a class and add its endings to :data:`FORMATS`; reading, writing and the
commands then support it (docs/how-to/add-a-file-format.md). A class of files that are read from
start to end has the members of :class:`SequentialFile`, as
:class:`~setpoint.data.csv_files.CsvFile` does. If files consist of row groups that can be read one
by one, derive the class from :class:`RowGroupFile`, as :class:`ParquetFile` does, and implement
``format_name``, ``_inspect``, ``_read`` and ``writer``; such files can also be streamed, and
several of them, or a folder, can be one table.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import did_you_mean
from setpoint.data.csv_files import CsvFile
from setpoint.data.excel_files import ExcelFile
from setpoint.errors import TableFileError

pa = OptionalModule("pyarrow", "cli", "reading tables")
parquet = OptionalModule("pyarrow.parquet", "cli", "Parquet files")
ipc = OptionalModule("pyarrow.ipc", "cli", "Arrow files")

StorageKind = Literal["number", "boolean", "text", "time", "other"]

_BUFFER = 1 << 16  # bytes of a column that are read at a time
_SAMPLE, _SAMPLES = 1 << 16, 64  # bytes of each sample of a file for its digest, and their number
_LARGE_BATCH = 1 << 16  # rows of a record batch
_DAMAGED = "It is damaged, cut off or something else; copy, download or export it again."


class SequentialFile(Protocol):
    """A file that is read from start to end.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Its columns.
    rows : int or None
        The number of rows; None if it is not known before they are read.
    """

    path: Path
    names: list[str]
    rows: int | None

    def __init__(self, path: Path) -> None: ...

    def batches(self, columns: Sequence[str], texts: Collection[str]) -> Iterator[Any]:
        """Yield record batches; ``texts`` are columns that stay text whatever they look like."""
        ...

    @staticmethod
    def writer(path: Path, sink: Any, schema: Any) -> Any:
        """Return an object with ``write_table`` and ``close``, which writes to an open file."""
        ...


class RowGroupFile:
    """A file whose row groups can be read one by one.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Its columns; names may occur more than once.
    types : dict of str to pyarrow.DataType
        The canonical type of each column.
    untyped : frozenset of str
        Columns without any value, whose type the file does not record.
    group_rows : list of int
        The number of rows of each row group.
    """

    format_name: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stamp = _stamp(path)
            schema, self.group_rows = self._inspect()
        except (pa.ArrowException, OSError) as error:
            raise TableFileError(
                f"{path} cannot be read as {self.format_name}: {error} {_DAMAGED}"
            ) from error
        self.names: list[str] = list(schema.names)
        self.types = {field.name: canonical_type(field.type) for field in schema}
        self.untyped = frozenset(field.name for field in schema if _is_null(field.type))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.group_rows)

    def batches(
        self, groups: Iterable[int], columns: Sequence[str], most: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield record batches of at most ``most`` rows, each with the number of its first row.

        Rows are numbered within the file. Columns come in the given order.
        """
        first = [0, *accumulate(self.group_rows)]
        groups = [group for group in groups if self.group_rows[group]]
        with self._in_use():
            for group, row, batch in self._read(groups, list(columns), most):
                yield first[group] + row, batch.select(list(columns))

    def digest(self) -> str:
        """Return a digest of the file's size, row groups, both ends and samples between them.

        It covers all of a file of up to 4 MiB.
        """
        size, _ = self._stamp
        digest = hashlib.sha256(repr((size, self.group_rows)).encode())
        with self._in_use(), self.path.open("rb") as file:
            for start in range(0, size, max(_SAMPLE, size // _SAMPLES)):
                file.seek(start)
                digest.update(file.read(_SAMPLE))
            file.seek(max(0, size - max(_SAMPLE, self._footer())))
            digest.update(file.read())
        return digest.hexdigest()

    @staticmethod
    def writer(path: Path, sink: Any, schema: Any) -> Any:
        """Return an object that writes tables of a schema to an open file."""
        raise NotImplementedError

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """Raise TableFileError if the file changed since it was opened, or cannot be read."""
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
                f"{self.path} has been removed since it was opened; restore it, or start again "
                "without it."
            ) from error
        if now != self._stamp:
            raise TableFileError(f"{self.path} was changed while in use; start again.")

    def _inspect(self) -> tuple[Any, list[int]]:
        """Return the schema and the number of rows of each row group."""
        raise NotImplementedError

    def _read(
        self, groups: list[int], columns: list[str], most: int
    ) -> Iterator[tuple[int, int, Any]]:
        """Yield a row group, a row's number in it, and a record batch that starts there."""
        raise NotImplementedError

    def _footer(self) -> int:
        """Return how many bytes at the end of the file are metadata."""
        return 0


class ParquetFile(RowGroupFile):
    """A Parquet file, decoded one row group at a time, in batches."""

    format_name = "Parquet"

    def _open(self) -> Any:
        # Without a buffer of bounded size, whole columns of a row group would be in memory.
        return parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=_BUFFER)

    def _inspect(self) -> tuple[Any, list[int]]:
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
                size = _even_size(self.group_rows[group], most)
                for batch in file.iter_batches(size, row_groups=[group], columns=columns):
                    yield group, row, batch
                    row += batch.num_rows

    def _footer(self) -> int:
        with self._open() as file:
            return int(file.metadata.serialized_size) + 8

    @staticmethod
    def writer(path: Path, sink: Any, schema: Any) -> Any:
        """Return an object that writes tables of a schema to an open file."""
        return parquet.ParquetWriter(sink, schema)


class ArrowFile(RowGroupFile):
    """An Arrow file, Feather file or Arrow stream; its record batches are the row groups."""

    format_name = "Arrow"

    @contextmanager
    def _reader(self, fields: Iterable[int] = (), *, mapped: bool = False) -> Iterator[Any]:
        """Open the file for reading some fields, or all."""
        options = ipc.IpcReadOptions(included_fields=list(fields))
        with (pa.memory_map if mapped else pa.OSFile)(str(self.path)) as source:
            try:
                reader = ipc.open_file(source, options=options)
            except pa.ArrowInvalid:
                source.seek(0)
                reader = ipc.open_stream(source, options=options)
            yield reader

    def _inspect(self) -> tuple[Any, list[int]]:
        with self._reader() as reader:
            schema = reader.schema
        with self._reader([0]) as reader:
            batches = _record_batches(reader)
            return schema, [batch.num_rows for _, batch in batches] if schema.names else []

    def _read(
        self, groups: list[int], columns: list[str], most: int
    ) -> Iterator[tuple[int, int, Any]]:
        # A record batch is read as a whole, unless the file is mapped; but what was read of a
        # mapped file counts as memory until it is closed.
        mapped = max(self.group_rows, default=0) > _LARGE_BATCH
        fields = () if mapped else sorted({self.names.index(name) for name in columns})
        with self._reader(fields, mapped=mapped) as reader:
            for group, batch in _record_batches(reader, groups):
                size = _even_size(batch.num_rows, most)
                for row in range(0, batch.num_rows, size):
                    yield group, row, batch.slice(row, size)

    @staticmethod
    def writer(path: Path, sink: Any, schema: Any) -> Any:
        """Return an object that writes tables of a schema to an open file."""
        return ipc.new_file(sink, schema)


FORMATS: dict[str, type[SequentialFile] | type[RowGroupFile]] = {
    ".csv": CsvFile,
    ".csv.gz": CsvFile,
    ".tsv": CsvFile,
    ".tsv.gz": CsvFile,
    ".parquet": ParquetFile,
    ".pq": ParquetFile,
    ".arrow": ArrowFile,
    ".feather": ArrowFile,
    ".xlsx": ExcelFile,
    ".xlsm": ExcelFile,
}


def format_of(path: Path) -> type[SequentialFile] | type[RowGroupFile]:
    """Return the format of a file by its ending."""
    name = path.name.lower()
    found = [known for known in FORMATS if name.endswith(known)]
    if not found:
        raise TableFileError(
            f"{path}: the format of a table is known by the ending of its name, which must be one "
            f"of {', '.join(FORMATS)}."
        )
    return FORMATS[max(found, key=len)]


def output_format(path: Path) -> type[SequentialFile] | type[RowGroupFile]:
    """Return the format of a file to write; raise TableFileError if it can only be read."""
    found = format_of(path)
    if found is ExcelFile:
        raise TableFileError(f"{path}: results are not written as workbooks; use .csv or .parquet.")
    return found


def row_group_endings() -> tuple[str, ...]:
    """Return the endings of files that can be read by row group."""
    return tuple(ending for ending, cls in FORMATS.items() if issubclass(cls, RowGroupFile))


def has_row_groups(path: Path) -> bool:
    """Whether files of this ending can be read by row group."""
    return path.name.lower().endswith(row_group_endings())


def open_file(path: Path) -> SequentialFile | RowGroupFile:
    """Open one file of a table."""
    file_format = format_of(path)
    if not path.exists():
        if not path.parent.is_dir():
            hint = f" There is no folder {path.parent} either."
        else:
            hint = did_you_mean(path.name, sorted(p.name for p in path.parent.iterdir()))
        raise TableFileError(f"there is no file {path}.{hint}")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise TableFileError(f"{path} cannot be opened: {error.strerror}.") from error
    if empty:
        raise TableFileError(f"{path} is empty; was it written completely?")
    return file_format(path)


def canonical_type(arrow_type: Any) -> Any:
    """Return the Arrow type to which a column is converted when it is read.

    Dictionaries are decoded, since each batch may have its own.
    """
    types = pa.types
    if types.is_dictionary(arrow_type):
        return canonical_type(arrow_type.value_type)
    if types.is_null(arrow_type) or types.is_decimal(arrow_type):
        return pa.float64()
    if types.is_date(arrow_type):
        return pa.timestamp("ms")
    if types.is_large_string(arrow_type) or types.is_string_view(arrow_type):
        return pa.string()
    return arrow_type


def to_canonical_type(column: Any) -> Any:
    """Return a column in its canonical type."""
    wanted = canonical_type(column.type)
    return column if column.type == wanted else column.cast(wanted)


def storage_kind(arrow_type: Any) -> StorageKind:
    """Return what a column of a canonical type holds; a model may use it as another kind."""
    types = pa.types
    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        return "number"
    if types.is_boolean(arrow_type):
        return "boolean"
    if types.is_string(arrow_type):
        return "text"
    return "time" if types.is_timestamp(arrow_type) else "other"


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


def _is_null(arrow_type: Any) -> bool:
    """Whether a type, or the value type of a dictionary, is that of a column without values."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    return bool(types.is_null(arrow_type))


def _stamp(path: Path) -> tuple[int, int]:
    """Return size and time of modification, by which a rewritten file is noticed."""
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _even_size(rows: int, most: int) -> int:
    """Return a batch size of at most ``most`` that divides rows evenly, so that none is tiny."""
    return math.ceil(rows / math.ceil(rows / most))
