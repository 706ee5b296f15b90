"""A table written in pieces, which is there as a whole or not at all."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from setpoint._internal.files import AtomicFile
from setpoint._internal.imports import need
from setpoint.errors import TableFileError

ENDINGS = (
    ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".arrow", ".feather"
)  # fmt: skip


def ending(path: Path) -> str:
    """Return which of the known endings a file has."""
    name = path.name.lower()
    found = [known for known in ENDINGS if name.endswith(known)]
    if not found:
        raise TableFileError(
            f"{path}: what kind of table this is must show in its ending, which is one of "
            f"{', '.join(ENDINGS)}."
        )
    return max(found, key=len)


class TableWriter:
    r"""Write data frames, one after the other, into one file.

    The rows go to a temporary file in the same folder, which takes its final name when the block
    ends. If anything fails, the temporary file is removed, and a file that had the name before
    stays as it was.

    Parameters
    ----------
    path : path
        Its ending says what it becomes; the same as for reading.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scored.csv")
    ...     with TableWriter(path) as writer:
    ...         writer.write(pd.DataFrame({"score": [0.5]}))
    ...     path.read_text()
    '"score"\n0.5\n'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows = 0
        self._ending = ending(self.path)
        self._output = AtomicFile(self.path)
        self._sink: Any = None
        self._writer: Any = None
        self._schema: Any = None

    def __enter__(self) -> TableWriter:
        folder = self.path.parent
        if self.path.is_dir():
            raise TableFileError(f"{self.path} is a folder; name a file in it to write to.")
        if not folder.is_dir():
            raise TableFileError(f"there is no folder {folder}; make it first, or name another.")
        try:
            self._sink = self._output.open()
        except OSError as error:
            raise self._failed(error) from error
        return self

    def write(self, frame: Any) -> None:
        """Append the rows of a frame; all frames have the columns of the first."""
        pa = need("pyarrow", "cli", "writing tables")
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            if self._schema is None:
                self._schema = _writable(table.schema)
                self._writer = self._open(self._schema)
            self._writer.write_table(table.cast(self._schema))
        except OSError as error:
            raise self._failed(error) from error
        except (pa.ArrowException, ValueError) as error:
            raise TableFileError(f"{self.path}: a column cannot be written: {error}") from error
        self.rows += len(frame)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._writer is None:
                raise TableFileError(f"no rows were written, so there will be no {self.path}.")
            if error is None:
                self._writer.close()
                self._output.commit()
        except OSError as failure:
            raise self._failed(failure) from failure
        finally:
            self._abandon()

    def _open(self, schema: Any) -> Any:
        pa = need("pyarrow", "cli", "writing tables")
        if self._ending in (".parquet", ".pq"):
            return need("pyarrow.parquet", "cli", "writing Parquet").ParquetWriter(
                self._sink, schema
            )
        if self._ending in (".arrow", ".feather"):
            return need("pyarrow.ipc", "cli", "writing Arrow").new_file(self._sink, schema)
        csv = need("pyarrow.csv", "cli", "writing CSV")
        sink = self._sink
        if self._ending.endswith(".gz"):
            # Arrow closes the inner stream with the outer one, but not the Python file.
            sink = pa.CompressedOutputStream(pa.PythonFile(self._sink, mode="w"), "gzip")
        delimiter = "\t" if self._ending.startswith(".tsv") else ","
        writer = csv.CSVWriter(sink, schema, write_options=csv.WriteOptions(delimiter=delimiter))
        return _Together(writer, sink) if sink is not self._sink else writer

    def _abandon(self) -> None:
        """Close and remove what is left; what went wrong before matters more than this."""
        with suppress(Exception):
            if self._writer is not None:
                self._writer.close()
        self._output.discard()

    def _failed(self, error: OSError) -> TableFileError:
        whole = " The file that was there before is untouched." if self.path.exists() else ""
        if error.errno == errno.ENOSPC:
            return TableFileError(
                f"{self.path}: the disk is full after {self.rows:,} rows. Make room, or write to "
                f"another disk.{whole}"
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return TableFileError(
                f"{self.path} cannot be written: the folder {self.path.parent} is read-only. "
                f"Choose another one, or change its permissions.{whole}"
            )
        reason = error.strerror or str(error)
        return TableFileError(f"{self.path} cannot be written: {reason}.{whole}")


class _Together:
    """A writer and the stream below it, closed in this order."""

    def __init__(self, writer: Any, stream: Any) -> None:
        self._writer, self._stream = writer, stream

    def write_table(self, table: Any) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()
        self._stream.close()


def _writable(schema: Any) -> Any:
    """Return types that later frames can have too: nothing yet may become a text."""
    pa = need("pyarrow", "cli", "writing tables")
    fields = [pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in schema]
    return pa.schema(fields)
