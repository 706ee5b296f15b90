"""``setpoint fit``: train for a goal, save the model, write the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.words import ending, point_table


def fit(
    data: o.Data,
    target: o.Target,
    goal: o.GoalText,
    out: Annotated[
        Path,
        typer.Option(help="Where the model goes: a folder, or a .zip file.", show_default=False),
    ],
    positive: o.Positive = None,
    model: Annotated[
        str, typer.Option(help="linear, mlp (trained for the goal), hgb, logistic or forest.")
    ] = "linear",
    confidence: o.Confidence = None,
    group: o.Group = None,
    time: o.Time = None,
    drop: o.Drop = None,
    test: o.Test = 0.2,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.CostOfAlarm = None,
    cost_miss: o.CostOfMiss = None,
    currency: o.Currency = "€",
    seed: o.Seed = 0,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train a classifier on a table for a goal, and save it."""
    from setpoint.cli.reports import costs_of, report_of_fit, write
    from setpoint.errors import SetpointError
    from setpoint.goals import Goal
    from setpoint.model_files import check_target, save
    from setpoint.report import headline
    from setpoint.tabular.files import read_table
    from setpoint.tabular.fitting import fit_table

    # What can be found wrong at once is not found out after a long training.
    parsed = Goal.parse(goal)
    costs = costs_of(cost_alarm, cost_miss, currency)
    if test == 0 and (report or figures):
        raise SetpointError("a report needs test rows; leave --test at 0.2.")
    check_target(out)
    output = Output(as_json, quiet)
    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    with output.warnings_as_notes(), output.progress("training") as show:
        fitted = fit_table(
            frame,
            target,
            parsed,
            positive=positive,
            model=model,
            confidence=confidence,
            group=group,
            time=time,
            test=test,
            drop=tuple(drop or ()),
            random_state=seed,
            callback=lambda record, total: show(record.iteration, total),
        )
    for note in fitted.notes:
        output.note(note)
    for smell in fitted.smells:
        output.note(smell.message, "warning")
    save(fitted.model, out)
    point, certificate = fitted.test_point, fitted.model.certificate
    told, written = [], []
    if fitted.test is not None:
        content = report_of_fit(fitted, data, {"seed": str(seed), "model": model}, costs)
        told, written = [headline(content)], write(content, report, figures)
    fields: dict[str, Any] = {
        "model": str(out),
        "goal": str(parsed),
        "threshold_set_on": fitted.model.operating_point.to_dict(),
        "test": None if point is None else point.to_dict(),
        "certificate": None if certificate is None else certificate.to_dict(),
        "report": None if report is None else str(report),
    }
    parts = [point_table(fitted.model.operating_point, point)]
    if certificate is not None:
        parts.append(str(certificate))
    parts += [*told, f"Model: {out}", *written]
    output.result(fields, *parts)
    ending(strict, fitted.model.operating_point, certificate)


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(fit)
