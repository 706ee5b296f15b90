"""Today's model: a column with its scores, compared at its own exact threshold for the goal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import did_you_mean, listed
from setpoint.data.label_columns import scores_of
from setpoint.errors import SchemaError
from setpoint.goals.bands import AnyGoal
from setpoint.goals.goal import Goal
from setpoint.thresholds.choose import choose_threshold, evaluate_threshold

if TYPE_CHECKING:
    from setpoint.report.content import Baseline
    from setpoint.thresholds.operating_point import OperatingPoint

ROLE = "the scores of today's model"
COLUMN, THRESHOLD = "scores of today's model", "threshold of today's model"  # facts of a model


def todays_scores(frame: Any, column: str) -> NDArray[np.float64]:
    """Return the column of scores of a table."""
    if column not in frame.columns:
        raise SchemaError(
            f"there is no column {column!r} ({ROLE}); the table has {listed(frame.columns)}."
            f"{did_you_mean(column, list(frame.columns))}"
        )
    return scores_of(frame[column])


def todays_threshold(
    y: NDArray[np.bool_], scores: NDArray[np.float64], goal: AnyGoal, named: dict[str, Any]
) -> float:
    """Return the threshold that is the best for the goal on rows."""
    assert isinstance(goal, Goal)  # check_todays_model was called
    return float(choose_threshold(y, scores, goal, **named).threshold)


def todays_model(column: str, scores: NDArray[np.float64], threshold: float) -> Baseline:
    """Return today's model as a baseline of a report."""
    from setpoint.report.content import Baseline

    return Baseline(f"today's model ({column})", scores, threshold)


def todays_model_on(
    column: str,
    scores: NDArray[np.float64],
    y: NDArray[np.bool_],
    goal: AnyGoal,
    named: dict[str, Any],
    facts: Mapping[str, Any],
    on: str,
) -> tuple[Baseline, OperatingPoint]:
    """Return today's model and its operating point on labelled rows.

    The threshold is that of the fit, which ``facts`` of a model have; without it the best one on
    these rows is taken, which favours today's model.
    """
    assert isinstance(goal, Goal)  # check_todays_model was called
    threshold = facts.get(THRESHOLD) if facts.get(COLUMN) == column else None
    if threshold is None:
        threshold = todays_threshold(y, scores, goal, named)
    found = todays_model(column, scores, float(threshold))
    on = f"{on}, {found.name}"
    return found, evaluate_threshold(y, scores, found.threshold, goal, on=on, **named)


def is_chosen_here(column: str, facts: Mapping[str, Any]) -> bool:
    """Whether the threshold is chosen on the rows that it is measured on."""
    return facts.get(COLUMN) != column or facts.get(THRESHOLD) is None
