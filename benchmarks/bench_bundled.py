"""Test objectives on small problems made from scikit-learn's bundled data.

The demo's problem, "digit 9, 8 components", was chosen from this list. Values are means over four
splits (60 % training, 40 % test rows). All methods hold out the same quarter of the training rows
for the threshold; logistic regression also selects one of seven ridges on them. "lifted" is
Algorithm 1 without selection. "missed" is the amount by which the floor is missed on test rows.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setpoint import (
    FPOR,
    FROP,
    OFOS,
    Goal,
    InfeasibleGoalWarning,
    SetpointClassifier,
    choose_threshold,
    evaluate_threshold,
)
from setpoint._internal.provenance import machine


def problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return features and labels by name."""
    images, digit = load_digits(return_X_y=True)
    coarse = images.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16)
    components = PCA(8, random_state=0).fit_transform(images)
    tumours, benign = load_breast_cancer(return_X_y=True)
    return {
        "digit 8, 4x4 pixels": (coarse, digit == 8),
        "digit 9, 4x4 pixels": (coarse, digit == 9),
        "digit 8, 8 components": (components, digit == 8),
        "digit 9, 8 components": (components, digit == 9),
        "digit 5, 8 components": (components, digit == 5),
        "tumours, 10 features": (tumours[:, :10], benign == 0),
        "tumours, 4 features": (tumours[:, :4], benign == 0),
    }


def row(name: str, X: np.ndarray, y: np.ndarray, goal: Goal) -> str:
    """Return a row of the table: means over four splits."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", InfeasibleGoalWarning)
    found = []
    for seed in range(4):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.4, stratify=y, random_state=seed
        )
        _, held = train_test_split(
            np.arange(len(y_train)), test_size=0.25, stratify=y_train, random_state=seed
        )
        fold = np.where(np.isin(np.arange(len(y_train)), held), 0, -1)
        fit, tune = fold == -1, fold == 0
        regressions = [
            make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=2000))
            .fit(X_train[fit], y_train[fit])
            .decision_function
            for C in (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1000.0)
        ]
        logistic = max(
            regressions,
            key=lambda s: choose_threshold(y_train[tune], s(X_train[tune]), goal).rank,
        )
        lifted = SetpointClassifier(goal, solver="lifted", validation=None, random_state=0)
        lifted.fit(X_train[fit], y_train[fit])
        points = []
        for scores in (logistic, lifted.positive_scores):
            chosen = choose_threshold(y_train[tune], scores(X_train[tune]), goal)
            points.append(evaluate_threshold(y_test, scores(X_test), chosen.threshold, goal))
        clf = SetpointClassifier(goal, validation=PredefinedSplit(fold), random_state=0)
        points.append(clf.fit(X_train, y_train).evaluate(X_test, y_test))
        found.append([p.objective for p in points] + [p.violation for p in points])
    cells = [f"{value:.3f}" for value in np.mean(found, axis=0)]
    return f"| {name} | {goal} | {' | '.join(cells)} |"


def main() -> None:
    print(machine(), "\n")
    methods = ("logistic", "lifted", "default")
    heads = [*methods, *(f"{method}, missed" for method in methods)]
    print(f"| data | goal | {' | '.join(heads)} |")
    print("|---" * (2 + len(heads)) + "|")
    jobs = [
        delayed(row)(name, X, y, goal)
        for name, (X, y) in problems().items()
        for goal in (FPOR(0.9), FROP(0.9), OFOS())
    ]
    print("\n".join(Parallel(n_jobs=2)(jobs)))


if __name__ == "__main__":
    main()
