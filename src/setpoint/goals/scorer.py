"""Scores of decisions for a goal, as scikit-learn's searches and cross-validation need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.validation import as_labels, either, label_list, positive_mask
from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal
from setpoint.goals.linear_fraction import Counts

_ON_ALARMS = "alarms"  # the population of a metric that is 1 by convention without any alarms


@dataclass(frozen=True)
class GoalScore:
    """How good decisions are for a goal: one number, the larger the better.

    Attributes
    ----------
    goal : Goal
        The goal.
    pos_label : optional
        The positive label, or a list of labels that count as positive. May be left out for the
        labels 0 and 1, -1 and 1, or booleans.
    """

    goal: Goal
    pos_label: Any = None

    @property
    def __name__(self) -> str:
        """The goal, which scikit-learn shows as the name of the scorer."""
        return f"'{self.goal}'"

    def __call__(
        self,
        y: ArrayLike,
        decided: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        amounts: Any = None,
        segments: Any = None,
        times: Any = None,
    ) -> float:
        """Return the score of decided labels, or of decisions as booleans."""
        labels, predicted = as_labels(y), as_labels(decided)
        if len(labels) != len(predicted):
            raise SetpointError(f"there are {len(labels)} labels, and {len(predicted)} decisions.")
        positive, alarm = positive_mask(labels, self.pos_label), self._alarms(predicted)
        weight = np.ones(len(labels)) if sample_weight is None else _weights(sample_weight, labels)
        columns = GoalColumns.of(self.goal, len(labels), amounts, segments, times)
        goal = columns.bind(self.goal, positive)
        if not goal.is_plain:
            weight = columns.factors(goal.tallies, np.arange(len(labels))) * weight
        tp, fp, P, N = (
            (weight * rows).sum(axis=-1)
            for rows in (positive & alarm, ~positive & alarm, positive, ~positive)
        )
        with np.errstate(all="ignore"):
            violation = float(goal.violation(tp, fp, P, N))
            gain = _gain(goal, tp, fp, P, N)
            worst = min(gain, _least_gain(goal, P, N))
        if np.isnan(violation) or np.isnan(gain):
            raise SetpointError(
                f"'{goal}' cannot be evaluated on {len(labels):,} rows of which "
                f"{int(positive.sum()):,} are positive; use stratified folds, or fewer."
            )
        return gain if violation == 0 else worst - violation * max(1.0, abs(worst))

    def _alarms(self, decided: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which decisions are alarms.

        Of several positive labels, setpoint's classifiers predict the class "1 or 2".
        """
        several = label_list(self.pos_label)
        if decided.dtype == np.bool_ and self.pos_label is not None:
            return decided
        if several is None:
            return positive_mask(decided, self.pos_label)
        return positive_mask(decided, [*several, either(several)])


def _gain(goal: Goal, tp: Counts, fp: Counts, P: Any, N: Any) -> float:
    """Return the objective, negated where lower is better.

    Without alarms, a metric of alarms such as precision has its worst value: as an objective, 1 by
    convention would make a classifier that never raises an alarm the best one.
    """
    alarms = goal.plain(tp) + goal.plain(fp)
    if str(goal.objective.population) == _ON_ALARMS and alarms == 0:
        return _least_gain(goal, P, N)
    return float(goal.gain(tp, fp, P, N))


def _least_gain(goal: Goal, P: Any, N: Any) -> float:
    """Return a bound that no decisions on these rows fall below."""
    which = goal.objective
    if which.is_bounded:
        low, high = which.bounds
        return low if which.direction == "max" else -high
    corners = [(tp, fp) for tp in (0.0 * P, P) for fp in (0.0 * N, N)]  # costs are linear
    return float(min(goal.gain(tp, fp, P, N) for tp, fp in corners))


def _weights(given: ArrayLike, labels: NDArray[Any]) -> NDArray[np.float64]:
    weight = np.asarray(given, dtype=np.float64)
    if weight.shape != labels.shape:
        raise SetpointError(
            f"sample_weight has the shape {weight.shape}, and there are {len(labels)} labels."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise SetpointError("sample_weight must be finite and not negative.")
    return weight
