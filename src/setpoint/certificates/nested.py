"""Nested goals, for which all thresholds are tested at once with the whole error.

Recall only falls as the threshold rises, and so does the number of true positives. Let t* be the
threshold at which the true recall falls to its floor. If a threshold above t* passes its binomial
test, so does t*, which has at least as many true positives; and t* is one fixed threshold, whose
test passes with a probability of at most 1 - confidence. So the highest threshold that passes is
certified, and so is every lower one, on all rows and without a plan. The same holds, mirrored, for
ceilings on fpr and the alarm rate, but not for precision, which is not monotone in the threshold.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.sequence import Rows, worst_p_value
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import threshold_below

Floats = NDArray[np.floating]

_CUTS = 20_000  # compared by their objective; of more, evenly spaced ones including both ends
_SAFE_BELOW = frozenset({"recall", "fnr"})
_SAFE_ABOVE = frozenset({"fpr", "specificity", "alarm_rate"})


def is_nested(goal: Goal) -> bool:
    """Return whether all constraints become safer in the same direction of the threshold."""
    names = {c.metric.name for c in goal.constraints}
    return bool(names) and (names <= _SAFE_BELOW or names <= _SAFE_ABOVE)


def best_nested_threshold(rows: Rows, goal: Goal, alpha: float) -> tuple[float, bool]:
    """Return the threshold with the best objective among those that pass, and whether any does.

    If none passes, it is the safest one that still finds a positive.
    """
    P, N = rows.totals
    if P == 0 or N == 0:
        return np.inf, False
    positive, negative = rows
    cuts = positive.sorted[positive.sorted > -np.inf]  # no threshold lies below -inf
    if len(cuts) == 0:
        return np.inf, False
    if goal.constraints[0].metric.name in _SAFE_ABOVE:
        cuts = cuts[::-1]  # the safest first

    def p_value(i: int) -> Floats:
        at = cuts[i : i + 1]
        return worst_p_value(goal, positive.at_or_above(at), negative.at_or_above(at), P, N)

    passed = _first_failure(p_value, len(cuts), alpha)
    if passed == 0:
        return threshold_below(cuts[0], positive.sorted, negative.sorted), False
    safe = cuts[np.unique(np.linspace(0, passed - 1, min(passed, _CUTS)).astype(int))]
    tp, fp = positive.at_or_above(safe), negative.at_or_above(safe)
    with np.errstate(all="ignore"):
        gain = np.nan_to_num(goal.gain(tp, fp, P, N), nan=-np.inf)
    best = safe[int(np.argmax(gain))]
    return threshold_below(best, positive.sorted, negative.sorted), True


def _first_failure(p_value: Callable[[int], Floats], length: int, alpha: float) -> int:
    """Return the first index whose p-value is above alpha; p-values do not decrease."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if p_value(middle) <= alpha else (low, middle)
    return low
