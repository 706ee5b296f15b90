"""The certificate of a review band: its guarantees on new data, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setpoint.certificates.band_bounds import BandBound
from setpoint.certificates.base import CertificateBase, Wording
from setpoint.certificates.joint_monitor import (
    Counted,
    JointVerdict,
    Monitored,
    check_jointly,
    later_scores,
)
from setpoint.certificates.threshold_set import NO_THRESHOLDS, ThresholdSet
from setpoint.goals.bands import BandGoal
from setpoint.goals.columns import GoalColumns
from setpoint.goals.metrics import format_threshold
from setpoint.thresholds.bands import BandPoint
from setpoint.thresholds.operating_point import jsonable


@dataclass(frozen=True)
class BandCertificate(CertificateBase[JointVerdict]):
    """Guarantees for a review band on new data, with their confidence and assumptions.

    ``print`` shows all of it as text.

    Attributes
    ----------
    goal : BandGoal
        The goal to certify.
    low, high : float
        ``score > high`` is an alarm, ``score <= low`` is cleared, all else is reviewed.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        certificate of which any guarantee is false.
    certified : bool
        Whether every constraint of the goal is guaranteed.
    operating_point : BandPoint
        Counts on the certification rows.
    bounds : tuple of BandBound
        One for each constraint, then one for the objective. Each holds on its own.
    alarm_thresholds, clear_thresholds : ThresholdSet
        Certified upper and lower thresholds. Any pair low <= high of them may be used, even after
        looking at results, except that a limit of ``review_rate`` is certified only for bands
        within ``low`` and ``high``; :meth:`allows` decides. If only one of the two sets is empty,
        the goal is not certified, but the guarantees of the other side still hold.
    chosen : tuple of {"low", "high"}
        Which thresholds were chosen on the certification rows; the others were given beforehand.
    reason : str or None
        If nothing was certified: why, and what would help.
    more_positives : int or None
        If nothing was certified: roughly how many more labelled positives are needed, or None if
        that is not known to help.
    one_per_group : bool
        Whether the rows came in groups and one row of each was used.
    pos_label : object
        The label of the positive class, if labels were not 0/1, -1/1 or booleans.
    """

    goal: BandGoal
    low: float
    high: float
    confidence: float
    certified: bool
    operating_point: BandPoint
    bounds: tuple[BandBound, ...]
    alarm_thresholds: ThresholdSet = NO_THRESHOLDS
    clear_thresholds: ThresholdSet = NO_THRESHOLDS
    chosen: tuple[str, ...] = ("low", "high")
    reason: str | None = None
    more_positives: int | None = None
    one_per_group: bool = False
    pos_label: Any = field(default=None, compare=False)

    def allows(self, low: float, high: float) -> bool:
        """Return whether the guarantees hold for this band, too."""
        within = self.goal.most_reviews is None or low == high
        within = within or (self.low <= low and high <= self.high)
        certified = low in self.clear_thresholds and high in self.alarm_thresholds
        return self.certified and certified and low <= high and within

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        return (
            *super().assumptions,
            "the prevalence stays the same, for precision(alarm), npv(clear) and rates of all rows",
        )

    @property
    def refusal(self) -> str | None:
        """Why nothing was certified, and its remedy; None if the goal is certified."""
        return None if self.certified else self.reason

    def _wording(self) -> Wording:
        point, observed = self.operating_point, ""
        if np.isfinite(point.objective):
            observed = f" On {point.on} {self.goal.objective} is {point.objective:.3f}."
        low, high = format_threshold(self.low), format_threshold(self.high)
        given = [name for name in ("low", "high") if name not in self.chosen]
        origin = "the best band of all that pass" if self.certified else "the closest band"
        if not self.chosen:
            origin = "given beforehand"
        elif given:
            origin = f"{given[0]} given beforehand; {origin}"
        sets = {"lower": self.clear_thresholds, "upper": self.alarm_thresholds}
        within = "" if self.goal.most_reviews is None else f", within {low} to {high}"
        return Wording(
            observed,
            f"cleared up to {low}, alarms above {high}",
            f"low {self.low:.6g}, high {self.high:.6g} ({origin})",
            [
                f"certified {name} thresholds{within}: {thresholds}"
                for name, thresholds in sets.items()
                if thresholds and not thresholds.is_one_threshold
            ],
        )

    @property
    def monitored(self) -> tuple[Monitored, ...]:
        """How each guarantee is monitored: as one of a plain metric at one threshold."""
        found = []
        for c in self.goal.constraints:
            name = f"1 - {c.metric}" if c.metric.name == "clear_rate" else str(c.metric)
            threshold = self.high if c.metric.side == "alarm" else self.low
            found.append(Monitored(c, name, c.plain, threshold))
        return tuple(found)

    def _check(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        columns: GoalColumns,
        after: JointVerdict | None,
        level: float,
        pos_label: Any,
        pending: int,
    ) -> JointVerdict:
        positive, s = later_scores(y, scores, pos_label)
        raised = {
            "alarm": s > self.high, "clear": s > self.low,
            "review": (s > self.low) & (s <= self.high),
        }  # fmt: skip
        monitored = self.monitored
        later = [Counted.of(positive, raised[each.guarantee.metric.side]) for each in monitored]
        identity = (
            str(self.goal), self.low, self.high, self.confidence, *self.operating_point.counts[:-1],
        )  # fmt: skip
        return check_jointly(monitored, tuple(later), after, level, identity, pending)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        sets = {
            name: [list(map(jsonable, interval)) for interval in getattr(self, name)]
            for name in ("alarm_thresholds", "clear_thresholds")
        }
        return {
            "goal": str(self.goal), "low": jsonable(self.low), "high": jsonable(self.high),
            **super().to_dict(), **sets, "chosen": list(self.chosen),
        }  # fmt: skip
