"""Bounds on one metric at a threshold: exact, estimated, or at another prevalence.

A metric that is a fraction of independent draws has an exact bound; any other has a bootstrap
estimate. Exact bounds on recall and fpr give bounds on other metrics at another prevalence.

Recall and fpr have bounds that hold at all thresholds at once. The scores of P positives have an
empirical distribution function, and with a probability of at most alpha <= 1/2 it exceeds the true
one anywhere by sqrt(log(1 / alpha) / (2 P)) or more (Massart, 1990). For a small fpr that is too
coarse. There, bounds hold at the scores of certain ranks among the negatives: the fpr at the r-th
highest of N scores has, or is below, a beta distribution with parameters r and N + 1 - r. Any other
threshold has at most the fpr of the next such score below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import betaincinv

from setpoint.certificates.rates import lower_bound, rate_of, upper_bound
from setpoint.goals.budgets import is_count
from setpoint.goals.metrics import Metric, format_number, is_built_in
from setpoint.thresholds.operating_point import OperatingPoint

Kind = Literal["exact", "estimate"]


@dataclass(frozen=True)
class Bound:
    """The value of one metric at the threshold, and a bound on it for new data.

    Attributes
    ----------
    metric : Metric
        The metric.
    level : float or None
        The level that the goal requires; None for the objective.
    value : float
        The value on the certification rows.
    bound : float or None
        A lower bound, or an upper one where smaller is better. It holds on its own with the
        certificate's confidence. None if no bound is known.
    kind : {"exact", "estimate"}
        An exact binomial bound, or a bootstrap estimate, which is not a guarantee.
    successes, trials : int or None
        The counts behind an exact bound.
    p_value : float or None
        The probability of counts at least this good if the level were just missed.
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
        return self.named(str(self.metric))

    def named(self, name: str) -> str:
        """Return the bound as text, with a name for its metric."""
        relation = ">=" if self.metric.direction == "max" else "<="
        observed = f"observed {self._number(self.value)}"
        if self.trials == 0 or np.isnan(self.value):
            observed = "not observed"
        draws = "" if self.trials is None else f", {self.successes} of {self.trials}"
        if self.bound is None:
            return f"{name}: {observed}{draws}; no bound"
        kind = "exact" if self.kind == "exact" else "bootstrap estimate, no guarantee"
        bound = self._number(round_conservatively(self.metric, self.bound))
        return f"{name} {relation} {bound} ({observed}{draws}; {kind})"

    def _number(self, value: float) -> str:
        return format_number(value) if is_count(self.metric) else f"{value:.4f}"


def bounds_of(
    point: OperatingPoint,
    confidence: float,
    tested: int | None,
    certified: bool,
    everywhere: bool = True,
    counted: Sequence[tuple[Any, Any, float, float]] | None = None,
) -> tuple[Bound, ...]:
    """Return the bounds on each constrained metric, and on the objective, at a point.

    Bounds are valid for all ``tested`` thresholds at once; None means all thresholds. With several
    thresholds, the bound of a certified constraint is its level, and one that is not certified has
    no bound: choosing between two bounds would add up their errors. The bound of the objective then
    holds at all thresholds if that is possible and wanted (``everywhere``, which must not depend on
    the rows of the point); otherwise the thresholds divide the error equally. ``counted`` holds the
    counts of each constraint where these are not those of the point.
    """
    goal = point.goal
    each = None if tested is None else 1 - (1 - confidence) / tested
    required = [(c.metric, c.level) for c in goal.constraints]
    bounds = []
    for i, (which, level) in enumerate([*required, (goal.objective, None)]):
        counts, rate = point.counts, rate_of(which)
        if counted is None or level is None:
            value = point.value(which.name)
        else:
            tp, fp, P, N = (np.float64(np.squeeze(x)) for x in counted[i])
            counts = tp, fp, P, N
            with np.errstate(all="ignore"):
                value = float(which.value(*counts))
        if rate is None:
            estimate = None
            if tested == 1:  # at a threshold chosen among several, it would be optimistic
                estimate = bootstrap_bound(which, confidence, *map(float, counts))
            bounds.append(Bound(which, level, value, estimate, "estimate"))
            continue
        successes, trials = (int(x) for x in rate.draws(*counts))
        p = None if level is None else float(rate.p_value(level, *counts))
        exact = None if each is None else rate.bound(each, *counts)
        if level is not None and tested != 1:
            exact = level if certified else None
        elif (
            tested != 1
            and (everywhere or tested is None)
            and has_bound_everywhere(which, confidence)
        ):
            exact = bound_everywhere(which, confidence, successes, trials)
        bounds.append(Bound(which, level, value, exact, "exact", successes, trials, p))
    return tuple(bounds)


def is_sharper_everywhere(
    which: Metric, confidence: float, tested: int, rate: float, n: int
) -> bool:
    """Return whether, at this rate of n draws, the bound for all thresholds is the sharper one."""
    if n == 0 or not has_bound_everywhere(which, confidence):
        return True
    rate = rate if which.direction == "max" else 1 - rate
    return rate - lower_bound(rate * n, n, 1 - (1 - confidence) / tested) > _error(confidence, n)


def has_bound_everywhere(which: Metric, confidence: float) -> bool:
    """Return whether a metric has a bound that holds at all thresholds at once."""
    return which.population in ("positives", "negatives") and confidence >= 0.5


def _error(confidence: float, n: int) -> float:
    return math.sqrt(-math.log(1 - confidence) / (2 * n))


def bound_everywhere(which: Metric, confidence: float, successes: int, trials: int) -> float:
    """Return a bound on a fraction of one class that holds at all thresholds at once."""
    best = 1.0 if which.direction == "max" else 0.0
    if trials == 0:
        return 1.0 - best
    error, observed = _error(confidence, trials), successes / trials
    return max(observed - error, 0.0) if best else min(observed + error, 1.0)


def has_informative_bound(which: Metric, point: OperatingPoint, confidence: float) -> bool:
    """Return whether a metric has an exact bound at a point that is not just its worst value."""
    rate = rate_of(which)
    worst = 0.0 if which.direction == "max" else 1.0
    return rate is not None and rate.bound(confidence, *point.counts) != worst


def round_conservatively(which: Metric, bound: float) -> float:
    """Return a bound rounded to four digits, in the direction that makes it weaker."""
    if not np.isfinite(bound):
        return bound
    digits = round(bound, 9)  # so that 0.9 less its last bit does not become 0.8999
    round_to = math.floor if which.direction == "max" else math.ceil
    return round_to(round(digits * 10_000, 5)) / 10_000


_DRAWS = 2000


def bootstrap_bound(
    which: Metric, confidence: float, tp: float, fp: float, P: float, N: float
) -> float:
    """Return the percentile bootstrap's one-sided bound on a metric at a fixed threshold.

    Only the four counts of resampled rows matter, and these are multinomial. Samples for which the
    metric is undefined, e.g. for lack of positives, count as its worst value.
    """
    total = P + N
    worst = which.bounds[0] if which.direction == "max" else which.bounds[1]
    if not total > 0:
        return worst
    cells = np.array([tp, fp, P - tp, N - fp]) / total
    drawn = np.random.default_rng(0).multinomial(round(total), cells, size=_DRAWS).astype(float)
    with np.errstate(all="ignore"):
        values = np.array([float(which.value(a, b, a + c, b + d)) for a, b, c, d in drawn])
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
    """Return a metric's value and its bound at another prevalence.

    It holds at all ``tested`` thresholds at once; None means all thresholds.

    At prevalence pi, recall r and fpr f, a metric m of the counts is
    m(pi r, (1 - pi) f, pi, 1 - pi). If it is monotone, it is worst at the lower bound of r and the
    upper bound of f, which hold together with the stated confidence if each has half the error.
    The alarm rate is largest at the upper bounds of both. The bound is None for other metrics that
    are not monotone, and for custom ones, which may depend on more than fractions.
    """
    tp, fp, P, N = (float(x) for x in counts)
    if P == 0 or N == 0:
        return float("nan"), None

    def at(recall: float, fpr: float) -> float:
        tp, fp = np.float64(prevalence * recall), np.float64((1 - prevalence) * fpr)
        with np.errstate(all="ignore"):
            return float(which.value(tp, fp, prevalence, 1 - prevalence))

    value = at(tp / P, fp / N)
    if not is_built_in(which.name.split("(")[0]):
        return value, None
    half = (1 + confidence) / 2
    if tested is None:
        error = _error(half, int(P))
        least, most = max(tp / P - error, 0.0), min(tp / P + error, 1.0)
        most_fpr = fpr_bound_everywhere(int(fp), int(N), half)
    else:
        each = 1 - (1 - half) / tested
        least, most = lower_bound(tp, P, each), upper_bound(tp, P, each)
        most_fpr = upper_bound(fp, N, each)
    if which.monotone:
        return value, at(least, most_fpr)
    if which.name == "alarm_rate":
        return value, at(most, most_fpr)
    return value, None


def fpr_bound_everywhere(fp: int, N: int, confidence: float) -> float:
    """Return a bound on the fpr with fp false alarms that holds at all thresholds at once."""
    ranks, r = [], 1
    while r <= N:
        ranks.append(r)
        r = max(r + 1, math.ceil(1.15 * r))
    later = [r for r in ranks if r > fp]
    if not later:
        return 1.0
    return float(betaincinv(later[0], N + 1 - later[0], 1 - (1 - confidence) / len(ranks)))
