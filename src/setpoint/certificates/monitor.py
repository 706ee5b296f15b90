"""Monitoring: whether later rows contradict a guarantee, however often it is checked.

For a guarantee "fraction >= p" every draw multiplies the evidence against it by the likelihood
ratio of some q < p to p, averaged over all such q (a Beta(1/2, 1/2) prior truncated at p). If the
guarantee holds, the evidence is a supermartingale that starts at 1, and the probability that it
ever reaches 1 / level is at most level (Ville, 1939). After k successes in n draws it is

    E = B(p; k + 1/2, n - k + 1/2) / B(p; 1/2, 1/2) / (p^k (1 - p)^(n - k)),

B being the incomplete beta function; it does not depend on the order of the draws.

Evidence over all cases finds a late change slowly, because the good cases before it count too. So
half of the initial stake of 1 is kept for *restarts*: after some checks, restart j = 1, 2, ... gets
v_j = 1/(j (j + 1)) of it, and collects evidence E_j from the later cases alone. In total

    M = E / 2 + (sum_j v_j E_j + 1 - sum_j v_j) / 2,

again a supermartingale that starts at 1. When to restart depends on the number of draws only.

Evidence that may be looked at any number of times must be larger than that of a single look. So a
verdict also has the p-value of an exact binomial test of the rows of its own check. Whoever planned
that check as the only one may rely on it; the smallest of several such p-values proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaln, xlog1py, xlogy

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.renamed import renamed_parameters
from setpoint._internal.validation import check_fraction
from setpoint.certificates.rates import at_most, rate_of
from setpoint.errors import SetpointError
from setpoint.goals.goal import TOLERANCE, Constraint, Goal, format_metric, format_requirement
from setpoint.goals.metrics import format_number
from setpoint.thresholds.choose import evaluate_threshold
from setpoint.thresholds.operating_point import OperatingPoint, jsonable

Start = tuple[float, float, float, float]  # tp, fp, fn, tn


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
    since : tuple of int
        For each guarantee, the number of cases since the certificate before those that most of the
        largest evidence comes from: where a change seems to have happened.
    pending : int
        Cases of this check that were left out because their labels are not final.
    starts : tuple of tuple
        The counts (tp, fp, fn, tn) at each restart.
    reserve : tuple of float or None
        Of each guarantee, the evidence when restarts became possible, half of which is theirs: 1,
        or less if the checks began with a version without restarts. None for a verdict of such a
        version.
    p_values : tuple of float or None
        Of each guarantee, the p-value of an exact test of the rows of this check alone: the
        probability of results at least this bad if the guarantee just holds. It is valid only if
        this is the only planned check. None without draws; empty if there were no rows.
    """

    broken: bool
    guarantees: tuple[Constraint, ...]
    evidence: tuple[float, ...]
    operating_point: OperatingPoint
    level: float
    checks: int = 1
    identity: tuple[Any, ...] = ()
    since: tuple[int, ...] = ()
    pending: int = 0
    starts: tuple[Start, ...] = ()
    reserve: tuple[float, ...] | None = None
    p_values: tuple[float | None, ...] = ()

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
        found = "; ".join(self.describe(guarantee, evidence) for guarantee, evidence in pairs)
        missed = any(self.is_missed(guarantee) for guarantee in self.guarantees)
        return as_sentence(found, self.broken, missed, self.pending, self.one_look)

    @property
    def one_look(self) -> str:
        """What the rows of this check say by themselves, as a sentence; empty without draws."""
        names = [guarantee.metric.name for guarantee in self.guarantees]
        return one_look_in_words(names, self.p_values, 1 / self.alarm_at, self.broken)

    def is_missed(self, guarantee: Constraint) -> bool:
        """Return whether the cases since the certificate miss a level."""
        trials = self.draws(guarantee)[1]
        return trials > 0 and bool(guarantee.shortfall(*self.operating_point.counts) > TOLERANCE)

    def describe(
        self, guarantee: Constraint, evidence: float, name: str = "", units: str = "cases"
    ) -> str:
        """Return what is observed, and what it says about a guarantee.

        ``name`` is what its metric is called, if not by its own name, and ``units`` what the rows
        are.
        """
        name = name or str(guarantee.metric)
        required = f"{guarantee.relation} {format_number(guarantee.level)}"
        successes, trials = self.draws(guarantee)
        if not trials:
            return f"'{name} {required}' has no observations yet"
        value = self.operating_point.value(guarantee.metric.name)
        observed = f"{name} is {value:.3f} ({successes:,} of {trials:,}; guaranteed: {required})"
        since = dict(zip(self.guarantees, self.since, strict=False)).get(guarantee, 0)
        missed = self.is_missed(guarantee)
        return evidence_in_words(
            observed, evidence, missed, self.alarm_at, self.checks, since, units
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
            "since": list(self.since),
            "pending": self.pending,
            "starts": [list(counts) for counts in self.starts],
            "reserve": None if self.reserve is None else list(self.reserve),
            "p_values": list(self.p_values),
            "operating_point": self.operating_point.to_dict(),
        }


def evidence_in_words(
    observed: str,
    evidence: float,
    missed: bool,
    alarm_at: float,
    checks: int,
    since: int,
    units: str,
) -> str:
    """Return what is observed, and how much it says against a guarantee."""
    if evidence <= 1:
        if missed:
            return f"{observed}, which is not enough evidence to contradict it"
        return f"{observed}, with no evidence against it"
    chance = f"at most 1 in {f'{evidence:,.0f}' if evidence >= 100 else f'{evidence:.3g}'}"
    if evidence > 1e6:
        chance = "less than 1 in 1,000,000"
    worst = "" if checks == 1 else "at worst, "
    later = f", mostly because of those after the first {since:,} {units}" if since else ""
    return (
        f"{observed}; if the guarantee held, such results would {worst}have a probability of "
        f"{chance}{later} (broken at 1 in {alarm_at:.3g})"
    )


def as_sentence(found: str, broken: bool, missed: bool, pending: int, one_look: str) -> str:
    """Return a verdict, given what is said of each guarantee, and of these rows alone."""
    if pending:
        found += f" ({'1 case is' if pending == 1 else f'{pending:,} cases are'} pending)"
    end = f" {one_look}" if one_look else ""
    if broken:
        return f"BROKEN: {found}. Certify again on recent rows before relying on it.{end}"
    if missed:
        return f"Not broken so far: {found}.{end}"
    return f"Consistent with the certificate so far: {found}.{end}"


def one_look_in_words(
    names: Sequence[str],
    p_values: Sequence[float | None],
    level: float,
    broken: bool,
    relation: str = "=",
) -> str:
    """Return the p-values of one check as a sentence; empty if there are none.

    ``names`` are those of the guaranteed metrics, and ``level`` is that of each test. ``relation``
    is "<=" where some tests are not exact.
    """
    known = [(n, p) for n, p in zip(names, p_values, strict=False) if p is not None]
    if not known:
        return ""
    texts = [
        f"p {format_p_value(p, relation)}" + (f" for {name}" if len(names) > 1 else "")
        for name, p in known
    ]
    test = "exact test" if relation == "=" else "test"
    contradicted = not broken and any(p <= level for _, p in known)
    so = ", which would then contradict the certificate" if contradicted else ""
    return (
        f"These rows alone: {', '.join(texts)} ({test}; valid only if this is the only planned "
        f"check{so})."
    )


def format_p_value(p: float, relation: str = "=") -> str:
    """Return a p-value after its relation, e.g. "= 0.042"; tiny ones are "< 0.0001"."""
    return f"{relation} {p:.3g}" if p >= 1e-4 else "< 0.0001"


_FEWEST = 10  # draws between restarts, at least,
_GROWTH = 0.02  # and relative to all draws; so the number of restarts grows with their logarithm


def check_guarantees(
    guarantees: tuple[Constraint, ...],
    threshold: float,
    y: ArrayLike,
    scores: ArrayLike,
    after: Verdict | None,
    level: float,
    pos_label: Any,
    identity: tuple[Any, ...] = (),
    pending: int = 0,
) -> Verdict:
    """Return the verdict on guarantees after these rows; see :meth:`Certificate.check`.

    Several guarantees divide the level equally.
    """
    level = check_fraction(level, "level")
    if after is not None and len(np.shape(y)) == 1 and len(np.asarray(y)) == 0:  # no new cases
        _check_continues(after, guarantees, level, identity)
        return replace(after, checks=after.checks + 1, pending=pending, p_values=())
    goal = Goal(guarantees[0].metric, guarantees)
    point = evaluate_threshold(y, scores, threshold, goal, pos_label=pos_label, on="later data")
    return updated(guarantees, point, after, level, identity, pending)


def updated(
    guarantees: tuple[Constraint, ...],
    point: OperatingPoint,
    after: Verdict | None,
    level: float,
    identity: tuple[Any, ...],
    pending: int,
) -> Verdict:
    """Return the verdict on guarantees after cases with the counts of an operating point."""
    starts: tuple[Start, ...] = ()
    p_values = tuple(exact_p_value(guarantee, point) for guarantee in guarantees)
    before, reserve = (0.0,) * len(guarantees), (1.0,) * len(guarantees)
    since = (0,) * len(guarantees)
    if after is not None:
        _check_continues(after, guarantees, level, identity)
        starts, before, since = after.starts, after.evidence, after.since or since
        reserve = after.reserve or tuple(_stake(g, after.operating_point) for g in guarantees)
        point = _add_counts(after.operating_point, point)
    evidence, places = [], []
    for i, guarantee in enumerate(guarantees):
        successes, trials, p = _draws(guarantee, point, starts)
        total, place = staked(evidence_against(successes, trials, p), reserve[i])
        is_larger = total > before[i]
        evidence.append(total if is_larger else before[i])
        cases = int(sum(starts[place - 1])) if place else 0
        places.append(cases if is_larger else since[i])
    if any(restarts_after(_draws(guarantee, point, starts)[1]) for guarantee in guarantees):
        tp, fp, P, N = (float(count) for count in point.counts)
        starts = (*starts, (tp, fp, P - tp, N - fp))
    checks = 1 if after is None else after.checks + 1
    found = Verdict(
        False, guarantees, tuple(evidence), point, level, checks, identity, tuple(places),
        pending, starts, reserve, p_values,
    )  # fmt: skip
    return replace(found, broken=bool(found.contradicted))


def exact_p_value(guarantee: Constraint, point: OperatingPoint) -> float | None:
    """Return the probability of counts at least this bad if a guarantee just holds.

    None without draws.
    """
    (k,), (n,), p = _draws(guarantee, point, ())
    if n == 0:
        return None
    if p <= 0 or k == n:
        return 1.0
    return float(at_most(k, n, p)) if p < 1 else 0.0


def _check_continues(
    after: Verdict, guarantees: tuple[Constraint, ...], level: float, identity: tuple[Any, ...]
) -> None:
    if after.guarantees != guarantees or after.identity != identity:
        raise SetpointError("the verdict in after= belongs to another certificate.")
    if after.level != level:
        raise SetpointError(f"earlier checks had the level {after.level}, not {level}.")


def staked(evidence: NDArray[np.float64], reserve: float = 1.0) -> tuple[float, int]:
    """Return the evidence in total, and the place of the restart that most of it comes from.

    ``evidence`` has that of all cases first, and then that since each restart.
    """
    terms = evidence / 2
    j = np.arange(1, len(terms))
    terms[1:] *= reserve / (j * (j + 1))
    return float(terms.sum() + reserve / len(terms) / 2), int(terms.argmax())


def restarts_after(trials: NDArray[np.float64]) -> bool:
    """Return whether to restart, given the draws since the certificate and each restart."""
    return bool(trials[-1] >= max(_FEWEST, _GROWTH * trials[0]))


def _draws(
    guarantee: Constraint, point: OperatingPoint, starts: tuple[Start, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return successes and trials since the certificate and each restart, of "fraction >= p"."""
    rate = rate_of(guarantee.metric)
    assert rate is not None
    tp, fp, P, N = (float(count) for count in point.counts)
    here = np.array([tp, fp, P - tp, N - fp])
    a, b, c, d = (here - np.array([(0.0,) * 4, *starts])).T
    k, n = rate.draws(a, b, a + c, b + d)
    p = rate.to_fraction(guarantee.level)
    return (k, n, p) if guarantee.metric.direction == "max" else (n - k, n, 1 - p)


def _stake(guarantee: Constraint, point: OperatingPoint) -> float:
    """Return the evidence of a verdict without restarts, from which restarts are staked now.

    Where its integral vanishes in floating-point numbers, a lower bound replaces it:
    B(p; x, y) >= p^x (1 - p)^y / x.
    """
    (k,), (n,), p = _draws(guarantee, point, ())
    if not 0 < p < 1:
        return 1.0
    least = math.sqrt(p * (1 - p)) / (k + 0.5) / (math.pi * betainc(0.5, 0.5, p))
    return float(max(evidence_against(k, n, p), least))


def evidence_against(successes: Any, trials: Any, p: float) -> NDArray[np.float64]:
    """Return the evidence against "fraction >= p" after so many successes."""
    k, n = np.asarray(successes, float), np.asarray(trials, float)
    failures = n - k
    if p <= 0:
        return np.ones(np.shape(n))
    if p >= 1:
        return np.where(failures > 0, np.inf, 1.0)
    with np.errstate(over="ignore", divide="ignore"):
        cut = np.log(betainc(k + 0.5, failures + 0.5, p)) - np.log(betainc(0.5, 0.5, p))
        whole = betaln(k + 0.5, failures + 0.5) - betaln(0.5, 0.5)
        found = np.exp(cut + whole - xlogy(k, p) - xlog1py(failures, -p))
    return np.where(n == 0, 1.0, found)


def _add_counts(one: OperatingPoint, other: OperatingPoint) -> OperatingPoint:
    tp, fp, fn, tn = (getattr(one, c) + getattr(other, c) for c in ("tp", "fp", "fn", "tn"))
    return OperatingPoint(one.threshold, tp, fp, fn, tn, other.goal, other.on)
