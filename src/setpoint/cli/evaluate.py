"""``setpoint evaluate``: measure a saved model on labelled rows, and check its certificate.

The check of a certificate can span several files: ``--after`` continues from the JSON output of the
previous one.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed, first_imports
from setpoint.cli.output import Output
from setpoint.cli.points import one_class_caution
from setpoint.cli.predict import check_model_and_table
from setpoint.cli.seen_rows import SeenRows, earlier_rows
from setpoint.cli.verdicts import groups_of, not_monitored, parse_verdict, read_output
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from setpoint.tables.model import TableModel


def evaluate(
    context: typer.Context,
    model: o.Model,
    data: o.DataOrFolder,
    after: o.After = None,
    ignore_extra: o.IgnoreExtra = False,
    skip_unlabelled: o.SkipUnlabelled = False,
    report: o.Report = None,
    figures: o.Figures = None,
    prometheus: o.Prometheus = None,
    cost_alarm: o.AlarmCost = None,
    cost_miss: o.MissCost = None,
    currency: o.Currency = "€",
    title: o.Title = None,
    called: o.Called = None,
    baseline_scores: o.BaselineScores = None,
    importance: o.Importance = False,
    nearest: o.Nearest = None,
    show_values: o.ShowValues = False,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Measure a saved model on labelled rows, and check whether its certificate still holds."""
    from setpoint.cli.predict import load_table_model
    from setpoint.cli.reports import ReportRequest, check_costs, costs_of

    check_costs(cost_alarm, cost_miss)
    _check_paths(model, data, after, report, figures, prometheus)
    with first_imports():
        from setpoint.cli.evaluation import Evaluation
        from setpoint.cli.why import explain_rows
        from setpoint.tables.label_model import LabelsTableModel
        from setpoint.tables.todays_model import is_chosen_here, todays_model_on, todays_scores

        costs = costs_of(cost_alarm, cost_miss, currency)
    request = ReportRequest(
        data, report, figures, costs, title, called, context.find_root().obj, currency
    )
    output = Output(as_json, quiet)
    request.note_unused_options(output)
    with output.warnings_as_notes():
        loaded = load_table_model(model)
    if isinstance(loaded, LabelsTableModel):
        from setpoint.cli.labels_evaluate import evaluate_several

        evaluate_several(loaded, context, request, output)
        return
    check_costs(cost_alarm, cost_miss, loaded.goal)
    _check_baseline(loaded, baseline_scores)
    certificate = loaded.certificate
    if certificate is not None and not certificate.certified:
        certificate = None
    before, earlier = None, None
    if after is not None:
        before = _verdict_before(after, certificate, model)
        earlier = read_output(after, earlier_rows)

    name = data.name or str(data)
    also = () if baseline_scores is None else (baseline_scores,)
    with output.progress(f"reading {name}"):
        frame = loaded.read(data, ignore_extra=ignore_extra, also=also)
    frame = o.only_labelled(frame, [loaded.target] if skip_unlabelled else [], output)
    todays = None
    if baseline_scores is not None:
        todays = todays_scores(frame, baseline_scores)
        frame = frame.drop(columns=baseline_scores)
    if request.wanted:
        _check_both_classes(loaded, frame, name)

    y, scores = loaded.labelled_scores(frame)
    unseen = loaded.unseen_values(frame)
    for note in unseen:
        output.note(note)
    seen = SeenRows.of(loaded.row_hashes(frame, y), loaded.fingerprints, earlier)
    seen.warn(output, name)
    named = loaded.goal_columns(frame)
    point = loaded.rule.evaluate(y, scores, name, named)
    verdict, caution = None, ""
    if certificate is not None and certificate.can_be_checked:
        groups = groups_of(loaded, frame)
        verdict = certificate.check(y, scores, after=before, groups=groups, **named)
        caution = one_class_caution(point, verdict.guarantees)
    current = None
    if baseline_scores is not None and todays is not None:
        current = todays_model_on(
            baseline_scores, todays, y, loaded.goal, named, loaded.facts, name
        )
        if is_chosen_here(baseline_scores, loaded.facts):
            output.note(
                f"the threshold of {current[0].name} is the best one on these rows, which favours "
                "it; 'setpoint fit --baseline-scores' chooses it on training rows."
            )
    if caution:
        output.notes.append(caution)  # which is printed below the verdict
    why = explain_rows(
        loaded, frame, scores, name, output, importance=importance, nearest=nearest,
        wanted=request.wanted, show_values=show_values,
    )  # fmt: skip

    found = Evaluation(
        loaded, model, y, scores, named, point, certificate, verdict, caution, current, seen,
        unseen, why, None if nearest is None else why.nearest,
    )  # fmt: skip
    written = request.files(lambda: found.report(request, after))
    files = chain(found.samples().write(prometheus), written)
    output.result_and_files(found.fields(), *found.parts(), files=files)
    exit_if_missed(strict, found.met)


def _check_paths(
    model: Path,
    data: Path,
    after: Path | None,
    report: Path | None,
    figures: Path | None,
    prometheus: Path | None,
) -> None:
    """Raise an error, before any work, if files cannot be read, or would be overwritten."""
    from setpoint.cli.output_paths import check_file, check_outputs

    given = {"the table": data, "the model": model}
    if after is not None:
        given["the output of an earlier check"] = after
    check_outputs(given, report, figures)
    if prometheus is not None:
        others = {"the report": report, "the folder of figures": figures}
        given |= {name: path for name, path in others.items() if path is not None}
        check_file(prometheus, "Prometheus file", given)
    if after is not None:
        read_output(after, lambda found: found)
    check_model_and_table(model, data)


def _check_baseline(model: TableModel, column: str | None) -> None:
    """Raise SetpointError if a column cannot be the scores of today's model."""
    from setpoint.tables.goal_columns import check_todays_model

    check_todays_model(model.goal, column)
    if column in (*model.schema.names, model.target):
        what = "target" if column == model.target else "feature"
        raise SetpointError(
            f"{column!r} is a {what} of the model, and cannot be the scores of today's model too."
        )


def _verdict_before(after: Path, certificate: Any, model: Path) -> Any:
    """Return the verdict that a check continues from."""
    if certificate is None:
        raise SetpointError(
            f"{model} has no certificate that can be checked, so there is no check to continue."
        )
    if not certificate.can_be_checked:
        raise SetpointError(f"there is no check to continue. {not_monitored(certificate)}")
    return read_output(after, lambda found: parse_verdict(found["verdict"], certificate))


def _check_both_classes(model: TableModel, frame: Any, name: str) -> None:
    """Raise SetpointError if a report cannot be made because the rows are of one class."""
    from setpoint.data.label_columns import positive_rows

    if model.target not in frame.columns:  # scoring the rows raises an error about that
        return
    y = positive_rows(frame[model.target], model.labels)
    for present, which in ((y.any(), "positive"), (not y.all(), "negative")):
        if len(y) and not present:
            raise SetpointError(
                f"there are no {which} rows in {name}; a report needs both classes. Without "
                "--report and --figures the rows are counted all the same."
            )
