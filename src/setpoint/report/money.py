"""Money in the report: amounts as text, and what decisions cost.

The costs of decisions come either from the goal, e.g. ``min cost(fp=5, fn=amount)``, or, for other
goals, from :class:`~setpoint.report.content.Costs`. Items are rounded so that the parts of a table
add up to its totals.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from setpoint.goals.goal import Constraint, Goal, format_metric
from setpoint.goals.metrics import Metric, format_number
from setpoint.goals.money import OUTCOMES, is_money, prices_of
from setpoint.report.content import Costs, Report
from setpoint.thresholds.operating_point import OperatingPoint

CASES = 10_000  # counts, and the costs of alarms and misses, are per so many cases
PER = 1_000  # the cost or profit that a goal names is per so many cases


def money(amount: float, currency: str, digits: int | None = None) -> str:
    """Write an amount of money; without ``digits``, amounts below 100 have cents."""
    if digits is None:
        digits = 0 if abs(amount) >= 100 or amount == 0 else 2
    text = with_currency(f"{abs(amount):,.{digits}f}", currency)
    return f"−{text}" if amount <= -0.5 / 10**digits else text


def with_currency(text: str, currency: str) -> str:
    """Write a currency before a number; a currency of several letters is set apart."""
    space = "" if len(currency) <= 1 else "\N{NO-BREAK SPACE}"
    return f"−{currency}{space}{text[1:]}" if text.startswith("-") else f"{currency}{space}{text}"


def stated_amount(amount: float, currency: str) -> str:
    """Write an amount that a goal states, with all of its digits."""
    digits = next((d for d in (0, 2) if round(amount, d) == amount), None)
    text = format_number(amount) if digits is None else f"{amount:,.{digits}f}"
    return with_currency(text, currency)


def per_case(
    which: Metric, value: float, currency: str, constraint: Constraint | None = None
) -> str:
    """Write a mean cost or profit of a case."""
    return "–" if math.isnan(value) else with_currency(
        format_metric(value, constraint, which), currency
    )  # fmt: skip


def rounded(value: float, digits: int) -> float:
    """Round halves up, as the script does."""
    units = float(10**digits)
    return math.floor(value * units + 0.5) / units


class Bill:
    """The cost of decisions per ``CASES`` cases, with prices that the goal does not name.

    Attributes
    ----------
    nothing : float
        The cost if no positive is caught.
    digits : int
        Decimals of all amounts.
    """

    def __init__(self, costs: Costs, report: Report) -> None:
        self.costs = costs
        self._scale = CASES / len(report.rows)
        nothing = self._scale * costs.miss * float(report.point.counts[2])
        self.digits = 0 if nothing >= 100 else 2
        self.nothing = rounded(nothing, self.digits)
        self._baselines = [self._parts(point)["total"] for _, point in report.baselines]

    def of(self, point: OperatingPoint) -> dict[str, float]:
        """Return the items, their total, and the savings against no model and each baseline."""
        found = self._parts(point)
        found["saved"] = self.nothing - found["total"]
        for i, total in enumerate(self._baselines):
            found[f"gained{i}"] = total - found["total"]
        return found

    def _parts(self, point: OperatingPoint) -> dict[str, float]:
        costs, scale = self.costs, self._scale
        items = {
            "alarms": scale * costs.alarm * (point.tp + point.fp),
            "misses": scale * costs.miss * point.fn,
            "catches": scale * costs.catch * point.tp,
        }
        found = {name: rounded(amount, self.digits) for name, amount in items.items()}
        return {**found, "total": sum(found.values())}


def money_metrics(goal: Goal) -> list[Metric]:
    """Return the costs and profits of a goal."""
    return list(dict.fromkeys(m for m in goal.metrics if is_money(m)))


class OutcomeBill:
    """What decisions cost or bring in per ``PER`` cases, by outcome, with the prices of a goal.

    Attributes
    ----------
    which : Metric
        The cost or profit.
    digits : int
        Decimals of all amounts.
    columns : dict of (str, dict)
        By the name of a way to decide: the amount of each outcome, and the total.
    """

    def __init__(self, which: Metric, report: Report) -> None:
        self.which = which
        goal, at = report.point.goal, report.point.goal_counts
        tp, fp, P, N = at
        counts: dict[str, Any] = {
            "this classifier": at,
            "no alarms": (0 * tp, 0 * fp, P, N),
            "all alarms": (P, N, P, N),
        }
        counts |= {other.name: point.goal_counts for other, point in report.baselines}
        items = {name: self._items(goal, given) for name, given in counts.items()}
        largest = max(abs(sum(found.values())) for found in items.values())
        self.digits = 0 if largest >= 100 else 2
        self.columns = {name: self._summed(found) for name, found in items.items()}

    @property
    def outcomes(self) -> list[str]:
        """The outcomes that have a price."""
        return [outcome for outcome, price in prices_of(self.which).items() if price.factor]

    @property
    def total(self) -> float:
        """The total of the classifier."""
        return self.columns["this classifier"]["total"]

    @property
    def is_cost(self) -> bool:
        """Whether lower is better."""
        return self.which.direction == "min"

    def write(self, amount: float, currency: str) -> str:
        """Write an amount with the decimals of the table."""
        return money(amount, currency, self.digits)

    def _items(self, goal: Goal, counts: tuple[Any, Any, Any, Any]) -> dict[str, float]:
        """Return the amount of each outcome per ``PER`` cases."""
        own = [np.atleast_1d(c) for c in goal.counts_of(self.which, *counts)]
        tp, fp, P, N = own
        of = dict(zip(OUTCOMES, (tp, fp, P - tp, N - fp), strict=True))
        cases = float(P[0] + N[0])  # the first tally counts rows
        amounts = [tally.amount for tally in self.which.tallies]
        return {
            outcome: PER * price.factor * float(of[outcome][amounts.index(price.amount)]) / cases
            for outcome, price in prices_of(self.which).items()
        }

    def _summed(self, items: dict[str, float]) -> dict[str, float]:
        """Return the items and their total, rounded; the largest item makes them add up."""
        found = {name: rounded(amount, self.digits) for name, amount in items.items()}
        total = rounded(sum(items.values()), self.digits)
        largest = max(found, key=lambda name: abs(found[name]))
        found[largest] += total - sum(found.values())
        return {**found, "total": total}
