"""CSV files of any size: types from all rows, values in batches.

A file is read twice. The first pass reads every value as text and finds the narrowest type that
holds all of a column's values; the second converts them. So a type never depends on where a block
ends, and errors in a file are found before any of its rows is used.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setpoint._internal.imports import OptionalModule
from setpoint.data.values import MISSING
from setpoint.errors import TableFileError

pa = OptionalModule("pyarrow", "cli", "CSV files")
pc = OptionalModule("pyarrow.compute", "cli", "CSV files")
arrow_csv = OptionalModule("pyarrow.csv", "cli", "CSV files")

_BLOCK = 1 << 23  # bytes; a row must fit into one
_DELIMITERS = ",;\t|"
_CODE = r"^\s*[+-]?0[0-9xX]"  # 00123 is a code: as a number it would lose its zeros
_LONG = r"^\s*[+-]?[0-9]{19,}\s*$"  # as a floating-point number it would lose its last digits

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TYPES = ("whole", "number", "boolean")
# The first bytes of other kinds of files, and what to do with them.
_UTF_16 = "is in UTF-16; save it in UTF-8, e.g. with: iconv -f utf-16 -t utf-8 {name} > new.csv"
_IMAGE = "is an image, not a table"
_FOREIGN = {
    b"\x1f\x8b": "is gzipped; its name must end in .gz",
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"PAR1": "is a Parquet file; its name must end in .parquet",
    b"ARROW1": "is an Arrow file; its name must end in .arrow",
    b"PK\x03\x04": "is a zip file or a workbook; the name of a workbook must end in .xlsx",
    b"\xd0\xcf\x11\xe0": "is a workbook; save the table in it as CSV",
    b"\x89PNG": _IMAGE,
    b"\xff\xd8\xff": _IMAGE,
    b"%PDF": "is a PDF, not a table; export the table itself as CSV",
}
_NOT_TEXT = "is not a text file in UTF-8; save it as one"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a]")  # do not occur in texts
csv.field_size_limit(1 << 30)


class CsvFile:
    """A CSV file, or a TSV file where its name ends in ``.tsv``; gzipped where it ends in ``.gz``.

    Attributes
    ----------
    names : list of str
        The columns.
    rows : int or None
        The number of rows, known after the first pass.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names, self.delimiter = _header(path, "\t" if _is_tsv(path) else None)
        self.rows: int | None = None

    def batches(self, columns: Sequence[str], texts: Collection[str]) -> Iterator[Any]:
        """Yield record batches; ``texts`` are columns that stay text whatever they look like."""
        kinds = self._find_types(columns, texts)
        for batch in self._as_text(columns):
            values = [self._convert(c, kind) for c, kind in zip(batch.columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(values, names=list(columns))

    @staticmethod
    def writer(path: Path, sink: Any, schema: Any) -> Any:
        """Return an object that writes tables of a schema to an open file."""
        options = arrow_csv.WriteOptions(delimiter="\t" if _is_tsv(path) else ",")
        if not _is_gzipped(path):
            return arrow_csv.CSVWriter(sink, schema, write_options=options)
        # Arrow closes the inner stream with the outer one, but not the Python file.
        stream = pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "gzip")
        return _StreamWriter(arrow_csv.CSVWriter(stream, schema, write_options=options), stream)

    def _find_types(self, columns: Sequence[str], texts: Collection[str]) -> list[str]:
        """Find the narrowest type of every column in a pass over all rows."""
        possible = [[] if name in texts else list(_TYPES) for name in columns]
        has_values = [name in texts for name in columns]
        rows = 0
        for batch in self._as_text(columns):
            rows += batch.num_rows
            for i, column in enumerate(batch.columns):
                if column.null_count < len(column):
                    has_values[i] = True
                    possible[i] = self._fitting_types(column.drop_null(), possible[i])
        self.rows = rows
        if rows == 0:
            raise _no_rows_error(self.path)
        return [
            ("text" if not kinds else kinds[0]) if has_value else "nothing"
            for kinds, has_value in zip(possible, has_values, strict=True)
        ]

    def _fitting_types(self, column: Any, kinds: list[str]) -> list[str]:
        """Return which of these types hold all values of a block."""
        fitting = []
        for kind in kinds:
            try:
                self._convert(column, kind)
            except pa.ArrowInvalid:
                continue
            fitting.append(kind)
        lossy = _CODE if "whole" in fitting else _LONG if "number" in fitting else None
        if lossy is not None and pc.any(pc.match_substring_regex(column, lossy)).as_py():
            return []
        return fitting

    def _convert(self, column: Any, kind: str) -> Any:
        """Return a column of texts in another type; raises ArrowInvalid if it does not fit."""
        if kind == "nothing":
            return pa.nulls(len(column), pa.float64())
        if kind == "text":
            return column
        if kind == "boolean":
            lower = pc.utf8_lower(pc.utf8_trim_whitespace(column))
            if not pc.all(pc.is_in(lower, value_set=pa.array(["true", "false", None]))).as_py():
                raise pa.ArrowInvalid("neither true nor false")
            return pc.equal(lower, "true")
        if kind == "number" and self.delimiter == ";":  # then the comma may be a decimal one
            column = pc.replace_substring(column, ",", ".")
        wanted = pa.int64() if kind == "whole" else pa.float64()
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid:
            return pc.utf8_trim_whitespace(column).cast(wanted)

    def _as_text(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield record batches in which every value is a text, or missing."""
        options = {
            "read_options": arrow_csv.ReadOptions(block_size=_BLOCK),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True
            ),
            "convert_options": arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.string()),
                include_columns=list(columns),
                null_values=list(MISSING),
                strings_can_be_null=True,
            ),
        }
        compression = "gzip" if _is_gzipped(self.path) else None
        try:
            with pa.input_stream(str(self.path), compression=compression) as stream:
                yield from arrow_csv.open_csv(stream, **options)
        except (pa.ArrowException, OSError) as error:
            raise _locate_error(self.path, len(self.names), self.delimiter, error) from error


class _StreamWriter:
    """A writer and the stream that it writes to, closed in this order."""

    def __init__(self, writer: Any, stream: Any) -> None:
        self._writer, self._stream = writer, stream

    def write_table(self, table: Any) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()
        self._stream.close()


def _is_tsv(path: Path) -> bool:
    return path.name.lower().endswith((".tsv", ".tsv.gz"))


def _is_gzipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _header(path: Path, delimiter: str | None) -> tuple[list[str], str]:
    """Return the column names and the delimiter."""
    _check_beginning(path)
    with _text(path) as lines:
        try:
            first = next((line for line in lines if line.strip("\r\n")), None)
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise _locate_error(path, 0, ",", error) from error
        if first is None:
            raise TableFileError(f"{path} is empty; the first line must name the columns.")
        if delimiter is None:
            delimiter = "," if "," in first else max(_DELIMITERS, key=first.count)
        try:
            names = next(csv.reader([first, *_continuation(first, lines)], delimiter=delimiter))
        except csv.Error as error:
            raise TableFileError(f"{path}: the header cannot be read ({error}).") from error
    if "\0" in first:
        raise TableFileError(f"{path} {_NOT_TEXT}.")
    return names, delimiter


def header_hint(path: Path, names: Sequence[str], surely: bool = False) -> str:
    """Return a sentence if column names look like the values of a row, otherwise nothing.

    Names such as 2023 and 2024 may be meant; ``surely`` asks for one such as -0.5.
    """
    numeric = [name for name in names if _NUMBER.fullmatch(name.strip())]
    if 2 * len(numeric) < len(names) or (surely and all(n.strip().isdigit() for n in numeric)):
        return ""
    shown = ", ".join(numeric[:3]) + (", ..." if len(numeric) > 3 else "")
    first = ",".join(f"c{i + 1}" for i in range(min(len(names), 3)))
    first += "" if len(names) <= 3 else f",...,c{len(names)}"
    return (
        f"The first line of {path} looks like data ({shown}), and must name the columns; if "
        f"it does not, write a line such as {first} before it."
    )


def _check_beginning(path: Path) -> None:
    """Raise TableFileError if the first bytes show that a file is not a text."""
    try:
        with path.open("rb") as file:
            beginning = file.read(1_024)
    except OSError as error:
        raise TableFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    if _is_gzipped(path):  # if it is not, reading fails
        return
    for bytes_, what in _FOREIGN.items():
        if beginning.startswith(bytes_):
            raise TableFileError(f"{path} {what.format(name=path.name)}")
    if _CONTROL.search(beginning):
        raise TableFileError(f"{path} {_NOT_TEXT}.")


def _continuation(first: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield further lines of a header that has a line break between quotes."""
    quotes = first.count('"')
    while quotes % 2 and (line := next(lines, None)) is not None:
        quotes += line.count('"')
        yield line


@contextmanager
def _text(path: Path) -> Iterator[Any]:
    """Open a file, gzipped or not, for reading line by line."""
    opener: Any = gzip.open if _is_gzipped(path) else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
        yield lines


def _locate_error(path: Path, expected: int, delimiter: str, error: Exception) -> TableFileError:
    """Return an error that names the first broken line, found by a second pass."""
    line = rows = 0
    try:
        with _text(path) as lines:
            reader = csv.reader(lines, delimiter=delimiter)
            for fields in reader:
                line, rows = reader.line_num, rows + bool(fields)
                if expected and fields and len(fields) != expected:
                    return TableFileError(
                        f"{path}, line {line}: {expected} fields were expected, as in the header, "
                        f"and there are {len(fields)}: {_shorten(fields, delimiter)}. Correct the "
                        "line; a text that contains the delimiter must be quoted."
                    )
    except UnicodeDecodeError:
        return TableFileError(
            f"{path}, at or after line {line + 1}: bytes that are not UTF-8 text. Save the file in "
            f"UTF-8, e.g. with: iconv -f latin1 -t utf-8 {path.name}"
        )
    except (EOFError, gzip.BadGzipFile, OSError) as other:
        return TableFileError(
            f"{path} cannot be read beyond line {line}: {other}. It is damaged or cut off; copy or "
            "download it again."
        )
    except csv.Error as other:
        return TableFileError(f"{path}, after line {line}: {other}.")
    return _no_rows_error(path) if rows == 1 else TableFileError(f"{path} cannot be read: {error}")


def _no_rows_error(path: Path) -> TableFileError:
    return TableFileError(f"{path} has a header and no rows; nothing to read.")


def _shorten(fields: list[str], delimiter: str) -> str:
    text = delimiter.join(fields)
    return repr(text if len(text) <= 60 else text[:57] + "...")
