"""The exact threshold, and its certificate, for any scikit-learn classifier."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from setpoint._internal.arrays import one_of_each
from setpoint._internal.validation import check_fraction
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify, certify_best
from setpoint.certificates.sequence import Rows
from setpoint.data.splits import certifying_split
from setpoint.errors import InfeasibleGoalWarning, SetpointError
from setpoint.estimators.cross_fit import Fold, Table, cross_fit, positive_scores, splits_of
from setpoint.estimators.outputs import Outputs, tell
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint, evaluate_threshold


def _has(name: str) -> Any:
    """Return a check that the classifier has a method, for ``available_if``."""

    def check(self: SetpointThreshold) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)  # its error says what is missing
        return True

    return check


class SetpointThreshold(Outputs, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier, with the exact threshold for a goal, and with a certificate if wanted.

    The threshold is found on scores of rows that the classifier has not seen: cross-fitted,
    held-out, or all rows for a classifier that is fitted already. Without ``confidence`` every
    distinct cut is tried.

    ``predict_proba`` and ``decision_function`` are the classifier's own; the threshold moves only
    ``predict``.

    With ``confidence`` some rows are kept apart from all training. They certify: the threshold is
    then the best one whose constraints are promised on new data. Where nothing can be promised,
    ``fit`` warns with an ``UncertifiedWarning``, and ``certificate_`` says what is missing.

    Parameters
    ----------
    estimator : classifier
        Anything with ``decision_function`` or ``predict_proba``: a pipeline, gradient-boosted
        trees, a calibrated or a fitted classifier.
    goal : str or Goal
        What the threshold is for, e.g. ``"max recall s.t. precision >= 0.9"``.
    cv : int, float, splitter, iterable, "prefit" or None
        Where scores come from. An int is the number of stratified folds (None: 5), which respect
        groups; a float the share of one held-out part; a splitter or an iterable yields pairs of
        rows. ``"prefit"``: the estimator is fitted already, and all rows are new to it.
    refit : bool
        Whether the classifier that decides is trained on all rows (that do not certify). Without
        it, ``cv`` must be a single split, and the classifier of that split decides.
    confidence : float, optional
        E.g. 0.9: how surely the constraints must hold on new data.
    certification : float, splitter or iterable
        Which rows certify: a share, drawn by chance and by whole groups, or one pair of other and
        certifying rows, which must not be stratified. Where there are groups, one row of each
        certifies, for the others are no independent draws. Of no effect with ``"prefit"``: all rows
        certify, but for the 30 % that plan where precision is constrained.
    response_method : {"auto", "decision_function", "predict_proba"}
        Which scores to use. ``"auto"``: the decision function where there is one, for probabilities
        run together near 0 and 1.
    pos_label : optional
        The label of the positive class; by default the larger of the two.
    n_jobs : int, optional
        How many folds are fitted at once, as in joblib.
    random_state : int, RandomState or None
        Seed of the folds and of the choice of certifying rows.

    Attributes
    ----------
    estimator_ : classifier
        The one that decides.
    threshold_ : float
        Of its scores for the positive class: ``positive_scores(X) > threshold_`` is positive.
    operating_point_ : OperatingPoint
        Counts and metrics where the threshold was found.
    thresholds_ : ndarray
        The threshold that each fold alone would have chosen: its spread says how sure it is.
    certificate_ : Certificate or None
        What is promised on new data.
    classes_, pos_label_, goal_
        The labels, the positive one, and the goal, parsed.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from setpoint import SetpointThreshold
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> trees = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    >>> clf = SetpointThreshold(trees, "max recall s.t. precision >= 0.98", random_state=0)
    >>> clf.fit(X, y).operating_point_.feasible
    True
    """

    def __init__(
        self,
        estimator: Any,
        goal: str | Goal = "max f1",
        *,
        cv: Any = None,
        refit: bool = True,
        confidence: float | None = None,
        certification: Any = 0.3,
        response_method: str = "auto",
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.goal = goal
        self.cv = cv
        self.refit = refit
        self.confidence = confidence
        self.certification = certification
        self.response_method = response_method
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> SetpointThreshold:
        """Fit the classifier and find its threshold.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix
            Whatever the classifier takes.
        y : array-like of shape (n,)
            Two different labels.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; also given to the classifier if its ``fit`` takes them (that
            of a pipeline does not: give ``step__sample_weight`` as well, or enable routing).
        groups : array-like of shape (n,), optional
            Rows of one group, e.g. of one patient, are never parted.
        **fit_params
            Given to the classifier's ``fit``; parameters with one entry per row are parted with
            the rows. Where scikit-learn's metadata routing is enabled, they go where requested.
        """
        goal = Goal.parse(self.goal)
        if self.confidence is not None:
            check_fraction(self.confidence, "confidence")
        table = Table.of(X, y, sample_weight, groups, self.pos_label)
        fit_params, split_params = self._route(sample_weight, groups, fit_params)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        certifying = None
        if isinstance(self.cv, str) and self.cv == "prefit":
            check_is_fitted(self.estimator)
            estimator, on = self.estimator, "the rows given"
            rows = table.rows
            if self.confidence is not None and table.groups is not None:
                rows = rows[one_of_each(table.groups[rows], seed)]
            folds = [table.score(estimator, rows, self.response_method)]
        else:
            seen = table.rows
            if self.confidence is not None:
                seen, certifying = certifying_split(
                    self.certification, table.positive, table.weight, table.groups, seed
                )
            table.labels.check_counts(table.positive[seen])
            splits = splits_of(self.cv, table, seen, seed, split_params)
            if len(splits) != 1 and not self.refit:
                raise SetpointError(
                    f"refit=False needs one split, and cv has {len(splits)}; use refit=True, or a "
                    "share such as cv=0.25."
                )
            folds = cross_fit(
                table, self.estimator, splits, fit_params, self.response_method, self.n_jobs
            )
            on = "the held-out rows" if len(splits) == 1 else "the cross-fitted rows"
            estimator = folds[0].classifier
            if self.refit:
                estimator = table.fit(clone(self.estimator), seen, fit_params)
        unseen = Fold.together(estimator, folds)
        self._judged = table.positive[unseen.rows], unseen.scores
        if self.confidence is None:
            certificate, point = None, table.point(unseen, goal, on)
        else:
            certificate = replace(
                self._certify(table, unseen, goal, certifying, seed),
                one_per_group=table.groups is not None,
                pos_label=table.labels.positive,
            )
            point = certificate.operating_point

        self.estimator_ = estimator
        self.threshold_ = point.threshold
        self.operating_point_ = point
        self.thresholds_ = np.array([p.threshold for p in table.points(folds, goal)])
        self.certificate_ = certificate
        self.classes_ = table.labels.classes
        self.pos_label_ = table.labels.positive
        self.goal_ = goal
        self._labels = table.labels
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
            elif hasattr(self, name):  # of an earlier fit
                delattr(self, name)
        if certificate is not None:
            tell(certificate)
        elif not point.feasible or point.empty:
            warnings.warn(point.message, InfeasibleGoalWarning, stacklevel=2)
        return self

    def _certify(
        self, table: Table, unseen: Fold, goal: Goal, certifying: Any, seed: int
    ) -> Certificate:
        assert self.confidence is not None
        planned = table.positive[unseen.rows], unseen.scores
        if certifying is None:
            weight = None if table.weight is None else table.weight[unseen.rows]
            return certify(
                *planned, goal, confidence=self.confidence, sample_weight=weight,
                random_state=seed, on="the rows given",
            )  # fmt: skip
        apart = table.score(unseen.classifier, certifying, self.response_method)
        self._judged = tests = table.positive[certifying], apart.scores
        return certify_best(
            Rows.of(*planned), Rows.of(*tests), goal, self.confidence, on="the certifying rows"
        )

    def positive_scores(self, X: Any) -> NDArray[np.floating]:
        """Return the scores that the threshold applies to, larger for likely positives."""
        check_is_fitted(self, "threshold_")
        return positive_scores(self.estimator_, X, self._labels, self.response_method)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label decided at the threshold."""
        scores = self.positive_scores(X)
        return self._labels.of_decisions(scores.astype(np.float64, copy=False) > self.threshold_)

    def evaluate(
        self, X: Any, y: Any, sample_weight: Any = None, *, on: str = "the test data"
    ) -> OperatingPoint:
        """Return what the threshold does on other labelled data."""
        scores = self.positive_scores(X)
        return evaluate_threshold(
            self._labels.is_positive(y), scores, self.threshold_, self.goal_,
            sample_weight=sample_weight, on=on,
        )  # fmt: skip

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the classifier's own probabilities; the threshold does not change them."""
        check_is_fitted(self, "threshold_")
        return self.estimator_.predict_proba(X)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the classifier's own decision function; the threshold does not change it."""
        check_is_fitted(self, "threshold_")
        return self.estimator_.decision_function(X)

    # --- scikit-learn ---------------------------------------------------------------------------

    def _route(
        self, sample_weight: Any, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the classifier's ``fit`` and the splitter get besides rows and labels."""
        own = {"sample_weight": sample_weight, "groups": groups}
        own = {name: value for name, value in own.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **own, **fit_params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        if "sample_weight" in own and has_fit_parameter(self.estimator, "sample_weight"):
            fit_params = {**fit_params, "sample_weight": sample_weight}
        return fit_params, {}

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata go to the classifier and which to the splitter."""
        router = MetadataRouter(owner=self).add_self_request(self)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router.add(estimator=self.estimator, method_mapping=to_fit)
        splitter = self.cv if hasattr(self.cv, "split") else StratifiedKFold()
        return router.add(splitter=splitter, method_mapping=to_split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags
