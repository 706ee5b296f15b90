"""What a person wants of a classifier: an objective and the levels it must keep.

    max recall s.t. precision >= 0.9
    max precision s.t. recall >= 0.95
    max f1
    max recall s.t. fpr <= 0.01, precision >= 0.5

``Goal.parse`` and ``str`` are inverse to each other. FPOR, FROP and OFOS are the three goals of
the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from setpoint.errors import GoalError
from setpoint.goals.metrics import Counts, Metric, format_number, metric

# A level counts as met up to this rounding error of weighted sums.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Constraint:
    """A level that a metric must keep: ``metric >= level``, or ``<=`` where less is better."""

    metric: Metric
    level: float

    def __post_init__(self) -> None:
        if isinstance(self.metric, str):
            object.__setattr__(self, "metric", metric(self.metric))
        low, high = self.metric.bounds
        level = float(self.level)
        object.__setattr__(self, "level", level)
        if not low <= level <= high:
            percent = (
                f" Did you mean {format_number(level)}%?" if 1 < level <= 100 and high == 1 else ""
            )
            raise GoalError(
                f"'{self}': the level must lie between {format_number(low)} and "
                f"{format_number(high)}, the values that {self.metric} can take.{percent}"
            )

    def __str__(self) -> str:
        return f"{self.metric} {self.relation} {format_number(self.level)}"

    @property
    def relation(self) -> str:
        """``>=`` for a floor, ``<=`` for a ceiling."""
        return ">=" if self.metric.direction == "max" else "<="

    def shortfall(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return how far the metric is from its level; <= 0 where the constraint is met."""
        return self.metric.sign * (self.level - self.metric.value(tp, fp, P, N))

    def cleared(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the shortfall cleared of its denominator, so that it is linear in the counts.

        It has the sign of :meth:`shortfall`. For ``precision >= alpha`` it is
        ``alpha*FP - (1-alpha)*TP``, the paper's phi_con. Metrics that are no quotient of linear
        functions have no such form; for them it is the shortfall itself times P.
        """
        if self.metric.fraction is None:
            return P * self.shortfall(tp, fp, P, N)
        top, bottom = self.metric.fraction.parts(tp, fp, P, N)
        return self.metric.sign * (self.level * bottom - top)

    def cleared_slopes(self, tp: Counts, fp: Counts, P: float, N: float) -> tuple[Any, Any]:
        """Return the derivatives of :meth:`cleared` in TP and in FP."""
        which = self.metric
        if which.fraction is None:
            at = (tp, fp, P, N)
            return -which.sign * P * which.d_tp(*at), -which.sign * P * which.d_fp(*at)
        top, bottom = which.fraction.numerator(P, N), which.fraction.denominator(P, N)
        d_tp, d_fp = (which.sign * (self.level * bottom[i] - top[i]) for i in (1, 2))
        return d_tp, d_fp


@dataclass(frozen=True)
class Goal:
    """An objective metric and any number of constraints.

    Parameters
    ----------
    objective : Metric or str
        What to make as good as possible.
    constraints : iterable of Constraint or str
        Levels to keep.

    Examples
    --------
    >>> from setpoint import Goal
    >>> goal = Goal.parse("max recall s.t. precision >= 0.9")
    >>> str(goal)
    'max recall s.t. precision >= 0.9'
    >>> goal.is_monotone
    True
    """

    objective: Metric
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            object.__setattr__(self, "objective", metric(self.objective))
        from setpoint.goals.language import parse_constraint

        constraints = tuple(
            parse_constraint(c) if isinstance(c, str) else c for c in self.constraints
        )
        object.__setattr__(self, "constraints", constraints)
        seen: set[str] = set()
        for constraint in self.constraints:
            name = constraint.metric.name
            if name in seen:
                raise GoalError(f"'{constraint}': {name} is constrained twice; keep one level.")
            seen.add(name)

    @classmethod
    def parse(cls, text: str | Goal) -> Goal:
        """Read a goal from a sentence of the goal language; a Goal is returned as it is."""
        if isinstance(text, Goal):
            return text
        from setpoint.goals.language import parse_goal

        return parse_goal(text)

    def __str__(self) -> str:
        head = f"{self.objective.direction} {self.objective}"
        if not self.constraints:
            return head
        return f"{head} s.t. {', '.join(map(str, self.constraints))}"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The objective, then the constrained metrics."""
        return (self.objective, *(c.metric for c in self.constraints))

    @property
    def is_monotone(self) -> bool:
        """Whether every metric is monotone, so that the inequality form is exact."""
        return all(m.monotone for m in self.metrics)

    def gain(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the objective, negated where less is better, so that more is always better."""
        return self.objective.sign * self.objective.value(tp, fp, P, N)

    def violation(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the sum of what the constraints are missed by, 0 where all are met.

        A constraint missed by no more than ``TOLERANCE`` counts as met.
        """
        total: Any = 0.0 * (tp + fp)
        for constraint in self.constraints:
            missed = constraint.shortfall(tp, fp, P, N)
            total = total + missed * (missed > TOLERANCE)
        return total


def FPOR(alpha: float) -> Goal:  # noqa: N802
    """Fix precision, optimize recall (paper, eq. FPOR)."""
    return _floor_goal("FPOR", "recall", "precision", alpha)


def FROP(alpha: float) -> Goal:  # noqa: N802
    """Fix recall, optimize precision (paper, eq. FROP)."""
    return _floor_goal("FROP", "precision", "recall", alpha)


def OFOS() -> Goal:  # noqa: N802
    """Optimize the F1 score (paper, eq. OFOS)."""
    return Goal(metric("f1"))


def _floor_goal(name: str, objective: str, floored: str, alpha: float) -> Goal:
    if not (math.isfinite(alpha) and 0 <= alpha <= 1):
        raise GoalError(f"{name}({format_number(alpha)}): alpha must lie between 0 and 1.")
    return Goal(metric(objective), (Constraint(metric(floored), alpha),))


def only_fractions(goal: Goal) -> bool:
    """Whether all metrics can be computed on a device; others may be functions of numpy alone."""
    return all(metric.fraction is not None for metric in goal.metrics)


def format_metric(value: float, constraint: Constraint | None = None) -> str:
    """Write a metric with three digits, and with more where three would hide a missed level."""
    if math.isnan(value):
        return "–"
    digits = 3
    if constraint is not None:
        met = _keeps(constraint, value)
        while digits < 9 and _keeps(constraint, round(value, digits)) != met:
            digits += 1
    return f"{value:.{digits}f}"


def _keeps(constraint: Constraint, value: float) -> bool:
    return constraint.metric.sign * (constraint.level - value) <= TOLERANCE


def format_requirement(constraint: Constraint) -> str:
    """Write a constraint's relation and level: "≥ 0.9"."""
    return f"{'≥' if constraint.relation == '>=' else '≤'} {format_number(constraint.level)}"
