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
from setpoint.goals.bands import BandGoal

if TYPE_CHECKING:
    from setpoint.cli.output import Output
    from setpoint.explain.explanations import Explanations
    from setpoint.goals.bands import AnyGoal
    from setpoint.report.bands import BandReport
    from setpoint.report.content import Costs, Report, Rows
    from setpoint.report.page import AnyReport
    from setpoint.tables.fitting import FittedTable
    from setpoint.tables.model import TableModel

# Facts of a model that a report shows under another name, or elsewhere.
_RENAMED = {
    "rows": "rows of the table", "positives": "positives in the table",
    "certifying rows": "certification rows",
}  # fmt: skip
_NOT_COUNTS = ("seed", "positive label")
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
    currency : str
        Written before amounts of money.
    """

    data: Path
    page: Path | None = None
    figures: Path | None = None
    costs: Costs | None = None
    title: str | None = None
    called: str | None = None
    command: tuple[str, ...] = ()
    currency: str = "€"

    @property
    def wanted(self) -> bool:
        """Whether anything will be written."""
        return self.page is not None or self.figures is not None

    def note_unused_options(self, output: Output, *, uses_called: bool = False) -> None:
        """Note options that have no effect without a report.

        ``uses_called`` is true if the command prints sentences of the report, which use
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
            from setpoint.report.wording import joined

            verb = "has" if len(names) == 1 else "have"
            output.note(f"{joined(names)} {verb} no effect without --report or --figures.")

    def report(
        self,
        goal: AnyGoal,
        rows: Rows,
        thresholds: float | tuple[float, float],
        positive: Any,
        facts: Mapping[str, Any],
        **results: Any,
    ) -> Report | BandReport:
        """Return the report's content; ``results`` are further fields of it.

        A goal of a review band has two ``thresholds``, the lower one first.
        """
        from setpoint.report.bands import BandReport
        from setpoint.report.content import Report

        one, many = str(positive), None
        if self.called is not None:
            one, many = (name.strip() for name in self.called.split(","))
        if self.wanted:
            results["facts"] = self.facts_of({"positive label": positive, **facts})
        results |= {
            "currency": self.currency, "title": self.title or f"{self.data.stem}: {goal}",
            "positive": one, "positives": many,
        }  # fmt: skip
        if isinstance(goal, BandGoal):
            assert isinstance(thresholds, tuple)
            return BandReport(goal, rows, *thresholds, **results)
        assert isinstance(thresholds, float)
        return Report(goal, rows, thresholds, costs=self.costs, **results)

    def facts_of(self, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return everything that is needed to make the same page again."""
        facts = {
            "data": self.data.name,
            "SHA-256 of the data": _digest(self.data),
            **facts,
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "command": shlex.join(["setpoint", *self.command]),
        }
        return {
            name: f"{value:,}" if type(value) is int and name not in _NOT_COUNTS else str(value)
            for name, value in facts.items()
            if value not in (None, "") and (name, value) != ("certification rows", 0)
        }

    def files(self, content: Callable[[], AnyReport]) -> Iterator[tuple[str, Path]]:
        """Write the files that were asked for; yield the kind and path of each."""
        if not self.wanted:
            return
        from setpoint.report.figures import save_figures
        from setpoint.report.labels import LabelsReport
        from setpoint.report.page import write_report

        report = content()
        if self.page is not None:
            yield "report", write_report(report, self.page)
        if self.figures is not None and not isinstance(report, LabelsReport):
            for path in save_figures(report, self.figures):
                yield "figure", path


def costs_of(alarm: float | None, miss: float | None, currency: str) -> Costs | None:
    """Return the costs, which :func:`check_costs` has checked, or None if none are given."""
    if alarm is None or miss is None:
        return None
    from setpoint.report.content import Costs

    return Costs(alarm, miss, currency=currency)


def check_costs(alarm: float | None, miss: float | None, goal: AnyGoal | None = None) -> None:
    """Raise SetpointError unless both costs are given, or none, and a report can show them."""
    if (alarm is None) != (miss is None):
        raise SetpointError("costs need both --cost-alarm and --cost-miss.")
    if alarm is not None and isinstance(goal, BandGoal):
        raise SetpointError(
            "--cost-alarm and --cost-miss are for one threshold; a review band has its costs in "
            "the goal, as in 'min cost(fp=5, fn=100, review=2)'."
        )


def report_of_fit(
    fitted: FittedTable,
    request: ReportRequest,
    facts: Mapping[str, Any],
    why: Explanations,
    **results: Any,
) -> Report | BandReport:
    """Return the report of a new model, on its test rows; ``results`` are further fields of it."""
    from setpoint.report.content import Rows

    model, test = fitted.model, fitted.test
    assert test is not None
    verdict = None
    certificate = model.certificate
    if certificate is not None and certificate.certified and certificate.can_be_checked:
        named = test.named or {}
        verdict = certificate.check(test.y, test.scores, groups=test.groups, **named)
    counts = {
        _RENAMED.get(name, name): value
        for name, value in model.facts.items()
        if name not in _ELSEWHERE
    }
    return request.report(
        model.goal,
        Rows(
            test.y,
            test.scores,
            on="the test rows",
            unseen=True,
            named=test.named,
            probability=model.probabilities_of(test.scores),
        ),
        model.rule.thresholds,
        model.positive,
        {**facts, **counts},
        certificate=model.certificate,
        verdict=verdict,
        tuned=fitted.tuned,
        **({} if fitted.current is None else {"current": fitted.current}),
        notes=(*fitted.notes, *(found.message for found in fitted.leakage)),
        why=why,
        **({} if fitted.baseline is None else {"baseline": fitted.baseline}),
        **training_of(model),
        **results,
    )


def training_of(model: TableModel) -> dict[str, Any]:
    """Return what is known of the classifier's training and decisions as fields of a report."""
    if isinstance(model.goal, BandGoal):  # it is not trained for the goal
        return {}
    from setpoint.report.page import choice_of

    names = {
        "history": "history_", "candidates": "candidates_", "decisions": "decisions_",
        "segment_thresholds": "segment_thresholds_",
    }  # fmt: skip
    found = {name: getattr(model.classifier, there, None) for name, there in names.items()}
    return {**choice_of(model.classifier), **found}


def _digest(path: Path) -> str | None:
    """Return the checksum of a file; None for a folder, or a file that was removed meanwhile."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
