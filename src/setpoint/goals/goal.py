"""Goals: an objective, its constraints, and the language that states them.

    max recall s.t. precision >= 0.9
    max f1
    max recall s.t. fpr <= 0.01, precision >= 0.5

The grammar:

    goal       = named | direction metric [ such_that constraint { separator constraint } ]
    direction  = "max" | "min"                   (also maximize, maximise, minimize, minimise)
    such_that  = "s.t." | "st" | "subject to" | "such that"
    separator  = "," | "and"
    constraint = metric ( ">=" | "<=" ) level    (also ≥ and ≤, and the other way round)
    level      = number [ "%" ]
    metric     = name [ "(" number ")" ]
    named      = "FPOR(alpha)" | "FROP(alpha)" | "OFOS()"

Case and white space do not matter. ``Goal.parse`` and ``str`` are inverses of each other. FPOR,
FROP and OFOS are the paper's three goals.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from setpoint.errors import GoalError
from setpoint.goals.metrics import Counts, Metric, format_number, metric

# A constraint counts as met within this rounding error of weighted sums.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Constraint:
    """A constraint on a metric: ``metric >= level``, or ``<=`` where lower is better."""

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
        """``>=`` where higher is better, ``<=`` where lower is better."""
        return ">=" if self.metric.direction == "max" else "<="

    def shortfall(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the distance of the metric from its level; <= 0 where the constraint is met."""
        return self.metric.sign * (self.level - self.metric.value(tp, fp, P, N))

    def cleared(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the shortfall times the metric's denominator, which is linear in the counts.

        It has the sign of :meth:`shortfall`. For ``precision >= alpha`` it is
        ``alpha*FP - (1-alpha)*TP``, the paper's phi_con. For a metric that is not a quotient of
        linear functions it is the shortfall times P.
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
        The metric to optimise.
    constraints : iterable of Constraint or str
        Levels that metrics must reach.

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
        constraints = tuple(
            _parse_constraint(c) if isinstance(c, str) else c for c in self.constraints
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
        """Parse a goal, e.g. ``"max recall s.t. precision >= 0.9"``; a Goal is returned as is."""
        return text if isinstance(text, Goal) else _parse_goal(text)

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
        """Return the objective, negated where lower is better."""
        return self.objective.sign * self.objective.value(tp, fp, P, N)

    def violation(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the sum of the positive shortfalls, 0 where all constraints are met.

        A shortfall of at most ``TOLERANCE`` counts as none.
        """
        total: Any = 0.0 * (tp + fp)
        for constraint in self.constraints:
            shortfall = constraint.shortfall(tp, fp, P, N)
            total = total + shortfall * (shortfall > TOLERANCE)
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


def _floor_goal(name: str, objective: str, constrained: str, alpha: float) -> Goal:
    if not (math.isfinite(alpha) and 0 <= alpha <= 1):
        raise GoalError(f"{name}({format_number(alpha)}): alpha must lie between 0 and 1.")
    return Goal(metric(objective), (Constraint(metric(constrained), alpha),))


def only_fractions(goal: Goal) -> bool:
    """Whether all metrics are quotients, which torch can compute; others may need numpy."""
    return all(metric.fraction is not None for metric in goal.metrics)


# --- the language ---------------------------------------------------------------------------------

_EXAMPLE = "write e.g. 'max recall s.t. precision >= 0.9'"
_DIRECTIONS = {
    "max": "max", "maximize": "max", "maximise": "max",
    "min": "min", "minimize": "min", "minimise": "min",
}  # fmt: skip
_SUCH_THAT = re.compile(r"\bs\.\s*t\.|\bs\.t\b|\bst\b|\bsubject\s+to\b|\bsuch\s+that\b")
_HEAD = re.compile(r"([a-z]+)\b\s*(.*)", re.DOTALL)
_SEPARATOR = re.compile(r",\s*and\b|,|\band\b")
_DECIMAL_COMMA = re.compile(r"\d,\d+%?\s*(?=$|,|and\b)")
_FLIPPED = {"<=": ">=", ">=": "<="}
_RELATION = re.compile(r">=|<=|=>|=<|==|≥|≤|>|<|=")
_METRIC = re.compile(r"[a-z_][a-z0-9_]*\s*(\([^()]*\))?")
_NAMED = re.compile(r"(fpor|frop|ofos)\s*(?:\(([^()]*)\))?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")


def _parse_goal(text: str) -> Goal:
    if not isinstance(text, str):
        raise GoalError(
            f"a goal must be a string or a Goal, not {type(text).__name__}; {_EXAMPLE}."
        )
    source = text.strip().lower()
    if not source:
        raise GoalError(f"the goal {text!r} is empty; {_EXAMPLE}.")
    if match := _NAMED.fullmatch(source):
        return _parse_named(text, *match.groups())
    head, *tails = _SUCH_THAT.split(source)
    if len(tails) > 1:
        raise GoalError(f"{text!r} contains 's.t.' twice; separate constraints by commas.")
    if comma := _DECIMAL_COMMA.search(source):
        raise GoalError(f"{comma[0]!r} in {text!r}: write decimals with a point.")
    objective = _parse_objective(head.strip().removesuffix(",").rstrip(), text)
    constraints: tuple[Constraint, ...] = ()
    if tails:
        constraints = tuple(_parse_constraint(part) for part in _SEPARATOR.split(tails[0]))
    return Goal(objective, constraints)


def _parse_named(text: str, name: str, argument: str | None) -> Goal:
    argument = (argument or "").strip()
    if name == "ofos":
        if argument:
            raise GoalError(f"{text!r}: OFOS takes no level, found {argument!r}.")
        return OFOS()
    if not argument:
        raise GoalError(f"{text!r} needs a level, e.g. '{name.upper()}(0.9)'.")
    return (FPOR if name == "fpor" else FROP)(_parse_level(argument, text))


def _parse_objective(head: str, text: str) -> Metric:
    match = _HEAD.fullmatch(head)
    if match is None or match[1] not in _DIRECTIONS:
        raise GoalError(f"{text!r} does not begin with 'max' or 'min'; {_EXAMPLE}.")
    direction, rest = _DIRECTIONS[match[1]], match[2].strip()
    if not rest:
        raise GoalError(f"{text!r} names no metric after {match[1]!r}; {_EXAMPLE}.")
    if _RELATION.search(rest):
        raise GoalError(f"the objective {rest!r} contains a level; write levels after 's.t.'.")
    if not _METRIC.fullmatch(rest):
        if _SEPARATOR.search(rest) or any(word in _DIRECTIONS for word in rest.split()):
            raise GoalError(
                f"{head!r} names two objectives; keep one and write a level for the other "
                f"after 's.t.'; {_EXAMPLE}."
            )
        metric(rest)  # raises an error with suggestions for names like 'balanced accuracy'
        raise GoalError(f"the objective {rest!r} is not the name of a metric; {_EXAMPLE}.")
    objective = metric(rest)
    if objective.direction != direction:
        better = "higher" if objective.direction == "max" else "lower"
        raise GoalError(
            f"{head!r}: {objective} is better when {better}; "
            f"write '{objective.direction} {objective}'."
        )
    return objective


def _parse_constraint(part: str) -> Constraint:
    part = part.strip().lower()
    if not part:
        raise GoalError("a constraint is empty; remove the extra comma or 's.t.'.")
    pieces = _RELATION.split(part)
    if len(pieces) != 2:
        raise GoalError(f"the constraint {part!r} is not of the form 'metric >= level'.")
    name, level = (piece.strip() for piece in pieces)
    found = _RELATION.findall(part)[0]
    relation = {"≥": ">=", "≤": "<=", "=>": ">=", "=<": "<="}.get(found, found)
    if _NUMBER.fullmatch(name.removesuffix("%").strip()):  # 0.9 <= precision
        name, level, relation = level, name, _FLIPPED.get(relation, relation)
    constrained = metric(name)
    required = ">=" if constrained.direction == "max" else "<="
    instead = f"write '{constrained} {required} {level}'"
    if relation not in _FLIPPED:
        raise GoalError(f"the constraint {part!r} uses {relation!r}; {instead}.")
    if relation != required:
        better = "higher" if required == ">=" else "lower"
        raise GoalError(
            f"the constraint {part!r}: {constrained} is better when {better}; {instead}."
        )
    return Constraint(constrained, _parse_level(level, part))


def _parse_level(level: str, part: str) -> float:
    digits = level.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(digits):
        raise GoalError(f"{level!r} in {part!r} is not a number.")
    if not level.endswith("%"):
        return float(digits)
    try:  # in decimals, so that 99.9% is 0.999 and not the float next to it
        return float(Decimal(digits) / 100)
    except ArithmeticError:
        raise GoalError(f"{level!r} in {part!r} is too large.") from None


# --- formatting ----------------------------------------------------------------------------------


def format_metric(value: float, constraint: Constraint | None = None) -> str:
    """Format a metric with three digits, or more where rounding would hide a missed level."""
    if math.isnan(value):
        return "–"
    digits = 3
    if constraint is not None:
        met = _is_met(constraint, value)
        while digits < 9 and _is_met(constraint, round(value, digits)) != met:
            digits += 1
    return f"{value:.{digits}f}"


def _is_met(constraint: Constraint, value: float) -> bool:
    return constraint.metric.sign * (constraint.level - value) <= TOLERANCE


def format_requirement(constraint: Constraint) -> str:
    """Format a constraint's relation and level: "≥ 0.9"."""
    return f"{'≥' if constraint.relation == '>=' else '≤'} {format_number(constraint.level)}"
