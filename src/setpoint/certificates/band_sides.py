"""One side of a review band: its certified thresholds.

A metric of alarms is a plain metric at the upper threshold, and a metric of cleared rows one at the
lower threshold, so each side is certified like a plain goal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify_best, certify_threshold
from setpoint.certificates.sequence import Rows
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.goals.band_metrics import BandMetric, Side
from setpoint.goals.bands import BandGoal
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import RECALL, SPECIFICITY, metric

Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]
ALL_THRESHOLDS = ThresholdSet(((-math.inf, math.inf),))


@dataclass(frozen=True)
class BandSide:
    """The thresholds of one side that are certified, and the certificate of its plain goal."""

    given: float | None
    thresholds: ThresholdSet
    certificate: Certificate | None  # None without constraints
    plain: dict[str, BandMetric]

    @classmethod
    def of(
        cls,
        side: Side,
        goal: BandGoal,
        given: float | None,
        planning: Rows,
        testing: Rows,
        confidence: float,
        error: float,
        on: str,
    ) -> BandSide:
        """Certify a side: at one threshold with the whole error, at all with its part of it."""
        plain = plain_goal(goal, side)
        names = {str(c.metric.at_threshold): c.metric for c in goal.of_side(side)}
        if plain is None:
            all_of_them = ALL_THRESHOLDS if given is None else ThresholdSet.of_points([given])
            return cls(given, all_of_them, None, names)
        if given is None:
            found = certify_best(planning, testing, plain, 1 - error, on=on)
        else:
            found = certify_threshold(testing, plain, given, confidence, on=on)
        return cls(given, found.certified_thresholds, found, names)

    @property
    def is_refused(self) -> bool:
        """Whether no threshold is certified."""
        return not self.thresholds

    @property
    def closest(self) -> BandSide:
        """Itself, or with the threshold that is closest to pass if none is certified."""
        if not self.is_refused:
            return self
        assert self.certificate is not None
        return replace(self, given=self.certificate.threshold, thresholds=ALL_THRESHOLDS)

    @property
    def one_threshold(self) -> float:
        """The threshold given, or the best or closest one."""
        if self.given is not None:
            return self.given
        assert self.certificate is not None  # otherwise every threshold is allowed
        return self.certificate.threshold

    def allowed(self, candidates: Floats) -> Mask:
        """Return which candidates are certified."""
        if self.given is None:
            return _contains(self.thresholds, candidates)
        return np.asarray((candidates == self.given) & bool(self.thresholds))

    @property
    def refusal(self) -> str:
        """Why no threshold is certified, in the words of review bands."""
        assert self.certificate is not None
        text = self.certificate.refusal or ""
        for plain, own in self.plain.items():
            name = "1 - clear_rate" if own.name == "clear_rate" else own.name
            text = text.replace(f"{plain} ", f"{name} ").replace(f"{plain};", f"{name};")
        return text


def plain_goal(goal: BandGoal, side: Side) -> Goal | None:
    """Return the constraints of one side as a goal of its threshold, or None if there are none.

    Its objective is that of the goal, if it is of the same side. Otherwise it is the one that a
    narrower band improves: recall above the upper threshold, specificity at the lower one.
    """
    constraints = tuple(c.plain for c in goal.of_side(side))
    if not constraints:
        return None
    objective = RECALL if side == "alarm" else SPECIFICITY
    if goal.objective.side == side:
        objective = metric(str(goal.objective.at_threshold))
    return Goal(objective, constraints)


def _contains(thresholds: ThresholdSet, values: Floats) -> Mask:
    """Return which values belong to a set of thresholds."""
    if not thresholds:
        return np.zeros(len(values), dtype=bool)
    low, high = np.array(thresholds.intervals).T
    at = np.searchsorted(low, values, side="right") - 1
    ends = high[np.maximum(at, 0)]
    return np.asarray((at >= 0) & ((values < ends) | (ends == np.inf)))
