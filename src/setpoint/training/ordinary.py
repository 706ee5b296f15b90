"""Ordinary training, which ignores the goal: the start of goal-trained models, and their rival.

Ordinary training minimises cross-entropy with a ridge, for several strengths of it. The goal then
chooses among the models and starts variants of the best of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from setpoint.goals.goal import Goal
from setpoint.goals.metrics import format_number
from setpoint.training.candidates import TrainedModel, best_of
from setpoint.training.cost_path import cost_weighted_models
from setpoint.training.logistic import logistic_regressions
from setpoint.training.loop import Progress
from setpoint.training.models import is_linear, linear_state, scores_of
from setpoint.training.network_path import cross_entropy_models
from setpoint.training.problem import Problem

if TYPE_CHECKING:
    from setpoint.training.projected import Projected
    from setpoint.training.stochastic import Stochastic

RIDGES = (1e4, 1e3, 100.0, 10.0, 1.0, 0.1, 1e-3)  # 1/C of scikit-learn, the simplest model first
FEW_ROWS = 2000  # up to so many, restarts and line searches improve on any start


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
    kinds = _logistic_paths(problems[0], module)
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


def _logistic_paths(problem: Problem, module: nn.Module) -> list[list[TrainedModel]]:
    """Return plain and balanced logistic regressions, from the strongest ridge to the weakest.

    Where rows have prices of their own, there are also regressions weighted by them.
    """
    positive, weight = problem.positive, problem.sample_weight.double()
    totals = torch.stack([weight[positive].sum(), weight[~positive].sum()])
    plain, balanced = torch.ones_like(totals), totals.sum() / 2 / totals
    paths = _paths(problem, module, weight, {"": plain, ", balanced": balanced})
    if (price := problem.row_prices()) is not None:
        paths += _paths(problem, module, weight * price, {", weighted by price": plain})
    return paths


def _paths(
    problem: Problem, module: nn.Module, weight: Tensor, class_weights: dict[str, Tensor]
) -> list[list[TrainedModel]]:
    """Return logistic regressions with row weights and, by name, several class weights."""
    found = logistic_regressions(
        problem.X,
        problem.positive,
        weight,
        torch.stack(list(class_weights.values())).repeat_interleave(len(RIDGES), dim=0),
        weight.new_tensor(RIDGES * len(class_weights)),
    )
    paths = []
    by_class_weight = found.view(len(class_weights), len(RIDGES), -1)
    for suffix, thetas in zip(class_weights, by_class_weight, strict=True):
        path = []
        for ridge, theta in zip(RIDGES, thetas, strict=True):
            weights = linear_state(module, theta[:-1], theta[-1:])
            module.load_state_dict(weights)
            name = f"logistic regression, ridge {format_number(ridge)}{suffix}"
            path.append(TrainedModel(name, problem.evaluation.operating_point(module), weights))
        paths.append(path)
    return paths
