"""Batches from a sample, drawn at an even pace.

A row that shall be in a share rate_i <= 1 of all batches comes every 1/rate_i steps, from a first
time that is chance: it is in batch t if a whole number lies between

    phase_i + rate_i t    and    phase_i + rate_i (t + 1).

So every batch is drawn by the rates, every row is seen as often as its rate says, and which rows
come together hangs on their numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from setpoint.streams.chance import uniform
from setpoint.streams.rounding import coarse
from setpoint.streams.sample import Sample
from setpoint.streams.together import add_up


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
    add_up(rows, wishes)
    wishes = coarse(wishes)
    wanted_P = min(float(rows[0]), size * positives)
    wanted = torch.tensor([wanted_P, size - wanted_P]).to(wish)
    rate = (wish * ((wanted / wishes) @ own)).clamp(max=1.0)
    return torch.where((wanted >= rows).double() @ own > 0, 1.0, rate)  # all, if all are wanted
