"""A training problem: rows, labels, weights and the goal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.errors import DivergedError
from setpoint.goals.goal import Goal, only_fractions
from setpoint.goals.metrics import Counts
from setpoint.thresholds.gpu import sweep
from setpoint.thresholds.operating_point import (
    OperatingPoint,
    choose_threshold,
    evaluate_threshold,
    threshold_below,
)
from setpoint.thresholds.sweep import ClassScores, Ranking, best_cut
from setpoint.training.models import scores_of


@dataclass(frozen=True)
class Problem:
    """What a solver is given.

    Attributes
    ----------
    X : Tensor of shape (n, d)
        Features.
    positive : Tensor of bool, shape (n,)
        Labels.
    sample_weight : Tensor of shape (n,)
        Weights > 0 of the counts.
    goal : Goal
        What to train for.
    validation : Problem or None
        Rows on which iterates are judged. None: the training rows themselves.
    on : str
        What to call these rows in messages.
    """

    X: Tensor
    positive: Tensor
    sample_weight: Tensor
    goal: Goal
    validation: Problem | None = None
    on: str = "the training data"

    @property
    def judged_apart(self) -> bool:
        """Whether other rows than those that train judge."""
        return self.validation is not None

    @property
    def judge(self) -> Problem:
        """The problem whose rows decide which iterate is best."""
        return self if self.validation is None else self.validation

    def for_goal(self, goal: Goal) -> Problem:
        """Return the same rows with another goal."""
        judge = None if self.validation is None else self.validation.for_goal(goal)
        return replace(self, goal=goal, validation=judge)

    def operating_point(self, module: nn.Module, threshold: float | None = None) -> OperatingPoint:
        """Return what the module does at a threshold of its logits; None: at the exact one."""
        return self.point_of(scores_of(module, self.X), threshold)

    def point_of(self, logits: Tensor, threshold: float | None = None) -> OperatingPoint:
        """Return what logits of these rows do at a threshold; None: at the exact one."""
        logits = _whole(logits)
        if threshold is None and self.swept_on_device(logits):
            return self.swept(logits[None], self.goal)[0]
        scores = logits.cpu().numpy()
        if np.isnan(scores).any():
            raise DivergedError("the model's scores are not numbers; try a lower learning rate.")
        y = self.positive.cpu().numpy()
        weights = self.sample_weight.cpu().numpy()
        given = None if np.all(weights == 1) else weights
        if threshold is None:
            return choose_threshold(y, scores, self.goal, sample_weight=given, on=self.on)
        return evaluate_threshold(y, scores, threshold, self.goal, sample_weight=given, on=self.on)

    def points_of(self, logits: Tensor) -> list[OperatingPoint]:
        """Return what each of several models does at its exact threshold; logits are (k, n)."""
        logits = _whole(logits)
        if self.swept_on_device(logits):
            return self.swept(logits, self.goal)
        return [self.point_of(own) for own in logits]

    def swept_on_device(self, logits: Tensor) -> bool:
        """Whether the exact threshold of such logits is found where they are."""
        return logits.is_cuda and self._plain and bool(logits.isfinite().all())

    def swept(self, logits: Tensor, ranking: Ranking) -> list[OperatingPoint]:
        """Return what models do at the thresholds that a ranking finds best, found on the device.

        Logits are of the shape (k, n).
        """
        P, n = float(self.positive.sum()), len(self.positive)
        return [
            OperatingPoint(at, tp, fp, P - tp, n - P - fp, self.goal, self.on)
            for at, tp, fp in sweep(self.positive, logits, ranking)
        ]

    @cached_property
    def _plain(self) -> bool:
        """Whether rows count one each, there are both classes, and all metrics are quotients."""
        both = bool(self.positive.any()) and not bool(self.positive.all())
        return both and bool((self.sample_weight == 1).all()) and only_fractions(self.goal)

    def fingerprint(self) -> str:
        """Return a digest of the data and the goal, by which a checkpoint knows its problem."""
        digest = hashlib.sha256(str(self.goal).encode())
        tp, fp = np.meshgrid(np.arange(4.0), np.arange(6.0))
        for metric in self.goal.metrics:  # a user may have given an old name a new meaning
            digest.update(np.asarray(metric.value(tp, fp, 3.0, 5.0), dtype=float).tobytes())
        for part in (self.X, self.positive, self.sample_weight):
            kind = str(part.dtype).removeprefix("torch.")
            digest.update(f"{tuple(part.shape)}{kind}".encode())
            # As bytes: numpy does not know bfloat16.
            digest.update(
                part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            )
        if self.validation is not None:
            digest.update(self.validation.fingerprint().encode())
        return digest.hexdigest()


def _whole(logits: Tensor) -> Tensor:
    """Return logits in a precision that numpy knows."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def make_problem(
    X: Tensor,
    positive: Tensor,
    goal: str | Goal,
    sample_weight: Tensor | None = None,
    *,
    validation: Problem | None = None,
    on: str = "the training data",
) -> Problem:
    """Return a problem, with unit weights where none are given."""
    if sample_weight is None:
        sample_weight = torch.ones(len(X), device=X.device)
    # Rows may be whole numbers, as words of a text are, or in half precision; sums are neither.
    dtype = torch.float64 if X.dtype == torch.float64 else torch.float32
    return Problem(X, positive, sample_weight.to(dtype), Goal.parse(goal), validation, on)


@dataclass(frozen=True)
class Penalised:
    """The goal as a sweep sees it, with  gain - strength * violation  in place of both."""

    goal: Goal
    strength: float

    @property
    def is_monotone(self) -> bool:
        """As the goal is."""
        return self.goal.is_monotone

    def gain(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the gain less the penalty."""
        at = (tp, fp, P, N)
        return self.goal.gain(*at) - self.strength * self.goal.violation(*at)

    def violation(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return zero: nothing is forbidden."""
        return 0.0 * self.goal.violation(tp, fp, P, N)


def penalised_point(problem: Problem, logits: Tensor, strength: float) -> OperatingPoint:
    """Return what logits do at the threshold that is best by this rule."""
    ranking = Penalised(problem.goal, strength)
    if problem.swept_on_device(logits):
        return problem.swept(logits[None], ranking)[0]
    scores, y = logits.cpu().numpy(), problem.positive.cpu().numpy()
    weight = problem.sample_weight.double().cpu().numpy()
    given = None if (weight == 1).all() else weight
    above, below = (ClassScores(scores, given, own) for own in (y, ~y))
    cut = best_cut(above, below, ranking)
    return OperatingPoint(
        threshold_below(cut.lowest_positive, above.sorted, below.sorted),
        cut.tp,
        cut.fp,
        above.total - cut.tp,
        below.total - cut.fp,
        problem.goal,
        problem.on,
    )


# DOC of solvers.penalised: The threshold of a model that may still break the goal: violations cost, but are allowed.
