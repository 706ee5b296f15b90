"""Time of a fit, compared with XGBoost, and how it grows with the number of rows.

Both get the same rows and hold out a quarter of them: XGBoost for early stopping, setpoint to
choose among candidates and to set the threshold. XGBoost has its default settings, the histogram
method, 500 rounds, early stopping after 50 rounds without a better area under the precision-recall
curve, and all cores. Times are medians. The two run alternately, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from _data import load_grouped
from setpoint import FPOR, FROP, OFOS, SetpointClassifier
from setpoint._internal.provenance import machine

LIMITS = {"creditcard": 1.5, "celeba": 1.5, "annthyroid": 3, "magic_gamma": 3}
GOALS = {"FPOR 0.9": FPOR(0.9), "FROP 0.9": FROP(0.9), "OFOS": OFOS()}


def seconds(work: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def fit_xgboost(X: np.ndarray, y: np.ndarray) -> None:
    X_fit, X_stop, y_fit, y_stop = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=0
    )
    XGBClassifier(
        n_estimators=500,
        early_stopping_rounds=50,
        eval_metric="aucpr",
        tree_method="hist",
        n_jobs=os.cpu_count(),
    ).fit(X_fit, y_fit, eval_set=[(X_stop, y_stop)], verbose=False)


def draw(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of ten features that no linear model separates."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.1
    X = rng.normal(size=(n, 10))
    far = y & (rng.random(n) < 1 / 3)
    X[y & ~far, :3] += 1.5
    X[far, 0] -= 4.0
    return X, y


def against_xgboost(repeats: int) -> None:
    print("| data | rows | XGBoost, s | goal | setpoint, s | ratio | limit |")
    print("|---" * 7 + "|")
    for name, limit in LIMITS.items():
        data = load_grouped(name)
        reference, ours = [], {label: [] for label in GOALS}
        for _ in range(repeats):
            reference.append(seconds(fit_xgboost, data.X, data.y))
            for label, goal in GOALS.items():
                clf = SetpointClassifier(goal, random_state=0)
                ours[label].append(seconds(clf.fit, data.X, data.y))
        base = float(np.median(reference))
        for label in GOALS:
            found = float(np.median(ours[label]))
            print(
                f"| {name} | {len(data.y):,} | {base:.2f} | {label} | {found:.2f} "
                f"| {found / base:.1f} | {limit} |",
                flush=True,
            )


def by_rows(sizes: list[int]) -> None:
    print("\n| rows | goal | s | objective: best logistic regression | goal-trained |")
    print("|---|---|---|---|---|")
    times: dict[str, list[float]] = {label: [] for label in GOALS}
    for n in sizes:
        X, y = draw(n)
        for label, goal in GOALS.items():
            clf = SetpointClassifier(goal, random_state=0)
            found = seconds(clf.fit, X, y)
            times[label].append(found)
            start, end = clf.history_[0].objective, clf.operating_point_.objective
            print(f"| {n:,} | {label} | {found:.2f} | {start:.3f} | {end:.3f} |", flush=True)
    for label, found in times.items():
        exponent = np.polyfit(np.log(sizes), np.log(found), 1)[0]
        print(f"\n{label}: time grows as rows^{exponent:.2f}", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--rows", type=int, nargs="*", default=[30_000, 100_000, 300_000, 1_000_000, 3_000_000]
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine(), "\n")
    fit_xgboost(*draw(2000))  # libraries load on first use
    SetpointClassifier("max f1").fit(*draw(2000))
    against_xgboost(given.repeats)
    if given.rows:
        by_rows(given.rows)


if __name__ == "__main__":
    main()
