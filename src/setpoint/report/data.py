"""The numbers that the page, its script and the figures show.

The script does no statistics: every number that it can show was computed here, by the functions
that chose and evaluated the threshold. Counts and costs per 10,000 cases are rounded so that parts
add up to their totals; ``page.js`` rounds in the same way. Values that are not fractions, such as
costs per case and alarms per day, reach the script as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.threshold_set import NO_THRESHOLDS, ThresholdSet
from setpoint.goals.goal import Goal
from setpoint.report.content import Costs, Report, Rows
from setpoint.report.fractions import intervals
from setpoint.report.lines import Line, lines_of
from setpoint.report.money import CASES, Bill, money_metrics, rounded
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.tallied import TalliedRows

BINS = 40
MAX_DISTINCT = 5_000  # with up to so many distinct scores, no step is left out
THINNED = 2_000  # with more, so many steps remain
STOPS = 400  # of the slider
_FAR = 1e300  # scores beyond are drawn here: the difference of larger ones may overflow

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


# --- counts at every threshold -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Steps:
    """Exact counts at every threshold, or at some, in ascending order of the threshold.

    Counts change only at a score. A *step* is an interval of thresholds between two neighbouring
    distinct scores, ``low <= threshold < high``, with its counts; scores from ``high`` on raise an
    alarm, because ``score > threshold`` does.

    Attributes
    ----------
    low, high : ndarray of float
        The interval of each step, without its upper end.
    at : ndarray of float
        A threshold inside it, with as few digits as possible.
    tp, fp : ndarray of int
        Counts there.
    P, N : int
        The number of positives and of negatives.
    whole : bool
        Whether no step was left out.
    """

    low: Floats
    high: Floats
    at: Floats
    tp: Counts
    fp: Counts
    P: int
    N: int
    whole: bool

    @classmethod
    def of(cls, y: NDArray[np.bool_], scores: NDArray[Any], keep: Iterable[float] = ()) -> Steps:
        """Return the steps of these rows.

        Of more than ``MAX_DISTINCT`` distinct scores, ``THINNED`` steps remain: the first, the
        last, those of the thresholds in ``keep``, and others spread evenly over recall and the
        logarithm of the number of alarms, where decisions are made.
        """
        distinct, inverse = np.unique(scores.astype(np.float64), return_inverse=True)
        positives = np.bincount(inverse[y], minlength=len(distinct))
        negatives = np.bincount(inverse[~y], minlength=len(distinct))
        P, N = int(positives.sum()), int(negatives.sum())
        low = np.concatenate([[-np.inf], distinct])
        high = np.concatenate([distinct, [np.inf]])
        tp = P - np.concatenate([[0], np.cumsum(positives)])
        fp = N - np.concatenate([[0], np.cumsum(negatives)])
        kept = np.arange(len(low))
        if low[0] == high[0]:  # a score of -inf: no threshold lies below it
            kept = kept[1:]
        whole = len(distinct) <= MAX_DISTINCT
        if not whole:
            always = {int(np.searchsorted(distinct, t, side="right")) for t in keep}
            always |= {int(kept[0]), int(kept[-1])}
            kept = _spread(tp, fp, kept, THINNED, always)
        low, high = low[kept], high[kept]
        at = np.array([_between(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)])
        return cls(low, high, at, tp[kept], fp[kept], P, N, whole)

    def __len__(self) -> int:
        return len(self.low)

    def find(self, threshold: float) -> int | None:
        """Return the index of a threshold's step, or None if that step was left out."""
        index = max(int(np.searchsorted(self.low, threshold, side="right")) - 1, 0)
        inside = threshold < self.high[index] or index == len(self) - 1
        return index if inside and self.low[index] <= threshold else None

    def stops(self, keep: Iterable[int] = ()) -> NDArray[np.intp]:
        """Return the steps at which the slider stops: all of few, an even spread of many."""
        everything = np.arange(len(self))
        if len(self) <= STOPS:
            return everything
        return _spread(self.tp, self.fp, everything, STOPS, {0, len(self) - 1, *keep})

    @property
    def recall(self) -> Floats:
        """Recall at each step."""
        return self.tp / self.P

    @property
    def precision(self) -> Floats:
        """Precision at each step; 1 where there are no alarms."""
        alarms = self.tp + self.fp
        return np.where(alarms > 0, self.tp / np.maximum(alarms, 1), 1.0)

    def curve(self) -> tuple[Floats, Floats]:
        """Return recall and precision of the steps with alarms."""
        some = self.tp + self.fp > 0
        return self.recall[some], self.precision[some]


def _spread(
    tp: Counts, fp: Counts, candidates: NDArray[np.intp], most: int, always: set[int]
) -> NDArray[np.intp]:
    """Return at most ``most`` candidates, spread evenly over recall and log of the alarms."""
    tp_, fp_ = tp[candidates], fp[candidates]
    alarms = np.log1p(tp_ + fp_)
    place = -(tp_ / max(tp_.max(), 1) + alarms / max(alarms.max(), 1e-300))  # ascending
    wanted = np.linspace(place[0], place[-1], most - len(always))
    nearest = np.searchsorted(place, wanted).clip(0, len(place) - 1)
    return np.union1d(candidates[nearest], np.array(sorted(always), dtype=np.intp))


def _between(low: float, high: float) -> float:
    """Return a threshold near the middle of an interval, with few digits."""
    if low == high:  # a score of +inf: only the threshold +inf lies above it
        return low
    if np.isinf(low):
        return 0.0 if np.isinf(high) else _beyond(high, -1)
    if np.isinf(high):
        return _beyond(low, 1)
    if low <= 0 < high:
        return 0.0
    middle = low / 2 + high / 2
    for digits in range(2, 18):
        short = float(f"{middle:.{digits}g}")
        if low <= short < high:
            return short
    return low


def _beyond(end: float, side: int) -> float:
    """Return a number with few digits above (1) or below (-1) the outermost score."""
    if end == 0:
        return 0.1 * side
    for digits in range(2, 18):
        margin = abs(end) * 10.0 ** (1 - digits)
        short = float(f"{end + side * margin:.{digits}g}")
        if np.isfinite(short) and side * (short - end) > 0:
            return short
    return end if side > 0 else math.nextafter(end, -math.inf)


# --- counts per 10,000 cases ---------------------------------------------------------------------


def per_cases(point: OperatingPoint) -> dict[str, str]:
    """Write an operating point's counts per ``CASES`` cases.

    Real and false alarms add up to alarms, caught and missed positives to positives.
    """
    tp, fp, P, N = point.counts
    digits = count_digits(point)

    def part(count: float) -> float:
        return rounded(CASES * count / (P + N), digits)

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


def count_digits(point: OperatingPoint) -> int:
    """Return how many decimals all counts have: the rarer the positives, the more."""
    _, _, P, N = point.counts
    positives = CASES * P / (P + N)
    return 0 if positives >= 100 else 1 if positives >= 1 else 2


# --- what the page and the figures draw ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Histogram:
    """Scores of both classes, in common bins.

    Attributes
    ----------
    edges : ndarray of float
        Of the bins. Scores beyond are counted in the outermost bins.
    positives, negatives : ndarray of float
        The fraction of each class in each bin.
    beyond : int
        The number of scores beyond.
    """

    edges: Floats
    positives: Floats
    negatives: Floats
    beyond: int

    @classmethod
    def of(cls, rows: Rows, thresholds: list[float]) -> Histogram:
        """Return the histogram of rows, in a range that contains the thresholds."""
        y, scores = rows.y, rows.scores.astype(np.float64)
        low, high = _range(y, scores, thresholds)
        edges = np.linspace(low, high, BINS + 1)
        inside = scores.clip(low, high)
        fractions = [np.histogram(inside[c], edges)[0] / c.sum() for c in (y, ~y)]
        beyond = int(((scores < low) | (scores > high)).sum())
        return cls(edges, fractions[0], fractions[1], beyond)


def drawn_bounds(certificate: Certificate | None) -> list[Bound]:
    """Return the exact bounds that a precision-recall curve can show."""
    if certificate is None or math.isnan(certificate.operating_point.recall):
        return []
    return [
        bound
        for bound in certificate.bounds
        if bound.kind == "exact"
        and bound.bound is not None
        and bound.metric.name in ("precision", "recall")
    ]


class ReportData:
    """A report with everything that is computed from it once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        rows, other = report.rows, report.baseline
        keep = [report.threshold]
        for baseline, _ in report.baselines:
            if np.array_equal(baseline.scores, rows.scores):
                keep.append(baseline.threshold)
        self.steps = Steps.of(rows.y, rows.scores, keep)
        self.current_steps = None
        if (current := report.current) is not None:
            scores = np.asarray(current.scores)
            self.current_steps = Steps.of(rows.y, scores, [current.threshold])
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
    def band(self) -> tuple[Floats, Floats, Floats] | None:
        """Recall, and the ends of the exact 95 % interval of precision, at each step with alarms.

        None if the threshold was chosen on the rows, whose results are then better than those of
        new rows.
        """
        if self.report.rows.chose:
            return None
        some = self.steps.tp + self.steps.fp > 0
        tp, alarms = self.steps.tp[some], (self.steps.tp + self.steps.fp)[some]
        low, high = intervals(tp, alarms)
        return self.steps.recall[some], low, high

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Precision, recall, F1 and what the goal is about, as rows of a table."""
        return tuple(lines_of(self.report))

    @property
    def costs(self) -> Costs | None:
        """The costs to show: none if the goal has prices of its own, which may be others."""
        return None if money_metrics(self.report.goal) else self.report.costs

    @cached_property
    def histogram(self) -> Histogram:
        """The scores of both classes."""
        return Histogram.of(self.report.rows, [self.report.threshold])

    @cached_property
    def thresholds(self) -> list[float]:
        """The threshold of every step."""
        at: list[float] = self.steps.at.tolist()
        at[self.chosen] = self.report.threshold
        return at

    @property
    def certified(self) -> ThresholdSet:
        """The thresholds that are certified, unless the rows contradict the certificate."""
        certificate = self.report.certificate
        if certificate is None or self.report.broken:
            return NO_THRESHOLDS
        return certificate.certified_thresholds

    def _blocks(self, goal: Goal) -> Iterator[tuple[NDArray[np.intp], Any]]:
        """Yield steps, and TP, FP, P and N there in each of the goal's tallies."""
        steps, rows = self.steps, self.report.rows
        if goal.is_plain:
            tp, fp = steps.tp.astype(float), steps.fp.astype(float)
            yield np.arange(len(steps)), (tp, fp, float(steps.P), float(steps.N))
            return
        tallied = TalliedRows.of(rows.y, None, self.report.columns, goal)
        P, N = (total[:, None] for total in tallied.totals())
        without = steps.tp + steps.fp == 0
        nothing = np.zeros((len(goal.tallies), int(without.sum())))
        yield np.flatnonzero(without), (nothing, nothing, P, N)
        # The alarms of a step are the scores from its upper end on.
        ends = np.where(without, np.nan, steps.high)
        for lowest, tp, fp in tallied.cuts(rows.scores.astype(np.float64)):
            cut = np.searchsorted(-lowest, -ends).clip(0, len(lowest) - 1)
            here = np.flatnonzero(lowest[cut] == ends)
            if len(here):
                yield here, (tp[:, cut[here]], fp[:, cut[here]], P, N)

    def for_script(self) -> dict[str, Any]:
        """Return the script's data as plain values, ready for JSON."""
        steps, report, at = self.steps, self.report, self.thresholds
        goal, costs = report.point.goal, self.costs
        values: dict[str, list[Any]] = {line.key: [None] * len(steps) for line in self.lines}
        met = np.zeros(len(steps), dtype=int)
        with np.errstate(all="ignore"):
            for places, counts in self._blocks(goal):
                met[places] = goal.violation(*counts) == 0
                for line in self.lines:
                    found = np.broadcast_to(line.value(goal, *counts), len(places)).tolist()
                    for place, value in zip(places.tolist(), found, strict=True):
                        values[line.key][place] = line.for_script(value)
        rates = [line for line in self.lines if line.is_rate]
        return {
            "low": [_number(x) for x in steps.low.tolist()],
            "high": None if steps.whole else [_number(x) for x in steps.high.tolist()],
            "at": [_number(x) for x in at],
            "tp": steps.tp.tolist(),
            "fp": steps.fp.tolist(),
            "metrics": {line.key: values[line.key] for line in rates},
            "texts": {line.key: values[line.key] for line in self.lines if not line.is_rate},
            "met": met.tolist(),
            "constraints": {
                line.key: [line.level.metric.sign, line.level.level] for line in rates if line.level
            },
            "certified": [[_number(low), _number(high)] for low, high in self.certified],
            "stops": steps.stops([self.chosen]).tolist(),
            "chosen": self.chosen,
            "P": steps.P,
            "N": steps.N,
            "plural": report.plural,
            "digits": count_digits(report.point),
            "costs": None if costs is None else [costs.alarm, costs.miss, costs.catch],
            "currency": None if costs is None else costs.currency,
            "cents": None if costs is None else Bill(costs, report).digits,
            "baselines": [[int(point.tp), int(point.fp)] for _, point in report.baselines],
        }


def _number(value: float) -> float | str:
    """Return a float for JSON, which has no infinity: that becomes a text for JavaScript."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _range(y: NDArray[np.bool_], scores: Floats, thresholds: list[float]) -> tuple[float, float]:
    """Return a range that contains the thresholds and nearly all scores of both classes."""
    ends = [t for t in thresholds if math.isfinite(t)]
    for of in (y, ~y):
        finite = scores[of & np.isfinite(scores)]
        if len(finite):
            ends += np.quantile(finite, [0.005, 0.995]).tolist()
    low, high = max(min(ends, default=0.0), -_FAR), min(max(ends, default=1.0), _FAR)
    if not high - low > 1e-12 * max(abs(low), abs(high)):  # all scores are equal, or nearly
        margin = 0.5 * max(abs(low), 1e-9)
        low, high = low - margin, high + margin
    return low, high
