"""The scores that one threshold decides: the classifier's own, expected savings, or by segment."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from setpoint.errors import SetpointError
from setpoint.estimators.cross_fit import Fold, LabelledRows
from setpoint.estimators.scores import positive_scores, probabilities
from setpoint.estimators.wrapped import WrappedClassifier
from setpoint.goals.columns import GoalColumns, from_table, segment_texts
from setpoint.goals.goal import Goal
from setpoint.thresholds.by_segment import SegmentThresholds, segment_column
from setpoint.thresholds.expected_value import check_prices, check_probability, expected_saving


class DecisionScores(WrappedClassifier):
    """Any classifier, with scores that one threshold decides.

    They are the classifier's own. For decisions by expected value they are expected savings; with
    thresholds per group they are measured from the threshold of each row's segment.
    """

    decision: str
    thresholds: str
    response_method: str
    segment_thresholds_: SegmentThresholds | None

    def _response_method(self, goal: Goal) -> str:
        """Return the method of the classifier that gives the scores."""
        if self.thresholds not in ("one", "per group"):
            raise SetpointError(f"thresholds is 'one' or 'per group', not {self.thresholds!r}.")
        if self.thresholds == "per group":
            segment_column(goal)  # raises an error if there is none
            if self.confidence is not None and isinstance(self.cv, str) and self.cv == "prefit":
                raise SetpointError(
                    "with cv='prefit' all rows are certification rows, and thresholds='per group' "
                    "would be chosen on them; a certificate needs thresholds chosen on other rows. "
                    "Use another cv, or confidence=None."
                )
        if self.decision == "threshold":
            return self.response_method
        if self.decision != "expected_value":
            raise SetpointError(
                f"decision is 'threshold' or 'expected_value', not {self.decision!r}."
            )
        check_prices(goal)
        if self.response_method == "decision_function":
            raise SetpointError(
                "decisions by expected value need probabilities; leave response_method out."
            )
        return "predict_proba"

    def _decided(self, data: LabelledRows, fold: Fold, goal: Goal) -> Fold:
        """Return a fold with the scores that the threshold applies to, in ``fit``."""
        if self.decision == "expected_value":
            fold = data.valued(fold, goal)
        if self.segment_thresholds_ is not None:
            fold = data.above(fold, self.segment_thresholds_)
        return fold

    def positive_scores(
        self, X: Any, *, amounts: Any = None, segments: Any = None
    ) -> NDArray[np.floating]:
        """Return the scores that the threshold applies to, larger for likely positives.

        For decisions by expected value they are expected savings, and ``amounts`` those that the
        goal names. With thresholds per group they are measured from the threshold of each row's
        segment, in ``segments``. Both may be columns of the data frame X instead.
        """
        check_is_fitted(self, "threshold_")
        decisive = Goal(self.goal_.objective) if self.decision == "expected_value" else self.goal_
        named = {
            **from_table(X, decisive, {"amounts": amounts}),
            **from_table(X, self.goal_, {"segments": segments}),
        }
        return self.decision_scores(self.raw_scores(X), named)

    def raw_scores(self, X: Any) -> NDArray[np.floating]:
        """Return the classifier's scores of the positive class, before prices and segments."""
        check_is_fitted(self, "threshold_")
        method = self._response_method(self.goal_)
        return positive_scores(self.estimator_, X, self._labels, method)

    @property
    def decision_columns(self) -> tuple[str, ...]:
        """The columns that decisions need besides features: amounts, and segments."""
        found = self.goal_.objective.tallies if self.decision == "expected_value" else ()
        amounts = [tally.amount for tally in found if tally.amount]
        by = [] if self.segment_thresholds_ is None else [self.segment_thresholds_.column]
        return (*amounts, *by)

    def decision_scores(
        self, scores: NDArray[np.floating], named: dict[str, Any]
    ) -> NDArray[np.floating]:
        """Return the scores that the threshold applies to, given raw ones."""
        if self.decision == "expected_value":
            goal = Goal(self.goal_.objective)
            columns = GoalColumns.of(goal, len(scores), named.get("amounts"))
            scores = expected_saving(check_probability(scores), goal, columns.amounts)
        if self.segment_thresholds_ is not None:
            column, segments = self.segment_thresholds_.column, named.get("segments")
            if segments is None or column not in segments:
                raise SetpointError(
                    f"there is a threshold for each {column}; pass segments={{{column!r}: ...}}, "
                    "one entry per row."
                )
            texts = segment_texts(column, segments[column], len(scores))
            scores = self.segment_thresholds_.above(scores, self._known_segments(column, texts))
        return scores

    def probabilities_of(self, scores: NDArray[np.floating]) -> NDArray[np.floating] | None:
        """Return the classifier's probabilities of rows with such scores, None if it has none."""
        if self.decision != "threshold" or self.segment_thresholds_ is not None:
            return None
        return probabilities(self.estimator_, scores, self._labels, self.response_method)

    def _known_segments(self, column: str, texts: NDArray[np.str_]) -> NDArray[np.str_]:
        """Return segments with the pool that ``fit`` made of small ones."""
        return np.asarray(self.pooled({"segments": {column: texts}})["segments"][column])

    def _scores_of(self, X: Any, named: dict[str, Any]) -> NDArray[np.floating]:
        return self.positive_scores(X, amounts=named.get("amounts"), segments=named.get("segments"))
