"""Time to the same training objective: the projected solver against Algorithm 1 of the paper.

    python benchmarks/bench_objective.py [--device cuda] [--trials 3]

On the ADE features (60 % of the rows, as the paper's training part; a linear model), for each goal
Algorithm 1 with the paper's constants is trained to its end, or for --limit seconds. Its best
training objective is what the projected solver must reach: the time until it has, from the same
start of the clock, ordinary training included. Algorithm 1 gets our exact threshold at every look,
which the paper's does not have.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

import numpy as np
import torch

from setpoint._machine import machine
from setpoint.models import build
from setpoint.solvers import Lifted, Problem, Projected, Solver, make_problem, solve
from setpoint.solvers.history import Record

GOALS = ("max recall s.t. precision >= 0.9", "max precision s.t. recall >= 0.9", "max f1")


def ade(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the training part's features, standardised, and labels."""
    from setpoint.datasets import load_ade_features

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
    print(f"{'goal':36s}{'Algorithm 1':>22s}{'projected':>22s}{'times less':>12s}")
    for goal in GOALS:
        for trial in range(given.trials):
            problem = make_problem(X, y, goal)
            theirs = replace(Lifted.paper(), threshold="exact")
            seconds, objective = best(path(problem, theirs, trial, given.limit))
            looks = path(problem, Projected(), trial, given.limit, enough=objective)
            ours, reached = looks[-1][0], best(looks)[1]
            print(f"{goal:36s}{seconds:12.1f} s {objective:.4f}{ours:12.1f} s {reached:.4f}"
                  f"{seconds / ours:12.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
