"""Money: the mean cost or profit of a row, with prices that may differ from row to row.

The decision on a row has one of four outcomes, each with a price: a number, or an amount of the
row's own, e.g. ``cost(fp=5, fn=amount)``. With c the price of an outcome in a tally (all rows alike
for numbers, or rows by an amount), the total is

    sum over tallies of  c_tp TP + c_fp FP + c_fn (P - TP) + c_tn (N - FP),

which is linear in the counts; divided by the number of rows it is the mean per row.
"""

from __future__ import annotations

import math
import re
from functools import cache, partial
from typing import NamedTuple

from setpoint.errors import GoalError
from setpoint.goals.linear_fraction import Linear
from setpoint.goals.metrics import Direction, Metric, format_number, from_fraction, register_family
from setpoint.goals.tallies import PLAIN, Tally, quoted_name, split_outside_quotes, unquoted

OUTCOMES = ("tp", "fp", "fn", "tn")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"[A-Za-z_]\w*|\"(?:[^\"]|\"\")+\"|'(?:[^']|'')+'"
_PRICE = re.compile(
    rf"(?P<number>{_NUMBER})|(?:(?P<times>{_NUMBER})\s*\*\s*|(?P<minus>-)\s*)?(?P<name>{_NAME})"
)


class Price(NamedTuple):
    """The price of an outcome: a number, or a number times an amount of the row."""

    factor: float
    amount: str = ""

    def __str__(self) -> str:
        number = format_number(self.factor)
        if not self.amount:
            return number
        name = quoted_name(self.amount)
        return name if self.factor == 1 else f"{number}*{name}"


@cache
def money(name: str, direction: Direction, *prices: Price) -> Metric:
    """Return the mean per row of the prices of true and false positives and negatives."""
    amounts = sorted({price.amount for price in prices} - {""})
    tallies = (PLAIN, *(Tally(amount=amount) for amount in amounts))

    def factors(of: Price) -> tuple[float, ...]:
        return tuple(of.factor if of.amount == tally.amount else 0.0 for tally in tallies)

    tp, fp, fn, tn = map(factors, prices)
    in_tp = tuple(a - b for a, b in zip(tp, fn, strict=True))
    in_fp = tuple(a - b for a, b in zip(fp, tn, strict=True))
    one = len(tallies) == 1

    def numerator(P: float, N: float) -> Linear:
        if one:
            return fn[0] * P + tn[0] * N, in_tp[0], in_fp[0]
        base = sum(a * p + b * n for a, b, p, n in zip(fn, tn, P, N, strict=True))  # type: ignore[call-overload]
        return base, in_tp, in_fp

    def denominator(P: float, N: float) -> Linear:
        if one:
            return P + N, 0.0, 0.0
        nothing = (0.0,) * len(tallies)
        return P[0] + N[0], nothing, nothing  # type: ignore[index]

    sign = 1 if direction == "max" else -1
    shown = ", ".join(
        f"{outcome}={price}"
        for outcome, price in zip(OUTCOMES, prices, strict=True)
        if price.factor != 0
    )
    return from_fraction(
        f"{name}({shown})",
        numerator,
        denominator,
        direction=direction,
        monotone=all(sign * a >= 0 for a in in_tp) and all(sign * b <= 0 for b in in_fp),
        bounds=(-math.inf, math.inf),
        tallies=tallies,
    )


def is_money(which: Metric) -> bool:
    """Whether a metric is a mean cost or profit."""
    return which.name.startswith(("cost(", "profit("))


def prices_of(which: Metric) -> dict[str, Price]:
    """Return the price of each outcome of a mean cost or profit, those of 0 included."""
    inside = which.base.name.split("(", 1)[1].rsplit(")", 1)[0]
    return _parse_prices(which.name, inside)


def best_for_every_row(which: Metric) -> str | None:
    """Return "alarm" or "no alarm" if it is the better decision whatever the label and amounts.

    None is returned if it depends on the row, as it does where alarms save money on positives and
    cost money on negatives.
    """
    prices = prices_of(which)
    loss: dict[tuple[str, str], float] = {}  # by an alarm: on positives and negatives, by amount
    for outcome, row, sign in (("tp", "p", 1), ("fn", "p", -1), ("fp", "n", 1), ("tn", "n", -1)):
        factor, amount = prices[outcome]
        loss[row, amount] = loss.get((row, amount), 0.0) - which.sign * sign * factor
    if all(value >= 0 for value in loss.values()):
        return "no alarm"
    return "alarm" if all(value <= 0 for value in loss.values()) else None


def check_prices(which: Metric) -> None:
    """Raise GoalError for a sum of money that, alone, has one best decision for all rows."""
    best = best_for_every_row(which)
    if best is None:
        return
    is_cost = which.direction == "min"
    if best == "alarm":
        decision, outcome, what = "an alarm", "fp", "price of a false alarm"
        example, constraint = "fp=5" if is_cost else "fp=-5", "precision >= 0.5"
    else:
        decision, constraint = "raising no alarm", "recall >= 0.8"
        outcome, what = ("fn", "price of a miss") if is_cost else ("tp", "profit of a true alarm")
        example = f"{outcome}=100"
    verb = "Change" if prices_of(which)[outcome].factor else "Add"
    raise GoalError(
        f"'{which.direction} {which}': {decision} is best for every row, whatever its label. "
        f"{verb} the {what}, e.g. {example}, or add a constraint, e.g. '{constraint}'."
    )


def _parse(name: str, direction: Direction, argument: str) -> Metric:
    found = _parse_prices(f"{name}({argument})", argument)
    if not any(price.factor for price in found.values()):
        raise GoalError(f"'{name}({argument})': all prices are 0.")
    return money(name, direction, *found.values())


def _parse_prices(text: str, argument: str) -> dict[str, Price]:
    example = "write e.g. cost(fp=5, fn=100) or cost(fp=5, fn=amount)"
    prices = dict.fromkeys(OUTCOMES, Price(0.0))
    seen = set()
    for part in split_outside_quotes(argument, ","):
        outcome, *value = (p.strip() for p in split_outside_quotes(part, "="))
        outcome = outcome.lower()
        if outcome not in OUTCOMES:
            raise GoalError(
                f"{text!r}: {part.strip()!r} does not price one of {', '.join(OUTCOMES)}; "
                f"{example}."
            )
        if outcome in seen:
            raise GoalError(f"{text!r} has two prices of {outcome}; keep one.")
        match = _PRICE.fullmatch(value[0]) if len(value) == 1 else None
        if match is None:
            raise GoalError(
                f"{text!r}: {part.strip()!r} is not a price, which is a number, the name of an "
                f"amount, or number*name; {example}."
            )
        seen.add(outcome)
        factor = float(match["number"] or match["times"] or (-1 if match["minus"] else 1))
        if not math.isfinite(factor):
            raise GoalError(f"{text!r}: the price {value[0]} is too large.")
        prices[outcome] = Price(factor, unquoted(match["name"] or "") if factor else "")
    return prices


register_family("cost", partial(_parse, "cost", "min"), "cost(fp=5, fn=100)")
register_family("profit", partial(_parse, "profit", "max"), "profit(tp=80, fp=-5)")
