"""Training on rows in memory: they are checked and split, and a model is trained on them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor, nn

from setpoint._internal.devices import choose_device, requested_device, use_device
from setpoint._internal.processes import is_distributed
from setpoint._internal.validation import check_caution, check_fraction, check_groups
from setpoint.data.labels import Labels
from setpoint.data.splits import Rows, certification_split, validation_split
from setpoint.data.standardize import Standardizer
from setpoint.errors import SetpointError
from setpoint.estimators.base import draw_seed
from setpoint.goals.columns import GoalColumns, from_table
from setpoint.goals.goal import Goal, check_for_new_rows
from setpoint.goals.periods import longest_of
from setpoint.training import get_solver
from setpoint.training.candidates import Candidates
from setpoint.training.loop import Solution, Solver, settled, solve
from setpoint.training.models import build
from setpoint.training.models import check as check_model
from setpoint.training.problem import Problem, make_problem
from setpoint.training.stochastic import Stochastic

if TYPE_CHECKING:
    from setpoint.estimators.classifier import SetpointClassifier


@dataclass(frozen=True)
class FitSplits:
    """The rows of a fit.

    Attributes
    ----------
    seen : ndarray of int
        All rows that a model may see: those for training and validation.
    training : ndarray of int
        The training rows.
    validation : ndarray of int or None
        The validation rows; None if the training rows also choose the model and the threshold.
    certification : ndarray of int or None
        The certification rows, if there is a confidence.
    """

    seen: Rows
    training: Rows
    validation: Rows | None
    certification: Rows | None

    @classmethod
    def of(
        cls,
        classifier: SetpointClassifier,
        labels: Labels,
        positive: NDArray[np.bool_],
        weight: NDArray[np.floating],
        groups: Any,
        seed: int,
        by_period: bool,
    ) -> FitSplits:
        """Split the rows that have a weight, as the classifier's parameters ask."""
        kept, certification = weight > 0, None
        if classifier.confidence is not None:
            groups = check_groups(groups, positive.shape)
            seen, certification = certification_split(
                classifier.certification, positive, weight, groups, seed, whole_groups=by_period
            )
            kept = np.isin(np.arange(len(positive)), seen)
            labels.check_counts(positive[kept])
        everything = np.flatnonzero(kept)
        found = validation_split(classifier.validation, positive, kept, groups, seed)
        training, validation = (everything, None) if found is None else found
        return cls(everything, training, validation, certification)


@dataclass(frozen=True)
class FitData:
    """Checked rows, their splits, and the solver, device and seed of a fit."""

    X: NDArray[np.floating]
    labels: Labels
    positive: NDArray[np.bool_]
    weight: NDArray[np.floating]
    grouped: bool
    splits: FitSplits
    standardize: bool
    solver: Solver
    device: torch.device
    seed: int
    caution: float
    columns: GoalColumns
    segments: dict[str, tuple[str, ...]]

    @classmethod
    def of(
        cls,
        classifier: SetpointClassifier,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        goal: Goal,
        **named: Any,
    ) -> FitData:
        """Check the parameters of a classifier and the rows that it is given.

        ``named`` are the amounts, segments and times that the goal may name.
        """
        check_for_new_rows(goal)
        if classifier.confidence is not None:
            check_fraction(classifier.confidence, "confidence")
        caution = caution_of(classifier)
        solver = get_solver(classifier.solver)
        if classifier.callback is not None and not callable(classifier.callback):
            raise SetpointError(f"callback {classifier.callback!r} cannot be called.")
        asked = requested_device(classifier.device)
        named = from_table(X, goal, named)
        X, y = validate_data(classifier, X, y, dtype=[np.float64, np.float32])
        weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        labels = Labels.of(y, classifier.pos_label, stacklevel=4)
        positive = labels.is_positive(y)
        labels.check_counts(positive[weight > 0])
        columns = GoalColumns.of(goal, len(positive), **named)
        groups = whole_periods(groups, columns, positive.shape)
        if not 1e-9 < (mean := weight[weight > 0].mean()) < 1e9:
            raise SetpointError(f"sample_weight has a mean of {mean:.3g}; rescale it to about 1.")
        seed = draw_seed(classifier.random_state)
        # A checkpoint is of use only if the next fit holds out the same rows.
        unseeded = classifier.random_state is None and classifier.checkpoint is not None
        by_period = bool(columns.periods)
        splits = FitSplits.of(
            classifier, labels, positive, weight, groups, 0 if unseeded else seed, by_period
        )
        columns, segments = pool_segments(goal, columns, splits.seen, positive)
        device = choose_device(
            asked,
            numbers=X.size if classifier.model == "linear" else None,
            size=X.nbytes,
            distributed=isinstance(solver, Stochastic) and is_distributed(),
        )
        return cls(
            X, labels, positive, weight, groups is not None and not by_period, splits,
            classifier.standardize, solver, device, seed, caution, columns, segments,
        )  # fmt: skip

    def standardizer(self, rows: Rows) -> Standardizer | None:
        """Return the standardizer of these rows, None if features are not standardized."""
        return Standardizer.fit(self.X[rows], self.weight[rows]) if self.standardize else None

    def problem(
        self,
        goal: Goal,
        rows: Rows,
        standardizer: Standardizer | None,
        validation: Rows | None,
        on: str = "the training rows",
        caution: float = 0.0,
    ) -> Problem:
        """Return the problem of training on some rows and validating on others."""
        held_out = None
        if validation is not None:
            held_out = self.problem(
                goal, validation, standardizer, None, "the validation rows", self.caution
            )
        return make_problem(
            features_of(self.X[rows], standardizer, self.X.dtype),
            torch.from_numpy(self.positive[rows]),
            goal,
            torch.from_numpy(self.weight[rows]),
            validation=held_out,
            on=on,
            caution=caution,
            columns=self.columns.take(rows),
        )


def pool_segments(
    goal: Goal, columns: GoalColumns, rows: Rows, positive: NDArray[np.bool_] | None
) -> tuple[GoalColumns, dict[str, tuple[str, ...]]]:
    """Return the columns with small segments pooled, and the segments by column.

    ``rows`` say which segments are small, by their labels or, without these, by their number. The
    labels of certification rows must not: in segments that were selected for having many
    positives, the rows are not independent draws. Their number is not a choice of that kind.

    It is called by a function that ``fit`` calls; a warning is at the line that calls ``fit``.
    """
    known = None if positive is None else positive[rows]
    segments = columns.take(rows).large_segments(goal, known, stacklevel=5)
    return columns.keeping(segments), segments


def whole_periods(groups: Any, columns: GoalColumns, shape: tuple[int, ...]) -> Any:
    """Return groups that keep whole periods in the same split, if the goal has periods.

    A budget per day can only be judged on whole days; of several kinds, the longest count.
    """
    if not columns.periods:
        return groups
    if groups is not None:
        check_groups(groups, shape)
        raise SetpointError(
            "the goal has a budget per period, so whole periods stay in the same split; groups "
            "cannot be kept together as well. Leave groups out."
        )
    return columns.periods[longest_of(list(columns.periods))].codes


@dataclass(frozen=True)
class Trained:
    """The outcome of training.

    Attributes
    ----------
    solution : Solution
        The trained module and its operating point.
    candidates : Candidates
        Those of the selection, also if the winner was trained again.
    standardizer : Standardizer or None
        Of the rows that it was trained on.
    rows : ndarray of int
        The rows that set the threshold; ``on`` is what they are called.
    validated : Problem or None
        The problem of the validation rows if they set the threshold.
    """

    solution: Solution
    candidates: Candidates
    standardizer: Standardizer | None
    rows: Rows
    on: str
    validated: Problem | None = None


def train(classifier: SetpointClassifier, goal: Goal, data: FitData) -> Trained:
    """Train for a goal; with ``refit``, train the winner again on all rows."""
    training, validation = data.splits.training, data.splits.validation
    standardizer = data.standardizer(training)
    with use_device(data.device):
        problem = data.problem(goal, training, standardizer, validation)
        module = new_module(classifier, problem, data)
        initial = copy.deepcopy(module.state_dict())
        arguments: dict[str, Any] = {
            "seed": None if classifier.random_state is None else data.seed,
            "callback": classifier.callback,
            "checkpoint": classifier.checkpoint,
        }
        solver = settled(data.solver, problem, module)
        solution = solve(moved(problem, data.device), module, solver, **arguments)
        candidates = solution.candidates
        if classifier.refit and validation is not None and not solution.history.interrupted:
            training, validation = data.splits.seen, None
            standardizer = data.standardizer(training)
            module.load_state_dict(initial)
            problem = data.problem(goal, training, standardizer, None)
            if classifier.checkpoint is not None:  # that of the selection is kept
                arguments["checkpoint"] = Path(f"{classifier.checkpoint}.refit")
            solution = solve(
                moved(problem, data.device), module, solver, **arguments, take=candidates.winner
            )
    rows = training if validation is None else validation
    solution = on_cpu(solution, problem, data.device)
    on, validated = problem.evaluation.on, problem.validation
    return Trained(solution, candidates, standardizer, rows, on, validated)


def caution_of(classifier: SetpointClassifier) -> float:
    """Return the caution on validation rows: none if certification rows set the threshold."""
    caution = check_caution(classifier.caution)
    return caution if classifier.confidence is None else 0.0


def new_module(classifier: SetpointClassifier, problem: Problem, data: FitData) -> nn.Module:
    """Return a fresh module that takes the problem's rows, on the device of the fit."""
    torch.manual_seed(data.seed)
    module = build(classifier.model, problem.X.shape[1]).to(data.device, problem.X.dtype)
    check_module(module, problem.X, data.device)
    return module


def check_module(module: nn.Module, X: Tensor, device: torch.device) -> None:
    """Raise SetpointError if a module cannot score the first two rows on its device."""
    try:
        check_model(module, X[:2].to(device))
    except SetpointError as error:
        if device.type == "cpu":
            raise
        hint = f"This was on {device}; device='cpu' trains on the CPU."
        raise SetpointError(f"{error} {hint}") from error


def moved(problem: Problem, device: torch.device) -> Problem:
    """Return the problem with its rows on a device."""
    if device == problem.X.device:
        return problem
    validation = problem.validation
    return replace(
        problem,
        X=problem.X.to(device),
        positive=problem.positive.to(device),
        sample_weight=problem.sample_weight.to(device),
        factors=None if problem.factors is None else problem.factors.to(device),
        validation=None if validation is None else moved(validation, device),
    )


def on_cpu(solution: Solution, problem: Problem, device: torch.device) -> Solution:
    """Return a solution with its module on the CPU, and the threshold of its scores there."""
    if device.type == "cpu":
        return solution
    # A GPU rounds differently, and a threshold is exact only for the scores it was found on.
    point = problem.evaluation.operating_point(solution.module.cpu())
    return replace(solution, operating_point=point)


def features_of(
    X: NDArray[np.floating], standardizer: Standardizer | None, dtype: np.dtype[Any]
) -> Tensor:
    """Return the tensor that a model is given for these rows."""
    if standardizer is not None:
        X = standardizer.transform(X)
    return torch.from_numpy(np.ascontiguousarray(X, dtype=dtype))
