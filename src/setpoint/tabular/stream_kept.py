"""Rows whose features are kept on disk, so that later passes need not make them again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import torch

from setpoint.streams.block import Block, RowSource

_ROOM = 2  # times what is needed must be free
_BESIDES = 33  # bytes a row: label, weight, number, unit, time


class KeptRows:
    """A source that writes what it reads to nameless files, and reads it from there afterwards.

    Such a file ends with the process, however that ends. Where the disk is full, features are made
    anew in every pass.

    Parameters
    ----------
    source : RowSource
        The rows.
    place : path
        A folder on the disk that is to be used.
    """

    def __init__(self, source: RowSource, place: str | Path) -> None:
        self._source, self._place = source, place
        self._kept: dict[tuple[int, int], tuple[IO[bytes], list[int]]] = {}
        self._full = False
        self.classes = getattr(source, "classes", (False, True))

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of a shard, from disk if they were read before to the last."""
        found = self._kept.get((shard, shards))
        if found is not None:
            file, places = found
            for place in places:
                file.seek(place)
                yield _read(file)
            return
        # It stays open for as long as the rows may be read again.
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
        """Give the disk back."""
        for file, _ in self._kept.values():
            file.close()
        self._kept.clear()

    def fingerprint(self) -> str:
        """Return that of the source."""
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
    """Whether the features of so many rows fit well onto a disk."""
    try:
        with tempfile.TemporaryFile(dir=place):
            return shutil.disk_usage(place).free > _ROOM * rows * (4 * width + _BESIDES)
    except OSError:
        return False


def _read(file: IO[bytes]) -> Block:
    X, positive, weight, number, unit, time = (torch.from_numpy(np.load(file)) for _ in range(6))
    return Block(X, positive, weight, number, unit, time if len(time) else None)
