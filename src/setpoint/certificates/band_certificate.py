"""The certificate of a review band: its guarantees on new data, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint.certificates.band_bounds import BandBound
from setpoint.certificates.band_monitor import BandVerdict, check_band_guarantees
from setpoint.certificates.bounds import round_conservatively
from setpoint.certificates.certificate import _check_matured, sample_groups
from setpoint.certificates.threshold_set import NO_THRESHOLDS, ThresholdSet
from setpoint.errors import SetpointError
from setpoint.goals.bands import BandConstraint, BandGoal
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_number, format_threshold
from setpoint.thresholds.bands import BandPoint
from setpoint.thresholds.operating_point import jsonable


@dataclass(frozen=True)
class BandCertificate(NotebookSummary):
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
    def guarantees(self) -> tuple[BandConstraint, ...]:
        """What holds on new data: the goal's constraints, if they are certified."""
        return self.goal.constraints if self.certified else ()

    @property
    def can_be_checked(self) -> bool:
        """Whether later rows can be compared with the guarantees, which is always so."""
        return True

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        draws = (
            "the certification rows and new cases are independent draws from one population "
            "(rows of one patient, customer or hour are not independent)"
        )
        if self.one_per_group:
            draws = (
                "groups are independent draws from one population, and a new case is one row of "
                "a new group, drawn at random: nothing is guaranteed for all rows of large groups"
            )
        return (
            draws,
            "neither the model nor its features were trained or chosen on the certification rows",
            "the prevalence stays the same, for precision(alarm), npv(clear) and rates of all rows",
        )

    @property
    def refusal(self) -> str | None:
        """Why nothing was certified, and its remedy; None if the goal is certified."""
        return None if self.certified else self.reason

    @property
    def message(self) -> str:
        """The outcome as a sentence: what is certified, or why nothing is."""
        percent = f"{100 * self.confidence:g} %"
        point = self.operating_point
        observed = ""
        if np.isfinite(point.objective):
            observed = f" On {point.on} {self.goal.objective} is {point.objective:.3f}."
        if self.refusal is not None:
            return f"Not certified at {percent} confidence: {self.refusal}{observed}"
        held = " and ".join(map(str, self.guarantees))
        return f"Certified at {percent} confidence: {held}.{observed}"

    @property
    def _certified_thresholds(self) -> list[str]:
        """What a person may choose, a line for each threshold."""
        sets = {"lower": self.clear_thresholds, "upper": self.alarm_thresholds}
        return [
            f"certified {name} thresholds: {thresholds}"
            for name, thresholds in sets.items()
            if thresholds and not thresholds.is_one_threshold
        ]

    def _summary(self) -> Summary:
        rows = [["metric", "required", "observed", "on new data"]]
        for bound in self.bounds:
            side = "≥" if bound.metric.direction == "max" else "≤"
            known = "unknown"
            if bound.bound is not None:
                limit = round_conservatively(bound.metric, bound.bound)  # type: ignore[arg-type]
                known = f"{side} {format_number(limit)}"
            draws = "" if bound.trials is None else f" ({bound.successes:,} of {bound.trials:,})"
            required = "" if bound.level is None else f"{side} {format_number(bound.level)}"
            rows.append([str(bound.metric), required, format_metric(bound.value) + draws, known])
        caption = (
            f"cleared up to {format_threshold(self.low)}, alarms above "
            f"{format_threshold(self.high)}, {100 * self.confidence:g} % confidence"
        )
        allowed = "; ".join(self._certified_thresholds).capitalize()
        assumed = ("Assumptions", self.assumptions)
        return Summary(self.message, self.certified, caption, [rows], assumed, allowed)

    def __str__(self) -> str:
        given = [name for name in ("low", "high") if name not in self.chosen]
        origin = "the best band of all that pass" if self.certified else "the closest band"
        if not self.chosen:
            origin = "given beforehand"
        elif given:
            origin = f"{given[0]} given beforehand; {origin}"
        lines = [self.message, *self._certified_thresholds]
        lines.append(f"low {self.low:.6g}, high {self.high:.6g} ({origin}); individual bounds:")
        lines += [f"  {bound}" for bound in self.bounds]
        lines += ["Assumptions:", *(f"  - {a}" for a in self.assumptions)]
        return "\n".join(lines)

    def check(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        *,
        after: BandVerdict | None = None,
        level: float = 0.05,
        pos_label: Any = None,
        groups: ArrayLike | None = None,
        matured: ArrayLike | None = None,
    ) -> BandVerdict:
        """Check whether later labelled rows contradict the guarantees.

        It may be called as often as you like, after every batch or every row: if the guarantees
        hold, the probability that any check ever returns ``broken`` is at most ``level``.

        Parameters
        ----------
        y, scores : array-like of shape (n,)
            Labels and scores of cases since the certificate; with ``after``, since that check.
        after : BandVerdict, optional
            The result of the previous check, which this one continues.
        level : float
            The probability of a false alarm, over all checks together.
        pos_label : optional
            The label of the positive class; by default that of the certificate.
        groups : array-like of shape (n,), optional
            Rows that belong together; one row of each group is used. Required if the certificate is
            for groups.
        matured : array-like of bool, shape (n,), optional
            Whether a label is final. Other rows are left out and counted as pending; give them
            again when they have matured.
        """
        if not self.certified:
            raise SetpointError("nothing was certified, so later rows cannot contradict it.")
        if groups is None and self.one_per_group:
            raise SetpointError(
                "the guarantee is for one case of each group; give groups=, or one row of each and "
                "groups=range(len(y))."
            )
        pending = 0
        if matured is not None:
            final = _check_matured(matured, np.shape(y))
            pending = int((~final).sum())
            y, scores = np.asarray(y)[final], np.asarray(scores)[final]
            groups = None if groups is None else np.asarray(groups)[final]
        y, scores = sample_groups(groups, 0, y, scores)
        label = self.pos_label if pos_label is None else pos_label
        band = (self.low, self.high)
        identity = (str(self.goal), *band, self.confidence, *self.operating_point.counts[:-1])
        return check_band_guarantees(
            self.goal, band, y, scores, after, level, label, identity, pending
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        bounds = [
            {
                "metric": str(b.metric), "level": b.level, "value": jsonable(b.value),
                "bound": jsonable(b.bound), "kind": b.kind, "successes": b.successes,
                "trials": b.trials, "p_value": b.p_value,
            }
            for b in self.bounds
        ]  # fmt: skip
        sets = {
            name: [list(map(jsonable, interval)) for interval in getattr(self, name)]
            for name in ("alarm_thresholds", "clear_thresholds")
        }
        return {
            "goal": str(self.goal), "low": jsonable(self.low), "high": jsonable(self.high),
            "confidence": self.confidence, "certified": self.certified, "bounds": bounds, **sets,
            "chosen": list(self.chosen), "more_positives": self.more_positives,
            "one_per_group": self.one_per_group, "message": self.message,
            "assumptions": list(self.assumptions),
            "operating_point": self.operating_point.to_dict(),
        }  # fmt: skip
