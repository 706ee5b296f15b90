"""The certificate of a partly labelled pool: certified thresholds, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import format_threshold
from setpoint.thresholds.operating_point import jsonable


@dataclass(frozen=True)
class PoolCertificate(NotebookSummary):
    """Guarantees for thresholds of a pool of scored rows of which some are labelled.

    ``print`` shows all of it as text.

    Attributes
    ----------
    goal : Goal
        The goal to certify.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        false certificate.
    certified_thresholds : ThresholdSet
        All thresholds that are certified together: any of them may be used.
    threshold : float or None
        The one with the best objective, by the labels so far; ``score > threshold`` is positive.
    labels, rows : int
        The number of labels used, and of rows in the pool.
    alarms, labelled_alarms, true_alarms : int
        The rows of the pool above the threshold, those of them with labels, and the positives.
    recall : float or None
        An estimate of recall at the threshold, which is not a guarantee; None if nothing is known
        about positives below.
    reason : str
        Why nothing is certified, or "".
    """

    goal: Goal
    confidence: float
    certified_thresholds: ThresholdSet
    threshold: float | None
    labels: int
    rows: int
    alarms: int = 0
    labelled_alarms: int = 0
    true_alarms: int = 0
    recall: float | None = None
    reason: str = ""

    @property
    def certified(self) -> bool:
        """Whether at least one threshold is certified."""
        return self.threshold is not None

    @property
    def guarantees(self) -> tuple[Constraint, ...]:
        """What holds on new data at every certified threshold."""
        return self.goal.constraints if self.certified else ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions under which the guarantees hold."""
        return (
            "the rows of the pool and new cases are independent draws from one population (rows of "
            "one patient, customer or hour are not independent)",
            "neither the model nor its features were trained or chosen on the pool, and the plan "
            "was made on other rows",
            "the labels are right (rows without an answer count as the worst case, so that it does "
            "not matter which ones are missing)",
            "the prevalence stays the same, for precision",
        )

    @property
    def message(self) -> str:
        """The outcome as a sentence."""
        percent = f"{100 * self.confidence:g} %"
        used = f"{self.labels:,} labels of {self.rows:,} rows"
        if self.threshold is None:
            return f"Not certified at {percent} confidence with {used}: {self.reason}"
        held = " and ".join(map(str, self.guarantees))
        text = (
            f"Certified at {percent} confidence: {held} at threshold "
            f"{format_threshold(self.threshold)}, with {used}. "
            f"{self.alarms:,} rows are above it; {self.true_alarms:,} of the "
            f"{self.labelled_alarms:,} with labels are positive."
        )
        if self.recall is None:
            return f"{text} Nothing is known about recall."
        return f"{text} Recall is about {self.recall:.2f} (an estimate)."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "goal": str(self.goal), "confidence": self.confidence, "certified": self.certified,
            "threshold": jsonable(self.threshold),
            "certified_thresholds": [list(map(jsonable, i)) for i in self.certified_thresholds],
            "labels": self.labels, "rows": self.rows, "alarms": self.alarms,
            "labelled_alarms": self.labelled_alarms, "true_alarms": self.true_alarms,
            "recall": jsonable(self.recall), "message": self.message,
            "assumptions": list(self.assumptions),
        }  # fmt: skip

    def _summary(self) -> Summary:
        rows = [["certified", "labels", "rows above", "with labels", "positive"]]
        held = " and ".join(map(str, self.guarantees)) or "nothing"
        counts = (self.labels, self.alarms, self.labelled_alarms, self.true_alarms)
        rows.append([held, *(f"{count:,}" for count in counts)])
        where = "" if self.threshold is None else f"threshold {format_threshold(self.threshold)}, "
        return Summary(
            self.message, self.certified, f"{where}{100 * self.confidence:g} % confidence", [rows],
            ("Assumptions", self.assumptions),
        )  # fmt: skip

    def __str__(self) -> str:
        lines = [self.message]
        if self.certified and not self.certified_thresholds.is_one_threshold:
            lines.append(
                f"certified thresholds, any of which may be used: {self.certified_thresholds}"
            )
        return "\n".join([*lines, "Assumptions:", *(f"  - {a}" for a in self.assumptions)])
