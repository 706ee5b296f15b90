"""Checks of arguments: goals, scores, planning rows, guesses and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setpoint._internal.validation import listed
from setpoint.errors import GoalError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.labelling.planning import Guess
from setpoint.labelling.top_down import Answers, Floats, Indices
from setpoint.thresholds.checks import check_scores


def check_names_nothing(goal: Goal) -> None:
    """Raise GoalError if a goal names amounts, segments or periods, which scores do not have."""
    named = [*goal.amounts, *goal.segments, *(f"per {period}" for period in goal.periods)]
    if named:
        raise GoalError(
            f"'{goal}' is about amounts, segments or periods ({listed(named)}), and only scores "
            "and labels are known here; leave them out. 'setpoint certify' takes labelled rows and "
            "such goals."
        )


def floors_of(goal: Goal) -> tuple[float | None, float | None]:
    """Return the floors on precision and on recall; raise GoalError for any other constraint."""
    precision: float | None = None
    recall: float | None = None
    for constraint in goal.constraints:
        name, level = constraint.metric.name, constraint.level
        if name == "precision":
            precision = level
        elif name in ("recall", "fnr"):
            recall = max(recall or 0.0, level if name == "recall" else 1 - level)
        else:
            raise GoalError(
                f"'{constraint}' cannot be certified from a partly labelled pool; floors on "
                "precision and recall can. 'setpoint certify' takes labelled rows and other goals."
            )
    check_names_nothing(goal)
    if precision is None and recall is None:
        raise GoalError(
            f"'{goal}' has no floor to certify; add one, e.g. 'max recall s.t. precision >= 0.9'."
        )
    for floor in (precision, recall):
        if floor is not None and not 0 < floor < 1:
            raise GoalError(
                f"'{goal}': a floor of {floor:g} cannot be certified from a sample; choose one "
                "between 0 and 1, e.g. 0.95."
            )
    return precision, recall


def check_pool(scores: ArrayLike) -> Floats:
    """Return the scores of a pool as an array; raise SetpointError if they are not numbers."""
    values = np.asarray(scores)
    if values.ndim == 0:
        raise SetpointError("scores must be an array with one number per row.")
    if values.ndim == 1 and len(values) == 0:
        raise SetpointError("the pool has no rows.")
    checked = check_scores(np.zeros(len(values), dtype=bool), values, None, None)[1]
    return np.asarray(checked, dtype=np.float64)


def guess_from_rows(planning: tuple[ArrayLike, ArrayLike], pos_label: Any) -> Guess:
    """Return planning rows as a guess; raise SetpointError if they cannot be used."""
    try:
        y, scores = planning
    except (TypeError, ValueError):
        raise SetpointError("planning must be a pair of labels and scores.") from None
    positive, checked, _ = check_scores(y, scores, None, pos_label)
    if not positive.any():
        raise SetpointError("the planning rows hold no positives; give rows of both classes.")
    return Guess.of(np.asarray(checked, dtype=float), positive.astype(float), labelled=True)


def check_eta(eta: ArrayLike | Callable[[Floats], ArrayLike], pool: Floats) -> Floats:
    """Return a guess of the probability that each row is positive, as an array."""
    chances = np.asarray(eta(pool) if callable(eta) else eta, dtype=float)
    if chances.shape != pool.shape:
        raise SetpointError(
            f"eta must have one entry per row of the pool, shape {pool.shape}; it has "
            f"{chances.shape}."
        )
    if not ((chances >= 0) & (chances <= 1)).all():  # also false for NaN
        raise SetpointError("eta must hold probabilities, between 0 and 1.")
    if not (chances > 0).any():
        raise SetpointError("eta is 0 everywhere; give a guess of where positives are.")
    return chances


def check_answers(indices: ArrayLike, labels: ArrayLike, n: int) -> tuple[Indices, Answers]:
    """Return rows and their labels as arrays; raise SetpointError if one is invalid."""
    rows, values = np.atleast_1d(np.asarray(indices)), np.atleast_1d(np.asarray(labels))
    if rows.ndim != 1 or rows.shape != values.shape:
        raise SetpointError(
            f"there must be one label for each row; {rows.shape} rows and {values.shape} labels "
            "were given."
        )
    if len(rows) == 0:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int8)
    if rows.dtype.kind not in "iu" or (rows < 0).any() or (rows >= n).any():
        raise SetpointError(f"rows must be indices from 0 to {n - 1:,}.")
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(values.shape, np.nan)
    wrong = ~np.isin(numbers, (0.0, 1.0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise SetpointError(
            f"labels must be 0 or 1; row {rows[first]} has {values[first]!r}. Leave out rows "
            "without an answer."
        )
    return rows.astype(np.intp), numbers.astype(np.int8)
