"""Fixed-sequence testing: a threshold that is chosen and certified on the same data.

*Planning rows* determine at which thresholds the goal might be certified, and in which order to
test them. On the *certification rows* the thresholds are tested in that order, each with the whole
error 1 - confidence, until the first one fails. All that passed are certified at once: a false
certificate requires the first threshold of the sequence that misses the goal to pass, and that is
one fixed threshold, whose test passes with a probability of at most 1 - confidence. This is "Learn
then Test" (Angelopoulos et al., 2021) with an order that is independent of the certification rows.

At one threshold the claim is "all constraints hold". It passes if each constraint passes with the
whole error (an intersection-union test): the claim is false only if some constraint is missed, and
that one passes with a probability of at most 1 - confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.rates import p_value, rate_of
from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import TOLERANCE, Constraint, Goal
from setpoint.goals.tallies import PLAIN, Tally
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import ClassScores, best_cut, threshold_below

Floats = NDArray[np.floating]

STEPS = 200
_CUTS = 2000  # considered when planning
_MANY = 20_000
_CUTS_BELOW = 50
_HOPELESS = 0.9  # a sequence ends where the expected p-value exceeds this
_PROMISING = 0.2  # the expected p-value of a single threshold, as a fraction of alpha


class Rows(NamedTuple):
    """The scores of both classes, sorted."""

    positive: ClassScores
    negative: ClassScores

    @classmethod
    def of(
        cls,
        positive: NDArray[np.bool_],
        scores: NDArray[np.floating],
        among: NDArray[np.bool_] | None = None,
    ) -> Rows:
        """Sort the scores of each class, of all rows or of those selected by a mask."""
        classes = [positive, ~positive]
        if among is not None:
            classes = [rows & among for rows in classes]
        return cls(*(ClassScores(scores, None, rows) for rows in classes))

    @property
    def totals(self) -> tuple[float, float]:
        """P and N."""
        return self.positive.total, self.negative.total

    def counts(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return TP and FP at each threshold."""
        return self.positive.above(thresholds), self.negative.above(thresholds)

    def of_constraint(self, constraint: Constraint) -> Rows:
        """Return the rows that a constraint counts: all of them."""
        return self

    def point(self, threshold: float, goal: Goal, on: str) -> OperatingPoint:
        """Return the operating point at a threshold."""
        (tp,), (fp,) = (counts.tolist() for counts in self.counts(np.array([threshold])))
        P, N = self.totals
        return OperatingPoint(threshold, tp, fp, P - tp, N - fp, goal, on)


@dataclass(frozen=True)
class TalliedRows:
    """Rows of which each constraint counts its own: all of them, or those of one segment.

    The tally of its metric says which. The rows of each tally must be independent draws given
    their number, as the rows of a segment are. The tests of several constraints need nothing else:
    the error of each is that of its own rows.

    Attributes
    ----------
    plain : Rows
        All rows, which the objective counts.
    tallies : mapping of Tally to Rows
        The rows of each other tally.
    """

    plain: Rows
    tallies: Mapping[Tally, Rows] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        positive: NDArray[np.bool_],
        scores: NDArray[np.floating],
        columns: GoalColumns,
        goal: Goal,
        among: NDArray[np.bool_] | None = None,
    ) -> TalliedRows:
        """Return the rows of each segment that a bound goal names."""
        every = np.ones(len(scores), dtype=bool) if among is None else among
        own = {
            tally: Rows.of(
                positive, scores, every & columns.segments[tally.segment].members(tally.value)
            )
            for tally in goal.tallies
            if tally.segment and not tally.amount
        }
        return cls(Rows.of(positive, scores, every), own)

    def of_constraint(self, constraint: Constraint) -> Rows:
        """Return the rows that a constraint counts."""
        (tally,) = constraint.metric.tallies
        if tally == PLAIN:
            return self.plain
        if tally not in self.tallies:
            raise SetpointError(f"there are no rows of [{tally}] to test '{constraint}' on.")
        return self.tallies[tally]

    def point(self, threshold: float, goal: Goal, on: str) -> OperatingPoint:
        """Return the operating point at a threshold."""
        found = self.plain.point(threshold, Goal(goal.objective), on)
        at = np.array([threshold])
        tallied = []
        for tally in goal.tallies[1:]:
            rows = self.tallies[tally]
            (tp,), (fp,) = (counts.tolist() for counts in rows.counts(at))
            tallied.append((tp, fp, *rows.totals))
        return replace(found, goal=goal, tallied=tuple(tallied))

    def __iter__(self) -> Iterator[ClassScores]:
        return iter(self.plain)

    @property
    def positive(self) -> ClassScores:
        """All positives."""
        return self.plain.positive

    @property
    def negative(self) -> ClassScores:
        """All negatives."""
        return self.plain.negative

    @property
    def totals(self) -> tuple[float, float]:
        """P and N of all rows."""
        return self.plain.totals

    def counts(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return TP and FP of all rows at each threshold."""
        return self.plain.counts(thresholds)


AnyRows = Rows | TalliedRows
Counted = list[tuple[Floats, Floats, float, float]]  # TP, FP, P and N of each constraint


def counted(rows: AnyRows, goal: Goal, thresholds: Floats) -> Counted:
    """Return the counts of each constraint at each threshold."""
    own = [rows.of_constraint(c) for c in goal.constraints]
    return [(*r.counts(thresholds), *r.totals) for r in own]


def worst_of(goal: Goal, counts: Counted, shape: Any = (), times: float = 1.0) -> Floats:
    """Return the p-value of "some constraint is missed" from the counts of each constraint.

    ``times`` is for the counts expected of so many times the rows.
    """
    values = [
        p_value(c, times * tp, times * fp, times * P, times * N)
        for c, (tp, fp, P, N) in zip(goal.constraints, counts, strict=True)
    ]
    return np.asarray(np.max(np.broadcast_arrays(*values, np.zeros(shape)), axis=0))


def violation(goal: Goal, counts: Counted, shape: Any = ()) -> Floats:
    """Return the sum of the shortfalls of all constraints, each from its own counts."""
    total = np.zeros(shape)
    with np.errstate(all="ignore"):
        for c, at in zip(goal.constraints, counts, strict=True):
            shortfall = np.nan_to_num(c.shortfall(*at))
            total = total + shortfall * (shortfall > TOLERANCE)
    return total


def plain_gain(goal: Goal, tp: Any, fp: Any, P: Any, N: Any) -> Any:
    """Return the gain of a goal whose objective counts all rows alike."""
    return goal.objective.sign * goal.objective.value(tp, fp, P, N)


def worst_p_value(goal: Goal, tp: Any, fp: Any, P: Any, N: Any) -> Floats:
    """Return the p-value of "some constraint is missed" at each threshold."""
    return worst_of(goal, [(tp, fp, P, N)] * len(goal.constraints), np.shape(tp))


def plan(rows: AnyRows, goal: Goal, test_rows: float, alpha: float, steps: int = STEPS) -> Floats:
    """Return thresholds in the order in which to test them on ``test_rows`` other rows.

    The first is the one most certain to pass according to the planning rows. The next ones lead
    from there towards better objectives, as long as they may pass. A single step goes to the best
    objective that is expected to pass with a margin.
    """
    positive, negative = rows
    P, N = rows.totals
    if P == 0 or N == 0:  # nothing can be planned
        return np.array([np.inf])
    if not all(rate_of(c.metric) for c in goal.constraints) or not goal.constraints:
        if not goal.constraints and goal.is_monotone and P > _MANY:
            # Neighbours among so many differ by less than the sampling error.
            cuts = some_cuts(positive, _MANY)
            gain = plain_gain(goal, positive.at_or_above(cuts), negative.at_or_above(cuts), P, N)
            return thresholds_below(cuts[[int(np.argmax(gain))]], positive.sorted, negative.sorted)
        cut = best_cut(positive, negative, goal if goal.is_plain else Goal(goal.objective))
        return np.array([threshold_below(cut.lowest_positive, positive.sorted, negative.sorted)])
    cuts = np.concatenate([some_cuts(positive), _cuts_below(positive, negative)])
    if len(cuts) == 0:  # all score -inf
        return np.array([np.inf])
    tp, fp = positive.at_or_above(cuts), negative.at_or_above(cuts)
    more = test_rows / (P + N)
    with np.errstate(all="ignore"):
        own = [rows.of_constraint(c) for c in goal.constraints]
        at = [(r.positive.at_or_above(cuts), r.negative.at_or_above(cuts), *r.totals) for r in own]
        expected = worst_of(goal, at, tp.shape, more)
        gain = np.nan_to_num(plain_gain(goal, tp, fp, P, N), nan=-np.inf)
    if steps == 1:
        hopeful = expected <= _PROMISING * alpha
        best = np.argmax(np.where(hopeful, gain, -np.inf)) if hopeful.any() else expected.argmin()
        order = np.array([best])
    else:
        order = _walk(expected, gain, steps)
    return thresholds_below(cuts[order], positive.sorted, negative.sorted)


def try_in_order(rows: AnyRows, goal: Goal, thresholds: Floats, alpha: float) -> tuple[Floats, int]:
    """Return the p-value at each threshold, and how many pass before the first failure."""
    values = worst_of(goal, counted(rows, goal, thresholds), np.shape(thresholds))
    failed = np.flatnonzero(~(values <= alpha))
    return values, int(failed[0]) if len(failed) else len(values)


def thresholds_below(cuts: Floats, *classes: Floats) -> Floats:
    """Return thresholds halfway between each cut and the next lower score of any class."""
    lower = np.full(len(cuts), -np.inf, dtype=cuts.dtype)
    classes = tuple(scores for scores in classes if len(scores))
    for scores in classes:
        at = np.searchsorted(scores, cuts, side="left")
        np.maximum(lower, np.where(at > 0, scores[np.maximum(at - 1, 0)], -np.inf), out=lower)
    with np.errstate(invalid="ignore"):
        middle = lower / 2 + cuts / 2
    middle = np.where((lower <= middle) & (middle < cuts), middle, lower).astype(float)
    for i in np.flatnonzero(~np.isfinite(middle)):  # at the ends
        middle[i] = threshold_below(cuts[i], *classes)
    return middle


def some_cuts(positive: ClassScores, most: int = _CUTS) -> Floats:
    """Return distinct scores of positives, from the highest; of very many, evenly spaced ones."""
    scores = positive.sorted
    if len(scores) > most:
        scores = scores[np.linspace(0, len(scores) - 1, most).astype(int)]
    distinct = np.unique(scores)[::-1]
    return np.asarray(distinct[distinct > -np.inf])  # no threshold lies below -inf


def _cuts_below(positive: ClassScores, negative: ClassScores) -> Floats:
    """Return some cuts below the lowest positive: certification rows may have positives there."""
    room = int(np.searchsorted(negative.sorted, positive.sorted[0], side="left"))
    if room == 0:
        return np.empty(0, dtype=negative.sorted.dtype)  # thresholds keep the scores' precision
    at = np.unique(np.linspace(room - 1, 0, min(room, _CUTS_BELOW)).astype(int))
    cuts = np.unique(negative.sorted[at])[::-1]
    return cuts[cuts > -np.inf]


def _walk(expected: Floats, gain: Floats, steps: int) -> NDArray[np.intp]:
    """Return the indices of cuts from the most certain one towards better objectives."""
    start = int(np.lexsort((-gain, expected))[0])
    likely = np.flatnonzero(expected <= 0.5)
    end = int(likely[np.argmax(gain[likely])]) if len(likely) else start
    if end == start:
        return np.array([start])
    way = np.arange(start, len(gain)) if end > start else np.arange(start, -1, -1)
    lost = np.flatnonzero((expected[way] > _HOPELESS) & (np.abs(way - start) > abs(end - start)))
    if len(lost):
        way = way[: lost[0]]
    return np.asarray(way[np.unique(np.linspace(0, len(way) - 1, steps).astype(int))])
