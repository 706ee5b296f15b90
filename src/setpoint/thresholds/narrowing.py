"""The best cut of many scores, with a sort of the few among which it lies.

Scores are counted in intervals between the lowest and the highest positive score. At the lower end
of an interval, TP and FP are exact. A cut inside of it has at most that many true positives, and at
least the false positives above the interval: for a monotone goal these two counts give a bound.
Intervals whose bound is below the best lower end cannot hold the best cut. What remains is divided
again, until it is small enough to be sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setpoint.thresholds.sweep import Cut, Floats, Ranking, best_index, rank_of, sort_keys

MANY = 2**14  # scores from which on intervals are faster than a sort
_INTERVALS = 1024


def best_cut_of_many(
    positive: Floats, negative: Floats, goal: Ranking
) -> tuple[Cut, Floats, Floats] | None:
    """Return the cut of :func:`setpoint.thresholds.sweep.best_cut`, and the scores around it.

    The scores are those that the threshold depends on, sorted, of each class. None where it is not
    found in this way: for infinite scores, or where no alarm or nothing but alarms is best.

    Parameters
    ----------
    positive, negative : ndarray
        The scores of each class, unweighted.
    goal : Ranking
        It must be monotone.
    """
    P, N = float(len(positive)), float(len(negative))
    tp = fp = 0.0  # above the scores that are left
    tps: Floats
    fps: Floats
    with np.errstate(all="ignore"):
        while (count := len(positive) + len(negative)) > MANY:
            low, high = positive.min(), positive.max()
            scale = _INTERVALS / (high - low)
            if not 0 < scale < np.inf:
                break
            at_p, at_n = (_interval(scores, low, scale) for scores in (positive, negative))
            in_p, in_n = (np.bincount(at, minlength=_INTERVALS + 2) for at in (at_p, at_n))
            tp_from, fp_from = (c + x[::-1].cumsum()[::-1] for c, x in ((tp, in_p), (fp, in_n)))
            held = np.flatnonzero(in_p)
            tps, fps = tp_from[held], fp_from[held]
            best = best_index(goal, tps, fps, P, N)
            least, most, *_ = rank_of(goal, tps[best], fps[best], P, N)
            kept, gain, *_ = sort_keys(goal, tps, fps - in_n[held], P, N)
            could = held[(kept > least) | ((kept == least) & (gain >= most))]
            if not len(could):
                return None
            first, last = could[0], could[-1]
            tp, fp = tp_from[last] - in_p[last], fp_from[last] - in_n[last]
            # The threshold lies between the best cut and the next score below it.
            pairs = (positive, at_p), (negative, at_n)
            below = max(scores[at < first].max(initial=-np.inf) for scores, at in pairs)
            positive = positive[(at_p >= first) & (at_p <= last)]
            negative = np.append(negative[(at_n >= first) & (at_n <= last)], below)
            if len(positive) + len(negative) > count / 2:
                break
        positive, negative = np.sort(positive), np.sort(negative)
        values = np.unique(positive)
        tps = tp + len(positive) - np.searchsorted(positive, values)
        fps = fp + len(negative) - np.searchsorted(negative, values)
        best = best_index(goal, tps, fps, P, N)
        found = Cut(float(values[best]), float(tps[best]), float(fps[best]))
        lowest = found.lowest_positive == positive[0] and not -np.inf < negative[0] < positive[0]
        none = rank_of(goal, found.tp, found.fp, P, N) <= rank_of(goal, 0.0, 0.0, P, N)
        if lowest or none:
            return None
    return found, positive, negative


def _interval(scores: Floats, low: Floats, scale: Floats) -> NDArray[np.intp]:
    """Return the interval of each score; 0 is below the lowest positive score."""
    place = scores - low
    place *= scale
    place += 1
    return np.clip(place, 0, _INTERVALS + 1, out=place).astype(np.intp)
