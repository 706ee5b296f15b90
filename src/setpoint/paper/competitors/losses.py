"""The focal loss (Lin et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from setpoint.training.loss_training import LabelledRows


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


# DOC of losses.ldam: The label-distribution-aware margin loss with deferred re-weighting (Cao et al. 2019).

# DOC of losses.sigmoid_f1: F1 with sigmoids in place of decisions (Benedict et al. 2021).

# DOC of losses.tilted: Tilted empirical risk (TERM, Li et al. 2021).
