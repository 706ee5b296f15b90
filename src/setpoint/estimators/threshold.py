"""The exact threshold, and its certificate, for any scikit-learn classifier."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin

from setpoint._internal.validation import check_caution, check_fraction
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify, certify_on, certify_rows
from setpoint.certificates.decisions import needs_decisions
from setpoint.data.splits import Rows
from setpoint.estimators.base import draw_seed
from setpoint.estimators.cross_fit import Fold, LabelledRows
from setpoint.estimators.decision_scores import DecisionScores
from setpoint.estimators.model_search import ModelSearch
from setpoint.estimators.search_fits import Measure
from setpoint.estimators.wrapped import Comparison
from setpoint.goals.goal import Goal, check_for_new_rows
from setpoint.thresholds.operating_point import OperatingPoint


class SetpointThreshold(DecisionScores, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier, with the exact threshold for a goal, and optionally a certificate.

    The threshold is found on scores of rows that the classifier has not seen: cross-fitted,
    held-out, or all rows for a classifier that is fitted already. Without ``confidence`` every
    distinct cut is tried.

    ``predict_proba`` and ``decision_function`` are the classifier's own; the threshold affects only
    ``predict``.

    With ``confidence``, certification rows are split off, which do not train. The threshold is then
    the best one whose constraints are certified on new data. If there is none, ``fit`` warns with
    an ``UncertifiedWarning``, and ``certificate_.refusal`` says why.

    Parameters
    ----------
    estimator : classifier
        Anything with ``decision_function`` or ``predict_proba``: a pipeline, gradient-boosted
        trees, a calibrated or a fitted classifier. A :class:`ModelSearch` tries several, see
        :meth:`auto`.
    goal : str or Goal
        What the threshold is for, e.g. ``"max recall s.t. precision >= 0.9"``.
    decision : {"threshold", "expected_value"}
        How rows are decided. ``"threshold"``: by one threshold of the scores.
        ``"expected_value"``: for a goal such as ``"min cost(fp=5, fn=amount)"``, an alarm is
        raised where it is expected to save money, given the row's own prices. That needs calibrated
        probabilities, and the amounts at ``predict``; scores are expected savings, and their
        threshold is 0, or the best one if the goal has constraints. ``decisions_`` compares both.
    thresholds : {"one", "per group"}
        One threshold for all rows or, for a goal such as
        ``"max recall s.t. precision >= 0.9 for each region"``, one for each region. Scores are then
        measured from the threshold of their region, so that ``threshold_`` is 0, and ``predict``
        needs the segments. Rows of unknown segments have the threshold that is best for all rows
        together.
    cv : int, float, splitter, iterable, "prefit" or None
        Where scores come from. An int is the number of stratified folds (None: 5, or 3 to
        compare models), which respect groups; a float the fraction of held-out rows in a single
        split; a splitter or an iterable yields pairs of rows. ``"prefit"``: the estimator is
        fitted already, and all rows are new to it.
    refit : bool
        Whether the classifier that decides is trained on all rows but the certification rows.
        Without it, ``cv`` must be a single split, and the classifier of that split decides.
    caution : float
        What it is worth that the constraints hold on new rows, in units of the objective, as for
        :class:`SetpointClassifier`: thresholds that meet the constraints are ranked by the
        objective plus ``caution`` times the estimated probability that the constraints hold on
        new rows. 0: by the objective alone. Without effect with ``confidence``, on thresholds per
        group and on expected values.
    confidence : float, optional
        Confidence, e.g. 0.9, with which the constraints must hold on new data.
    certification : float, splitter or iterable
        The certification rows: a fraction, drawn at random and by whole groups, or one pair of
        other and certification rows, which must not be stratified. If there are groups, one row of
        each is used, since the others are not independent draws. Without effect with ``"prefit"``:
        all rows are certification rows, but for the 30 % that plan if precision is constrained.
    caps : mapping of str to float, optional
        The largest amounts that rows can have, by name, for certified bounds on costs; see
        :func:`setpoint.certify`.
    response_method : {"auto", "decision_function", "predict_proba"}
        Which scores to use. ``"auto"``: the decision function if there is one, since probabilities
        near 0 and 1 may be equal.
    pos_label : optional
        The label of the positive class. By default the larger of two numbers, so 1 or True; of two
        texts "yes", "true" or "positive" and the like, or else the rarer one if it makes up less
        than 40 % of the rows, or else the one that sorts last. A warning says which one was taken
        unless scikit-learn would take it as well. A list: these labels
        are positive. With a list, and with more than two labels, all others are negative;
        ``classes_`` are then two texts, such as ``"other"`` and ``"1 or 2"``, which ``predict``
        returns. The classifier learns from booleans, or is ``"prefit"`` and knows all classes: the
        score is then the sum of the positive ones' probabilities.
    n_jobs : int, optional
        How many folds are fitted at once, as in joblib. Those of a :class:`ModelSearch` are fitted
        in threads, by default as many as torch has; models that are trained for the goal in turn.
    random_state : int, RandomState or None
        Seed of the folds and of the certification rows.

    Attributes
    ----------
    estimator_ : classifier
        The classifier that decides.
    threshold_ : float
        ``positive_scores(X) > threshold_`` is a positive decision. ``best_threshold_`` is the same
        number, as ``TunedThresholdClassifierCV`` calls it.
    operating_point_ : OperatingPoint
        Counts and metrics on the rows that set the threshold.
    thresholds_ : ndarray
        The threshold that each fold alone would have chosen; their spread is its uncertainty.
    certificate_ : Certificate or None
        What is certified on new data.
    candidates_ : ModelCandidates or None
        The models that were compared, if the estimator is a ``ModelSearch``.
    decisions_ : DecisionTable or None
        Both ways to decide, on the rows that set the threshold, if the decision is
        ``"expected_value"``.
    segment_thresholds_ : SegmentThresholds or None
        The threshold of each segment, if there is one per group.
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
        decision: str = "threshold",
        thresholds: str = "one",
        cv: Any = None,
        refit: bool = True,
        caution: float = 0.0,
        confidence: float | None = None,
        certification: Any = 0.3,
        caps: Any = None,
        response_method: str = "auto",
        pos_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.goal = goal
        self.decision = decision
        self.thresholds = thresholds
        self.cv = cv
        self.refit = refit
        self.caution = caution
        self.confidence = confidence
        self.certification = certification
        self.caps = caps
        self.response_method = response_method
        self.pos_label = pos_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    @classmethod
    def auto(
        cls,
        goal: str | Goal = "max f1",
        *,
        time_limit: float | None = None,
        caution: float = 0.1,
        **parameters: Any,
    ) -> SetpointThreshold:
        """Return an unfitted threshold on the best of several kinds of models for the goal.

        ``fit`` compares logistic regression, a linear model trained for the goal, boosted trees,
        extra trees and a stack of them on cross-fitted scores, and takes the simplest that is at
        most one standard error behind the best; ``candidates_`` lists all. See
        :class:`ModelSearch`.

        Parameters
        ----------
        goal : str or Goal
            The goal.
        time_limit : float, optional
            Seconds after which no further model is fitted.
        caution : float
            As for :class:`SetpointThreshold`.
        **parameters
            Other parameters, such as ``confidence`` and ``random_state``.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from setpoint import SetpointThreshold
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> clf = SetpointThreshold.auto("max f1", cv=0.3, random_state=0)
        >>> [candidate.name for candidate in clf.fit(X, y).candidates_][:2]
        ['logistic', 'linear']
        """
        search = ModelSearch(time_limit=time_limit)
        return cls(search, goal, caution=caution, **parameters)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        amounts: Any = None,
        segments: Any = None,
        times: Any = None,
        **fit_params: Any,
    ) -> SetpointThreshold:
        """Fit the classifier and find its threshold.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix
            Rows that the classifier takes.
        y : array-like of shape (n,)
            Two different labels, or more if ``pos_label`` names the positive ones.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; also given to the classifier if its ``fit`` takes them (that
            of a pipeline does not: give ``step__sample_weight`` as well, or enable routing).
        groups : array-like of shape (n,), optional
            Rows of one group, e.g. of one patient, stay in the same split.
        amounts, segments, times : optional
            The columns that the goal names, as for :func:`setpoint.choose_threshold`; amounts and
            segments that are not given are columns of a data frame X. Segments of fewer than ten
            positives or negatives are pooled. With a budget per period, whole periods stay in the
            same split.
        **fit_params
            Given to the classifier's ``fit``; parameters with one entry per row are split with
            the rows. With scikit-learn's metadata routing enabled, they go where requested.
        """
        goal = Goal.parse(self.goal)
        if self.confidence is not None:
            check_fraction(self.confidence, "confidence")
        check_caution(self.caution)
        check_for_new_rows(goal)
        method = self._response_method(goal)
        data = LabelledRows.of(
            X, y, sample_weight, groups, self.pos_label, goal, amounts=amounts, segments=segments,
            times=times,
        )  # fmt: skip
        seed = draw_seed(self.random_state)
        comparison = Comparison(goal, partial(self._measure, data, goal))
        found = self._score_unseen(
            data, method, sample_weight, groups, fit_params, seed, comparison
        )
        estimator, folds, _, certification, on = found
        unseen = found.merged
        by_labels = self.confidence is None or certification is not None
        data = data.pooled(goal, found.seen, by_labels)
        self.decisions_ = self.segment_thresholds_ = None
        if self.decision == "expected_value":
            self.decisions_ = data.decisions(unseen, goal, on)
        if self.thresholds == "per group":
            valued = self._decided(data, unseen, goal)
            self.segment_thresholds_ = data.by_segment(valued, goal, on)
        folds = [self._decided(data, fold, goal) for fold in folds]
        unseen = self._decided(data, unseen, goal)
        self._threshold_rows = data.positive[unseen.rows], unseen.scores
        self._threshold_columns = data.columns.take(unseen.rows)
        certificate = None
        if self.confidence is not None:
            certificate = replace(
                self._certify(data, unseen, goal, certification, seed),
                one_per_group=data.groups is not None and not data.columns.periods,
                pos_label=data.labels.pos_label,
            )
            point = certificate.operating_point
        elif self.segment_thresholds_ is not None:
            point = self.segment_thresholds_.operating_point
        elif self.decisions_ is not None:
            point = self.decisions_["expected value"]
        else:
            point = data.point(unseen, goal, on, self._caution)

        self._planned_point = point
        if certification is not None:
            self._planned_point = data.point(unseen, goal, on, self._caution)
        self.threshold_ = point.threshold
        self.thresholds_ = data.thresholds(folds, goal)
        self.segments_ = data.segments
        self._set_fitted(data, estimator, goal, point, certificate)
        self._warn_if_unmet()
        return self

    def _measure(
        self, data: LabelledRows, goal: Goal, seen: Rows, certified: bool, on: str
    ) -> Measure:
        """Return a function from the scores of a fold to its operating point, as ``fit`` finds it.

        With ``certified``, labels of other rows are known that decide which segments are pooled.
        """
        data = data.pooled(goal, seen, self.confidence is None or certified)

        def measure(fold: Fold) -> OperatingPoint:
            if self.decision == "expected_value":
                fold = data.valued(fold, goal)
            if self.thresholds == "per group":
                return data.by_segment(fold, goal, on).operating_point
            return data.point(fold, goal, on, self._caution)

        return measure

    @property
    def _caution(self) -> float:
        """The caution of a single threshold that is not certified."""
        single = self.decision == "threshold" and self.confidence is None
        return self.caution if single else 0.0

    def _certify(
        self, data: LabelledRows, unseen: Fold, goal: Goal, certification: Any, seed: int
    ) -> Certificate:
        """Return the certificate of the best threshold that can be certified."""
        assert self.confidence is not None
        planning = data.positive[unseen.rows], unseen.scores
        if certification is None:
            if data.columns or needs_decisions(goal):
                columns = data.columns.take(unseen.rows)
                return certify_rows(*planning, columns, goal, self.confidence, self.caps, seed)
            return certify(
                *planning, goal, confidence=self.confidence,
                sample_weight=data.weight_of(unseen.rows), random_state=seed, on="the rows given",
            )  # fmt: skip
        testing = data.score(unseen.classifier, certification, self._response_method(goal))
        testing = self._decided(data, testing, goal)
        self._threshold_rows = data.positive[certification], testing.scores
        self._threshold_columns = data.columns.take(certification)
        return certify_on(
            (*planning, data.columns.take(unseen.rows)),
            (*self._threshold_rows, data.columns.take(certification)),
            goal,
            self.confidence,
            self.caps,
        )

    def predict(self, X: Any, *, amounts: Any = None, segments: Any = None) -> NDArray[Any]:
        """Return the label decided at the threshold; parameters as in ``positive_scores``."""
        scores = self.positive_scores(X, amounts=amounts, segments=segments)
        return self._labels.of_decisions(scores.astype(np.float64, copy=False) > self.threshold_)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        amounts: Any = None,
        segments: Any = None,
    ) -> float:
        """Return the accuracy of ``predict``, as everywhere in scikit-learn.

        It says little about rare positives; :meth:`Goal.scorer` scores ``predict`` by the goal:
        ``cross_val_score(clf, X, y, scoring=goal.scorer())``.

        In a cross-validation with metadata routing, amounts and segments must be data frames:
        scikit-learn does not divide the arrays in a dict among the folds.
        """
        predicted = self.predict(X, amounts=amounts, segments=segments)
        return self._accuracy(y, predicted, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
