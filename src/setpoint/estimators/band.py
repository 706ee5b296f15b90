"""The exact review band, and its certificate, for any scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from setpoint._internal.validation import check_fraction
from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.bands import certify_band, certify_best_band
from setpoint.certificates.sequence import Rows
from setpoint.estimators.base import draw_seed
from setpoint.estimators.cross_fit import Fold, LabelledRows
from setpoint.estimators.scores import positive_scores
from setpoint.estimators.wrapped import WrappedClassifier
from setpoint.goals.bands import BandGoal
from setpoint.thresholds.band_search import BandRows
from setpoint.thresholds.bands import BandPoint, choose_band, decide, evaluate_band

Amounts = Mapping[str, Any] | None


class SetpointBand(WrappedClassifier, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier, with the exact review band for a goal, and optionally a certificate.

    ``predict`` returns ``"alarm"``, ``"review"`` or ``"clear"``. The two thresholds are found on
    scores of rows that the classifier has not seen: cross-fitted, held-out, or all rows for a
    classifier that is fitted already. Without ``confidence`` every pair of cuts is considered.

    ``predict_proba`` and ``decision_function`` are the classifier's own.

    With ``confidence``, certification rows are split off, which do not train. The band is then the
    best one whose constraints are certified on new data. If there is none, ``fit`` warns with an
    ``UncertifiedWarning``, and ``certificate_.refusal`` says why.

    Decisions are not labels, so it is not a classifier in scikit-learn's sense: it has no
    ``score``, and ``check_estimator`` does not apply. It can be cloned and put last in a pipeline.

    Parameters
    ----------
    estimator : classifier
        Anything with ``decision_function`` or ``predict_proba``.
    goal : str or BandGoal
        What the band is for, e.g.
        ``"min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999"``.
    cv : int, float, splitter, iterable, "prefit" or None
        Where scores come from, as in :class:`SetpointThreshold`.
    refit : bool
        Whether the classifier that decides is trained on all rows but the certification rows.
        Without it, ``cv`` must be a single split, and the classifier of that split decides.
    confidence : float, optional
        Confidence, e.g. 0.9, with which all constraints together must hold on new data.
    certification : float, splitter or iterable
        The certification rows: a fraction, drawn at random and by whole groups, or one pair of
        other and certification rows. Without effect with ``"prefit"``: all rows are certification
        rows, but for the 10 % that plan if precision or npv is constrained.
    response_method : {"auto", "decision_function", "predict_proba"}
        Which scores to use; ``"auto"``: the decision function if there is one.
    pos_label : optional
        The label of the positive class. By default the larger of two numbers, so 1 or True; of two
        texts "yes", "true" or "positive" and the like, or else the rarer one if it makes up less
        than 40 % of the rows, or else the one that sorts last. A warning says which one was taken
        unless scikit-learn would take it as well.
    n_jobs : int, optional
        How many folds are fitted at once, as in joblib.
    random_state : int, RandomState or None
        Seed of the folds and of the certification rows.

    Attributes
    ----------
    estimator_ : classifier
        The classifier that decides.
    low_, high_ : float
        ``positive_scores(X) > high_`` is an alarm, ``positive_scores(X) <= low_`` is cleared.
    operating_point_ : BandPoint
        Counts and metrics on the rows that set the band.
    bands_ : ndarray of shape (n_folds, 2)
        The band that each fold alone would have chosen; their spread is its uncertainty.
    certificate_ : BandCertificate or None
        What is certified on new data.
    classes_, pos_label_, goal_
        The labels, the positive one, and the goal, parsed.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from setpoint import SetpointBand
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> goal = "min review_rate s.t. precision(alarm) >= 0.99, npv(clear) >= 0.99"
    >>> band = SetpointBand(model, goal, pos_label=0, random_state=0).fit(X, y)
    >>> sorted(set(band.predict(X).tolist()))
    ['alarm', 'clear', 'review']
    """

    goal_: BandGoal  # type: ignore[assignment]
    operating_point_: BandPoint  # type: ignore[assignment]
    certificate_: BandCertificate | None  # type: ignore[assignment]

    def __init__(
        self,
        estimator: Any,
        goal: str | BandGoal = "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.99",
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
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        amounts: Amounts = None,
        **fit_params: Any,
    ) -> SetpointBand:
        """Fit the classifier and find its review band.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix
            Rows that the classifier takes.
        y : array-like of shape (n,)
            Two different labels.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the counts; also given to the classifier if its ``fit`` takes them.
        groups : array-like of shape (n,), optional
            Rows of one group, e.g. of one patient, stay in the same split.
        amounts : dict of array-like, optional
            The arrays that a cost in the goal names, with one number >= 0 per row.
        **fit_params
            Given to the classifier's ``fit``; parameters with one entry per row are split with
            the rows. With scikit-learn's metadata routing enabled, they go where requested.
        """
        goal = BandGoal.parse(self.goal)
        if self.confidence is not None:
            check_fraction(self.confidence, "confidence")
        data = LabelledRows.of(X, y, sample_weight, groups, self.pos_label)
        # Checks the amounts before any training.
        BandRows.of(data.positive, np.zeros(len(data.positive)), None, amounts, goal)
        found = self._score_unseen(
            data, self.response_method, sample_weight, groups, fit_params,
            draw_seed(self.random_state),
        )  # fmt: skip
        estimator, folds, _, certification, on = found
        unseen = found.merged
        self._threshold_rows = data.positive[unseen.rows], unseen.scores
        if self.confidence is None:
            certificate, point = None, _band(data, unseen, goal, amounts, on)
        else:
            certificate = replace(
                self._certify(data, unseen, goal, certification, amounts),
                one_per_group=data.groups is not None,
                pos_label=data.labels.positive,
            )
            point = certificate.operating_point

        self.low_, self.high_ = point.low, point.high
        both = data.with_both_classes(folds)
        of_folds = [_band(data, fold, goal, amounts, "one fold") for fold in both]
        self.bands_ = np.array([(p.low, p.high) for p in of_folds]).reshape(-1, 2)
        self._set_fitted(data, estimator, goal, point, certificate)
        self._warn_if_unmet()
        return self

    def _certify(
        self,
        data: LabelledRows,
        unseen: Fold,
        goal: BandGoal,
        certification: Any,
        amounts: Amounts,
    ) -> BandCertificate:
        """Return the certificate of the best band that can be certified."""
        assert self.confidence is not None
        planning = data.positive[unseen.rows], unseen.scores
        if certification is None:
            return certify_band(
                *planning, goal, confidence=self.confidence,
                sample_weight=data.weight_of(unseen.rows),
                amounts=_among(amounts, unseen.rows), on="the rows given",
            )  # fmt: skip
        testing = data.score(unseen.classifier, certification, self.response_method)
        self._threshold_rows = data.positive[certification], testing.scores
        rows = BandRows.of(*self._threshold_rows, None, _among(amounts, certification), goal)
        return certify_best_band(
            Rows.of(*planning), rows, goal, self.confidence, on="the certification rows"
        )

    def positive_scores(self, X: Any) -> NDArray[np.floating]:
        """Return the scores that the thresholds apply to, larger for likely positives."""
        check_is_fitted(self, "low_")
        return positive_scores(self.estimator_, X, self._labels, self.response_method)

    def predict(self, X: Any) -> NDArray[np.str_]:
        """Return "alarm", "review" or "clear" for each row."""
        return decide(self.positive_scores(X), self.low_, self.high_)

    def evaluate(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        amounts: Amounts = None,
        on: str = "the test rows",
    ) -> BandPoint:
        """Return the counts and metrics of the band on other labelled rows."""
        scores = self.positive_scores(X)
        return evaluate_band(
            self._labels.is_positive(y), scores, self.low_, self.high_, self.goal_,
            sample_weight=sample_weight, amounts=amounts, on=on,
        )  # fmt: skip

    # --- scikit-learn ---------------------------------------------------------------------------

    @property
    def score(self) -> Any:
        """Not available: decisions are not labels; :meth:`evaluate` counts them."""
        raise AttributeError("SetpointBand has no score: decisions are not labels; use evaluate().")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _among(amounts: Amounts, rows: NDArray[np.intp]) -> dict[str, Any] | None:
    """Return the amounts of some rows."""
    return None if amounts is None else {k: np.asarray(v)[rows] for k, v in amounts.items()}


def _band(data: LabelledRows, fold: Fold, goal: BandGoal, amounts: Amounts, on: str) -> BandPoint:
    """Return the best band on the rows of a fold."""
    return choose_band(
        data.positive[fold.rows], fold.scores, goal, sample_weight=data.weight_of(fold.rows),
        amounts=_among(amounts, fold.rows), on=on,
    )  # fmt: skip
