"""Importance of columns, and rows near the threshold, for classifiers of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

from setpoint.errors import SetpointError
from setpoint.explain.importance import (
    Floats,
    Importances,
    check_rows,
    column_groups,
    measure_importance,
    sample_rows,
)
from setpoint.goals.columns import from_table
from setpoint.thresholds.bands import evaluate_band
from setpoint.thresholds.choose import evaluate_threshold


def importance_of_columns(
    classifier: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    named: dict[str, Any],
    columns: Sequence[str] | None,
    together: Sequence[Sequence[str]],
    *,
    repeats: int,
    max_rows: int | None,
    random_state: int,
    on: str,
) -> Importances:
    """Return the permutation importance of the columns of X; see ``SetpointEstimator``."""
    positive = classifier._labels.is_positive(y)
    check_rows(positive, max_rows)
    goal = classifier.goal_
    named = classifier.pooled(from_table(X, goal, named))
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    sample = sample_rows(positive, weight, None if goal.periods else max_rows, random_state)
    taken = _safe_indexing(X, sample.rows)
    own = _rows_of(goal, named, sample.rows)
    names = _names(X)
    place = {name: i for i, name in enumerate(names)}

    def score(group: tuple[str, ...], donors: NDArray[np.intp] | None) -> Floats:
        mixed = taken if donors is None else _mixed(taken, [place[name] for name in group], donors)
        return np.asarray(classifier._scores_of(mixed, own))

    def judge(scores: Floats) -> Any:
        rows = positive[sample.rows]
        if hasattr(classifier, "low_"):
            return evaluate_band(
                rows, scores, classifier.low_, classifier.high_, goal,
                sample_weight=sample.weight, on=on, **own,
            )  # fmt: skip
        return evaluate_threshold(
            rows, scores, getattr(classifier, "threshold_", 0.0), goal,
            sample_weight=sample.weight, on=on, **own,
        )  # fmt: skip

    groups = column_groups(names, columns, together)
    return measure_importance(
        groups, sample, score, judge, len(positive), repeats=repeats, seed=random_state
    )


def _names(X: Any) -> list[str]:
    """Return the names of the columns: those of a data frame, or x0, x1 and so on."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    shape = np.shape(X)
    if len(shape) != 2:
        raise SetpointError(f"X needs two dimensions, rows and columns, not {len(shape)}.")
    return [f"x{i}" for i in range(shape[1])]


def _mixed(X: Any, columns: list[int], donors: NDArray[np.intp]) -> Any:
    """Return rows whose columns have the values of other rows."""
    if hasattr(X, "iloc"):
        mixed = X.copy()
        for i in columns:
            mixed.isetitem(i, X.iloc[:, i].take(donors).set_axis(X.index))
        return mixed
    if sparse.issparse(X):
        mixed = X.tolil(copy=True)
        mixed[:, columns] = X.tocsr()[donors][:, columns]
        return mixed.asformat(X.format)
    mixed = np.array(X)
    mixed[:, columns] = mixed[donors][:, columns]
    return mixed


def _rows_of(goal: Any, named: dict[str, Any], rows: NDArray[np.intp]) -> dict[str, Any]:
    """Return amounts, segments and times of some rows."""
    found: dict[str, Any] = {}
    for kind, names in (("amounts", goal.amounts), ("segments", goal.segments)):
        if (values := named.get(kind)) is not None:
            found[kind] = {n: _safe_indexing(values[n], rows) for n in names if n in values}
    if named.get("times") is not None:
        found["times"] = _safe_indexing(named["times"], rows)
    return found
