"""Scores of rows that a classifier has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _check_sample_weight, column_or_1d

from setpoint._internal.validation import check_groups
from setpoint.data.labels import Labels
from setpoint.data.splits import Rows, check_pair, check_splitter
from setpoint.errors import SetpointError
from setpoint.estimators.fitting import pool_segments, whole_periods
from setpoint.estimators.scores import Floats, positive_scores
from setpoint.goals.columns import GoalColumns, from_table
from setpoint.goals.goal import Goal
from setpoint.thresholds.by_segment import SegmentThresholds, thresholds_by_segment
from setpoint.thresholds.checks import check_classes, check_scores
from setpoint.thresholds.choose import best_point_of
from setpoint.thresholds.expected_value import (
    DecisionTable,
    check_probability,
    decisions_on,
    expected_saving,
)
from setpoint.thresholds.operating_point import OperatingPoint


class Fold(NamedTuple):
    """A fitted classifier, rows that are new to it, and their scores."""

    classifier: Any
    rows: Rows
    scores: Floats

    @classmethod
    def merged(cls, classifier: Any, folds: list[Fold]) -> Fold:
        """Return all rows of the folds, under one classifier."""
        rows = np.concatenate([fold.rows for fold in folds])
        return cls(classifier, rows, np.concatenate([fold.scores for fold in folds]))


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows of any type that scikit-learn can index.

    Attributes
    ----------
    X, y
        Rows and labels as they were given; labels are booleans if there are more than two.
    labels : Labels
        The two labels.
    positive : ndarray of bool
        Which rows are positive.
    weight : ndarray or None
        Weights of the counts.
    groups : ndarray or None
        The group of each row.
    columns : GoalColumns
        The amounts, segments and periods that the goal names.
    segments : dict
        By column, the segments in which the goal's constraints are judged.
    """

    X: Any
    y: NDArray[Any]
    labels: Labels
    positive: NDArray[np.bool_]
    weight: Floats | None
    groups: NDArray[Any] | None
    columns: GoalColumns = field(default_factory=GoalColumns)
    segments: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        weight: Any,
        groups: Any,
        pos_label: Any,
        goal: Goal | None = None,
        **named: Any,
    ) -> LabelledRows:
        """Check and convert the arguments of ``fit``.

        ``named`` are the amounts, segments and times that the goal may name.
        """
        if goal is not None:
            named = from_table(X, goal, named)
        X, y = indexable(X, y)
        if y is None:
            raise SetpointError("requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        labels = Labels.of(y, pos_label, stacklevel=4)
        if weight is not None:
            weight = _check_sample_weight(weight, X, ensure_non_negative=True)
            if not weight.any():
                raise SetpointError(
                    "sample_weight is zero in all rows; some need a positive weight."
                )
        groups = check_groups(groups, y.shape)
        positive = labels.is_positive(y)
        columns = GoalColumns() if goal is None else GoalColumns.of(goal, len(y), **named)
        if goal is not None:
            columns.check_values(goal)
        groups = whole_periods(groups, columns, y.shape)
        targets = positive if labels.positive_labels else y
        return cls(X, targets, labels, positive, weight, groups, columns)

    def pooled(self, goal: Goal, rows: Rows, by_labels: bool) -> LabelledRows:
        """Return these rows with small segments pooled, see :func:`pool_segments`."""
        known = self.positive if by_labels else None
        columns, segments = pool_segments(goal, self.columns, rows, known)
        return replace(self, columns=columns, segments=segments)

    @property
    def rows(self) -> Rows:
        """The rows that have a weight."""
        if self.weight is None:
            return np.arange(len(self.positive))
        return np.flatnonzero(self.weight > 0)

    def weight_of(self, rows: Rows) -> Floats | None:
        """Return the weights of some rows."""
        return None if self.weight is None else self.weight[rows]

    def fit(self, classifier: Any, rows: Rows, fit_params: dict[str, Any]) -> Any:
        """Return the classifier, fitted on some rows."""
        own = _check_method_params(self.X, fit_params, indices=rows)
        return classifier.fit(_safe_indexing(self.X, rows), _safe_indexing(self.y, rows), **own)

    def score(self, classifier: Any, rows: Rows, method: str) -> Fold:
        """Return the classifier's scores of some rows."""
        new = _safe_indexing(self.X, rows)
        return Fold(classifier, rows, positive_scores(classifier, new, self.labels, method))

    def cross_fit(
        self,
        classifier: Any,
        splits: Iterable[tuple[Rows, Rows]],
        fit_params: dict[str, Any],
        method: str,
        n_jobs: int | None,
    ) -> list[Fold]:
        """Fit clones of a classifier, each on the first rows of a split, and score the others."""
        jobs = (
            delayed(self._fold)(clone(classifier), train, rows, fit_params, method)
            for train, rows in splits
        )
        return list(Parallel(n_jobs=n_jobs)(jobs))

    def _fold(
        self, classifier: Any, train: Rows, rows: Rows, fit_params: dict[str, Any], method: str
    ) -> Fold:
        return self.score(self.fit(classifier, train, fit_params), rows, method)

    def point(self, fold: Fold, goal: Goal, on: str, caution: float = 0.0) -> OperatingPoint:
        """Return the best operating point on the rows of a fold."""
        weight = self.weight_of(fold.rows)
        positive = self.positive[fold.rows]
        columns, scores = self.columns.take(fold.rows), fold.scores
        if not self.columns:
            positive, scores, weight = check_scores(positive, scores, weight, None)
            check_classes(bool(positive.any()), not positive.all(), weighted=weight is not None)
        return best_point_of(positive, scores, weight, columns, goal, on, caution)

    def decisions(self, fold: Fold, goal: Goal, on: str) -> DecisionTable:
        """Compare ways to decide on the rows of a fold, whose scores are probabilities."""
        weight = self.weight_of(fold.rows)
        positive, columns = self.positive[fold.rows], self.columns.take(fold.rows)
        return decisions_on(positive, check_probability(fold.scores), weight, columns, goal, on)

    def valued(self, fold: Fold, goal: Goal) -> Fold:
        """Return a fold with expected savings in place of probabilities."""
        amounts = self.columns.take(fold.rows).amounts
        return fold._replace(scores=expected_saving(check_probability(fold.scores), goal, amounts))

    def by_segment(self, fold: Fold, goal: Goal, on: str) -> SegmentThresholds:
        """Return the best threshold of each segment on the rows of a fold."""
        weight = self.weight_of(fold.rows)
        positive, columns = self.positive[fold.rows], self.columns.take(fold.rows)
        return thresholds_by_segment(positive, fold.scores, weight, columns, goal, on)

    def above(self, fold: Fold, thresholds: SegmentThresholds) -> Fold:
        """Return a fold whose scores are measured from the threshold of their segment."""
        codes = self.columns.segments[thresholds.column][fold.rows]
        return fold._replace(scores=thresholds.above(fold.scores, codes.texts))

    def thresholds(self, folds: list[Fold], goal: Goal) -> NDArray[np.float64]:
        """Return the best threshold of each fold that has both classes."""
        both = self.with_both_classes(folds)
        return np.array([self.point(fold, goal, "one fold").threshold for fold in both])

    def with_both_classes(self, folds: list[Fold]) -> list[Fold]:
        """Return the folds whose rows are not all of one class."""
        return [f for f in folds if 0 < self.positive[f.rows].sum() < len(f.rows)]


def cv_splits(
    cv: Any,
    data: LabelledRows,
    rows: Rows,
    seed: int,
    split_params: dict[str, Any],
    default_folds: int = 5,
) -> list[tuple[Rows, Rows]]:
    """Return the pairs of training and held-out rows of ``cv``, which splits only ``rows``."""
    labels, groups = data.positive[rows], data.groups
    if cv is None or isinstance(cv, Integral):
        folds = default_folds if cv is None else int(cv)
        fewest = int(min(labels.sum(), (~labels).sum()))
        if folds < 2:
            raise SetpointError(f"cv needs at least 2 folds, not {folds}.")
        units = len(rows) if groups is None else len(np.unique(groups[rows]))
        if cv is None:
            folds = max(2, min(folds, fewest, units))
        if fewest < folds:
            raise SetpointError(
                f"cv has {folds} folds, but the smaller class only {fewest} rows; use fewer folds."
            )
        if units < folds:
            raise SetpointError(
                f"cv has {folds} folds, but the rows are of {units} "
                f"{'group or whole period' if units == 1 else 'groups or whole periods'}; use "
                "fewer folds, or more rows."
            )
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        cv = kind(folds, shuffle=True, random_state=seed)
    elif isinstance(cv, Real):
        if not 0 < float(cv) < 1:
            raise SetpointError(f"cv must be a fraction between 0 and 1, not {cv}.")
        if groups is None:
            cv = StratifiedShuffleSplit(1, test_size=float(cv), random_state=seed)
        else:
            cv = GroupShuffleSplit(1, test_size=float(cv), random_state=seed)
    check_splitter(cv, "cv")
    if hasattr(cv, "split"):
        given = {} if groups is None else {"groups": groups[rows]}
        given |= _check_method_params(data.X, split_params, indices=rows)
        try:
            found = list(
                cv.split(_safe_indexing(data.X, rows), _safe_indexing(data.y, rows), **given)
            )
        except ValueError as error:
            raise SetpointError(f"the rows cannot be split by cv: {error}") from error
        inner = None if groups is None else groups[rows]
        found = [check_pair(a, b, len(rows), inner, "cv") for a, b in found]
        if not all(len(a) and len(b) for a, b in found):  # scikit-learn < 1.8 yields such folds
            raise SetpointError(
                "the rows cannot be split by cv: a fold has no training or no held-out rows; use "
                "fewer folds, or more groups."
            )
        return [(rows[a], rows[b]) for a, b in found]
    allowed = np.zeros(len(data.positive), dtype=bool)
    allowed[rows] = True
    try:
        pairs = [(a, b) for a, b in cv]
    except (TypeError, ValueError) as error:
        raise SetpointError(
            "cv must yield pairs of rows, e.g. [(training_rows, other_rows)]."
        ) from error
    found = [check_pair(a, b, len(allowed), groups, "cv") for a, b in pairs]
    found = [(a[allowed[a]], b[allowed[b]]) for a, b in found]
    if not found or not all(len(a) and len(b) for a, b in found):
        raise SetpointError("cv yields no pair of rows, or one without training or held-out rows.")
    return found
