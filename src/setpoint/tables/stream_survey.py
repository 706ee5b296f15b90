"""The first passes over a streamed table: its labels, a sample of its rows, and their split."""

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

from setpoint._internal.imports import OptionalModule
from setpoint._internal.processes import all_gather, all_reduce_sum, rank_and_world_size
from setpoint.data.label_columns import label_counts, labels_of_counts
from setpoint.data.labels import Label
from setpoint.data.parquet import Roles
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
from setpoint.data.table_reader import Piece, TableFile
from setpoint.data.values import is_present, without_categories
from setpoint.errors import SplitError, TargetError

pa = OptionalModule("pyarrow", "cli", "reading tables")

SAMPLED = 200_000  # approximate number of rows from which columns and features are learnt
TIMED = 1_000_000  # approximate number of rows whose times split the table, to within 0.1 %
_SURVEYED = 65_536  # rows at a time
_MOST_LABELS = 100  # there must be two
_COLUMNS, _TIMES = 11, 12  # keys of random draws


@dataclass(frozen=True, eq=False)
class Survey:
    """Results of the first pass over a table, the same in all processes."""

    sample: Any  # an Arrow table of randomly drawn rows; all rows of a small table
    number: NDArray[np.int64]  # the numbers of these rows, ascending
    labels: dict[Label, int]  # how often each label occurs in the whole table
    times: NDArray[np.float64] | None  # of randomly drawn rows, if there is a column of times

    def piece(self, path: Path) -> Piece:
        """Return the sample as one piece, though its rows are not consecutive."""
        (batch,) = self.sample.combine_chunks().to_batches()
        return Piece(path, 0, 0, batch)


def survey(table: TableFile, columns: Sequence[str], roles: Roles, seed: int) -> Survey:
    """Read all rows once; each process reads its shard."""
    tables, numbers, times = [], [], []
    labels: Counter[Label] = Counter()
    for piece in table.pieces(columns, _SURVEYED, *rank_and_world_size()):
        _count_labels(labels, piece, roles.target)
        number = torch.arange(piece.number, piece.number + len(piece))
        drawn = _draw(number, SAMPLED, table.rows, seed, _COLUMNS)
        tables.append(pa.Table.from_batches([piece.batch.filter(pa.array(drawn))]))
        numbers.append(number.numpy()[drawn])
        row_times = roles.times(piece)
        if row_times is not None:
            times.append(row_times.numpy()[_draw(number, TIMED, table.rows, seed, _TIMES)])
    local = (
        pa.concat_tables(tables, promote_options="permissive"),
        np.concatenate(numbers) if numbers else np.empty(0),
        np.concatenate(times) if times else np.empty(0),
        dict(labels),
    )
    all_tables, all_numbers, all_times, counts = zip(*all_gather(local), strict=True)
    sample = pa.concat_tables(all_tables, promote_options="permissive")
    sampled = np.concatenate(all_numbers)
    order = np.argsort(sampled)
    total: Counter[Label] = sum(map(Counter, counts), Counter())
    return Survey(
        sample.take(pa.array(order)),
        sampled[order],
        dict(total),
        None if roles.time is None else np.concatenate(all_times),
    )


def _draw(number: Tensor, most: int, rows: int | None, seed: int, key: int) -> NDArray[np.bool_]:
    """Draw about ``most`` of all rows at random; all if there are fewer."""
    if rows is None or rows <= most:
        return np.ones(len(number), dtype=bool)
    return np.asarray((uniform(number, seed, key) < most / rows).numpy())


def _count_labels(labels: Counter[Label], piece: Piece, target: str) -> None:
    series = without_categories(piece.frame([target])[target])
    present = is_present(series)
    if not present.all():
        row = piece.row + int(np.flatnonzero(~present)[0]) + 1
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
    def _key(self) -> str:  # as in version 0.1, whose checkpoints hold its digest
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
    # If all rows that remain have one time, there are no validation rows; see `final_split`.
    if ordered[0] < ordered[-1]:
        validation_since = newest_since(ordered, VALIDATION_FRACTION)
    return ByTime((validation_since, certification_since, test_since))


def final_split(
    files: TableFile, roles: Roles, split: SplitRule, test: float, seed: int
) -> tuple[SplitRule, NDArray[np.int64]]:
    """Return the rule, and how many rows of each set are negative and positive.

    If the newest rows hold too few of one label for validation, rows of all times are drawn.
    """
    counts = _count_splits(files, roles, split)
    if isinstance(split, ByTime) and counts[VALIDATION].min() < FEWEST:
        _, certification, test_since = split.since
        since = (certification, certification, test_since)
        split = ByTimeAndChance(since, VALIDATION_FRACTION, seed)
        counts = _count_splits(files, roles, split)
    wanted = (TRAINING, VALIDATION, *((TEST,) if test > 0 else ()))
    for name in wanted:
        if counts[name].min() == 0:
            missing = "negative" if counts[name][0] == 0 else "positive"
            raise SplitError(
                f"there are {counts[name].sum():,} {_NAMES[name]} rows, and none of them is "
                f"{missing}; choose another fraction of test rows, or use more labelled rows."
            )
    return split, counts


def _count_splits(files: TableFile, roles: Roles, split: SplitRule) -> NDArray[np.int64]:
    """Read the labels, groups and times once."""
    counts = torch.zeros(4, 2, dtype=torch.int64)
    shard, shards = rank_and_world_size()
    for piece in files.pieces(roles.names, _COUNTED_ROWS, shard, shards):
        block = roles.block(piece)
        cell = 2 * split(block) + block.positive
        counts += torch.bincount(cell, minlength=8).view(4, 2)
    all_reduce_sum(counts)
    return np.asarray(counts.numpy())
