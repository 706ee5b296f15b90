"""From what a command found to the report's content, and to its files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint._machine import machine
from setpoint.errors import SetpointError
from setpoint.report import Baseline, Costs, Report, Rows, save_figures, write_report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from setpoint.certificates import Certificate
    from setpoint.tabular.fitted import FittedTable
    from setpoint.tabular.model import TableModel


def costs_of(alarm: float | None, miss: float | None, currency: str) -> Costs | None:
    """Return the costs, or None where none are given."""
    if alarm is None and miss is None:
        return None
    if alarm is None or miss is None:
        raise SetpointError("money needs both --cost-alarm and --cost-miss.")
    return Costs(alarm, miss, currency=currency)


def report_of_fit(
    fitted: FittedTable, data: Path, facts: dict[str, str], costs: Costs | None
) -> Report:
    """Return the report of a new model, on its test rows."""
    model, test, baseline = fitted.model, fitted.test, fitted.baseline
    classifier = model.classifier
    assert test is not None
    rival = None
    if baseline is not None:
        rival = Baseline(baseline.name, baseline.scores, baseline.threshold)
    return Report(
        model.goal,
        Rows(test.y, test.scores, on="the test part", unseen=True),
        0.0,
        certificate=model.certificate,
        baseline=rival,
        history=getattr(classifier, "history_", None),
        candidates=getattr(classifier, "candidates_", None),
        costs=costs,
        title=f"{data.stem}: {model.goal}",
        positive=str(model.positive),
        facts={**_facts(data), **facts, **{k: str(v) for k, v in model.facts.items()}},
        notes=(*fitted.notes, *(smell.message for smell in fitted.smells)),
    )


def report_of_rows(
    model: TableModel,
    y: NDArray[np.bool_],
    scores: NDArray[np.floating],
    data: Path,
    costs: Costs | None,
) -> Report:
    """Return the report of a saved model on other rows."""
    classifier = model.classifier
    return Report(
        model.goal,
        Rows(y, scores, on=data.name),
        0.0,
        certificate=model.certificate,
        history=getattr(classifier, "history_", None),
        candidates=getattr(classifier, "candidates_", None),
        costs=costs,
        title=f"{data.stem}: {model.goal}",
        positive=str(model.positive),
        facts=_facts(data),
    )


def report_of_scores(
    y: NDArray[np.bool_],
    scores: NDArray[np.floating],
    positive: Any,
    certificate: Certificate,
    data: Path,
    costs: Costs | None,
) -> Report:
    """Return the report of scores from elsewhere."""
    return Report(
        certificate.goal,
        Rows(y, scores, on=data.name),
        certificate.threshold,
        certificate=certificate,
        costs=costs,
        title=f"{data.stem}: {certificate.goal}",
        positive=str(positive),
        facts=_facts(data),
    )


def _facts(data: Path) -> dict[str, str]:
    today = datetime.date.today().isoformat()
    return {"data": data.name, "date": today, "machine": machine()}


def write(report: Report, page: Path | None, figures: Path | None) -> list[str]:
    """Write what is asked for; return a line for each."""
    written = []
    if page is not None:
        write_report(report, page)
        written.append(f"Report: {page}")
    if figures is not None:
        written += [f"Figure: {path}" for path in save_figures(report, figures)]
    return written
