"""The focal loss (Lin et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from setpoint.losses.base import LabelledRows


@dataclass(frozen=True)
class Focal:
    """Minimise  sum_i share_i alpha_i (1 - p_i)^gamma (-log p_i),  p_i = sigmoid(z~_i).

    p_i is the probability of the true class; rows that are right already count for little.

    Parameters
    ----------
    gamma : float
        How little; 0 is cross-entropy.
    alpha : float
        The weight of positives; that of negatives is 1 - alpha.
    """

    gamma: float = 2.0
    alpha: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < math.inf or not 0 < self.alpha < 1:
            raise ValueError("gamma must be >= 0 and alpha between 0 and 1.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the weighted mean."""
        margins = rows.margins(logits)
        # (1 - p)^gamma; as a power its slope would be infinite where 1 - p is rounded to 0.
        doubt = (-self.gamma * softplus(margins)).exp()
        share = rows.share * rows.by_class(self.alpha, 1 - self.alpha)
        return (share * doubt * softplus(-margins)).sum()
