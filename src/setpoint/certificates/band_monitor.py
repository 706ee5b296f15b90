"""Monitoring of review bands: whether later rows contradict a guarantee of either side.

Each guarantee is one of a plain metric: those of alarms at the upper threshold, those of cleared
rows at the lower one, and the rate of reviews as the rate of rows between the two. So each is
checked as by :mod:`setpoint.certificates.monitor`, and all of them divide the level equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.validation import check_fraction
from setpoint.certificates.monitor import Verdict, check_guarantees
from setpoint.errors import SetpointError
from setpoint.goals.band_metrics import Side
from setpoint.goals.bands import BandConstraint, BandGoal
from setpoint.goals.goal import Constraint
from setpoint.goals.metrics import ALARM_RATE, format_number, metric
from setpoint.thresholds.band_search import BandRows
from setpoint.thresholds.bands import REVIEW, decide

_SIDES: tuple[Side, ...] = ("alarm", "clear", "review")


@dataclass(frozen=True)
class BandVerdict(NotebookSummary):
    """The result of a check of a review band.

    Attributes
    ----------
    guarantees : tuple of BandConstraint
        The guarantees of the certificate.
    parts : dict of str to Verdict
        The verdict on the plain guarantees of ``"alarm"``, ``"clear"`` and ``"review"``, where
        there are some.
    level : float
        The probability of a false alarm, over all checks and guarantees together.
    """

    guarantees: tuple[BandConstraint, ...]
    parts: dict[str, Verdict]
    level: float

    @property
    def broken(self) -> bool:
        """Whether this check or an earlier one contradicts a guarantee."""
        return any(part.broken for part in self.parts.values())

    @property
    def checks(self) -> int:
        """The number of checks so far."""
        return next(iter(self.parts.values())).checks

    @property
    def pending(self) -> int:
        """Cases of this check that were left out because their labels are not final."""
        return next(iter(self.parts.values())).pending

    @property
    def evidence(self) -> tuple[float, ...]:
        """The largest evidence so far against each guarantee."""
        return tuple(self._of(guarantee)[2] for guarantee in self.guarantees)

    @property
    def contradicted(self) -> tuple[BandConstraint, ...]:
        """The guarantees that this check or an earlier one contradicts."""
        alarm_at = len(self.guarantees) / self.level
        return tuple(
            guarantee
            for guarantee, evidence in zip(self.guarantees, self.evidence, strict=True)
            if evidence >= alarm_at * (1 - 1e-12)
        )

    def _of(self, guarantee: BandConstraint) -> tuple[Verdict, Constraint, float]:
        """Return the verdict that a guarantee belongs to, its plain form, and the evidence."""
        side = guarantee.metric.side
        part = self.parts[side]
        at = [g for g in self.guarantees if g.metric.side == side].index(guarantee)
        return part, part.guarantees[at], part.evidence[at]

    @property
    def message(self) -> str:
        """The result as a sentence."""
        found, missed = [], False
        for guarantee in self.guarantees:
            part, plain, evidence = self._of(guarantee)
            own = str(guarantee.metric)
            own = f"1 - {own}" if guarantee.metric.name == "clear_rate" else own
            found.append(part._describe(plain, evidence).replace(str(plain.metric), own, 1))
            missed |= part._is_missed(plain)
        text = "; ".join(found)
        if self.pending:
            cases = "1 case is" if self.pending == 1 else f"{self.pending:,} cases are"
            text += f" ({cases} pending)"
        if self.broken:
            return f"BROKEN: {text}. Certify again on recent rows before relying on it."
        if missed:
            return f"Not broken so far: {text}."
        return f"Consistent with the certificate so far: {text}."

    def __str__(self) -> str:
        return self.message

    def _summary(self) -> Summary:
        rows = [["metric", "guaranteed", "observed since", "draws"]]
        for guarantee in self.guarantees:
            part, plain, _ = self._of(guarantee)
            successes, trials = part.draws(plain)
            if guarantee.metric.name == "clear_rate":
                successes = trials - successes
            sign = "≥" if guarantee.metric.direction == "max" else "≤"
            observed = f"{successes / trials:.3f}" if trials else "–"
            required = f"{sign} {format_number(guarantee.level)}"
            rows.append([str(guarantee.metric), required, observed, f"{successes:,} of {trials:,}"])
        checks = "1 check" if self.checks == 1 else f"{self.checks:,} checks"
        caption = (
            f"{checks}; chance of a false alarm at most {format_number(self.level)} over all checks"
        )
        return Summary(self.message, not self.broken, caption, [rows])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {
            "broken": self.broken,
            "guarantees": list(map(str, self.guarantees)),
            "evidence": [e if np.isfinite(e) else None for e in self.evidence],
            "level": self.level,
            "checks": self.checks,
            "pending": self.pending,
            "message": self.message,
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
        }


def check_band_guarantees(
    goal: BandGoal,
    band: tuple[float, float],
    y: ArrayLike,
    scores: ArrayLike,
    after: BandVerdict | None,
    level: float,
    pos_label: Any,
    identity: tuple[Any, ...] = (),
    pending: int = 0,
) -> BandVerdict:
    """Return the verdict on a goal's constraints after these rows; see BandCertificate.check."""
    level = check_fraction(level, "level")
    if after is not None and after.guarantees != goal.constraints:
        raise SetpointError("the verdict in after= belongs to another certificate.")
    if after is not None and after.level != level:
        raise SetpointError(f"earlier checks had the level {after.level}, not {level}.")
    low, high = band
    inside: ArrayLike = scores
    if np.size(np.asarray(y)):
        rows = BandRows.of(y, scores, None, None, BandGoal("review_rate"), pos_label)  # type: ignore[arg-type]
        y, scores, pos_label = rows.positive, rows.scores, None
        inside = (decide(rows.scores, low, high) == REVIEW).astype(float)
    at = {"alarm": (high, scores), "clear": (low, scores), "review": (0.5, inside)}
    parts: dict[str, Verdict] = {}
    for side in _SIDES:
        if not (own := plain_guarantees(goal, side)):
            continue
        threshold, values = at[side]
        share = level * len(own) / len(goal.constraints)
        before = None if after is None else after.parts[side]
        parts[side] = check_guarantees(
            own, threshold, y, values, before, share, pos_label, (*identity, side), pending
        )
    return BandVerdict(goal.constraints, parts, level)


def plain_guarantees(goal: BandGoal, side: Side) -> tuple[Constraint, ...]:
    """Return the constraints of one side as those of plain metrics at one threshold."""
    found = []
    for c in goal.of_side(side):
        plain = ALARM_RATE if side == "review" else metric(str(c.metric.at_threshold))
        found.append(Constraint(plain, 1 - c.level if c.metric.name == "clear_rate" else c.level))
    return tuple(found)
