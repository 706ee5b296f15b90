"""Tables in files: CSV, gzipped CSV, TSV, Parquet and Arrow, whole or in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint._extras import need
from setpoint.tabular._arrow import of_rows, to_frame
from setpoint.tabular._columnar import ArrowFile, ParquetFile
from setpoint.tabular._csv import CsvFile
from setpoint.tabular.errors import TableFileError, listed, nearest
from setpoint.tabular.writer import TableWriter, ending

if TYPE_CHECKING:
    from setpoint.tabular._folder import Folder

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
            from setpoint.tabular._folder import Folder  # which takes its time

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
        from setpoint.tabular._folder import Folder

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
                f"{nearest(unknown[0], self.names)}"
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
    return nearest(path.name, sorted(p.name for p in path.parent.iterdir()))
