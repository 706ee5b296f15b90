"""Parquet and Arrow files, in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from setpoint._extras import need
from setpoint.tabular._arrow import is_pandas_index, plain_batch
from setpoint.tabular.errors import TableFileError

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
