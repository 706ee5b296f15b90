"""The exact threshold for a goal, and what it gives.

``score > threshold`` is a positive decision, everywhere. The threshold for a goal is found by one
sort of the scores: every distinct cut is considered and equal scores are never parted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint.errors import SetpointError
from setpoint.goals.goal import TOLERANCE, Goal, format_metric, format_requirement
from setpoint.goals.metrics import Metric, format_number, format_threshold, metric
from setpoint.thresholds.sweep import ClassScores, Floats, best_cut, rank_of


@dataclass(frozen=True)
class OperatingPoint(NotebookSummary):
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
        own = {m.name: m for m in self.goal.metrics}
        return self._value(own.get(name) or metric(name))

    def _value(self, which: Metric) -> float:
        with np.errstate(all="ignore"):  # without one of the classes some metrics are 0/0
            return float(which.value(*self.counts))

    @property
    def counts(self) -> tuple[np.float64, np.float64, np.float64, np.float64]:
        """TP, FP, P and N: what every metric is a function of."""
        tp, fp, fn, tn = (np.float64(x) for x in (self.tp, self.fp, self.fn, self.tn))
        return tp, fp, tp + fn, fp + tn

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
        return self._value(self.goal.objective)

    @property
    def violation(self) -> float:
        """The sum of what the goal's constraints are missed by; 0 when all are met."""
        with np.errstate(all="ignore"):
            return float(self.goal.violation(*self.counts))

    @property
    def feasible(self) -> bool:
        """Whether every constraint of the goal is met."""
        return self.violation == 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing is predicted positive, so that precision is 1 by convention only."""
        return self.tp + self.fp == 0.0

    @cached_property
    def sort_key(self) -> tuple[float, ...]:
        """Sort key, the greater, the better: -violation, gain, TP, -FP."""
        with np.errstate(all="ignore"):
            return rank_of(self.goal, *self.counts)

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key without the tie-breakers: -violation and gain."""
        return self.sort_key[:2]

    @property
    def standard_error(self) -> float:
        """The standard error of the objective at this threshold, by the delta method.

        TP and FP are taken as binomial, the threshold as given; both rates are moved a little off 0
        and 1, where the estimate would be zero.
        """
        tp, fp, P, N = self.counts
        objective = self.goal.objective
        with np.errstate(all="ignore"):
            slopes = [float(d(tp, fp, P, N)) for d in (objective.d_tp, objective.d_fp)]
        variance = 0.0
        for slope, count, total in zip(slopes, (tp, fp), (P, N), strict=True):
            rate = (count + 0.5) / (total + 1)
            variance += slope * slope * total * rate * (1 - rate) if np.isfinite(slope) else 0.0
        return float(np.sqrt(variance))

    @property
    def message(self) -> str:
        """What a person should know, in one plain sentence."""
        objective, constraints = self.goal.objective, self.goal.constraints
        for total, name in zip(self.counts[2:], ("positives", "negatives"), strict=True):
            if total == 0:
                return (
                    f"On {self.on} there are no {name}, so the goal '{self.goal}' cannot be judged."
                )
        reached = f"{objective} is {self.objective:.3f}"
        if not constraints:
            return f"On {self.on} {reached} (goal: '{self.goal}')."
        if self.empty and self.feasible:
            return (
                f"On {self.on} the goal '{self.goal}' is met only in that nothing is predicted "
                f"positive: {reached}."
            )
        if self.feasible:
            return f"On {self.on} the goal '{self.goal}' is met: {reached}."
        missed = [
            f"{c.metric} is {self._value(c.metric):.3f} instead of {c.relation} "
            f"{format_number(c.level)}"
            for c in constraints
            if c.shortfall(*self.counts) > TOLERANCE
        ]
        there = "" if objective in {c.metric for c in constraints} else f"; there {reached}"
        return f"On {self.on} the goal '{self.goal}' is not met: {' and '.join(missed)}{there}."

    def _summary(self, positive: str = "positive", negative: str = "negative") -> Summary:
        counts = [
            ["", "alarm", "no alarm"],
            [positive, format_number(self.tp), format_number(self.fn)],
            [negative, format_number(self.fp), format_number(self.tn)],
        ]
        required = {c.metric.name: c for c in self.goal.constraints}
        names = dict.fromkeys(["precision", "recall", "f1", *(m.name for m in self.goal.metrics)])
        values = [["metric", "value", "required"]]
        for name in names:
            level = required.get(name)
            text = "" if level is None else format_requirement(level)
            values.append([name, format_metric(self.value(name), level), text])
        caption = f"threshold {format_threshold(self.threshold)} on {self.on}"
        good = self.feasible and not self.empty  # a goal met by raising no alarm is not met
        return Summary(self.message, good, caption, [counts, values])

    def __str__(self) -> str:
        counts = "  ".join(
            f"{k}={format_number(getattr(self, k))}" for k in ("tp", "fp", "fn", "tn")
        )
        names = dict.fromkeys(["precision", "recall", "f1", *(m.name for m in self.goal.metrics)])
        values = "  ".join(f"{name}={self.value(name):.3f}" for name in names)
        return f"{self.message}\nthreshold={self.threshold:.6g}  {counts}  {values}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: what is no finite number is None."""
        names = ("threshold", "tp", "fp", "fn", "tn", "precision", "recall", "f1", "objective",
                 "violation", "feasible", "empty", "on", "message")  # fmt: skip
        return {"goal": str(self.goal), **{name: jsonable(getattr(self, name)) for name in names}}


def jsonable(value: Any) -> Any:
    """Return the value, or None for a float that JSON does not know."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


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
    for present, name in ((positive.any(), "positive"), (not positive.all(), "negative")):
        if not present:
            weightless = "" if weights is None else " of positive weight"
            raise SetpointError(
                f"there are no {name} samples{weightless}; a threshold needs both classes."
            )
    above = ClassScores(scores, weights, positive)
    below = ClassScores(scores, weights, ~positive)
    cut = best_cut(above, below, goal)
    return OperatingPoint(
        threshold_below(cut.lowest_positive, above.sorted, below.sorted),
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
    """Return what a given threshold does on these data; parameters as in choose_threshold.

    One class is enough: the false alarms of a batch of negatives are counted, and what cannot be
    known of it is NaN.
    """
    goal = Goal.parse(goal)
    positive, scores, weights = check_scores(y, scores, sample_weight, pos_label)
    if np.isnan(threshold):
        raise SetpointError("the threshold is NaN.")
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
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
        scores = scores.float() if scores.dtype == torch.bfloat16 else scores
    s = np.asarray(scores)
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1:
        raise SetpointError(
            f"scores must be one number per sample, but have the shape {s.shape}; of "
            "predict_proba take the positive class's column, e.g. proba[:, 1]."
        )
    if s.dtype not in (np.float64, np.float32, np.float16):
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
    if len(s) == 0:
        raise SetpointError("there are no samples.")
    if np.isnan(s).any():
        first = int(np.flatnonzero(np.isnan(s))[0])
        raise SetpointError(
            f"{int(np.isnan(s).sum())} of {len(s)} scores are NaN, the first at position {first}."
        )
    if labels.dtype.kind in "fO":
        unknown = (labels != labels) | (labels == None)  # noqa: E711 (elementwise)
        if unknown.any():
            raise SetpointError("y holds NaN or None; drop the rows whose label is not known.")
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
        if weights.max(initial=0.0) > 1e100:
            raise SetpointError("sample_weight is too large to be added up; rescale it.")
        if (weights == 0).any():  # a sample of no weight is no sample
            kept = weights > 0
            positive, s, weights = positive[kept], s[kept], weights[kept]
    return positive, s, weights


def _positive(labels: NDArray[Any], pos_label: Any) -> NDArray[np.bool_]:
    """Return which labels are positive."""
    if pos_label is not None:
        positive = np.broadcast_to(labels == pos_label, labels.shape)
        others = labels[~positive]
        if len(others) and not (others == others[0]).all():
            held = [others[:1].tolist()[0], others[others != others[0]].tolist()[0]]
            raise SetpointError(
                f"besides pos_label {pos_label!r}, y holds {held[0]!r} and {held[1]!r}; if all "
                f"others are negative, pass y == {pos_label!r}."
            )
        return positive
    if labels.dtype == np.bool_:
        return labels
    positive = np.asarray(labels == 1)
    for other in (0, -1):
        if (positive | (labels == other)).all():
            return positive
    values = list(dict.fromkeys(labels.tolist()))
    shown = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
    raise SetpointError(
        f"y holds the labels {shown}; pass pos_label to say which one is positive, "
        "or labels that are 0/1, -1/1 or booleans."
    )


def threshold_below(lowest_positive: float | None, *classes: Floats) -> float:
    """Return a threshold between a score and the next lower one of all classes.

    Beyond the highest and the lowest score it keeps half the distance to the next one, so that
    it does not hang on the last bit of a score.
    """
    dtype = classes[0].dtype.type
    if lowest_positive is None:
        high = max(c[-1] for c in classes)
        low = _neighbour(high, classes, -1)
        return _beyond(high, low, np.inf)
    high = dtype(lowest_positive)
    low = _neighbour(high, classes, -1)
    if low is None:  # everything is positive
        return _beyond(high, _neighbour(high, classes, +1), -np.inf)
    with np.errstate(invalid="ignore"):  # infinite scores
        middle = low / 2 + high / 2  # not (low + high) / 2, which may overflow
    # Between neighbouring numbers the middle rounds to either; `score > low` is right as well.
    return float(middle if low <= middle < high else low)


def _neighbour(score: Any, classes: tuple[Floats, ...], side: int) -> Any:
    """Return the next lower (-1) or higher (+1) score of all classes, or None."""
    if side < 0:
        found = [c[i - 1] for c in classes if (i := np.searchsorted(c, score, "left")) > 0]
        return max(found, default=None)
    found = [c[i] for c in classes if (i := np.searchsorted(c, score, "right")) < len(c)]
    return min(found, default=None)


def _beyond(end: Any, inner: Any, towards: float) -> float:
    """Return a threshold outside the scores, half the last gap away from the last of them."""
    dtype = type(end)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = dtype(0) if inner is None else abs(end / 2 - inner / 2)
        there = end + dtype(np.sign(towards)) * max(gap, 8 * abs(np.spacing(end)))
        if not (there > end if towards > 0 else there < end):  # no room, or infinite scores
            there = end if towards > 0 else np.nextafter(end, dtype(towards))
    return float(there)
