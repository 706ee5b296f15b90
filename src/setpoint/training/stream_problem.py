"""A training problem whose rows come in blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from setpoint._internal.processes import all_reduce_sum, rank_and_world_size
from setpoint.data.arrays import ArrayRows
from setpoint.data.rows import Block, RowSource
from setpoint.data.splits import JUDGING, TRAINING, Parting
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class StreamProblem:
    """What a solver is given where rows come in blocks.

    Attributes
    ----------
    source : RowSource
        The rows.
    goal : Goal
        What to train for.
    parting : callable, optional
        Which of them train and which judge; without it all train.
    validation : RowSource, optional
        Further rows, which judge.
    transform : callable, optional
        What features go through before a model sees them.
    device : torch.device
        Where the models are.
    shards : int
        Into how many parts the work is cut, at least; each process has some of them. Sums go over
        shards, so that the result hangs on their number and not on that of the processes.
    """

    source: RowSource
    goal: Goal
    parting: Parting | None = None
    validation: RowSource | None = None
    transform: Callable[[Tensor], Tensor] | None = None
    device: torch.device | str = "cpu"
    shards: int = 1

    @property
    def judged_apart(self) -> bool:
        """Whether other rows than those that train judge."""
        return self.validation is not None or (self.parting is not None and self.parting.judges)

    def blocks(self) -> Iterator[tuple[Block, Tensor]]:
        """Yield the blocks of this process with the part of each row, features ready for models."""
        shape: torch.Size | None = None
        for block, judges in self._every_block():
            if len(block):
                shape = block.X.shape[1:] if shape is None else shape
                _check_shape(block, shape, judges)
            if judges:
                part = torch.full_like(block.number, JUDGING)
            elif self.parting is None:
                part = torch.zeros_like(block.number)
            else:
                part = self.parting(block)
            yield self._ready(block), part.to(self.device)

    def _every_block(self) -> Iterator[tuple[Block, bool]]:
        """Yield the blocks with whether they are rows of their own that judge."""
        for block in self._shards_of(self.source):
            yield block, False
        if self.validation is not None:
            for block in self._shards_of(self.validation):
                yield block, True

    def _shards_of(self, source: RowSource) -> Iterator[Block]:
        rank, world = rank_and_world_size()
        shards = world if getattr(source, "by_process", False) else self.shard_count
        for shard in range(rank, shards, world):
            for block in source.blocks(shard, shards):
                yield replace(block, shard=shard)

    @property
    def shard_count(self) -> int:
        """The number of shards: a multiple of that of the processes."""
        _, world = rank_and_world_size()
        if getattr(self.source, "by_process", False):
            return world
        return -(-self.shards // world) * world

    def row_shape(self) -> torch.Size:
        """Return the shape of one row's features."""
        return self.first_rows().shape[1:]

    def first_rows(self) -> Tensor:
        """Return the features of this process's first block."""
        for block, _ in self.blocks():
            if len(block):
                return block.X
        raise SetpointError("this process has no rows; use fewer processes.")

    def part(self, *wanted: int) -> Iterator[Block]:
        """Yield the rows of some parts."""
        for block, part in self.blocks():
            rows = torch.isin(part, torch.tensor(wanted, device=part.device))
            yield block if rows.all() else block.rows(rows)

    def _ready(self, block: Block) -> Block:
        here = block.to(self.device)
        return here if self.transform is None else replace(here, X=self.transform(here.X))

    def fingerprint(self) -> str:
        """Return a digest of the data and the goal, by which a checkpoint knows its problem."""
        digest = hashlib.sha256(str(self.goal).encode())
        tp, fp = np.meshgrid(np.arange(4.0), np.arange(6.0))
        for metric in self.goal.metrics:  # a user may have given an old name a new meaning
            digest.update(np.asarray(metric.value(tp, fp, 3.0, 5.0), dtype=float).tobytes())
        digest.update(self.source.fingerprint().encode())
        digest.update(repr(self.parting).encode())
        if self.validation is not None:
            digest.update(self.validation.fingerprint().encode())
        return digest.hexdigest()


def _check_shape(block: Block, shape: torch.Size, judges: bool) -> None:
    if block.X.shape[1:] != shape:
        of = "validation row" if judges else "row"
        raise SetpointError(
            f"{of} {int(block.number[0]):,} has features of the shape {tuple(block.X.shape[1:])}, "
            f"and the first row of {tuple(shape)}; all rows must have the same."
        )


@dataclass(frozen=True)
class Totals:
    """How many rows train and judge, by class; and what they weigh.

    Each is (positives, negatives).
    """

    training: tuple[int, int]
    training_weight: tuple[float, float]
    judging: tuple[int, int]


class Counter:
    """Totals in the making."""

    def __init__(self) -> None:
        self._rows = torch.zeros(2, 2, dtype=torch.int64)
        self._weights = torch.zeros(2, dtype=torch.float64)

    def add(self, block: Block, part: Tensor) -> None:
        """Count these rows."""
        weighty = block.weight > 0
        for label, own in enumerate((block.positive & weighty, ~block.positive & weighty)):
            for i, which in enumerate((TRAINING, JUDGING)):
                self._rows[i, label] += int((own & (part == which)).sum())
            self._weights[label] += float(block.weight[own & (part == TRAINING)].sum())

    def totals(self, judged_apart: bool) -> Totals:
        """Return what all processes counted, if there is enough of it."""
        all_reduce_sum(self._rows, self._weights)
        (P, N), (judging_P, judging_N) = self._rows.tolist()
        wanted = [(P, "positive", "train on"), (N, "negative", "train on")]
        if judged_apart:
            wanted += [(judging_P, "positive", "judge by"), (judging_N, "negative", "judge by")]
        for found, what, purpose in wanted:
            if found == 0:
                raise SetpointError(
                    f"there are no {what} rows to {purpose}; both classes are needed."
                )
        weight_P, weight_N = self._weights.tolist()
        return Totals((P, N), (weight_P, weight_N), (judging_P, judging_N))


def stream_of(problem: Problem) -> StreamProblem:
    """Return the same problem as a stream of blocks."""
    judge = problem.validation
    return StreamProblem(
        _rows(problem),
        problem.goal,
        validation=None if judge is None else _rows(judge),
        device=problem.X.device,
    )


def _rows(problem: Problem) -> ArrayRows:
    return ArrayRows(problem.X, problem.positive, sample_weight=problem.sample_weight)


# DOC of streams.of_arrays: Rows in memory as a stream, for solvers that take streams.
