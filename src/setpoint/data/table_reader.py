"""Tables in files: CSV, gzipped CSV, TSV, Parquet and Arrow, whole or in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from setpoint._internal.imports import need
from setpoint._internal.validation import did_you_mean, listed
from setpoint.data.csv_files import CsvFile
from setpoint.data.table_files import is_pandas_index, of_rows, plain_batch, to_frame
from setpoint.data.table_stream import TableFiles
from setpoint.data.table_writer import TableWriter, ending
from setpoint.errors import TableFileError

__all__ = ["TableFile", "TableWriter", "count_rows", "open_table", "read_table", "table_batches"]

BATCH_ROWS = 131_072  # rows in memory at a time


class TableFile:
    """A table in a file or a folder, which can be read in batches of bounded memory.

    Read whole or in batches, the values and their types are the same: those of a CSV file are
    found in a first pass over all of its rows. Whole numbers and booleans come in pandas' types
    that allow for missing values. Dates in a CSV file stay texts; a schema knows them.

    Parameters
    ----------
    path : path
        Its ending says what it is: ``.csv``, ``.tsv``, either with ``.gz``, ``.parquet``,
        ``.arrow`` or ``.feather``. Of a folder all Parquet and Arrow files are one table, sorted by
        their names, also those in its folders; all have the same columns.

    Attributes
    ----------
    names : list of str
        The columns.
    rows : int or None
        How many rows there are, where that is known without reading them.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = self._open()
        self.names: list[str] = self._file.names
        self._check_names()
        if self.rows == 0:
            raise TableFileError(f"{path} has columns and no rows; nothing can be read.")

    def _open(self) -> CsvFile | ParquetFile | ArrowFile | Folder:
        path = self.path
        if path.is_dir():
            return Folder(path)
        kind = ending(path)
        if not path.exists():
            raise TableFileError(f"there is no file {path}.{_beside(path)}")
        try:
            size = path.stat().st_size
            with path.open("rb"):
                pass
        except OSError as error:
            raise TableFileError(f"{path} cannot be opened: {error.strerror}.") from error
        if size == 0:
            raise TableFileError(f"{path} is empty; was it written completely?")
        if kind in (".parquet", ".pq"):
            return ParquetFile(path)
        if kind in (".arrow", ".feather"):
            return ArrowFile(path)
        return CsvFile(path, "\t" if kind.startswith(".tsv") else None)

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is known; of a CSV file after its first pass."""
        return self._file.rows

    def where(self, row: int) -> str:
        """Return a sentence that says where a row of a folder is; nothing of a file."""

        return self._file.where(row) if isinstance(self._file, Folder) else ""

    def _check_names(self) -> None:
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            where = {n: [i + 1 for i, m in enumerate(self.names) if m == n] for n in twice}
            told = "; ".join(f"{n!r} (columns {', '.join(map(str, where[n]))})" for n in twice[:5])
            raise TableFileError(
                f"{self.path} has several columns of one name: {told}. Give each a name of its own."
            )
        if not self.names:
            raise TableFileError(f"{self.path} has no columns.")

    def frames(
        self,
        rows: int = BATCH_ROWS,
        columns: Sequence[str] | None = None,
        texts: Collection[str] = (),
    ) -> Iterator[Any]:
        """Yield data frames of so many rows, but for the last.

        Parameters
        ----------
        rows : int
            How many rows a frame has.
        columns : sequence of str, optional
            Which columns, in this order; by default all.
        texts : collection of str
            Columns of a CSV file that stay texts even where all values look like numbers.
        """
        for table in of_rows(self._file.batches(self._asked(columns), texts), rows):
            yield to_frame(table)

    def read(self, columns: Sequence[str] | None = None, texts: Collection[str] = ()) -> Any:
        """Return the whole table as one data frame; parameters as in ``frames``."""
        pa = need("pyarrow", "cli", "reading tables")
        return to_frame(
            pa.Table.from_batches(list(self._file.batches(self._asked(columns), texts)))
        )

    def _asked(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return self.names
        if unknown := [name for name in columns if name not in self.names]:
            raise TableFileError(
                f"{self.path} has no column {unknown[0]!r}; it has {listed(self.names)}."
                f"{did_you_mean(unknown[0], self.names)}"
            )
        return list(columns)


def open_table(path: str | Path) -> TableFile:
    """Open a table; see :class:`TableFile`."""
    return TableFile(path)


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> Any:
    """Return a table as a data frame.

    Parameters
    ----------
    path : path
        A file that ends in ``.csv``, ``.tsv``, either with ``.gz``, ``.parquet``, ``.arrow`` or
        ``.feather``, or a folder; see :class:`TableFile`.
    columns : sequence of str, optional
        Which columns; by default all.
    """
    return TableFile(path).read(columns)


def table_batches(
    path: str | Path, rows: int = BATCH_ROWS, columns: Sequence[str] | None = None
) -> Iterator[Any]:
    """Yield a table in data frames of so many rows, in bounded memory.

    Parameters as in :func:`read_table`.
    """
    return TableFile(path).frames(rows, columns)


def count_rows(path: str | Path) -> int | None:
    """Return how many rows a table has, or None where it would have to be read to know."""
    return TableFile(path).rows


def _beside(path: Path) -> str:
    """Return which file was perhaps meant."""
    if not path.parent.is_dir():
        return f" There is no folder {path.parent} either."
    return did_you_mean(path.name, sorted(p.name for p in path.parent.iterdir()))


_BATCH = 65_536
_DAMAGED = "It is damaged, cut off or something else; copy, download or export it again."


class ParquetFile:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        pa = need("pyarrow", "cli", "reading Parquet files")
        parquet = need("pyarrow.parquet", "cli", "reading Parquet files")
        self.path = path
        try:
            # Buffering ahead would hold whole row groups in memory.
            self._file = parquet.ParquetFile(path, pre_buffer=False)
        except (pa.ArrowException, OSError) as error:
            raise TableFileError(f"{path} cannot be read as Parquet: {error} {_DAMAGED}") from error
        self.rows: int | None = self._file.metadata.num_rows
        self.names = [n for n in self._file.schema_arrow.names if not is_pandas_index(n)]

    def batches(self, columns: Sequence[str], texts: Collection[str]) -> Iterator[Any]:
        """Yield record batches of the columns; ``texts`` matter to CSV files only."""
        pa = need("pyarrow", "cli", "reading Parquet files")
        try:
            for batch in self._file.iter_batches(_BATCH, columns=list(columns)):
                yield plain_batch(batch.select(list(columns)))
        except (pa.ArrowException, OSError) as error:
            raise TableFileError(f"{self.path} cannot be read: {error} {_DAMAGED}") from error


class ArrowFile:
    """An Arrow file: Feather, or a file or stream of record batches."""

    def __init__(self, path: Path) -> None:
        pa = need("pyarrow", "cli", "reading Arrow files")
        self.path = path
        self.rows: int | None = None
        try:
            with self._open() as batches:
                names = batches.schema.names
                if hasattr(batches, "num_record_batches"):
                    counts = range(batches.num_record_batches)
                    self.rows = sum(batches.get_batch(i).num_rows for i in counts)
        except (pa.ArrowException, OSError) as error:
            raise TableFileError(f"{path} cannot be read as Arrow: {error} {_DAMAGED}") from error
        self.names = [n for n in names if not is_pandas_index(n)]

    def _open(self) -> Any:
        pa = need("pyarrow", "cli", "reading Arrow files")
        ipc = need("pyarrow.ipc", "cli", "reading Arrow files")
        source = pa.memory_map(str(self.path))
        try:
            return ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            return ipc.open_stream(source)

    def batches(self, columns: Sequence[str], texts: Collection[str]) -> Iterator[Any]:
        """Yield record batches of the columns; ``texts`` matter to CSV files only."""
        pa = need("pyarrow", "cli", "reading Arrow files")
        try:
            with self._open() as reader:
                every: Any = reader
                if hasattr(reader, "num_record_batches"):
                    every = (reader.get_batch(i) for i in range(reader.num_record_batches))
                for whole in every:
                    for start in range(0, whole.num_rows, _BATCH):
                        yield plain_batch(whole.slice(start, _BATCH).select(list(columns)))
        except (pa.ArrowException, OSError) as error:
            raise TableFileError(f"{self.path} cannot be read: {error} {_DAMAGED}") from error


_BATCH = 65_536


class Folder:
    """Parquet and Arrow files of the same columns, one after the other, sorted by their names."""

    def __init__(self, path: Path) -> None:
        self._files = TableFiles(path)
        self.names = self._files.names
        self.rows: int | None = self._files.rows

    def where(self, row: int) -> str:
        """Return in words in which file a row is."""
        path, there = self._files.place(row)
        return f" Rows are counted over all files; row {row + 1:,} is row {there + 1:,} of {path}."

    def batches(self, columns: Sequence[str], texts: Collection[str]) -> Iterator[Any]:
        """Yield record batches of the columns, of the same types; ``texts`` matter to CSV only."""
        pa = need("pyarrow", "cli", "reading tables")
        wide = self._files.widest_types()
        types = [wide[name] for name in columns]
        for piece in self._files.pieces(columns, _BATCH):
            try:
                arrays = [c.cast(t) for c, t in zip(piece.batch.columns, types, strict=True)]
            except pa.ArrowException as error:
                raise TableFileError(
                    f"{piece.path} has numbers that do not go with those of the other files: "
                    f"{error} Write all files with the same types."
                ) from error
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


# DOC of tabular._columnar: Parquet and Arrow files, in batches.

# DOC of tabular._folder: The tables of a folder as one, in batches.
