"""The best cuts of several labels for a metric of their summed counts (micro average).

Every label has its own cuts, each with TP and FP. A micro average is a metric of the sums over the
labels, so that the cut of one label depends on those of all others. Two exact methods:

- :func:`best_quotient`, for a metric that is a quotient of linear functions of the counts and
  constraints that each label meets by itself. Dinkelbach's method: at a value v, the difference
  ``numerator - v * denominator`` is a sum over the labels, and each label maximises its own term.
- :func:`best_total`, for constraints on the summed counts, which couple the labels like the items
  of a knapsack. For unweighted rows, a table holds the fewest false positives for each total TP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import GoalError
from setpoint.goals.goal import Goal
from setpoint.goals.linear_fraction import LinearFraction
from setpoint.goals.metrics import ALARM_RATE, Metric
from setpoint.thresholds.sweep import ClassScores, Floats, best_index, threshold_below

_MOST_WORK = 400_000_000  # steps of the table in best_total: a few seconds
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class LabelCuts:
    """The cuts of one label that its goal allows.

    Attributes
    ----------
    lowest : ndarray
        The lowest score that is predicted positive; NaN for the cut without predicted positives.
    tp, fp : ndarray
        The counts at each cut.
    P, N : float
        The totals of the classes.
    scores : tuple of ndarray
        The sorted scores of both classes; empty for a label of one class.
    """

    lowest: Floats
    tp: Floats
    fp: Floats
    P: float
    N: float
    scores: tuple[Floats, ...]

    @classmethod
    def of(
        cls, positive: NDArray[np.bool_], scores: Floats, weights: Floats | None, goal: Goal
    ) -> LabelCuts:
        """Return the cuts that meet a goal's constraints; if none does, those that miss it least.

        Where a further false positive never helps, cuts just below a positive's score are enough.
        A label of one class has one cut: nothing is predicted positive without positives, and
        everything without negatives.
        """
        of_class = [ClassScores(scores, weights, member) for member in (positive, ~positive)]
        P, N = (c.total for c in of_class)
        if not (P and N):
            return cls(np.array([np.nan]), np.array([P]), np.array([0.0]), P, N, ())
        tops = [np.array([np.nan]), *_distinct(of_class[0])]
        if not _fewer_fp_is_better(goal):
            tops += _distinct(of_class[1])
        lowest = np.concatenate(tops).astype(scores.dtype)
        tp, fp = (c.at_or_above(lowest) for c in of_class)
        tp[0] = fp[0] = 0.0  # at NaN
        with np.errstate(all="ignore"):
            missed = np.broadcast_to(goal.violation(tp, fp, P, N), tp.shape)
        kept = missed == missed.min()
        return cls(lowest[kept], tp[kept], fp[kept], P, N, tuple(c.sorted for c in of_class))

    def best(self, of_tp: float, of_fp: float) -> int:
        """Return the cut with the largest ``of_tp * TP + of_fp * FP``, then more TP, fewer FP."""
        value = of_tp * self.tp + of_fp * self.fp
        found = np.flatnonzero(value == value.max())
        return int(found[np.lexsort((self.fp[found], -self.tp[found]))[0]])

    def threshold(self, cut: int) -> float:
        """Return the threshold of a cut, which is infinite for a label of one class."""
        if not self.scores:
            return np.inf if self.N else -np.inf
        lowest = float(self.lowest[cut])
        return threshold_below(None if np.isnan(lowest) else lowest, *self.scores)


class Combination(NamedTuple):
    """A cut for each label, with the summed counts; ``steps`` counts the values tried."""

    cuts: tuple[int, ...]
    tp: float
    fp: float
    steps: int = 0


def best_quotient(labels: Sequence[LabelCuts], objective: Metric) -> Combination:
    """Return the cuts with the best value of a quotient of the summed counts.

    Dinkelbach's method. With u and b for numerator and denominator, which are linear in the sums,
    and v = u/b at the present cuts, the next cuts maximise ``u - v b``. If they have a larger
    quotient they are taken; if not, the maximum is 0 and v is the largest quotient. Numerators are
    negated for a metric where lower is better. Differences are cleared of the denominator,
    ``b(old) u - u(old) b``, so that whole counts are compared without rounding.

    Ties are broken by more true positives, then by fewer false positives. The cuts whose
    denominator is 0, such as none predicted positive for precision, have the metric's value there.
    """
    if objective.fraction is None:
        raise GoalError(
            f"'{objective}' is not a quotient of linear functions of the counts, so its micro "
            "average cannot be optimised exactly; use average='macro'."
        )
    P, N = (sum(getattr(label, name) for label in labels) for name in ("P", "N"))
    quotient = _Quotient.of(objective.fraction, objective.sign, P, N)
    present = _combined(labels, *quotient.bottom)
    top, bottom = quotient.parts(present)
    steps = 0
    while bottom > 0:
        steps += 1
        (u_tp, u_fp), (b_tp, b_fp) = quotient.top, quotient.bottom
        new = _combined(labels, bottom * u_tp - top * b_tp, bottom * u_fp - top * b_fp)
        new_top, new_bottom = quotient.parts(new)
        if not new_bottom > 0:
            break
        gained = new_top * bottom - top * new_bottom
        if gained >= -_ROUNDING * abs(top * new_bottom):
            present, top, bottom = new, new_top, new_bottom  # ties are broken in the new one
        if gained <= _ROUNDING * abs(top * new_bottom):
            break
    least = _combined(labels, *(-b for b in quotient.bottom))
    if quotient.parts(least)[1] == 0:  # 0/0, which has a value by convention
        value = objective.sign * objective.fraction.empty
        if bottom == 0 or _key(value, least) > _key(top / bottom, present):
            present = least
    return present._replace(steps=steps)


def best_total(labels: Sequence[LabelCuts], goal: Goal, *, weighted: bool) -> Combination:
    """Return the cuts whose summed counts meet a goal best, constraints on the sums included.

    With unweighted rows there are at most P + 1 different totals of TP. A table holds the fewest
    total FP for each, label by label; the best entry is found by the goal. This is exact if fewer
    false positives never make any metric worse.
    """
    named = ", ".join(str(c) for c in goal.constraints)
    if weighted:
        raise GoalError(
            f"'{named}' on the sum of all labels couples their thresholds, like the items of a "
            "knapsack, which is solved exactly for unweighted rows only; leave sample_weight out, "
            "or constrain each label."
        )
    if not _fewer_fp_is_better(goal):
        raise GoalError(
            f"'{named}' on the sum of all labels needs metrics that never get worse with fewer "
            "false positives; constrain each label instead."
        )
    P, N = (sum(getattr(label, name) for label in labels) for name in ("P", "N"))
    size = int(P) + 1
    work = size * sum(len(label.tp) for label in labels)
    if work > _MOST_WORK:
        raise GoalError(
            f"'{named}' on the sum of all labels couples their thresholds, like the items of a "
            f"knapsack, and {work:.2g} steps are too many; constrain each label instead, or use "
            "fewer rows."
        )
    fewest = np.full(size, np.inf)
    fewest[0] = 0.0
    taken: list[NDArray[np.int32]] = []
    for label in labels:
        last, fewest = fewest, np.full(size, np.inf)
        cut_of = np.zeros(size, dtype=np.int32)
        for cut, (tp, fp) in enumerate(zip(label.tp.astype(int), label.fp, strict=True)):
            candidate = last[: size - tp] + fp
            better = candidate < fewest[tp:]
            fewest[tp:][better] = candidate[better]
            cut_of[tp:][better] = cut
        taken.append(cut_of)
    totals = np.flatnonzero(np.isfinite(fewest))
    with np.errstate(divide="ignore", invalid="ignore"):
        chosen = best_index(goal, totals.astype(np.float64), fewest[totals], P, N)
    total = left = int(totals[chosen])
    cuts: list[int] = []
    for label, cut_of in zip(reversed(labels), reversed(taken), strict=True):
        cuts.append(int(cut_of[left]))
        left -= int(label.tp[cuts[-1]])
    return Combination(tuple(reversed(cuts)), float(total), float(fewest[total]))


class _Quotient(NamedTuple):
    """A quotient of linear functions of the summed counts, larger where better."""

    top: tuple[float, float]  # coefficients of TP and FP
    bottom: tuple[float, float]
    constants: tuple[float, float]

    @classmethod
    def of(cls, fraction: LinearFraction, sign: int, P: float, N: float) -> _Quotient:
        n0, n1, n2 = (sign * float(n) for n in fraction.numerator(P, N))
        d0, d1, d2 = (float(d) for d in fraction.denominator(P, N))
        return cls((n1, n2), (d1, d2), (n0, d0))

    def parts(self, at: Combination) -> tuple[float, float]:
        """Return numerator and denominator."""
        top, bottom = (
            constant + of_tp * at.tp + of_fp * at.fp
            for constant, (of_tp, of_fp) in zip(
                self.constants, (self.top, self.bottom), strict=True
            )
        )
        return top, bottom


def _combined(labels: Sequence[LabelCuts], of_tp: float, of_fp: float) -> Combination:
    """Return the cuts that maximise a linear function of the counts, label by label."""
    cuts = tuple(label.best(of_tp, of_fp) for label in labels)
    tp, fp = (
        float(sum(getattr(label, name)[cut] for label, cut in zip(labels, cuts, strict=True)))
        for name in ("tp", "fp")
    )
    return Combination(cuts, tp, fp)


def _key(value: float, at: Combination) -> tuple[float, float, float]:
    return value, at.tp, -at.fp


def _fewer_fp_is_better(goal: Goal) -> bool:
    """Whether fewer false positives, at the same true positives, never make a metric worse."""
    return all(which.monotone or which == ALARM_RATE for which in goal.metrics)


def _distinct(scores: ClassScores) -> list[Floats]:
    """Return the scores of a class, each once, without -inf."""
    return [scores.sorted[index] for index in scores.distinct()]
