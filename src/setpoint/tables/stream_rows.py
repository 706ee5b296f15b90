"""The rows of a table in files, encoded as they are read, for training in bounded memory."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from setpoint._internal.imports import OptionalModule
from setpoint.data.parquet import Roles
from setpoint.data.rows import Block, RowSource, concatenated, grouped
from setpoint.data.table_reader import Piece, TableFile
from setpoint.errors import SchemaError
from setpoint.tables.encoder import encode
from setpoint.tables.schema import Schema

pd = OptionalModule("pandas", "cli", "a table")

_NUMBERS = 2**21  # features in a block, about: 16 MiB while they are made
_MOST, _FEWEST = 65_536, 2_048  # rows in a block
_SPARE = 2  # how many times the required disk space must be free
_BESIDES = 33  # bytes of a row besides features: label, weight, number, unit, time


class TableRows:
    """A row source that checks and encodes columns as they are read, to ``width`` features."""

    classes = (False, True)

    def __init__(
        self, table: TableFile, roles: Roles, schema: Schema, encoder: Any, width: int
    ) -> None:
        self._table, self._roles, self._schema, self._encoder = table, roles, schema, encoder
        self._columns = list(dict.fromkeys([*schema.names, *roles.names]))
        self.block_rows = min(_MOST, max(_FEWEST, _NUMBERS // width))

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of a shard; a block may hold several small row groups."""
        pieces = self._table.pieces(self._columns, self.block_rows, shard, shards)
        return map(self._block, grouped(pieces, self.block_rows))

    def fingerprint(self) -> str:
        """Return a digest of the files, columns and roles."""
        digest = hashlib.sha256(self._table.fingerprint().encode())
        digest.update(repr(self._roles).encode())
        digest.update(json.dumps(self._schema.to_dict(), sort_keys=True).encode())
        return digest.hexdigest()

    def _block(self, pieces: list[Piece]) -> Block:
        checked = pd.concat([self._checked(piece) for piece in pieces], ignore_index=True)
        rows = concatenated([self._roles.block(piece) for piece in pieces])
        return replace(rows, X=torch.from_numpy(encode(self._encoder, checked)))

    def _checked(self, piece: Piece) -> Any:
        try:
            return self._schema.check(piece.frame(), ignore_extra=True, first_row=piece.row)
        except SchemaError as error:
            raise SchemaError(
                f"{piece.path} does not fit the rows from which the columns were learnt: {error} "
                "A column can also be left out (--drop)."
            ) from error


class CachedRows:
    """A row source that caches the blocks of another on disk, so that later passes are faster.

    Blocks are in unnamed temporary files in a folder, which disappear with the process. If the disk
    is full, features are computed in every pass.
    """

    def __init__(self, source: RowSource, folder: str | Path | None) -> None:
        self._source, self._folder = source, folder
        self._complete: dict[tuple[int, int], tuple[IO[bytes], list[int]]] = {}
        self._full = False
        self.classes = getattr(source, "classes", (False, True))

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of a shard, from disk if an earlier pass was complete."""
        found = self._complete.get((shard, shards))
        if found is not None:
            file, places = found
            for place in places:
                file.seek(place)
                yield _load(file)
            return
        # It stays open as long as the rows may be read again.
        file, places = tempfile.TemporaryFile(dir=self._folder), []  # noqa: SIM115
        complete = False
        try:
            for block in self._source.blocks(shard, shards):
                self._write(file, places, block)
                yield block
            complete = not self._full
        finally:
            if complete:
                self._complete[shard, shards] = file, places
            else:
                file.close()

    def __enter__(self) -> CachedRows:
        return self

    def __exit__(self, *error: object) -> None:
        for file, _ in self._complete.values():
            file.close()
        self._complete.clear()

    def fingerprint(self) -> str:
        """Return the fingerprint of the source."""
        return self._source.fingerprint()

    def _write(self, file: IO[bytes], places: list[int], block: Block) -> None:
        if self._full:
            return
        try:
            file.seek(0, 2)
            places.append(file.tell())
            for field in (block.X, block.positive, block.weight, block.number, block.unit):
                np.save(file, field.numpy())
            np.save(file, np.empty(0) if block.time is None else block.time.numpy())
            file.flush()
        except OSError:
            self._full = True
            file.truncate(0)


def has_room(folder: str | Path, rows: int, width: int) -> bool:
    """Whether a disk has ample space for the features of these rows."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return shutil.disk_usage(folder).free > _SPARE * rows * (4 * width + _BESIDES)
    except OSError:
        return False


def _load(file: IO[bytes]) -> Block:
    X, positive, weight, number, unit, time = (torch.from_numpy(np.load(file)) for _ in range(6))
    return Block(X, positive, weight, number, unit, time if len(time) else None)
