"""Which rows of a streamed table train, judge, certify and test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint.streams.block import Block
from setpoint.streams.chance import uniform
from setpoint.streams.parts import (
    CERTIFYING,
    JUDGING,
    TESTING,
    TRAINING,
    ByChance,
    ByTime,
    Parting,
)
from setpoint.streams.share import share
from setpoint.streams.together import add_up
from setpoint.tabular.errors import PartsError
from setpoint.tabular.stream_files import TableFiles
from setpoint.tabular.stream_roles import Roles

_CERTIFYING, _JUDGING = 0.3, 0.25  # as for tables in memory: of what is left
_FEWEST = 10  # of either class that judge; with fewer, chance would choose
_BLOCK = 262_144
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
    shard, shards = share()
    for piece in files.pieces(roles.names, _BLOCK, shard, shards):
        block = roles.block(piece)
        cell = 2 * parting(block) + block.positive
        counts += torch.bincount(cell, minlength=8).view(4, 2)
    add_up(counts)
    return np.asarray(counts.numpy())
