"""The label-distribution-aware margin loss with deferred re-weighting (Cao et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from setpoint.losses.base import LabelledRows


@dataclass(frozen=True)
class LDAM:
    """Minimise  sum_i c_i share_i softplus(-scale (z~_i - Delta_i)).

    Class j's margin Delta is in proportion to n_j^(-1/4): the rarer class gets the larger one. This
    is the original's two-class softmax, with the margin taken off the true class, written for the
    difference of both logits.

    Parameters
    ----------
    max_margin : float
        The rarer class's margin.
    scale : float
        What logits are multiplied by.
    reweight_from : float
        The share of the training after which classes are weighted by the inverse of their
        effective number of rows; 1: never.
    beta : float
        The effective number of n rows is (1 - beta^n) / (1 - beta).
    """

    max_margin: float = 0.5
    scale: float = 30.0
    reweight_from: float = 0.8
    beta: float = 0.9999

    def __post_init__(self) -> None:
        if not 0 <= self.max_margin < math.inf or not 0 < self.scale < math.inf:
            raise ValueError("max_margin must be >= 0 and scale > 0.")
        if not 0 <= self.reweight_from <= 1 or not 0 < self.beta < 1:
            raise ValueError("reweight_from must be in [0, 1] and beta between 0 and 1.")

    def phase(self, elapsed: float) -> int:
        """Return 0 before the re-weighting and 1 then: values of both do not compare."""
        return int(elapsed >= self.reweight_from)

    def margins(self, P: float, N: float) -> tuple[float, float]:
        """Return the margins of positives and of negatives."""
        widest = min(P, N) ** -0.25
        return self.max_margin * P**-0.25 / widest, self.max_margin * N**-0.25 / widest

    def weights(self, P: float, N: float) -> tuple[float, float]:
        """Return the weights of positives and of negatives, with 2 as their sum."""
        # 1 - beta^n loses all digits where n is small and beta near 1; expm1 does not.
        p, n = (-1 / math.expm1(count * math.log(self.beta)) for count in (P, N))
        return 2 * p / (p + n), 2 * n / (p + n)

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the weighted mean."""
        margins = rows.margins(logits) - rows.by_class(*self.margins(rows.P, rows.N))
        share = rows.share
        if self.phase(rows.elapsed):
            share = share * rows.by_class(*self.weights(rows.P, rows.N))
        return (share * softplus(-self.scale * margins)).sum()
