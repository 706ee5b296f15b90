"""Tables written in pieces; the file appears when it is complete."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from setpoint._internal.files import AtomicFile
from setpoint._internal.imports import OptionalModule
from setpoint.data.file_formats import output_format
from setpoint.errors import TableFileError

pa = OptionalModule("pyarrow", "cli", "writing tables")


class TableWriter:
    r"""Write data frames, one after the other, into one file.

    Rows go to a temporary file in the same folder, which is renamed when the block ends. If
    anything fails, the temporary file is removed, and an existing file stays as it was.

    Parameters
    ----------
    path : path
        The file; its ending determines the format, as for :class:`TableFile`.

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
        self._format = output_format(self.path)
        self._output = AtomicFile(self.path)
        self._sink: Any = None
        self._writer: Any = None
        self._schema: Any = None

    def __enter__(self) -> TableWriter:
        folder = self.path.parent
        if self.path.is_dir():
            raise TableFileError(f"{self.path} is a folder; name a file in it to write to.")
        if not folder.is_dir():
            raise TableFileError(f"there is no folder {folder}; create it first, or name another.")
        try:
            self._sink = self._output.open()
        except OSError as error:
            raise self._write_error(error) from error
        return self

    def write(self, frame: Any) -> None:
        """Append the rows of a frame; all frames must have the columns of the first."""
        try:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            if self._schema is None:
                self._schema = _writable(table.schema)
                self._writer = self._format.writer(self.path, self._sink, self._schema)
            self._writer.write_table(table.cast(self._schema))
        except OSError as error:
            raise self._write_error(error) from error
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
                raise TableFileError(f"no rows were written, so {self.path} was not created.")
            if error is None:
                self._writer.close()
                self._output.commit()
        except OSError as failure:
            raise self._write_error(failure) from failure
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        """Close and remove what is left; an earlier error matters more than one here."""
        with suppress(Exception):
            if self._writer is not None:
                self._writer.close()
        self._output.discard()

    def _write_error(self, error: OSError) -> TableFileError:
        unchanged = " The file that was there before is untouched." if self.path.exists() else ""
        if error.errno == errno.ENOSPC:
            return TableFileError(
                f"{self.path}: the disk is full after {self.rows:,} rows. Make room, or write to "
                f"another disk.{unchanged}"
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return TableFileError(
                f"{self.path} cannot be written: the folder {self.path.parent} is read-only. "
                f"Choose another one, or change its permissions.{unchanged}"
            )
        reason = error.strerror or str(error)
        return TableFileError(f"{self.path} cannot be written: {reason}.{unchanged}")


def _writable(schema: Any) -> Any:
    """Return types that later frames can have too: a column without values may become texts."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in schema]
    return pa.schema(fields)
