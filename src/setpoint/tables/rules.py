"""How a model of tables decides: by one threshold, the two of a review band, or one per label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint.estimators.band import SetpointBand
from setpoint.thresholds.bands import ALARM, REVIEW, decide, evaluate_band
from setpoint.thresholds.choose import evaluate_threshold

if TYPE_CHECKING:
    from setpoint.certificates.band_certificate import BandCertificate
    from setpoint.certificates.certificate import Certificate
    from setpoint.data.labels import Label
    from setpoint.estimators.classifier import SetpointClassifier
    from setpoint.estimators.threshold import SetpointThreshold
    from setpoint.thresholds.bands import BandPoint
    from setpoint.thresholds.operating_point import OperatingPoint

pd = OptionalModule("pandas", "cli", "a table")

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class ThresholdRule:
    """An alarm is a score > 0: scores of a model are relative to its threshold."""

    classifier: SetpointClassifier | SetpointThreshold

    columns = ("score", "alarm", "predicted")
    counts = ("alarms",)
    labels = ()
    thresholds = 0.0

    @property
    def point(self) -> OperatingPoint:
        """The classifier's operating point, for relative scores."""
        return replace(self.classifier.operating_point_, threshold=0.0)

    @property
    def certificate(self) -> Certificate | None:
        """The classifier's certificate, for relative scores."""
        found = self.classifier.certificate_
        if found is None:
            return None
        return replace(
            found,
            threshold=0.0,
            operating_point=self.point,
            certified_thresholds=found.certified_thresholds.less(found.threshold),
        )

    def evaluate(
        self,
        y: NDArray[np.bool_],
        scores: Floats,
        on: str,
        named: dict[str, Any],
        weight: Floats | None = None,
    ) -> OperatingPoint:
        """Return the operating point on labelled rows."""
        goal = self.classifier.goal_
        return evaluate_threshold(y, scores, 0.0, goal, sample_weight=weight, on=on, **named)

    def decide(
        self, scores: Floats, alarm: NDArray[np.bool_] | None, labels: tuple[Label, Label]
    ) -> dict[str, Any]:
        """Return the columns of the result; ``alarm`` overrides the threshold."""
        alarm = scores > 0 if alarm is None else alarm
        predicted = pd.Series(list(labels)).take(alarm.astype(int))
        return {"score": scores, "alarm": alarm, "predicted": predicted.array}

    def counted(self, decided: Any) -> dict[str, int]:
        """Return the number of alarms in a result."""
        return {"alarms": int(decided["alarm"].sum())}


@dataclass(frozen=True)
class BandRule:
    """Scores are the classifier's own: above ``high`` an alarm, up to ``low`` cleared."""

    classifier: SetpointBand

    columns = ("score", "decision")
    counts = ("alarms", "reviews")
    labels = ()

    @property
    def thresholds(self) -> tuple[float, float]:
        """The lower and the upper threshold."""
        return self.classifier.low_, self.classifier.high_

    @property
    def point(self) -> BandPoint:
        """The classifier's band, on the rows that it was chosen on."""
        return self.classifier.operating_point_

    @property
    def certificate(self) -> BandCertificate | None:
        """The classifier's certificate."""
        return self.classifier.certificate_

    def evaluate(
        self,
        y: NDArray[np.bool_],
        scores: Floats,
        on: str,
        named: dict[str, Any],
        weight: Floats | None = None,
    ) -> BandPoint:
        """Return the counts of the band on labelled rows."""
        goal = self.classifier.goal_
        return evaluate_band(
            y, scores, *self.thresholds, goal, sample_weight=weight, on=on, **named
        )

    def decide(
        self, scores: Floats, alarm: NDArray[np.bool_] | None, labels: tuple[Label, Label]
    ) -> dict[str, Any]:
        """Return the columns of the result; there is no other way to decide, so no ``alarm``."""
        return {"score": scores, "decision": decide(scores, *self.thresholds)}

    def counted(self, decided: Any) -> dict[str, int]:
        """Return the numbers of alarms and of reviews in a result."""
        made = decided["decision"]
        return {"alarms": int((made == ALARM).sum()), "reviews": int((made == REVIEW).sum())}


@dataclass(frozen=True)
class LabelsRule:
    """Several labels: an alarm of each is a score above its threshold."""

    labels: tuple[str, ...]
    thresholds: NDArray[np.float64]

    @property
    def columns(self) -> tuple[str, ...]:
        """Score and alarm of each label."""
        return tuple(f"{name}_{what}" for name in self.labels for what in ("score", "alarm"))

    @property
    def counts(self) -> tuple[str, ...]:
        """What is counted: rows with an alarm, and the alarms of each label."""
        return ("alarms", *self._alarms)

    @property
    def _alarms(self) -> list[str]:
        return [f"{name}_alarm" for name in self.labels]

    def decide(self, scores: Floats) -> dict[str, Any]:
        """Return the columns of the result: scores relative to the threshold, and alarms."""
        # An infinite threshold is that of a label without positives.
        relative, found = scores - self.thresholds, scores > self.thresholds
        pairs = (column for place in zip(relative.T, found.T, strict=True) for column in place)
        return dict(zip(self.columns, pairs, strict=True))

    def counted(self, decided: Any) -> dict[str, int]:
        """Return the numbers of rows with an alarm and of each label's alarms in a result."""
        marked = decided[self._alarms]
        of_labels = {str(name): int(number) for name, number in marked.sum().items()}
        return {"alarms": int(marked.any(axis=1).sum()), **of_labels}


Rule = ThresholdRule | BandRule


def rule_of(classifier: Any) -> Rule:
    """Return how a fitted classifier decides."""
    if isinstance(classifier, SetpointBand):
        return BandRule(classifier)
    return ThresholdRule(classifier)
