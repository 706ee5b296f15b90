"""The first pass over a streamed table: its labels, and rows by which its columns are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint._extras import need
from setpoint.streams.chance import uniform
from setpoint.streams.share import share
from setpoint.streams.together import gather
from setpoint.tabular._values import given, uncategorised
from setpoint.tabular.errors import TargetError
from setpoint.tabular.stream_files import Piece, TableFiles
from setpoint.tabular.stream_roles import Roles
from setpoint.tabular.target import Label, choose_labels, label_counts

SAMPLED = 200_000  # rows, about, on which columns and features are learnt
TIMED = 1_000_000  # rows, about, by whose times the table is cut; 0.1 % is then exact enough
_BLOCK = 65_536
_MOST_LABELS = 100  # there must be two
_COLUMNS, _TIMES = 11, 12  # keys of chance


@dataclass(frozen=True, eq=False)
class Look:
    """What the first pass found, the same on all processes.

    Attributes
    ----------
    sample : Table
        Rows drawn by chance from all of the table; all rows of a small one.
    number : ndarray of int
        Their numbers, ascending.
    labels : dict of label to int
        How often each label occurs in the whole table.
    times : ndarray of float or None
        Times of rows drawn by chance, where there is a column of times.
    """

    sample: Any
    number: NDArray[np.int64]
    labels: dict[Label, int]
    times: NDArray[np.float64] | None

    @property
    def tensor(self) -> torch.Tensor:
        """The rows' numbers as torch wants them."""
        return torch.from_numpy(self.number)

    def piece(self, path: Path) -> Piece:
        """Return the sample as one piece; its rows do not follow each other in the table."""
        (batch,) = self.sample.combine_chunks().to_batches()
        return Piece(path, 0, 0, batch)


def look(files: TableFiles, columns: Sequence[str], roles: Roles, seed: int) -> Look:
    """Read all rows once, each process its share of them."""
    pa = need("pyarrow", "cli", "reading tables")
    tables, numbers, times = [], [], []
    labels: Counter[Label] = Counter()
    shard, shards = share()
    for piece in files.pieces(columns, _BLOCK, shard, shards):
        _count(labels, piece, roles.target)
        number = torch.arange(piece.number, piece.number + len(piece))
        drawn = _drawn(number, SAMPLED, files.rows, seed, _COLUMNS)
        tables.append(pa.Table.from_batches([piece.batch.filter(pa.array(drawn))]))
        numbers.append(number.numpy()[drawn])
        moments = roles.times(piece)
        if moments is not None:
            times.append(moments.numpy()[_drawn(number, TIMED, files.rows, seed, _TIMES)])
    own = (
        pa.concat_tables(tables, promote_options="permissive"),
        _joined(numbers),
        _joined(times),
        dict(labels),
    )
    every_table, every_number, every_time, every_label = zip(*gather(own), strict=True)
    sample = pa.concat_tables(every_table, promote_options="permissive")
    numbers_of_all = np.concatenate(every_number)
    order = np.argsort(numbers_of_all)
    total: Counter[Label] = sum(map(Counter, every_label), Counter())
    return Look(
        sample.take(pa.array(order)),
        numbers_of_all[order],
        dict(total),
        None if roles.time is None else np.concatenate(every_time),
    )


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0)


def _drawn(number: torch.Tensor, most: int, rows: int, seed: int, key: int) -> NDArray[np.bool_]:
    """Return which rows are drawn by chance, about so many of all; all if they are few."""
    if rows <= most:
        return np.ones(len(number), dtype=bool)
    return np.asarray((uniform(number, seed, key) < most / rows).numpy())


def _count(labels: Counter[Label], piece: Piece, target: str) -> None:
    series = uncategorised(piece.frame([target])[target])
    told = given(series)
    if not told.all():
        row = piece.row + int(np.flatnonzero(~told)[0]) + 1
        raise TargetError(
            f"the label {target!r} in row {row:,} of {piece.path} is missing; drop the rows whose "
            "label is not known."
        )
    labels.update(label_counts(series))
    if len(labels) > _MOST_LABELS:
        choose_labels(target, dict(labels), None)  # complains
