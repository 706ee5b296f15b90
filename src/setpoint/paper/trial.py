"""Do a job: split, standardise, train, and count at every threshold that a table asks for."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.data.splits import validation_split
from setpoint.data.standardize import Standardizer
from setpoint.errors import DivergedError
from setpoint.paper.data import MODELS
from setpoint.paper.datasets.dataset import Dataset
from setpoint.paper.datasets.splits import Split, honest_split, paper_split
from setpoint.paper.jobs import Job, Target
from setpoint.paper.methods import METHODS
from setpoint.thresholds.operating_point import choose_threshold, evaluate_threshold
from setpoint.training.loop import solve
from setpoint.training.models import build, scores_of
from setpoint.training.problem import Problem, make_problem

SPLITS = {"paper": paper_split, "honest": honest_split}
SELECTING_SHARE = 0.25  # of the training rows, where a method selects


class Ground(NamedTuple):
    """A split of a data set, standardised by its training rows, on a device."""

    split: Split
    X: torch.Tensor
    y: torch.Tensor


@lru_cache(maxsize=1)  # jobs come in the order of their splits
def ground(dataset: Dataset, split: str, three: bool, number: int, device: str) -> Ground:
    """Return where a trial takes place."""
    rows = SPLITS[split](dataset, number, three)
    own = dataset.X[rows.train]
    X = Standardizer.fit(own, np.ones(len(own))).transform(dataset.X)
    return Ground(rows, torch.from_numpy(X).to(device), torch.from_numpy(dataset.y).to(device))


def do(job: Job, dataset: Dataset, device: str = "cpu") -> dict[str, Any]:
    """Return what came of a job: counts by goal, rule of the threshold, and part.

    A training that diverges from the start has none, and ranks last in its grid.
    """
    started = time.perf_counter()
    counts: list[dict[str, Any]] = []
    diverged = False
    try:
        counts = _train_and_count(job, dataset, device)
    except DivergedError:
        diverged = True
    return {
        "job": job.to_dict(),
        "solver": repr(job.solver),
        "source": dataset.source,
        "seconds": round(time.perf_counter() - started, 3),
        "counts": counts,
        "diverged": diverged,
    }


def _train_and_count(job: Job, dataset: Dataset, device: str) -> list[dict[str, Any]]:
    split, X, y = ground(dataset, job.split, job.three, job.trial, device)
    torch.manual_seed(job.trial)
    module = build(MODELS.get(job.dataset, "linear"), X.shape[1])
    if isinstance(module, torch.nn.Linear):
        module.reset_parameters()  # ours start at zero, the paper's anywhere
    module = module.to(device)
    if job.target is None:
        _train_to_the_end(job, _problem(X, y, split.train, job.targets[0]), module)
        threshold = 0.0
    else:
        training, selecting = split.train, None
        if METHODS[job.method].selects:
            training, selecting = _with_selection(dataset, split, job.trial)
        validation = None if selecting is None else _problem(X, y, selecting, job.target)
        problem = _problem(X, y, training, job.target, validation)
        threshold = _solve(job, problem, module)
    scores = scores_of(module, X).cpu().numpy()
    if np.isnan(scores).any():
        raise DivergedError("the model's scores are not numbers.")
    return [
        row
        for target in job.targets
        for row in _evaluate(target, dataset.y, scores, split, threshold)
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
    """Train without a look at any goal; the last iterate is the result."""
    torch.manual_seed(job.trial)
    run = job.solver.prepare(problem, module)
    run.start()
    for iteration in range(1, job.solver.outer_iterations + 1):
        run.advance(iteration)


def _solve(job: Job, problem: Problem, module: torch.nn.Module) -> float:
    """Train for the goal and return the threshold; Ctrl-C ends the job, not the training alone."""
    solution = solve(problem, module, job.solver, seed=job.trial)
    if solution.history.interrupted and not solution.history.diverged:
        # The best model so far is kept for a user at work; here it would pass for a finished job.
        raise KeyboardInterrupt
    return solution.operating_point.threshold


def _with_selection(
    dataset: Dataset, split: Split, trial: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return training and selecting rows: the validation part, or a share of the training part."""
    if split.validation is not None:
        return split.train, split.validation
    rows = split.train
    groups = None if dataset.groups is None else dataset.groups[rows]
    kept = np.ones(len(rows), dtype=bool)
    found = validation_split(SELECTING_SHARE, dataset.y[rows], kept, groups, trial)
    assert found is not None
    training, selecting = found
    return rows[training], rows[selecting]


def _evaluate(
    target: Target,
    y: NDArray[np.bool_],
    scores: NDArray[np.float32],
    split: Split,
    threshold: float,
) -> list[dict[str, Any]]:
    """Count at the model's own threshold and at the adjusted ones (TA)."""
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    parts = {name: rows for name, rows in parts.items() if rows is not None}
    goal = target.goal
    thresholds = {"own": threshold}
    for name, rows in parts.items():
        if name != "test":
            thresholds[name] = choose_threshold(y[rows], scores[rows], goal).threshold
    counts = []
    for rule, at in thresholds.items():
        for name, rows in parts.items():
            point = evaluate_threshold(y[rows], scores[rows], at, goal)
            counts.append(
                {
                    "kind": target.kind,
                    "alpha": target.alpha,
                    "threshold": rule,
                    "part": name,
                    **{k: int(getattr(point, k)) for k in ("tp", "fp", "fn", "tn")},
                }
            )
    return counts
