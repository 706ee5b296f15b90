"""Solvers compared with the proven optimum of small linear problems.

The problems are random, with 2 to 5 features and 40 to 150 rows: one positive cluster or two, with
or without outliers, from well separated to inseparable, 8 to 45 % positives, each with one of five
goals. HiGHS proves the optimum (``setpoint.method.referee``). Problems that it cannot solve in time
are listed but excluded from the averages; for these, the ratio to the bound is a lower limit.

"projected" is the default without validation rows (``validation=None``); "as in a selection" has
the shorter line searches that are used with validation rows.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

from setpoint import FPOR, FROP, OFOS, Goal
from setpoint._internal.provenance import machine
from setpoint.method.referee import ExactSolution, solve_exactly
from setpoint.training import Lifted, Projected, Solver, make_problem, solve
from setpoint.training.models import build

GOALS = (FPOR(0.8), FPOR(0.9), FROP(0.8), FROP(0.9), OFOS())
SOLVERS: dict[str, Solver] = {
    "logistic": Projected(outer_iterations=0),
    "lifted": Lifted(),
    "projected": Projected(),
    "as in a selection": Projected(line_search=300_000),
}
KINDS = ("one cluster", "two clusters", "outliers")


def draw(index: int) -> tuple[np.ndarray, np.ndarray, Goal, str]:
    """Return problem number ``index``."""
    rng = np.random.default_rng(5000 + index)
    n, d = int(rng.integers(40, 151)), 2 + index % 4
    y = np.arange(n) < max(4, int(rng.choice([0.08, 0.15, 0.3, 0.45]) * n))
    gap = rng.choice([0.5, 1.0, 1.5, 2.5])
    towards = rng.normal(size=d)
    towards /= np.linalg.norm(towards)
    kind = KINDS[index % 3]
    X = rng.normal(size=(n, d))
    X[y] += gap * towards
    if kind == "two clusters":
        X[y & (rng.random(n) < 0.4)] -= 2 * gap * towards
    if kind == "outliers":
        X *= 1 + (rng.random((n, 1)) < 0.1) * rng.exponential(3, size=(n, 1))
    return X, y, GOALS[index % 5], f"{d}-D, {n} rows, {y.sum()} positive, {kind}, gap {gap}"


def settle(index: int, time_limit: float) -> tuple[int, ExactSolution, dict[str, float]]:
    """Return the optimum and the objective that each solver reaches."""
    torch.set_num_threads(1)
    X, y, goal, _ = draw(index)
    exact = solve_exactly(X, y, goal, time_limit=time_limit)
    Z = torch.from_numpy((X - X.mean(axis=0)) / X.std(axis=0))
    reached = {}
    for name, solver in SOLVERS.items():
        module = build("linear", X.shape[1]).double()
        point = solve(make_problem(Z, torch.from_numpy(y), goal), module, solver).operating_point
        reached[name] = point.objective if point.feasible else 0.0
    return index, exact, reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per problem")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    print(machine(), "\n")
    print(f"| # | problem | goal | optimum | {' | '.join(SOLVERS)} |")
    print("|---" * (4 + len(SOLVERS)) + "|")
    ratios: dict[str, list[float]] = {name: [] for name in SOLVERS}
    lower: dict[str, list[float]] = {name: [] for name in SOLVERS}
    open_cases = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        limits = [given.time_limit] * given.problems
        for index, exact, reached in pool.map(settle, range(given.problems), limits):
            _, _, goal, title = draw(index)
            optimum = exact.operating_point.objective
            if exact.proven:
                shown = f"{optimum:.3f}"
                for name, value in reached.items():
                    ratios[name].append(value / optimum if optimum > 0 else 1.0)
            else:
                shown = f"open: {optimum:.3f} to {exact.bound:.3f}"
                open_cases += 1
                for name, value in reached.items():
                    lower[name].append(value / exact.bound)
            values = " | ".join(f"{v:.3f}" for v in reached.values())
            print(f"| {index} | {title} | {goal} | {shown} | {values} |", flush=True)
    print(f"\nProven: {given.problems - open_cases} of {given.problems}. Ratio to the optimum:\n")
    print("| | mean | worst | at the optimum | open problems: mean ratio to the bound |")
    print("|---" * 5 + "|")
    for name, found in ratios.items():
        r = np.array(found)
        reached_it = f"{(r >= 1 - 1e-9).sum()} of {len(r)}"
        bound = f"{np.mean(lower[name]):.3f}" if lower[name] else ""
        print(f"| {name} | {r.mean():.4f} | {r.min():.3f} | {reached_it} | {bound} |")


if __name__ == "__main__":
    main()
