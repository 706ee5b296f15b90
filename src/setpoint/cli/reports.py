"""Reports of commands: their content, and the files they are written to."""

from __future__ import annotations

import datetime
import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint._internal.provenance import machine
from setpoint.errors import SetpointError
from setpoint.report.content import Costs, Report, Rows
from setpoint.report.figures import save_figures
from setpoint.report.page import write_report

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from setpoint.certificates.certificate import Certificate
    from setpoint.certificates.monitor import Verdict
    from setpoint.cli.output import Output
    from setpoint.tables.fitting import FittedTable
    from setpoint.tables.model import TableModel

# Facts of a model that a report shows under another name, or elsewhere.
_RENAMED = {"rows": "rows of the table", "positives": "positives in the table"}
_ELSEWHERE = ("model", "group", "time", "random_state")


@dataclass(frozen=True)
class ReportRequest:
    """The report that the options of a command ask for.

    Attributes
    ----------
    data : Path
        The table that it is about.
    page, figures : Path or None
        The HTML file, and the folder of the figures.
    costs : Costs or None
        Costs to show.
    title : str or None
        The page's title.
    called : str or None
        Singular and plural of the positives, separated by a comma.
    command : tuple of str
        The command's arguments.
    """

    data: Path
    page: Path | None = None
    figures: Path | None = None
    costs: Costs | None = None
    title: str | None = None
    called: str | None = None
    command: tuple[str, ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether anything will be written."""
        return self.page is not None or self.figures is not None

    def note_unused_options(self, output: Output, *, uses_called: bool = False) -> None:
        """Note options that have no effect without a report.

        ``uses_called`` says whether the command prints sentences of the report, and so uses
        ``--called`` in any case.
        """
        if self.wanted:
            return
        given = {
            "--title": self.title,
            "--called": None if uses_called else self.called,
            "--cost-alarm": self.costs,
            "--cost-miss": self.costs,
        }
        names = [name for name, value in given.items() if value is not None]
        if names:
            listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
            verb = "has" if len(names) == 1 else "have"
            output.note(f"{listed} {verb} no effect without --report or --figures.")

    def content(self, goal: Any, positive: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a report that do not depend on the results."""
        one, many = str(positive), None
        if self.called is not None:
            one, many = (word.strip() for word in self.called.split(","))
        return {
            "costs": self.costs,
            "title": self.title or f"{self.data.stem}: {goal}",
            "positive": one,
            "positives": many,
            "facts": self._facts({"positive label": positive, **facts}) if self.wanted else {},
        }

    def _facts(self, own: Mapping[str, Any]) -> dict[str, str]:
        """Return everything that is needed to make the same page again."""
        facts = {
            "data": self.data.name,
            "SHA-256 of the data": _digest(self.data),
            **own,
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "command": shlex.join(["setpoint", *self.command]),
        }
        return {name: str(value) for name, value in facts.items() if value not in (None, "")}

    def files(self, content: Callable[[], Report]) -> Iterator[tuple[str, Path]]:
        """Write the files that were asked for; yield the kind and path of each."""
        if not self.wanted:
            return
        report = content()
        if self.page is not None:
            yield "report", write_report(report, self.page)
        if self.figures is not None:
            for path in save_figures(report, self.figures):
                yield "figure", path


def costs_of(alarm: float | None, miss: float | None, currency: str) -> Costs | None:
    """Return the costs, or None if none are given."""
    if alarm is None and miss is None:
        return None
    if alarm is None or miss is None:
        raise SetpointError("costs need both --cost-alarm and --cost-miss.")
    return Costs(alarm, miss, currency=currency)


def report_of_fit(fitted: FittedTable, request: ReportRequest, facts: Mapping[str, Any]) -> Report:
    """Return the report of a new model, on its test rows."""
    model, test = fitted.model, fitted.test
    assert test is not None
    verdict = None
    if model.certificate is not None and model.certificate.certified:
        verdict = model.certificate.check(test.y, test.scores, groups=test.groups)
    counts = {
        _RENAMED.get(name, name): value
        for name, value in model.facts.items()
        if name not in _ELSEWHERE
    }
    return Report(
        model.goal,
        Rows(test.y, test.scores, on="the test part", unseen=True),
        0.0,
        certificate=model.certificate,
        verdict=verdict,
        baseline=fitted.baseline,
        tuned=fitted.tuned,
        **_training(model),
        **request.content(model.goal, model.positive, {**facts, **counts}),
        notes=(*fitted.notes, *(found.message for found in fitted.leakage)),
    )


def report_of_rows(
    model: TableModel,
    y: NDArray[np.bool_],
    scores: NDArray[np.floating],
    verdict: Verdict | None,
    request: ReportRequest,
    facts: Mapping[str, Any],
    notes: tuple[str, ...] = (),
) -> Report:
    """Return the report of a saved model on other rows."""
    return Report(
        model.goal,
        Rows(y, scores, on=request.data.name),
        0.0,
        certificate=model.certificate,
        verdict=verdict,
        **_training(model),
        **request.content(model.goal, model.positive, facts),
        notes=notes,
    )


def report_of_scores(
    y: NDArray[np.bool_],
    scores: NDArray[np.floating],
    positive: Any,
    certificate: Certificate,
    request: ReportRequest,
    facts: Mapping[str, Any],
) -> Report:
    """Return the report of scores of any model."""
    return Report(
        certificate.goal,
        Rows(y, scores, on=request.data.name, chose=certificate.choice != "beforehand"),
        certificate.threshold,
        certificate=certificate,
        **request.content(certificate.goal, positive, facts),
    )


def _digest(path: Path) -> str | None:
    """Return the checksum of a file; None for a folder, or a file that was removed meanwhile."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _training(model: TableModel) -> dict[str, Any]:
    names = {"history": "history_", "candidates": "candidates_"}
    return {name: getattr(model.classifier, there, None) for name, there in names.items()}
