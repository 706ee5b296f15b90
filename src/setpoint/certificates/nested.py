"""Tests of monotone metrics at all thresholds at once, each with the whole error.

Recall only falls as the threshold rises, and so does the number of true positives. Let t* be the
threshold at which the true recall falls to its floor. If a threshold above t* passes its binomial
test, so does t*, which has at least as many true positives; and t* is one fixed threshold, whose
test passes with a probability of at most 1 - confidence. So the highest threshold that passes is
certified, and so is every lower one, on all rows and without a plan. The same holds, mirrored, for
ceilings on fpr and the alarm rate, but not for precision, which is not monotone in the threshold.

Several constraints that become safer in the same direction share one t*, the first threshold that
misses any of them, and each has the whole error.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.rates import p_value
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import ALARM_RATE, Metric

Floats = NDArray[np.floating]


def is_nested(goal: Goal) -> bool:
    """Return whether all constraints become safer in the same direction of the threshold."""
    metrics = [c.metric for c in goal.constraints]
    same = all(map(_is_safe_below, metrics)) or all(map(_is_safe_above, metrics))
    return bool(metrics) and same


def is_monotone(metric: Metric) -> bool:
    """Return whether a metric is a fraction that becomes safer in one direction."""
    return _is_safe_below(metric) or _is_safe_above(metric)


def _is_safe_below(metric: Metric) -> bool:
    """Whether a lower threshold never makes the metric worse: recall and fnr."""
    return metric.population == "positives"


def _is_safe_above(metric: Metric) -> bool:
    """Whether a higher threshold never makes the metric worse: fpr, specificity, alarm_rate."""
    return metric.population == "negatives" or metric.plain == ALARM_RATE


@dataclass(frozen=True)
class NestedTest:
    """A test of a monotone metric on P positives and N negatives."""

    constraint: Constraint
    P: float
    N: float

    def passes(
        self, tp_least: Floats, alarms_most: Floats, fp_most: Floats, error: float
    ) -> Floats:
        """Return whether thresholds with these counts, at worst, pass with an error."""
        metric = self.constraint.metric
        if _is_safe_below(metric):
            least = bisect_left(range(int(self.P) + 1), True, key=lambda i: self._p(i, 0) <= error)
            return np.asarray(tp_least >= least)
        if metric.plain == ALARM_RATE:
            total = int(self.P + self.N)
            most = bisect_right(range(total + 1), error, key=lambda i: self._p(i, 0)) - 1
            return np.asarray(alarms_most <= most)
        most = bisect_right(range(int(self.N) + 1), error, key=lambda i: self._p(0, i)) - 1
        return np.asarray(fp_most <= most)

    def _p(self, tp: float, fp: float) -> float:
        return float(p_value(self.constraint, float(tp), float(fp), self.P, self.N))
