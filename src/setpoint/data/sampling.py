"""Samples and batches of rows that come in blocks, drawn in one pass.

**Chance.** :func:`uniform` gives each row numbers that depend on the row's number alone. So
samples, splits and batches are the same in every pass, whatever the order of the blocks and however
many processes read them.

**Samples.** Priority sampling (Duffield, Lund, Thorup, "Priority sampling for estimation of
arbitrary subset sums", 2007): row i, with the sampling weight q_i, gets the rank r_i = u_i / q_i
with u_i uniform in (0, 1), and the rows with the m smallest ranks are kept. If tau is the next one,

    weight_i / min(1, q_i tau)

is an unbiased estimate of weight_i, 0 for rows that were not kept, for any sampling weights.

**Batches.** A row that belongs into a fraction rate_i <= 1 of all batches comes every 1/rate_i
steps, from a random first step on: it is in batch t if a whole number lies between

    phase_i + rate_i t    and    phase_i + rate_i (t + 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setpoint._internal.processes import all_gather, all_reduce_sum, round_to_16_bits
from setpoint.thresholds.histogram import ScoreHistogram, bucket_values

if TYPE_CHECKING:
    from setpoint.data.rows import Block

# The constants of SplitMix64 (Steele, Lea, Flood 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64


def mix(numbers: Tensor) -> Tensor:
    """Return 64 pseudo-random bits for each number."""
    z = numbers + _GOLDEN  # integers wrap around
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return z ^ _shifted(z, 31)


def uniform(numbers: Tensor, *key: int) -> Tensor:
    """Return a float64 in (0, 1) for each int64; another key gives other values.

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


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that represent all; those of this process, if there are several.

    Attributes
    ----------
    X : Tensor of shape (m, ...)
        Inputs of a model.
    positive : Tensor of bool, shape (m,)
        The labels.
    weight : Tensor of float64, shape (m,)
        The weight of all rows that a row stands for.
    number : Tensor of int64, shape (m,)
        The rows' numbers, ascending.
    shard : Tensor of int64, shape (m,)
        The shard of each row.
    logits : Tensor of shape (m, k)
        Logits of the models when the sample was drawn.
    factors : Tensor of shape (m, tallies) or None
        What the rows count in each tally of the goal, relative to their weight; None if it has one.
    """

    X: Tensor
    positive: Tensor
    weight: Tensor
    number: Tensor
    shard: Tensor
    logits: Tensor
    factors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.positive)


Columns = dict[str, Tensor]  # each with one entry per row


class PrioritySample:
    """A priority sample in the making.

    Parameters
    ----------
    positives, negatives : int
        How many rows of each class to keep, in all processes together.
    key : tuple of int
        Key of :func:`uniform`.
    """

    def __init__(self, positives: int, negatives: int, key: tuple[int, ...]) -> None:
        self._classes = {True: _SmallestRanks(positives), False: _SmallestRanks(negatives)}
        self._key = key

    def add(self, block: Block, logits: Tensor, q: Tensor) -> None:
        """Offer rows with sampling weights q, which are compared within a class only."""
        offer = {
            "X": block.X,
            "weight": block.weight,
            "number": block.number,
            "shard": torch.full_like(block.number, block.shard),
            "logits": logits,
            "q": q,
            "rank": uniform(block.number, *self._key) / q,
        }
        if block.factors is not None:
            offer["factors"] = block.factors
        for label, smallest in self._classes.items():
            smallest.add(offer, block.positive == label)

    def finish(self) -> Sample:
        """Return the sample, in the order of the rows' numbers."""
        parts = []
        for label, smallest in self._classes.items():
            rows, tau = smallest.finish()
            if rows is None:
                continue
            rows["weight"] /= (rows.pop("q") * tau).clamp(max=1.0)
            rows["positive"] = torch.full_like(rows.pop("rank"), label, dtype=torch.bool)
            parts.append(rows)
        return _in_order(parts)


class _SmallestRanks:
    """The rows with the smallest ranks so far: at least ``size`` + 1 of them, if there are."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: list[Columns] = []
        self._count = 0
        self._bound = float("inf")

    def add(self, rows: Columns, which: Tensor) -> None:
        """Offer the rows of a mask."""
        places = (which & (rows["rank"] < self._bound)).nonzero().squeeze(1)
        if not len(places) and self._held:
            return
        self._held.append({name: column[places] for name, column in rows.items()})
        self._count += len(places)
        if self._count > self._size + self._size // 4 + 1024:
            self._drop()

    def _drop(self) -> None:
        """Drop the rows that cannot be in the sample."""
        if not self._held:
            return
        ranks = torch.cat([part["rank"] for part in self._held])
        if len(ranks) > self._size + 1:
            self._bound = float(ranks.kthvalue(self._size + 1).values)
        masks = [part["rank"] <= self._bound for part in self._held]
        self._held = [_joined(self._held, masks)]
        self._count = len(self._held[0]["rank"])

    def finish(self) -> tuple[Columns | None, float]:
        """Return the rows of this process that are kept, and tau, the same in all processes.

        The smallest of all ranks are among the smallest of each process.
        """
        self._drop()
        held, self._held = self._held, []
        local = held[0]["rank"].cpu().numpy() if held else np.empty(0)
        ranks = np.concatenate(all_gather(local))
        tau = float("inf")
        if len(ranks) > self._size:
            tau = float(np.partition(ranks, self._size)[self._size])
        return (_joined(held, [held[0]["rank"] < tau]) if held else None), tau


def _joined(parts: list[Columns], masks: list[Tensor]) -> Columns:
    """Return the rows of masks as one part; the parts are emptied, to hold no row twice."""
    names = list(parts[0])
    return {
        name: torch.cat([p.pop(name)[mask] for p, mask in zip(parts, masks, strict=True)])
        for name in names
    }


def gather_sample(sample: Sample) -> Sample:
    """Return the sample of all processes."""
    parts = all_gather(sample)
    if len(parts) == 1:
        return sample
    return _in_order([
        {name: column for name, column in vars(part).items() if column is not None}
        for part in parts
    ])  # fmt: skip


def _in_order(parts: list[Columns]) -> Sample:
    """Return rows in the order of their numbers; the parts are emptied."""
    order = torch.cat([part["number"] for part in parts]).argsort()
    names = list(parts[0])
    return Sample(**{name: torch.cat([p.pop(name) for p in parts])[order] for name in names})


_FAR = 1e30  # in place of infinity, so that its products are numbers
_EVENLY = 0.5  # the fraction of all sampling weight that is spread evenly over a class


@dataclass(frozen=True)
class SamplingWeights:
    """Sampling weights that favour rows near the thresholds of k models.

        q_i = 1/2 mean_k s_ik / S_k + 1/2 1/n,  with  s_ik = (1 + |z_ik| / scale_k)^-2.

    z_ik is the logit above the threshold of model k, S_k the sum of s_ik over the n rows of the
    class, and scale_k a fraction of the median of its |z_ik|. Rows beyond a few scales have next to
    no gradient, but there are many of them; the even half gives each of them a chance.

    Where a goal counts rows in several tallies, q_i is multiplied by what row i counts relative to
    the mean, averaged over the tallies: a large payment, or a row of a small segment, decides more
    than others.

    Attributes
    ----------
    scale, total : Tensor of shape (2, k)
        scale_k and S_k, of positives and of negatives.
    rows : tuple of float
        n, of positives and of negatives.
    means : Tensor of shape (tallies,) or None
        What a row counts in each of several tallies, on average.
    """

    scale: Tensor
    total: Tensor
    rows: tuple[float, float]
    means: Tensor | None = None

    @classmethod
    def of(cls, scores: ScoreHistogram, fraction: float) -> SamplingWeights:
        """Return the sampling weights that follow from scores measured from the thresholds.

        ``fraction`` is that of the median which makes the scale.
        """
        distance = np.minimum(np.abs(bucket_values()), _FAR)
        order = np.argsort(distance, kind="stable")
        scales, totals = [], []
        for weights in (scores.positive, scores.negative):  # (k, buckets) each
            along = np.cumsum(weights[:, order], axis=1)
            middle = [int(np.searchsorted(row, row[-1] / 2)) for row in along]
            scale = np.maximum(distance[order][middle] * fraction, 1e-9)
            scales.append(scale)
            totals.append((weights * (1 + distance / scale[:, None]) ** -2).sum(axis=1))
        classes = [float(w[0].sum()) for w in (scores.positive, scores.negative)]
        P, N = round_to_16_bits(torch.tensor(classes).double()).tolist()
        means = None
        if scores.tallies > 1:
            counted = round_to_16_bits(torch.from_numpy(np.sum(scores.totals(), axis=0)))
            means = torch.where(counted > 0, counted / counted[0], 1.0)
        return cls(
            torch.tensor(np.array(scales)),
            round_to_16_bits(torch.tensor(np.array(totals))),
            (P, N),
            means,
        )

    def of_rows(self, logits: Tensor, positive: Tensor, factors: Tensor | None = None) -> Tensor:
        """Return q for rows with these logits (k, m), measured from the thresholds.

        ``factors`` is what they count in each of several tallies, shape (m, tallies).
        """
        q = torch.empty(logits.shape[1], dtype=torch.float64, device=logits.device)
        for label, scale, total, n in zip(
            (True, False), self.scale, self.total, self.rows, strict=True
        ):
            of_class = (positive == label).to(logits.device)
            s = (1 + logits[:, of_class].abs() / scale.to(logits)[:, None]) ** -2
            near = (s / total.to(s)[:, None]).mean(0)
            q[of_class] = (1 - _EVENLY) * near.double() + _EVENLY / n
        if factors is not None and self.means is not None:
            q *= (factors.to(q) / self.means.to(q)).mean(dim=1)
        return q


class Batch(NamedTuple):
    """Rows of the sample, by their places, and the weight of each in this batch."""

    rows: Tensor
    weight: Tensor


def batches(
    sample: Sample, q: Tensor, size: int, positives: float, key: tuple[int, ...]
) -> Iterator[Batch]:
    """Yield batches without end.

    Parameters
    ----------
    sample : Sample
        Where to draw from.
    q : Tensor of float64, shape (m,)
        Sampling weights per weight, compared within a class.
    size : int
        Rows in a batch, about, of all processes together.
    positives : float
        The fraction of positives among them. If there are fewer, all positives are in every batch,
        and more negatives.
    key : tuple of int
        Key of :func:`uniform`.
    """
    rate = _rates(sample.positive, q * sample.weight, size, positives)
    weight = sample.weight / rate
    at = uniform(sample.number, *key)
    while True:
        at += rate
        now = at >= 1.0
        at -= now.to(at)
        rows = now.nonzero().squeeze(1)
        yield Batch(rows, weight[rows])


def _rates(positive: Tensor, q: Tensor, size: int, positives: float) -> Tensor:
    """Return the fraction of batches that each row is in."""
    classes = torch.stack([positive, ~positive]).double()
    rows, totals = classes.sum(1), classes @ q
    all_reduce_sum(rows, totals)
    totals = round_to_16_bits(totals)
    wanted_P = min(float(rows[0]), size * positives)
    wanted = torch.tensor([wanted_P, size - wanted_P]).to(q)
    rate = (q * ((wanted / totals) @ classes)).clamp(max=1.0)
    return torch.where((wanted >= rows).double() @ classes > 0, 1.0, rate)  # all, if all are wanted
