"""Metrics of a review band, by name.

A band has two thresholds. A metric of alarms depends on the upper one, a metric of cleared rows on
the lower one; the rate of reviews and costs depend on both.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from setpoint.errors import GoalError
from setpoint.goals.linear_fraction import where
from setpoint.goals.metrics import metric_names
from setpoint.goals.money import _PRICE, Price
from setpoint.goals.tallies import split_outside_quotes, unquoted

Side = Literal["alarm", "clear", "review", "cost"]
TERMS = ("fp", "fn", "review")


class BandCounts(NamedTuple):
    """Weighted counts of a band: floats, or arrays over thresholds.

    Those of alarms depend on the upper threshold and those of cleared rows on the lower one.
    ``cost`` is the total cost of all rows, where the goal has one.
    """

    alarm_positives: Any
    alarm_negatives: Any
    clear_positives: Any
    clear_negatives: Any
    review: Any
    P: float
    N: float
    cost: Any = math.nan


Quotient = Callable[[BandCounts], tuple[Any, Any]]


class _Kind(NamedTuple):
    """What a name stands for: a fraction ``top / bottom``, and its value where that is 0/0."""

    side: Side
    direction: Literal["max", "min"]
    quotient: Quotient
    empty: float
    at_threshold: str | None  # the plain metric at the side's threshold


_NAN = math.nan
_KINDS = {
    "precision(alarm)": _Kind(
        "alarm", "max",
        lambda c: (c.alarm_positives, c.alarm_positives + c.alarm_negatives), 1.0, "precision",
    ),
    "recall(alarm)": _Kind("alarm", "max", lambda c: (c.alarm_positives, c.P), _NAN, "recall"),
    "fpr(alarm)": _Kind("alarm", "min", lambda c: (c.alarm_negatives, c.N), _NAN, "fpr"),
    "alarm_rate": _Kind(
        "alarm", "min",
        lambda c: (c.alarm_positives + c.alarm_negatives, c.P + c.N), _NAN, "alarm_rate",
    ),
    "npv(clear)": _Kind(
        "clear", "max",
        lambda c: (c.clear_negatives, c.clear_positives + c.clear_negatives), 1.0, "npv",
    ),
    "fnr(clear)": _Kind("clear", "min", lambda c: (c.clear_positives, c.P), _NAN, "fnr"),
    # What is not cleared scores above the lower threshold: 1 - clear_rate is an alarm rate there.
    "clear_rate": _Kind(
        "clear", "max",
        lambda c: (c.clear_positives + c.clear_negatives, c.P + c.N), _NAN, "alarm_rate",
    ),
    "review_rate": _Kind("review", "min", lambda c: (c.review, c.P + c.N), _NAN, None),
}  # fmt: skip
_COST = _Kind("cost", "min", lambda c: (c.cost, c.P + c.N), _NAN, None)
_ALIASES = {
    "ppv(alarm)": "precision(alarm)",
    "tpr(alarm)": "recall(alarm)",
    "sensitivity(alarm)": "recall(alarm)",
}


@dataclass(frozen=True)
class BandMetric:
    """A metric of a review band.

    Attributes
    ----------
    name : str
        Its name in the goal language, e.g. ``"precision(alarm)"``; ``"cost"`` for any cost.
    costs : tuple or None
        Of a cost: the prices of a false alarm, of a cleared positive and of a review.
    """

    name: str
    costs: tuple[Price, Price, Price] | None = None

    def __post_init__(self) -> None:
        if self.name not in _KINDS and not (self.name == "cost" and self.costs is not None):
            raise GoalError(f"unknown metric {self.name!r} of a review band; {_known()}.")

    def __str__(self) -> str:
        if self.costs is None:
            return self.name
        terms = [
            f"{term}={price}"
            for term, price in zip(TERMS, self.costs, strict=True)
            if price.factor != 0
        ]
        return f"cost({', '.join(terms)})"

    @property
    def _kind(self) -> _Kind:
        return _COST if self.costs is not None else _KINDS[self.name]

    @property
    def side(self) -> Side:
        """The rows it is about; a metric of alarms or of cleared rows has one threshold."""
        return self._kind.side

    @property
    def direction(self) -> Literal["max", "min"]:
        """Whether higher values are better or lower ones."""
        return self._kind.direction

    @property
    def sign(self) -> int:
        """+1 where higher is better, -1 where lower is better."""
        return 1 if self.direction == "max" else -1

    @property
    def relation(self) -> str:
        """The relation of a level that must be reached: ``>=`` or ``<=``."""
        return ">=" if self.direction == "max" else "<="

    @property
    def at_threshold(self) -> str | None:
        """The plain metric that it is at its side's threshold; clear_rate is 1 - alarm_rate."""
        return self._kind.at_threshold

    @property
    def amounts(self) -> tuple[str, ...]:
        """The names of the arrays of amounts that it needs."""
        return tuple(dict.fromkeys(price.amount for price in self.costs or () if price.amount))

    def value(self, counts: BandCounts) -> Any:
        """Return the metric at the given counts."""
        top, bottom = self._kind.quotient(counts)
        return where(bottom > 0, top / where(bottom > 0, bottom, 1.0), self._kind.empty)

    def is_by_convention(self, counts: BandCounts) -> bool:
        """Whether there are no rows that it is a fraction of, but its value is 1 all the same."""
        return self._kind.empty == 1.0 and not self._kind.quotient(counts)[1] > 0


# --- names ----------------------------------------------------------------------------------------

COST_CALL = re.compile(r"\bcost\s*\(((?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\)", re.IGNORECASE)
_PROFIT = re.compile(r"\bprofit\s*(\([^()]*\))?", re.IGNORECASE)
_COST_EXAMPLE = "write e.g. 'cost(fp=5, fn=100, review=1)'"
# What was probably meant by a metric of no side or of the wrong one.
_INSTEAD = {
    "precision": "'precision(alarm)'", "ppv": "'precision(alarm)'",
    "recall": "'recall(alarm)', or 'fnr(clear)' for positives that are cleared",
    "fpr": "'fpr(alarm)'", "npv": "'npv(clear)'",
    "fnr": "'fnr(clear)', the positives that are cleared, or 'recall(alarm)'",
    "specificity": "'fpr(alarm)' with <=", "alarm_rate": "'alarm_rate'",
    "clear_rate": "'clear_rate'", "review_rate": "'review_rate'",
    "precision(clear)": "'npv(clear)'", "ppv(clear)": "'npv(clear)'",
    "recall(clear)": "'fnr(clear)' with <=", "npv(alarm)": "'npv(clear)'",
    "fpr(clear)": "'fpr(alarm)' or 'clear_rate'", "fnr(alarm)": "'recall(alarm)' or 'fnr(clear)'",
    "specificity(alarm)": "'fpr(alarm)' with <=", "specificity(clear)": "'clear_rate'",
}  # fmt: skip
_INSTEAD |= {
    f"{other}{side}": _INSTEAD[f"recall{side}"]
    for other in ("tpr", "sensitivity")
    for side in ("", "(clear)")
}


def _known() -> str:
    return f"known: {', '.join(_KINDS)}, cost(fp=..., fn=..., review=...)"


def band_metric(name: str) -> BandMetric:
    """Return the metric of a review band with this name, e.g. ``"npv(clear)"``."""
    if call := COST_CALL.fullmatch(name.strip()):
        return parse_cost(call[1])
    key = "".join(name.split()).lower()
    key = _ALIASES.get(key, key)
    if key in _KINDS:
        return BandMetric(key)
    base, _, side = key.removesuffix(")").partition("(")
    if base == "cost":
        raise GoalError(f"{name!r} does not say what each decision costs; {_COST_EXAMPLE}.")
    if instead := _INSTEAD.get(key) or (_INSTEAD.get(base) if base.endswith("_rate") else None):
        wrong = "is not a metric of a review band" if side else "needs a side: a band has two"
        raise GoalError(f"{name!r} {wrong}; write {instead}.")
    if side == "review":
        raise GoalError(f"{name!r}: reviewed rows are counted by 'review_rate' alone.")
    if base in {known.partition("(")[0] for known in metric_names()}:
        raise GoalError(f"{name!r} is a metric of one threshold, not of a review band; {_known()}.")
    near = difflib.get_close_matches(key, [*_KINDS, *_ALIASES], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"{_known()}."
    raise GoalError(f"unknown metric {name!r} of a review band; {hint}")


def is_band_name(name: str) -> bool:
    """Return whether a name is that of a metric of a review band, or of the wrong side of one."""
    key = "".join(name.split()).lower()
    if key in _KINDS or key in _ALIASES:
        return key not in metric_names()  # alarm_rate is a metric of one threshold as well
    return key in _INSTEAD and key.endswith(")")


def check_not_profit(text: str) -> None:
    """Raise GoalError for a profit, of which only a cost is a metric of a review band."""
    if found := _PROFIT.search(text):
        raise GoalError(
            f"{found[0]!r} is not a metric of a review band; write what decisions cost, e.g. "
            "'min cost(fp=5, fn=100, review=1)'."
        )


def parse_cost(terms: str) -> BandMetric:
    """Return a cost from the text between its parentheses."""
    prices = dict.fromkeys(TERMS, Price(0.0))
    seen = set()
    for part in split_outside_quotes(terms, ","):
        name, *value = (piece.strip() for piece in split_outside_quotes(part, "="))
        name = name.lower()
        if len(value) != 1 or not value[0]:
            raise GoalError(f"{part.strip()!r} in 'cost({terms})' names no cost; {_COST_EXAMPLE}.")
        if name not in TERMS:
            raise GoalError(
                f"{name!r} in 'cost({terms})' is not one of fp (a false alarm), fn (a positive "
                f"that is cleared) and review; {_COST_EXAMPLE}."
            )
        if name in seen:
            raise GoalError(f"{name} occurs twice in 'cost({terms})'; keep one.")
        match = _PRICE.fullmatch(value[0])
        if match is None:
            raise GoalError(
                f"{value[0]!r} in 'cost({terms})' is not a price, which is a number, the name of "
                f"an amount, or number*name; {_COST_EXAMPLE}."
            )
        factor = float(match["number"] or match["times"] or (-1 if match["minus"] else 1))
        if not 0 <= factor < math.inf:
            raise GoalError(
                f"{name}={value[0]} in 'cost({terms})': costs are finite and not negative."
            )
        seen.add(name)
        prices[name] = Price(factor, unquoted(match["name"] or ""))
    fp, fn, review = prices.values()
    if fp.factor == 0 and fn.factor == 0:
        raise GoalError(
            f"'cost({terms})' counts neither false alarms (fp) nor misses (fn); {_COST_EXAMPLE}, "
            "or 'min review_rate'."
        )
    return BandMetric("cost", (fp, fn, review))
