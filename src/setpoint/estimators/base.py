"""What the estimators share: evaluation, warnings, reports, model files, the notebook view."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from setpoint.certificates.certificate import Certificate
from setpoint.data.labels import Labels
from setpoint.errors import InfeasibleGoalWarning, UncertifiedWarning
from setpoint.explain.coefficients import Coefficients
from setpoint.explain.importance import MAX_ROWS, REPEATS, Importances
from setpoint.explain.nearest import EACH_SIDE, NearestRows
from setpoint.goals.columns import NO_SEGMENT, OTHER, GoalColumns, from_table, segment_texts
from setpoint.goals.goal import Goal
from setpoint.thresholds.choose import evaluate_threshold
from setpoint.thresholds.operating_point import OperatingPoint


class SetpointEstimator:
    """A fitted binary classifier with an operating threshold."""

    classes_: NDArray[Any]
    pos_label_: Any
    goal_: Goal
    operating_point_: OperatingPoint
    certificate_: Certificate | None
    segments_: dict[str, tuple[str, ...]]
    _labels: Labels
    # Labels and scores of the rows that set the threshold; None if they are not in memory.
    _threshold_rows: tuple[NDArray[np.bool_], NDArray[np.floating]] | None
    # The amounts, segments and periods of these rows, where the goal names some.
    _threshold_columns: GoalColumns | None = None
    # The counts of these rows at the threshold, where operating_point_ has cross-fitted ones.
    _chosen_point: OperatingPoint | None = None
    # The best operating point on held-out training rows, where certification rows are others.
    _planned_point: OperatingPoint | None = None

    @property
    def best_threshold_(self) -> float:
        """The threshold, under its name in scikit-learn's ``TunedThresholdClassifierCV``.

        It applies to ``positive_scores``, not to probabilities. That of a ``SetpointClassifier`` is
        0, since its scores are measured from the threshold.
        """
        return float(self.operating_point_.threshold)

    def held_out_point(self) -> OperatingPoint:
        """Return the best operating point on training rows that were held out from training.

        Models that are fitted to the same rows can be compared by it: certification rows play no
        part, unless all rows are certification rows (``cv="prefit"``). The threshold was chosen on
        these rows, so they look better than new ones.
        """
        return self._planned_point or self._chosen_point or self.operating_point_

    def positive_scores(self, X: Any) -> NDArray[np.floating]:
        """Return one score per row, larger for likely positives."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the decision on each row."""
        raise NotImplementedError

    def _scores_of(self, X: Any, named: dict[str, Any]) -> NDArray[np.floating]:
        """Return the scores of rows with the amounts, segments and times that the goal names."""
        return self.positive_scores(X)

    def probabilities_of(self, scores: NDArray[np.floating]) -> NDArray[np.floating] | None:
        """Return the classifier's probabilities of rows with such scores.

        None where scores do not come from probabilities: those of models that are trained for
        the goal rank the rows and no more.
        """
        return None

    def evaluate(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        amounts: Any = None,
        segments: Any = None,
        times: Any = None,
        on: str = "the test rows",
    ) -> OperatingPoint:
        """Return the operating point at the threshold on other labelled rows.

        ``amounts``, ``segments`` and ``times`` are the columns that the goal names, as in ``fit``.
        Segments that were too small to be judged, or unknown, in ``fit`` are pooled in the same
        way.
        """
        given = {"amounts": amounts, "segments": segments, "times": times}
        check_is_fitted(self, "goal_")
        named = self.pooled(from_table(X, self.goal_, given))
        scores = self._scores_of(X, named)
        return evaluate_threshold(
            self._labels.is_positive(y), scores,
            getattr(self, "threshold_", 0.0), self.goal_, sample_weight=sample_weight, on=on,
            **named,
        )  # fmt: skip

    def pooled(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return amounts, segments and times with the pools of segments that ``fit`` made.

        Segments that ``fit`` has not seen belong to the pool of the small ones.
        """
        segments = named.get("segments")
        if segments is None or not getattr(self, "segments_", {}):  # or not fitted yet
            return named
        found = {name: segments[name] for name in segments}
        for name, values in self.segments_.items():
            if name in found:
                texts = segment_texts(name, found[name], len(found[name]))
                pool = OTHER if OTHER in values else NO_SEGMENT
                found[name] = np.where(np.isin(texts, values), texts, pool)
        return {**named, "segments": found}

    def coefficients(self, X: Any = None) -> Coefficients:
        """Return the coefficients of a linear model in the units of its features.

        Standardization is undone. Scores are relative to the threshold; those of a review band,
        which has two, are the classifier's own. An error says so if the model is not linear.

        Parameters
        ----------
        X : array-like, optional
            Rows whose standard deviations are used if the model did not standardize its features.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from setpoint import SetpointClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> clf = SetpointClassifier("max f1", random_state=0).fit(X[["mean area"]], y)
        >>> [(c.feature, c.coefficient < 0) for c in clf.coefficients()]
        [('mean area', True)]
        """
        from setpoint.estimators.linear import coefficients_of

        check_is_fitted(self, "goal_")
        return coefficients_of(self, X)

    def permutation_importance(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        amounts: Any = None,
        segments: Any = None,
        times: Any = None,
        columns: Sequence[str] | None = None,
        together: Sequence[Sequence[str]] = (),
        repeats: int = REPEATS,
        max_rows: int | None = MAX_ROWS,
        random_state: int = 0,
        on: str = "the rows given",
    ) -> Importances:
        """Return by how much the goal's metrics are worse if a column is shuffled.

        The metrics are the objective and those that the goal constrains, at the threshold.

        Parameters
        ----------
        X, y : array-like
            Labelled rows that are new to the classifier, of both classes.
        sample_weight : array-like of shape (n,), optional
            Weights >= 0 of the rows.
        amounts, segments, times : optional
            The columns that the goal names, as in ``evaluate``. They are not shuffled.
        columns : sequence of str, optional
            The columns to shuffle, by default all. Those of an array are x0, x1 and so on.
        together : sequence of sequence of str
            Columns that are shuffled together, since they carry the same information, e.g.
            ``[["latitude", "longitude"]]``.
        repeats : int
            How often each column is shuffled.
        max_rows : int or None
            Of more rows a random sample is used: all positives, or half of the sample, with
            weights that make up for that. None: all rows, as always if the goal has periods.
        random_state : int
            Seed of the sample and of the shuffling.
        on : str
            What to call the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from setpoint import SetpointClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> X = X[["mean area", "mean symmetry"]]
        >>> clf = SetpointClassifier("max f1", random_state=0).fit(X[:400], y[:400])
        >>> clf.permutation_importance(X[400:], y[400:])[0].columns
        ('mean area',)
        """
        from setpoint.estimators.explanations import importance_of_columns

        check_is_fitted(self, "goal_")
        named = {"amounts": amounts, "segments": segments, "times": times}
        return importance_of_columns(
            self, X, y, sample_weight, named, columns, together, repeats=repeats,
            max_rows=max_rows, random_state=random_state, on=on,
        )  # fmt: skip

    def nearest_rows(
        self,
        X: Any,
        y: Any = None,
        *,
        each_side: int = EACH_SIDE,
        values: bool = False,
        amounts: Any = None,
        segments: Any = None,
        on: str = "the rows given",
    ) -> NearestRows:
        """Return the rows nearest to the threshold and, for linear models, what moved them.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like, optional
            Their labels.
        each_side : int
            How many rows with an alarm, and how many without.
        values : bool
            Whether the values of the columns are given as well.
        amounts, segments : optional
            As in ``evaluate``.
        on : str
            What to call the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from setpoint import SetpointClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> X = X[["mean area", "mean symmetry"]]
        >>> clf = SetpointClassifier("max f1", random_state=0).fit(X, y)
        >>> [row.is_alarm for row in clf.nearest_rows(X, y, each_side=2)]
        [True, True, False, False]
        """
        from setpoint.estimators.explanations import nearest_rows_of

        check_is_fitted(self, "goal_")
        named = {"amounts": amounts, "segments": segments}
        return nearest_rows_of(self, X, y, each_side, values, named, on)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of ``predict``, as everywhere in scikit-learn.

        It says little about rare positives; :meth:`Goal.scorer` scores ``predict`` by the goal:
        ``cross_val_score(clf, X, y, scoring=goal.scorer())``.
        """
        return self._accuracy(y, self.predict(X), sample_weight)

    def _accuracy(self, y: Any, predicted: NDArray[Any], sample_weight: Any) -> float:
        if self._labels.positive_labels:  # predict returns classes
            y = self._labels.of_decisions(self._labels.is_positive(y))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def report(self, path: str | Path, X: Any = None, y: Any = None, **options: Any) -> Path:
        """Write a report, one HTML file, on the classifier and its certificate.

        ``X`` and ``y`` are labelled rows that are new to the classifier; they are compared with the
        certificate (give their ``groups`` if the fit had some, and the ``amounts``, ``segments``
        and ``times`` that the goal names). Without them the report is about the rows that set the
        threshold, which look better than new ones will. ``options`` are fields of
        :class:`setpoint.report.Report`, such as ``title``, ``positive`` and ``costs``.
        """
        from setpoint.report.page import write_report_of

        return write_report_of(self, path, X, y, **options)

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a folder, or to one file if the path ends in .zip."""
        from setpoint.estimators.saving import describe
        from setpoint.saving.storage import save

        save(self, path, describe)

    def _set_labels(self, labels: Labels) -> None:
        self._labels = labels
        self.classes_, self.pos_label_ = labels.classes, labels.positive

    def _warn_if_unmet(self, stacklevel: int = 3) -> None:
        """Warn, at the caller of the calling ``fit``, if the goal is not met or not certified."""
        point = self._chosen_point or self.operating_point_
        warn_if_unmet(point, self.certificate_, stacklevel + 1)

    # scikit-learn's `_repr_html_` calls the first; both respect its `display` setting.

    def _repr_html_inner(self) -> str:
        return self._decisions_html() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._decisions_html() + bundle["text/html"]
        return bundle

    def _decisions_html(self) -> str:
        if not hasattr(self, "operating_point_"):
            return ""
        negative, positive = self._labels.negative, self._labels.positive
        return decisions_html(self.operating_point_, self.certificate_, positive, negative)


def decisions_html(
    point: OperatingPoint, certificate: Certificate | None, positive: Any, negative: Any
) -> str:
    """Return an operating point with the labels' names, and its certificate, for a notebook."""
    names = f"positive: {_short(positive)}", f"negative: {_short(negative)}"
    shown = point._summary(*names).html()
    return shown + ("" if certificate is None else certificate._repr_html_())


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= 40 else f"{text[:39]}…"


def take_features(model: Any, fitted: Any) -> None:
    """Set the number and the names of features to those of a fitted classifier."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))
        elif hasattr(model, name):  # of an earlier fit
            delattr(model, name)


def warn_if_unmet(point: Any, certificate: Any, stacklevel: int) -> None:
    """Warn if a goal, or the goals of several labels, are not met or not certified."""
    if certificate is not None:
        if not certificate.certified:
            warnings.warn(certificate.message, UncertifiedWarning, stacklevel=stacklevel)
    elif not point.feasible or getattr(point, "empty", False):
        warnings.warn(point.message, InfeasibleGoalWarning, stacklevel=stacklevel)


def draw_seed(random_state: Any) -> int:
    """Return a seed drawn from an int, RandomState or None."""
    return int(check_random_state(random_state).randint(2**31 - 1))
