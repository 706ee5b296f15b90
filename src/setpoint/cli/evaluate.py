"""``setpoint evaluate``: what a saved model does on labelled rows."""

from __future__ import annotations

from typing import Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.words import ending, met, point_table


def evaluate(
    context: typer.Context,
    model: o.Model,
    data: o.Data,
    after: o.After = None,
    ignore_extra: o.IgnoreExtra = False,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.CostOfAlarm = None,
    cost_miss: o.CostOfMiss = None,
    currency: o.Currency = "€",
    title: o.Title = None,
    called: o.Called = None,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Measure a saved model on labelled rows, and check whether its certificate still holds."""
    from setpoint.cli import looks
    from setpoint.cli.models import groups_of, load_table_model
    from setpoint.cli.reports import Wish, costs_of, report_of_rows
    from setpoint.cli.targets import check_outputs
    from setpoint.errors import SetpointError
    from setpoint.operating_point import evaluate_threshold

    costs = costs_of(cost_alarm, cost_miss, currency)
    check_outputs({"the table": data, "the model": model}, report, figures)
    wish = Wish(data, report, figures, costs, title, called, context.find_root().obj)
    output = Output(as_json, quiet)
    with output.warnings_as_notes():
        loaded = load_table_model(model)
    certificate = loaded.certificate
    promised = certificate is not None and certificate.certified
    if after is not None and not promised:
        raise SetpointError(f"{model} has no certificate, so there is no check to go on with.")
    with output.progress(f"reading {data.name}"):
        frame = loaded.read(data, ignore_extra=ignore_extra)
    y, scores = loaded.labelled_scores(frame)
    strangers = loaded.strangers(frame)
    for note in strangers:
        output.note(note)
    point = evaluate_threshold(y, scores, 0.0, loaded.goal, on=data.name)
    verdict = None
    if certificate is not None and promised:
        before = None if after is None else looks.read(after, certificate)
        verdict = certificate.check(y, scores, after=before, groups=groups_of(loaded, frame))
    parts = [point_table(loaded.operating_point, point)]
    if y.all() or not y.any():  # some numbers of the table say nothing then
        parts.append(point.message)
    if verdict is not None:
        parts.append(str(verdict))
    facts = {
        "model": model, "target": loaded.target,
        "confidence": None if certificate is None else certificate.confidence,
        "check after": after,
    }  # fmt: skip
    output.result_and_files(
        {
            "model": str(model),
            "evaluated": point.to_dict(),
            "verdict": None if verdict is None else looks.to_json(verdict),
        },
        *parts,
        files=wish.files(
            lambda: report_of_rows(loaded, y, scores, verdict, wish, facts, tuple(strangers))
        ),
    )
    ending(strict, met(point) and not (verdict is not None and verdict.broken))


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(evaluate)
