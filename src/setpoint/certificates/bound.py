"""What is known of one metric at a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from setpoint.certificates.estimate import bootstrap_bound
from setpoint.certificates.rates import rate_of
from setpoint.metrics import Metric
from setpoint.operating_point import OperatingPoint

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
