"""The exact review band for a goal: two thresholds, low <= high, and the counts between them.

A row is an alarm if score > high, cleared if score <= low, and reviewed otherwise. All pairs of
cuts of the scores are searched, see :mod:`setpoint.thresholds.band_search`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint.errors import SetpointError
from setpoint.goals.band_metrics import BandCounts, BandMetric, band_metric
from setpoint.goals.bands import BandConstraint, BandGoal
from setpoint.goals.goal import TOLERANCE
from setpoint.goals.metrics import format_number, format_threshold
from setpoint.thresholds.band_search import BandRows, Cuts, best_pair
from setpoint.thresholds.checks import check_classes
from setpoint.thresholds.operating_point import jsonable
from setpoint.thresholds.sweep import Floats

ALARM, REVIEW, CLEAR = "alarm", "review", "clear"


@dataclass(frozen=True)
class BandPoint(NotebookSummary):
    """Two thresholds, and the counts and metrics of the three decisions on one data set.

    Attributes
    ----------
    low, high : float
        ``score > high`` is an alarm, ``score <= low`` is cleared, all else is reviewed.
    alarm_positives, alarm_negatives, review_positives, review_negatives, clear_positives, \
clear_negatives : float
        Counts; sums of weights where samples are weighted.
    goal : BandGoal
        The goal that the band was chosen or evaluated for.
    on : str
        The name of the data in messages.
    costs : tuple of float
        The total cost of false alarms, of cleared positives and of reviews; zero for a goal
        without a cost.
    """

    low: float
    high: float
    alarm_positives: float
    alarm_negatives: float
    review_positives: float
    review_negatives: float
    clear_positives: float
    clear_negatives: float
    goal: BandGoal
    on: str = "the data given"
    costs: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def counts(self) -> BandCounts:
        """The arguments of every metric."""
        found = [np.float64(getattr(self, name)) for name in _COUNTS]
        positives, negatives = sum(found[::2]), sum(found[1::2])
        alarm_pos, alarm_neg, review_pos, review_neg, clear_pos, clear_neg = found
        return BandCounts(
            alarm_pos, alarm_neg, clear_pos, clear_neg, review_pos + review_neg,
            positives, negatives, np.float64(sum(self.costs)),
        )  # fmt: skip

    def value(self, name: str) -> float:
        """Return any metric of a review band at this point, e.g. ``value("npv(clear)")``."""
        own = self.goal.objective
        which = own if name == own.name else band_metric(name)  # "cost" is the goal's
        if which.costs is not None and which != own:
            return self._cost_by_counts(which)
        return self._value(which)

    def _value(self, which: BandMetric) -> float:
        with np.errstate(all="ignore"):  # without one of the classes some metrics are 0/0
            return float(which.value(self.counts))

    def _cost_by_counts(self, which: BandMetric) -> float:
        if which.amounts:
            raise SetpointError(
                f"'{which}' needs the amounts of each row; evaluate a goal that minimises it."
            )
        c = self.counts
        counts = c.alarm_negatives, c.clear_positives, c.review
        assert which.costs is not None
        total = sum(x.factor * n for x, n in zip(which.costs, counts, strict=True))
        return float(total / (c.P + c.N))

    @property
    def objective(self) -> float:
        """The goal's objective at this point."""
        return self._value(self.goal.objective)

    @property
    def review_rate(self) -> float:
        """The fraction of rows that a person must look at."""
        return self.value("review_rate")

    @property
    def violation(self) -> float:
        """The sum of the shortfalls of the goal's constraints; 0 if all are met."""
        with np.errstate(all="ignore"):
            return float(self.goal.violation(self.counts))

    @property
    def feasible(self) -> bool:
        """Whether every constraint of the goal is met."""
        return self.violation == 0.0

    @property
    def missed(self) -> tuple[BandConstraint, ...]:
        """The constraints of the goal that are not met."""
        with np.errstate(all="ignore"):
            counts = self.counts
            return tuple(c for c in self.goal.constraints if c.shortfall(counts) > TOLERANCE)

    @property
    def empty(self) -> bool:
        """Whether a constraint is met only because there are no alarms, or no cleared rows."""
        return any(c.metric.is_by_convention(self.counts) for c in self.goal.constraints)

    @property
    def message(self) -> str:
        """A summary in one sentence."""
        goal, c = self.goal, self.counts
        for total, name in ((c.P, "positives"), (c.N, "negatives")):
            if total == 0:
                return f"On {self.on} there are no {name}, so '{goal}' cannot be evaluated."
        reached = f"{goal.objective} is {self.objective:.3f}"
        if not goal.constraints:
            return f"On {self.on} {reached} (goal: '{goal}')."
        if not self.feasible:
            missed = [
                f"{x.metric} is {self._value(x.metric):.3f} instead of {x.metric.relation} "
                f"{format_number(x.level)}"
                for x in self.missed
            ]
            there = "" if goal.objective in goal.metrics[1:] else f"; there {reached}"
            return f"On {self.on} the goal '{goal}' is not met: {' and '.join(missed)}{there}."
        if self.empty:
            none = {"alarm": "no row raises an alarm", "clear": "no row is cleared"}
            why = [none[x.metric.side] for x in goal.constraints if x.metric.is_by_convention(c)]
            return (
                f"On {self.on} the goal '{goal}' is met only because {' and '.join(why)}: "
                f"{reached}."
            )
        return f"On {self.on} the goal '{goal}' is met: {reached}."

    @property
    def metrics(self) -> list[BandMetric]:
        """The usual metrics and the goal's, each once."""
        usual = ("precision(alarm)", "recall(alarm)", "npv(clear)", "fnr(clear)", "review_rate")
        return list(dict.fromkeys([*map(BandMetric, usual), *self.goal.metrics]))

    def _summary(self, positive: str = "positive", negative: str = "negative") -> Summary:
        counts = [["", ALARM, REVIEW, CLEAR]]
        for label, sign in ((positive, "positives"), (negative, "negatives")):
            row = [getattr(self, f"{band}_{sign}") for band in (ALARM, REVIEW, CLEAR)]
            counts.append([label, *map(format_number, row)])
        required = {c.metric: c for c in self.goal.constraints}
        values = [["metric", "value", "required"]]
        for which in self.metrics:
            level = required.get(which)
            text = "" if level is None else _requirement(level)
            values.append([str(which), format_value(self._value(which), level), text])
        caption = (
            f"cleared up to {format_threshold(self.low)}, alarms above "
            f"{format_threshold(self.high)}, on {self.on}"
        )
        return Summary(self.message, self.feasible and not self.empty, caption, [counts, values])

    def __str__(self) -> str:
        bands = "  ".join(
            f"{band}={format_number(pos)}+{format_number(neg)}"
            for band, pos, neg in (
                (ALARM, self.alarm_positives, self.alarm_negatives),
                (REVIEW, self.review_positives, self.review_negatives),
                (CLEAR, self.clear_positives, self.clear_negatives),
            )
        )
        values = "  ".join(f"{which}={self._value(which):.3f}" for which in self.metrics)
        return (
            f"{self.message}\nlow={self.low:.6g}  high={self.high:.6g}  {bands} "
            f"(positives+negatives)\n{values}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; numbers that are not finite become None."""
        names = ("low", "high", *_COUNTS, "objective", "violation", "feasible", "empty", "on",
                 "message")  # fmt: skip
        values = {str(m): jsonable(self._value(m)) for m in self.metrics}
        plain = {name: jsonable(getattr(self, name)) for name in names}
        return {"goal": str(self.goal), **plain, "costs": list(self.costs), "metrics": values}


_COUNTS = (
    "alarm_positives", "alarm_negatives", "review_positives", "review_negatives",
    "clear_positives", "clear_negatives",
)  # fmt: skip


def _requirement(constraint: BandConstraint) -> str:
    sign = "≥" if constraint.metric.direction == "max" else "≤"
    return f"{sign} {format_number(constraint.level)}"


def format_value(value: float, constraint: BandConstraint | None) -> str:
    """Format a metric with three digits, or more where rounding would hide a missed level."""
    if np.isnan(value):
        return "–"
    digits = 3
    if constraint is not None:
        sign, level = constraint.metric.sign, constraint.level
        met = sign * (level - value) <= TOLERANCE
        while digits < 9 and (sign * (level - round(value, digits)) <= TOLERANCE) != met:
            digits += 1
    return f"{value:.{digits}f}"


def choose_band(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | BandGoal,
    *,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> BandPoint:
    """Find the exact review band for a goal on the scores of any classifier.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: booleans, 0/1 or -1/1; any two values if ``pos_label`` names the positive one.
    scores : array-like of shape (n,)
        One number per sample, larger meaning more likely positive.
    goal : str or BandGoal
        E.g. ``"min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999"``.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    amounts : dict of array-like, optional
        The arrays that a cost names, with one number >= 0 per sample.
    pos_label : optional
        The label of the positive class.
    on : str
        The name of the data in messages.

    Returns
    -------
    BandPoint
        The best feasible pair of cuts. If there is none, the pair with the least violation (the sum
        of the shortfalls), and among these the one with the best objective, with
        ``feasible=False``. Ties are broken by fewer reviews, then by more true alarms, then by
        fewer false alarms.

    Examples
    --------
    >>> from setpoint import choose_band
    >>> y = [0, 0, 0, 1, 0, 1, 0, 1, 1]
    >>> scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    >>> goal = "min review_rate s.t. precision(alarm) >= 1, npv(clear) >= 1"
    >>> band = choose_band(y, scores, goal)
    >>> round(band.low, 3), round(band.high, 3)
    (0.35, 0.75)
    """
    goal = BandGoal.parse(goal)
    rows = BandRows.of(y, scores, sample_weight, amounts, goal, pos_label)
    check_classes(
        bool(rows.positive.any()), not rows.positive.all(), weighted=rows.weights is not None
    )
    cuts = Cuts.of(rows)
    found = best_pair(cuts, goal)
    assert found is not None  # without masks every pair is allowed
    low, high = (cuts.threshold(cut) for cut in found)
    return band_point(rows, low, high, goal, on)


def evaluate_band(
    y: ArrayLike,
    scores: ArrayLike,
    low: float,
    high: float,
    goal: str | BandGoal,
    *,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> BandPoint:
    """Return the counts and metrics of a given band; parameters as in choose_band.

    One class is enough: metrics that need the other one are NaN.
    """
    goal = BandGoal.parse(goal)
    low, high = check_band(low, high)
    rows = BandRows.of(y, scores, sample_weight, amounts, goal, pos_label)
    return band_point(rows, low, high, goal, on)


def check_band(low: Any, high: Any) -> tuple[float, float]:
    """Return both thresholds as floats; raise SetpointError unless low <= high."""
    try:
        low, high = float(low), float(high)
    except (TypeError, ValueError):
        raise SetpointError(f"low and high must be numbers, not {low!r} and {high!r}.") from None
    if not low <= high:
        raise SetpointError(
            f"low must not be above high, and neither may be NaN: low={low}, high={high}."
        )
    return low, high


def decide(scores: Floats, low: float, high: float) -> NDArray[np.str_]:
    """Return "alarm", "review" or "clear" for each score."""
    # numpy would round a Python float to the precision of the scores before comparing.
    exact = scores.astype(np.float64, copy=False)
    return np.where(exact > high, ALARM, np.where(exact > low, REVIEW, CLEAR))


def band_point(rows: BandRows, low: float, high: float, goal: BandGoal, on: str) -> BandPoint:
    """Return the counts of a band on validated rows."""
    decisions = decide(rows.scores, low, high)
    w = np.ones(len(rows.scores)) if rows.weights is None else rows.weights
    masks = [
        (decisions == band) & member
        for band in (ALARM, REVIEW, CLEAR)
        for member in (rows.positive, ~rows.positive)
    ]
    counts = {name: float(w[mask].sum()) for name, mask in zip(_COUNTS, masks, strict=True)}
    _, false_alarm, *reviewed, missed, _ = masks
    of_terms = false_alarm, missed, reviewed[0] | reviewed[1]
    fp, fn, review = (
        float((w * cost)[mask].sum()) for cost, mask in zip(rows.costs, of_terms, strict=True)
    )
    costs = (fp, fn, review)
    return BandPoint(float(low), float(high), **counts, goal=goal, on=on, costs=costs)
