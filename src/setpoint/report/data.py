"""What the page's script looks up, and what both kinds of figures draw.

The script does no statistics: every number that it can show was computed here, by the same
functions that chose and judged the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.goals.metrics import Metric, metric
from setpoint.report.amounts import Bill, digits_of
from setpoint.report.content import Report
from setpoint.report.steps import Steps

BINS = 40
_FAR = 1e300  # scores beyond are drawn there: the distance of larger ones is no number
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Scores of both classes, in common bins.

    Attributes
    ----------
    edges : ndarray of float
        Of the bins. Scores beyond are counted in the outermost ones.
    positives, negatives : ndarray of float
        The share of each class in each bin.
    beyond : int
        How many scores lie outside.
    """

    edges: Floats
    positives: Floats
    negatives: Floats
    beyond: int


class Contents:
    """A report with what is computed from it once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        rows, other = report.rows, report.baseline
        keep = [report.threshold]
        for rival, _ in report.rivals:
            if np.array_equal(rival.scores, rows.scores):
                keep.append(rival.threshold)
        self.steps = Steps.of(rows.y, rows.scores, keep)
        self.baseline_steps = None
        if other is not None:
            self.baseline_steps = Steps.of(rows.y, np.asarray(other.scores), [other.threshold])

    @cached_property
    def chosen(self) -> int:
        """The step of the chosen threshold."""
        found = self.steps.find(self.report.threshold)
        assert found is not None  # thinning keeps it
        return found

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that are shown: the usual three, and the goal's."""
        own = {m.name: m for m in self.report.goal.metrics}
        usual = {name: own.get(name, metric(name)) for name in ("precision", "recall", "f1")}
        return tuple({**usual, **own}.values())

    @cached_property
    def histogram(self) -> Histogram:
        """The scores of both classes."""
        y, scores = self.report.rows.y, self.report.rows.scores.astype(np.float64)
        low, high = _range(y, scores, self.report.threshold)
        edges = np.linspace(low, high, BINS + 1)
        inside = scores.clip(low, high)
        shares = [np.histogram(inside[c], edges)[0] / c.sum() for c in (y, ~y)]
        beyond = int(((scores < low) | (scores > high)).sum())
        return Histogram(edges, shares[0], shares[1], beyond)

    def for_script(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        steps, report = self.steps, self.report
        at = steps.at.tolist()
        at[self.chosen] = report.threshold
        counts = steps.tp.astype(float), steps.fp.astype(float), float(steps.P), float(steps.N)
        with np.errstate(all="ignore"):
            values = {m.name: _column(m.value(*counts), len(steps)) for m in self.metrics}
            violation = np.broadcast_to(report.goal.violation(*counts), len(steps))
        costs = report.costs
        bill = None if costs is None else Bill(costs, report)
        return {
            "low": [_number(x) for x in steps.low.tolist()],
            "high": None if steps.whole else [_number(x) for x in steps.high.tolist()],
            "at": [_number(x) for x in at],
            "tp": steps.tp.tolist(),
            "fp": steps.fp.tolist(),
            "metrics": values,
            "met": (violation == 0).astype(int).tolist(),
            "constraints": {
                c.metric.name: [c.metric.sign, c.level] for c in report.goal.constraints
            },
            "stops": steps.stops([self.chosen]).tolist(),
            "chosen": self.chosen,
            "P": steps.P,
            "N": steps.N,
            "many": report.many,
            "digits": digits_of(report.point),
            "costs": None if costs is None else [costs.alarm, costs.miss, costs.catch],
            "currency": None if costs is None else costs.currency,
            "cents": None if bill is None else bill.digits,
            "rivals": [[int(point.tp), int(point.fp)] for _, point in report.rivals],
        }


def _column(values: Any, n: int) -> list[float | None]:
    """Return nine digits of each value, and None for what is no number."""
    column = np.broadcast_to(np.asarray(values, dtype=float), n).tolist()
    return [round(x, 9) if math.isfinite(x) else None for x in column]


def _number(value: float) -> float | str:
    """Return a float as JSON has it; the infinite ones as texts that JavaScript reads."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _range(y: NDArray[np.bool_], scores: Floats, threshold: float) -> tuple[float, float]:
    """Return where nearly all scores of both classes lie, and the threshold."""
    ends = [t for t in (threshold,) if math.isfinite(t)]
    for of in (y, ~y):
        finite = scores[of & np.isfinite(scores)]
        if len(finite):
            ends += np.quantile(finite, [0.005, 0.995]).tolist()
    low, high = max(min(ends, default=0.0), -_FAR), min(max(ends, default=1.0), _FAR)
    if not high - low > 1e-12 * max(abs(low), abs(high)):  # all scores are equal, or nearly
        margin = 0.5 * max(abs(low), 1e-9)
        low, high = low - margin, high + margin
    return low, high
