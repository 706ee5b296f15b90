"""The columns of a streamed table that are no features: labels, groups and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setpoint.streams import _columns
from setpoint.streams.block import Block
from setpoint.tabular.errors import PartsError
from setpoint.tabular.stream_files import Piece, TableFiles
from setpoint.tabular.target import Label, labels_of

_USABLE = {"group": ("number", "boolean", "text", "time"), "time": ("number", "time")}


@dataclass(frozen=True)
class Roles:
    """Which columns hold labels, groups and times, and which the labels are."""

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

    def check(self, files: TableFiles) -> None:
        """Refuse columns that cannot be groups or times."""
        for role, name in (("group", self.group), ("time", self.time)):
            if name is None:
                continue
            arrow_type = files.types[name]
            if _columns.kind_of(arrow_type) not in _USABLE[role]:
                raise PartsError(
                    f"{name!r} cannot be the {role}: it is of type {arrow_type}, and of a table "
                    f"that is read in pieces it must be one of these: {', '.join(_USABLE[role])}."
                )

    def units(self, piece: Piece) -> Tensor:
        """Return what no split may part: the number of each row, or of its group."""
        if self.group is None:
            return torch.arange(piece.number, piece.number + len(piece))
        return self._read(_columns.groups, piece, self.group)

    def times(self, piece: Piece) -> Tensor | None:
        """Return when each row came about, as a number."""
        return None if self.time is None else self._read(_columns.times, piece, self.time)

    def block(self, piece: Piece, frame: Any = None) -> Block:
        """Return labelled rows without features.

        ``frame`` is the piece as a data frame, where there is one already.
        """
        labels = piece.frame([self.target]) if frame is None else frame
        positive = labels_of(labels[self.target], self.negative, self.positive)
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
        return torch.from_numpy(np.ascontiguousarray(read(column, partial(_where, piece, name))))


def _where(piece: Piece, name: str, place: int) -> str:
    """Return in words which value is meant."""
    return f"{name!r} in row {piece.row + place + 1:,} of {piece.path}"
