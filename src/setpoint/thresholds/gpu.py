"""Exact thresholds computed on a GPU, with two short transfers to the host.

The counts are integers, and the operations in float64 are those of
:mod:`setpoint.thresholds.sweep`, so both give the same result to the last bit. The normal
probabilities of :class:`setpoint.thresholds.caution.Cautious` may differ in theirs, which only
matters between cuts that are equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setpoint.thresholds.sweep import Cut, Ranking, rank_of, sort_keys, threshold_below

_NUMBERS = 2**25  # scores to sort at once


class Swept(NamedTuple):
    """The best threshold and its counts."""

    threshold: float
    tp: float
    fp: float


def sweep(positive: Tensor, scores: Tensor, ranking: Ranking) -> list[Swept]:
    """Return the cut of :func:`setpoint.thresholds.sweep.best_cut` for each model.

    All rows must have weight 1.

    Parameters
    ----------
    positive : Tensor of bool, shape (n,)
        Labels of both classes.
    scores : Tensor of shape (k, n)
        Finite.
    ranking : Ranking
        Its metrics must be quotients; others may need numpy.
    """
    classes = [torch.nonzero(member).squeeze(1) for member in (positive, ~positive)]
    blocks = torch.split(scores, max(1, _NUMBERS // len(positive)))
    return [swept for block in blocks for swept in _sweep(classes, block, ranking)]


def _sweep(classes: list[Tensor], scores: Tensor, ranking: Ranking) -> Iterator[Swept]:
    positives, negatives = (scores[:, rows].sort(dim=1).values for rows in classes)
    P, N = (float(len(rows)) for rows in classes)
    values = positives if ranking.is_monotone else torch.cat([positives, negatives], dim=1)
    # Counts of rows from each value on
    tp, fp = (
        ascending.shape[1] - torch.searchsorted(ascending, values).double()
        for ascending in (positives, negatives)
    )
    best = _best_index(ranking, tp, fp, P, N)
    found = torch.cat([x.double().gather(1, best) for x in (values, tp, fp)], dim=1).tolist()
    nothing = rank_of(ranking, 0.0, 0.0, P, N)
    cuts = [
        cut if rank_of(ranking, cut.tp, cut.fp, P, N) > nothing else Cut(None, 0.0, 0.0)
        for cut in map(Cut._make, found)
    ]
    for cut, near in zip(cuts, _neighbours(cuts, scores), strict=True):
        threshold = threshold_below(cut.lowest_positive, near[np.isfinite(near)])
        yield Swept(threshold, cut.tp, cut.fp)


def _best_index(ranking: Ranking, tp: Tensor, fp: Tensor, P: float, N: float) -> Tensor:
    """Return the index of each model's best cut, the first one of several."""
    best = torch.ones_like(tp, dtype=torch.bool)
    for key in sort_keys(ranking, tp, fp, P, N):
        key = torch.where(best, key, -torch.inf)
        best = key == key.max(dim=1, keepdim=True).values
    return best.to(torch.uint8).argmax(dim=1, keepdim=True)


def _neighbours(cuts: list[Cut], scores: Tensor) -> Any:
    """Return the lowest score above each cut with its two neighbours, which set the threshold.

    A missing neighbour is infinite. Where no score is above the cut, the highest score is used.
    """
    lowest = [torch.inf if cut.lowest_positive is None else cut.lowest_positive for cut in cuts]
    here = scores.new_tensor(lowest).minimum(scores.max(dim=1).values)[:, None]
    lower = torch.where(scores < here, scores, -torch.inf).max(dim=1).values
    higher = torch.where(scores > here, scores, torch.inf).min(dim=1).values
    return torch.stack([lower, here.squeeze(1), higher], dim=1).cpu().numpy()
