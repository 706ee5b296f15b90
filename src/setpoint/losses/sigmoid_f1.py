"""F1 with sigmoids in place of decisions (Benedict et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from setpoint.losses.base import LabelledRows


@dataclass(frozen=True)
class SigmoidF1:
    """Minimise  1 - 2 TP~ / (2 TP~ + FP~ + FN~)  with counts of  sigmoid(temperature (z + offset)).

    Parameters
    ----------
    temperature : float
        How close to a step.
    offset : float
        Where the step is: at the logit -offset.
    """

    temperature: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive, not {self.temperature}.")
        if not math.isfinite(self.offset):
            raise ValueError(f"offset must be a finite number, not {self.offset}.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return one less the smoothed F1."""
        decided = rows.share * torch.sigmoid(self.temperature * (logits + self.offset))
        tp = (decided * rows.positive).sum()
        # 2 TP + FP + FN = alarms + positives
        positives = (rows.share * rows.positive).sum()
        tiny = torch.finfo(decided.dtype).tiny  # a batch may hold no positive
        return 1 - 2 * tp / (decided.sum() + positives + tiny)
