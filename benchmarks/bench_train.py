"""Training objective of linear models, compared with logistic regression with a tuned threshold.

For each goal, the baseline is the best of twelve logistic regressions (six ridges, with and without
balanced class weights) by training objective at the exact threshold. Both sides see the whole data
set: this measures optimisation, not generalisation.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _data import load
from setpoint import (
    FPOR,
    FROP,
    OFOS,
    Goal,
    InfeasibleGoalWarning,
    OperatingPoint,
    SetpointClassifier,
    choose_threshold,
)
from setpoint._internal.provenance import machine
from setpoint.training import Lifted, Projected

SOLVERS = {
    "projected": Projected(),
    "lifted": Lifted(),
    "paper": Lifted.paper(),
    "printed": Lifted.printed(),
    "printed, warm": Lifted.printed(start="logistic", threshold="exact"),
}
DATA = ("annthyroid", "mammography", "magic_gamma", "wilt")
GOALS = (FPOR(0.9), FROP(0.9), OFOS())


def logistic_regressions(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return the scores of twelve logistic regressions."""
    return [
        make_pipeline(
            StandardScaler(), LogisticRegression(C=C, class_weight=class_weight, max_iter=5000)
        )
        .fit(X, y)
        .decision_function(X)
        for class_weight in (None, "balanced")
        for C in (0.001, 0.01, 0.1, 1.0, 10.0, 1000.0)
    ]


def cell(point: OperatingPoint) -> str:
    if point.feasible:
        return f"{point.objective:.3f}{' (no alarms)' if point.empty else ''}"
    return f"{point.objective:.3f} (missed by {point.violation:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--solver", nargs="*", default=["projected", "lifted"], choices=SOLVERS, metavar="NAME",
        help=f"one or more of {', '.join(map(repr, SOLVERS))}",
    )  # fmt: skip
    solvers = parser.parse_args().solver
    warnings.simplefilter("ignore", InfeasibleGoalWarning)  # the table shows it
    print(machine(), "\n")
    names = [f"{name} | s" for name in solvers]
    print(f"| data | goal | logistic | {' | '.join(names)} |")
    print("|---" * (3 + 2 * len(solvers)) + "|")
    wins = dict.fromkeys(solvers, 0)
    for data in DATA:
        X, y = load(data)
        baselines = logistic_regressions(X, y)
        for goal in GOALS:
            best = max((choose_threshold(y, z, goal) for z in baselines), key=lambda p: p.rank)
            row = [data, str(goal), cell(best)]
            for name in solvers:
                point, seconds = fit(X, y, goal, name)
                row += [cell(point), f"{seconds:.1f}"]
                wins[name] += point.rank >= best.rank
            print(f"| {' | '.join(row)} |", flush=True)
    for name, count in wins.items():
        print(f"\n{name}: at least as good as logistic regression in {count} of "
              f"{len(DATA) * len(GOALS)} cases")  # fmt: skip


def fit(X: np.ndarray, y: np.ndarray, goal: Goal, solver: str) -> tuple[OperatingPoint, float]:
    start = time.perf_counter()
    clf = SetpointClassifier(goal, solver=SOLVERS[solver], validation=None, random_state=0).fit(
        X, y
    )
    return clf.operating_point_, time.perf_counter() - start


if __name__ == "__main__":
    main()
