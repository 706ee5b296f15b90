"""Counts and money of so many cases, rounded so that parts add up; the page's script does the same.

Numbers have as many digits after the point everywhere on a page: the rarer the positives are, the
more digits there are of counts.
"""

from __future__ import annotations

import math

from setpoint.report.content import Costs, Report
from setpoint.thresholds.operating_point import OperatingPoint

CASES = 10_000


def per_cases(point: OperatingPoint) -> dict[str, str]:
    """Write the counts of an operating point as those of so many cases.

    Real and false alarms add up to alarms, and caught and missed positives to positives.
    """
    tp, fp, P, N = point.counts
    digits = digits_of(point)

    def part(count: float) -> float:
        return _rounded(CASES * count / (P + N), digits)

    alarms, real, positives = part(tp + fp), part(tp), part(P)
    parts = {
        "alarms": (alarms, tp + fp), "tp": (real, tp), "fp": (alarms - real, fp),
        "fn": (positives - real, P - tp), "positives": (positives, P),
    }  # fmt: skip
    least = 1 / 10**digits
    return {
        name: f"<{least:.{digits}f}" if count > 0 and value < least / 2 else f"{value:,.{digits}f}"
        for name, (value, count) in parts.items()
    }


def digits_of(point: OperatingPoint) -> int:
    """Return how many digits counts have after the point."""
    _, _, P, N = point.counts
    positives = CASES * P / (P + N)
    return 0 if positives >= 100 else 1 if positives >= 1 else 2


class Bill:
    """What decisions on so many cases cost.

    Attributes
    ----------
    nothing : float
        What it costs to catch nothing.
    digits : int
        Of all amounts, after the point.
    """

    def __init__(self, costs: Costs, report: Report) -> None:
        self.costs = costs
        self._scale = CASES / len(report.rows)
        nothing = self._scale * costs.miss * float(report.point.counts[2])
        self.digits = 0 if nothing >= 100 else 2
        self.nothing = _rounded(nothing, self.digits)
        self._rivals = [self._parts(point)["total"] for _, point in report.rivals]

    def of(self, point: OperatingPoint) -> dict[str, float]:
        """Return its items, their total, and what is saved against nothing and each rival."""
        found = self._parts(point)
        found["saved"] = self.nothing - found["total"]
        for i, total in enumerate(self._rivals):
            found[f"gained{i}"] = total - found["total"]
        return found

    def _parts(self, point: OperatingPoint) -> dict[str, float]:
        costs, scale = self.costs, self._scale
        items = {
            "alarms": scale * costs.alarm * (point.tp + point.fp),
            "misses": scale * costs.miss * point.fn,
            "catches": scale * costs.catch * point.tp,
        }
        found = {name: _rounded(amount, self.digits) for name, amount in items.items()}
        return {**found, "total": sum(found.values())}


def money(amount: float, currency: str, digits: int | None = None) -> str:
    """Write an amount of money; without ``digits``, with cents where they matter."""
    if digits is None:
        digits = 0 if abs(amount) >= 100 or amount == 0 else 2
    space = "" if len(currency) == 1 else "\N{NO-BREAK SPACE}"
    text = f"{currency}{space}{abs(amount):,.{digits}f}"
    return f"−{text}" if amount <= -0.5 / 10**digits else text


def _rounded(value: float, digits: int) -> float:
    """Round halves upwards, as the script does."""
    units = float(10**digits)
    return math.floor(value * units + 0.5) / units
