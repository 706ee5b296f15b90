"""Nested goals, for which all thresholds are tested at once with the whole error.

Recall only falls as the threshold rises, and so does the number of true positives. Let t* be the
threshold at which the true recall falls to its floor. If a threshold above t* passes its binomial
test, so does t*, which has at least as many true positives; and t* is one fixed threshold, whose
test passes with a probability of at most 1 - confidence. So the highest threshold that passes is
certified, and so is every lower one, on all rows and without a plan. The same holds, mirrored, for
ceilings on fpr and the alarm rate, but not for precision, which is not monotone in the threshold.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from setpoint.certificates.sequence import Rows, worst_p_value
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import ALARM_RATE, Metric
from setpoint.thresholds.sweep import threshold_below

_CUTS = 20_000  # compared by their objective; of more, evenly spaced ones including both ends


def is_nested(goal: Goal) -> bool:
    """Return whether all constraints become safer in the same direction of the threshold."""
    metrics = [c.metric for c in goal.constraints]
    same = all(map(_is_safe_below, metrics)) or all(map(_is_safe_above, metrics))
    return bool(metrics) and same


def _is_safe_below(metric: Metric) -> bool:
    """Whether a lower threshold never makes the metric worse: recall and fnr."""
    return metric.population == "positives"


def _is_safe_above(metric: Metric) -> bool:
    """Whether a higher threshold never makes the metric worse: fpr, specificity, alarm_rate."""
    return metric.population == "negatives" or metric == ALARM_RATE


def best_nested_threshold(rows: Rows, goal: Goal, alpha: float) -> float:
    """Return the threshold with the best objective among those that pass.

    If none passes, it is the safest one that still finds a positive, or inf without rows of the
    class that the constraints count. A floor on recall needs positives only; without negatives, the
    highest threshold that passes is the best.
    """
    P, N = rows.totals
    above = _is_safe_above(goal.constraints[0].metric)
    if P == 0 or (above and N == 0):
        return np.inf
    positive, negative = rows
    cuts = positive.sorted[positive.sorted > -np.inf]  # no threshold lies below -inf
    if len(cuts) == 0:
        return np.inf
    if above:
        cuts = cuts[::-1]  # the safest first

    def p_value(i: int) -> float:
        at = cuts[i : i + 1]
        tp, fp = positive.at_or_above(at), negative.at_or_above(at)
        return float(worst_p_value(goal, tp, fp, P, N)[0])

    passed = bisect_right(range(len(cuts)), alpha, key=p_value)  # p-values do not decrease
    if passed == 0:
        return threshold_below(cuts[0], positive.sorted, negative.sorted)
    safe = cuts[np.unique(np.linspace(0, passed - 1, min(passed, _CUTS)).astype(int))]
    tp, fp = positive.at_or_above(safe), negative.at_or_above(safe)
    with np.errstate(all="ignore"):
        gain = np.nan_to_num(goal.gain(tp, fp, P, N), nan=-np.inf)
    best = safe[int(np.argmax(gain)) if N else -1]
    return threshold_below(best, positive.sorted, negative.sorted)
