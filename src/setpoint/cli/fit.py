"""``setpoint fit``: train for a goal, save the model, write the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed, first_imports
from setpoint.cli.output import (
    Output,
    is_main_process,
    launched_by_torchrun,
    leave_process_group,
)
from setpoint.cli.points import is_met, point_table
from setpoint.cli.verdicts import not_monitored

_IN_MEMORY = 2 << 30  # bytes; a larger table is streamed, as training takes several times that
_OTHERS = (
    "boosted trees are often better on tables; --model auto compares several kinds of models and "
    "takes the best, and 'setpoint compare' shows them side by side."
)
_MONITOR = (
    "Check it on later labelled rows with 'setpoint evaluate', with --after to combine several "
    "files into one check."
)


def fit(
    context: typer.Context,
    data: o.DataOrFolder,
    target: o.Targets,
    goal: o.GoalText,
    out: Annotated[Path, o.option(help="Save the model here: a folder, or a .zip file.")],
    positive: o.Positive = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="auto, the best of several; linear or mlp, trained for the goal; logistic, hgb, "
            "forest, extra-trees, xgboost, lightgbm or catboost.",
            show_default="auto; linear for streams; hgb for a review band; logistic for several "
            "targets",
        ),
    ] = None,
    time_limit: o.TimeLimit = None,
    average: o.LabelAverage = None,
    decision: o.Decision = "threshold",
    thresholds: o.Thresholds = "one",
    confidence: o.Confidence = None,
    cap: o.Cap = None,
    group: o.Group = None,
    time: o.Time = None,
    drop: o.Drop = None,
    test: o.Test = 0.2,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.AlarmCost = None,
    cost_miss: o.MissCost = None,
    currency: o.Currency = "€",
    title: o.Title = None,
    called: o.Called = None,
    baseline_scores: o.BaselineScores = None,
    importance: o.FitImportance = None,
    show_values: o.ShowValues = False,
    seed: o.Seed = 0,
    device: o.Device = "auto",
    skip_unlabelled: o.SkipUnlabelled = False,
    stream: o.Stream = None,
    checkpoint: o.Checkpoint = None,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train a classifier on a table for a goal, and save it."""
    if len(columns := o.column_names(target, data)) > 1:
        from setpoint.cli.labels_fit import fit_several

        fit_several(columns, context)
        return
    column = columns[0]
    # Nothing here imports torch, so that a mistake is reported at once.
    from setpoint.cli.output_paths import check_outputs, check_separate
    from setpoint.cli.reports import ReportRequest, check_costs, costs_of, report_of_fit
    from setpoint.errors import SetpointError
    from setpoint.goals.bands import parse_any_goal
    from setpoint.goals.columns import check_caps
    from setpoint.goals.goal import Goal
    from setpoint.saving.storage import check_target
    from setpoint.tables.goal_columns import check_group, check_todays_model
    from setpoint.tables.model_options import (
        AUTO,
        check_device,
        check_model,
        check_model_for,
        check_streamable,
        check_time_limit,
        default_model,
    )

    if average is not None:
        raise SetpointError(f"--average is for several targets, and {column!r} is one.")
    # Everything that can be checked now is not left to fail after a long training.
    parsed = parse_any_goal(goal)
    if model is None and (checkpoint is not None or device != "auto"):
        model = "linear"  # which these options are for
    check_target(out)
    check_separate(out.expanduser(), "model", {"the table": data})
    check_outputs({"the table": data, "the model": out}, report, figures)
    _check_checkpoint(checkpoint, model, data, out, report)
    streamed = _streamed_table(data, stream, model)
    # Where others would do as well; these options are for linear models.
    plain = streamed is None and checkpoint is None and device == "auto"
    if model is None:
        model = default_model(parsed) if streamed is None else "linear"
    check_model(model)
    check_time_limit(model, time_limit)
    check_device(device, model)
    ways = {"decision": decision.replace("-", "_"), "thresholds": thresholds.replace("-", " ")}
    caps = o.caps_of(cap)
    check_model_for(parsed, model, **ways, caps=caps)
    check_group(parsed, group)
    check_todays_model(parsed, baseline_scores)
    if baseline_scores is not None and streamed is not None:
        raise SetpointError(
            "--baseline-scores needs the table in memory; leave it out, and pass it to 'setpoint "
            "evaluate' with labelled rows that fit into memory."
        )
    if caps and confidence is None:
        raise SetpointError("--cap is for certified bounds on costs and needs --confidence.")
    if isinstance(parsed, Goal):
        check_caps(caps, parsed)
    check_costs(cost_alarm, cost_miss, parsed)
    if importance and (test == 0 or streamed is not None):
        raise SetpointError(
            "--importance needs test rows in memory; leave it out, and pass it to 'setpoint "
            "evaluate' with other labelled rows."
        )
    if test == 0 and (report or figures):
        raise SetpointError("a report needs test rows; leave out --test 0.")
    dropped = o.column_names(drop or [], data)
    hint = ""
    if streamed is not None:
        check_streamable(model, group, time)
        if skip_unlabelled:
            raise SetpointError(
                "--skip-unlabelled needs the table in memory; for one that is read in pieces, "
                "write the rows with a label to new files first, or add --no-stream."
            )
    else:
        hint = o.check_columns(data, column, group, time, dropped, parsed)
    if streamed is None and not is_main_process():
        return  # one process trains on a table in memory
    with first_imports():
        from setpoint.cli.why import coefficients_text, explain_fit, importance_text
        from setpoint.report.page import summary

        costs = costs_of(cost_alarm, cost_miss, currency)
    request = ReportRequest(
        data, report, figures, costs, title, called, context.find_root().obj, currency
    )
    output = Output(as_json, quiet)
    request.note_unused_options(output, uses_called=test > 0)
    if show_values and not request.wanted:
        output.note("--show-values has no effect without --report.")
    if hint:
        output.note(hint, "warning")
    if streamed is not None:
        _warn_of_folder_columns(streamed, {column, group, time, *dropped}, output)
    train, frame = _trainer(streamed, data, out, output, [column] if skip_unlabelled else [])
    with training(output, "training") as show:
        fitted = train(
            column, parsed, positive=positive, model=model, confidence=confidence,
            group=group, time=time, test=test, drop=tuple(dropped), random_state=seed,
            callback=lambda record, total: show(record.iteration, total),
            checkpoint=checkpoint, device=device,
            **({**ways, "caps": caps, "time_limit": time_limit, "baseline_scores": baseline_scores}
               if streamed is None else {}),
        )  # fmt: skip
    leave_process_group()
    if not is_main_process():
        return
    save_fitted(fitted, out, output)
    if plain and model in ("linear", "logistic"):
        output.note(_OTHERS)
    point, certificate = fitted.test_point, fitted.model.certificate
    fields: dict[str, Any] = {
        "model": str(out),
        "goal": str(parsed),
        "threshold_set_on": fitted.model.operating_point.to_dict(),
        "test": None if point is None else point.to_dict(),
        "baseline": None if fitted.current_point is None else fitted.current_point.to_dict(),
        "certificate": None if certificate is None else certificate.to_dict(),
    }
    points = fitted.model.operating_point, point, fitted.current_point
    parts = [point_table(*points), *_ways_to_decide(fitted.model)]
    if model == AUTO:
        compared = fitted.model.classifier.candidates_
        fields["candidates"] = compared.to_dict()
        parts.insert(0, f"Models compared for {compared}")
    why = explain_fit(
        fitted, frame, output, importance=importance, wanted=request.wanted,
        show_values=show_values,
    )  # fmt: skip
    fields["coefficients"] = None if why.coefficients is None else why.coefficients.to_dict()
    if why.coefficients is not None:
        parts.append(coefficients_text(why.coefficients))
    if importance and why.importances is not None:
        parts.append(importance_text(why.importances))
        fields["importance"] = why.importances.to_dict()
    if certificate is not None:
        parts.append(str(certificate))
        if certificate.certified:
            parts.append(_MONITOR if certificate.can_be_checked else not_monitored(certificate))
    files: Iterator[tuple[str, Path]] = iter(())
    if request.wanted and fitted.test is None:
        output.note(
            "there are too many test rows to keep their scores, so no report is written; use a "
            "smaller --test.",
            "warning",
        )
    if point is not None and fitted.test is not None:
        facts = {
            "target": column, "columns left out": ", ".join(dropped), "group": group,
            "time": time, "model": fitted.model.facts["model"], "confidence": confidence,
            "fraction of test rows": test, "seed": seed,
        }  # fmt: skip
        content = report_of_fit(fitted, request, facts, why)
        # The text of a certificate is already among the parts.
        parts.append(summary(content, with_certificate=certificate is None))
        files = request.files(lambda: content)
    parts.append(f"Model: {out}")
    output.result_and_files(fields, *parts, files=files, saved=f"The model is saved: {out}.")
    if certificate is None:
        exit_if_missed(strict, bool(is_met(point or fitted.model.operating_point)))
    else:
        exit_if_missed(strict, certificate.certified and not certificate.operating_point.empty)


@contextmanager
def training(output: Output, what: str) -> Iterator[Callable[..., None]]:
    """Show the progress of training; its warnings are notes, and errors about splits have hints."""
    from setpoint.errors import SetpointError, SplitError

    with output.warnings_as_notes(), output.progress(what) as show:
        try:
            yield show
        except SplitError as error:
            hint = " (--test is that fraction; --test 0 holds out no test rows.)"
            raise SetpointError(f"{error}{hint if 'test' in str(error) else ''}") from error


def save_fitted(fitted: Any, out: Path, output: Output) -> None:
    """Save a new model, and show notes on its table and signs of leakage."""
    for note in fitted.notes:
        output.note(note)
    for sign in fitted.leakage:
        output.note(sign.message, "warning")
    fitted.model.save(out)


def _ways_to_decide(model: Any) -> Iterator[str]:
    """Yield the comparison of decisions, and the thresholds of segments, where there are some."""
    if (decisions := getattr(model.classifier, "decisions_", None)) is not None:
        yield f"On {decisions['single threshold'].on}:\n{decisions}"
    if (found := getattr(model.classifier, "segment_thresholds_", None)) is not None:
        yield "\n".join(str(found).split("\n")[1:])


def _check_checkpoint(
    path: Path | None, model: str | None, data: Path, out: Path, report: Path | None
) -> None:
    """Raise SetpointError if the checkpoint cannot be used or would overwrite something else."""
    from setpoint.cli.output_paths import check_separate
    from setpoint.errors import SetpointError
    from setpoint.tables.model_options import TRAINED

    if path is None:
        return
    if model not in TRAINED:
        raise SetpointError(f"--checkpoint works with {' and '.join(TRAINED)}, not with {model!r}.")
    if path.is_dir():
        raise SetpointError(f"the checkpoint {path} is a folder; name a file in it.")
    others = {"the table": data, "the model": out, "the report": report}
    check_separate(path, "checkpoint", {n: p for n, p in others.items() if p is not None})


def _streamed_table(data: Path, stream: bool | None, model: str | None) -> Any:
    """Return the table's files if it is streamed; None if it is read into memory.

    No ``model`` is one that can be streamed.
    """
    from setpoint.data.file_formats import has_row_groups
    from setpoint.errors import SetpointError
    from setpoint.tables.model_options import TRAINED

    if stream is False:
        if data.is_dir():
            raise SetpointError(f"{data} is a folder, which must be read with --stream.")
        return None
    columnar = has_row_groups(data)
    if not (stream or data.is_dir() or (columnar and data.exists() and model in (None, *TRAINED))):
        return None
    from setpoint.data.table_reader import TableFile

    files = TableFile(data, streamed=True)
    if stream or data.is_dir() or launched_by_torchrun() or files.decoded_bytes > _IN_MEMORY:
        return files
    return None


def _warn_of_folder_columns(files: Any, named: Collection[str | None], output: Output) -> None:
    """Warn of partition columns, which only folder names contain, unless an option names them."""
    for name in files.folder_columns:
        if name not in named:
            output.note(
                f"{name!r} is in the names of folders in {files.path}, not in the table, so the "
                "model does not use it. If it should, write it into the files; otherwise "
                f"--drop {shlex.quote(name)} silences this warning.",
                "warning",
            )


def _trainer(
    files: Any, data: Path, out: Path, output: Output, labelled: Sequence[str]
) -> tuple[Callable[..., Any], Any]:
    """Return the function that trains, on the table in memory or as a stream, and the table.

    Of a table in memory, the rows with labels in the columns ``labelled`` are used. It is None if
    the table is streamed.
    """
    if files is not None:
        from setpoint.tables.stream_fitting import fit_streamed

        # Temporary files go next to the model: that is a disk, not a file system in memory.
        disk = next(p for p in out.expanduser().absolute().parents if p.is_dir())
        return partial(fit_streamed, files, keep_in=disk), None
    from setpoint.data.table_reader import read_table
    from setpoint.tables.fitting import fit_table

    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    frame = o.only_labelled(frame, labelled, output)
    return partial(fit_table, frame), frame
