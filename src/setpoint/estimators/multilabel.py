"""Exact thresholds for several labels, and their certificates, for any scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import column_or_1d, get_tags, indexable
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter

from setpoint._internal.validation import check_fraction, check_groups, one_row_per_group
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify_best, certify_threshold
from setpoint.certificates.multilabel import (
    MultilabelCertificate,
    certify_labels,
    confidence_of_each,
    goals_to_certify,
)
from setpoint.certificates.sequence import Rows
from setpoint.data.labels import Labels
from setpoint.data.splits import certification_split
from setpoint.errors import SetpointError
from setpoint.estimators.base import draw_seed, take_features, warn_if_unmet
from setpoint.estimators.label_classifiers import LabelClassifiers, LabelledMatrix, takes_matrices
from setpoint.thresholds.label_goals import Average, LabelGoals
from setpoint.thresholds.multilabel import (
    LabelMatrix,
    MultilabelPoint,
    best_points,
    check_indicators,
    check_names,
    evaluate_thresholds,
    warn_of_one_class,
)
from setpoint.thresholds.operating_point import OperatingPoint


class SetpointMultilabel(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of several labels with the exact threshold of each for a goal.

    Thresholds are found on scores of rows that the classifiers have not seen: cross-fitted or
    held-out. A row may have any number of labels: Y is a matrix of 0 and 1, and ``predict`` returns
    one.

    A label without positives, or without negatives, has no classifier: it is never, or always,
    predicted (threshold +inf or -inf), and ``fit`` warns of it.

    Parameters
    ----------
    estimator : classifier
        If it is multilabel itself (forests, MLPClassifier, OneVsRestClassifier,
        MultiOutputClassifier, ...), it is fitted once, to the matrix; any other is fitted for each
        label by itself.
    goal : str, Goal, list or mapping
        One goal for all labels or one for each, see :func:`setpoint.choose_thresholds`.
    average : {"macro", "micro", None}
        What is optimised: the mean of the objective over the labels, the objective of the summed
        counts, or the objective of each label.
    cv : int, float, splitter, iterable, "prefit" or None
        Where scores come from. An int is the number of folds (None: 5), stratified by the rarest
        label of each row; a float the fraction of held-out rows; a splitter, which is given the
        matrix, or an iterable yields pairs of rows. ``"prefit"``: the estimator is multilabel and
        fitted already, and all rows are new to it.
    confidence : float, optional
        Confidence, e.g. 0.9, with which the constraints of the labels must hold on new data.
        Certification rows are then split off, and each threshold is the best that can be certified.
    certification : float, splitter or iterable
        The certification rows, as in :class:`setpoint.SetpointThreshold`.
    joint : bool
        Whether the confidence is for all labels together: each of L labels is then certified at
        1 - (1 - confidence) / L. Otherwise it is for each label by itself.
    n_jobs : int, optional
        How many classifiers are fitted at once, as in joblib.
    random_state : int, RandomState or None
        Seed of the folds and of the certification rows.

    Attributes
    ----------
    thresholds_ : ndarray of shape (L,)
        ``label_scores(X) > thresholds_`` are the predictions.
    operating_point_ : MultilabelPoint
        Counts and metrics, by label and on average, on the rows that set the thresholds.
    operating_points_ : list of OperatingPoint
        Those of each label.
    certificate_ : MultilabelCertificate or None
        What is certified on new data.
    certificates_ : list of Certificate, or None
        The certificate of each label.
    estimator_ : classifier or None
        The classifier of all labels, if it is multilabel.
    estimators_ : list or None
        Otherwise, the classifier of each label; None for a label with one class.
    label_names_ : list of str
        The columns of a data frame Y, or ``"0"``, ``"1"``, ...
    classes_ : ndarray of shape (2,)
        0 and 1, the values of the matrix; the two labels if y was not a matrix.
    goals_ : LabelGoals
        The goals, parsed.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from setpoint import SetpointMultilabel
    >>> X, Y = make_multilabel_classification(500, n_classes=3, random_state=0)
    >>> clf = SetpointMultilabel(LogisticRegression(max_iter=1000), "max micro f1", random_state=0)
    >>> clf.fit(X, Y).predict(X).shape
    (500, 3)
    """

    def __init__(
        self,
        estimator: Any,
        goal: Any = "max f1",
        *,
        average: Average = "macro",
        cv: Any = None,
        confidence: float | None = None,
        certification: Any = 0.3,
        joint: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.goal = goal
        self.average = average
        self.cv = cv
        self.confidence = confidence
        self.certification = certification
        self.joint = joint
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> SetpointMultilabel:
        """Fit the classifiers and find the thresholds.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix
            Rows that the classifier takes.
        y : array-like of shape (n, L)
            1 where a row has a label, and 0 where it does not. Of shape (n,): two labels, as for
            :class:`setpoint.SetpointThreshold`, which ``predict`` then returns.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; also given to the classifier if its ``fit`` takes them.
        groups : array-like of shape (n,), optional
            Rows of one group, e.g. of one patient, stay in the same split.
        **fit_params
            Given to the classifier's ``fit``; parameters with one entry per row are split with
            the rows.
        """
        data, names, labels = self._check(X, y, sample_weight, groups, fit_params)
        goals = LabelGoals.of(self.goal, names, self.average)
        if self.confidence is not None:
            check_fraction(self.confidence, "confidence")
            goals = goals_to_certify(self.goal, names)
        seed = draw_seed(self.random_state)
        seen, certification = data.rows, None
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        if prefit:
            classifiers = self._prefit(data.Y.shape[1])
            if self.confidence is not None and data.groups is not None:
                seen = seen[one_row_per_group(data.groups[seen], seed)]
            rows, scores, on = seen, data.score(classifiers, seen, 0.0), "the rows given"
        else:
            if self.confidence is not None:
                seen, certification = certification_split(
                    self.certification, data.any_label, data.weight, data.groups, seed
                )
            splits = data.splits(self.cv, seen, seed)
            *folds, classifiers = data.fit(self.estimator, [*(train for train, _ in splits), seen])
            rows = np.concatenate([held_out for _, held_out in splits])
            # No classifier could be trained in a fold without the label: it is not predicted there.
            scores = np.concatenate(
                [
                    data.score(fold, held_out, -np.inf)
                    for fold, (_, held_out) in zip(folds, splits, strict=True)
                ]
            )
            on = "the held-out rows" if len(splits) == 1 else "the cross-fitted rows"
        weight = None if data.weight is None else data.weight[rows]
        unseen = LabelMatrix.of(data.Y[rows], scores, weight, names)
        self._set_classifiers(classifiers)
        self.goals_, self.label_names_ = goals, list(names)
        self._labels = labels
        self.classes_ = np.array([0, 1]) if labels is None else labels.classes
        self.certificate_ = None
        if self.confidence is None:
            self.operating_point_ = best_points(unseen, goals, on)
        else:
            self.certificate_ = self._certify(data, unseen, goals, certification, seed)
            points = tuple(found.operating_point for found in self.certificate_.certificates)
            self.operating_point_ = MultilabelPoint(names, points, goals, points[0].on)
        self.thresholds_ = self.operating_point_.thresholds
        warn_of_one_class(self.operating_point_, stacklevel=3)
        warn_if_unmet(self.operating_point_, self.certificate_, stacklevel=3)
        return self

    def _check(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[LabelledMatrix, tuple[str, ...], Labels | None]:
        """Check and convert the arguments of ``fit``."""
        if y is None:
            raise SetpointError("requires y to be passed, but the target y is None.")
        named, labels = check_names(None, y), None
        y = y if hasattr(y, "toarray") else np.asarray(y)
        if y.ndim == 1:
            y = column_or_1d(y)
            labels = Labels.of(y, stacklevel=4)
            Y = labels.is_positive(y)[:, None]
        else:
            Y = check_indicators(y)
        X, _ = indexable(X, Y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            if not weight.any():
                raise SetpointError(
                    "sample_weight is zero in all rows; some need a positive weight."
                )
            if has_fit_parameter(self.estimator, "sample_weight"):
                fit_params = {**fit_params, "sample_weight": weight}
        groups = check_groups(groups, (len(Y),))
        names = tuple(map(str, range(Y.shape[1]))) if named is None else named
        if labels is not None:
            labels.check_counts(Y[:, 0] if weight is None else Y[weight > 0, 0])
        return LabelledMatrix(X, Y, weight, groups, fit_params, self.n_jobs), names, labels

    def _prefit(self, labels: int) -> LabelClassifiers:
        if not takes_matrices(self.estimator):
            raise SetpointError(
                "cv='prefit' needs a fitted classifier of label matrices; wrap yours in "
                "sklearn.multioutput.MultiOutputClassifier."
            )
        check_is_fitted(self.estimator)
        return LabelClassifiers(self.estimator, (), (True,) * labels)

    def _certify(
        self,
        data: LabelledMatrix,
        unseen: LabelMatrix,
        goals: LabelGoals,
        certification: NDArray[np.intp] | None,
        seed: int,
    ) -> MultilabelCertificate:
        """Return the certificates of the best thresholds that can be certified."""
        assert self.confidence is not None
        grouped = data.groups is not None
        if certification is None:
            Y = np.column_stack([positive for positive, _, _ in unseen.columns])
            scores = np.column_stack([own for _, own, _ in unseen.columns])
            found = certify_labels(
                Y, scores, list(goals.goals), confidence=self.confidence, joint=self.joint,
                names=unseen.names, random_state=seed, on="the rows given",
            )  # fmt: skip
            certificates = found.certificates
        else:
            tested = LabelMatrix.of(
                data.Y[certification], data.score(self._classifiers, certification, 0.0), None,
                unseen.names,
            )  # fmt: skip
            each = confidence_of_each(self.confidence, len(unseen.names), self.joint)
            certificates = tuple(
                self._certify_label(label, plan, test, goals, each)
                for label, (plan, test) in enumerate(
                    zip(unseen.columns, tested.columns, strict=True)
                )
            )
        certificates = tuple(replace(c, one_per_group=grouped) for c in certificates)
        return MultilabelCertificate(unseen.names, certificates, self.confidence, self.joint)

    def _certify_label(
        self, label: int, plan: Any, test: Any, goals: LabelGoals, confidence: float
    ) -> Certificate:
        goal, on = goals.goals[label], "the certification rows"
        testing = Rows.of(test[0], test[1])
        if not self._classifiers.kept[label]:  # it is never predicted, or always
            fixed = -np.inf if plan[0].any() else np.inf
            return certify_threshold(testing, goal, fixed, confidence, on=on)
        return certify_best(Rows.of(plan[0], plan[1]), testing, goal, confidence, on=on)

    def _set_classifiers(self, classifiers: LabelClassifiers) -> None:
        self._classifiers = classifiers
        self.estimator_ = classifiers.of_all
        self.estimators_ = None if classifiers.of_all is not None else list(classifiers.of_each)
        some = [classifiers.of_all, *classifiers.of_each]
        fitted = next((each for each in some if each is not None), None)
        take_features(self, fitted)

    @property
    def operating_points_(self) -> list[OperatingPoint]:
        """The operating point of each label."""
        return list(self.operating_point_.points)

    @property
    def certificates_(self) -> list[Certificate] | None:
        """The certificate of each label, if there are any."""
        found = self.certificate_
        return None if found is None else list(found.certificates)

    def label_scores(self, X: Any) -> NDArray[np.float64]:
        """Return the scores that the thresholds apply to; 0 for a label without a classifier."""
        check_is_fitted(self, "thresholds_")
        return self._classifiers.scores(X, 0.0)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores relative to the thresholds: > 0 is a predicted label."""
        found = np.asarray(self.label_scores(X) - self.thresholds_)
        return found if self._labels is None else found[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return 1 for each label that is decided at its threshold, and 0 for the others."""
        found = np.asarray(self.label_scores(X) > self.thresholds_, dtype=np.int64)
        return found if self._labels is None else self._labels.of_decisions(found[:, 0] == 1)

    def evaluate(
        self, X: Any, y: Any, sample_weight: Any = None, *, on: str = "the test rows"
    ) -> MultilabelPoint:
        """Return the operating point at the thresholds on other labelled rows."""
        goals = self.goals_
        Y = check_indicators(y) if self._labels is None else self._labels.is_positive(y)[:, None]
        point = evaluate_thresholds(
            Y, self.label_scores(X), self.thresholds_, list(goals.goals),
            average=None, sample_weight=sample_weight, names=self.label_names_, on=on,
        )  # fmt: skip
        return replace(point, goals=goals)

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a folder, or to one file if the path ends in .zip."""
        from setpoint.estimators.saving import describe
        from setpoint.saving.storage import save

        save(self, path, describe)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags
