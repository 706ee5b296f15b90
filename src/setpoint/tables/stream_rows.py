"""The rows of a table in files, encoded as they are read, for training in bounded memory."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from setpoint._internal.imports import OptionalModule
from setpoint.data import columns as _columns
from setpoint.data.file_formats import kind_of
from setpoint.data.label_columns import positive_rows
from setpoint.data.labels import Label, Labels
from setpoint.data.rows import Block, RowSource, joined
from setpoint.data.table_reader import Piece, TableFile
from setpoint.errors import SchemaError, SplitError
from setpoint.tables.encoder import encode
from setpoint.tables.schema import Schema

pd = OptionalModule("pandas", "cli", "a table")

_NUMBERS = 2**21  # features in a block, about: 16 MiB while they are made
_MOST, _FEWEST = 65_536, 2_048  # rows in a block
_SPARE = 2  # how many times the required disk space must be free
_BESIDES = 33  # bytes of a row besides features: label, weight, number, unit, time
_USABLE = {"group": ("number", "boolean", "text", "time"), "time": ("number", "time")}


@dataclass(frozen=True)
class Roles:
    """The columns of labels, groups and times, and the two labels."""

    target: str
    group: str | None = None
    time: str | None = None
    negative: Label = False
    positive: Label = True

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        found = (self.target, self.group, self.time)
        return list(dict.fromkeys(name for name in found if name is not None))

    def check(self, table: TableFile) -> None:
        """Raise SplitError if columns cannot be groups or times."""
        for role, name in (("group", self.group), ("time", self.time)):
            if name is None:
                continue
            arrow_type = table.types[name]
            if kind_of(arrow_type) not in _USABLE[role]:
                raise SplitError(
                    f"{name!r} cannot be the {role}: it is of type {arrow_type}, and in a streamed "
                    f"table it must be one of these: {', '.join(_USABLE[role])}."
                )

    def units(self, piece: Piece) -> Tensor:
        """Return what stays in the same split: the number of each row, or of its group."""
        if self.group is None:
            return torch.arange(piece.number, piece.number + len(piece))
        return self._read(_columns.groups, piece, self.group)

    def times(self, piece: Piece) -> Tensor | None:
        """Return the time of each row as a number."""
        return None if self.time is None else self._read(_columns.times, piece, self.time)

    def block(self, piece: Piece, frame: Any = None) -> Block:
        """Return labelled rows without features; ``frame`` is the piece as a data frame, if any."""
        labels = piece.frame([self.target]) if frame is None else frame
        positive = positive_rows(labels[self.target], Labels.pair(self.negative, self.positive))
        return Block(
            torch.empty(len(piece), 0),
            torch.from_numpy(positive),
            torch.ones(len(piece), dtype=torch.float64),
            torch.arange(piece.number, piece.number + len(piece)),
            self.units(piece),
            self.times(piece),
        )

    def _read(self, read: Callable[..., Any], piece: Piece, name: str) -> Tensor:
        column = piece.batch.column(piece.batch.schema.names.index(name))
        return torch.from_numpy(np.ascontiguousarray(read(column, partial(piece.where, name))))


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
        held: list[Piece] = []
        count = 0
        for piece in self._table.pieces(self._columns, self.block_rows, shard, shards):
            if held and count + len(piece) > self.block_rows:
                yield self._block(held)
                held, count = [], 0
            held.append(piece)
            count += len(piece)
        if held:
            yield self._block(held)

    def fingerprint(self) -> str:
        """Return a digest of the files, columns and roles."""
        digest = hashlib.sha256(self._table.fingerprint().encode())
        digest.update(repr(self._roles).encode())
        digest.update(json.dumps(self._schema.to_dict(), sort_keys=True).encode())
        return digest.hexdigest()

    def _block(self, pieces: list[Piece]) -> Block:
        frames = [piece.frame() for piece in pieces]
        checked = [self._checked(p, frame) for p, frame in zip(pieces, frames, strict=True)]
        X = encode(self._encoder, pd.concat(checked, ignore_index=True))
        labelled = (self._roles.block(p, frame) for p, frame in zip(pieces, frames, strict=True))
        (rows,) = joined(labelled, len(X))
        return replace(rows, X=torch.from_numpy(X))

    def _checked(self, piece: Piece, frame: Any) -> Any:
        try:
            return self._schema.check(frame, ignore_extra=True, first_row=piece.row)
        except SchemaError as error:
            raise SchemaError(
                f"{piece.path} does not fit the rows from which the columns were learnt: {error} "
                "A column can also be left out (--drop)."
            ) from error


class KeptRows:
    """A row source that caches the blocks of another on disk, so that later passes are faster.

    Blocks are in unnamed temporary files in the folder ``place``, which disappear with the process.
    If the disk is full, features are computed in every pass.
    """

    def __init__(self, source: RowSource, place: str | Path) -> None:
        self._source, self._place = source, place
        self._kept: dict[tuple[int, int], tuple[IO[bytes], list[int]]] = {}
        self._full = False
        self.classes = getattr(source, "classes", (False, True))

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of a shard, from disk if an earlier pass was complete."""
        found = self._kept.get((shard, shards))
        if found is not None:
            file, places = found
            for place in places:
                file.seek(place)
                yield _load(file)
            return
        # It stays open as long as the rows may be read again.
        file, places = tempfile.TemporaryFile(dir=self._place), []  # noqa: SIM115
        whole = False
        try:
            for block in self._source.blocks(shard, shards):
                self._write(file, places, block)
                yield block
            whole = not self._full
        finally:
            if whole:
                self._kept[shard, shards] = file, places
            else:
                file.close()

    def close(self) -> None:
        """Remove the files."""
        for file, _ in self._kept.values():
            file.close()
        self._kept.clear()

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


def has_room(place: str | Path, rows: int, width: int) -> bool:
    """Whether a disk has ample space for the features of these rows."""
    try:
        with tempfile.TemporaryFile(dir=place):
            return shutil.disk_usage(place).free > _SPARE * rows * (4 * width + _BESIDES)
    except OSError:
        return False


def _load(file: IO[bytes]) -> Block:
    X, positive, weight, number, unit, time = (torch.from_numpy(np.load(file)) for _ in range(6))
    return Block(X, positive, weight, number, unit, time if len(time) else None)
