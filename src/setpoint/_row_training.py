"""Training on rows in memory that are parted already."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setpoint._device import working_on
from setpoint._standardize import Standardizer
from setpoint._validation import Rows
from setpoint.errors import SetpointError
from setpoint.goals import Goal
from setpoint.models import build
from setpoint.models import check as check_model
from setpoint.solvers import (
    Candidates,
    Problem,
    Solution,
    Solver,
    make_problem,
    settled,
    solve,
    solve_goals,
)

if TYPE_CHECKING:
    from setpoint.estimators import SetpointClassifier


@dataclass(frozen=True)
class Parts:
    """Which rows do what.

    ``seen`` are all that a model may see; ``judging`` is None where the training rows judge.
    """

    seen: Rows
    training: Rows
    judging: Rows | None
    certifying: Rows | None


@dataclass(frozen=True)
class Trained:
    """What training found, on which rows the threshold was set, and what they are called.

    ``candidates`` are those of the selection, also where the winner was trained again.
    """

    solution: Solution
    candidates: Candidates
    standardizer: Standardizer | None
    judges: Rows
    on: str


def train(
    classifier: SetpointClassifier,
    data: Data,
    goal: Goal,
    parts: Parts,
    solver: Solver,
    seed: int,
    device: torch.device,
) -> Trained:
    """Train, and train the winner again on all rows where that is asked for."""
    training, judging = parts.training, parts.judging
    standardizer = data.standardizer(training)
    with working_on(device):
        problem = data.problem(goal, training, standardizer, judging)
        module = _new_module(classifier, problem, seed, device)
        initial = copy.deepcopy(module.state_dict())
        arguments: dict[str, Any] = {
            "seed": None if classifier.random_state is None else seed,
            "callback": classifier.callback,
            "checkpoint": classifier.checkpoint,
        }
        solver = settled(solver, problem)
        solution = solve(_moved(problem, device), module, solver, **arguments)
        candidates = solution.candidates
        if classifier.refit and judging is not None and not solution.history.interrupted:
            training, judging = parts.seen, None
            standardizer = data.standardizer(training)
            module.load_state_dict(initial)
            problem = data.problem(goal, training, standardizer, None)
            if classifier.checkpoint is not None:  # the finished selection stays where it is
                arguments["checkpoint"] = Path(f"{classifier.checkpoint}.refit")
            solution = solve(
                _moved(problem, device), module, solver, **arguments, take=candidates.winner
            )
    judges = training if judging is None else judging
    solution = _on_cpu(solution, problem, device)
    return Trained(solution, candidates, standardizer, judges, problem.judge.on)


def train_goals(
    classifier: SetpointClassifier,
    data: Data,
    goals: list[Goal],
    parts: Parts,
    solver: Solver,
    seed: int,
    device: torch.device,
) -> list[Trained]:
    """Train for several goals at once."""
    standardizer = data.standardizer(parts.training)
    with working_on(device):
        problem = data.problem(goals[0], parts.training, standardizer, parts.judging)
        solutions = solve_goals(
            _moved(problem, device),
            goals,
            _new_module(classifier, problem, seed, device),
            solver,
            seed=None if classifier.random_state is None else seed,
            callback=classifier.callback,
        )
    judges = parts.training if parts.judging is None else parts.judging
    trained = []
    for solution, goal in zip(solutions, goals, strict=True):
        solution = _on_cpu(solution, problem.for_goal(goal), device)
        candidates, on = solution.candidates, problem.judge.on
        trained.append(Trained(solution, candidates, standardizer, judges, on))
    return trained


def _new_module(
    classifier: SetpointClassifier, problem: Problem, seed: int, device: torch.device
) -> nn.Module:
    torch.manual_seed(seed)
    module = build(classifier.model, problem.X.shape[1]).to(device, problem.X.dtype)
    check_on(device, module, problem.X)
    return module


def _on_cpu(solution: Solution, problem: Problem, device: torch.device) -> Solution:
    """Return a solution whose module, and whose threshold's scores, are on the CPU."""
    if device.type == "cpu":
        return solution
    # A GPU rounds otherwise, and a threshold is exact only for the scores it was found on.
    point = problem.judge.operating_point(solution.module.cpu())
    return replace(solution, operating_point=point)


def check_on(device: torch.device, module: nn.Module, X: Tensor) -> None:
    """Try the module on two rows, where it will be trained."""
    try:
        check_model(module, X[:2].to(device))
    except SetpointError as error:
        if device.type == "cpu":
            raise
        hint = f"This was on {device}; with device='cpu' it is trained on the CPU."
        raise SetpointError(f"{error} {hint}") from error


def _moved(problem: Problem, device: torch.device) -> Problem:
    """Return the problem with its rows on a device."""
    if device == problem.X.device:
        return problem
    judge = problem.validation
    return replace(
        problem,
        X=problem.X.to(device),
        positive=problem.positive.to(device),
        sample_weight=problem.sample_weight.to(device),
        validation=None if judge is None else _moved(judge, device),
    )


@dataclass(frozen=True)
class Data:
    """The data of a fit, from which problems are made."""

    X: NDArray[np.floating]
    positive: NDArray[np.bool_]
    weight: NDArray[np.floating]
    standardize: bool

    def standardizer(self, rows: Rows) -> Standardizer | None:
        """Return what brings features to the scale of these rows, where that is asked for."""
        return Standardizer.fit(self.X[rows], self.weight[rows]) if self.standardize else None

    def problem(
        self,
        goal: Goal,
        rows: Rows,
        standardizer: Standardizer | None,
        judging: Rows | None,
        on: str = "the training data",
    ) -> Problem:
        """Return the problem of these rows, with others to judge it."""
        judge = None
        if judging is not None:
            judge = self.problem(goal, judging, standardizer, None, on="the validation data")
        return make_problem(
            features_of(self.X[rows], standardizer, self.X.dtype),
            torch.from_numpy(self.positive[rows]),
            goal,
            torch.from_numpy(self.weight[rows]),
            validation=judge,
            on=on,
        )


def features_of(
    X: NDArray[np.floating], standardizer: Standardizer | None, dtype: np.dtype[Any]
) -> Tensor:
    """Return the tensor that a model is given for these rows."""
    if standardizer is not None:
        X = standardizer.transform(X)
    return torch.from_numpy(np.ascontiguousarray(X, dtype=dtype))
