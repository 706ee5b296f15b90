"""``setpoint compare``: several models and goals in one table."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import first_imports
from setpoint.cli.output import Output
from setpoint.cli.points import describe_met

_METRICS = ("objective", "precision", "recall", "f1")
_CAUTION = (
    "The best of several was chosen for its results on these rows, so expect slightly worse "
    "results on new rows; measure them with 'setpoint evaluate'."
)


def compare(
    data: o.Data,
    target: o.Target,
    goal: Annotated[list[str], o.option(help="Goal; may be given several times.")],
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
    skip_unlabelled: o.SkipUnlabelled = False,
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
    from setpoint.tables.goal_columns import check_group
    from setpoint.tables.model_options import check_model

    if test == 0:
        raise SetpointError("models are compared on test rows; leave out --test 0.")
    goals = [Goal.parse(text) for text in dict.fromkeys(goal)]
    models = list(dict.fromkeys(model or ("linear", "logistic", "hgb")))
    for name in models:
        check_model(name)
    output = Output(as_json, quiet)
    dropped = o.column_names(drop or [], data)
    for wanted in goals:
        check_group(wanted, group)
        hint = o.check_columns(data, target, group, time, dropped, wanted)
    with first_imports():
        from setpoint.tables.fitting import fit_table
        from setpoint.thresholds.operating_point import OperatingPoint

    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    frame = o.only_labelled(frame, [target] if skip_unlabelled else [], output)
    table = Table(title="On test rows", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("goal", "model"):
        table.add_column(column)
    for column in (*_METRICS, "alarms", "goal met", "certified"):
        table.add_column(column, justify="right")
    compared: list[dict[str, Any]] = []
    notes: set[str] = set()
    with output.warnings_as_notes(), output.progress("training") as show:
        for wanted, name in itertools.product(goals, models):
            show(len(compared), len(goals) * len(models))
            fitted = fit_table(
                frame, target, wanted, positive=positive, model=name, confidence=confidence,
                group=group, time=time, test=test, drop=tuple(dropped), random_state=seed,
            )  # fmt: skip
            notes.update([*fitted.notes, *(found.message for found in fitted.leakage)])
            point, certificate = fitted.test_point, fitted.model.certificate
            assert isinstance(point, OperatingPoint)  # of a goal of one threshold
            certified = "" if certificate is None else ("yes" if certificate.certified else "no")
            table.add_row(
                Text(str(wanted)), name, *(f"{getattr(point, m):.3f}" for m in _METRICS),
                f"{point.tp + point.fp:,.0f}", describe_met(point), certified,
            )  # fmt: skip
            compared.append(
                {
                    "goal": str(wanted),
                    "model": name,
                    "test": point.to_dict(),
                    "certificate": None if certificate is None else certificate.to_dict(),
                }
            )
    for note in [hint, *sorted(notes)] if hint else sorted(notes):
        output.note(note)
    caution = _CAUTION if len(compared) > 1 else ""
    output.result({"compared": compared, "caution": caution}, table, *filter(None, [caution]))
