"""Ordinary training at its honest best: the start of every goal-trained model, and its rival."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from setpoint.losses import CrossEntropy
from setpoint.metrics import plain
from setpoint.models import is_linear, scores_of
from setpoint.solvers.candidates import Contender, standing
from setpoint.solvers.loss_training import LossTraining
from setpoint.solvers.problem import Problem

RIDGES = (1e4, 1e3, 100.0, 10.0, 1.0, 0.1, 1e-3)  # 1/C of scikit-learn, the simplest model first
MODULE_RIDGES = (100.0, 1.0)
_MOST_FEATURES_FOR_NEWTON = 200  # its Hessian costs the square of that per row


def ordinary_models(problem: Problem, module: nn.Module) -> list[list[Contender]]:
    """Return models trained without a thought of the goal, by kind, the simplest first.

    A linear module gets two kinds: logistic regressions over a wide range of ridges, plain and with
    balanced classes. Any other module gets one: as it is given, and trained by cross-entropy with
    two ridges, as it stood at several moments. The module itself is left anywhere.
    """
    if is_linear(module):
        return [_logistic_path(problem, module, balanced) for balanced in (False, True)]
    given = copy.deepcopy(module.state_dict())
    models = [Contender("as given", problem.judge.operating_point(module), given)]
    for ridge in MODULE_RIDGES:
        module.load_state_dict(given)
        solver = LossTraining(l2=ridge)
        run = solver.prepare(problem, module)
        for iteration in range(1, solver.outer_iterations + 1):
            run.advance(iteration)
            (found,) = run.contenders()
            name = f"ordinary, ridge {plain(ridge)}, {iteration} of {solver.outer_iterations}"
            models.append(Contender(name, found.point, copy.deepcopy(found.weights)))
    return [models]


def best_of(models: Iterable[Contender]) -> Contender:
    """Return the one with the best operating point, the first of equals."""
    return max(models, key=lambda c: standing(c.point))


def train_ordinarily(problem: Problem, module: nn.Module) -> None:
    """Bring a module to the best of its ordinary models."""
    models = ordinary_models(problem, module)
    module.load_state_dict(best_of(chain.from_iterable(models)).weights)


def _logistic_path(problem: Problem, module: nn.Module, balanced: bool) -> list[Contender]:
    """Fit logistic regressions from the strongest ridge to the weakest, each from the last."""
    fits = _fits_on_device if problem.X.is_cuda else _fits_by_scikit_learn
    judge = problem.judge
    path = []
    for ridge, weights in fits(problem, module, balanced):
        module.load_state_dict(weights)
        name = f"logistic regression, ridge {plain(ridge)}{', balanced' if balanced else ''}"
        path.append(Contender(name, judge.point_of(scores_of(module, judge.X)), weights))
    return path


def _fits_by_scikit_learn(
    problem: Problem, module: nn.Module, balanced: bool
) -> Iterator[tuple[float, dict[str, Any]]]:
    X, positive = problem.X.cpu().numpy(), problem.positive.cpu().numpy()
    weight = problem.sample_weight.cpu().numpy()
    if balanced:
        P, N = weight[positive].sum(), weight[~positive].sum()
        weight = weight * (P + N) / 2 / np.where(positive, P, N)
    newton = X.shape[1] <= _MOST_FEATURES_FOR_NEWTON
    regression = LogisticRegression(
        solver="newton-cholesky" if newton else "lbfgs", warm_start=True, max_iter=200
    )
    for ridge in RIDGES:
        regression.C = 1.0 / ridge
        with warnings.catch_warnings():
            # Where classes can be separated a weak ridge does not converge; it still ranks.
            warnings.simplefilter("ignore")
            regression.fit(X, positive, sample_weight=weight)
        yield ridge, _as_weights(module, regression)


def _fits_on_device(
    problem: Problem, module: nn.Module, balanced: bool
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Do the same without moving the rows off their device."""
    loss = CrossEntropy(1.0 if balanced else 0.0)
    weights = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    for ridge in RIDGES:
        module.load_state_dict(weights)
        solver = LossTraining(loss, ridge, outer_iterations=1, inner_iterations=200)
        solver.prepare(problem, module).advance(1)
        weights = copy.deepcopy(module.state_dict())
        yield ridge, weights


def _as_weights(module: nn.Module, regression: LogisticRegression) -> dict[str, Any]:
    """Return the regression as a state dict of the linear module.

    Without a bias in the module the intercept is dropped; the threshold is found anew anyway.
    """
    own = module.state_dict()
    weights = {"weight": torch.as_tensor(regression.coef_).to(own["weight"])}
    if "bias" in own:
        weights["bias"] = torch.as_tensor(regression.intercept_).to(own["bias"])
    return weights
