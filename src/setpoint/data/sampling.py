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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from setpoint._internal.processes import all_gather, all_reduce_sum, round_to_16_bits
from setpoint.data.rows import Block
from setpoint.thresholds.histogram import ScoreHistogram, bucket_values


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
        ranks = np.concatenate(all_gather(own))
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
    parts = all_gather(sample)
    return sample if len(parts) == 1 else _in_order([dict(vars(part)) for part in parts])


def _in_order(parts: list[Columns]) -> Sample:
    """Return rows in the order of their numbers, and empty the parts."""
    order = torch.cat([part["number"] for part in parts]).argsort()
    names = list(parts[0])
    return Sample(**{name: torch.cat([p.pop(name) for p in parts])[order] for name in names})


class Drawn(NamedTuple):
    """Which rows of the sample are in a batch, and what each stands for in it."""

    rows: Tensor
    weight: Tensor


def paced_batches(
    sample: Sample, importance: Tensor, size: int, positives: float, key: tuple[int, ...]
) -> Iterator[Drawn]:
    """Yield batches without end.

    Parameters
    ----------
    sample : Sample
        Where to draw from.
    importance : Tensor of float64, shape (m,)
        How often rows should be drawn, in proportion and per weight, within their class.
    size : int
        Rows in a batch, about, of all processes together.
    positives : float
        The share of positives among them. Where that is more than there are, all positives are
        in every batch, and more negatives.
    key : tuple of int
        Another key is another order.
    """
    rate = _rates(sample.positive, importance * sample.weight, size, positives)
    weight = sample.weight / rate
    at = uniform(sample.number, *key)
    while True:
        at += rate
        now = at >= 1.0
        at -= now.to(at)
        rows = now.nonzero().squeeze(1)
        yield Drawn(rows, weight[rows])


def _rates(positive: Tensor, wish: Tensor, size: int, positives: float) -> Tensor:
    """Return the share of batches that each row is in."""
    own = torch.stack([positive, ~positive]).double()
    rows, wishes = own.sum(1), own @ wish
    all_reduce_sum(rows, wishes)
    wishes = round_to_16_bits(wishes)
    wanted_P = min(float(rows[0]), size * positives)
    wanted = torch.tensor([wanted_P, size - wanted_P]).to(wish)
    rate = (wish * ((wanted / wishes) @ own)).clamp(max=1.0)
    return torch.where((wanted >= rows).double() @ own > 0, 1.0, rate)  # all, if all are wanted


_FAR = 1e30  # as good as infinite, but its products are numbers
_EVENLY = 0.5  # the part of all importance that every row of a class has an equal share in


@dataclass(frozen=True)
class Nearness:
    """Importances  q_i = 1/2 mean_k s_ik / S_k + 1/2 1/n,  with  s_ik = (1 + |z_ik| / scale_k)^-2.

    z_ik is the logit above model k's threshold, S_k the sum of s_ik over the class's n rows and
    scale_k a share of the median of its |z_ik|. Rows beyond a few scales have next to no gradient,
    but they are many; half of all importance is spread evenly, so that none is forgotten.

    Attributes
    ----------
    scale, total : Tensor of shape (2, k)
        Of positives and of negatives.
    rows : tuple of float
        n, of positives and of negatives.
    """

    scale: Tensor
    total: Tensor
    rows: tuple[float, float]

    @classmethod
    def of(cls, seen: ScoreHistogram, share: float) -> Nearness:
        """Return the importances that follow from scores seen before, measured from thresholds.

        ``share`` is that of the median which makes the scale.
        """
        distance = np.minimum(np.abs(bucket_values()), _FAR)
        order = np.argsort(distance, kind="stable")
        scales, totals = [], []
        for weights in (seen.positive, seen.negative):  # (k, buckets) each
            along = np.cumsum(weights[:, order], axis=1)
            middle = [int(np.searchsorted(row, row[-1] / 2)) for row in along]
            scale = np.maximum(distance[order][middle] * share, 1e-9)
            scales.append(scale)
            totals.append((weights * (1 + distance / scale[:, None]) ** -2).sum(axis=1))
        classes = [float(w[0].sum()) for w in (seen.positive, seen.negative)]
        P, N = round_to_16_bits(torch.tensor(classes).double()).tolist()
        return cls(
            torch.tensor(np.array(scales)), round_to_16_bits(torch.tensor(np.array(totals))), (P, N)
        )

    def importance(self, logits: Tensor, positive: Tensor) -> Tensor:
        """Return q for rows with these logits (k, m), measured from the thresholds."""
        found = torch.empty(logits.shape[1], dtype=torch.float64, device=logits.device)
        for label, scale, total, n in zip(
            (True, False), self.scale, self.total, self.rows, strict=True
        ):
            own = (positive == label).to(logits.device)
            s = (1 + logits[:, own].abs() / scale.to(logits)[:, None]) ** -2
            near = (s / total.to(s)[:, None]).mean(0)
            found[own] = (1 - _EVENLY) * near.double() + _EVENLY / n
        return found


# The constants of SplitMix64 (Steele, Lea, Flood 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64


def mix(numbers: Tensor) -> Tensor:
    """Return 64 bits for each number that look like chance."""
    z = numbers + _GOLDEN  # integers wrap around
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return z ^ _shifted(z, 31)


def uniform(numbers: Tensor, *key: int) -> Tensor:
    """Return a float64 in (0, 1) for each int64; another key gives others.

    Examples
    --------
    >>> import torch
    >>> rows = torch.arange(3)
    >>> bool((uniform(rows, 1) == uniform(rows.flip(0), 1).flip(0)).all())
    True
    >>> bool((uniform(rows, 1) == uniform(rows, 2)).any())
    False
    """
    bits = numbers
    for part in key:
        bits = mix(bits) ^ mix(torch.tensor(part, device=numbers.device) + 1)
    return (_shifted(mix(bits), 12).double() + 0.5) * 2.0**-52


def _shifted(z: Tensor, by: int) -> Tensor:
    """Return z shifted to the right, with zeros from the left."""
    return (z >> by) & ((1 << (64 - by)) - 1)


# DOC of streams.batches: Batches from a sample, drawn at an even pace.
#
# A row that shall be in a share rate_i <= 1 of all batches comes every 1/rate_i steps, from a first
# time that is chance: it is in batch t if a whole number lies between
#
#     phase_i + rate_i t    and    phase_i + rate_i (t + 1).
#
# So every batch is drawn by the rates, every row is seen as often as its rate says, and which rows
# come together hangs on their numbers alone.
#

# DOC of streams.nearness: How much a row matters to the next steps: more, the nearer it is to a model's threshold.

# DOC of streams.chance: Chance that hangs on a row's number alone.
#
# The same row gets the same numbers in every pass, in whatever order blocks come and on whichever
# process they are read. So a sample, a split or a batch does not depend on how the work is shared.
#
