"""A classifier trained on a stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from setpoint._internal.arrays import one_of_each
from setpoint._internal.devices import stream_device, use_device
from setpoint._internal.processes import all_gather, broadcast, join_process_group
from setpoint._internal.validation import check_fraction
from setpoint.certificates.sequence import Rows
from setpoint.data.labels import Labels
from setpoint.data.loaders import check_passes
from setpoint.data.rows import RowSource, check_sources
from setpoint.data.splits import CERTIFYING, JUDGING, TRAINING, ByChance, Parting
from setpoint.data.standardize import Standardizer, standardizer_of
from setpoint.errors import InfeasibleGoalWarning, SetpointError
from setpoint.estimators.fitting import check_on
from setpoint.estimators.outputs import tell
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.stream import stream_threshold
from setpoint.training import get_solver
from setpoint.training.loop import Solver, solve
from setpoint.training.models import build, scores_of
from setpoint.training.projected import Projected
from setpoint.training.stochastic import Stochastic
from setpoint.training.stream_problem import StreamProblem

if TYPE_CHECKING:
    from setpoint.estimators.classifier import SetpointClassifier


_JUDGING = 0.25  # as for rows in memory


def fit_stream(
    classifier: SetpointClassifier,
    source: RowSource,
    validation: RowSource | None,
    parting: Parting | None = None,
) -> None:
    """Train a classifier; see :meth:`setpoint.SetpointClassifier.fit_stream`.

    A ``parting`` that is given decides which rows judge and certify, and the classifier's shares do
    not; others than those two and the training rows are not looked at.
    """
    join_process_group()
    goal, solver = Goal.parse(classifier.goal), _solver_of(classifier.solver)
    device = stream_device(classifier.device)
    if classifier.refit:
        raise SetpointError("refit is for rows in memory; leave it at False for a stream.")
    check_sources(source, validation)
    seed = broadcast(int(check_random_state(classifier.random_state).randint(2**31 - 1)))
    # A checkpoint is of use only if the next fit holds out the same rows.
    split_seed = 0 if classifier.random_state is None else seed
    parting = parting or ByChance(
        0.0 if validation is not None else _judging_share(classifier.validation),
        _certifying_share(classifier),
        seed=split_seed,
    )
    check_passes(source, validation, parting)
    problem = StreamProblem(source, goal, parting, validation, shards=solver.shards or 4)
    n_features = _width(problem)
    standardizer = standardizer_of(problem.part(TRAINING)) if classifier.standardize else None
    if standardizer is not None:
        problem = replace(problem, transform=_transform(standardizer))
    with use_device(device):
        torch.manual_seed(seed)
        module = build(classifier.model, n_features).to(device, torch.float32)
        check_on(device, module, torch.zeros(2, n_features))
        solution = solve(
            replace(problem, device=device),
            module,
            solver,
            seed=None if classifier.random_state is None else seed,
            callback=classifier.callback,
            checkpoint=classifier.checkpoint,
        )
    if device.type != "cpu":
        # A GPU rounds otherwise, and a threshold is exact only for the scores it was found on.
        module.cpu()
        point = _exact_point(module, problem, solution.operating_point.on)
        solution = replace(solution, operating_point=point)
    classifier._take(_labels(source), goal, solution, standardizer, np.dtype(np.float32))
    classifier.candidates_ = solution.candidates
    classifier.n_features_in_ = n_features
    names = getattr(source, "features", None)
    if names is not None:
        classifier.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(classifier, "feature_names_in_"):
        del classifier.feature_names_in_  # of an earlier fit
    if classifier.confidence is not None:
        _certify(classifier, problem, goal, split_seed)
        return
    classifier.operating_point_ = replace(solution.operating_point, threshold=0.0)
    if not classifier.operating_point_.feasible or classifier.operating_point_.empty:
        warnings.warn(classifier.operating_point_.message, InfeasibleGoalWarning, stacklevel=3)


def _exact_point(module: nn.Module, problem: StreamProblem, on: str) -> OperatingPoint:
    """Return what the module does at its exact threshold on the rows that judge."""

    def scan() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for block in problem.part(_judges(problem)):
            yield block.positive, scores_of(module, block.X), block.weight

    return stream_threshold(scan, problem.goal, on=on)


def _judges(problem: StreamProblem) -> int:
    return JUDGING if problem.judged_apart else TRAINING


def _certify(classifier: SetpointClassifier, problem: StreamProblem, goal: Goal, seed: int) -> None:
    """Find the best threshold that can be promised; the scores of these rows come into memory."""
    parts = (_judges(problem), CERTIFYING)
    plans, tests = (_scored(classifier, problem, part) for part in parts)
    if len(np.unique(tests.weight)) > 1:
        raise SetpointError(
            "a certificate counts independent rows, and these have different weights; leave the "
            "weights out, or use confidence=None."
        )
    grouped = len(np.unique(tests.unit)) < len(tests.unit)
    if grouped:
        tests = tests.rows(one_of_each(tests.unit, seed))
    planning, testing = (Rows.of(part.positive, part.logits) for part in (plans, tests))
    tell(classifier._certify(planning, testing, goal, grouped=grouped))


class _Scored(NamedTuple):
    positive: NDArray[np.bool_]
    logits: NDArray[np.floating]
    weight: NDArray[np.floating]
    unit: NDArray[np.int64]

    def rows(self, which: NDArray[np.intp]) -> _Scored:
        positive, logits, weight, unit = self
        return _Scored(positive[which], logits[which], weight[which], unit[which])


def _scored(classifier: SetpointClassifier, problem: StreamProblem, part: int) -> _Scored:
    """Return labels and scores of all processes' rows, in the order of their numbers."""
    found = []
    for block in problem.part(part):
        logits = scores_of(classifier.module_, block.X).cpu().numpy()
        fields = (block.positive, block.weight, block.unit, block.number)
        positive, weight, unit, number = (f.cpu().numpy() for f in fields)
        found.append((positive, logits, weight, unit, number))
    parts = [np.concatenate(fields) for fields in zip(*found, strict=True)]
    every = [np.concatenate(fields) for fields in zip(*all_gather(parts), strict=True)]
    order = np.argsort(every[-1])
    return _Scored(*(field[order] for field in every[:-1]))


def _solver_of(solver: str | Solver) -> Stochastic:
    """Return the solver for a stream: the default one becomes the stochastic one."""
    found = get_solver(solver)
    if isinstance(found, Projected) and solver == "projected":
        return Stochastic()
    if not isinstance(found, Stochastic):
        raise SetpointError(
            f"a stream is trained by the solver 'stochastic', not by {solver!r}; leave it out, or "
            "pass a setpoint.training.Stochastic."
        )
    return found


def _judging_share(validation: Any) -> float:
    if validation is None:
        return 0.0
    if validation == "auto":
        return _JUDGING
    if not isinstance(validation, Real):
        raise SetpointError(
            "of a stream a share judges (validation=0.25), or rows of their own, as a source: "
            "fit_stream(source, validation=other)."
        )
    return check_fraction(validation, "validation")


def _certifying_share(classifier: SetpointClassifier) -> float:
    if classifier.confidence is None:
        return 0.0
    check_fraction(classifier.confidence, "confidence")
    return check_fraction(classifier.certification, "certification")


def _width(problem: StreamProblem) -> int:
    shape = problem.row_shape()
    if len(shape) != 1:
        raise SetpointError(
            f"a classifier takes rows of features, and these have the shape {tuple(shape)}; train "
            "a module on them with setpoint.training.train."
        )
    return shape[0]


def _transform(standardizer: Standardizer) -> Callable[[Tensor], Tensor]:
    """Return the same for tensors, to the last bit."""
    centre, scale = torch.from_numpy(standardizer.centre), torch.from_numpy(standardizer.scale)
    return lambda X: ((X.double() - centre.to(X.device)) / scale.to(X.device)).float()


def _labels(source: RowSource) -> Labels:
    negative, positive = getattr(source, "classes", (0, 1))
    if negative is None:
        raise SetpointError(f"all labels are {positive!r}; a classifier needs both classes.")
    classes = np.array(sorted((negative, positive)))
    return Labels(classes, int(np.flatnonzero(classes == positive)[0]))
