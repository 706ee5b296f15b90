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
from torch import Tensor

from setpoint._internal.imports import need
from setpoint._internal.processes import all_gather, all_reduce_sum, rank_and_world_size
from setpoint.data.label_columns import Label, choose_labels, label_counts
from setpoint.data.rows import Block
from setpoint.data.sampling import uniform
from setpoint.data.splits import CERTIFYING, JUDGING, TESTING, TRAINING, ByChance, ByTime, Parting
from setpoint.data.table_stream import Piece, TableFiles
from setpoint.data.values import given, uncategorised
from setpoint.errors import PartsError, TargetError
from setpoint.tables.stream_rows import Roles

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
    shard, shards = rank_and_world_size()
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
    every_table, every_number, every_time, every_label = zip(*all_gather(own), strict=True)
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


_CERTIFYING, _JUDGING = 0.3, 0.25  # as for tables in memory: of what is left
_FEWEST = 10  # of either class that judge; with fewer, chance would choose
_COUNTED_ROWS = 262_144
_NAMES = {TRAINING: "training", JUDGING: "judging", CERTIFYING: "certifying", TESTING: "test"}


@dataclass(frozen=True)
class ByTimeAndChance:
    """The newest rows test and certify; chance says which of the others judge."""

    since: tuple[float, float, float]
    judging: float
    seed: int

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        return True

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row."""
        part = ByTime(self.since)(block)
        judging = (part == TRAINING) & (uniform(block.unit, self.seed) < self.judging)
        return torch.where(judging, JUDGING, part)


def parting_of(
    times: NDArray[np.float64] | None, test: float, certified: bool, seed: int
) -> Parting:
    """Return the rule that parts the rows: by their times, or by chance."""
    certify = _CERTIFYING if certified else 0.0
    if times is None:
        left = (1 - test) * (1 - certify)
        return ByChance(_JUDGING * left, certify * (1 - test), test, seed)
    ordered = np.sort(times)
    testing = certifying = np.inf
    if test > 0:
        testing = _cut(ordered, test)
        ordered = ordered[ordered < testing]
    if certified:
        certifying = _cut(ordered, certify)
        ordered = ordered[ordered < certifying]
    certifying = min(certifying, testing)
    # Where the rest is of one moment nothing judges by time, and chance will choose.
    judging = _cut(ordered, _JUDGING) if ordered[0] < ordered[-1] else certifying
    return ByTime((judging, certifying, testing))


def _cut(ordered: NDArray[np.float64], part: float) -> float:
    """Return the time from which rows are the newest part; rows of one moment stay together."""
    cut = ordered[min(len(ordered) - 1, len(ordered) - max(1, round(part * len(ordered))))]
    if cut > ordered[0]:
        return float(cut)
    later = ordered[ordered > cut]
    if not len(later):
        raise PartsError("all rows are of one moment; they cannot be parted by time.")
    return float(later[0])


def settled(
    files: TableFiles, roles: Roles, parting: Parting, test: float, seed: int
) -> tuple[Parting, NDArray[np.int64]]:
    """Return the rule, and how many rows of each part are negative and positive.

    Too few new rows of one label cannot judge; then rows of all times do.
    """
    counts = _counted(files, roles, parting)
    if isinstance(parting, ByTime) and counts[JUDGING].min() < _FEWEST:
        _, certifying, testing = parting.since
        since = (certifying, certifying, testing)
        parting = ByTimeAndChance(since, _JUDGING, seed)
        counts = _counted(files, roles, parting)
    wanted = {TRAINING, JUDGING, *((TESTING,) if test > 0 else ())}
    for part in sorted(wanted):
        if counts[part].min() == 0:
            missing = "negative" if counts[part][0] == 0 else "positive"
            raise PartsError(
                f"the {_NAMES[part]} part has {counts[part].sum():,} rows and none of them is "
                f"{missing}; choose another share of test rows, or use more labelled rows."
            )
    return parting, counts


def _counted(files: TableFiles, roles: Roles, parting: Parting) -> NDArray[np.int64]:
    """Read the labels, groups and times once."""
    counts = torch.zeros(4, 2, dtype=torch.int64)
    shard, shards = rank_and_world_size()
    for piece in files.pieces(roles.names, _COUNTED_ROWS, shard, shards):
        block = roles.block(piece)
        cell = 2 * parting(block) + block.positive
        counts += torch.bincount(cell, minlength=8).view(4, 2)
    all_reduce_sum(counts)
    return np.asarray(counts.numpy())


# DOC of tabular.stream_parts: Which rows of a streamed table train, judge, certify and test.
