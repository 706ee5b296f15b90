"""Counts in several tallies at every cut of the scores, from one sort.

A goal that speaks of amounts, segments or periods has a short vector of counts. The rows are sorted
once by falling score; running sums of what each row counts give the vector at every cut. They are
computed in blocks, so memory stays near that of the scores, whatever the number of tallies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal
from setpoint.thresholds.sweep import Cut, Floats, Ranking, best_index, rank_of

_BLOCK = 1 << 20  # numbers of a block


class TalliedRows(NamedTuple):
    """Labelled rows, and what they count in each tally of a goal.

    Attributes
    ----------
    positive : ndarray of bool, shape (n,)
        Labels.
    weigh : callable
        ``weigh(rows)`` returns what these rows count, shape (tallies, rows).
    tallies : int
        The number of tallies.
    """

    positive: NDArray[np.bool_]
    weigh: Callable[[Any], Floats]
    tallies: int

    @classmethod
    def of(
        cls, positive: NDArray[np.bool_], weight: Floats | None, columns: GoalColumns, goal: Goal
    ) -> TalliedRows:
        """Return rows with the columns that a goal names."""

        def weigh(rows: Any) -> Floats:
            factors = columns.factors(goal.tallies, rows)
            return factors if weight is None else factors * weight[rows]

        return cls(positive, weigh, len(goal.tallies))

    @classmethod
    def of_factors(
        cls, positive: NDArray[np.bool_], weight: Floats | None, factors: Floats
    ) -> TalliedRows:
        """Return rows with their factors in each tally, shape (n, tallies)."""

        def weigh(rows: Any) -> Floats:
            own: Floats = factors[rows].T.astype(np.float64)
            return own if weight is None else own * weight[rows]

        return cls(positive, weigh, factors.shape[1])

    def counts(self, alarm: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return TP and FP of given alarms, in each tally."""
        tp, fp = np.zeros((2, self.tallies))
        for rows in self._blocks(np.flatnonzero(alarm)):
            found = self.weigh(rows)
            tp += found[:, self.positive[rows]].sum(axis=1)
            fp += found[:, ~self.positive[rows]].sum(axis=1)
        return tp, fp

    def totals(self) -> tuple[Floats, Floats]:
        """Return P and N in each tally."""
        return self.counts(np.ones(len(self.positive), dtype=bool))

    def cuts(self, scores: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield the lowest positive scores of all cuts, from the top, with TP and FP, in blocks.

        The counts have the shape (tallies, cuts).
        """
        order = np.argsort(scores)[::-1]
        tp, fp = np.zeros((2, self.tallies, 1))
        done = 0
        for rows in self._blocks(order):
            done += len(rows)
            found, is_positive = self.weigh(rows), self.positive[rows]
            at_tp = tp + np.cumsum(np.where(is_positive, found, 0.0), axis=1)
            at_fp = fp + np.cumsum(np.where(is_positive, 0.0, found), axis=1)
            tp, fp = at_tp[:, -1:], at_fp[:, -1:]
            values = scores[rows]
            # A cut lies below the last row of each distinct score.
            after = scores[order[done]] if done < len(order) else -np.inf
            last = np.append(values[1:] != values[:-1], values[-1] != after)
            last &= values > -np.inf  # no threshold lies below -inf
            if last.any():
                yield values[last], at_tp[:, last], at_fp[:, last]

    def _blocks(self, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        size = max(1, _BLOCK // self.tallies)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


def best_tallied_cut(rows: TalliedRows, scores: Floats, goal: Ranking) -> Cut:
    """Return the best cut, by the rule of :func:`setpoint.thresholds.sweep.best_cut`.

    The cut's counts are arrays with an entry for each tally.
    """
    P, N = rows.totals()
    _check_defined(goal, P, N)
    nothing = np.zeros(rows.tallies)
    best = Cut(None, nothing, nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        best_rank = rank_of(goal, best.tp, best.fp, P, N)
        for values, tp, fp in rows.cuts(scores):
            i = best_index(goal, tp, fp, P, N)
            rank = rank_of(goal, tp[:, i], fp[:, i], P, N)
            if rank > best_rank:
                best, best_rank = Cut(float(values[i]), tp[:, i], fp[:, i]), rank
    return best


def _check_defined(ranking: Ranking, P: Floats, N: Floats) -> None:
    """Raise SetpointError if rows do not define a metric, e.g. for lack of amounts above 0."""
    goal = ranking if isinstance(ranking, Goal) else getattr(ranking, "goal", None)
    if not isinstance(goal, Goal) or goal.is_plain:
        return
    for which in goal.metrics:
        with np.errstate(all="ignore"):
            value = goal.value_of(which, 0.0 * P, 0.0 * N, P, N)
        if np.isnan(value):
            raise SetpointError(
                f"{which} is undefined on these rows: those that it counts are of one class, or "
                "their amounts are all 0."
            )
