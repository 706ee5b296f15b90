"""Rows that come in blocks: what every source of them gives, whatever it reads from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from setpoint.errors import SourceError


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


def joined(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """Yield the same rows in fewer blocks, none of which grows beyond so many rows."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        if held and count + len(block) > most:
            yield _together(held)
            held, count = [], 0
        held.append(block)
        count += len(block)
    if held:
        yield _together(held)


def _together(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    times = [block.time for block in blocks if block.time is not None]
    return Block(
        torch.cat([block.X for block in blocks]),
        torch.cat([block.positive for block in blocks]),
        torch.cat([block.weight for block in blocks]),
        torch.cat([block.number for block in blocks]),
        torch.cat([block.unit for block in blocks]),
        torch.cat(times) if times else None,
    )


def check_sources(source: Any, validation: Any) -> None:
    """Refuse what is no source, and a validation source of other features or another class."""
    for given in (source,) if validation is None else (source, validation):
        if not hasattr(given, "blocks"):
            raise SourceError(
                f"rows come from a source, and a {type(given).__name__} is none: wrap arrays in "
                "setpoint.data.ArrayRows, a data loader in LoaderRows, and name files or a "
                "folder to ParquetRows."
            )
    if validation is not None:
        _check_features(getattr(source, "features", None), getattr(validation, "features", None))
        _check_positive(getattr(source, "classes", None), getattr(validation, "classes", None))


def _check_features(mine: Any, theirs: Any) -> None:
    if mine is None or theirs is None or list(mine) == list(theirs):
        return
    differ = sorted(set(mine) ^ set(theirs), key=str)
    if differ:
        named = ", ".join(map(repr, differ[:5])) + (", ..." if len(differ) > 5 else "")
        found = f"have other features than the training rows: {named} is in one of them only"
    else:
        found = "have their features in another order than the training rows"
    raise SourceError(
        f"the validation rows {found}. Name the same for both, in one order: features=[...]."
    )


def _check_positive(mine: Any, theirs: Any) -> None:
    if mine is not None and theirs is not None and mine[1] != theirs[1]:
        raise SourceError(
            f"the positive label is {theirs[1]!r} in the validation rows and {mine[1]!r} in the "
            "training rows; name the same for both."
        )


# DOC of streams._joined: Small blocks, put together.

# DOC of streams._alike: Whether what is given are sources of rows, and rows that judge are like those that train.
