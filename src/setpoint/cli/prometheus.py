"""Verdicts of ``setpoint evaluate`` in the text format of Prometheus.

The node exporter reads such a file in the folder of its textfile collector. Names and labels are in
docs/command-line.md; they stay as they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = "# generator: setpoint "  # by which the file of an earlier check is recognised

_GAUGES = {
    "rows": "Labelled rows of the latest check.",
    "positive_rows": "Positive rows of the latest check.",
    "alarms": "Rows with an alarm in the latest check.",
    "metric_value": "Metrics of the model on the rows of the latest check.",
    "threshold": "Thresholds of the model's scores.",
    "goal_met": "Whether the goal is met on the rows of the latest check (1 or 0).",
    "certified": "Whether the model has a certificate of its goal (1 or 0).",
    "certificate_holds": "0 if the checks contradict the certificate, otherwise 1.",
    "certificate_evidence": "Largest evidence against a guarantee in all checks.",
    "certificate_p_value": "Bound on the probability of this evidence if the guarantee holds.",
    "certificate_one_look_p_value": "Exact p-value of the latest check as the only planned one.",
    "certificate_checks": "Checks of the certificate so far.",
    "column_difference": "Difference of a column from training, from 0 to 1.",
    "columns_different": "Columns that differ notably from training, beyond chance.",
    "rows_seen_in_training_ratio": "Fraction of the rows that trained or certified the model.",
    "last_check_timestamp_seconds": "Time of the latest check.",
}


@dataclass
class Samples:
    """Values of gauges with their labels.

    Attributes
    ----------
    model, goal : str
        Labels of all values.
    """

    model: str
    goal: str
    _lines: dict[str, list[str]] = field(default_factory=dict)

    def add(self, gauge: str, value: float | bool | None, **labels: str) -> None:
        """Add a value, unless it is None."""
        if value is None:
            return
        every = {"model": self.model, "goal": self.goal, **labels}
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in every.items())
        self._lines.setdefault(gauge, []).append(f"setpoint_{gauge}{{{shown}}} {_number(value)}")

    def add_point(self, point: Any, thresholds: Any, **labels: str) -> None:
        """Add the counts and metrics of an operating point or a review band."""
        from setpoint.cli.points import is_met, listed_values

        for gauge, count in _counts(point).items():
            self.add(gauge, count, **labels)
        for name, value in listed_values(point).items():
            self.add("metric_value", value, metric=name, **labels)
        bounds = thresholds if isinstance(thresholds, tuple) else (thresholds,)
        for bound, value in zip(("low", "high") if len(bounds) > 1 else ("",), bounds, strict=True):
            self.add("threshold", float(value), **({"bound": bound} if bound else {}), **labels)
        self.add("goal_met", is_met(point), **labels)

    def add_verdict(self, verdict: Any, **labels: str) -> None:
        """Add what all checks of a certificate have found."""
        self.add("certificate_holds", not verdict.broken, **labels)
        self.add("certificate_checks", verdict.checks, **labels)
        for guarantee, evidence in zip(verdict.guarantees, verdict.evidence, strict=True):
            own = {"guarantee": str(guarantee), **labels}
            self.add("certificate_evidence", evidence, **own)
            # A test that may be repeated: the evidence is an e-process.
            self.add("certificate_p_value", 1 / max(1.0, evidence), **own)
        for guarantee, p_value in zip(verdict.guarantees, verdict.p_values, strict=False):
            self.add("certificate_one_look_p_value", p_value, guarantee=str(guarantee), **labels)

    def add_drift(self, drift: Any) -> None:
        """Add how much the columns differ from training."""
        self.add("columns_different", len(drift.notable))
        for column in drift:
            self.add("column_difference", column.size, column=column.name)

    def write(self, path: Path | None) -> Iterator[tuple[str, Path]]:
        """Write the file, if it is wanted, and yield its kind and path."""
        from setpoint._internal.files import write_atomically
        from setpoint._internal.provenance import __version__

        if path is None:
            return
        self.add("last_check_timestamp_seconds", time.time())
        lines = [f"{HEAD}{__version__}"]
        for gauge, text in _GAUGES.items():
            if found := self._lines.get(gauge):
                lines += [f"# HELP setpoint_{gauge} {text}", f"# TYPE setpoint_{gauge} gauge"]
                lines += found
        write_atomically(path, "\n".join(lines) + "\n")
        yield "prometheus", path


def _counts(point: Any) -> Mapping[str, float]:
    if hasattr(point, "tp"):
        positive = point.tp + point.fn
        return {
            "rows": positive + point.fp + point.tn,
            "positive_rows": positive,
            "alarms": point.tp + point.fp,
        }
    counts = point.counts
    return {
        "rows": counts.P + counts.N,
        "positive_rows": counts.P,
        "alarms": point.alarm_positives + point.alarm_negatives,
    }


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else f"{float(value):.17g}"
