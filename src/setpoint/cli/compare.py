"""``setpoint compare``: several models and goals in one table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.points import describe_met

_CAUTION = (
    "The best of several looks better on the rows it was chosen on than it is: expect a little "
    "less on new rows, and measure it there with 'setpoint evaluate'."
)


def compare(
    data: o.Data,
    target: o.Target,
    goal: Annotated[
        list[str],
        typer.Option(help="Goal; may be given several times.", show_default=False),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model; may be given several times.", show_default="linear, logistic, hgb"
        ),
    ] = None,
    positive: o.Positive = None,
    confidence: o.Confidence = None,
    group: o.Group = None,
    time: o.Time = None,
    drop: o.Drop = None,
    test: o.Test = 0.2,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train several models for several goals on the same rows, and compare them on test rows."""
    from rich.table import Table
    from rich.text import Text

    from setpoint.data.table_reader import read_table
    from setpoint.errors import SetpointError
    from setpoint.goals.goal import Goal
    from setpoint.tables.classifiers import check_model
    from setpoint.tables.fitting import fit_table

    if test == 0:
        raise SetpointError("models are compared on test rows; leave out --test 0.")
    goals = [Goal.parse(text) for text in dict.fromkeys(goal)]
    models = list(dict.fromkeys(model or ("linear", "logistic", "hgb")))
    for name in models:
        check_model(name)
    output = Output(as_json, quiet)
    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    rows: list[dict[str, Any]] = []
    notes: set[str] = set()
    with output.warnings_as_notes(), output.progress("training") as show:
        for number, (wanted, name) in enumerate((g, m) for g in goals for m in models):
            show(number, len(goals) * len(models))
            fitted = fit_table(
                frame, target, wanted, positive=positive, model=name, confidence=confidence,
                group=group, time=time, test=test, drop=tuple(drop or ()), random_state=seed,
            )  # fmt: skip
            notes.update([*fitted.notes, *(found.message for found in fitted.leakage)])
            rows.append({"goal": str(wanted), "model": name, "fitted": fitted})
    for note in sorted(notes):
        output.note(note)
    table = Table(title="On test rows", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in (
        "goal",
        "model",
        "objective",
        "precision",
        "recall",
        "f1",
        "alarms",
        "goal met",
        "certified",
    ):
        table.add_column(column, justify="left" if column in ("goal", "model") else "right")
    fields = []
    for row in rows:
        point, certificate = row["fitted"].test_point, row["fitted"].model.certificate
        certified = "" if certificate is None else ("yes" if certificate.certified else "no")
        values = (point.objective, point.precision, point.recall, point.f1)
        alarms = f"{point.tp + point.fp:,.0f}"
        table.add_row(
            Text(row["goal"]), row["model"], *(f"{v:.3f}" for v in values), alarms,
            describe_met(point), certified,
        )  # fmt: skip
        fields.append(
            {
                "goal": row["goal"],
                "model": row["model"],
                "test": point.to_dict(),
                "certificate": None if certificate is None else certificate.to_dict(),
            }
        )
    caution = _CAUTION if len(rows) > 1 else ""
    output.result({"compared": fields, "caution": caution}, table, *filter(None, [caution]))
