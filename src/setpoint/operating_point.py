"""The exact threshold for a goal, and what it gives.

``score > threshold`` is a positive decision, everywhere. The threshold for a goal is found by one
sort of the scores: every distinct cut is considered and equal scores are never parted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._sweep import ClassScores, Floats, best_cut
from setpoint.errors import SetpointError
from setpoint.goals import TOLERANCE, Goal
from setpoint.metrics import _plain, metric


@dataclass(frozen=True)
class OperatingPoint:
    """A threshold and what a classifier does there on one set of data.

    Attributes
    ----------
    threshold : float
        ``score > threshold`` is positive.
    tp, fp, fn, tn : float
        Counts; sums of weights where samples are weighted.
    goal : Goal
        What was asked for.
    on : str
        Which data the counts come from, e.g. ``"training data"``.
    """

    threshold: float
    tp: float
    fp: float
    fn: float
    tn: float
    goal: Goal
    on: str = "the data given"

    def value(self, name: str) -> float:
        """Return any metric of the goal language at this point, e.g. ``value("fbeta(2)")``."""
        return float(metric(name).value(*self._counts))

    @property
    def _counts(self) -> tuple[float, float, float, float]:
        return self.tp, self.fp, self.tp + self.fn, self.fp + self.tn

    @property
    def precision(self) -> float:
        """Share of the alarms that are real; 1 when there are none."""
        return self.value("precision")

    @property
    def recall(self) -> float:
        """Share of the positives that are caught."""
        return self.value("recall")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self.value("f1")

    @property
    def objective(self) -> float:
        """The goal's objective at this point."""
        return float(self.goal.objective.value(*self._counts))

    @property
    def violation(self) -> float:
        """The sum of what the goal's constraints are missed by; 0 when all are met."""
        return float(self.goal.violation(*self._counts))

    @property
    def feasible(self) -> bool:
        """Whether every constraint of the goal is met."""
        return self.violation == 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing is predicted positive, so that precision is 1 by convention only."""
        return self.tp + self.fp == 0.0

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key: the greater, the better. Violation first, then the objective."""
        return -self.violation, self.goal.objective.sign * self.objective

    @property
    def message(self) -> str:
        """What a person should know, in one plain sentence."""
        objective, constraints = self.goal.objective, self.goal.constraints
        reached = f"{objective} is {self.objective:.3f}"
        if not constraints:
            return f"On {self.on} {reached} (goal: '{self.goal}')."
        if self.empty and self.feasible:
            return (
                f"On {self.on} the goal '{self.goal}' is met only by predicting no positives at "
                f"all: no other threshold meets it better."
            )
        if self.feasible:
            return f"On {self.on} the goal '{self.goal}' is met: {reached}."
        missed = [
            f"{c.metric} is {float(c.metric.value(*self._counts)):.3f} instead of "
            f"{c.relation} {_plain(c.level)}"
            for c in constraints
            if c.shortfall(*self._counts) > TOLERANCE
        ]
        there = "" if objective in {c.metric for c in constraints} else f"; there {reached}"
        return f"On {self.on} the goal '{self.goal}' is not met: {' and '.join(missed)}{there}."

    def __str__(self) -> str:
        counts = "  ".join(f"{k}={_plain(getattr(self, k))}" for k in ("tp", "fp", "fn", "tn"))
        values = f"precision={self.precision:.3f}  recall={self.recall:.3f}  f1={self.f1:.3f}"
        return f"{self.message}\nthreshold={self.threshold:.6g}  {counts}  {values}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        names = ("threshold", "tp", "fp", "fn", "tn", "precision", "recall", "f1", "objective",
                 "violation", "feasible", "empty", "on", "message")  # fmt: skip
        return {"goal": str(self.goal), **{name: getattr(self, name) for name in names}}


def choose_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> OperatingPoint:
    """Find the exact threshold for a goal on the scores of any classifier.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels. Booleans, 0/1 or -1/1; any two values if ``pos_label`` says which is positive.
    scores : array-like of shape (n,)
        One number per sample, larger meaning more likely positive.
    goal : str or Goal
        E.g. ``"max recall s.t. precision >= 0.9"``.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    pos_label : optional
        The label of the positive class.
    on : str
        What to call these data in messages.

    Returns
    -------
    OperatingPoint
        The best feasible cut; where there is none, the cut with the least violation, and among
        these the best objective, with ``feasible=False``. Ties go to more true positives, then
        to fewer false positives.

    Examples
    --------
    >>> from setpoint import choose_threshold
    >>> point = choose_threshold(
    ...     [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.5, 0.7, 0.9], "max recall s.t. precision >= 0.9"
    ... )
    >>> point.threshold, point.tp, point.fp
    (0.6, 2.0, 0.0)
    """
    goal = Goal.parse(goal)
    positive, scores, weights = check_scores(y, scores, sample_weight, pos_label)
    above = ClassScores(scores, weights, positive)
    below = ClassScores(scores, weights, ~positive)
    cut = best_cut(above, below, goal)
    return OperatingPoint(
        _threshold_below(cut.lowest_positive, above.sorted, below.sorted),
        cut.tp,
        cut.fp,
        above.total - cut.tp,
        below.total - cut.fp,
        goal,
        on,
    )


def evaluate_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    threshold: float,
    goal: str | Goal,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> OperatingPoint:
    """Return what a given threshold does on these data; parameters as in choose_threshold."""
    goal = Goal.parse(goal)
    positive, scores, weights = check_scores(y, scores, sample_weight, pos_label)
    # A Python float would be rounded to the scores' own precision before it is compared.
    alarm = scores.astype(np.float64, copy=False) > float(threshold)
    w = np.ones(len(scores)) if weights is None else weights
    tp, fp = float(w[alarm & positive].sum()), float(w[alarm & ~positive].sum())
    fn, tn = float(w[~alarm & positive].sum()), float(w[~alarm & ~positive].sum())
    return OperatingPoint(float(threshold), tp, fp, fn, tn, goal, on)


def check_scores(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[NDArray[np.bool_], Floats, Floats | None]:
    """Check and convert labels (to True for positive), scores and weights."""
    s = np.asarray(scores)
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1:
        raise SetpointError(
            f"scores must be one number per sample, but have the shape {s.shape}; of "
            "predict_proba take the positive class's column, e.g. proba[:, 1]."
        )
    if not np.issubdtype(s.dtype, np.floating):
        try:
            s = s.astype(np.float64)
        except (TypeError, ValueError):
            raise SetpointError(f"scores must be numbers, not {s.dtype}.") from None
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(s):
        raise SetpointError(
            f"y and scores must have one entry per sample, but have the shapes {labels.shape} "
            f"and {s.shape}."
        )
    if np.isnan(s).any():
        first = int(np.flatnonzero(np.isnan(s))[0])
        raise SetpointError(
            f"{int(np.isnan(s).sum())} of {len(s)} scores are NaN, the first at position {first}."
        )
    positive = _positive(labels, pos_label)
    weights: Floats | None = None
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != s.shape:
            raise SetpointError(
                f"sample_weight has the shape {weights.shape}, the scores {s.shape}."
            )
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise SetpointError("sample_weight must be finite and not negative.")
        if (weights == 0).any():  # a sample of no weight is no sample
            kept = weights > 0
            positive, s, weights = positive[kept], s[kept], weights[kept]
    for present, name in ((positive.any(), "positive"), (not positive.all(), "negative")):
        if not present:
            weightless = "" if weights is None else " of positive weight"
            raise SetpointError(
                f"there are no {name} samples{weightless}; a threshold needs both classes."
            )
    return positive, s, weights


def _positive(labels: NDArray[Any], pos_label: Any) -> NDArray[np.bool_]:
    """Return which labels are positive."""
    if pos_label is not None:
        positive = np.asarray(labels == pos_label)
        if positive.shape != labels.shape or not positive.any():
            raise SetpointError(f"pos_label {pos_label!r} does not occur in y.")
        return positive
    if labels.dtype == np.bool_:
        return labels
    positive = np.asarray(labels == 1)
    for other in (0, -1):
        if (positive | (labels == other)).all():
            return positive
    values = np.unique(labels).tolist()
    shown = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
    raise SetpointError(
        f"y holds the labels {shown}; pass pos_label to say which one is positive, "
        "or labels that are 0/1, -1/1 or booleans."
    )


def _threshold_below(lowest_positive: float | None, *classes: Floats) -> float:
    """Return a threshold between a score and the next lower one of all classes."""
    if lowest_positive is None:
        return float(max(c[-1] for c in classes))  # nothing lies above the highest score
    dtype = classes[0].dtype.type
    high = dtype(lowest_positive)
    lower = [c[i - 1] for c in classes if (i := np.searchsorted(c, high, side="left")) > 0]
    if not lower:  # everything is positive
        with np.errstate(over="ignore"):  # below the lowest number comes -inf, which is right
            return float(np.nextafter(high, dtype(-np.inf)))
    low = max(lower)
    middle = low / 2 + high / 2  # not (low + high) / 2, which may overflow
    # Between neighbouring numbers the middle rounds to either; `score > low` is right as well.
    return float(middle if low <= middle < high else low)
