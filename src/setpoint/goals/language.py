"""The language of goals.

    goal       = named | direction metric [ such_that constraint { separator constraint } ]
    direction  = "max" | "min"                   (also maximize, maximise, minimize, minimise)
    such_that  = "s.t." | "st" | "subject to" | "such that"
    separator  = "," | "and"
    constraint = metric ( ">=" | "<=" ) level [ scope ]   (also ≥ and ≤, and the other way round)
    level      = number [ "%" ]
    scope      = "for each" column | "per" [ number ] "rows"
               | "per" period [ "on average" | "on" percentage "of" periods ]
    metric     = name [ "(" arguments ")" ] [ "[" tally "]" ] [ "@" level ]
    tally      = amounts | column "=" value
    named      = "FPOR(alpha)" | "FROP(alpha)" | "OFOS()"

Case and white space do not matter, except in the names of columns and in values, which may be put
in quotes; a quote inside them is doubled. ``Goal.parse`` and ``str`` are inverses of each other.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from setpoint.errors import GoalError
from setpoint.goals.budgets import Per, precision_at
from setpoint.goals.goal import FPOR, FROP, OFOS, Constraint, Goal
from setpoint.goals.metrics import ALARM_RATE, ALARMS, RECALL, Metric, metric
from setpoint.goals.money import check_prices, is_money
from setpoint.goals.periods import PERIODS
from setpoint.goals.tallies import PLAIN, unquoted

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
_NAMED = re.compile(r"(fpor|frop|ofos)\s*(?:\(([^()]*)\))?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
# Private-use characters stand for what must be kept as it is: see _Masked.
_FIRST, _LAST = 0xE000, 0xF8FF
_MASK = f"[{chr(_FIRST)}-{chr(_LAST)}]"
_METRIC = re.compile(rf"[a-z_][a-z0-9_]*(\s*{_MASK})*")
_EACH = re.compile(r"(?i)(\bfor\s+each\s+)([^\s,]+)")
_SCOPE = re.compile(rf"\s+(?:per\b.*|for\s+each\b\s*({_MASK})?.*)$", re.DOTALL)
_WITH_PER, _WITH_EACH = re.compile(r"\bper\b"), re.compile(r"\bfor\s+each\b")
_PER = re.compile(
    r"per\s+(?:(?P<rows>[\d.e+]*)\s*(?:rows|row|cases|case)"
    r"|(?P<period>[a-z]+?)(?:\s+on\s+(?:(?P<average>average)|(?P<share>\S+)\s+of\s+(?P<of>\S+)))?)"
)
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?![\d,.])")
_AT = re.compile(
    r"(?P<metric>[a-z_][a-z0-9_]*)\s*@\s*(?P<budget>[^\s%]+\s*%?)(?P<scope>\s+per\b.*)?", re.DOTALL
)


class _Masked:
    """A goal in lower case, in which arguments, tallies and names of columns are one character.

    Only these keep their case, and commas and words inside them mean nothing outside.
    """

    def __init__(self, text: str) -> None:
        self._free = (c for c in map(chr, range(_FIRST, _LAST)) if c not in text)
        self._held: dict[str, str] = {}
        found, i = "", 0
        while i < len(text):
            end = _end_of(text, i)
            found += self._hold(text[i:end]) if end > i + 1 else text[i]
            i = end
        found = _EACH.sub(lambda match: match[1] + self._hold(match[2]), found).lower()
        self.text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), found)

    def _hold(self, part: str) -> str:
        if part in self._held:  # a name in quotes
            return part
        mask = next(self._free, "")
        self._held[mask] = part
        return mask

    def restore(self, text: str) -> str:
        """Return a part of the goal as it was written."""
        for mask, part in self._held.items():
            text = text.replace(mask, part).replace(repr(mask)[1:-1], part)
        return text


def _end_of(text: str, start: int) -> int:
    """Return where the quotes, parentheses or brackets that begin here end; else the next place."""
    close = {"(": ")", "[": "]", "'": "'", '"': '"'}.get(text[start])
    if close is None:
        return start + 1
    i = start + 1
    while i < len(text):
        if close in "'\"" and text.startswith(2 * close, i):  # a quote inside quotes
            i += 2
            continue
        if text[i] == close:
            return i + 1
        i = _end_of(text, i) if close not in "'\"" else i + 1
    return start + 1  # it has no end


def parse_goal(text: str) -> Goal:
    """Return the goal that a text states; raise GoalError, which quotes what is wrong."""
    if not isinstance(text, str):
        raise GoalError(
            f"a goal must be a string or a Goal, not {type(text).__name__}; {_EXAMPLE}."
        )
    if not text.strip():
        raise GoalError(f"the goal {text!r} is empty; {_EXAMPLE}.")
    if match := _NAMED.fullmatch(text.strip().lower()):
        return _parse_named(text, *match.groups())
    masked = _Masked(text.strip())
    try:
        return _parse_goal(masked, text)
    except GoalError as error:
        raise GoalError(_of_band(text) or masked.restore(str(error))) from None


def _of_band(text: str) -> str:
    """Return what to use for a goal of a review band; empty if the text is none."""
    from setpoint.goals.bands import BandGoal, is_band_goal

    try:
        if not is_band_goal(text):
            return ""
        BandGoal.parse(text)
    except GoalError:
        return ""
    return (
        f"'{text}' is the goal of a review band, with two thresholds; use SetpointBand, "
        "choose_band or certify_band in Python, and 'setpoint fit' with --model hgb, logistic or "
        "forest on the command line."
    )


def parse_constraint(text: str) -> Constraint:
    """Return the constraint that a text states, e.g. ``"precision >= 0.9"``."""
    masked = _Masked(text)
    try:
        return _parse_constraint(masked.text, masked)
    except GoalError as error:
        raise GoalError(masked.restore(str(error))) from None


def _parse_goal(masked: _Masked, text: str) -> Goal:
    source = masked.text
    head, *tails = _SUCH_THAT.split(source)
    if len(tails) > 1:
        raise GoalError(f"{text!r} contains 's.t.' twice; separate constraints by commas.")
    if comma := _DECIMAL_COMMA.search(source):
        raise GoalError(f"{comma[0]!r} in {text!r}: write decimals with a point.")
    objective, budget = _parse_objective(head.strip().removesuffix(",").rstrip(), text, masked)
    constraints: list[Constraint] = []
    if tails:
        constraints = [_parse_constraint(part, masked) for part in _SEPARATOR.split(tails[0])]
    if budget is not None and budget not in constraints:
        for other in constraints:
            differ = None not in (other.per, budget.per) and other.per != budget.per
            if other.metric == budget.metric and not other.each and not differ:
                at = head.strip().split(maxsplit=1)[1]
                raise GoalError(
                    f"{at!r} and '{other}' both limit the number of alarms; keep one of them."
                )
        constraints.append(budget)
    if is_money(objective) and not constraints:
        check_prices(objective)
    return Goal(objective, tuple(constraints))


def _parse_named(text: str, name: str, argument: str | None) -> Goal:
    argument = (argument or "").strip()
    if name == "ofos":
        if argument:
            raise GoalError(f"{text!r}: OFOS takes no level, found {argument!r}.")
        return OFOS()
    if not argument:
        raise GoalError(f"{text!r} needs a level, e.g. '{name.upper()}(0.9)'.")
    return (FPOR if name == "fpor" else FROP)(_parse_level(argument, text))


def _parse_objective(head: str, text: str, masked: _Masked) -> tuple[Metric, Constraint | None]:
    """Return the objective, and the budget that it implies: ``recall@200``."""
    match = _HEAD.fullmatch(head)
    if match is None or match[1] not in _DIRECTIONS:
        raise GoalError(f"{text!r} does not begin with 'max' or 'min'; {_EXAMPLE}.")
    direction, rest = _DIRECTIONS[match[1]], match[2].strip()
    if not rest:
        raise GoalError(f"{text!r} names no metric after {match[1]!r}; {_EXAMPLE}.")
    if _RELATION.search(rest):
        raise GoalError(f"the objective {rest!r} contains a level; write levels after 's.t.'.")
    budget = None
    if at := _AT.fullmatch(rest):
        objective, budget = _parse_at(at, rest)
    elif not _METRIC.fullmatch(rest):
        if scope := _SCOPE.search(rest):
            raise GoalError(
                f"the objective {rest!r}: {scope[0].strip()!r} belongs to a constraint, after "
                f"'s.t.'; {_EXAMPLE}."
            )
        if _SEPARATOR.search(rest) or any(word in _DIRECTIONS for word in rest.split()):
            raise GoalError(
                f"{head!r} names two objectives; keep one and write a level for the other "
                f"after 's.t.'; {_EXAMPLE}."
            )
        metric(masked.restore(rest))  # raises an error with suggestions, e.g. for two words
        raise GoalError(f"the objective {rest!r} is not the name of a metric; {_EXAMPLE}.")
    else:
        objective = _metric(masked.restore(rest))
    if objective.direction != direction:
        better = "higher" if objective.direction == "max" else "lower"
        raise GoalError(
            f"{head!r}: {objective} is better when {better}; "
            f"write '{objective.direction} {objective}'."
        )
    return objective, budget


def _parse_at(match: re.Match[str], text: str) -> tuple[Metric, Constraint]:
    """Return the metric of the highest scores, and the budget that says how many these are."""
    base = _metric(match["metric"])
    if base.name not in ("precision", "recall"):
        raise GoalError(
            f"{text!r}: '@' is for precision and recall; write the number of alarms as a "
            f"constraint, e.g. 'max {base} s.t. alarms <= 200'."
        )
    level, scope = match["budget"].strip(), match["scope"] or ""
    number, share = _parse_level(level, text), level.endswith("%")
    if not number > 0:
        raise GoalError(f"{text!r}: write a number of alarms above 0, e.g. '{base}@200'.")
    _check_percentage(number, level, text)
    if not (share or number.is_integer() or _rows_of(scope)):
        raise GoalError(
            f"{text!r}: a number of alarms is a whole number, or a percentage of the rows, e.g. "
            "'@1%'."
        )
    budget = _budget(number, share, scope, text)
    if base == RECALL:
        return base, budget
    per = "" if budget.per is None else budget.per.period
    return precision_at(budget.level, budget.metric == ALARM_RATE, per), budget


def _parse_constraint(part: str, masked: _Masked) -> Constraint:
    part = part.strip()
    if not part:
        raise GoalError("a constraint is empty; remove the extra comma or 's.t.'.")
    if "@" in part:
        raise GoalError(
            f"the constraint {part!r}: '@' is for objectives, e.g. 'max precision@200'; in a "
            "constraint, limit the number of alarms by itself, e.g. 'precision >= 0.3, alarms <= "
            "200'."
        )
    scope = "" if (found := _SCOPE.search(part)) is None else found[0].strip()
    plain = part.removesuffix(scope).strip()
    pieces = _RELATION.split(plain)
    if len(pieces) != 2:
        raise GoalError(f"the constraint {part!r} is not of the form 'metric >= level'.")
    name, level = (piece.strip() for piece in pieces)
    relation = _RELATION.findall(plain)[0]
    relation = {"≥": ">=", "≤": "<=", "=>": ">=", "=<": "<="}.get(relation, relation)
    if _NUMBER.fullmatch(name.removesuffix("%").strip()):  # 0.9 <= precision
        name, level, relation = level, name, _FLIPPED.get(relation, relation)
    constrained = _metric(masked.restore(name))
    required = ">=" if constrained.direction == "max" else "<="
    instead = f"write '{constrained} {required} {level}'"
    if relation not in _FLIPPED:
        raise GoalError(f"the constraint {part!r} uses {relation!r}; {instead}.")
    if relation != required:
        better = "higher" if required == ">=" else "lower"
        raise GoalError(
            f"the constraint {part!r}: {constrained} is better when {better}; {instead}."
        )
    number = _parse_level(level, part)
    tally = constrained.tallies[0]
    if constrained.base == ALARMS:
        if _WITH_PER.search(scope) and (tally.segment or _WITH_EACH.search(scope)):
            raise GoalError(
                f"the constraint {part!r}: a budget per period counts the alarms of all rows and "
                "cannot be required for each segment, or for one; use one budget for all rows, or "
                "a share of the segment's rows, e.g. 'alarms <= 1% for each region'."
            )
        if level.endswith("%") and (scope.startswith("for") or tally != PLAIN):
            constrained = ALARM_RATE.within(tally)  # a share of these rows
    if constrained.base == ALARMS or constrained.bounds == (0.0, 1.0):
        _check_percentage(number, level, part)
    if scope.startswith("for"):
        if found is None or found[1] is None or scope[-1] != found[1]:
            raise GoalError(
                f"the constraint {part!r}: write the name of one column after 'for each', e.g. "
                "'precision >= 0.9 for each region'; a name with spaces goes in quotes."
            )
        return Constraint(constrained, number, each=unquoted(masked.restore(found[1])))
    if constrained == ALARMS:
        return _budget(number, level.endswith("%"), scope, part)
    if not scope:
        return Constraint(constrained, number)
    rows = _rows_of(scope)
    if rows is None or not is_money(constrained):
        raise GoalError(
            f"the constraint {part!r}: {scope!r} is for alarms ('alarms <= 200 per day') and, per "
            "number of rows, for money ('cost(fp=5, fn=100) <= 2000 per 1000 rows')."
        )
    return Constraint(constrained, number / rows)


def _metric(name: str) -> Metric:
    """Return the metric with this name; an error says if it is one of a review band."""
    from setpoint.goals.band_metrics import is_band_name

    try:
        return metric(name)
    except GoalError:
        if not is_band_name(name):
            raise
        base, side, _ = name.partition("(")
        plain = f", or write '{base.strip()}' for one threshold" if side else ""
        raise GoalError(
            f"{name!r} is a metric of a review band, which has two thresholds; use choose_band or "
            "SetpointBand, with an objective of a band, e.g. 'min review_rate s.t. "
            f"precision(alarm) >= 0.9'{plain}."
        ) from None


def _check_percentage(number: float, level: str, part: str) -> None:
    """Raise GoalError for a percentage above 100."""
    if level.endswith("%") and number > 1:
        raise GoalError(f"{part!r}: the percentage must be at most 100, and it is {level}.")


def _budget(number: float, share: bool, scope: str, part: str) -> Constraint:
    """Return the limit on alarms: a share of the rows, a number of all, or one per period."""
    rows = _rows_of(scope)
    if share and not scope.strip():
        return Constraint(ALARM_RATE, number)
    if share:
        raise GoalError(f"{part!r}: a percentage of the rows needs no {scope.strip()!r}.")
    if rows is not None:
        if number > rows:
            raise GoalError(f"{part!r} is more than one alarm per row; give a smaller number.")
        return Constraint(ALARM_RATE, number / rows)
    if not scope.strip():
        return Constraint(ALARMS, number)
    match = _PER.fullmatch(scope.strip())
    if match is None or match["period"].removesuffix("s") not in PERIODS:
        raise GoalError(
            f"{part!r}: {scope.strip()!r} is not understood; write 'per "
            f"{', '.join(PERIODS[:-1])} or {PERIODS[-1]}', optionally followed by 'on "
            "average' or 'on 95% of days'."
        )
    period = match["period"].removesuffix("s")
    if match["average"]:
        return Constraint(ALARMS, number, per=Per(period, None))
    if match["share"] is None:
        return Constraint(ALARMS, number, per=Per(period))
    if match["of"].removesuffix("s") != period:
        other = match["of"].removesuffix("s")
        instead = f", or 'per {other}'" if other in PERIODS else ""
        raise GoalError(
            f"{part!r}: a limit per {period} cannot hold on a percentage of {match['of']}; write "
            f"'on {match['share']} of {period}s'{instead}."
        )
    share_of = _parse_level(match["share"], part)
    return Constraint(ALARMS, number, per=Per(period, share_of))


def _rows_of(scope: str) -> float | None:
    """Return the number in "per 1000 rows"; None if it is another scope."""
    match = _PER.fullmatch(scope.strip())
    if match is None or match["rows"] is None:
        return None
    digits = match["rows"].strip() or "1"
    rows = float(digits) if _NUMBER.fullmatch(digits) else 0.0
    if not 0 < rows < math.inf:
        raise GoalError(f"{scope.strip()!r}: write a number of rows, e.g. 'per 1000 rows'.")
    return rows


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
