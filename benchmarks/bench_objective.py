"""Time to the same training objective: the projected solver against Algorithm 1 of the paper.

    python benchmarks/bench_objective.py [--device cuda] [--trials 3]

On the ADE features (60 % of the rows, as the paper's training part; a linear model), for each goal
Algorithm 1 with the paper's constants is trained to its end, or for --limit seconds. Its best
training objective is what the projected solver must reach: the time until it has, from the same
start of the clock, ordinary training included. Algorithm 1 gets our exact threshold at every look,
which the paper's does not have.

It is run twice: as in the paper, a loop in which every operation is launched by itself, and, on a
GPU, with its steps replayed as CUDA graphs. On a CPU there are no graphs, and one run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from setpoint._internal.provenance import machine
from setpoint.training import Lifted, Problem, Projected, Solver, lifted, make_problem, solve
from setpoint.training.gpu import Recorded
from setpoint.training.history import Record
from setpoint.training.models import build

GOALS = ("max recall s.t. precision >= 0.9", "max precision s.t. recall >= 0.9", "max f1")


def ade(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the training part's features, standardised, and labels."""
    from setpoint.paper.datasets import load_ade_features

    data = load_ade_features()
    rows = np.random.default_rng(0).permutation(len(data.y))[: int(0.6 * len(data.y))]
    X = torch.as_tensor(np.asarray(data.X[rows], dtype=np.float32))
    X = (X - X.mean(0)) / X.std(0).clamp(min=1e-6)
    return X.to(device), torch.as_tensor(np.asarray(data.y[rows], dtype=bool)).to(device)


def path(problem: Problem, solver: Solver, seed: int, limit: float, enough: float | None = None):
    """Return (seconds, violation, objective) after each look, until it is enough."""
    looks: list[tuple[float, float, float]] = []
    torch.manual_seed(seed)
    module = build("linear", problem.X.shape[1]).to(problem.X.device)
    began = time.perf_counter()

    def see(record: Record, total: int) -> str | None:
        looks.append((time.perf_counter() - began, record.violation, record.objective))
        reached = enough is not None and record.feasible and record.objective >= enough
        return "stop" if reached or looks[-1][0] > limit else None

    solve(problem, module, solver, seed=seed, callback=see)
    return looks


@contextlib.contextmanager
def no_graphs() -> Iterator[None]:
    """Launch every operation of Algorithm 1 by itself."""

    class Called(Recorded):
        def __call__(self, step: Callable[[], torch.Tensor]) -> torch.Tensor:
            return step()

    kept, lifted.Recorded = lifted.Recorded, Called
    try:
        yield
    finally:
        lifted.Recorded = kept


def best(looks: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return when the best feasible objective was first there, and what it is."""
    feasible = [(o, -s) for s, v, o in looks if v <= 1e-9]
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
    theirs = replace(Lifted.paper(), threshold="exact")
    loops = {"as in the paper": no_graphs}
    if given.device == "cuda":
        loops["with graphs"] = contextlib.nullcontext
    print(f"{'goal':36s}{'Algorithm 1':>34s}{'projected':>20s}{'times less':>12s}")
    for goal in GOALS:
        for trial in range(given.trials):
            for name, loop in loops.items():
                problem = make_problem(X, y, goal)
                with loop():
                    seconds, objective = best(path(problem, theirs, trial, given.limit))
                looks = path(problem, Projected(), trial, given.limit, enough=objective)
                ours, reached = looks[-1][0], best(looks)[1]
                less = f"{seconds / ours:12.1f}" if reached >= objective else " not reached"
                if not np.isfinite(objective):
                    less = " never feasible, the former"
                print(f"{goal:36s}{name:>16s}{seconds:9.2f} s {objective:.4f}{ours:10.2f} s "
                      f"{reached:.4f}{less}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
