"""Tilted empirical risk (TERM, Li et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from setpoint.losses.base import LabelledRows


@dataclass(frozen=True)
class Tilted:
    """Minimise  (1/t) log sum_j q_j exp(t L_j).

    L_j are the cross-entropies of the rows, q_j their shares; or the mean cross-entropies of the
    two classes, with 1/2 each.

    Parameters
    ----------
    t : float
        The tilt: 0 is the mean, large values come close to the maximum, negative ones to the
        minimum.
    by_class : bool
        Whether classes are tilted instead of rows, which is the original's remedy for imbalance.
    """

    t: float = 1.0
    by_class: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.t):
            raise ValueError(f"t must be a finite number, not {self.t}.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the tilted mean."""
        losses = softplus(-rows.margins(logits))
        shares = rows.share
        if self.by_class:
            total = rows.P + rows.N
            losses = torch.stack(
                [
                    (shares * rows.positive * losses).sum() * (total / rows.P),
                    (shares * ~rows.positive * losses).sum() * (total / rows.N),
                ]
            )
            shares = torch.full_like(losses, 0.5)
        if abs(self.t) < torch.finfo(losses.dtype).eps ** 2:  # the mean, to all digits
            return (shares * losses).sum()
        shares = shares / shares.sum()  # of a batch they need not add up to 1
        mean = (shares * losses).sum()
        tilts = self.t * (losses - mean)
        if tilts.abs().max() < 1:  # the logarithm of nearly 1, divided by t, would be noise
            return mean + torch.log1p((shares * torch.expm1(tilts)).sum()) / self.t
        return torch.logsumexp(self.t * losses + shares.log(), dim=0) / self.t
