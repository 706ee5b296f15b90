"""``setpoint compare``: several models and goals in one table, the best of which can be saved."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import first_imports
from setpoint.cli.output import Output
from setpoint.cli.points import describe_met

if TYPE_CHECKING:
    from setpoint.tables.fitting import FittedTable
    from setpoint.thresholds.operating_point import OperatingPoint

_METRICS = ("objective", "precision", "recall", "f1")
_CHOSEN = (
    "★: the best model for its goal on held-out training rows. It was chosen without the test "
    "rows, so they show what to expect of it."
)
_CAUTION = (
    "Whichever is best on the test rows is likely to be slightly worse on new rows: the best of "
    "several was chosen for its results there. Measure it on new rows with 'setpoint evaluate'."
)


def compare(
    context: typer.Context,
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
    out: Annotated[
        Path | None,
        o.option(help="Save the best model (★) here: a folder, or a .zip file."),
    ] = None,
    report: Annotated[
        Path | None, o.option(help="Write a report on the best model (★) to this HTML file.")
    ] = None,
    cost_alarm: o.AlarmCost = None,
    cost_miss: o.MissCost = None,
    currency: o.Currency = "€",
    title: o.Title = None,
    called: o.Called = None,
    baseline_scores: o.BaselineScores = None,
    skip_unlabelled: o.SkipUnlabelled = False,
    seed: o.Seed = 0,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train several models for several goals on the same rows, and compare them on test rows.

    The best model for a goal is chosen on held-out training rows; --out saves it.
    """
    from rich.table import Table
    from rich.text import Text

    from setpoint.cli.output_paths import check_outputs, check_separate
    from setpoint.cli.reports import ReportRequest, check_costs, costs_of, report_of_fit
    from setpoint.data.table_reader import read_table
    from setpoint.errors import SetpointError
    from setpoint.goals.goal import Goal
    from setpoint.saving.storage import check_target
    from setpoint.tables.goal_columns import check_group, check_todays_model
    from setpoint.tables.model_options import check_model

    if test == 0:
        raise SetpointError("models are compared on test rows; leave out --test 0.")
    goals = [Goal.parse(text) for text in dict.fromkeys(goal)]
    models = list(dict.fromkeys(model or ("linear", "logistic", "hgb")))
    for name in models:
        check_model(name)
    if len(goals) > 1 and (out or report):
        raise SetpointError(
            "--out and --report are for the best model of one goal; name one --goal, or leave "
            "them out."
        )
    if out is not None:
        check_target(out)
        check_separate(out.expanduser(), "model", {"the table": data})
    check_outputs({"the table": data, **({"the model": out} if out else {})}, report, None)
    dropped = o.column_names(drop or [], data)
    for wanted in goals:
        check_costs(cost_alarm, cost_miss, wanted)
        check_group(wanted, group)
        check_todays_model(wanted, baseline_scores)
        hint = o.check_columns(data, target, group, time, dropped, wanted)
    with first_imports():
        from setpoint.cli.fit import save_fitted
        from setpoint.cli.why import explain_fit
        from setpoint.tables.fitting import fit_table

        costs = costs_of(cost_alarm, cost_miss, currency)
    request = ReportRequest(
        data, report, None, costs, title, called, context.find_root().obj, currency
    )
    output = Output(as_json, quiet)
    request.note_unused_options(output)
    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    frame = o.only_labelled(frame, [target] if skip_unlabelled else [], output)
    fits: list[FittedTable] = []
    pairs = list(itertools.product(goals, models))
    with output.warnings_as_notes(), output.progress("training") as show:
        for wanted, name in pairs:
            show(len(fits), len(pairs))
            fits.append(fit_table(
                frame, target, wanted, positive=positive, model=name, confidence=confidence,
                group=group, time=time, test=test, drop=tuple(dropped), random_state=seed,
                baseline_scores=baseline_scores,
            ))  # fmt: skip
    best = [
        max(range(k, k + len(models)), key=lambda i: _key(_held_out(fits[i])))
        for k in range(0, len(pairs), len(models))
    ]
    table = Table(title="On test rows", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("goal", "model", ""):
        table.add_column(column)
    for column in (*_METRICS, "alarms", "goal met", "certified"):
        table.add_column(column, justify="right")
    compared: list[dict[str, Any]] = []
    for i, ((wanted, name), fitted) in enumerate(zip(pairs, fits, strict=True)):
        rows: list[tuple[Any, ...]] = [
            (name, _held_out(fitted), fitted.test_point, fitted.model.certificate)
        ]
        if fitted.current is not None and name == models[-1]:  # the same for all models
            rows.append((fitted.current.name, None, fitted.current_point, None))
        for which, held_out, point, certificate in rows:
            certified = "" if certificate is None else ("yes" if certificate.certified else "no")
            chosen = held_out is not None and i in best
            table.add_row(
                Text(str(wanted)), Text(which), "★" if chosen and len(models) > 1 else "",
                *(f"{getattr(point, m):.3f}" for m in _METRICS),
                f"{point.tp + point.fp:,.0f}", describe_met(point), certified,
            )  # fmt: skip
            compared.append(
                {
                    "goal": str(wanted),
                    "model": which,
                    "chosen": chosen,
                    "held_out": None if held_out is None else held_out.to_dict(),
                    "test": point.to_dict(),
                    "certificate": None if certificate is None else certificate.to_dict(),
                }
            )
    won = fits[best[0]]
    if out is not None:
        save_fitted(won, out, output)
    notes = {note for f in fits for note in (*f.notes, *(s.message for s in f.leakage))}
    for note in [*filter(None, [hint]), *sorted(notes - set(output.notes))]:
        output.note(note)
    parts = [_CHOSEN] if len(models) > 1 else []
    caution = _CAUTION if len(compared) > 1 else ""
    parts += [caution] * bool(caution)
    if out is not None:
        parts.append(f"Model: {out} ({models[best[0]]})")
    facts = {
        "target": target, "columns left out": ", ".join(dropped), "group": group, "time": time,
        "model": won.model.facts["model"], "models compared": ", ".join(models),
        "confidence": confidence, "fraction of test rows": test, "seed": seed,
    }  # fmt: skip
    why = explain_fit(won, frame, output, importance=None, wanted=request.wanted, show_values=False)
    output.result_and_files(
        {"compared": compared, "caution": caution, "model": None if out is None else str(out)},
        table,
        *parts,
        files=request.files(
            lambda: report_of_fit(
                won,
                request,
                facts,
                why,
                compared=tuple(
                    (name, f.test_point, f.model.certificate)
                    for name, f in zip(models, fits, strict=True)
                ),
                chosen=models[best[0]],
            )
        ),
        saved="" if out is None else f"The model is saved: {out}.",
    )


def _held_out(fitted: FittedTable) -> OperatingPoint:
    classifier: Any = fitted.model.classifier
    point: OperatingPoint = classifier.held_out_point()
    return point


def _key(point: OperatingPoint) -> tuple[float, ...]:
    """Return the sort key of models: by the goal alone, and without alarms the last."""
    return (not point.empty, *replace(point, ranking=None).sort_key[:2])
