"""How rows in memory are checked, parted, and certified with."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor, nn

from setpoint._internal.devices import choose_device, requested_device, use_device
from setpoint._internal.processes import is_distributed
from setpoint._internal.validation import check_fraction, check_groups
from setpoint.certificates import sequence
from setpoint.data.labels import Labels
from setpoint.data.splits import Rows, certifying_split, split
from setpoint.data.standardize import Standardizer
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import evaluate_threshold
from setpoint.training import get_solver
from setpoint.training.candidates import Candidates
from setpoint.training.loop import Solution, Solver, settled, solve
from setpoint.training.models import build
from setpoint.training.models import check as check_model
from setpoint.training.problem import Problem, make_problem
from setpoint.training.several_goals import solve_goals
from setpoint.training.stochastic import Stochastic

if TYPE_CHECKING:
    from setpoint.estimators.classifier import SetpointClassifier


def fit_classifiers(
    classifiers: Sequence[SetpointClassifier], X: Any, y: Any, sample_weight: Any, groups: Any
) -> None:
    """Check what is given and train classifiers that differ in their goals alone, all at once.

    See :meth:`setpoint.SetpointClassifier.fit`.
    """
    for classifier in classifiers:
        Goal.parse(classifier.goal)
    first = classifiers[0]
    if first.confidence is not None:
        check_fraction(first.confidence, "confidence")
    solver = get_solver(first.solver)
    if first.callback is not None and not callable(first.callback):
        raise SetpointError(f"callback {first.callback!r} cannot be called.")
    device = requested_device(first.device)
    given = X
    X, y = validate_data(first, given, y, dtype=[np.float64, np.float32])
    for other in classifiers[1:]:
        validate_data(other, given, skip_check_array=True)
    weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    _fit_rows(classifiers, X, y, weight, groups, solver, device)


def _fit_rows(
    classifiers: Sequence[SetpointClassifier],
    X: NDArray[np.floating],
    y: NDArray[Any],
    weight: NDArray[np.floating],
    groups: Any,
    solver: Solver,
    asked: torch.device | None,
) -> None:
    """Train on checked rows. Solver and device are the classifiers', as objects."""
    classifier, goals = classifiers[0], [Goal.parse(c.goal) for c in classifiers]
    labels = Labels.of(y, classifier.pos_label)
    positive = labels.is_positive(y)
    labels.check_counts(positive[weight > 0])
    if not 1e-9 < (mean := weight[weight > 0].mean()) < 1e9:
        raise SetpointError(f"sample_weight has a mean of {mean:.3g}; rescale it to about 1.")
    seed = int(check_random_state(classifier.random_state).randint(2**31 - 1))
    # A checkpoint is of use only if the next fit holds out the same rows.
    unseeded = classifier.random_state is None and classifier.checkpoint is not None
    parts = _parts(classifier, labels, positive, weight, groups, 0 if unseeded else seed)
    device = choose_device(
        asked,
        numbers=X.size if classifier.model == "linear" else None,
        size=X.nbytes,
        distributed=isinstance(solver, Stochastic) and is_distributed(),
    )
    data = Data(X, positive, weight, classifier.standardize)
    if len(goals) == 1:
        found = [train(classifier, data, goals[0], parts, solver, seed, device)]
    else:
        found = train_goals(classifier, data, goals, parts, solver, seed, device)
    for one, goal, trained in zip(classifiers, goals, found, strict=True):
        _finish(one, goal, trained, data, parts, labels, grouped=groups is not None)


def _finish(
    classifier: SetpointClassifier,
    goal: Goal,
    found: Trained,
    data: Data,
    parts: Parts,
    labels: Labels,
    grouped: bool,
) -> None:
    """Give a classifier what training found, and certify it where that is asked for."""
    X, positive = data.X, data.positive
    classifier._take(labels, goal, found.solution, found.standardizer, X.dtype)
    classifier.candidates_ = found.candidates
    judges = found.judges
    if parts.certifying is not None:
        judged = parts.certifying
        plans, tests = (
            sequence.Rows.of(positive[rows], classifier._logits(X[rows]))
            for rows in (judges, judged)
        )
        classifier._certify(plans, tests, goal, grouped)
        classifier._judged = positive[judged], classifier._scores(X[judged])
        return
    classifier._judged = positive[judges], classifier._scores(X[judges])
    classifier.operating_point_ = evaluate_threshold(
        *classifier._judged,
        0.0,
        goal,
        sample_weight=data.weight[judges],
        on=found.on,
    )


def _parts(
    classifier: SetpointClassifier,
    labels: Labels,
    positive: NDArray[np.bool_],
    weight: NDArray[np.floating],
    groups: Any,
    seed: int,
) -> Parts:
    kept, certifying = weight > 0, None
    if classifier.confidence is not None:
        groups = check_groups(groups, positive.shape)
        seen, certifying = certifying_split(
            classifier.certification, positive, weight, groups, seed
        )
        kept = np.isin(np.arange(len(positive)), seen)
        labels.check_counts(positive[kept])
    everything = np.flatnonzero(kept)
    found = split(classifier.validation, positive, kept, groups, seed)
    training, judging = (everything, None) if found is None else found
    return Parts(everything, training, judging, certifying)


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
    with use_device(device):
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
    with use_device(device):
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


# DOC of _row_training: Training on rows in memory that are parted already.
