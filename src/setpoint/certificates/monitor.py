"""Whether later data still agree with a promise, however often one looks.

For a promise "share >= p" every draw multiplies the evidence against it by the likelihood ratio of
some q < p to p, averaged over all such q (a Beta(1/2, 1/2) prior cut off at p). If the promise
holds, the evidence is a supermartingale that starts at 1, and the chance that it ever reaches
1 / level is at most level (Ville, 1939). After k successes in n draws it is

    E = B(p; k + 1/2, n - k + 1/2) / B(p; 1/2, 1/2) / (p^k (1 - p)^(n - k)),

B being the incomplete beta function; it does not depend on the order of the draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, xlog1py, xlogy
from scipy.stats import beta

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.validation import check_fraction
from setpoint.certificates.rates import rate_of
from setpoint.errors import SetpointError
from setpoint.goals.goal import TOLERANCE, Constraint, Goal, format_metric, format_requirement
from setpoint.goals.metrics import format_number
from setpoint.thresholds.operating_point import OperatingPoint, evaluate_threshold, jsonable


@dataclass(frozen=True)
class Verdict(NotebookSummary):
    """The answer of one look.

    Attributes
    ----------
    broken : bool
        Whether this look or one before it says that a promise does not hold.
    promises : tuple of Constraint
        What was promised.
    evidence : tuple of float
        Against each promise, the largest so far; odds of this size or more come up with a chance of
        at most 1 / evidence if the promise holds.
    operating_point : OperatingPoint
        Counts of all cases since the certificate.
    level : float
        The chance of a false alarm, over all looks together.
    looks : int
        How many looks there were.
    identity : tuple
        Of the certificate.
    """

    broken: bool
    promises: tuple[Constraint, ...]
    evidence: tuple[float, ...]
    operating_point: OperatingPoint
    level: float
    looks: int = 1
    identity: tuple[Any, ...] = ()

    @property
    def alarm_at(self) -> float:
        """The evidence from which a promise counts as broken."""
        return len(self.promises) / self.level

    @property
    def contradicted(self) -> tuple[Constraint, ...]:
        """The promises that do not hold, by this look or one before it."""
        pairs = zip(self.promises, self.evidence, strict=True)
        return tuple(promise for promise, evidence in pairs if evidence >= self.alarm_at)

    def draws(self, promise: Constraint) -> tuple[int, int]:
        """Return how many of how many draws were as a promise wants them."""
        rate = rate_of(promise.metric)
        assert rate is not None  # nothing else is ever promised
        successes, trials = rate.draws(*self.operating_point.counts)
        return int(successes), int(trials)

    @property
    def message(self) -> str:
        """The verdict in plain words."""
        pairs = zip(self.promises, self.evidence, strict=True)
        what = "; ".join(self._said(promise, evidence) for promise, evidence in pairs)
        if self.broken:
            return f"BROKEN: {what}. Certify anew on recent data before relying on it."
        if any(self._is_missed(promise) for promise in self.promises):
            return f"Not broken so far: {what}."
        return f"Agrees with the promise so far: {what}."

    def _is_missed(self, promise: Constraint) -> bool:
        trials = self.draws(promise)[1]
        return trials > 0 and bool(promise.shortfall(*self.operating_point.counts) > TOLERANCE)

    def _said(self, promise: Constraint, evidence: float) -> str:
        successes, trials = self.draws(promise)
        if not trials:
            return f"of '{promise}' there is nothing to see yet"
        value = self.operating_point.value(promise.metric.name)
        seen = f"'{promise}' is {value:.3f} ({successes:,} of {trials:,})"
        if evidence <= 1:
            if self._is_missed(promise):
                return f"{seen}, which is too few to contradict it"
            return f"{seen}, and nothing speaks against it"
        chance = f"at most 1 in {f'{evidence:,.0f}' if evidence >= 100 else f'{evidence:.3g}'}"
        if evidence > 1e6:
            chance = "less than 1 in 1,000,000"
        has = "which has" if self.looks == 1 else "which at its worst had"
        return (
            f"{seen}, {has} a chance of {chance} if it holds (broken at 1 in {self.alarm_at:.3g})"
        )

    def _summary(self) -> Summary:
        rows = [["metric", "promised", "observed since", "draws"]]
        for promise in self.promises:
            successes, trials = self.draws(promise)
            value = format_metric(self.operating_point.value(promise.metric.name), promise)
            observed = value if trials else "–"
            draws = f"{successes:,} of {trials:,}"
            rows.append([promise.metric.name, format_requirement(promise), observed, draws])
        looks = "1 check" if self.looks == 1 else f"{self.looks:,} checks"
        caption = (
            f"{looks}; chance of a false alarm at most {format_number(self.level)} over all checks"
        )
        return Summary(self.message, not self.broken, caption, [rows])

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON: what is no finite number is None."""
        return {
            "broken": self.broken,
            "promises": [str(promise) for promise in self.promises],
            "evidence": [jsonable(value) for value in self.evidence],
            "level": self.level,
            "looks": self.looks,
            "message": self.message,
            "operating_point": self.operating_point.to_dict(),
        }


def watch(
    promises: tuple[Constraint, ...],
    threshold: float,
    y: ArrayLike,
    scores: ArrayLike,
    after: Verdict | None,
    level: float,
    pos_label: Any,
    identity: tuple[Any, ...] = (),
) -> Verdict:
    """Return the verdict on promises after these rows; see :meth:`Certificate.check`.

    Several promises share the level equally.
    """
    level = check_fraction(level, "level")
    if after is not None:
        if after.promises != promises or after.identity != identity:
            raise SetpointError("the verdict to go on from belongs to another certificate.")
        if after.level != level:
            raise SetpointError(f"the looks so far had the level {after.level}, not {level}.")
        if len(np.shape(y)) == 1 and len(np.asarray(y)) == 0:  # a quiet day
            return replace(after, looks=after.looks + 1)
    goal = Goal(promises[0].metric, promises)
    point = evaluate_threshold(y, scores, threshold, goal, pos_label=pos_label, on="later data")
    before = (0.0,) * len(promises)
    if after is not None:
        point = _together(after.operating_point, point)
        before = after.evidence
    evidence = []
    for promise, largest in zip(promises, before, strict=True):
        rate = rate_of(promise.metric)
        assert rate is not None
        k, n = (float(x) for x in rate.draws(*point.counts))
        p = rate.to_share(promise.level)
        share = (k, n, p) if promise.metric.direction == "max" else (n - k, n, 1 - p)
        evidence.append(max(largest, evidence_against(*share)))
    looks = 1 if after is None else after.looks + 1
    found = Verdict(False, promises, tuple(evidence), point, level, looks, identity)
    return replace(found, broken=bool(found.contradicted))


def evidence_against(successes: float, trials: float, p: float) -> float:
    """Return the evidence against "share >= p" after so many successes."""
    failures = trials - successes
    if p <= 0 or trials == 0:
        return 1.0
    if p >= 1:
        return float(np.inf) if failures else 1.0
    cut = beta.logcdf(p, successes + 0.5, failures + 0.5) - beta.logcdf(p, 0.5, 0.5)
    whole = betaln(successes + 0.5, failures + 0.5) - betaln(0.5, 0.5)
    with np.errstate(over="ignore"):
        return float(np.exp(cut + whole - xlogy(successes, p) - xlog1py(failures, -p)))


def _together(one: OperatingPoint, other: OperatingPoint) -> OperatingPoint:
    tp, fp, fn, tn = (getattr(one, c) + getattr(other, c) for c in ("tp", "fp", "fn", "tn"))
    return OperatingPoint(one.threshold, tp, fp, fn, tn, other.goal, other.on)
