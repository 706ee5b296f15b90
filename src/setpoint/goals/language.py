"""The goal language: how a sentence becomes a Goal.

    goal       = named | direction metric [ such_that constraint { separator constraint } ]
    direction  = "max" | "min"                   (also maximize, maximise, minimize, minimise)
    such_that  = "s.t." | "st" | "subject to" | "such that"
    separator  = "," | "and"
    constraint = metric ( ">=" | "<=" ) level    (also ≥ and ≤, and the other way round)
    level      = number [ "%" ]
    metric     = name [ "(" number ")" ]
    named      = "FPOR(alpha)" | "FROP(alpha)" | "OFOS()"

Capital letters and white space do not matter. Each error quotes the part it is about.
"""

from __future__ import annotations

import re
from decimal import Decimal

from setpoint.errors import GoalError
from setpoint.goals.goal import FPOR, FROP, OFOS, Constraint, Goal
from setpoint.goals.metrics import Metric, metric

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


def parse_goal(text: str) -> Goal:
    """Read a goal; see the grammar at the head of this module."""
    if not isinstance(text, str):
        raise GoalError(f"a goal is a text or a Goal, not {type(text).__name__}; {_EXAMPLE}.")
    source = text.strip().lower()
    if not source:
        raise GoalError(f"the goal {text!r} is empty; {_EXAMPLE}.")
    if match := _NAMED.fullmatch(source):
        return _named_goal(text, *match.groups())
    head, *tails = _SUCH_THAT.split(source)
    if len(tails) > 1:
        raise GoalError(f"{text!r} says 's.t.' twice; separate constraints by commas.")
    if comma := _DECIMAL_COMMA.search(source):
        raise GoalError(f"{comma[0]!r} in {text!r}: write decimals with a point.")
    objective = _objective(head.strip().removesuffix(",").rstrip(), text)
    constraints: tuple[Constraint, ...] = ()
    if tails:
        constraints = tuple(parse_constraint(part) for part in _SEPARATOR.split(tails[0]))
    return Goal(objective, constraints)


def _named_goal(text: str, name: str, argument: str | None) -> Goal:
    argument = (argument or "").strip()
    if name == "ofos":
        if argument:
            raise GoalError(f"{text!r}: OFOS takes no level, found {argument!r}.")
        return OFOS()
    if not argument:
        raise GoalError(f"{text!r} needs a level, e.g. '{name.upper()}(0.9)'.")
    return (FPOR if name == "fpor" else FROP)(_level(argument, text))


def _objective(head: str, text: str) -> Metric:
    match = _HEAD.fullmatch(head)
    if match is None or match[1] not in _DIRECTIONS:
        raise GoalError(f"{text!r} does not begin with 'max' or 'min'; {_EXAMPLE}.")
    direction, rest = _DIRECTIONS[match[1]], match[2].strip()
    if not rest:
        raise GoalError(f"{text!r} names no metric after {match[1]!r}; {_EXAMPLE}.")
    if _RELATION.search(rest):
        raise GoalError(f"the objective {rest!r} holds a level; put levels behind 's.t.'.")
    if not _METRIC.fullmatch(rest):
        if _SEPARATOR.search(rest) or any(word in _DIRECTIONS for word in rest.split()):
            raise GoalError(
                f"{head!r} names two objectives; keep one and put levels for the other behind "
                f"'s.t.'; {_EXAMPLE}."
            )
        metric(rest)  # may know what was meant
        raise GoalError(f"the objective {rest!r} is not the name of a metric; {_EXAMPLE}.")
    objective = metric(rest)
    if objective.direction != direction:
        better = "higher" if objective.direction == "max" else "lower"
        raise GoalError(
            f"{head!r}: {objective} is better when {better}; "
            f"write '{objective.direction} {objective}'."
        )
    return objective


def parse_constraint(part: str) -> Constraint:
    """Read one constraint, e.g. ``precision >= 0.9``."""
    part = part.strip().lower()
    if not part:
        raise GoalError("a constraint is empty; remove the extra comma or 's.t.'.")
    pieces = _RELATION.split(part)
    if len(pieces) != 2:
        raise GoalError(f"the constraint {part!r} does not read 'metric >= level'.")
    name, level = (piece.strip() for piece in pieces)
    found = _RELATION.findall(part)[0]
    relation = {"≥": ">=", "≤": "<=", "=>": ">=", "=<": "<="}.get(found, found)
    if _NUMBER.fullmatch(name.removesuffix("%").strip()):  # 0.9 <= precision
        name, level, relation = level, name, _FLIPPED.get(relation, relation)
    constrained = metric(name)
    wanted = ">=" if constrained.direction == "max" else "<="
    instead = f"write '{constrained} {wanted} {level}'"
    if relation not in _FLIPPED:
        raise GoalError(f"the constraint {part!r} uses {relation!r}; {instead}.")
    if relation != wanted:
        better = "higher" if wanted == ">=" else "lower"
        raise GoalError(
            f"the constraint {part!r}: {constrained} is better when {better}; {instead}."
        )
    return Constraint(constrained, _level(level, part))


def _level(level: str, part: str) -> float:
    digits = level.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(digits):
        raise GoalError(f"{level!r} in {part!r} is not a number.")
    if not level.endswith("%"):
        return float(digits)
    try:  # in decimals, so that 99.9% is 0.999 and not the float next to it
        return float(Decimal(digits) / 100)
    except ArithmeticError:
        raise GoalError(f"{level!r} in {part!r} is too large.") from None
