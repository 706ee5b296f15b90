"""Rows that come in blocks: what every source of them gives, whatever it reads from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Block:
    """Some labelled rows.

    Attributes
    ----------
    X : Tensor of shape (m, ...)
        What a model takes; a table's features are float32, of shape (m, d).
    positive : Tensor of bool, shape (m,)
        The labels.
    weight : Tensor of float64, shape (m,)
        Weights >= 0 of the counts.
    number : Tensor of int64, shape (m,)
        Each row's number in the whole source: the same in every pass, and however many processes
        share the work. All chance follows from it.
    unit : Tensor of int64, shape (m,)
        What no split may part: the number again, or one number for all rows of a group.
    time : Tensor of float64, shape (m,), or None
        When each row came about, where splits go by time.
    shard : int
        Which of the problem's shards the rows are of.
    """

    X: Tensor
    positive: Tensor
    weight: Tensor
    number: Tensor
    unit: Tensor
    time: Tensor | None = None
    shard: int = 0

    def __len__(self) -> int:
        return len(self.positive)

    def rows(self, which: Tensor) -> Block:
        """Return some of the rows, by a mask or by their places."""
        return self._each(lambda field: field[which])

    def to(self, device: torch.device | str) -> Block:
        """Return the block on a device."""
        return self._each(lambda field: field.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Block:
        return Block(
            change(self.X),
            change(self.positive),
            change(self.weight),
            change(self.number),
            change(self.unit),
            None if self.time is None else change(self.time),
            self.shard,
        )


class RowSource(Protocol):
    """Labelled rows that can be read from the first to the last as often as needed."""

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of one of so many shards, in blocks of bounded size.

        All shards together are all rows. A block is the same in every pass.
        """
        ...

    def fingerprint(self) -> str:
        """Return a digest by which a checkpoint knows the source again."""
        ...
