"""Bounds that are estimates: for metrics that are not a share of independent draws."""

from __future__ import annotations

import numpy as np

from setpoint.metrics import Metric

_DRAWS = 2000


def bootstrap_bound(
    which: Metric, confidence: float, tp: float, fp: float, P: float, N: float
) -> float:
    """Return the percentile bootstrap's bound on the metric's good side, at a fixed threshold.

    Rows are drawn again; of them only the four counts matter, which are multinomial. Draws without
    one of the classes say nothing of most metrics and count as the worst value.
    """
    total = P + N
    worst = which.bounds[0] if which.direction == "max" else which.bounds[1]
    if not total > 0:
        return worst
    cells = np.array([tp, fp, P - tp, N - fp]) / total
    drawn = np.random.default_rng(0).multinomial(round(total), cells, size=_DRAWS).astype(float)
    with np.errstate(all="ignore"):
        values = np.array(
            [
                float(
                    which.value(np.float64(a), np.float64(b), np.float64(a + c), np.float64(b + d))
                )
                for a, b, c, d in drawn
            ]
        )
    values[np.isnan(values)] = worst
    if which.direction == "max":
        return float(np.quantile(values, 1 - confidence, method="lower"))
    return float(np.quantile(values, confidence, method="higher"))
