"""``setpoint evaluate``: what a saved model does on labelled rows."""

from __future__ import annotations

from typing import Any

from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.words import ending, point_table


def evaluate(
    model: o.Model,
    data: o.Data,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.CostOfAlarm = None,
    cost_miss: o.CostOfMiss = None,
    currency: o.Currency = "€",
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Measure a saved model on labelled rows, and check whether its certificate still holds."""
    from setpoint.cli.models import groups_of, load_table_model
    from setpoint.cli.reports import costs_of, report_of_rows, write

    costs = costs_of(cost_alarm, cost_miss, currency)
    output = Output(as_json, quiet)
    with output.warnings_as_notes():
        loaded = load_table_model(model)
    with output.progress(f"reading {data.name}"):
        frame = loaded.read(data)
    y, scores = loaded.labelled_scores(frame)
    point = loaded.evaluate(frame, on=data.name)
    certificate = loaded.certificate
    verdict = None
    if certificate is not None and certificate.certified:
        verdict = certificate.check(y, scores, groups=groups_of(loaded, frame))
    written = []
    if report or figures:
        written = write(report_of_rows(loaded, y, scores, data, costs), report, figures)
    output.result(
        {
            "model": str(model),
            "evaluated": point.to_dict(),
            "verdict": None if verdict is None else verdict.to_dict(),
            "report": None if report is None else str(report),
        },
        point_table(loaded.operating_point, point),
        *([] if verdict is None else [str(verdict)]),
        *written,
    )
    ending(strict, point, None)


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(evaluate)
