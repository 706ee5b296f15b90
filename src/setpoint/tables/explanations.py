"""Importance of columns, and rows near the threshold, for models of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import as_text
from setpoint.errors import SetpointError
from setpoint.estimators.explanations import check_one_threshold
from setpoint.estimators.linear import contributions_by_column, linear_score
from setpoint.explain.importance import (
    Importances,
    check_rows,
    column_groups,
    measure_importance,
    sample_rows,
)
from setpoint.explain.nearest import NearestRows, near_rows
from setpoint.tables.classifiers import Floats, above_threshold
from setpoint.tables.encoder import encode
from setpoint.tables.feature_columns import features_of
from setpoint.tables.goal_columns import take

if TYPE_CHECKING:
    from setpoint.tables.model import TableModel


def table_importance(
    model: TableModel,
    frame: Any,
    sample_weight: Any,
    columns: Sequence[str] | None,
    together: Sequence[Sequence[str]],
    *,
    repeats: int,
    max_rows: int | None,
    random_state: int,
    on: str,
    ignore_extra: bool,
    progress: Callable[[int, int], object] | None,
) -> Importances:
    """Return the permutation importance of a table's columns; see ``TableModel``."""
    positive = model.positives(frame)
    check_rows(positive, max_rows)
    groups = column_groups(model.schema.names, columns, together)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    sample = sample_rows(positive, weight, None if model.goal.periods else max_rows, random_state)
    rows = frame.iloc[sample.rows]
    features = encode(model.encoder, model.schema.check(rows, ignore_extra=ignore_extra))
    # A column's features depend on this column alone: they can be shuffled in its place.
    owners = np.array([feature.column for feature in features_of(model.encoder)], dtype=object)
    decided_by, named = model.decided_by(rows), take(model.goal_columns(frame), sample.rows)

    def score(group: tuple[str, ...], donors: NDArray[np.intp] | None) -> Floats:
        mixed = features
        if donors is not None:
            own = np.flatnonzero(np.isin(owners, group))
            mixed = features.copy()
            mixed[:, own] = features[np.ix_(donors, own)]
        return above_threshold(model.classifier, mixed, decided_by)

    def judge(scores: Floats) -> Any:
        return model.rule.evaluate(positive[sample.rows], scores, on, named, sample.weight)

    return measure_importance(
        groups, sample, score, judge, len(positive), repeats=repeats, seed=random_state,
        progress=progress,
    )  # fmt: skip


def table_nearest_rows(
    model: TableModel,
    frame: Any,
    each_side: int,
    values: bool,
    *,
    on: str,
    ignore_extra: bool,
    numbers: NDArray[np.intp] | None = None,
    scores: Floats | None = None,
) -> NearestRows:
    """Return the rows of a table nearest to the threshold; see ``TableModel``.

    ``scores`` are those of the rows, if they are known already.
    """
    check_one_threshold(model.classifier)
    if scores is None:
        scores = model.scores(frame, ignore_extra=ignore_extra)
    scores = np.asarray(scores, dtype=np.float64)
    try:
        linear = linear_score(model.classifier)
    except SetpointError:
        linear = None

    def explain(rows: NDArray[np.intp]) -> Any:
        assert linear is not None
        features = model.features(frame.iloc[rows], ignore_extra=ignore_extra)
        owners = [feature.column for feature in features_of(model.encoder)]
        return contributions_by_column(linear, features.astype(np.float64), owners)

    labels = None
    if model.target in frame.columns:
        labels = [as_text(label) for label in frame[model.target]]
    return near_rows(
        scores, each_side, on, numbers=numbers, labels=labels,
        explain=None if linear is None else explain,
        value=(lambda row, name: frame[name].iloc[row]) if values else None,
    )  # fmt: skip
