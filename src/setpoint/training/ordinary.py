"""Ordinary training at its honest best: the start of every goal-trained model, and its rival."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn.functional import softplus

from setpoint.goals.metrics import plain
from setpoint.training.candidates import Contender, standing
from setpoint.training.loop import Progress
from setpoint.training.loss_training import LossTraining
from setpoint.training.models import is_linear, scores_of
from setpoint.training.problem import Problem

RIDGES = (1e4, 1e3, 100.0, 10.0, 1.0, 0.1, 1e-3)  # 1/C of scikit-learn, the simplest model first
MODULE_RIDGES = (100.0, 1.0)
_MANY = 2**19  # rows, of which scikit-learn would hold some 60 bytes each beside them
_MOST_FEATURES_FOR_NEWTON = 200  # its Hessian costs the square of that per row


@dataclass(frozen=True)
class Ordinary:
    """Train without a thought of the goal, over many ridges; the goal chooses among the models.

    That is what :class:`setpoint.training.Projected` starts from, by itself.
    """

    @property
    def outer_iterations(self) -> int:
        """None: after the start all is done."""
        return 0

    def prepare(self, problem: Problem, module: nn.Module) -> OrdinaryRun:
        """Return a run; any goal will do."""
        return OrdinaryRun(problem, module)


class OrdinaryRun:
    """Ordinary training at work."""

    def __init__(self, problem: Problem, module: nn.Module) -> None:
        self.problem, self.module = problem, module
        self._models: list[Contender] = []

    def start(self, take: str | None = None) -> Progress:
        """Do it all."""
        self._models = list(chain.from_iterable(ordinary_models(self.problem, self.module)))
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Do nothing more."""
        return self._progress()

    def _progress(self) -> Progress:
        return Progress(0.0, best_of(self._models).point.violation)

    def contenders(self) -> Sequence[Contender]:
        """Return all models, the simplest first."""
        return self._models

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: a run that was stopped has done nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do all again."""
        self.start()


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


def judged(models: Sequence[Contender], problem: Problem, module: nn.Module) -> list[Contender]:
    """Return models as another goal sees them."""
    scores = []
    for model in models:
        module.load_state_dict(model.weights)
        scores.append(scores_of(module, problem.judge.X))
    points = problem.judge.points_of(torch.stack(scores))
    return [model._replace(point=point) for model, point in zip(models, points, strict=True)]


def best_of(models: Iterable[Contender]) -> Contender:
    """Return the one with the best operating point, the first of equals."""
    return max(models, key=lambda c: standing(c.point))


def train_ordinarily(problem: Problem, module: nn.Module) -> None:
    """Bring a module to the best of its ordinary models."""
    models = ordinary_models(problem, module)
    module.load_state_dict(best_of(chain.from_iterable(models)).weights)


def _logistic_path(problem: Problem, module: nn.Module, balanced: bool) -> list[Contender]:
    """Fit logistic regressions from the strongest ridge to the weakest, each from the last."""
    n, d = problem.X.shape
    ours = d <= MOST_FEATURES if problem.X.is_cuda else n > _MANY and d <= _MOST_FEATURES_FOR_NEWTON
    fits = _fits_by_newton if ours else _fits_by_scikit_learn
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
    half = problem.X.dtype in (torch.float16, torch.bfloat16)
    X = (problem.X.float() if half else problem.X).cpu().numpy()
    positive = problem.positive.cpu().numpy()
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
        yield ridge, _as_weights(module, regression.coef_, regression.intercept_)


def _fits_by_newton(
    problem: Problem, module: nn.Module, balanced: bool
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Do the same without moving the rows off their device, or taking more than a block of them."""
    X, positive, weight = problem.X, problem.positive, problem.sample_weight
    if balanced:
        P, N = weight[positive].sum(), weight[~positive].sum()
        weight = torch.where(positive, (P + N) / 2 / P, (P + N) / 2 / N).mul_(weight)
    theta = X.new_zeros(X.shape[1] + 1, dtype=torch.float64)
    for ridge in RIDGES:
        theta = newton_logistic(X, positive, weight, ridge, theta)
        yield ridge, _as_weights(module, theta[:-1], theta[-1:])


def _as_weights(module: nn.Module, coef: Any, intercept: Any) -> dict[str, Any]:
    """Return a regression as a state dict of the linear module.

    Without a bias in the module the intercept is dropped; the threshold is found anew anyway.
    """
    own = module.state_dict()
    weights = {"weight": torch.as_tensor(coef).reshape(1, -1).to(own["weight"])}
    if "bias" in own:
        weights["bias"] = torch.as_tensor(intercept).to(own["bias"])
    return weights


MOST_FEATURES = 4096  # the Hessian of more would not pay
_MOST_STEPS = 60
_CLOSE_ENOUGH = 1e-10  # of the objective: what a further step could gain
_MOST_NUMBERS = {"cuda": 2**27, "cpu": 2**18}  # of a block, in double precision


def newton_logistic(
    X: Tensor, positive: Tensor, weight: Tensor, ridge: float, start: Tensor
) -> Tensor:
    """Minimise  sum_i w_i log(1 + exp(-y_i z_i)) + ridge/2 |theta|^2,  z = X theta + b.

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Features; the work is done in double precision.
    positive, weight : Tensor of shape (n,)
        Labels and weights.
    ridge : float
        Its strength, 1/C of scikit-learn; not on b.
    start : Tensor of float64, shape (d + 1,)
        Where to start: theta, then b.

    Returns
    -------
    Tensor of float64, shape (d + 1,)
    """
    rows = _Rows(X, positive, weight)
    strength = torch.full_like(start, ridge)
    strength[-1] = 0.0
    theta = start.clone()
    value = rows.loss(theta) + _ridge(theta, strength)
    for _ in range(_MOST_STEPS):
        gradient, hessian = rows.slopes(theta)
        gradient += strength * theta
        hessian += torch.diag(strength)
        step = _solve(hessian, gradient)
        gain = float(gradient @ step)
        if not gain > _CLOSE_ENOUGH * value:
            break
        # Far from the minimum a whole step may overshoot.
        length = 1.0
        while True:
            further = theta - length * step
            tried = rows.loss(further) + _ridge(further, strength)
            if tried <= value - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        if not tried < value:
            break
        theta, value = further, tried
    return theta


def _ridge(theta: Tensor, strength: Tensor) -> float:
    return float((strength * theta * theta).sum() / 2)


class _Rows:
    """Rows that are gone through in blocks; nothing is kept of them."""

    def __init__(self, X: Tensor, positive: Tensor, weight: Tensor) -> None:
        self._X, self._positive, self._weight = X, positive, weight
        self._size = max(_MOST_NUMBERS[X.device.type] // (X.shape[1] + 1), 1)

    def loss(self, theta: Tensor) -> float:
        """Return the sum of the losses."""
        total = theta.new_zeros(())
        for X, positive, weight in self._blocks():
            z = X @ theta
            total += weight @ softplus(torch.where(positive, -z, z))
        return float(total)

    def slopes(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return its gradient and its Hessian."""
        gradient, hessian = torch.zeros_like(theta), theta.new_zeros(len(theta), len(theta))
        for X, positive, weight in self._blocks():
            p = torch.sigmoid(X @ theta)
            gradient += (weight * (p - positive.to(p))) @ X
            hessian += X.T @ (X * (weight * p * (1 - p))[:, None])
        return gradient, hessian

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield rows with a column of ones, labels and weights, in double precision."""
        for start in range(0, len(self._X), self._size):
            own = slice(start, start + self._size)
            X = self._X[own].double()
            yield (
                torch.cat([X, X.new_ones(len(X), 1)], dim=1),
                self._positive[own],
                self._weight[own].double(),
            )


def _solve(hessian: Tensor, gradient: Tensor) -> Tensor:
    """Return H^-1 g; what keeps H from being positive definite is a little more of a ridge."""
    more = 0.0
    size = float(hessian.diagonal().mean())
    while True:
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if not failed:
            return torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        more = max(10 * more, 1e-12 * size, 1e-12)
        hessian = hessian + more * torch.eye(len(hessian)).to(hessian)


# DOC of solvers.newton: Logistic regression by Newton's method, for rows that lie on a GPU or are very many.
