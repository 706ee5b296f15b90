"""Ordinary training, which ignores the goal: the start of goal-trained models, and their rival.

Ordinary training minimises cross-entropy with a ridge, for several strengths of it. The goal then
chooses among the models and starts variants of the best of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn.functional import softplus

from setpoint.goals.goal import Goal
from setpoint.goals.metrics import format_number
from setpoint.training.candidates import TrainedModel, best_of
from setpoint.training.cost_path import cost_weighted_models
from setpoint.training.gpu import sizes_for
from setpoint.training.loop import Progress
from setpoint.training.models import is_linear, linear_state, scores_of
from setpoint.training.network_path import cross_entropy_models
from setpoint.training.problem import Problem

if TYPE_CHECKING:
    from setpoint.training.projected import Projected
    from setpoint.training.stochastic import Stochastic

RIDGES = (1e4, 1e3, 100.0, 10.0, 1.0, 0.1, 1e-3)  # 1/C of scikit-learn, the simplest model first
FEW_ROWS = 2000  # up to so many, restarts and line searches improve on any start
_MOST_FEATURES_FOR_NEWTON = 200  # in scikit-learn; the Hessian costs the square of that per row


@dataclass(frozen=True)
class Ordinary:
    """Train without regard to the goal, over many ridges; the goal chooses among the models.

    :class:`setpoint.training.Projected` starts from such models.
    """

    @property
    def outer_iterations(self) -> int:
        """Zero: the start does all the work."""
        return 0

    def prepare(self, problem: Problem, module: nn.Module) -> OrdinaryRun:
        """Return a run. Supports every goal."""
        return OrdinaryRun(problem, module)


class OrdinaryRun:
    """Ordinary training at work."""

    def __init__(self, problem: Problem, module: nn.Module) -> None:
        self.problem, self.module = problem, module
        self._models: list[TrainedModel] = []

    def start(self, take: str | None = None) -> Progress:
        """Train all models."""
        kinds = ordinary_models(self.problem, self.module, take=take)
        self._models = list(chain.from_iterable(kinds))
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Do nothing."""
        return self._progress()

    def _progress(self) -> Progress:
        return Progress(0.0, best_of(self._models).point.violation)

    def models(self) -> Sequence[TrainedModel]:
        """Return all models, the simplest first."""
        return self._models

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: all work is done at the start."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Train all models again."""
        self.start()


def ordinary_models(
    problem: Problem, module: nn.Module, take: str | None = None
) -> list[list[TrainedModel]]:
    """Return models trained without regard to the goal, by kind, the simplest first.

    A linear module gets four kinds: logistic regressions over a wide range of ridges, plain and
    with balanced classes, and the cost-weighted models with either loss that suit the goal best.
    Any other module gets two: as it is given and trained by cross-entropy, plain and weighted, each
    at several iterations. A linear module's weights are overwritten.
    """
    return ordinary_models_of([problem], module, take)[0]


def ordinary_models_of(
    problems: Sequence[Problem],
    module: nn.Module,
    take: str | None = None,
    *,
    thorough: bool | None = None,
) -> list[list[list[TrainedModel]]]:
    """Return the same for problems that differ in their goals only; training is shared.

    ``thorough`` is that of :func:`cost_weighted_models`, for linear modules only with many rows.
    None: without validation rows, unless one candidate is trained again as in the selection.
    """
    if thorough is None:
        thorough = not problems[0].has_validation and take is None
    if not is_linear(module):
        return cross_entropy_models(problems, module, take, thorough=thorough)
    kinds = [_logistic_path(problems[0], module, balanced) for balanced in (False, True)]
    of_each = [kinds]
    of_each += [[evaluated(kind, own, module) for kind in kinds] for own in problems[1:]]
    thorough = thorough and len(problems[0].X) > FEW_ROWS
    weighted = cost_weighted_models(problems, module, take, thorough=thorough)
    return [own + more for own, more in zip(of_each, weighted, strict=True)]


def starting_models(
    start: str,
    problems: Sequence[Problem],
    module: nn.Module,
    take: str | None = None,
    *,
    thorough: bool | None = None,
) -> list[list[list[TrainedModel]]]:
    """Return each problem's models to start from, by kind.

    They are ordinary ones or, if ``start`` is "given", the module itself. The problems differ in
    their goals only; ``take`` names the only candidate that is wanted.
    """
    if start == "logistic":
        return ordinary_models_of(problems, module, take, thorough=thorough)
    weights = {k: v.clone() for k, v in module.state_dict().items()}
    return [
        [[TrainedModel("the start", own.evaluation.operating_point(module), weights)]]
        for own in problems
    ]


def evaluated(
    models: Sequence[TrainedModel], problem: Problem, module: nn.Module
) -> list[TrainedModel]:
    """Return the models with their operating points for this problem's goal."""
    scores = []
    for model in models:
        module.load_state_dict(model.weights)
        scores.append(scores_of(module, problem.evaluation.X))
    points = problem.evaluation.points_of(torch.stack(scores))
    return [model._replace(point=point) for model, point in zip(models, points, strict=True)]


def train_ordinarily(problem: Problem, module: nn.Module) -> None:
    """Set a module to the best of its ordinary models."""
    models = ordinary_models(problem, module)
    module.load_state_dict(best_of(chain.from_iterable(models)).weights)


# --- what is trained from them --------------------------------------------------------------------


class Variant(NamedTuple):
    """How one model of a bundle is trained from an ordinary one.

    ``proximity`` is the strength of the regularisation towards the start, ``gamma`` that of psi;
    ``restart`` numbers the models that start from perturbed weights; a relaxed model may violate
    the goal while it trains.
    """

    name: str
    start: TrainedModel
    proximity: float
    gamma: float
    restart: int = 0
    relaxed: bool = False


def variants_of(
    solver: Projected | Stochastic,
    module: nn.Module,
    goal: Goal,
    kinds: Sequence[Sequence[TrainedModel]],
    take: str | None = None,
) -> list[Variant]:
    """Return the variants of the best model of each kind, restarts from the best of all.

    With ``take``, return only the variant of that name, whichever model it starts from.
    """
    ordinary = list(chain.from_iterable(kinds))
    if take is not None:
        every = variants_from(solver, module, goal, ordinary, ordinary)
        if named := [v for v in every if v.name == take]:
            return named
    return variants_from(solver, module, goal, list(map(best_of, kinds)), [best_of(ordinary)])


def variants_from(
    solver: Projected | Stochastic,
    module: nn.Module,
    goal: Goal,
    starts: Sequence[TrainedModel],
    restarted: Sequence[TrainedModel],
) -> list[Variant]:
    """Return the variants of these starts, the simplest first, and restarts from others."""
    variants = []
    usual, *others = solver.gammas
    for start in starts:
        for proximity in sorted(solver.proximity, reverse=True):
            held = f"; proximity {proximity:g}" if proximity else ""
            variants.append(Variant(_after(start) + held, start, proximity, usual))
        variants += [
            Variant(f"{_after(start)}; gamma {gamma:g}", start, 0.0, gamma) for gamma in others
        ]
        if solver.relaxed and goal.constraints:
            variants.append(Variant(_after(start) + "; relaxed", start, 0.0, usual, relaxed=True))
    if is_linear(module):
        variants += [
            Variant(f"{_after(start)}; restart {i}", start, 0.0, usual, restart=i)
            for start in restarted
            for i in range(1, (solver.restarts or 0) + 1)
        ]
    return variants


def start_of(variant: Variant, solver: Projected | Stochastic, seed: int) -> dict[str, Any]:
    """Return the weights that a variant starts from, perturbed for a restart."""
    weights = variant.start.weights
    if not variant.restart:
        return weights
    w = weights["weight"]
    # The same number is the same perturbation, whatever else is trained.
    generator = torch.Generator().manual_seed(seed + variant.restart)
    noise = torch.randn(w.shape, dtype=torch.float64, generator=generator).to(w)
    size = solver.spread * variant.restart / (solver.restarts or 1)
    return {**weights, "weight": w + size * w.norm() / w.numel() ** 0.5 * noise}


def _after(start: TrainedModel) -> str:
    return f"goal-trained from {start.name.removeprefix('logistic regression, ')}"


# --- logistic regression --------------------------------------------------------------------------


def _logistic_path(problem: Problem, module: nn.Module, balanced: bool) -> list[TrainedModel]:
    """Fit logistic regressions from the strongest ridge to the weakest, each from the last."""
    n, d = problem.X.shape
    sizes = sizes_for(problem.X.device)
    ours = n > sizes.newton_rows and d <= sizes.newton_features
    fits = _fits_by_newton if ours else _fits_by_scikit_learn
    evaluation = problem.evaluation
    path = []
    for ridge, weights in fits(problem, module, balanced):
        module.load_state_dict(weights)
        name = (
            f"logistic regression, ridge {format_number(ridge)}{', balanced' if balanced else ''}"
        )
        point = evaluation.operating_point(module)
        path.append(TrainedModel(name, point, weights))
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
            # Where classes can be separated a weak ridge does not converge; the model still ranks.
            warnings.simplefilter("ignore")
            regression.fit(X, positive, sample_weight=weight)
        yield ridge, linear_state(module, regression.coef_, regression.intercept_)


def _fits_by_newton(
    problem: Problem, module: nn.Module, balanced: bool
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Do the same on the rows' device, in blocks."""
    X, positive, weight = problem.X, problem.positive, problem.sample_weight
    if balanced:
        P, N = weight[positive].sum(), weight[~positive].sum()
        weight = torch.where(positive, (P + N) / 2 / P, (P + N) / 2 / N).mul_(weight)
    theta = X.new_zeros(X.shape[1] + 1, dtype=torch.float64)
    for ridge in RIDGES:
        theta = newton_logistic(X, positive, weight, ridge, theta)
        yield ridge, linear_state(module, theta[:-1], theta[-1:])


_MOST_STEPS = 60
_CLOSE_ENOUGH = 1e-10  # of the objective: the gain that a further step may leave


def newton_logistic(
    X: Tensor, positive: Tensor, weight: Tensor, ridge: float, start: Tensor
) -> Tensor:
    """Minimise  sum_i w_i log(1 + exp(-y_i z_i)) + ridge/2 |theta|^2,  z = X theta + b.

    By Newton's method, for rows on a GPU or very many of them.

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
    """Sums over rows, block by block."""

    def __init__(self, X: Tensor, positive: Tensor, weight: Tensor) -> None:
        self._X, self._positive, self._weight = X, positive, weight
        self._size = max(sizes_for(X.device).newton_numbers // (X.shape[1] + 1), 1)

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
    """Return H^-1 g, with a larger ridge where H is not positive definite."""
    more = 0.0
    size = float(hessian.diagonal().mean())
    while True:
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if not failed:
            return torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        more = max(10 * more, 1e-12 * size, 1e-12)
        hessian = hessian + more * torch.eye(len(hessian)).to(hessian)
