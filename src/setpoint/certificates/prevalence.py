"""What recall and fpr say of any metric where another share of the cases is positive."""

from __future__ import annotations

import numpy as np

from setpoint.certificates.rates import lower_bound, upper_bound
from setpoint.metrics import Metric, is_built_in


def bound_at_prevalence(
    which: Metric,
    prevalence: float,
    counts: tuple[float, float, float, float],
    confidence: float,
    tested: int | None = 1,
) -> tuple[float, float | None]:
    """Return the metric's value and its bound at a prevalence.

    With a share pi of positives, recall r and fpr f, a metric m of the counts is
    m(pi r, (1 - pi) f, pi, 1 - pi). If it is monotone, it is worst at the least r and the greatest
    f, and these two bounds hold together with the confidence, each with half the error. The bound
    of a metric that is not monotone is not known and None, but for the alarm rate, which is
    largest at the greatest r and f. Metrics of a user's own may depend on more than shares; their
    bound is None too.
    """
    tp, fp, P, N = (float(x) for x in counts)
    if P == 0 or N == 0:
        return float("nan"), None

    def at(recall: float, fpr: float) -> float:
        tp, fp = np.float64(prevalence * recall), np.float64((1 - prevalence) * fpr)
        with np.errstate(all="ignore"):
            return float(which.value(tp, fp, prevalence, 1 - prevalence))

    value = at(tp / P, fp / N)
    if tested is None:  # the threshold was chosen among all: no bound on recall and fpr holds there
        return value, None
    each = 1 - (1 - confidence) / 2 / tested
    most_fpr = upper_bound(fp, N, each)
    if not is_built_in(which.name.split("(")[0]):
        return value, None
    if which.monotone:
        return value, at(lower_bound(tp, P, each), most_fpr)
    if which.name == "alarm_rate":
        return value, at(upper_bound(tp, P, each), most_fpr)
    return value, None
