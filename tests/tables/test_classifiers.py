"""The baseline that a model is compared with: threshold 0.5, and a threshold tuned for the goal."""

import numpy as np
import pandas as pd
import pytest

from setpoint import Goal, choose_threshold
from setpoint.tables import fit_table
from setpoint.tables.classifiers import fit_baselines
from setpoint.thresholds.choose import evaluate_threshold

GOAL = "max recall s.t. precision >= 0.35"
pytestmark = pytest.mark.filterwarnings("ignore::setpoint.UncertifiedWarning")


def rows(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = x[:, 0] + rng.normal(size=n) > 2.2
    groups = rng.integers(0, n // 3, n)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "g": groups, "t": np.arange(n), "y": y})


def point(fitted, which):
    return evaluate_threshold(fitted.test.y, which.scores, which.threshold, GOAL)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "hgb"},
        {"confidence": 0.8},
        {"time": "t"},
        {"group": "g"},
        {"group": "g", "confidence": 0.8},
    ],
    ids=str,
)
def test_the_same_regression_with_another_threshold(options):
    unused = [name for name in ("g", "t") if name not in options.values()]
    fitted = fit_table(rows(), "y", GOAL, **{"model": "logistic", "drop": unused} | options)
    assert fitted.baseline.threshold == 0.5
    assert fitted.tuned.scores is fitted.baseline.scores
    assert 0 < fitted.tuned.threshold < 0.45
    # At 0.5 a rare class is seldom found; the tuned threshold finds more at a fair precision.
    tuned = point(fitted, fitted.tuned)
    assert tuned.recall > point(fitted, fitted.baseline).recall
    assert tuned.precision > 0.2


@pytest.mark.parametrize("validation", [None, [(np.arange(150), np.arange(150, 200))]])
def test_the_threshold_is_tuned_on_held_out_rows(validation):
    """With so many features the regression is always right on the rows that it was fitted on."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 150)), rng.random(200) < 0.3
    goal = Goal.parse("max recall s.t. precision >= 0.95")
    baseline, tuned = fit_baselines(X, y, None, X, goal, validation, 0)
    assert choose_threshold(y, baseline.scores, goal).threshold < 0.7
    assert tuned.threshold > 0.9


def test_too_few_rows_to_tune():
    frame = rows(60).drop(columns=["g", "t"])
    frame["y"] = np.arange(60) % 20 == 0
    fitted = fit_table(frame, "y", "max f1", model="logistic", confidence=0.8)
    assert fitted.baseline is not None
    assert fitted.tuned is None or 0 <= fitted.tuned.threshold <= 1
