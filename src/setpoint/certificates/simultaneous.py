"""Certified thresholds: all of them are tested at once, on the rows on which one is chosen.

Each constraint has a test that holds at all thresholds together: precision and npv by the walk of
the labels (:mod:`setpoint.certificates.walk`), recall, fpr and other monotone metrics because they
are nested (:mod:`setpoint.certificates.nested`). Besides, planning rows choose a *start*, the
threshold most certain to pass, and a direction. From there on thresholds are tested with a larger
error until the first one fails: the *way*.

**Proof for J constraints.** Let F_j be the thresholds that miss constraint j, and e_j the
probability with which any of them passes its test anywhere; e is the sum of all e_j. Let t* be the
first threshold on the way that misses some constraint, and j one that it misses. The start and the
direction do not depend on the certification rows, so both are fixed. A false certificate needs a
threshold of some F_i that passes anywhere, or t* passing on the way.

- Precision and npv: t* passes on the way, while no threshold of F_j passes anywhere, with a
  probability of at most d = alpha - e. The theorem of the walk applies to the union of both.
- Nested metrics: all of F_j is on one side, and its safest threshold passes whenever t* does. With
  the error d_j = alpha - (e - e_j), t* passing or any of F_j passing anywhere has at most d_j.

Either way the sum of all probabilities is at most alpha. QED

If all constraints are nested in the same direction, each is tested anywhere with the whole error,
and there is nothing left to plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.nested import NestedTest, is_monotone, is_nested
from setpoint.certificates.rates import rate_of
from setpoint.certificates.sequence import (
    AnyRows,
    Rows,
    counted,
    plain_gain,
    plan,
    some_cuts,
    thresholds_below,
    worst_of,
)
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.certificates.walk import WalkTest, rounded_trials, share_anywhere
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import NPV, PRECISION
from setpoint.thresholds.sweep import threshold_below

Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]

_EVERY = 40_000  # rows up to which every distinct score separates cells
_CUTS = 4_000  # positives of more rows, evenly spaced, that do
_TYPICAL_TRIALS = 40  # without a plan


def is_testable_anywhere(goal: Goal) -> bool:
    """Return whether every constraint of the goal has a test that holds at all thresholds."""
    return bool(goal.constraints) and all(
        rate_of(c.metric) is not None and (is_monotone(c.metric) or _is_walk(c))
        for c in goal.constraints
    )


def _is_walk(constraint: Constraint) -> bool:
    return constraint.metric.plain in (PRECISION, NPV)


class Cells(NamedTuple):
    """Intervals ``low <= t < high`` of thresholds, from the highest to the lowest.

    Counts are those at the top and at the bottom of each cell. They are equal, unless there are so
    many rows that a cell spans several scores.
    """

    low: Floats
    high: Floats
    tp_top: Floats
    fp_top: Floats
    tp_bottom: Floats
    fp_bottom: Floats

    @classmethod
    def of(cls, rows: AnyRows) -> Cells:
        """Return cells that cover all thresholds, with the counts of all rows."""
        positive, negative = rows
        classes = positive.sorted, negative.sorted
        if sum(map(len, classes)) <= _EVERY:
            edges = np.unique(np.concatenate(classes))
        else:
            cuts = positive.sorted
            if len(cuts) > _CUTS:
                cuts = cuts[np.linspace(0, len(cuts) - 1, _CUTS).astype(int)]
            edges = np.unique(np.concatenate([cuts, *(_next_lower(own, cuts) for own in classes)]))
        edges = edges[np.isfinite(edges)][::-1]
        low, high = np.append(edges, -np.inf), np.append(np.inf, edges)
        return cls._of_ends(low, high, Rows(positive, negative))

    @classmethod
    def _of_ends(cls, low: Floats, high: Floats, rows: Rows) -> Cells:
        tops = rows.positive.at_or_above(high), rows.negative.at_or_above(high)
        return cls(low, high, *tops, *rows.counts(low))

    def counting(self, rows: Rows) -> Cells:
        """Return the same cells with the counts of other rows, e.g. those of one segment."""
        return self._of_ends(self.low, self.high, rows)

    @property
    def is_exact(self) -> Mask:
        """Whether the counts are the same at every threshold of a cell."""
        return np.asarray((self.tp_top == self.tp_bottom) & (self.fp_top == self.fp_bottom))


def _next_lower(scores: Floats, cuts: Floats) -> Floats:
    at = np.searchsorted(scores, cuts, side="left")
    return scores[at[at > 0] - 1]


class Plan(NamedTuple):
    """What planning rows determine.

    ``start`` is the threshold most certain to pass, or None. ``upwards`` is the direction of better
    objectives, and ``trials`` the number of trials to expect for each constraint.
    """

    start: float | None
    upwards: bool
    trials: tuple[float, ...]

    @classmethod
    def of(cls, planning: AnyRows, goal: Goal, test_rows: float, alpha: float) -> Plan:
        """Plan the test of ``test_rows`` other rows."""
        thresholds = plan(planning, goal, test_rows, alpha)
        start = float(thresholds[0])
        if not np.isfinite(start):
            return cls(None, False, (_TYPICAL_TRIALS,) * len(goal.constraints))
        more = test_rows / sum(planning.totals)
        counts = counted(planning, goal, thresholds)
        likely = np.flatnonzero(worst_of(goal, counts, times=more) <= 0.5)
        ends = [0, int(likely[-1]) if len(likely) else 0]
        trials = []
        for constraint, at in zip(goal.constraints, counts, strict=True):
            rate = rate_of(constraint.metric)
            assert rate is not None
            expected = (more * x for x in at)
            at_ends = np.maximum(rate.draws(*expected)[1][ends], 1.0)
            trials.append(float(np.sqrt(at_ends.prod())))
        return cls(start, bool(thresholds[-1] > start), tuple(trials))


class Certified(NamedTuple):
    """The thresholds that passed, the best of them (None if none did), and the way's error."""

    thresholds: ThresholdSet
    best: float | None
    error: float


def certified_thresholds(
    testing: AnyRows, goal: Goal, planned: Plan | None, alpha: float
) -> Certified:
    """Return every threshold that is certified on the rows, and the best of them.

    Rows of a single class, which may have been drawn by class, certify no precision and no npv.
    """
    if any(_is_walk(c) and 0 in testing.of_constraint(c).totals for c in goal.constraints):
        return Certified(ThresholdSet(), None, alpha)
    cells = Cells.of(testing)
    anywhere, on_the_way, error = _passing(cells, testing, goal, planned, alpha)
    certified, low, high = anywhere, cells.low, cells.high
    way = None if planned is None or planned.start is None else Way.of(planned, cells, on_the_way)
    if way is not None:
        certified = anywhere | way.mask
        if not anywhere[way.at]:
            low, high = way.cut(low, high)
    intervals = ThresholdSet.of(low[certified][::-1], high[certified][::-1])
    allowed = np.flatnonzero(certified & cells.is_exact)
    if len(allowed) == 0:
        return Certified(intervals, None, error)
    with np.errstate(all="ignore"):
        gain = plain_gain(goal, cells.tp_top, cells.fp_top, *testing.totals)
    gain = np.broadcast_to(np.nan_to_num(gain, nan=-np.inf), certified.shape)[allowed]
    at = int(allowed[np.argmax(gain)])
    if not np.isfinite(gain).any() and testing.positive.total == 0:
        at = int(allowed[-1])  # as many alarms as are allowed
    best = _halfway(cells, at, testing)
    if best not in intervals:  # only the start's cell is not certified as a whole
        assert way is not None
        best = way.start
    return Certified(intervals, best, error)


def closest_thresholds(rows: AnyRows) -> Floats:
    """Return thresholds just below positives, among which the closest to pass is sought."""
    cuts = some_cuts(rows.positive)
    if len(cuts) == 0:
        return np.array([np.inf])
    return thresholds_below(cuts, rows.positive.sorted, rows.negative.sorted)


class Way(NamedTuple):
    """The cells from the start on, in one direction, that pass before the first that fails."""

    start: float
    upwards: bool
    at: int  # the start's cell
    mask: Mask

    @classmethod
    def of(cls, planned: Plan, cells: Cells, passes: Mask) -> Way:
        """Follow the plan from its start."""
        start = planned.start
        assert start is not None
        at = int(np.flatnonzero((cells.low <= start) & (start < cells.high))[0])
        mask = np.zeros_like(passes)
        if planned.upwards:
            mask[at + 1 - _leading(passes[at::-1]) : at + 1] = True
        else:
            mask[at : at + _leading(passes[at:])] = True
        return cls(start, planned.upwards, at, mask)

    def cut(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the ends of all cells, that of the start without what lies before the start."""
        low, high = low.copy(), high.copy()
        kind = low.dtype.type
        if self.upwards:
            low[self.at] = self.start
        else:  # the start itself belongs to the way
            above = kind(self.start)
            high[self.at] = above if above > self.start else np.nextafter(above, kind(np.inf))
        return low, high


def _leading(mask: Mask) -> int:
    """Return how many entries are true before the first that is not."""
    return len(mask) if mask.all() else int(np.argmin(mask))


def _halfway(cells: Cells, at: int, rows: AnyRows) -> float:
    """Return the threshold of an exact cell, halfway between two scores where possible."""
    no_alarms = cells.tp_top[at] + cells.fp_top[at] == 0
    classes = [own.sorted for own in rows if len(own.sorted)]
    return threshold_below(None if no_alarms else cells.high[at], *classes)


def _passing(
    cells: Cells, testing: AnyRows, goal: Goal, planned: Plan | None, alpha: float
) -> tuple[Mask, Mask, float]:
    """Return which cells pass anywhere, which pass on the way, and with which error."""
    tested = [(c, *_counts(cells, testing, c)) for c in goal.constraints]
    everywhere = np.ones(len(cells.low), dtype=bool)
    if is_nested(goal):
        for c, own, (P, N) in tested:
            everywhere &= NestedTest(c, P, N).passes(*_worst(own), alpha)
        return everywhere, everywhere, alpha
    assert planned is not None
    J = len(goal.constraints)
    each = _share_anywhere(planned, goal) * alpha / J
    walks = [
        WalkTest(c.level, rounded_trials(trials), each) if _is_walk(c) else None
        for c, trials in zip(goal.constraints, planned.trials, strict=True)
    ]
    total = sum(each if walk is None else walk.crossing for walk in walks)
    anywhere, way = everywhere.copy(), everywhere
    for walk, (c, own, (P, N)) in zip(walks, tested, strict=True):
        if walk is None:
            test = NestedTest(c, P, N)
            anywhere &= test.passes(*_worst(own), each)
            way &= test.passes(*_worst(own), alpha - total + each)
            continue
        drawn = own.tp_top, own.fp_bottom
        if c.metric.plain == NPV:
            drawn = N - own.fp_bottom, P - own.tp_top
        anywhere &= walk.passes_anywhere(*drawn)
        way &= walk.passes_on_the_way(*drawn, alpha - total)
    return anywhere, way, alpha - total


def _counts(
    cells: Cells, testing: AnyRows, constraint: Constraint
) -> tuple[Cells, tuple[float, float]]:
    """Return the cells with the counts of a constraint, and its totals."""
    own = testing.of_constraint(constraint)
    return cells if own is testing else cells.counting(own), own.totals


def _worst(cells: Cells) -> tuple[Floats, Floats, Floats]:
    """Return the least TP, the most alarms and the most FP at any threshold of each cell."""
    return cells.tp_top, cells.tp_bottom + cells.fp_bottom, cells.fp_bottom


def _share_anywhere(planned: Plan, goal: Goal) -> float:
    """Return the fraction of the error for tests anywhere; the way has the rest.

    Many segments would leave little for each of them anywhere, while each has all of the rest.
    """
    if planned.start is None:
        return 1.0
    trials = [n for c, n in zip(goal.constraints, planned.trials, strict=True) if _is_walk(c)]
    segments = len({c.metric.tallies for c in goal.constraints})
    return (share_anywhere(min(trials)) if trials else 0.5) / segments
