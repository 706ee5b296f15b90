"""The search for a review band: counts at every cut, and the best of all pairs of cuts.

All pairs l <= h of cuts are searched, in O(n log n). This is possible because everything separates:

- Constraints on alarms depend on the upper cut h alone, those on cleared rows on the lower cut l;
  violations add up, V(h) + W(l).
- Objectives are sums f(h) + g(l). With R(c) the weight above a cut c, reviews weigh R(l) - R(h),
  and costs are sums over the alarms, over the cleared rows, and over the difference of what lies
  above the two cuts.
- ``review_rate <= r`` couples the cuts, but R falls: for each h the cuts l within the limit are a
  window [l*(h), h], and those beyond it a prefix, on which the excess adds R(l) - R(h) to the
  violation and separates again.

For each h, the best l of the window and of the prefix is a range minimum of one rank, that of l by
(W, g, R). One comparison of all h then finds the best pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.goals.band_metrics import BandCounts
from setpoint.goals.bands import BandGoal
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import TOLERANCE
from setpoint.goals.money import Price
from setpoint.thresholds.checks import check_scores
from setpoint.thresholds.sweep import ClassScores, Floats, threshold_below

Mask = NDArray[np.bool_]
# Violations are compared in steps of about 1e-12: sums of the same shortfalls in another order tie.
_STEPS = 2.0**40


class BandRows(NamedTuple):
    """Validated labels, scores, weights, and amounts for each term of the goal's cost."""

    positive: Mask
    scores: Floats
    weights: Floats | None
    costs: tuple[float | Floats, float | Floats, float | Floats]

    @classmethod
    def of(
        cls,
        y: ArrayLike,
        scores: ArrayLike,
        sample_weight: ArrayLike | None,
        amounts: Mapping[str, ArrayLike] | None,
        goal: BandGoal,
        pos_label: Any = None,
    ) -> BandRows:
        """Check the arguments of choose_band; rows of weight 0 are left out."""
        n = np.shape(y)[0] if np.ndim(y) else 0
        found = GoalColumns.of(goal, n, amounts).amounts if goal.amounts else {}  # type: ignore[arg-type]
        positive, checked, weights = check_scores(y, scores, sample_weight, pos_label)
        if weights is not None and len(weights) < n:
            counted = np.asarray(sample_weight) > 0
            found = {name: amount[counted] for name, amount in found.items()}

        def cost(price: Price) -> float | Floats:
            return price.factor * found[price.amount] if price.amount else price.factor

        fp, fn, review = goal.objective.costs or (Price(0.0),) * 3
        return cls(positive, checked, weights, (cost(fp), cost(fn), cost(review)))

    def among(self, mask: Mask) -> BandRows:
        """Return the rows selected by a mask."""
        costs = [c if isinstance(c, float) else c[mask] for c in self.costs]
        weights = None if self.weights is None else self.weights[mask]
        return BandRows(self.positive[mask], self.scores[mask], weights, tuple(costs))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cuts:
    """Cuts in rising order, with what lies above each.

    By default all cuts of the scores: cut j is the decision "score >= values[j]", and there is one
    more above all scores. A score of -inf is never above a cut. Given thresholds are cuts, too.
    """

    values: Floats
    positives: Floats
    negatives: Floats
    P: float
    N: float
    false_alarms: Floats  # cost of negatives above each cut
    misses: Floats  # cost of positives not above each cut
    reviews: Floats  # cost of reviewing all rows above each cut
    classes: tuple[Floats, ...]

    @classmethod
    def of(cls, rows: BandRows, thresholds: Floats | None = None) -> Cuts:
        """Count above every cut of the scores, or above the given thresholds."""
        positive, scores, weights, costs = rows
        values = np.unique(scores) if thresholds is None else thresholds
        if thresholds is None:
            values = values[values > -np.inf]

        def above(own: ClassScores) -> Floats:
            if thresholds is not None:
                return own.above(thresholds)
            return np.append(own.at_or_above(values), 0.0)

        own = [ClassScores(scores, weights, member) for member in (positive, ~positive)]
        tp, fp = map(above, own)
        P, N = (c.total for c in own)
        sums, wholes = [], []
        for cost, member, total, count in (
            (costs[0], ~positive, N, fp),
            (costs[1], positive, P, tp),
            (costs[2], np.ones(len(scores), dtype=bool), P + N, tp + fp),
        ):
            if isinstance(cost, float):
                sums.append(cost * count)
                wholes.append(cost * total)
            else:
                weighted = ClassScores(scores, cost if weights is None else cost * weights, member)
                sums.append(above(weighted))
                wholes.append(weighted.total)
        classes = tuple(c.sorted for c in own if len(c.sorted))
        return cls(values, tp, fp, P, N, sums[0], wholes[1] - sums[1], sums[2], classes)

    @property
    def above(self) -> Floats:
        """R, the weight above each cut, which falls."""
        return self.positives + self.negatives

    @property
    def counts(self) -> BandCounts:
        """Alarms above, and cleared rows not above, each cut."""
        clear = self.P - self.positives, self.N - self.negatives
        return BandCounts(self.positives, self.negatives, *clear, 0.0, self.P, self.N)

    def threshold(self, cut: int) -> float:
        """Return the threshold of a cut of the scores, halfway between two of them."""
        lowest = None if cut == len(self.values) else self.values[cut]
        return threshold_below(lowest, *self.classes)

    def objective(self, goal: BandGoal) -> tuple[Floats, Floats]:
        """Return f over upper and g over lower cuts: the objective, to be minimised, is f + g."""
        which = goal.objective
        if which.side == "review":
            return -self.above, self.above
        if which.side == "cost":
            return self.false_alarms - self.reviews, self.misses + self.reviews
        nothing = np.zeros(len(self.positives))
        with np.errstate(all="ignore"):
            # Without one of the classes it may be NaN everywhere, and then it does not matter.
            loss = np.nan_to_num(nothing - which.sign * which.value(self.counts))
        return (loss, nothing) if which.side == "alarm" else (nothing, loss)


# --- the search -----------------------------------------------------------------------------------


def best_pair(cuts: Cuts, goal: BandGoal) -> tuple[int, int] | None:
    """Return the best lower and upper cut for a goal."""
    with np.errstate(all="ignore"):
        sides = [
            np.broadcast_to(
                sum((c.violation(cuts.counts) for c in goal.of_side(side)), np.float64(0.0)),
                len(cuts.positives),
            )
            for side in ("alarm", "clear")
        ]
    limit = None if goal.most_reviews is None else goal.most_reviews * (cuts.P + cuts.N)
    return search_pairs(cuts, goal, *sides, limit=limit)


def search_pairs(
    cuts: Cuts,
    goal: BandGoal,
    alarm_violation: Floats,
    clear_violation: Floats,
    *,
    limit: float | None = None,
    strict: bool = False,
) -> tuple[int, int] | None:
    """Return the lower and the upper cut of the best pair, given what each violates.

    An infinite violation excludes a cut. ``limit`` is the weight of reviews to be allowed; what
    exceeds it adds to the violation, as a rate. With ``strict``, two different cuts with more
    reviews are excluded. None if all pairs are.
    """
    V, W = alarm_violation, clear_violation
    f, g = cuts.objective(goal)
    R, total = cuts.above, cuts.P + cuts.N
    upper = np.arange(len(R))
    first = np.zeros(len(R), dtype=np.intp)  # of the window of each upper cut
    if limit is not None:
        within = np.searchsorted(R[::-1], R + limit + TOLERANCE * total, side="right")
        first = np.minimum(len(R) - within, upper)
    order = np.lexsort((-upper, R, g, np.round(W * _STEPS)))
    pairs = [(order[_range_minima(_ranks(order), first, upper)], upper)]
    if not strict and first.any():
        order = np.lexsort((-upper, R, g, np.round((W + R / total) * _STEPS)))
        beyond = np.flatnonzero(first > 0)
        least = np.minimum.accumulate(_ranks(order))
        pairs.append((order[least[first[beyond] - 1]], beyond))
    low, high = (np.concatenate(side) for side in zip(*pairs, strict=True))
    violation = V[high] + W[low]
    if limit is not None and not strict:
        excess = (R[low] - R[high] - limit) / total
        violation = violation + np.where(excess > TOLERANCE, excess, 0.0)
    if not np.isfinite(violation.min()):
        return None
    best = np.flatnonzero(violation <= violation.min() + 1 / _STEPS)
    keys = (f[high] + g[low], R[low] - R[high], -cuts.positives[high], cuts.negatives[high])
    for key in keys:
        values = key[best]
        best = best[values == values.min()]
    return int(low[best[0]]), int(high[best[0]])


def _ranks(order: NDArray[np.intp]) -> NDArray[np.intp]:
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return ranks


def _range_minima(
    values: NDArray[np.intp], first: NDArray[np.intp], last: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the minimum of values[first..last] for each pair of ends.

    A range of length n is covered by two of length 2^k <= n < 2^(k+1). Minima of all ranges of
    length 2^k are computed for one k after the other, which takes the memory of two arrays.
    """
    if not first.any() and np.array_equal(last, np.arange(len(values))):
        return np.minimum.accumulate(values)
    level = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    found = np.empty_like(values)
    for k in range(int(level.max()) + 1):
        asked = np.flatnonzero(level == k)
        found[asked] = np.minimum(values[first[asked]], values[last[asked] + 1 - (1 << k)])
        if 2 << k <= len(last):
            values = np.minimum(values[: -(1 << k)], values[1 << k :])
    return found
