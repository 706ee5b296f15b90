"""An operating point: a threshold, and what it leads to on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.renamed import renamed_property
from setpoint.errors import SetpointError
from setpoint.goals.goal import (
    TOLERANCE,
    Constraint,
    Goal,
    describe_value,
    format_metric,
    format_requirement,
)
from setpoint.goals.metrics import Metric, format_number, format_threshold, metric
from setpoint.goals.tallies import PLAIN, Tally
from setpoint.thresholds.caution import Cautious
from setpoint.thresholds.sweep import rank_of

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
    def uncovered(self) -> dict[str, float]:
        """How many rows no constraint "for each" segment applies to, by column, if there are some.

        These are rows of segments that were too small, are new, or do not define the metric.
        """
        stated, found = self.goal.stated or self.goal, dict(self.goal.found)
        counts = dict(zip(self.goal.tallies[1:], self.tallied, strict=True))
        missing = {}
        for column in dict.fromkeys(c.each for c in stated.constraints if c.each):
            rows = sum(
                sum(counts[Tally(segment=column, value=value)][2:])
                for value in found.get(column, ())
            )
            rest = float(self.counts[2] + self.counts[3]) - rows
            if rest > 1e-9 * rows:
                missing[column] = rest
        return missing

    @property
    def message(self) -> str:
        """The result in a sentence or two."""
        total = format_number(float(self.counts[2] + self.counts[3]))
        rest = [
            f" The constraints 'for each {column}' do not apply to {format_number(rows)} of "
            f"{total} rows, which are in other segments."
            for column, rows in self.uncovered.items()
        ]
        return self._message + "".join(rest)

    @property
    def _message(self) -> str:
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
