"""Monitoring of a mean: whether the costs of later rows contradict a bound on their mean.

Costs are scaled to u in [0, 1] by their stated range, and the guarantee is "mean <= m". Each row
multiplies the evidence against it by 1 + lambda (u - m), averaged over several lambda from 0 to
1 / m. If the guarantee holds, the evidence is a supermartingale that starts at 1, and the
probability that it ever reaches 1 / level is at most level (Ville, 1939). Restarts are those of
:mod:`setpoint.certificates.monitor`; the evidence since a restart follows from the logarithms of
the products then and now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.monitor import evidence_in_words, restarts_after, staked
from setpoint.errors import SetpointError
from setpoint.goals.goal import Constraint, format_metric
from setpoint.goals.metrics import format_number
from setpoint.thresholds.operating_point import jsonable

Floats = NDArray[np.float64]
BETS = 10  # the number of lambdas
_FRACTIONS = 0.95 * 2.0 ** -np.arange(BETS)  # of the largest, 1 / m


class Costs(NamedTuple):
    """What later rows cost: with amounts capped, and as they are; and which amounts were capped."""

    capped: Floats
    uncapped: Floats
    is_capped: NDArray[np.bool_]


@dataclass(frozen=True)
class MeanVerdict:
    """The result of a check of one guarantee on a mean cost or profit.

    Attributes
    ----------
    broken : bool
        Whether this check or an earlier one contradicts the guarantee.
    guarantee : Constraint
        The guarantee.
    span : (float, float)
        The least and the largest cost of a row; a profit is a negative cost.
    evidence : float
        The largest evidence so far against the guarantee.
    level : float
        The probability of a false alarm, over all checks together.
    rows : int
        The number of rows since the certificate.
    mean : float
        The mean of their costs, scaled to [0, 1].
    logs : tuple of float
        The logarithm of the product of each lambda.
    starts : tuple of tuple
        The number of rows and the logarithms at each restart.
    since : int
        The number of rows before those that most of the largest evidence comes from.
    checks : int
        The number of checks so far.
    identity : tuple
        Values that identify the certificate.
    pending : int
        Rows of this check that were left out because their labels are not final.
    capped : int
        Rows since the certificate with an amount above its cap, which counts as the cap.
    uncapped : float
        The mean cost or profit of the rows with the amounts as they are.
    p_value : float or None
        An upper bound on the p-value of the rows of this check alone, which is valid only if this
        is the only planned check: the reciprocal of their evidence. None without rows.
    """

    broken: bool
    guarantee: Constraint
    span: tuple[float, float]
    evidence: float
    level: float
    rows: int
    mean: float
    logs: tuple[float, ...]
    starts: tuple[tuple[float, ...], ...] = ()
    since: int = 0
    checks: int = 1
    identity: tuple[Any, ...] = ()
    pending: int = 0
    capped: int = 0
    uncapped: float = 0.0
    p_value: float | None = None

    @property
    def alarm_at(self) -> float:
        """The evidence from which the guarantee counts as broken."""
        return 1 / self.level

    @property
    def value(self) -> float:
        """The mean cost or profit of the rows since the certificate; NaN without rows."""
        low, high = self.span
        cost = low + self.mean * (high - low) if self.rows else np.nan
        return float(-self.guarantee.metric.sign * cost)

    @property
    def is_missed(self) -> bool:
        """Whether the rows since the certificate miss the level, with or without the cap."""
        which, level = self.guarantee.metric, self.guarantee.level
        missed = self.mean > scaled_level(self.guarantee, self.span)
        return self.rows > 0 and bool(missed or which.sign * (level - self.uncapped) > 0)

    def describe(self, name: str, units: str) -> str:
        """Return what is observed, and what it says about the guarantee."""
        which, required = self.guarantee.metric, self.guarantee.level
        text = f"{self.guarantee.relation} {format_number(required)}"
        if not self.rows:
            return f"'{name} {text}' has no observations yet"
        observed = (
            f"{name} is {format_metric(self.value, which=which)} ({self.rows:,} {units}; "
            f"guaranteed: {text}"
        )
        if self.capped:
            observed += (
                f"; {self.capped:,} of them have an amount above the cap, without which the mean "
                f"is {format_metric(self.uncapped, which=which)}"
            )
        return evidence_in_words(
            f"{observed})", self.evidence, self.is_missed, self.alarm_at, self.checks, self.since,
            units,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {
            "broken": self.broken, "guarantee": str(self.guarantee), "span": list(self.span),
            "evidence": jsonable(self.evidence), "level": self.level, "rows": self.rows,
            "mean": jsonable(self.mean), "logs": list(self.logs),
            "starts": [list(start) for start in self.starts], "since": self.since,
            "checks": self.checks, "pending": self.pending, "capped": self.capped,
            "uncapped": jsonable(self.uncapped), "p_value": self.p_value,
        }  # fmt: skip


def scaled_level(guarantee: Constraint, span: tuple[float, float]) -> float:
    """Return the guaranteed mean on the scale of costs from 0 to 1."""
    low, high = span
    return float((-guarantee.metric.sign * guarantee.level - low) / (high - low))


def check_mean(
    guarantee: Constraint,
    span: tuple[float, float],
    costs: Costs,
    after: MeanVerdict | None,
    level: float,
    identity: tuple[Any, ...],
    pending: int,
) -> MeanVerdict:
    """Return the verdict on a guarantee after rows with these costs."""
    low, high = span
    u = np.clip((costs.capped - low) / (high - low), 0.0, 1.0)
    m = scaled_level(guarantee, span)
    if after is None:
        after = MeanVerdict(
            False, guarantee, span, 0.0, level, 0, 0.0, (0.0,) * BETS, checks=0,
            identity=identity,
        )  # fmt: skip
    elif after.guarantee != guarantee or after.identity != identity or after.span != span:
        raise SetpointError("the verdict in after= belongs to another certificate.")
    elif after.level != level:
        raise SetpointError(f"earlier checks had the level {after.level}, not {level}.")
    rows = after.rows + len(u)
    mean = (after.mean * after.rows + float(u.sum())) / rows if rows else 0.0
    paid = -guarantee.metric.sign * float(costs.uncapped.sum())
    uncapped = (after.uncapped * after.rows + paid) / rows if rows else 0.0
    own = np.zeros(BETS)
    if 0 < m < 1:
        own = np.array([np.log1p(bet * (u - m)).sum() for bet in _FRACTIONS / m])
    elif m <= 0 and u.any():  # the mean cannot be so low
        own = np.full(BETS, np.inf)
    logs = after.logs + own
    with np.errstate(over="ignore"):
        p_value = min(1.0, 1 / float(np.exp(own).mean())) if len(u) else None
    before = np.array([(0.0,) * (1 + BETS), *after.starts])
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.nan_to_num(np.exp(logs - before[:, 1:]), nan=1.0, posinf=np.inf).mean(axis=1)
    evidence, place = staked(found)
    since = int(before[place, 0]) if evidence > after.evidence else after.since
    starts = after.starts
    if len(u) and restarts_after(rows - before[:, 0]):
        starts = (*starts, (float(rows), *map(float, logs)))
    evidence = max(evidence, after.evidence)
    return replace(
        after, broken=evidence >= 1 / level, evidence=evidence, rows=rows, mean=mean,
        logs=tuple(map(float, logs)), starts=starts, since=since, checks=after.checks + 1,
        pending=pending, capped=after.capped + int(costs.is_capped.sum()), uncapped=uncapped,
        p_value=p_value,
    )  # fmt: skip
