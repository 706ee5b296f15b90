"""Competitors that do not see the goal: losses for imbalanced classes, and resampling.

- :class:`Focal`: the focal loss (Lin et al. 2017).
- :class:`LDAM`: label-distribution-aware margins with deferred re-weighting (Cao et al. 2019).
- :class:`SigmoidF1`: F1 with sigmoids in place of decisions (Benedict et al. 2021).
- :class:`Tilted`: tilted empirical risk (TERM, Li et al. 2021).
- :class:`Resampled`: training on rows drawn so that both classes are equally frequent.

:class:`setpoint.training.LossTraining` minimises any of the losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from setpoint._internal.imports import need
from setpoint.errors import SetpointError
from setpoint.training.candidates import TrainedModel
from setpoint.training.loop import Progress, Run, Solver
from setpoint.training.loss_training import LabelledRows, LossTraining
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Focal:
    """Minimise  sum_i weight_i alpha_i (1 - p_i)^gamma (-log p_i),  p_i = sigmoid(z~_i).

    p_i is the predicted probability of the true class; rows that are already right get little
    weight.

    Parameters
    ----------
    gamma : float
        How fast the weight decreases with p_i; 0 is cross-entropy.
    alpha : float
        The weight of positives; that of negatives is 1 - alpha.
    """

    gamma: float = 2.0
    alpha: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < math.inf or not 0 < self.alpha < 1:
            raise SetpointError("gamma must be >= 0 and alpha between 0 and 1.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the weighted mean."""
        margins = rows.margins(logits)
        # (1 - p)^gamma; as a power its gradient would be infinite where 1 - p is rounded to 0.
        doubt = (-self.gamma * softplus(margins)).exp()
        weight = rows.weight * rows.by_class(self.alpha, 1 - self.alpha)
        return (weight * doubt * softplus(-margins)).sum()


@dataclass(frozen=True)
class LDAM:
    """Minimise  sum_i c_i weight_i softplus(-scale (z~_i - Delta_i)).

    The margin Delta of class j is proportional to n_j^(-1/4): the rarer class has the larger one.
    This is the two-class softmax of the original, with the margin subtracted from the logit of the
    true class, in terms of the difference of both logits.

    Parameters
    ----------
    max_margin : float
        The margin of the rarer class.
    scale : float
        The factor of the logits.
    reweight_from : float
        The fraction of the training after which classes are weighted by the inverse of their
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
            raise SetpointError("max_margin must be >= 0 and scale > 0.")
        if not 0 <= self.reweight_from <= 1 or not 0 < self.beta < 1:
            raise SetpointError("reweight_from must be in [0, 1] and beta between 0 and 1.")

    def phase(self, elapsed: float) -> int:
        """Return 0 before the re-weighting and 1 after it; their losses are not comparable."""
        return int(elapsed >= self.reweight_from)

    def margins(self, P: float, N: float) -> tuple[float, float]:
        """Return the margins of positives and of negatives."""
        widest = min(P, N) ** -0.25
        return self.max_margin * P**-0.25 / widest, self.max_margin * N**-0.25 / widest

    def weights(self, P: float, N: float) -> tuple[float, float]:
        """Return the weights of positives and of negatives, which sum to 2."""
        # 1 - beta^n loses all digits for small n and beta near 1; expm1 does not.
        p, n = (-1 / math.expm1(count * math.log(self.beta)) for count in (P, N))
        return 2 * p / (p + n), 2 * n / (p + n)

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the weighted mean."""
        margins = rows.margins(logits) - rows.by_class(*self.margins(rows.P, rows.N))
        weight = rows.weight
        if self.phase(rows.elapsed):
            weight = weight * rows.by_class(*self.weights(rows.P, rows.N))
        return (weight * softplus(-self.scale * margins)).sum()


@dataclass(frozen=True)
class SigmoidF1:
    """Minimise  1 - 2 TP~ / (2 TP~ + FP~ + FN~)  with counts of  sigmoid(temperature (z + offset)).

    Parameters
    ----------
    temperature : float
        The steepness; large values approach a step.
    offset : float
        The step is at the logit -offset.
    """

    temperature: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise SetpointError(f"temperature must be positive, not {self.temperature}.")
        if not math.isfinite(self.offset):
            raise SetpointError(f"offset must be a finite number, not {self.offset}.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return 1 minus the smoothed F1."""
        decided = rows.weight * torch.sigmoid(self.temperature * (logits + self.offset))
        tp = (decided * rows.positive).sum()
        # 2 TP + FP + FN = alarms + positives
        positives = (rows.weight * rows.positive).sum()
        tiny = torch.finfo(decided.dtype).tiny  # a batch may hold no positive
        return 1 - 2 * tp / (decided.sum() + positives + tiny)


@dataclass(frozen=True)
class Tilted:
    """Minimise  (1/t) log sum_j q_j exp(t L_j).

    L_j are the cross-entropies of the rows and q_j their weights; or the mean cross-entropies of
    the two classes, with q_j = 1/2.

    Parameters
    ----------
    t : float
        The tilt: 0 is the mean, large values approach the maximum, negative ones the minimum.
    by_class : bool
        Whether classes are tilted instead of rows, as the original does for imbalanced data.
    """

    t: float = 1.0
    by_class: bool = False

    def __post_init__(self) -> None:
        if not math.isfinite(self.t):
            raise SetpointError(f"t must be a finite number, not {self.t}.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the tilted mean."""
        losses = softplus(-rows.margins(logits))
        weights = rows.weight
        if self.by_class:
            total = rows.P + rows.N
            losses = torch.stack(
                [
                    (weights * rows.positive * losses).sum() * (total / rows.P),
                    (weights * ~rows.positive * losses).sum() * (total / rows.N),
                ]
            )
            weights = torch.full_like(losses, 0.5)
        if abs(self.t) < torch.finfo(losses.dtype).eps ** 2:  # the mean, to all digits
            return (weights * losses).sum()
        weights = weights / weights.sum()  # in a batch they need not sum to 1
        mean = (weights * losses).sum()
        tilts = self.t * (losses - mean)
        if tilts.abs().max() < 1:  # log of a number near 1, divided by t, would lose its digits
            return mean + torch.log1p((weights * torch.expm1(tilts)).sum()) / self.t
        return torch.logsumexp(self.t * losses + weights.log(), dim=0) / self.t


@dataclass(frozen=True)
class Resampled:
    """Repeat rows of the rarer class or drop rows of the other at random, then train.

    Iterates are evaluated on the original rows. Needs imbalanced-learn.

    Parameters
    ----------
    sampling : {"over", "under"}
        Whether rows of the rarer class are repeated, or rows of the other class dropped.
    solver : Solver
        The solver that trains on the sampled rows.
    """

    sampling: Literal["over", "under"] = "over"
    solver: Solver = LossTraining()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if self.sampling not in ("over", "under"):
            raise SetpointError(f"sampling must be 'over' or 'under', not {self.sampling!r}.")

    @property
    def outer_iterations(self) -> int | None:
        """The outer iterations of the solver."""
        return self.solver.outer_iterations

    def prepare(self, problem: Problem, module: nn.Module) -> ResampledRun:
        """Start a run; raise MissingExtraError without imbalanced-learn."""
        _sampler(self.sampling)
        return ResampledRun(self, problem, module)


class ResampledRun:
    """The solver's run on the sampled rows.

    They are drawn at the start, when the seed is set; their own seed restores them later.
    """

    _run: Run
    _seed: int

    def __init__(self, solver: Resampled, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module

    def start(self, take: str | None = None) -> Progress:
        """Draw the rows and start the solver on them."""
        self._draw(int(torch.randint(2**31 - 1, (1,))))
        return self._run.start(take)

    def _draw(self, seed: int) -> None:
        problem = self.problem
        rows = balanced_rows(problem.positive, self.solver.sampling, seed)
        drawn = replace(
            problem,
            X=problem.X[rows],
            positive=problem.positive[rows],
            sample_weight=problem.sample_weight[rows],
            validation=problem.evaluation,
        )
        self._seed, self._run = seed, self.solver.solver.prepare(drawn, self.module)

    def advance(self, iteration: int) -> Progress:
        """Advance the solver."""
        return self._run.advance(iteration)

    def models(self) -> Sequence[TrainedModel]:
        """Return the models of the wrapped solver."""
        return self._run.models()

    def state_dict(self) -> dict[str, Any]:
        """Return the seed of the rows and the solver's state."""
        return {"seed": self._seed, "run": self._run.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Draw the same rows again and restore the solver's state."""
        self._draw(state["seed"])
        self._run.load_state_dict(state["run"])


def balanced_rows(positive: Tensor, sampling: str, seed: int) -> Tensor:
    """Return row numbers, with repeats or gaps, half of them of positives."""
    labels = positive.cpu().numpy()
    drawn = _sampler(sampling)(random_state=seed)
    drawn.fit_resample(np.zeros((len(labels), 1)), labels)
    return torch.from_numpy(np.sort(drawn.sample_indices_)).to(positive.device)


def _sampler(sampling: str) -> Any:
    """Return the class of imbalanced-learn."""
    module, name = {
        "over": ("imblearn.over_sampling", "RandomOverSampler"),
        "under": ("imblearn.under_sampling", "RandomUnderSampler"),
    }[sampling]
    return getattr(need(module, "paper", "resampling"), name)
