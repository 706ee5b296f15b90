"""Bounds on one metric at a threshold: exact, estimated, or at another prevalence.

A metric that is a fraction of independent draws has an exact bound. Any other gets an estimate by
the bootstrap. Exact bounds on recall and fpr give bounds on any metric at another prevalence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from setpoint.certificates.rates import lower_bound, rate_of, upper_bound
from setpoint.goals.metrics import Metric, is_built_in
from setpoint.thresholds.operating_point import OperatingPoint

Kind = Literal["exact", "estimate"]


@dataclass(frozen=True)
class Bound:
    """What is known of one metric at the threshold.

    Attributes
    ----------
    metric : Metric
        The metric.
    level : float or None
        What the goal asks of it; None for the objective.
    value : float
        What it is on the certifying rows.
    bound : float or None
        What it is at least (or at most, for metrics of which less is better), by itself, with the
        certificate's confidence. None where nothing can be said.
    kind : {"exact", "estimate"}
        An exact binomial bound, or a bootstrap's estimate, which is no guarantee.
    successes, trials : int or None
        The draws behind an exact bound.
    p_value : float or None
        How likely counts this good would be if the level were just missed.
    """

    metric: Metric
    level: float | None
    value: float
    bound: float | None
    kind: Kind
    successes: int | None = None
    trials: int | None = None
    p_value: float | None = None

    def __str__(self) -> str:
        relation = ">=" if self.metric.direction == "max" else "<="
        seen = f"observed {self.value:.4f}"
        if self.trials == 0 or np.isnan(self.value):
            seen = "not observed"
        draws = "" if self.trials is None else f", {self.successes} of {self.trials}"
        if self.bound is None:
            return f"{self.metric}: {seen}{draws}; no bound"
        how = "exact" if self.kind == "exact" else "bootstrap estimate, no guarantee"
        known = weaker(self.metric, self.bound)
        return f"{self.metric} {relation} {known:.4f} ({seen}{draws}; {how})"


def bounds_of(
    point: OperatingPoint, confidence: float, tested: int | None, certified: bool
) -> tuple[Bound, ...]:
    """Return what is known of each constrained metric, and of the objective, at a point.

    A bound allows for all the thresholds that were to be tested: each gets its share of the error.
    Where several were, it is known of a certified constraint that its level holds, and that is its
    bound; of one that is not certified there is none. To give whichever of two bounds is at hand
    would add up their errors. Where all thresholds were tested (None), nothing else is known.
    """
    goal, at = point.goal, point.counts
    each = None if tested is None else 1 - (1 - confidence) / tested
    asked = [(c.metric, c.level) for c in goal.constraints]
    bounds = []
    for which, level in [*asked, (goal.objective, None)]:
        rate, value = rate_of(which), point.value(which.name)
        if rate is None:
            estimate = None
            if tested == 1:  # a bootstrap at a chosen threshold would flatter it
                estimate = bootstrap_bound(which, confidence, *map(float, at))
            bounds.append(Bound(which, level, value, estimate, "estimate"))
            continue
        successes, trials = (int(x) for x in rate.draws(*at))
        p = None if level is None else float(rate.p_value(level, *at))
        exact = None if each is None else rate.bound(each, *at)
        if level is not None and tested != 1:
            exact = level if certified else None
        bounds.append(Bound(which, level, value, exact, "exact", successes, trials, p))
    return tuple(bounds)


def says_something(which: Metric, point: OperatingPoint, confidence: float) -> bool:
    """Whether the rows behind a point give an exact bound that is not the metric's worst value."""
    rate = rate_of(which)
    worst = 0.0 if which.direction == "max" else 1.0
    return rate is not None and rate.bound(confidence, *point.counts) != worst


def weaker(which: Metric, bound: float) -> float:
    """Return a bound with four digits, rounded to its weaker side."""
    if not np.isfinite(bound):
        return bound
    digits = round(bound, 9)  # 0.9 is not 0.8999 for its last bit
    towards = math.floor if which.direction == "max" else math.ceil
    return towards(round(digits * 10_000, 5)) / 10_000


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
