"""Goals of a review band: two thresholds that divide rows into alarms, reviews and cleared rows.

    min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999
    max recall(alarm) s.t. precision(alarm) >= 0.9, review_rate <= 5%
    min cost(fp=5, fn=amount, review=1) s.t. fnr(clear) <= 1%

A row is an *alarm* if score > high, *cleared* if score <= low, and *reviewed* otherwise. A metric
of one side names it in parentheses; it depends on one of the two thresholds. The grammar is that of
:mod:`setpoint.goals.goal`, with these metrics:

    metric = "precision(alarm)" | "recall(alarm)" | "fpr(alarm)" | "alarm_rate"
           | "npv(clear)" | "fnr(clear)" | "clear_rate" | "review_rate"
           | "cost(" term { "," term } ")"           (only as the objective)
    term   = ( "fp" | "fn" | "review" ) "=" ( number | [ number "*" ] name of amounts )
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from setpoint.errors import GoalError
from setpoint.goals.band_metrics import (
    COST_CALL,
    TERMS,
    BandCounts,
    BandMetric,
    Side,
    band_metric,
    check_not_profit,
    parse_cost,
)
from setpoint.goals.goal import TOLERANCE, Constraint, Goal

# All that this module uses of the plain language; both share directions, separators and levels.
from setpoint.goals.language import (
    _DECIMAL_COMMA,
    _DIRECTIONS,
    _FLIPPED,
    _NUMBER,
    _RELATION,
    _SEPARATOR,
    _SUCH_THAT,
    _parse_level,
)
from setpoint.goals.linear_fraction import where
from setpoint.goals.metrics import ALARM_RATE, format_number, metric


@dataclass(frozen=True)
class BandConstraint:
    """A constraint ``metric >= level`` of a review band, or ``<=`` where lower is better."""

    metric: BandMetric
    level: float

    def __post_init__(self) -> None:
        level = float(self.level)
        object.__setattr__(self, "level", level)
        if self.metric.side == "cost":
            raise GoalError(
                f"'{self.metric}' couples both thresholds and cannot be a constraint of a review "
                f"band; write 'min {self.metric}', and limit 'review_rate' instead."
            )
        if not 0 <= level <= 1:
            percent = f" Did you mean {format_number(level)}%?" if 1 < level <= 100 else ""
            raise GoalError(
                f"'{self}': the level must lie between 0 and 1, the values that {self.metric} can "
                f"take.{percent}"
            )

    def __str__(self) -> str:
        return f"{self.metric} {self.metric.relation} {format_number(self.level)}"

    @property
    def plain(self) -> Constraint:
        """The same constraint as one of a plain metric at one threshold.

        A rate of cleared rows becomes that of the others, and one of reviews the rate of rows that
        are reviewed, as if these were the alarms.
        """
        which = (
            ALARM_RATE if self.metric.side == "review" else metric(str(self.metric.at_threshold))
        )
        level = 1 - self.level if self.metric.name == "clear_rate" else self.level
        return Constraint(which, level)

    def shortfall(self, counts: BandCounts) -> Any:
        """Return the distance of the metric from its level; <= 0 where the constraint is met."""
        return self.metric.sign * (self.level - self.metric.value(counts))

    def violation(self, counts: BandCounts) -> Any:
        """Return the shortfall where it exceeds rounding errors, otherwise 0."""
        shortfall = self.shortfall(counts)
        return where(shortfall <= TOLERANCE, 0.0, shortfall)


@dataclass(frozen=True)
class BandGoal:
    """An objective and any number of constraints for two thresholds.

    Parameters
    ----------
    objective : BandMetric or str
        The metric to optimise.
    constraints : iterable of BandConstraint or str
        Levels that metrics must reach.

    Examples
    --------
    >>> from setpoint import BandGoal
    >>> goal = BandGoal.parse("min review_rate s.t. precision(alarm) >= 95%, npv(clear) ≥ 0.999")
    >>> str(goal)
    'min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999'
    """

    objective: BandMetric
    constraints: tuple[BandConstraint, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            object.__setattr__(self, "objective", band_metric(self.objective))
        constraints = tuple(
            _parse_constraint(c) if isinstance(c, str) else c for c in self.constraints
        )
        object.__setattr__(self, "constraints", constraints)
        seen: set[str] = set()
        for constraint in constraints:
            name = constraint.metric.name
            if name in seen:
                raise GoalError(f"'{constraint}': {name} is constrained twice; keep one level.")
            seen.add(name)

    @classmethod
    def parse(cls, text: str | BandGoal) -> BandGoal:
        """Parse a goal of a review band; a BandGoal is returned as is."""
        return text if isinstance(text, BandGoal) else _parse_goal(text)

    def __str__(self) -> str:
        head = f"{self.objective.direction} {self.objective}"
        if not self.constraints:
            return head
        return f"{head} s.t. {', '.join(map(str, self.constraints))}"

    @property
    def metrics(self) -> tuple[BandMetric, ...]:
        """The objective, then the constrained metrics."""
        return (self.objective, *(c.metric for c in self.constraints))

    @property
    def amounts(self) -> tuple[str, ...]:
        """The names of the arrays of amounts that the goal needs."""
        return self.objective.amounts

    @property
    def segments(self) -> tuple[str, ...]:
        """Columns of segments, which goals of a review band do not have."""
        return ()

    @property
    def periods(self) -> tuple[str, ...]:
        """Periods of time, which goals of a review band do not have."""
        return ()

    def of_side(self, *sides: Side) -> tuple[BandConstraint, ...]:
        """Return the constraints on these sides."""
        return tuple(c for c in self.constraints if c.metric.side in sides)

    @property
    def most_reviews(self) -> float | None:
        """The largest review rate that the goal allows, or None."""
        return next((c.level for c in self.of_side("review")), None)

    def violation(self, counts: BandCounts) -> Any:
        """Return the sum of the positive shortfalls, 0 where all constraints are met."""
        return sum((c.violation(counts) for c in self.constraints), 0.0)


AnyGoal = Goal | BandGoal


def is_band_goal(goal: Any) -> bool:
    """Return whether a goal is one of a review band, by the words that only such goals have.

    Examples
    --------
    >>> is_band_goal("min review_rate s.t. npv(clear) >= 0.99")
    True
    >>> is_band_goal("max recall s.t. alarm_rate <= 0.01")
    False
    """
    if isinstance(goal, str):
        return _BAND_WORDS.search(goal.lower()) is not None
    return isinstance(goal, BandGoal)


def parse_any_goal(goal: Any) -> AnyGoal:
    """Parse a goal of one threshold or of a review band.

    What can be read as a goal of one threshold is one: a column may be called "review".

    Examples
    --------
    >>> type(parse_any_goal("min review_rate s.t. npv(clear) >= 0.99")).__name__
    'BandGoal'
    >>> type(parse_any_goal("max recall s.t. precision >= 0.9 for each review")).__name__
    'Goal'
    """
    if isinstance(goal, BandGoal):
        return goal
    try:
        return Goal.parse(goal)
    except GoalError:
        if is_band_goal(goal):
            return BandGoal.parse(goal)
        raise


# --- the language ---------------------------------------------------------------------------------

_EXAMPLE = "write e.g. 'min review_rate s.t. precision(alarm) >= 0.95, npv(clear) >= 0.999'"
_BAND_WORDS = re.compile(r"\(\s*(alarm|clear|review)\s*\)|\breview(_rate)?\b|\bclear_rate\b")
_EACH = re.compile(r"\bfor\s+each\b")
_LIMITS_OF_REVIEWS = ("review_rate", "clear_rate", "recall(alarm)")  # rows that are not reviewed
_NAME = re.compile(r"[a-z_][a-z0-9_]*\s*(\([^()]*\))?")


def _parse_goal(text: Any) -> BandGoal:
    if isinstance(text, Goal):
        raise GoalError(f"'{text}' is a goal of one threshold, not of a review band; {_EXAMPLE}.")
    if not isinstance(text, str):
        raise GoalError(
            f"a goal must be a string or a BandGoal, not {type(text).__name__}; {_EXAMPLE}."
        )
    if not text.strip():
        raise GoalError(f"the goal {text!r} is empty; {_EXAMPLE}.")
    # Costs are read first: names of arrays keep their case, and commas separate their terms.
    calls = COST_CALL.findall(text)
    source = COST_CALL.sub("cost()", text).strip().lower()
    head, *tails = _SUCH_THAT.split(source)
    if len(tails) > 1:
        raise GoalError(f"{text!r} contains 's.t.' twice; separate constraints by commas.")
    if comma := _DECIMAL_COMMA.search(source):
        raise GoalError(f"{comma[0]!r} in {text!r}: write decimals with a point.")
    if tails and "cost()" in tails[0]:
        BandConstraint(parse_cost(calls[-1]), 0.0)  # raises an error that says what to write
    costs = parse_cost(calls[0]) if calls else None
    objective = _parse_objective(head.strip().removesuffix(",").rstrip(), text, costs)
    constraints: tuple[BandConstraint, ...] = ()
    if tails:
        constraints = tuple(_parse_constraint(part) for part in _SEPARATOR.split(tails[0]))
    goal = BandGoal(objective, constraints)
    _check_reviews(goal)
    return goal


def _check_reviews(goal: BandGoal) -> None:
    """Raise GoalError if nothing in a goal of costs speaks against reviewing every row."""
    if goal.objective.costs is None or goal.objective.costs[TERMS.index("review")].factor > 0:
        return
    if not any(c.metric.name in _LIMITS_OF_REVIEWS for c in goal.constraints):
        raise GoalError(
            f"'{goal}': reviews cost nothing and are not limited, so that every row is reviewed; "
            "add what a review costs, e.g. 'review=1', or a limit, e.g. 's.t. review_rate <= 5%'."
        )


def _parse_objective(head: str, text: str, costs: BandMetric | None) -> BandMetric:
    first, _, rest = head.partition(" ")
    rest = rest.strip()
    if first not in _DIRECTIONS:
        raise GoalError(f"{text!r} does not begin with 'max' or 'min'; {_EXAMPLE}.")
    if not rest:
        raise GoalError(f"{text!r} names no metric after {first!r}; {_EXAMPLE}.")
    check_not_profit(rest)
    if _RELATION.search(rest):
        raise GoalError(f"the objective {rest!r} contains a level; write levels after 's.t.'.")
    if not _NAME.fullmatch(rest) and _SEPARATOR.search(rest):
        raise GoalError(
            f"{head!r} names two objectives; keep one and write a level for the other after "
            f"'s.t.'; {_EXAMPLE}."
        )
    objective = costs if costs is not None and rest == "cost()" else band_metric(rest)
    if objective.direction != _DIRECTIONS[first]:
        better = "higher" if objective.direction == "max" else "lower"
        raise GoalError(
            f"{head!r}: {objective} is better when {better}; "
            f"write '{objective.direction} {objective}'."
        )
    return objective


def _parse_constraint(part: str) -> BandConstraint:
    if call := COST_CALL.search(part):
        return BandConstraint(parse_cost(call[1]), 0.0)  # raises an error that says what to write
    part = part.strip().lower()
    if not part:
        raise GoalError("a constraint is empty; remove the extra comma or 's.t.'.")
    check_not_profit(part)
    if _EACH.search(part):
        raise GoalError(
            f"the constraint {part!r}: a review band cannot be required 'for each' segment; choose "
            "a band for the rows of each segment, or leave out 'for each'."
        )
    pieces = _RELATION.split(part)
    if len(pieces) != 2:
        raise GoalError(f"the constraint {part!r} is not of the form 'metric >= level'.")
    name, level = (piece.strip() for piece in pieces)
    found = _RELATION.findall(part)[0]
    relation = {"≥": ">=", "≤": "<=", "=>": ">=", "=<": "<="}.get(found, found)
    if _NUMBER.fullmatch(name.removesuffix("%").strip()):  # 0.9 <= precision(alarm)
        name, level, relation = level, name, _FLIPPED.get(relation, relation)
    constrained = band_metric(name)
    instead = f"write '{constrained} {constrained.relation} {level}'"
    if relation not in _FLIPPED:
        raise GoalError(f"the constraint {part!r} uses {relation!r}; {instead}.")
    if relation != constrained.relation:
        better = "higher" if constrained.relation == ">=" else "lower"
        raise GoalError(
            f"the constraint {part!r}: {constrained} is better when {better}; {instead}."
        )
    return BandConstraint(constrained, _parse_level(level, part))
