"""The exact threshold for a goal, and its operating point.

``score > threshold`` is a positive decision, everywhere. The threshold for a goal is found by one
sort of the scores: every distinct cut is considered, and equal scores are never separated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.renamed import renamed_property
from setpoint._internal.validation import label_list
from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import (
    TOLERANCE,
    Constraint,
    Goal,
    describe_value,
    format_metric,
    format_requirement,
)
from setpoint.goals.metrics import Metric, format_number, format_threshold, metric
from setpoint.goals.tallies import PLAIN
from setpoint.thresholds.caution import Cautious
from setpoint.thresholds.narrowing import MANY, best_cut_of_many
from setpoint.thresholds.sweep import (
    ClassScores,
    Floats,
    Ranking,
    best_cut,
    members,
    rank_of,
    threshold_below,
)
from setpoint.thresholds.tallied import TalliedRows, best_tallied_cut

_MOST_LISTED = 4  # constraints in a message


@dataclass(frozen=True)
class OperatingPoint(NotebookSummary):
    """A threshold, and the counts and metrics of a classifier there on one data set.

    Attributes
    ----------
    threshold : float
        ``score > threshold`` is positive.
    tp, fp, fn, tn : float
        Counts; sums of weights where samples are weighted.
    goal : Goal
        The goal that the threshold was chosen or evaluated for.
    on : str
        The name of the data in messages, e.g. ``"training data"``.
    ranking : Cautious or None
        The ranking by which the threshold was chosen and points are compared; None: by the goal.
    tallied : tuple of tuple of float
        TP, FP, P and N in each further tally of the goal, e.g. with the amounts of the rows.
    """

    threshold: float
    tp: float
    fp: float
    fn: float
    tn: float
    goal: Goal
    on: str = "the data given"
    ranking: Cautious | None = field(default=None, compare=False, repr=False)
    tallied: tuple[tuple[float, float, float, float], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if len(self.tallied) != len(self.goal.tallies) - 1:
            raise SetpointError(
                f"the goal '{self.goal}' counts rows in {len(self.goal.tallies)} ways, and there "
                f"are counts of {len(self.tallied) + 1}."
            )

    @classmethod
    def of_counts(
        cls, threshold: float, tp: Any, fp: Any, P: Any, N: Any, goal: Goal, on: str
    ) -> OperatingPoint:
        """Return the point with these counts, arrays over tallies if the goal has several."""
        if goal.is_plain:
            tp, fp, P, N = float(tp), float(fp), float(P), float(N)
            return cls(threshold, tp, fp, P - tp, N - fp, goal, on)
        first, *others = np.stack([tp, fp, P, N], axis=1).tolist()
        tallied = tuple((a, b, c, d) for a, b, c, d in others)
        tp, fp, P, N = first
        return cls(threshold, tp, fp, P - tp, N - fp, goal, on, tallied=tallied)

    def value(self, name: str) -> float:
        """Return any metric of the goal language at this point, e.g. ``value("fbeta(2)")``."""
        of_goal = {m.name: m for m in self.goal.metrics}
        return self._value(of_goal.get(name) or metric(name))

    def _value(self, which: Metric) -> float:
        with np.errstate(all="ignore"):  # without one of the classes some metrics are 0/0
            if which in self.goal.metrics:
                return float(self.goal.value_of(which, *self.goal_counts))
            if which.tallies != (PLAIN,):
                raise SetpointError(
                    f"the goal '{self.goal}' does not count rows as {which} needs them."
                )
            return float(which.value(*self.counts))

    @property
    def counts(self) -> tuple[np.float64, np.float64, np.float64, np.float64]:
        """TP, FP, P and N of all rows, the arguments of every plain metric."""
        tp, fp, fn, tn = (np.float64(x) for x in (self.tp, self.fp, self.fn, self.tn))
        return tp, fp, tp + fn, fp + tn

    @property
    def goal_counts(self) -> tuple[Any, Any, Any, Any]:
        """The arguments of the goal's functions: the counts, as arrays if it has more tallies."""
        if not self.tallied:
            return self.counts
        tp, fp, P, N = np.array([self.counts, *self.tallied], dtype=np.float64).T
        return tp, fp, P, N

    @property
    def missed(self) -> list[Constraint]:
        """The constraints that are not met."""
        with np.errstate(all="ignore"):
            found = [
                (c, self.goal.shortfall_of(c, *self.goal_counts)) for c in self.goal.constraints
            ]
        return [constraint for constraint, shortfall in found if shortfall > TOLERANCE]

    @property
    def precision(self) -> float:
        """Fraction of the alarms that are real; 1 if there are none."""
        return self.value("precision")

    @property
    def recall(self) -> float:
        """Fraction of the positives that are detected."""
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
        """The sum of the shortfalls of the goal's constraints; 0 if all are met."""
        with np.errstate(all="ignore"):
            return float(self.goal.violation(*self.goal_counts))

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
            return rank_of(self.ranking or self.goal, *self.goal_counts)

    standing = renamed_property("standing", "sort_key")

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key without the tie-breakers: -violation and gain."""
        return self.sort_key[:2]

    @property
    def standard_error(self) -> float:
        """The standard error of the objective at this threshold, by the delta method.

        TP and FP are treated as binomial and the threshold as fixed. Both rates are moved slightly
        away from 0 and 1, where the estimate would be zero.
        """
        objective = self.goal.objective
        tp, fp, P, N = self.goal.counts_of(objective, *self.goal_counts)
        with np.errstate(all="ignore"):
            slopes = [d(tp, fp, P, N) for d in (objective.d_tp, objective.d_fp)]
        variance = 0.0
        for slope, count, total in zip(slopes, (tp, fp), (P, N), strict=True):
            rate = (count + 0.5) / (total + 1)
            found = np.asarray(slope * slope * total * rate * (1 - rate))
            variance += float(found[np.isfinite(found)].sum())
        return float(np.sqrt(variance))

    @property
    def message(self) -> str:
        """A summary in one sentence."""
        objective, constraints = self.goal.objective, self.goal.constraints
        for total, name in zip(self.counts[2:], ("positives", "negatives"), strict=True):
            if total == 0:
                return f"On {self.on} there are no {name}, so '{self.goal}' cannot be evaluated."
        reached = describe_value(objective, self.objective)
        if not constraints:
            return f"On {self.on} {reached} (goal: '{self.goal}')."
        if self.empty and self.feasible:
            return (
                f"On {self.on} the goal '{self.goal}' is met only because nothing is predicted "
                f"positive: {reached}."
            )
        if self.feasible:
            return f"On {self.on} the goal '{self.goal}' is met: {reached}."
        missed = [
            f"{describe_value(c.metric, self._value(c.metric), c)} instead of {c.relation} "
            f"{format_number(c.level)}"
            for c in self._worst_first(self.missed)
        ]
        if len(missed) > _MOST_LISTED:
            missed = [*missed[: _MOST_LISTED - 1], f"{len(missed) - _MOST_LISTED + 1} more"]
        there = "" if objective in {c.metric for c in constraints} else f"; there {reached}"
        return f"On {self.on} the goal '{self.goal}' is not met: {' and '.join(missed)}{there}."

    def _worst_first(self, constraints: Sequence[Constraint]) -> list[Constraint]:
        """Return constraints by falling shortfall."""
        with np.errstate(all="ignore"):
            shortfalls = [self.goal.shortfall_of(c, *self.goal_counts) for c in constraints]
        order = np.argsort(-np.asarray(shortfalls, dtype=np.float64), kind="stable")
        return [constraints[i] for i in order]

    def listed_metrics(self) -> tuple[list[Metric], int]:
        """Return precision, recall, F1 and the goal's metrics, each once, for a table.

        Of many segments only the worst are listed; the number is that of the others.
        """
        own = [c for c in self.goal.constraints if c.metric.tallies[0].segment]
        omitted = self._worst_first(own)[_MOST_LISTED:] if len(own) > _MOST_LISTED + 1 else []
        found = {name: metric(name) for name in ("precision", "recall", "f1")}
        found |= {m.name: m for m in self.goal.metrics}
        for constraint in omitted:
            del found[constraint.metric.name]
        return list(found.values()), len(omitted)

    def _summary(self, positive: str = "positive", negative: str = "negative") -> Summary:
        counts = [
            ["", "alarm", "no alarm"],
            [positive, format_number(self.tp), format_number(self.fn)],
            [negative, format_number(self.fp), format_number(self.tn)],
        ]
        required = {c.metric.name: c for c in self.goal.constraints}
        values = [["metric", "value", "required"]]
        metrics, omitted = self.listed_metrics()
        for which in metrics:
            level = required.get(which.name)
            text = "" if level is None else format_requirement(level)
            values.append([which.name, format_metric(self._value(which), level, which), text])
        if omitted:
            values.append([f"… {omitted} more", "", ""])
        caption = f"threshold {format_threshold(self.threshold)} on {self.on}"
        good = self.feasible and not self.empty  # a goal met by raising no alarm is not met
        return Summary(self.message, good, caption, [counts, values])

    def __str__(self) -> str:
        counts = "  ".join(
            f"{k}={format_number(getattr(self, k))}" for k in ("tp", "fp", "fn", "tn")
        )
        metrics, omitted = self.listed_metrics()
        values = [f"{m.name}={format_metric(self._value(m), which=m)}" for m in metrics]
        values += [f"… {omitted} more"] if omitted else []
        return f"{self.message}\nthreshold={self.threshold:.6g}  {counts}  {'  '.join(values)}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; numbers that are not finite become None."""
        names = ("threshold", "tp", "fp", "fn", "tn", "precision", "recall", "f1", "objective",
                 "violation", "feasible", "empty", "on", "message")  # fmt: skip
        return {"goal": str(self.goal), **{name: jsonable(getattr(self, name)) for name in names}}


def caution_fields(point: OperatingPoint) -> list[float] | None:
    """Return the ranking of a point as plain numbers, None if it is the goal."""
    ranking = point.ranking
    return None if ranking is None else [ranking.caution, *ranking.row_weights]


def with_caution(point: OperatingPoint, fields: Sequence[float] | None) -> OperatingPoint:
    """Return the point with the ranking that :func:`caution_fields` described."""
    if fields is None:
        return point
    caution, *row_weights = fields
    return replace(point, ranking=Cautious(point.goal, caution, tuple(row_weights)))


def jsonable(value: Any) -> Any:
    """Return the value, or None for a float that JSON cannot represent."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def choose_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    *,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> OperatingPoint:
    """Find the exact threshold for a goal on the scores of any classifier.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: booleans, 0/1 or -1/1; any values if ``pos_label`` names the positive ones.
    scores : array-like of shape (n,)
        One number per sample, larger meaning more likely positive.
    goal : str or Goal
        E.g. ``"max recall s.t. precision >= 0.9"``.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    amounts : mapping of str to array-like of shape (n,), optional
        The amounts that the goal names, numbers >= 0: ``{"amount": ...}`` for
        ``"min cost(fp=5, fn=amount)"``.
    segments : mapping of str to array-like of shape (n,), optional
        The columns of segments that it names: ``{"region": ...}`` for
        ``"max recall s.t. precision >= 0.9 for each region"``.
    times : array-like of shape (n,), optional
        The time of each row, for ``"max recall s.t. alarms <= 200 per day"``: dates, or numbers of
        days.
    pos_label : optional
        The label of the positive class, or a list of labels that count as positive; all others are
        negative.
    on : str
        The name of the data in messages.

    Returns
    -------
    OperatingPoint
        The best feasible cut. If there is none, the cut with the least violation, and among these
        the one with the best objective, with ``feasible=False``. Ties are broken by more true
        positives, then by fewer false positives.

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
    positive, scores, weights, columns = check_rows(
        y, scores, goal, sample_weight, amounts, segments, times, pos_label
    )
    check_classes(bool(positive.any()), not positive.all(), weighted=weights is not None)
    return best_point_of(positive, scores, weights, columns, goal, on)


def best_point_of(
    positive: NDArray[np.bool_],
    scores: Floats,
    weights: Floats | None,
    columns: GoalColumns,
    goal: Goal,
    on: str,
) -> OperatingPoint:
    """Return the operating point at the best cut of validated rows, with the goal's columns."""
    goal = columns.bind(goal, positive)
    rows = None if goal.is_plain else TalliedRows.of(positive, weights, columns, goal)
    return best_point(positive, scores, weights, goal, goal, on, rows)


def best_point(
    positive: NDArray[np.bool_],
    scores: Floats,
    weights: Floats | None,
    ranking: Ranking,
    goal: Goal,
    on: str,
    tallied: TalliedRows | None = None,
) -> OperatingPoint:
    """Return the operating point at the best cut of validated scores, by any ranking of cuts.

    ``tallied`` are the same rows in the goal's tallies, if there are several.
    """
    if tallied is not None:
        cut = best_tallied_cut(tallied, scores, ranking)
        threshold = threshold_below(cut.lowest_positive, np.sort(scores))
        return OperatingPoint.of_counts(threshold, cut.tp, cut.fp, *tallied.totals(), goal, on)
    if weights is None and len(scores) > MANY and ranking.is_monotone:
        classes = members(scores, positive), members(scores, ~positive)
        if (found := best_cut_of_many(*classes, ranking)) is not None:
            cut, *around = found
            threshold = threshold_below(cut.lowest_positive, *around)
            fn, tn = (len(c) - x for c, x in zip(classes, (cut.tp, cut.fp), strict=True))
            return OperatingPoint(threshold, cut.tp, cut.fp, fn, tn, goal, on)
    positives = ClassScores(scores, weights, positive)
    negatives = ClassScores(scores, weights, ~positive)
    cut = best_cut(positives, negatives, ranking)
    threshold = threshold_below(cut.lowest_positive, positives.sorted, negatives.sorted)
    fn, tn = positives.total - cut.tp, negatives.total - cut.fp
    return OperatingPoint(threshold, cut.tp, cut.fp, fn, tn, goal, on)


def evaluate_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    threshold: float,
    goal: str | Goal,
    *,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> OperatingPoint:
    """Return the operating point at a given threshold; parameters as in choose_threshold.

    One class is enough: in a batch of negatives the false alarms are counted, and metrics that
    need positives are NaN.
    """
    goal = Goal.parse(goal)
    positive, scores, weights, columns = check_rows(
        y, scores, goal, sample_weight, amounts, segments, times, pos_label
    )
    if np.isnan(threshold):
        raise SetpointError("the threshold is NaN.")
    # numpy would round a Python float to the precision of the scores before comparing.
    alarm = scores.astype(np.float64, copy=False) > float(threshold)
    return point_at(positive, alarm, weights, columns, goal, float(threshold), on)


def point_at(
    positive: NDArray[np.bool_],
    alarm: NDArray[np.bool_],
    weights: Floats | None,
    columns: GoalColumns,
    goal: Goal,
    threshold: float,
    on: str,
) -> OperatingPoint:
    """Return the operating point of decisions on validated rows."""
    weights = None if weights is None else weights.astype(np.float64, copy=False)
    goal = columns.bind(goal, positive)
    if not goal.is_plain:
        rows = TalliedRows.of(positive, weights, columns, goal)
        return OperatingPoint.of_counts(threshold, *rows.counts(alarm), *rows.totals(), goal, on)
    w = np.ones(len(positive)) if weights is None else weights
    tp, fp = float(w[alarm & positive].sum()), float(w[alarm & ~positive].sum())
    fn, tn = float(w[~alarm & positive].sum()), float(w[~alarm & ~positive].sum())
    return OperatingPoint(threshold, tp, fp, fn, tn, goal, on)


def check_rows(
    y: ArrayLike,
    scores: ArrayLike,
    goal: Goal,
    sample_weight: ArrayLike | None,
    amounts: Any,
    segments: Any,
    times: Any,
    pos_label: Any,
) -> tuple[NDArray[np.bool_], Floats, Floats | None, GoalColumns]:
    """Validate rows and the columns that the goal names; drop rows of weight 0."""
    columns = GoalColumns.of(goal, np.shape(y)[0] if np.ndim(y) else 0, amounts, segments, times)
    positive, checked, weights = check_scores(y, scores, sample_weight, pos_label)
    if columns and weights is not None:
        columns = columns.take(np.asarray(sample_weight, dtype=np.float64) > 0)
    return positive, checked, weights, columns


def check_classes(positives: float, negatives: float, *, weighted: bool) -> None:
    """Raise SetpointError unless there are rows of both classes."""
    for count, name in ((positives, "positive"), (negatives, "negative")):
        if not count:
            weightless = " of positive weight" if weighted else ""
            raise SetpointError(
                f"there are no {name} samples{weightless}; a threshold needs both classes."
            )


def check_scores(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[NDArray[np.bool_], Floats, Floats | None]:
    """Validate labels, scores and weights; return labels as booleans, without rows of weight 0."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
        scores = scores.float() if scores.dtype == torch.bfloat16 else scores
    s = np.asarray(scores)
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1:
        raise SetpointError(
            f"scores must be one number per sample, but have the shape {s.shape}; pass the "
            "positive class's column of predict_proba, e.g. proba[:, 1]."
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
            raise SetpointError("y holds NaN or None; drop the rows with unknown labels.")
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
            raise SetpointError("sample_weight is too large to be summed; rescale it.")
        if (weights == 0).any():
            counted = weights > 0
            positive, s, weights = positive[counted], s[counted], weights[counted]
    return positive, s, weights


def _positive(labels: NDArray[Any], pos_label: Any) -> NDArray[np.bool_]:
    """Return which labels are positive."""
    if pos_label is not None:
        named = label_list(pos_label) or [pos_label]
        matches = [np.broadcast_to(labels == label, labels.shape) for label in named]
        return np.asarray(np.logical_or.reduce(matches), dtype=bool)
    if labels.dtype == np.bool_:
        return labels
    positive = np.asarray(labels == 1)
    for other in (0, -1):
        if (positive | (labels == other)).all():
            return positive
    values = list(dict.fromkeys(labels.tolist()))
    listed = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
    raise SetpointError(
        f"y holds the labels {listed}; pass pos_label to name the positive one, or several in a "
        "list (all others are then negative), or labels that are 0/1, -1/1 or booleans."
    )
