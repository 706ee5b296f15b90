"""Time to the same training objective: the projected solver and Algorithm 1 of the paper.

    python benchmarks/bench_objective.py [--device cuda] [--trials 3]

The data are the ADE features (60 % of the rows, as in the paper's training split); the model is
linear. For each goal, Algorithm 1 as printed is trained to its end or for --limit
seconds. The projected solver must then reach its best training objective; the time includes
ordinary training. Unlike in the paper, Algorithm 1 gets our exact threshold at every evaluation.

On a GPU Algorithm 1 is run twice: as in the paper, with every operation launched separately, and
with its steps replayed as CUDA graphs. On a CPU it is run once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from setpoint._internal.provenance import machine
from setpoint.training import Lifted, Problem, Projected, Solver, lifted, make_problem, solve
from setpoint.training.gpu import Recorded
from setpoint.training.history import Record
from setpoint.training.models import build

GOALS = ("max recall s.t. precision >= 0.9", "max precision s.t. recall >= 0.9", "max f1")


def ade(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the standardised features and the labels of the training rows."""
    from setpoint.paper.datasets import load_ade_features

    data = load_ade_features()
    rows = np.random.default_rng(0).permutation(len(data.y))[: int(0.6 * len(data.y))]
    X = torch.as_tensor(np.asarray(data.X[rows], dtype=np.float32))
    X = (X - X.mean(0)) / X.std(0).clamp(min=1e-6)
    return X.to(device), torch.as_tensor(np.asarray(data.y[rows], dtype=bool)).to(device)


def path(problem: Problem, solver: Solver, seed: int, limit: float, enough: float | None = None):
    """Return (seconds, violation, objective) of each evaluation, until one is ``enough``."""
    evaluations: list[tuple[float, float, float]] = []
    torch.manual_seed(seed)
    module = build("linear", problem.X.shape[1]).to(problem.X.device)
    began = time.perf_counter()

    def note(record: Record, total: int) -> str | None:
        evaluations.append((time.perf_counter() - began, record.violation, record.objective))
        reached = enough is not None and record.feasible and record.objective >= enough
        return "stop" if reached or evaluations[-1][0] > limit else None

    solve(problem, module, solver, seed=seed, callback=note)
    return evaluations


@contextlib.contextmanager
def no_graphs() -> Iterator[None]:
    """Launch every operation of Algorithm 1 separately."""

    class Called(Recorded):
        def __call__(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
            return step()

    kept, lifted.Recorded = lifted.Recorded, Called
    try:
        yield
    finally:
        lifted.Recorded = kept


def best(evaluations: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the time at which the best feasible objective was first reached, and its value."""
    feasible = [(o, -s) for s, v, o in evaluations if v <= 1e-9]
    if not feasible:
        return float("inf"), float("-inf")
    objective, minus = max(feasible)
    return -minus, objective


def main() -> None:
    """Print a line for each goal and trial."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for Algorithm 1")
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if given.device == "cuda" else machine()
    print(f"{name}, torch {torch.__version__}, data {os.environ.get('SETPOINT_DATA', '')[-20:]}")
    X, y = ade(given.device)
    print(f"{len(X):,} x {X.shape[1]}, {int(y.sum()):,} positives")
    theirs = Lifted.printed(threshold="exact")
    loops = {"as in the paper": no_graphs}
    if given.device == "cuda":
        loops["with graphs"] = contextlib.nullcontext
    print(f"{'goal':36s}{'Algorithm 1':>34s}{'projected':>20s}{'speed-up':>12s}")
    for goal in GOALS:
        for trial in range(given.trials):
            for name, loop in loops.items():
                problem = make_problem(X, y, goal)
                with loop():
                    seconds, objective = best(path(problem, theirs, trial, given.limit))
                found = path(problem, Projected(), trial, given.limit, enough=objective)
                ours, reached = found[-1][0], best(found)[1]
                less = f"{seconds / ours:12.1f}" if reached >= objective else " not reached"
                if not np.isfinite(objective):
                    less = " Algorithm 1 never feasible"
                print(f"{goal:36s}{name:>16s}{seconds:9.2f} s {objective:.4f}{ours:10.2f} s "
                      f"{reached:.4f}{less}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
