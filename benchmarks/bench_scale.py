"""The same constants from 500 to 500,000 rows: the linear default on one distribution.

Positives are 10 %. Two thirds of them lie in a cluster next to the negatives, one third far
beyond, so that a linear model cannot have all. Logistic regression with its exact threshold is
fitted on the same rows. Objectives are those of training.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from _machine import machine
from setpoint import FPOR, FROP, OFOS, SetpointClassifier, choose_threshold


def draw(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return n rows of ten features."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.1
    X = rng.normal(size=(n, 10)).astype(np.float32)
    far = y & (rng.random(n) < 1 / 3)
    X[y & ~far, :3] += 1.5
    X[far, 0] -= 4.0
    return X, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 5_000, 50_000, 500_000])
    print(machine(), "\n")
    print("| rows | goal | logistic | lifted | s |\n|---|---|---|---|---|")
    for n in parser.parse_args().rows:
        X, y = draw(n)
        baseline = LogisticRegression().fit(X, y).decision_function(X)
        for goal in (FPOR(0.8), FROP(0.8), OFOS()):
            start = time.perf_counter()
            ours = SetpointClassifier(goal, random_state=0).fit(X, y).operating_point_
            seconds = time.perf_counter() - start
            reference = choose_threshold(y, baseline, goal).objective
            print(
                f"| {n:,} | {goal} | {reference:.3f} | {ours.objective:.3f} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
