"""The exact threshold where the scores are: on a GPU, with one short message to the host.

The counts are whole numbers and the operations those of :mod:`setpoint._sweep`, one by one, in
float64; so is the result, to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setpoint._sweep import Cut, Ranking, rank_of
from setpoint.operating_point import threshold_below


class Swept(NamedTuple):
    """The best threshold, and what it counts."""

    threshold: float
    tp: float
    fp: float


def sweep(positive: Tensor, scores: Tensor, ranking: Ranking) -> Swept:
    """Return what :func:`setpoint._sweep.best_cut` finds for rows of weight 1.

    Parameters
    ----------
    positive : Tensor of bool, shape (n,)
        Labels of both classes.
    scores : Tensor of shape (n,)
        Finite.
    ranking : Ranking
        Of metrics that are quotients; others may be functions of numpy alone.
    """
    above, below = (scores[own].sort().values for own in (positive, ~positive))
    P, N = float(len(above)), float(len(below))
    values = above if ranking.is_monotone else torch.cat([above, below])
    tp, fp = (len(own) - torch.searchsorted(own, values).double() for own in (above, below))
    best = _best_index(ranking, tp, fp, P, N)
    found = torch.stack([values[best].double(), tp[best], fp[best]]).tolist()
    cut = Cut(*found)
    if rank_of(ranking, cut.tp, cut.fp, P, N) <= rank_of(ranking, 0.0, 0.0, P, N):
        cut = Cut(None, 0.0, 0.0)
    return Swept(_threshold(cut.lowest_positive, scores), cut.tp, cut.fp)


def _best_index(ranking: Ranking, tp: Tensor, fp: Tensor, P: float, N: float) -> Tensor:
    """Return where the violation is least, then the gain largest, then TP, then -FP."""
    best = torch.ones_like(tp, dtype=torch.bool)
    for key in (-ranking.violation(tp, fp, P, N), ranking.gain(tp, fp, P, N), tp, -fp):
        key = torch.where(best, key, -torch.inf)
        best = key == key.max()
    return best.to(torch.uint8).argmax()


def _threshold(lowest_positive: float | None, scores: Tensor) -> float:
    """Return the threshold below a score; of all others only its neighbours matter."""
    here = scores.max() if lowest_positive is None else scores.new_tensor(lowest_positive)
    lower = torch.where(scores < here, scores, -torch.inf).max()
    higher = torch.where(scores > here, scores, torch.inf).min()
    near: Any = torch.stack([lower, here, higher]).cpu().numpy()
    return threshold_below(lowest_positive, near[np.isfinite(near)])
