"""Monitoring: whether later rows contradict a guarantee, however often it is checked.

For a guarantee "fraction >= p" every draw multiplies the evidence against it by the likelihood
ratio of some q < p to p, averaged over all such q (a Beta(1/2, 1/2) prior truncated at p). If the
guarantee holds, the evidence is a supermartingale that starts at 1, and the probability that it
ever reaches 1 / level is at most level (Ville, 1939). After k successes in n draws it is

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
from setpoint._internal.renamed import renamed_parameters
from setpoint._internal.validation import check_fraction
from setpoint.certificates.rates import rate_of
from setpoint.errors import SetpointError
from setpoint.goals.goal import TOLERANCE, Constraint, Goal, format_metric, format_requirement
from setpoint.goals.metrics import format_number
from setpoint.thresholds.operating_point import OperatingPoint, evaluate_threshold, jsonable


@renamed_parameters(promises="guarantees", looks="checks")
@dataclass(frozen=True)
class Verdict(NotebookSummary):
    """The result of a check.

    Attributes
    ----------
    broken : bool
        Whether this check or an earlier one contradicts a guarantee.
    guarantees : tuple of Constraint
        The guarantees of the certificate.
    evidence : tuple of float
        The largest evidence so far against each guarantee. If the guarantee holds, evidence this
        large has a probability of at most 1 / evidence.
    operating_point : OperatingPoint
        Counts of all cases since the certificate.
    level : float
        The probability of a false alarm, over all checks together.
    checks : int
        The number of checks so far.
    identity : tuple
        Values that identify the certificate.
    """

    broken: bool
    guarantees: tuple[Constraint, ...]
    evidence: tuple[float, ...]
    operating_point: OperatingPoint
    level: float
    checks: int = 1
    identity: tuple[Any, ...] = ()

    @property
    def alarm_at(self) -> float:
        """The evidence from which a guarantee counts as broken."""
        return len(self.guarantees) / self.level

    @property
    def contradicted(self) -> tuple[Constraint, ...]:
        """The guarantees that this check or an earlier one contradicts."""
        pairs = zip(self.guarantees, self.evidence, strict=True)
        return tuple(guarantee for guarantee, evidence in pairs if evidence >= self.alarm_at)

    @renamed_parameters(promise="guarantee")
    def draws(self, guarantee: Constraint) -> tuple[int, int]:
        """Return the successes and trials of a guaranteed metric since the certificate."""
        rate = rate_of(guarantee.metric)
        assert rate is not None  # nothing else can be checked
        successes, trials = rate.draws(*self.operating_point.counts)
        return int(successes), int(trials)

    @property
    def message(self) -> str:
        """The result as a sentence."""
        pairs = zip(self.guarantees, self.evidence, strict=True)
        found = "; ".join(self._describe(guarantee, evidence) for guarantee, evidence in pairs)
        if self.broken:
            return f"BROKEN: {found}. Certify again on recent rows before relying on it."
        if any(self._is_missed(guarantee) for guarantee in self.guarantees):
            return f"Not broken so far: {found}."
        return f"Consistent with the certificate so far: {found}."

    def _is_missed(self, guarantee: Constraint) -> bool:
        trials = self.draws(guarantee)[1]
        return trials > 0 and bool(guarantee.shortfall(*self.operating_point.counts) > TOLERANCE)

    def _describe(self, guarantee: Constraint, evidence: float) -> str:
        successes, trials = self.draws(guarantee)
        if not trials:
            return f"'{guarantee}' has no observations yet"
        value = self.operating_point.value(guarantee.metric.name)
        observed = (
            f"{guarantee.metric} is {value:.3f} ({successes:,} of {trials:,}; guaranteed: "
            f"{guarantee.relation} {format_number(guarantee.level)})"
        )
        if evidence <= 1:
            if self._is_missed(guarantee):
                return f"{observed}, which is too few to contradict it"
            return f"{observed}, with no evidence against it"
        chance = f"at most 1 in {f'{evidence:,.0f}' if evidence >= 100 else f'{evidence:.3g}'}"
        if evidence > 1e6:
            chance = "less than 1 in 1,000,000"
        worst = "" if self.checks == 1 else "at worst, "
        return (
            f"{observed}; {worst}such counts have a probability of {chance} under the guarantee "
            f"(broken at 1 in {self.alarm_at:.3g})"
        )

    def _summary(self) -> Summary:
        rows = [["metric", "guaranteed", "observed since", "draws"]]
        for guarantee in self.guarantees:
            successes, trials = self.draws(guarantee)
            value = format_metric(self.operating_point.value(guarantee.metric.name), guarantee)
            observed = value if trials else "–"
            draws = f"{successes:,} of {trials:,}"
            rows.append([guarantee.metric.name, format_requirement(guarantee), observed, draws])
        checks = "1 check" if self.checks == 1 else f"{self.checks:,} checks"
        caption = (
            f"{checks}; chance of a false alarm at most {format_number(self.level)} over all checks"
        )
        return Summary(self.message, not self.broken, caption, [rows])

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {
            "broken": self.broken,
            "promises": [str(guarantee) for guarantee in self.guarantees],
            "evidence": [jsonable(value) for value in self.evidence],
            "level": self.level,
            "looks": self.checks,
            "message": self.message,
            "operating_point": self.operating_point.to_dict(),
        }


def check_guarantees(
    guarantees: tuple[Constraint, ...],
    threshold: float,
    y: ArrayLike,
    scores: ArrayLike,
    after: Verdict | None,
    level: float,
    pos_label: Any,
    identity: tuple[Any, ...] = (),
) -> Verdict:
    """Return the verdict on guarantees after these rows; see :meth:`Certificate.check`.

    Several guarantees divide the level equally.
    """
    level = check_fraction(level, "level")
    if after is not None:
        if after.guarantees != guarantees or after.identity != identity:
            raise SetpointError("the verdict in after= belongs to another certificate.")
        if after.level != level:
            raise SetpointError(f"earlier checks had the level {after.level}, not {level}.")
        if len(np.shape(y)) == 1 and len(np.asarray(y)) == 0:  # no new cases
            return replace(after, checks=after.checks + 1)
    goal = Goal(guarantees[0].metric, guarantees)
    point = evaluate_threshold(y, scores, threshold, goal, pos_label=pos_label, on="later data")
    before = (0.0,) * len(guarantees)
    if after is not None:
        point = _add_counts(after.operating_point, point)
        before = after.evidence
    evidence = []
    for guarantee, largest in zip(guarantees, before, strict=True):
        rate = rate_of(guarantee.metric)
        assert rate is not None
        k, n = (float(x) for x in rate.draws(*point.counts))
        p = rate.to_fraction(guarantee.level)
        floor = (k, n, p) if guarantee.metric.direction == "max" else (n - k, n, 1 - p)
        evidence.append(max(largest, evidence_against(*floor)))
    checks = 1 if after is None else after.checks + 1
    found = Verdict(False, guarantees, tuple(evidence), point, level, checks, identity)
    return replace(found, broken=bool(found.contradicted))


def evidence_against(successes: float, trials: float, p: float) -> float:
    """Return the evidence against "fraction >= p" after so many successes."""
    failures = trials - successes
    if p <= 0 or trials == 0:
        return 1.0
    if p >= 1:
        return float(np.inf) if failures else 1.0
    cut = beta.logcdf(p, successes + 0.5, failures + 0.5) - beta.logcdf(p, 0.5, 0.5)
    whole = betaln(successes + 0.5, failures + 0.5) - betaln(0.5, 0.5)
    with np.errstate(over="ignore"):
        return float(np.exp(cut + whole - xlogy(successes, p) - xlog1py(failures, -p)))


def _add_counts(one: OperatingPoint, other: OperatingPoint) -> OperatingPoint:
    tp, fp, fn, tn = (getattr(one, c) + getattr(other, c) for c in ("tp", "fp", "fn", "tn"))
    return OperatingPoint(one.threshold, tp, fp, fn, tn, other.goal, other.on)
