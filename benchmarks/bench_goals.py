"""Several goals at once, compared with one after another: times and objectives.

    python benchmarks/bench_goals.py [--device cuda] [--data campaign,celeba] [--levels 8]

The goals are trade-off curves of a linear model on all rows of a data set: maximum recall under
several precision floors, and maximum precision under several recall floors. ``solve_goals`` trains
for all floors as one batched problem, ``solve`` for one after another. Both get the same rows and
seeds and run alternately in one process. Objectives are those on the training rows at the exact
threshold: means over the seeds and, when trained alone, half of the range.
"""

from __future__ import annotations

import argparse
import copy
import time

import numpy as np
import torch

from _data import load_grouped
from setpoint import FPOR, FROP
from setpoint._internal.provenance import machine
from setpoint.training import Problem, Projected, make_problem, solve, solve_goals
from setpoint.training.models import build


def problem_of(name: str, device: str) -> Problem:
    """Return all rows of a data set, standardised, in float32."""
    X, y, _ = load_grouped(name)
    X = (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)
    return make_problem(
        torch.tensor(X, dtype=torch.float32, device=device),
        torch.tensor(y, device=device),
        "max f1",
    )


def main() -> None:
    """Print the times of both methods and a line for each goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", default="campaign,celeba,creditcard")
    parser.add_argument("--levels", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40_000, help="size of the working set")
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if given.device == "cuda" else machine()
    print(f"{name}, torch {torch.__version__}")
    solver = Projected(rows=given.rows)
    levels = np.round(np.linspace(0.6, 0.95, given.levels), 3)
    for data in given.data.split(","):
        problem = problem_of(data, given.device)
        n, d = problem.X.shape
        for kind in (FPOR, FROP):
            goals = [kind(float(level)) for level in levels]
            module = build("linear", d).to(given.device)
            if given.device == "cuda":  # one-time initialisation of the GPU
                solve_goals(problem, goals, module, Projected(rows=given.rows, outer_iterations=1))
            at_once, alone = np.zeros((2, given.seeds, len(goals)))
            together = apart = 0.0
            for seed in range(given.seeds):
                began = time.perf_counter()
                found = solve_goals(problem, goals, module, solver, seed=seed)
                together += time.perf_counter() - began
                at_once[seed] = [s.operating_point.objective for s in found]
                began = time.perf_counter()
                for i, goal in enumerate(goals):
                    own = solve(problem.for_goal(goal), copy.deepcopy(module), solver, seed=seed)
                    alone[seed, i] = own.operating_point.objective
                apart += time.perf_counter() - began
            print(
                f"\n{data}, {n:,} x {d}, {len(goals)} goals: at once "
                f"{together / given.seeds:.2f} s, one after another {apart / given.seeds:.2f} s, "
                f"{apart / together:.1f} times"
            )
            for goal, mine, theirs in zip(goals, at_once.T, alone.T, strict=True):
                spread = (theirs.max() - theirs.min()) / 2
                print(
                    f"  {goal!s:42s}{theirs.mean():8.4f} +- {spread:.4f}{mine.mean():8.4f}"
                    f"{mine.mean() - theirs.mean():+9.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
