"""Logistic regression as most people would use it, for comparison."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.goals import Goal
from setpoint.tabular.fitted import Ordinary
from setpoint.tabular.learners import logistic
from setpoint.tabular.model import Floats, in_blocks

_SHARE, _FEWEST = 0.25, 10  # of the rows, and of either class among them, that set a threshold


def ordinary(
    features: Floats,
    y: NDArray[np.bool_],
    groups: NDArray[np.intp] | None,
    test: Floats,
    goal: Goal,
    judging: Any,
    random_state: int,
) -> tuple[Ordinary, Ordinary | None]:
    """Return what the regression gives on the test rows: cut at 0.5, and tuned for the goal.

    Parameters
    ----------
    features, y, groups : ndarray
        The training rows.
    test : ndarray
        The features of the test rows.
    goal : Goal
        What the threshold is tuned for.
    judging : list of one pair of rows, or None
        Which training rows tune it, and on which others a regression is fitted for that; by default
        chance decides.
    random_state : int
        Of that chance.
    """
    from setpoint.threshold import SetpointThreshold

    if judging is None:
        fewest = np.bincount(y, minlength=2).min()
        judging = _SHARE if fewest * _SHARE >= _FEWEST else None  # None: cross-fitted
    tuner = SetpointThreshold(
        logistic(), goal, cv=judging, response_method="predict_proba", random_state=random_state
    )
    threshold = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged is part of what it is
        try:
            regression = tuner.fit(features, y, groups=groups).estimator_
            threshold = tuner.threshold_
        except SetpointError:  # too few rows of one label
            regression = logistic().fit(features, y)
    scores = in_blocks(lambda X: np.asarray(regression.predict_proba(X)[:, 1]), test)
    name = "logistic regression"
    tuned = None if threshold is None else Ordinary(f"{name}, tuned threshold", scores, threshold)
    return Ordinary(f"{name} at 0.5", scores, 0.5), tuned
