"""``setpoint fit``: train for a goal, save the model, write the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.words import ending, met, point_table

_WATCH = (
    "Whether it still holds is seen on later labelled rows: 'setpoint evaluate', with --after to "
    "make one check of several files."
)


def fit(
    context: typer.Context,
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
    title: o.Title = None,
    called: o.Called = None,
    seed: o.Seed = 0,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train a classifier on a table for a goal, and save it."""
    from setpoint.cli.reports import Wish, costs_of, report_of_fit
    from setpoint.cli.targets import check_model_place, check_outputs
    from setpoint.errors import SetpointError
    from setpoint.goals import Goal
    from setpoint.model_files import check_target, save
    from setpoint.report.headline import sentences
    from setpoint.tabular.errors import PartsError
    from setpoint.tabular.files import read_table
    from setpoint.tabular.fitting import fit_table
    from setpoint.tabular.learners import check_model

    # What can be found wrong at once is not found out after a long training.
    parsed = Goal.parse(goal)
    check_model(model)
    costs = costs_of(cost_alarm, cost_miss, currency)
    if test == 0 and (report or figures):
        raise SetpointError("a report needs test rows; leave --test at 0.2.")
    check_target(out)
    check_model_place(out, {"the table": data})
    check_outputs({"the table": data, "the model": out}, report, figures)
    wish = Wish(data, report, figures, costs, title, called, context.find_root().obj)
    output = Output(as_json, quiet)
    wish.note_unused(output, spoken=test > 0)
    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    with output.warnings_as_notes(), output.progress("training") as show:
        try:
            fitted = fit_table(
                frame, target, parsed, positive=positive, model=model, confidence=confidence,
                group=group, time=time, test=test, drop=tuple(drop or ()), random_state=seed,
                callback=lambda record, total: show(record.iteration, total),
            )  # fmt: skip
        except PartsError as error:
            hint = " (--test is that share; --test 0 keeps no test rows.)"
            raise SetpointError(f"{error}{hint if 'test' in str(error) else ''}") from error
    for note in fitted.notes:
        output.note(note)
    for smell in fitted.smells:
        output.note(smell.message, "warning")
    save(fitted.model, out)
    point, certificate = fitted.test_point, fitted.model.certificate
    fields: dict[str, Any] = {
        "model": str(out),
        "goal": str(parsed),
        "threshold_set_on": fitted.model.operating_point.to_dict(),
        "test": None if point is None else point.to_dict(),
        "certificate": None if certificate is None else certificate.to_dict(),
    }
    parts = [point_table(fitted.model.operating_point, point)]
    if certificate is not None:
        parts.append(str(certificate))
        if certificate.certified:
            parts.append(_WATCH)
    files: Iterator[tuple[str, Path]] = iter(())
    if point is not None:
        facts = {
            "target": target, "columns left out": ", ".join(drop or ()), "group": group,
            "time": time, "model": model, "confidence": confidence, "share of test rows": test,
            "seed": seed,
        }  # fmt: skip
        content = report_of_fit(fitted, wish, facts)
        said = sentences(content)
        if certificate is not None:  # which tells itself what is promised
            said = said._replace(promise="")
        parts.append(" ".join(filter(None, said)))
        files = wish.files(lambda: content)
    parts.append(f"Model: {out}")
    output.result_and_files(fields, *parts, files=files, kept=f"The model is saved: {out}.")
    if certificate is None:
        ending(strict, bool(met(point or fitted.model.operating_point)))
    else:
        ending(strict, certificate.certified and not certificate.operating_point.empty)


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(fit)
