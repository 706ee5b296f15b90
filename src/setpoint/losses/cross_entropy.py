"""Cross-entropy, plain or weighted by class."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import softplus

from setpoint.losses.base import LabelledRows


@dataclass(frozen=True)
class CrossEntropy:
    """Minimise  sum_i c_i share_i softplus(-z~_i),  c_i = ((P + N) / 2 / its class's sum)^balance.

    Parameters
    ----------
    balance : float
        0: plain logistic loss. 1: both classes get the same total weight (WCE).
    """

    balance: float = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.balance):
            raise ValueError(f"balance must be a finite number, not {self.balance}.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the weighted mean."""
        share = rows.share
        if self.balance:
            half = (rows.P + rows.N) / 2
            share = share * rows.by_class(
                (half / rows.P) ** self.balance, (half / rows.N) ** self.balance
            )
        return (share * softplus(-rows.margins(logits))).sum()
