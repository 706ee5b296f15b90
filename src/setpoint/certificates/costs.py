"""Bounds on the mean cost per row at thresholds that are chosen on the same rows.

A row costs one amount if it raises an alarm and another if it does not: with prices
``cost(fp=5, fn=amount)`` a negative costs 5 or 0, and a positive 0 or its amount. The mean cost at
a threshold is the mean of bounded values, whose bounds :mod:`setpoint.certificates.means` has.

**A bound at all thresholds at once**, for a threshold that is chosen in any way. Planning rows
divide the thresholds into cells low <= t < high. At any threshold of a cell a row costs at most

    its cost with an alarm       if its score is high or above,
    its cost without an alarm    if its score is low or below,
    the larger of both           in between,

and the mean of these values bounds the mean cost everywhere in the cell. It has an upper bound of
its own; the cells divide the error. The cell around the planned best threshold has half of it, and
the j-th cell on either side a fraction 1 / (4 j (j + 1)): these add up to at most 1. Cells are as
wide as costs little: rows in between add a quarter of the standard error, and twice as much in each
further cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.certificates.means import Sample, check_range, random_order
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.errors import SetpointError
from setpoint.thresholds.sweep import threshold_below

Floats = NDArray[np.floating]

_WIDTH = 0.25  # of the middle cell: what rows in between add to the cost, in standard errors
_MOST_CELLS = 12  # on each side of the middle


@dataclass(frozen=True)
class CostRows:
    """Rows with a score and two costs, in a random order of their positions.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        The scores.
    alarm, clear : ndarray of shape (n,)
        The cost of each row with and without an alarm, given its label; gains are negative costs.
    low, high : float
        The stated range of costs, which must not be taken from the rows.
    """

    scores: Floats
    alarm: Floats
    clear: Floats
    low: float
    high: float

    @classmethod
    def of(
        cls, scores: ArrayLike, alarm: ArrayLike, clear: ArrayLike, low: float, high: float
    ) -> CostRows:
        """Check the rows and put them into a random order.

        Examples
        --------
        >>> y, amount = np.array([1, 0, 1]), np.array([20.0, 3.0, 70.0])
        >>> rows = CostRows.of([0.9, 0.8, 0.1], np.where(y, 0, 5), np.where(y, amount, 0), 0, 100)
        >>> rows.mean(0.5)  # one false alarm, and one positive of 70 is missed
        25.0
        """
        low, high = check_range(low, high)
        columns = [np.asarray(column, dtype=np.float64) for column in (scores, alarm, clear)]
        shapes = {column.shape for column in columns}
        if len(shapes) > 1 or columns[0].ndim != 1:
            raise SetpointError(
                "scores and costs must hold one number per row; their shapes are "
                + ", ".join(str(column.shape) for column in columns)
            )
        for name, column in zip(("scores", "alarm", "clear"), columns, strict=True):
            if np.isnan(column).any():
                at = int(np.flatnonzero(np.isnan(column))[0])
                raise SetpointError(f"{name} is NaN in row {at}; give a number there.")
        for name, column in zip(("alarm", "clear"), columns[1:], strict=True):
            slack = 1e-9 * (high - low)  # rounding
            outside = np.flatnonzero((column < low - slack) | (column > high + slack))
            if len(outside):
                raise SetpointError(
                    f"the cost of row {outside[0]} ({name}) is {column[outside[0]]:g}, outside the "
                    f"stated range [{low:g}, {high:g}]; state a larger cap, or count larger "
                    "amounts as the cap."
                )
        order = random_order(len(columns[0]))
        scores, alarm, clear = (column[order] for column in columns)
        return cls(scores, np.clip(alarm, low, high), np.clip(clear, low, high), low, high)

    def __len__(self) -> int:
        return len(self.scores)

    def at(self, threshold: float) -> Floats:
        """Return the cost of each row at a threshold."""
        return np.where(self.scores > threshold, self.alarm, self.clear)

    def mean(self, threshold: float) -> float:
        """Return the mean cost at a threshold; NaN without rows."""
        return float(self.at(threshold).mean()) if len(self) else math.nan

    def at_most(self, low: float, high: float) -> Floats:
        """Return the largest cost of each row at any threshold low <= t < high (or inf)."""
        either = np.maximum(self.alarm, self.clear)
        alarms = (self.scores >= high) & (high < math.inf)
        return np.where(alarms, self.alarm, np.where(self.scores <= low, self.clear, either))

    def best_threshold(self) -> float:
        """Return the threshold with the lowest mean cost on these rows."""
        if len(self) == 0:
            return math.inf
        scores, first = np.unique(np.sort(self.scores), return_index=True)
        order = np.argsort(self.scores)
        saved = (self.clear - self.alarm)[order]
        above = np.append(np.cumsum(saved[::-1])[::-1][first], 0.0)  # by alarms from each score on
        at = int(np.argmax(above))
        return threshold_below(None if at == len(scores) else float(scores[at]), scores)

    def sample(self, costs: Floats, planned: Floats | None = None) -> Sample:
        """Return costs of the rows, in their order, as a sample for a bound on their mean."""
        width = self.high - self.low
        other = None if planned is None or len(planned) == 0 else (planned - self.low) / width
        return Sample.in_order((costs - self.low) / width, self.low, self.high, other)


def cost_bound(
    testing: CostRows, threshold: float, confidence: float, planning: CostRows | None = None
) -> float:
    """Return an upper bound on the mean cost at a threshold fixed without using these rows."""
    planned = None if planning is None else planning.at(threshold)
    return testing.sample(testing.at(threshold), planned).upper_bound(1 - confidence)


# --- all thresholds at once -----------------------------------------------------------------------


@dataclass(frozen=True)
class CostCells:
    """Cells of thresholds, planned on other rows, with the fraction of the error of each.

    Attributes
    ----------
    edges : ndarray of shape (k - 1,)
        Where a cell ends and the next one begins, in ascending order.
    shares : ndarray of shape (k,)
        Fractions of the error, with a sum of at most 1.
    """

    edges: Floats
    shares: Floats

    @classmethod
    def of(cls, planning: CostRows, test_rows: int) -> CostCells:
        """Plan cells for bounds on ``test_rows`` other rows."""
        if len(planning) == 0:
            return cls(np.empty(0), np.ones(1))
        best = planning.best_threshold()
        scores, change = planning.scores, np.abs(planning.alarm - planning.clear) / len(planning)
        width = _WIDTH * float(planning.at(best).std()) / math.sqrt(max(test_rows, 1))
        above = _edges(scores[scores > best], change[scores > best], width)
        below = -_edges(-scores[scores <= best], change[scores <= best], width)[::-1]
        below = below[below < (above[0] if len(above) else math.inf)]
        j = np.concatenate([np.arange(len(below), 0, -1), [0], np.arange(1, len(above) + 1)])
        shares = np.where(j == 0, 0.5, 0.25 / np.maximum(j * (j + 1), 1))
        return cls(np.concatenate([below, above]), shares)

    def cell(self, threshold: float) -> int:
        """Return the index of the cell that holds a threshold."""
        return int(np.searchsorted(self.edges, threshold, side="right"))

    def ends(self, cell: int) -> tuple[float, float]:
        """Return the ends of a cell: low <= t < high."""
        ends = np.concatenate([[-math.inf], self.edges, [math.inf]])
        return float(ends[cell]), float(ends[cell + 1])

    def __len__(self) -> int:
        return len(self.shares)


def _edges(scores: Floats, change: Floats, width: float) -> Floats:
    """Return edges upwards: cells add width / 2, then width, 2 width, ... to the cost at most."""
    order = np.argsort(scores)
    scores, added = scores[order], np.cumsum(change[order])
    limits = width * (2.0 ** np.arange(_MOST_CELLS) - 0.5)
    at = np.searchsorted(added, limits, side="right")
    edges = np.unique(scores[at[at < len(scores)]])
    return edges[np.isfinite(edges)]


@dataclass(frozen=True)
class CostEverywhere:
    """Upper bounds on the mean cost that hold at all thresholds at once.

    ``bound(t)`` is valid at any threshold, however it was chosen.
    """

    testing: CostRows
    cells: CostCells
    error: float
    planning: CostRows | None = None
    _bounds: dict[int, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def bound(self, threshold: float) -> float:
        """Return the upper bound on the mean cost at a threshold."""
        cell = self.cells.cell(threshold)
        if cell not in self._bounds:
            error = float(self.cells.shares[cell]) * self.error
            self._bounds[cell] = self._sample(cell).upper_bound(error)
        return self._bounds[cell]

    def certified(self, level: float) -> ThresholdSet:
        """Return thresholds at which the mean cost is certified not to exceed a level."""
        passed = [
            self._sample(i).p_value(level, share * self.error) <= share * self.error
            for i, share in enumerate(self.cells.shares.tolist())
        ]
        ends = np.array([self.cells.ends(i) for i, ok in enumerate(passed) if ok]).reshape(-1, 2)
        return ThresholdSet.of(ends[:, 0], ends[:, 1])

    def _sample(self, cell: int) -> Sample:
        ends = self.cells.ends(cell)
        planned = None if self.planning is None else self.planning.at_most(*ends)
        return self.testing.sample(self.testing.at_most(*ends), planned)
