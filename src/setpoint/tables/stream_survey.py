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
from setpoint._internal.processes import add_up, gather, share
from setpoint.data.label_columns import label_counts, labels_of_counts
from setpoint.data.labels import Label
from setpoint.data.rows import Block
from setpoint.data.sampling import uniform
from setpoint.data.splits import (
    CERTIFICATION,
    CERTIFICATION_FRACTION,
    FEWEST,
    TEST,
    TRAINING,
    VALIDATION,
    VALIDATION_FRACTION,
    ByChance,
    ByTime,
    SplitRule,
    newest_since,
)
from setpoint.data.table_stream import Piece, TableFiles
from setpoint.data.values import given, uncategorised
from setpoint.errors import SplitError, TargetError
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
        labels_of_counts(target, labels)  # raises TargetError


_COUNTED_ROWS = 262_144
_NAMES = {
    TRAINING: "training",
    VALIDATION: "validation",
    CERTIFICATION: "certification",
    TEST: "test",
}


@dataclass(frozen=True)
class ByTimeAndChance:
    """The newest rows are for test and certification; validation rows are drawn at random."""

    since: tuple[float, float, float]
    validation: float
    seed: int

    has_validation = True

    @property
    def _key(self) -> str:  # in the words of version 0.1, whose checkpoints hold its digest
        return (
            f"ByTimeAndChance(since={self.since!r}, judging={self.validation!r}, "
            f"seed={self.seed!r})"
        )

    def __call__(self, block: Block) -> Tensor:
        """Return the set of each row."""
        found = ByTime(self.since)(block)
        drawn = ByChance(self.validation, seed=self.seed)(block) == VALIDATION
        return torch.where((found == TRAINING) & drawn, VALIDATION, found)


def split_rule(
    times: NDArray[np.float64] | None, test: float, certified: bool, seed: int
) -> SplitRule:
    """Return the rule that splits the rows, by their times or by chance.

    ``test`` is a fraction of all rows; those of certification and validation rows are, as for
    tables in memory, fractions of what is left.
    """
    certify = CERTIFICATION_FRACTION if certified else 0.0
    if times is None:
        left = (1 - test) * (1 - certify)
        return ByChance(VALIDATION_FRACTION * left, certify * (1 - test), test, seed)
    ordered = np.sort(times)
    test_since = certification_since = np.inf
    if test > 0:
        test_since = newest_since(ordered, test)
        ordered = ordered[ordered < test_since]
    if certified:
        certification_since = newest_since(ordered, certify)
        ordered = ordered[ordered < certification_since]
    validation_since = certification_since = min(certification_since, test_since)
    # If all rows that remain have one time, there are no validation rows; see `settled`.
    if ordered[0] < ordered[-1]:
        validation_since = newest_since(ordered, VALIDATION_FRACTION)
    return ByTime((validation_since, certification_since, test_since))


def settled(
    files: TableFiles, roles: Roles, split: SplitRule, test: float, seed: int
) -> tuple[SplitRule, NDArray[np.int64]]:
    """Return the rule, and how many rows of each set are negative and positive.

    If the newest rows hold too few of one label for validation, rows of all times are drawn.
    """
    counts = _counted(files, roles, split)
    if isinstance(split, ByTime) and counts[VALIDATION].min() < FEWEST:
        _, certification, test_since = split.since
        since = (certification, certification, test_since)
        split = ByTimeAndChance(since, VALIDATION_FRACTION, seed)
        counts = _counted(files, roles, split)
    wanted = (TRAINING, VALIDATION, *((TEST,) if test > 0 else ()))
    for part in wanted:
        if counts[part].min() == 0:
            missing = "negative" if counts[part][0] == 0 else "positive"
            raise SplitError(
                f"there are {counts[part].sum():,} {_NAMES[part]} rows, and none of them is "
                f"{missing}; choose another fraction of test rows, or use more labelled rows."
            )
    return split, counts


def _counted(files: TableFiles, roles: Roles, split: SplitRule) -> NDArray[np.int64]:
    """Read the labels, groups and times once."""
    counts = torch.zeros(4, 2, dtype=torch.int64)
    shard, shards = share()
    for piece in files.pieces(roles.names, _COUNTED_ROWS, shard, shards):
        block = roles.block(piece)
        cell = 2 * split(block) + block.positive
        counts += torch.bincount(cell, minlength=8).view(4, 2)
    add_up(counts)
    return np.asarray(counts.numpy())
