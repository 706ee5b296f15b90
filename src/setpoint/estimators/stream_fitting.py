"""Training on rows that come in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint._internal.devices import stream_device, use_device
from setpoint._internal.processes import (
    all_gather,
    all_reduce_sum,
    broadcast,
    join_process_group,
)
from setpoint._internal.validation import check_fraction, one_row_per_group
from setpoint.certificates.sequence import Rows
from setpoint.data.labels import Labels
from setpoint.data.loaders import check_passes
from setpoint.data.rows import RowSource, check_sources
from setpoint.data.splits import (
    CERTIFICATION,
    TRAINING,
    VALIDATION,
    VALIDATION_FRACTION,
    ByChance,
    SplitRule,
)
from setpoint.data.standardize import Standardizer, standardizer_of
from setpoint.errors import SetpointError
from setpoint.estimators.base import draw_seed
from setpoint.estimators.fitting import caution_of, check_module
from setpoint.goals.goal import Goal, check_for_new_rows
from setpoint.thresholds.caution import Cautious
from setpoint.thresholds.stream import stream_threshold
from setpoint.training import get_solver
from setpoint.training.loop import Solver, solve
from setpoint.training.models import build, scores_of
from setpoint.training.projected import Projected
from setpoint.training.stochastic import Stochastic
from setpoint.training.stream_problem import StreamProblem, check_goal

if TYPE_CHECKING:
    from setpoint.estimators.classifier import SetpointClassifier


def fit_stream(
    classifier: SetpointClassifier,
    source: RowSource,
    validation: RowSource | None,
    split: SplitRule | None = None,
) -> None:
    """Train a classifier; see :meth:`setpoint.SetpointClassifier.fit_stream`.

    A ``split`` replaces the fractions of validation and certification rows that the classifier
    asks for; test rows are not read.
    """
    goal, solver = Goal.parse(classifier.goal), _solver_of(classifier.solver)
    check_for_new_rows(goal)
    check_goal(goal)
    join_process_group()
    device = stream_device(classifier.device)
    if classifier.refit:
        raise SetpointError("refit is for rows in memory; leave it at False for a stream.")
    check_sources(source, validation)
    seed = broadcast(draw_seed(classifier.random_state))
    # A checkpoint is of use only if the next fit holds out the same rows.
    split_seed = 0 if classifier.random_state is None else seed
    split = split or _split_rule(classifier, validation, split_seed)
    check_passes(source, validation, split)
    problem = StreamProblem(source, goal, split, validation, shards=solver.shards or 4)
    n_features = _width(problem)
    standardizer = standardizer_of(problem.part(TRAINING)) if classifier.standardize else None
    ranking = _ranking(classifier, problem)
    if standardizer is not None:
        problem = replace(problem, transform=_transform(standardizer))
    problem = replace(problem, ranking=ranking)
    with use_device(device):
        torch.manual_seed(seed)
        module = build(classifier.model, n_features).to(device, torch.float32)
        check_module(module, torch.zeros(2, n_features), device)
        solution = solve(
            replace(problem, device=device),
            module,
            solver,
            seed=None if classifier.random_state is None else seed,
            callback=classifier.callback,
            checkpoint=classifier.checkpoint,
        )
    choosing = VALIDATION if problem.has_validation else TRAINING  # the rows that set the threshold
    if device.type != "cpu":
        # A GPU rounds differently, and a threshold is exact only for the scores it was found on.
        module.cpu()

        def scan() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for block in problem.part(choosing):
                yield block.positive, scores_of(module, block.X), block.weight

        point = stream_threshold(scan, goal, on=solution.operating_point.on, ranking=ranking)
        solution = replace(solution, operating_point=point)
    labels = _labels(source)
    classifier._set_solution(goal, labels, solution, standardizer, np.dtype(np.float32))
    classifier.n_features_in_ = n_features
    names = getattr(source, "features", None)
    if names is not None:
        classifier.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(classifier, "feature_names_in_"):
        del classifier.feature_names_in_  # of an earlier fit
    if classifier.confidence is None:
        classifier.operating_point_ = replace(solution.operating_point, threshold=0.0)
    else:
        _certify(classifier, problem, choosing, split_seed)
    classifier._warn_if_unmet(stacklevel=4)


def _ranking(classifier: SetpointClassifier, problem: StreamProblem) -> Cautious | None:
    """Return the ranking of thresholds on validation rows, whose weights take a pass."""
    caution = caution_of(classifier)
    if not (caution and problem.goal.constraints and problem.has_validation):
        return None
    sums = torch.zeros(2, 2, dtype=torch.float64)  # of weights and their squares, by class
    for block in problem.part(VALIDATION):
        for i, own in enumerate((block.positive, ~block.positive)):
            weight = block.weight[own].double()
            sums[:, i] += torch.stack([weight.sum(), (weight * weight).sum()]).cpu()
    all_reduce_sum(sums)
    (P, N), (of_positives, of_negatives) = sums.tolist()
    row_weights = (of_positives / P if P else 1.0, of_negatives / N if N else 1.0)
    return Cautious(problem.goal, caution, row_weights)


def _certify(
    classifier: SetpointClassifier, problem: StreamProblem, choosing: int, seed: int
) -> None:
    """Set the best threshold that can be certified, with the scores of its rows in memory."""
    positive, logits, *_ = _scored(classifier, problem, choosing)
    planning = Rows.of(positive, logits)
    positive, logits, weight, unit = _scored(classifier, problem, CERTIFICATION)
    if len(np.unique(weight)) > 1:
        raise SetpointError(
            "a certificate counts independent rows, and these have different weights; leave the "
            "weights out, or use confidence=None."
        )
    grouped = len(np.unique(unit)) < len(unit)
    if grouped:
        rows = one_row_per_group(unit, seed)
        positive, logits = positive[rows], logits[rows]
    classifier._certify(planning, Rows.of(positive, logits), grouped)


def _scored(
    classifier: SetpointClassifier, problem: StreamProblem, part: int
) -> list[NDArray[Any]]:
    """Return labels, logits, weights and units of all processes' rows, ordered by number."""
    found = []
    for block in problem.part(part):
        logits = scores_of(classifier.module_, block.X)
        fields = (block.positive, logits, block.weight, block.unit, block.number)
        found.append([field.cpu().numpy() for field in fields])
    own = [np.concatenate(fields) for fields in zip(*found, strict=True)]
    every = [np.concatenate(fields) for fields in zip(*all_gather(own), strict=True)]
    order = np.argsort(every[-1])
    return [field[order] for field in every[:-1]]


def _solver_of(solver: str | Solver) -> Stochastic:
    """Return the solver for a stream: stochastic instead of the default one."""
    found = get_solver(solver)
    if isinstance(found, Projected) and solver == "projected":
        return Stochastic()
    if not isinstance(found, Stochastic):
        raise SetpointError(
            f"a stream needs the solver 'stochastic', not {solver!r}; leave it out, or pass a "
            "setpoint.training.Stochastic."
        )
    return found


def _split_rule(
    classifier: SetpointClassifier, validation: RowSource | None, seed: int
) -> ByChance:
    """Return the random split with the fractions that the classifier asks for."""
    fraction, certification = classifier.validation, 0.0
    if validation is not None or fraction is None:
        fraction = 0.0
    elif isinstance(fraction, str) and fraction == "auto":
        fraction = VALIDATION_FRACTION
    elif isinstance(fraction, Real):
        check_fraction(fraction, "validation")
    else:
        raise SetpointError(
            "validation of a stream must be a fraction, e.g. 0.25, or a source of other rows: "
            "fit_stream(source, validation=other)."
        )
    if classifier.confidence is not None:
        check_fraction(classifier.confidence, "confidence")
        certification = check_fraction(classifier.certification, "certification")
    return ByChance(float(fraction), certification, seed=seed)


def _width(problem: StreamProblem) -> int:
    shape = problem.row_shape()
    if len(shape) != 1:
        raise SetpointError(
            f"a classifier takes rows of features, and these have the shape {tuple(shape)}; use "
            "setpoint.training.train to train a module on them."
        )
    return shape[0]


def _transform(standardizer: Standardizer) -> Callable[[Tensor], Tensor]:
    """Return the standardizer's function for tensors, equal to the last bit."""
    centre, scale = torch.from_numpy(standardizer.centre), torch.from_numpy(standardizer.scale)
    return lambda X: ((X.double() - centre.to(X.device)) / scale.to(X.device)).float()


def _labels(source: RowSource) -> Labels:
    negative, positive = getattr(source, "classes", (0, 1))
    if negative is None:
        raise SetpointError(f"all labels are {positive!r}; a classifier needs both classes.")
    if several := getattr(source, "positive_labels", ()):
        return Labels(np.array([negative, positive]), 1, positive_labels=tuple(several))
    classes = np.array(sorted((negative, positive)))
    return Labels(classes, int(np.flatnonzero(classes == positive)[0]))
