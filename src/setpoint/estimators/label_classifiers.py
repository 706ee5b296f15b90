"""Classifiers of several labels: one for each, or one for all, and scores of rows new to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, _num_samples

from setpoint.data.labels import Labels
from setpoint.data.splits import Rows
from setpoint.errors import SetpointError
from setpoint.estimators.cross_fit import LabelledRows, cv_splits
from setpoint.estimators.scores import METHODS, Floats, positive_scores

_FOLDS = 5
_YES_NO = Labels(np.array([0, 1]), 1)


@dataclass(frozen=True)
class LabelClassifiers:
    """Fitted classifiers that score every label.

    Attributes
    ----------
    of_all : classifier or None
        One classifier that takes and returns label matrices.
    of_each : tuple
        A classifier for each label; None for a label with one class, which has no scores. Empty if
        there is one classifier for all.
    kept : tuple of bool
        Which labels have both classes; one classifier for all knows only these.
    """

    of_all: Any
    of_each: tuple[Any, ...]
    kept: tuple[bool, ...]

    def scores(self, X: Any, unknown: float) -> NDArray[np.float64]:
        """Return a score for each row and label; ``unknown`` for labels without a classifier."""
        found = np.full((_num_samples(X), len(self.kept)), unknown)
        if self.of_all is not None:
            found[:, np.flatnonzero(self.kept)] = matrix_scores(
                self.of_all, X, int(sum(self.kept)), unknown
            )
            return found
        for column, classifier in enumerate(self.of_each):
            if classifier is not None:
                found[:, column] = positive_scores(classifier, X, _YES_NO, "auto")
        return found


@dataclass(frozen=True)
class LabelledMatrix:
    """Rows with a matrix of labels.

    Attributes
    ----------
    X
        Rows of any type that scikit-learn can index.
    Y : ndarray of bool, shape (n, L)
        The labels.
    weight : ndarray or None
        Weights of the counts.
    groups : ndarray or None
        The group of each row.
    fit_params : dict
        Further arguments of the classifier's ``fit``.
    n_jobs : int or None
        How many classifiers are fitted at once.
    """

    X: Any
    Y: NDArray[np.bool_]
    weight: Floats | None
    groups: NDArray[Any] | None
    fit_params: dict[str, Any]
    n_jobs: int | None

    @property
    def rows(self) -> Rows:
        """The rows that have a weight."""
        return np.arange(len(self.Y)) if self.weight is None else np.flatnonzero(self.weight > 0)

    @property
    def any_label(self) -> NDArray[np.bool_]:
        """Which rows have a label."""
        return np.asarray(self.Y.any(axis=1))

    def both_classes(self, rows: Rows) -> NDArray[np.bool_]:
        """Return which labels occur among some rows, but not in all of them."""
        some = self.Y[rows]
        return np.asarray(some.any(axis=0) & ~some.all(axis=0))

    def fit(self, estimator: Any, parts: Sequence[Rows]) -> list[LabelClassifiers]:
        """Return classifiers that are fitted on each of several sets of rows."""
        kept = [self.both_classes(rows) for rows in parts]
        jobs: list[tuple[int, Any, Any]] = []
        for part, labels in enumerate(kept):
            columns = np.flatnonzero(labels)
            if takes_matrices(estimator) and len(columns) > 1:
                jobs.append((part, None, columns))
            else:
                jobs += [(part, int(column), int(column)) for column in columns]
        fitted = Parallel(n_jobs=self.n_jobs)(
            delayed(self._fitted)(clone(estimator), parts[part], columns)
            for part, _, columns in jobs
        )
        of_all: list[Any] = [None] * len(parts)
        of_each: list[list[Any]] = [[None] * self.Y.shape[1] for _ in parts]
        for (part, column, _), classifier in zip(jobs, fitted, strict=True):
            if column is None:
                of_all[part], of_each[part] = classifier, []
            else:
                of_each[part][column] = classifier
        return [
            LabelClassifiers(one, tuple(each), tuple(labels.tolist()))
            for one, each, labels in zip(of_all, of_each, kept, strict=True)
        ]

    def _fitted(self, classifier: Any, rows: Rows, columns: Any) -> Any:
        own = _check_method_params(self.X, self.fit_params, indices=rows)
        # An index selects a vector, an array of them a matrix.
        labels = self.Y[rows][:, columns].astype(np.int64)
        return classifier.fit(_safe_indexing(self.X, rows), labels, **own)

    def score(self, classifiers: LabelClassifiers, rows: Rows, unknown: float) -> Floats:
        """Return the scores of some rows; see :meth:`LabelClassifiers.scores`."""
        return classifiers.scores(_safe_indexing(self.X, rows), unknown)

    def splits(self, cv: Any, rows: Rows, seed: int) -> list[tuple[Rows, Rows]]:
        """Return the pairs of training and held-out rows of ``cv``, which splits only ``rows``.

        Folds are stratified by the rarest label of each row, so that rare labels are spread over
        all of them.
        """
        y: NDArray[Any] = self.Y.astype(np.int64)
        if cv is None or isinstance(cv, Integral):
            folds = _FOLDS if cv is None else int(cv)
            if not 2 <= folds <= len(rows):
                raise SetpointError(
                    f"cv has {folds} folds, but must have from 2 to {len(rows)}, the number of "
                    "rows."
                )
            y = self._strata(rows, folds)
            kind = StratifiedKFold if self.groups is None else StratifiedGroupKFold
            cv = kind(folds, shuffle=True, random_state=seed)
        elif isinstance(cv, Real):
            if not 0 < float(cv) < 1:
                raise SetpointError(f"cv must be a fraction between 0 and 1, not {cv}.")
            fraction = float(cv)
            y = self._strata(rows, 2)
            if len(np.unique(y[rows])) > min(fraction, 1 - fraction) * len(rows) - 1:
                y = np.zeros(len(y), dtype=np.int64)  # too few rows for all strata on both sides
            kind = StratifiedShuffleSplit if self.groups is None else GroupShuffleSplit
            cv = kind(1, test_size=fraction, random_state=seed)
        nothing = np.zeros(len(self.Y), dtype=bool)
        data = LabelledRows(self.X, y, _YES_NO, nothing, self.weight, self.groups)
        return cv_splits(cv, data, rows, seed, {})

    def _strata(self, rows: Rows, fewest: int) -> NDArray[np.int64]:
        """Return the rarest label of each row; strata with fewer rows than needed are joined."""
        counts = self.Y[rows].sum(axis=0)
        order = np.argsort(counts, kind="stable")
        present = self.Y[:, order]
        rarest = np.where(present.any(axis=1), order[present.argmax(axis=1)], -1)
        found, of_row = np.unique(rarest[rows], return_inverse=True)
        small = np.bincount(of_row, minlength=len(found)) < fewest
        joined = np.isin(rarest, found[small])
        if 0 < np.count_nonzero(joined[rows]) < fewest:
            joined[:] = True  # too few to be a stratum of their own
        return np.where(joined, -2, rarest).astype(np.int64)


def takes_matrices(estimator: Any) -> bool:
    """Return whether a classifier is multilabel itself."""
    tags = get_tags(estimator)
    multilabel = tags.classifier_tags is not None and tags.classifier_tags.multi_label
    return bool(multilabel or tags.target_tags.multi_output)


def matrix_scores(classifier: Any, X: Any, labels: int, unknown: float) -> NDArray[np.float64]:
    """Return the scores of a classifier of label matrices, one column for each label."""
    method = next((name for name in METHODS if hasattr(classifier, name)), None)
    if method is None:
        raise SetpointError(
            f"{type(classifier).__name__} has neither decision_function nor predict_proba; "
            "thresholds need scores."
        )
    found = getattr(classifier, method)(X)
    if isinstance(found, list):  # a matrix for each label, with a column for each class
        classes = list(classifier.classes_)
        columns = [
            proba[:, list(known).index(1)] if 1 in known else np.full(len(proba), unknown)
            for proba, known in zip(found, classes, strict=True)
        ]
        found = np.column_stack(columns)
    scores = np.asarray(found, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] != labels:
        raise SetpointError(
            f"{method} of {type(classifier).__name__} has the shape {scores.shape}; it must have a "
            f"column for each of {labels} labels."
        )
    if np.isnan(scores).any():
        raise SetpointError(
            f"{np.isnan(scores).sum()} scores of {type(classifier).__name__} are NaN."
        )
    return scores
