"""Run a job: split, standardize, train, and count at every threshold that a table needs."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.data.splits import validation_split
from setpoint.data.standardize import Standardizer
from setpoint.errors import DivergedError
from setpoint.paper.datasets.dataset import Dataset, Split, honest_split, paper_split
from setpoint.paper.jobs import COUNTS, Job, Target
from setpoint.paper.methods import METHODS, model_of
from setpoint.thresholds.choose import choose_threshold, evaluate_threshold
from setpoint.training.loop import settled, solve
from setpoint.training.models import build, scores_of
from setpoint.training.problem import Problem, make_problem

SPLITS = {"paper": paper_split, "honest": honest_split}
SELECTION_FRACTION = 0.25  # of the training rows, for methods that select


class SplitRows(NamedTuple):
    """A split of a data set, standardized by its training rows, on a device."""

    split: Split
    X: torch.Tensor
    y: torch.Tensor


@lru_cache(maxsize=1)  # jobs are ordered by split
def split_rows(dataset: Dataset, split: str, three: bool, trial: int, device: str) -> SplitRows:
    """Return the rows of a trial."""
    rows = SPLITS[split](dataset, trial, three)
    training = dataset.X[rows.train]
    X = Standardizer.fit(training, np.ones(len(training))).transform(dataset.X)
    return SplitRows(rows, torch.from_numpy(X).to(device), torch.from_numpy(dataset.y).to(device))


def run_job(job: Job, dataset: Dataset, device: str = "cpu") -> dict[str, Any]:
    """Return the result of a job: counts by goal, threshold rule and subset of the rows.

    A training that diverges has no counts, and ranks last in its grid.
    """
    started = time.perf_counter()
    counts: list[dict[str, Any]] = []
    diverged = False
    try:
        counts = _train_and_count(job, dataset, device)
    except DivergedError:
        diverged = True
    return {
        "job": asdict(job),
        "solver": repr(job.solver),
        "source": dataset.source,
        "seconds": round(time.perf_counter() - started, 3),
        "counts": counts,
        "diverged": diverged,
    }


def _train_and_count(job: Job, dataset: Dataset, device: str) -> list[dict[str, Any]]:
    split, X, y = split_rows(dataset, job.split, job.three, job.trial, device)
    torch.manual_seed(job.trial)
    module = build(model_of(job.dataset), X.shape[1])
    if isinstance(module, torch.nn.Linear):
        module.reset_parameters()  # this package starts at zero, the paper at random
    module = module.to(device)
    if job.target is None:
        _train_to_the_end(job, _problem(X, y, split.train, job.targets[0]), module)
        threshold = 0.0
    else:
        training, selection = split.train, None
        if METHODS[job.method].selects:
            training, selection = _with_selection(dataset, split, job.trial)
        validation = None if selection is None else _problem(X, y, selection, job.target)
        problem = _problem(X, y, training, job.target, validation)
        solution = solve(problem, module, job.solver, seed=job.trial)
        if solution.history.interrupted and not solution.history.diverged:
            # Ctrl-C: the best model so far must not pass for the result of a finished job.
            raise KeyboardInterrupt
        threshold = solution.operating_point.threshold
    scores = scores_of(module, X).cpu().numpy()
    if np.isnan(scores).any():
        raise DivergedError("the model's scores are NaN.")
    return [
        row for target in job.targets for row in _count(target, dataset.y, scores, split, threshold)
    ]


def _problem(
    X: torch.Tensor,
    y: torch.Tensor,
    rows: NDArray[np.intp],
    target: Target,
    validation: Problem | None = None,
) -> Problem:
    chosen = torch.from_numpy(rows).to(X.device)
    return make_problem(X[chosen], y[chosen], target.goal, validation=validation)


def _train_to_the_end(job: Job, problem: Problem, module: torch.nn.Module) -> None:
    """Train without evaluating any goal; the last iterate is the result."""
    torch.manual_seed(job.trial)
    solver = settled(job.solver, problem, module)
    run = solver.prepare(problem, module)
    run.start()
    for iteration in range(1, (solver.outer_iterations or 0) + 1):
        run.advance(iteration)


def _with_selection(
    dataset: Dataset, split: Split, trial: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return training and selection rows: the validation rows, or some of the training rows."""
    if split.validation is not None:
        return split.train, split.validation
    rows = split.train
    groups = None if dataset.groups is None else dataset.groups[rows]
    all_rows = np.ones(len(rows), dtype=bool)
    found = validation_split(SELECTION_FRACTION, dataset.y[rows], all_rows, groups, trial)
    assert found is not None
    training, selection = found
    return rows[training], rows[selection]


def _count(
    target: Target,
    y: NDArray[np.bool_],
    scores: NDArray[np.float32],
    split: Split,
    threshold: float,
) -> list[dict[str, Any]]:
    """Count at the model's own threshold and at the adjusted ones (TA)."""
    subsets = {"train": split.train, "validation": split.validation, "test": split.test}
    subsets = {name: rows for name, rows in subsets.items() if rows is not None}
    goal = target.goal
    thresholds = {"own": threshold}
    for name, rows in subsets.items():
        if name != "test":
            thresholds[name] = choose_threshold(y[rows], scores[rows], goal).threshold
    counts = []
    for rule, at in thresholds.items():
        for name, rows in subsets.items():
            point = evaluate_threshold(y[rows], scores[rows], at, goal)
            counts.append(
                {
                    "kind": target.kind,
                    "alpha": target.alpha,
                    "threshold": rule,
                    "part": name,
                    **{count: int(getattr(point, count)) for count in COUNTS},
                }
            )
    return counts
