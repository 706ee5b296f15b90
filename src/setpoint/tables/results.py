"""A fitted model and what is known of it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint.data.splits import Rows
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.tables.classifiers import logistic
from setpoint.tables.leakage import Smell
from setpoint.tables.model import Floats, TableModel, in_blocks

if TYPE_CHECKING:
    from setpoint.thresholds.operating_point import OperatingPoint


@dataclass(frozen=True)
class TestRows:
    """Rows that no part of a model has seen: their numbers, labels, scores and groups."""

    rows: Rows
    y: NDArray[np.bool_]
    scores: Floats
    groups: NDArray[Any] | None = None

    __test__ = False  # no test, whatever its name begins with


@dataclass(frozen=True)
class Ordinary:
    """Logistic regression on the same columns, and where its probabilities are cut.

    ``scores`` are its probabilities for the test rows.
    """

    name: str
    scores: Floats
    threshold: float


@dataclass(frozen=True)
class FittedTable:
    """A model, and what is known of it.

    Attributes
    ----------
    model : TableModel
        The model.
    test : TestRows or None
        The rows that were kept apart, and their scores; None where none were.
    test_point : OperatingPoint or None
        What the threshold does on them.
    baseline : Ordinary or None
        What most people would do: logistic regression, cut at 0.5.
    tuned : Ordinary or None
        The same regression, cut where it is best for the goal on training rows that were kept from
        it: those that set the model's threshold, where these are known. None also where there are
        too few rows for that.
    smells : list of Smell
        Signs that a column or row tells what will not be known of new cases.
    notes : list of str
        What a person should know.
    """

    model: TableModel
    test: TestRows | None
    test_point: OperatingPoint | None
    baseline: Ordinary | None
    smells: list[Smell]
    notes: list[str]
    tuned: Ordinary | None = None


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
    from setpoint.estimators.threshold import SetpointThreshold

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


# DOC of tabular.ordinary: Logistic regression as most people would use it, for comparison.
