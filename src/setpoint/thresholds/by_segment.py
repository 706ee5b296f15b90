"""One threshold for each segment of the rows, e.g. each region, chosen exactly.

Each constraint "for each region" concerns one region's rows and threshold only. What is left is to
combine the regions' cuts that meet their own constraints:

- an objective with a fixed denominator, such as recall, accuracy or a cost, is a sum over the
  regions, and each region maximises its own term;
- a quotient such as precision or F1 is optimised over all regions at once by Dinkelbach's method
  (:func:`setpoint.thresholds.micro.best_quotient`);
- a constraint on all rows together couples the regions like the items of a knapsack
  (:func:`setpoint.thresholds.micro.best_total`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.errors import GoalError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import format_threshold
from setpoint.thresholds.checks import check_classes, check_rows
from setpoint.thresholds.choose import best_point_of, point_at
from setpoint.thresholds.micro import LabelCuts, best_quotient, best_total
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import Floats, threshold_below
from setpoint.thresholds.tallied import TalliedRows


@dataclass(frozen=True)
class SegmentThresholds:
    """A threshold for each segment, and what they reach together.

    Attributes
    ----------
    column : str
        The column of segments.
    thresholds : dict of float
        By segment.
    other : float
        The threshold of rows in any other segment: the best one for all rows together.
    operating_point : OperatingPoint
        Of all rows; its threshold is 0, that of scores measured from their segment's threshold.
    """

    column: str
    thresholds: dict[str, float]
    other: float
    operating_point: OperatingPoint

    def of_rows(self, segments: NDArray[Any]) -> NDArray[np.float64]:
        """Return the threshold of each row, given its segment as text."""
        found = np.full(len(segments), self.other)
        for segment, threshold in self.thresholds.items():
            found[segments == segment] = threshold
        return found

    def above(self, scores: Floats, segments: NDArray[Any]) -> NDArray[np.float64]:
        """Return scores measured from the threshold of their segment: > 0 is an alarm."""
        thresholds = self.of_rows(segments)
        with np.errstate(invalid="ignore"):  # an infinite score at an infinite threshold
            found = scores.astype(np.float64) - thresholds
        return np.where(np.isnan(found), -1.0, found)

    def __str__(self) -> str:
        lines = [self.operating_point.message]
        lines += [
            f"{self.column}={segment}: threshold {format_threshold(threshold)}"
            for segment, threshold in self.thresholds.items()
        ]
        return "\n".join([*lines, f"any other: threshold {format_threshold(self.other)}"])


def choose_thresholds_by_segment(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    *,
    segments: Mapping[str, ArrayLike],
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> SegmentThresholds:
    """Find the exact threshold of each segment for a goal.

    Parameters are those of :func:`setpoint.choose_threshold`. The goal names one column of
    segments, e.g. ``"max recall s.t. precision >= 0.9 for each region"``.

    Examples
    --------
    >>> from setpoint import choose_thresholds_by_segment
    >>> y = [1, 1, 0, 0, 1, 1, 0, 0]
    >>> scores = [0.9, 0.7, 0.5, 0.2, 0.5, 0.4, 0.45, 0.1]
    >>> region = ["north"] * 4 + ["south"] * 4
    >>> found = choose_thresholds_by_segment(
    ...     y, scores, "max recall s.t. precision >= 0.6 for each region",
    ...     segments={"region": region},
    ... )
    >>> found.thresholds["north"], found.thresholds["south"]
    (0.6, 0.25)
    >>> found.operating_point.recall
    1.0
    """
    goal = Goal.parse(goal)
    positive, checked, weights, columns = check_rows(
        y, scores, goal, sample_weight, amounts, segments, times, pos_label
    )
    check_classes(bool(positive.any()), not positive.all(), weighted=weights is not None)
    columns.check_values(goal)
    return thresholds_by_segment(positive, checked, weights, columns, goal, on)


def thresholds_by_segment(
    positive: NDArray[np.bool_],
    scores: Floats,
    weights: Floats | None,
    columns: GoalColumns,
    goal: Goal,
    on: str,
) -> SegmentThresholds:
    """Return the thresholds of validated rows."""
    column = segment_column(goal)
    codes = columns.segments[column]
    bound = columns.bind(goal, positive)
    values = dict(bound.found)[column]
    own = [Constraint(c.metric, c.level) for c in goal.constraints if c.each]
    on_all = tuple(c for c in goal.constraints if not c.each)
    each = Goal(goal.objective, tuple(own))
    every = Goal(goal.objective, (*own, *on_all))  # constraints on all rows together
    other = best_point_of(positive, scores, weights, columns, every, on).threshold
    parts = [
        _Part.of(positive, scores, weights, columns, each, codes.members(value)) for value in values
    ]
    thresholds = _combine(parts, goal, on_all, weights, positive, columns)
    found = dict(zip(values, thresholds, strict=True))
    of_codes = np.array([found.get(value, other) for value in codes.values])
    alarm = scores.astype(np.float64) > of_codes[codes.codes]
    point = point_at(positive, alarm, weights, columns, goal, 0.0, on)
    return SegmentThresholds(column, found, other, point)


def segment_column(goal: Goal) -> str:
    """Return the one column of segments that have thresholds of their own."""
    named = list(dict.fromkeys(c.each for c in goal.constraints if c.each))
    if len(named) != 1:
        raise GoalError(
            f"thresholds per group need a goal with constraints 'for each' of one column, e.g. "
            f"'max recall s.t. precision >= 0.9 for each region'; '{goal}' names "
            f"{'none' if not named else ' and '.join(named)}."
        )
    if goal.periods:
        raise GoalError(
            f"'{goal}': a budget per {goal.periods[0]} counts the alarms of all segments together, "
            "which thresholds per group cannot share out exactly; use one threshold."
        )
    return named[0]


@dataclass(frozen=True, eq=False)
class _Part:
    """The cuts of one segment that meet its constraints, or miss them least.

    The counts have the shape (tallies, cuts), for the tallies of the objective.
    """

    lowest: Floats
    tp: Floats
    fp: Floats
    P: Any
    N: Any
    scores: Floats

    @classmethod
    def of(
        cls,
        positive: NDArray[np.bool_],
        scores: Floats,
        weights: Floats | None,
        columns: GoalColumns,
        goal: Goal,
        member: NDArray[np.bool_],
    ) -> _Part:
        """Return the cuts of the rows of a segment."""
        own = scores[member]
        weight = None if weights is None else weights[member]
        rows = TalliedRows.of(positive[member], weight, columns.take(member), goal)
        cuts = list(rows.cuts(own))
        nothing = np.zeros((len(goal.tallies), 1))
        lowest = np.concatenate([[np.nan], *(values for values, _, _ in cuts)]).astype(own.dtype)
        tp, fp = (np.concatenate([nothing, *(cut[i] for cut in cuts)], axis=1) for i in (1, 2))
        P, N = rows.totals()
        at = (tp, fp, P, N) if not goal.is_plain else (tp[0], fp[0], P[0], N[0])
        with np.errstate(all="ignore"):
            missed = np.broadcast_to(goal.violation(*at), tp.shape[1:])
        kept = missed == np.nanmin(missed)
        return cls(lowest[kept], tp[:, kept], fp[:, kept], P, N, np.sort(own))

    def threshold(self, cut: int) -> float:
        """Return the threshold of a cut."""
        lowest = float(self.lowest[cut])
        return threshold_below(None if np.isnan(lowest) else lowest, self.scores)

    def plain(self) -> LabelCuts:
        """Return the cuts with the counts of all rows alike."""
        return LabelCuts(
            self.lowest, self.tp[0], self.fp[0], float(self.P[0]), float(self.N[0]), (self.scores,)
        )


def _combine(
    parts: list[_Part],
    goal: Goal,
    on_all: tuple[Constraint, ...],
    weights: Floats | None,
    positive: NDArray[np.bool_],
    columns: GoalColumns,
) -> list[float]:
    """Return the threshold of each segment."""
    objective, alone = goal.objective, Goal(goal.objective)
    if on_all:
        weighted = weights is not None and bool((weights != 1).any())
        total = Goal(objective, on_all)
        if not total.is_plain:
            together = next((c for c in on_all if not Goal(c.metric).is_plain), None)
            if together is None:
                raise GoalError(
                    f"'{goal}': with thresholds per group and a constraint on all rows together "
                    f"('{on_all[0]}'), the objective must count all rows alike, and {objective} "
                    "does not; write the constraint 'for each' group, or use one threshold."
                )
            raise GoalError(
                f"'{goal}': with thresholds per group, a constraint on all rows together must "
                f"count all rows alike, and '{together}' does not; write it 'for each' group, or "
                "use one threshold."
            )
        best = best_total([part.plain() for part in parts], total, weighted=weighted)
        return [part.threshold(cut) for part, cut in zip(parts, best.cuts, strict=True)]
    if objective.fraction is None:
        raise GoalError(
            f"'{goal}': {objective} is not a quotient of sums over the groups, so thresholds per "
            "group cannot be optimised exactly; use one threshold, or another objective."
        )
    everything = TalliedRows.of(positive, weights, columns, alone).totals()
    P, N = (total if not alone.is_plain else total[0] for total in everything)
    at = alone.counts_of(objective, P, N, P, N)[2:]
    bottom = objective.fraction.denominator(*at)
    if not np.any([np.atleast_1d(b) for b in bottom[1:]]):  # a sum over the segments
        _, in_tp, in_fp = objective.fraction.numerator(*at)
        places = [alone.tallies.index(tally) for tally in objective.tallies]
        sign = objective.sign
        return [
            part.threshold(_best_sum(part, places, sign * _row(in_tp), sign * _row(in_fp)))
            for part in parts
        ]
    if not alone.is_plain:
        raise GoalError(
            f"'{goal}': with thresholds per group, {objective} must count all rows alike; use one "
            "threshold, or an objective such as recall or a cost."
        )
    best = best_quotient([part.plain() for part in parts], objective)
    return [part.threshold(cut) for part, cut in zip(parts, best.cuts, strict=True)]


def _row(coefficients: Any) -> Floats:
    return np.atleast_1d(np.asarray(coefficients, dtype=np.float64))


def _best_sum(part: _Part, places: list[int], in_tp: Floats, in_fp: Floats) -> int:
    """Return the cut with the largest sum, then more TP, then fewer FP."""
    value = in_tp @ part.tp[places] + in_fp @ part.fp[places]
    found = np.flatnonzero(value >= value.max() - 1e-12 * max(1.0, abs(float(value.max()))))
    return int(found[np.lexsort((part.fp[0][found], -part.tp[0][found]))[0]])
