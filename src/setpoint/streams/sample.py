"""A sample of rows that stands for all of them, drawn in one pass.

Priority sampling (Duffield, Lund, Thorup, "Priority sampling for estimation of arbitrary subset
sums", 2007): row i, of importance q_i, gets the rank r_i = u_i / q_i with u_i uniform in (0, 1),
and the rows with the m smallest ranks are kept. With tau, the next rank after them,

    weight_i / min(1, q_i tau)

is an unbiased estimate of weight_i, 0 for rows that were not kept, whatever the importances are.
u_i hangs on the row's number alone, so the sample does not depend on the order in which rows come,
nor on how many processes read them: the smallest of all ranks are among the smallest of each part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setpoint.streams.block import Block
from setpoint.streams.chance import uniform
from setpoint.streams.together import gather


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that stand for all; those of this process, where there are several.

    Attributes
    ----------
    X : Tensor of shape (m, ...)
        What a model takes.
    positive : Tensor of bool, shape (m,)
        The labels.
    weight : Tensor of float64, shape (m,)
        What each row stands for.
    number : Tensor of int64, shape (m,)
        The rows' numbers, ascending.
    shard : Tensor of int64, shape (m,)
        Which shard each row is of.
    logits : Tensor of shape (m, k)
        Those of the models that were surveyed, as they were measured then.
    """

    X: Tensor
    positive: Tensor
    weight: Tensor
    number: Tensor
    shard: Tensor
    logits: Tensor

    def __len__(self) -> int:
        return len(self.positive)


Columns = dict[str, Tensor]  # one entry a row in each


def _joined(parts: list[Columns], which: list[Tensor]) -> Columns:
    """Return some of the rows, as one, and empty the parts.

    A column is let go once it has been copied: rows are many, and are not in memory twice.
    """
    names = list(parts[0])
    return {
        name: torch.cat([p.pop(name)[own] for p, own in zip(parts, which, strict=True)])
        for name in names
    }


class _Lowest:
    """The rows with the smallest ranks so far: at least ``size`` + 1 of them, if there are."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: list[Columns] = []
        self._count = 0
        self._bound = float("inf")

    def add(self, rows: Columns, which: Tensor) -> None:
        """Offer those of the rows that a mask names."""
        places = (which & (rows["rank"] < self._bound)).nonzero().squeeze(1)
        if not len(places) and self._held:
            return
        self._held.append({name: column[places] for name, column in rows.items()})
        self._count += len(places)
        if self._count > self._size + self._size // 4 + 1024:
            self._settle()

    def _settle(self) -> None:
        if not self._held:
            return
        ranks = torch.cat([part["rank"] for part in self._held])
        if len(ranks) > self._size + 1:
            self._bound = float(ranks.kthvalue(self._size + 1).values)
        kept = [part["rank"] <= self._bound for part in self._held]
        self._held = [_joined(self._held, kept)]
        self._count = len(self._held[0]["rank"])

    def finish(self) -> tuple[Columns | None, float]:
        """Return the rows that are kept here, and tau, which all processes agree on."""
        self._settle()
        held, self._held = self._held, []
        own = held[0]["rank"].cpu().numpy() if held else np.empty(0)
        ranks = np.concatenate(gather(own))
        tau = float("inf")
        if len(ranks) > self._size:
            tau = float(np.partition(ranks, self._size)[self._size])
        return (_joined(held, [held[0]["rank"] < tau]) if held else None), tau


class PrioritySample:
    """A sample in the making.

    Parameters
    ----------
    positives, negatives : int
        How many rows of each class to keep, all processes together.
    key : tuple of int
        Another key is another sample.
    """

    def __init__(self, positives: int, negatives: int, key: tuple[int, ...]) -> None:
        self._classes = {True: _Lowest(positives), False: _Lowest(negatives)}
        self._key = key

    def add(self, block: Block, logits: Tensor, importance: Tensor) -> None:
        """Offer rows; importances are compared within a class only, those of 0 never kept."""
        offer = {
            "X": block.X,
            "weight": block.weight,
            "number": block.number,
            "shard": torch.full_like(block.number, block.shard),
            "logits": logits,
            "importance": importance,
            "rank": uniform(block.number, *self._key) / importance,
        }
        for label, lowest in self._classes.items():
            lowest.add(offer, block.positive == label)

    def finish(self) -> Sample:
        """Return the sample, in the order of the rows' numbers."""
        parts = []
        for label, lowest in self._classes.items():
            rows, tau = lowest.finish()
            if rows is None:
                continue
            chance = (rows.pop("importance") * tau).clamp(max=1.0)
            rows["weight"] /= chance
            rows["positive"] = torch.full_like(rows.pop("rank"), label, dtype=torch.bool)
            parts.append(rows)
        return _in_order(parts)


def whole(sample: Sample) -> Sample:
    """Return the rows of all processes."""
    parts = gather(sample)
    return sample if len(parts) == 1 else _in_order([dict(vars(part)) for part in parts])


def _in_order(parts: list[Columns]) -> Sample:
    """Return rows in the order of their numbers, and empty the parts."""
    order = torch.cat([part["number"] for part in parts]).argsort()
    names = list(parts[0])
    return Sample(**{name: torch.cat([p.pop(name) for p in parts])[order] for name in names})
