"""Which rows train, which judge, which certify and which are kept for a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from setpoint.errors import SetpointError
from setpoint.streams.block import Block
from setpoint.streams.chance import uniform

TRAINING, JUDGING, CERTIFYING, TESTING = range(4)


class Parting(Protocol):
    """A rule that gives each row to one of the parts."""

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        ...

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row, int64."""
        ...


@dataclass(frozen=True)
class ByChance:
    """Parts of about these shares; rows of one unit go together.

    Attributes
    ----------
    judging, certifying, testing : float
        Shares; the rest trains.
    seed : int
        Another seed, another split.
    """

    judging: float = 0.0
    certifying: float = 0.0
    testing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_shares(self.judging, self.certifying, self.testing)

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        return self.judging > 0

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row by its unit."""
        u = uniform(block.unit, self.seed)
        edges = torch.tensor([self.judging, self.certifying, self.testing]).double().cumsum(0)
        # Below the first edge: judging; below the second: certifying; ...; above all: training
        return (torch.searchsorted(edges, u, right=True) + 1) % 4


@dataclass(frozen=True)
class ByTime:
    """The oldest rows train and the newest test.

    Attributes
    ----------
    since : tuple of float
        The times from which rows judge, certify and test; ``inf`` for a part that is not wanted.
    """

    since: tuple[float, float, float]

    def __post_init__(self) -> None:
        if sorted(self.since) != list(self.since):
            raise SetpointError(f"the times {self.since} are not in order.")

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        return self.since[0] < self.since[1]

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row by its time."""
        if block.time is None:
            raise SetpointError("a split by time needs rows that know their time.")
        return torch.searchsorted(torch.tensor(self.since).double(), block.time, right=True)


def _check_shares(*shares: float) -> None:
    if not (all(share >= 0 for share in shares) and sum(shares) < 1):  # NaN is neither
        listed: Sequence[str] = [f"{s:g}" for s in shares]
        raise SetpointError(
            f"the shares that judge, certify and test are {', '.join(listed)}; none may be "
            "negative, and together they must leave rows to train on."
        )
