"""Training objective of linear models, compared with cost-weighted logistic and hinge models.

All models see the same rows, the training rows of split 0 of ``bench_heldout.py``, standardised:
this measures optimisation, not generalisation. Each has its exact threshold, and in each column the
model with the best training objective counts:

logistic
    scikit-learn's logistic regressions, plain and balanced, at six ridges.
cost path
    Logistic regressions with 14 weights of a positive, from 0.001 to 1,000 and balanced, at five
    ridges.
hinge path
    The same with the hinge loss, trained by 2,000 steps of Adam from two learning rates.
setpoint
    The default without validation rows.

Finished cells are stored in a file, from which an interrupted run continues. The models to compare
with have a file of their own: they remain when the code of the solvers changes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import _baselines
from _baselines import WEIGHTS, balanced, hinge_path, logistic_path
from _data import load_grouped, split
from _stored import PACKAGE, digest, run_missing
from bench_heldout import DATA, GOALS
from setpoint import OperatingPoint, SetpointClassifier, choose_threshold
from setpoint._internal.provenance import machine
from setpoint.training import Lifted, Projected

SOLVERS = {
    "projected": Projected(),
    "lifted": Lifted(),
    "paper": Lifted.paper(),
    "printed": Lifted.printed(),
    "printed, warm": Lifted.printed(start="logistic", threshold="exact"),
}
BASELINES = ("logistic", "cost path", "hinge path")
PATHS = ("cost path", "hinge path")  # that setpoint should reach
RIDGES = (1e3, 100.0, 10.0, 1.0, 0.1, 1e-3)
PATH_RIDGES = (1e3, 100.0, 10.0, 0.1, 1e-3)
SAME = 1e-9


def training_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the standardised training rows of split 0 and their labels."""
    data = load_grouped(name)
    rows = split(data.y, data.groups, 0)[0]
    return StandardScaler().fit_transform(data.X[rows]), data.y[rows]


def baseline_models(model: str, X: np.ndarray, y: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the coefficients of the models of a column."""
    if model == "logistic":
        return logistic_path(X, y, [(1.0, 1.0), balanced(y)], RIDGES)
    path = hinge_path if model == "hinge path" else logistic_path
    return path(X, y, [*WEIGHTS, balanced(y)], PATH_RIDGES)


def run_baseline(name: str, model: str) -> list[dict[str, Any]]:
    """Return the best operating point of a column's models for each goal."""
    one_thread()
    X, y = training_rows(name)
    start = time.perf_counter()
    best: dict[str, OperatingPoint] = {}
    for theta in baseline_models(model, X, y):
        scores = X @ theta
        for label, goal in GOALS.items():
            found = choose_threshold(y, scores, goal)
            best[label] = max(best.get(label, found), found, key=lambda p: p.rank)
    seconds = time.perf_counter() - start
    return [row(name, model, label, point, seconds) for label, point in best.items()]


def run_solver(name: str, solver: str, label: str) -> list[dict[str, Any]]:
    """Return the operating point of a solver's model."""
    one_thread()
    X, y = training_rows(name)
    clf = SetpointClassifier(
        GOALS[label], solver=SOLVERS[solver], validation=None, standardize=False, random_state=0
    )
    start = time.perf_counter()
    clf.fit(X, y)
    seconds = time.perf_counter() - start
    return [row(name, solver, label, clf.operating_point_, seconds)]


def one_thread() -> None:
    """Keep the libraries of a worker to one thread, and silence warnings that the table repeats."""
    threadpool_limits(1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def row(name: str, model: str, label: str, point: OperatingPoint, seconds: float) -> dict[str, Any]:
    return {
        "data": name, "goal": label, "model": model, "objective": float(point.objective),
        "violation": float(point.violation), "no_alarms": bool(point.empty), "seconds": seconds,
    }  # fmt: skip


def rank(found: dict[str, Any]) -> tuple[float, float]:
    return -found["violation"], found["objective"]


def at_least(found: dict[str, Any], other: dict[str, Any]) -> bool:
    return rank(found) >= (-other["violation"], other["objective"] - SAME)


def cell(found: dict[str, Any]) -> str:
    missed = f" (missed by {found['violation']:.3f})" if found["violation"] else ""
    return f"{found['objective']:.3f}{' (no alarms)' if found['no_alarms'] else ''}{missed}"


def table(results: Iterable[dict[str, Any]], names: list[str], goals: list[str]) -> None:
    """Print the cells and, for each solver, how they compare with both paths."""
    by_key = {(r["data"], r["goal"], r["model"]): r for r in results}
    solvers = list(dict.fromkeys(m for _, _, m in by_key if m in SOLVERS))
    titles = {name: "setpoint" if name == "projected" else name for name in solvers}
    columns = [*BASELINES, *(f"{title} | s" for title in titles.values())]
    print(f"| data | goal | {' | '.join(columns)} |")
    print("|---" * (2 + len(BASELINES) + 2 * len(solvers)) + "|")
    for name in names:
        for goal in goals:
            found = {model: by_key[name, goal, model] for model in (*BASELINES, *solvers)}
            cells = [cell(found[model]) for model in BASELINES]
            for solver in solvers:
                cells += [cell(found[solver]), f"{found[solver]['seconds']:.1f}"]
            print(f"| {name} | {goal} | {' | '.join(cells)} |")
    keys = [(name, goal) for name in names for goal in goals]
    means = {
        titles.get(model, model): np.mean([by_key[*key, model]["objective"] for key in keys])
        for model in (*BASELINES, *solvers)
    }
    print("\nmean objective: " + ", ".join(f"{k} {v:.4f}" for k, v in means.items()))
    for solver, title in titles.items():
        compare(title, {key: by_key[*key, solver] for key in keys}, by_key)


def compare(
    title: str, ours: dict[tuple[str, str], dict[str, Any]], by_key: dict[Any, dict[str, Any]]
) -> None:
    """Print how the cells of a solver compare with the best cell of both paths."""
    best = {key: max((by_key[*key, path] for path in PATHS), key=rank) for key in ours}
    reached = {key for key in ours if at_least(ours[key], best[key])}
    print(f"{title}: at least the better of cost and hinge path in {len(reached)} of {len(ours)} "
          "cells")  # fmt: skip
    if below := [f"{' '.join(key)}" for key in ours if key not in reached]:
        print(f"{title}: below it in {', '.join(below)}")
    gaps = {key: ours[key]["objective"] - best[key]["objective"] for key in ours}
    worst = min(gaps, key=gaps.__getitem__)
    print(f"{title}: difference to it {np.mean(list(gaps.values())):+.4f} on average, at worst "
          f"{gaps[worst]:+.4f} ({' '.join(worst)})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--solver", nargs="*", default=["projected"], choices=SOLVERS, metavar="NAME",
        help=f"one or more of {', '.join(map(repr, SOLVERS))}",
    )  # fmt: skip
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--goal", nargs="*", default=list(GOALS), choices=GOALS, metavar="GOAL",
                        help=f"one or more of {', '.join(map(repr, GOALS))}")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("build/train.jsonl"))
    given = parser.parse_args()
    here = Path(__file__).parent
    baselines = run_missing(
        given.keep.with_suffix(".baselines.jsonl"),
        [(name, model) for name in given.data for model in BASELINES],
        run_baseline, lambda r: (r["data"], r["model"]), given.jobs,
        digest(Path(_baselines.__file__), here / "_data.py",
               PACKAGE / "goals", PACKAGE / "thresholds"),
    )  # fmt: skip
    trained = run_missing(
        given.keep,
        [(d, s, g) for s in given.solver for d in given.data for g in given.goal],
        run_solver, lambda r: (r["data"], r["model"], r["goal"]), given.jobs,
    )  # fmt: skip
    trained = [r for r in trained if r["model"] in given.solver]
    print(machine(), "; one thread\n")
    table([*baselines, *trained], list(given.data), list(given.goal))


if __name__ == "__main__":
    main()
