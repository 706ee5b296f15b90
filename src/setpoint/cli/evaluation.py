"""What ``setpoint evaluate`` finds on labelled rows: as text, JSON, gauges and a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint.cli.points import is_met, missing_class, one_class_message, point_fields, point_table
from setpoint.cli.prometheus import Samples
from setpoint.cli.reports import training_of
from setpoint.cli.verdicts import CONTINUE, not_monitored, verdict_fields
from setpoint.cli.why import drift_text, importance_text
from setpoint.goals.bands import BandGoal
from setpoint.report.bands import TOO_FEW
from setpoint.report.content import Rows
from setpoint.report.sentences import too_few

if TYPE_CHECKING:
    from setpoint.cli.reports import ReportRequest
    from setpoint.cli.seen_rows import SeenRows
    from setpoint.explain.explanations import Explanations
    from setpoint.explain.nearest import NearestRows
    from setpoint.report.content import Baseline
    from setpoint.tables.model import TableModel
    from setpoint.thresholds.operating_point import OperatingPoint


@dataclass(frozen=True)
class Evaluation:
    """A model of one label on labelled rows.

    Attributes
    ----------
    model, path : TableModel, Path
        The model, and where it is saved.
    y, scores, named : array, array, dict
        Labels and scores of the rows, and the columns that the goal names.
    point : OperatingPoint or BandPoint
        Of these rows.
    certificate : Certificate, BandCertificate or None
        That of the model, if it certifies the goal.
    verdict : verdict or None
        What all checks of the certificate have found.
    caution : str
        What rows of one class may not test.
    current : (Baseline, OperatingPoint) or None
        Today's model on the same rows.
    seen : SeenRows
        How many of the rows were seen before.
    unseen : list of str
        Notes on values that training has not seen.
    why : Explanations
        Of the model on these rows.
    nearest : NearestRows or None
        The rows nearest to the threshold, if they are asked for.
    """

    model: TableModel
    path: Path
    y: Any
    scores: Any
    named: dict[str, Any]
    point: Any
    certificate: Any
    verdict: Any
    caution: str
    current: tuple[Baseline, OperatingPoint] | None
    seen: SeenRows
    unseen: list[str]
    why: Explanations
    nearest: NearestRows | None

    @property
    def met(self) -> bool:
        """Whether the goal is met, and the certificate not contradicted."""
        return bool(is_met(self.point)) and not (self.verdict is not None and self.verdict.broken)

    @property
    def not_monitored(self) -> str | None:
        """Why the rows are not compared with the certificate, if it cannot be checked."""
        if self.certificate is None or self.certificate.can_be_checked:
            return None
        return not_monitored(self.certificate)

    def parts(self) -> list[Any]:
        """Return tables and texts for a terminal."""
        point, verdict = self.point, self.verdict
        current_point = None if self.current is None else self.current[1]
        found = [point_table(self.model.operating_point, point, current_point)]
        if missing_class(point) is not None:
            found.append(one_class_message(point))
        if self.not_monitored is not None:
            found.append(self.not_monitored)
        if verdict is not None:
            found.append(str(verdict))
            if point.missed and not verdict.broken:
                found.append(_still_certified(verdict, point))
            if self.caution:
                found.append(self.caution)
            if not verdict.broken:
                found.append(CONTINUE)
        if self.why.drift is not None:
            found.append(drift_text(self.why.drift))
        if self.why.importances is not None:
            found.append(importance_text(self.why.importances))
        if self.nearest is not None:
            found.append(str(self.nearest))
        return found

    def fields(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        drift, importances = self.why.drift, self.why.importances
        return {
            "model": str(self.path),
            "evaluated": point_fields(self.point),
            "baseline": None if self.current is None else point_fields(self.current[1]),
            "verdict": None if self.verdict is None else verdict_fields(self.verdict),
            "not_monitored": self.not_monitored,
            "drift": None if drift is None else drift.to_dict(),
            "importance": None if importances is None else importances.to_dict(),
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            **self.seen.fields(continues=self.verdict is not None),
        }

    def samples(self) -> Samples:
        """Return the values for Prometheus."""
        found = Samples(str(self.path), str(self.model.goal))
        found.add_point(self.point, self.model.rule.thresholds)
        found.add("certified", self.certificate is not None)
        if self.verdict is not None:
            found.add_verdict(self.verdict)
        self.seen.add_to(found)
        if self.why.drift is not None:
            found.add_drift(self.why.drift)
        return found

    def report(self, request: ReportRequest, after: Path | None) -> Any:
        """Return the content of a report; ``after``: what the check continued from."""
        model, stated = self.model, self.model.certificate
        facts = {
            "model": self.path, "target": model.target,
            "confidence": None if stated is None else stated.confidence,
            "check continued from": after,
        }  # fmt: skip
        return request.report(
            model.goal,
            Rows(
                self.y,
                self.scores,
                on=self.point.on,
                named=self.named,
                probability=model.probabilities_of(self.scores),
            ),
            model.rule.thresholds,
            model.positive,
            facts,
            certificate=stated,
            verdict=self.verdict,
            notes=tuple(self.unseen),
            why=self.why,
            **({} if self.current is None else {"current": self.current[0]}),
            **training_of(model),
        )


def _still_certified(verdict: Any, point: Any) -> str:
    """Explain why a certificate stands although rows miss the goal."""
    if isinstance(point.goal, BandGoal):
        return TOO_FEW
    # The verdict states the p-values.
    return too_few(verdict, point.missed, "positive", "positives", with_p_values=False)
