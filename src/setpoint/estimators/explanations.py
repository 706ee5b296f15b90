"""Importance of columns, and rows near the threshold, for classifiers of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing

from setpoint.errors import SetpointError
from setpoint.estimators.linear import contributions_by_column, linear_score
from setpoint.explain.importance import (
    Floats,
    Importances,
    check_rows,
    column_groups,
    measure_importance,
    sample_rows,
)
from setpoint.explain.nearest import NearestRows, near_rows
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


def nearest_rows_of(
    classifier: Any,
    X: Any,
    y: Any,
    each_side: int,
    values: bool,
    named: dict[str, Any],
    on: str,
) -> NearestRows:
    """Return the rows of X nearest to the threshold; see ``SetpointEstimator``."""
    check_one_threshold(classifier)
    named = classifier.pooled(from_table(X, classifier.goal_, named))
    scores = np.asarray(classifier._scores_of(X, named), dtype=np.float64)
    scores = scores - float(getattr(classifier, "threshold_", 0.0))
    try:
        linear = linear_score(classifier)
    except SetpointError:
        linear = None

    def explain(rows: NDArray[np.intp]) -> Any:
        assert linear is not None
        features = linear.features(_safe_indexing(X, rows))
        return contributions_by_column(linear, features, feature_names)

    def value(row: int, name: str) -> Any:
        i = names.index(name)
        if hasattr(X, "iloc"):
            return X.iloc[row, i]
        return X[row, i] if sparse.issparse(X) else np.asarray(X)[row, i]

    names = _names(X)
    feature_names: list[str] = []
    if linear is not None:
        feature_names = linear.names(getattr(classifier, "estimator_", classifier))
    known = values and set(feature_names) <= set(names)  # otherwise they are made of columns
    return near_rows(
        scores, each_side, on,
        labels=None if y is None else [str(label) for label in np.asarray(y)],
        explain=None if linear is None else explain, value=value if known else None,
    )  # fmt: skip


def check_one_threshold(classifier: Any) -> None:
    """Raise SetpointError for a review band, which has two thresholds."""
    if hasattr(classifier, "low_"):
        raise SetpointError(
            "a review band has two thresholds, and rows near to both of them are many; nearest "
            "rows are for one threshold."
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
