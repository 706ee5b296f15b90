"""``setpoint fit``: train for a goal, save the model, write the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output, is_first, leave, several
from setpoint.cli.words import ending, met, point_table

_IN_MEMORY = 2 << 30  # bytes of a table that is read as a whole; training takes several times that
_WATCH = (
    "Whether it still holds is seen on later labelled rows: 'setpoint evaluate', with --after to "
    "make one check of several files."
)


def fit(
    context: typer.Context,
    data: o.DataOrFolder,
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
    device: o.Device = "auto",
    stream: o.Stream = None,
    checkpoint: o.Checkpoint = None,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train a classifier on a table for a goal, and save it."""
    from setpoint.cli.overwriting import check_model_place, check_outputs
    from setpoint.cli.reports import Wish, costs_of, report_of_fit
    from setpoint.errors import SetpointError, SplitError
    from setpoint.goals.goal import Goal
    from setpoint.report.sentences import headline_parts
    from setpoint.saving.storage import check_target
    from setpoint.tables.classifiers import check_device, check_model

    # What can be found wrong at once is not found out after a long training.
    parsed = Goal.parse(goal)
    check_model(model)
    check_device(device, model)
    costs = costs_of(cost_alarm, cost_miss, currency)
    if test == 0 and (report or figures):
        raise SetpointError("a report needs test rows; leave --test at 0.2.")
    check_target(out)
    check_model_place(out, {"the table": data})
    check_outputs({"the table": data, "the model": out}, report, figures)
    _check_checkpoint(checkpoint, model, data, out, report)
    pieces = _in_pieces(data, stream, model)
    if pieces is None and not is_first():
        return  # a table in memory is the first process's alone
    wish = Wish(data, report, figures, costs, title, called, context.find_root().obj)
    output = Output(as_json, quiet)
    wish.note_unused(output, spoken=test > 0)
    if pieces is not None:
        _note_folder_columns(pieces, {target, group, time, *(drop or ())}, output)
    train = _trainer(pieces, data, out, output)
    with output.warnings_as_notes(), output.progress("training") as show:
        try:
            fitted = train(
                target, parsed, positive=positive, model=model, confidence=confidence,
                group=group, time=time, test=test, drop=tuple(drop or ()), random_state=seed,
                callback=lambda record, total: show(record.iteration, total),
                checkpoint=checkpoint, device=device,
            )  # fmt: skip
        except SplitError as error:
            hint = " (--test is that fraction; --test 0 holds out no test rows.)"
            raise SetpointError(f"{error}{hint if 'test' in str(error) else ''}") from error
    leave()
    if not is_first():
        return
    for note in fitted.notes:
        output.note(note)
    for found in fitted.leakage:
        output.note(found.message, "warning")
    fitted.model.save(out)
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
    if wish.wanted and fitted.test is None:
        output.note(
            "there are too many test rows to keep their scores, so no report is written; a smaller "
            "--test makes one.",
            "warning",
        )
    if point is not None and fitted.test is not None:
        facts = {
            "target": target, "columns left out": ", ".join(drop or ()), "group": group,
            "time": time, "model": model, "confidence": confidence, "share of test rows": test,
            "seed": seed,
        }  # fmt: skip
        content = report_of_fit(fitted, wish, facts)
        said = headline_parts(content)
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


def _check_checkpoint(
    path: Path | None, model: str, data: Path, out: Path, report: Path | None
) -> None:
    """Refuse a checkpoint that cannot be of use, or would replace something else."""
    from setpoint.errors import SetpointError
    from setpoint.tables.classifiers import TRAINED

    if path is None:
        return
    if model not in TRAINED:
        raise SetpointError(f"--checkpoint is for {' and '.join(TRAINED)}, not for {model!r}.")
    if path.is_dir():
        raise SetpointError(f"the checkpoint {path} is a folder; name a file in it.")
    for other in filter(None, (data, out, report)):
        if path.resolve() == other.resolve():
            raise SetpointError(f"{path} cannot be the checkpoint as well; name another file.")
    for name, folder in (("the table", data), ("the model", out)):
        if folder.resolve() in path.resolve().parents:
            raise SetpointError(
                f"{path} lies in {name}, {folder}; name another place for the checkpoint."
            )


def _in_pieces(data: Path, stream: bool | None, model: str) -> Any:
    """Return the files of a table that is read in pieces; None for one that is read whole."""
    from setpoint.data.file_formats import has_row_groups
    from setpoint.errors import SetpointError
    from setpoint.tables.classifiers import TRAINED

    if stream is False:
        if data.is_dir():
            raise SetpointError(f"{data} is a folder, which is read in pieces; use --stream.")
        return None
    columnar = has_row_groups(data)
    if not (stream or data.is_dir() or (columnar and data.exists() and model in TRAINED)):
        return None
    from setpoint.data.table_reader import TableFile

    files = TableFile(data, streamed=True)
    if stream or data.is_dir() or several() or files.decoded_bytes > _IN_MEMORY:
        return files
    return None


def _note_folder_columns(files: Any, named: Collection[str | None], output: Output) -> None:
    """Say which columns only names of folders tell, but for those that options name."""
    for name in files.folder_columns:
        if name not in named:
            output.note(
                f"{name!r} is part of the names of folders in {files.path}, and no part of the "
                "table: the model does not see it. If it shall, write it into the files as well; "
                f"--drop {shlex.quote(name)} ends this warning.",
                "warning",
            )


def _trainer(files: Any, data: Path, out: Path, output: Output) -> Callable[..., Any]:
    """Return what trains: on the table in memory, or in pieces."""
    if files is not None:
        from setpoint.tables.stream_fitting import fit_streamed

        # Where the model will be there is a disk, and not memory that looks like one.
        disk = next(p for p in out.expanduser().absolute().parents if p.is_dir())
        return partial(fit_streamed, files, keep_in=disk)
    from setpoint.data.table_reader import read_table
    from setpoint.tables.fitting import fit_table

    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    return partial(fit_table, frame)


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(fit)
