"""The tables of a folder as one, in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from setpoint._extras import need
from setpoint.tabular.errors import TableFileError
from setpoint.tabular.stream_files import TableFiles

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
