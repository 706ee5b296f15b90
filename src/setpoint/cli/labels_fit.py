"""``setpoint fit`` with several targets: a model with a threshold for each label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed, first_imports
from setpoint.cli.fit import save_fitted, training
from setpoint.cli.output import Output, is_main_process

if TYPE_CHECKING:
    from setpoint.cli.reports import ReportRequest
    from setpoint.report.labels import LabelsReport
    from setpoint.tables.label_fitting import FittedLabels

_SEVERAL = "with several targets"
_NOTHING: tuple[Any, ...] = (None, [], (), False, "threshold", "one")  # values without effect
_REFUSED = {  # options of one target, and what to do instead
    "decision": "every label is decided by its threshold; leave out --decision",
    "thresholds": "every label has one threshold; leave out --thresholds",
    "cap": "goals have no amounts; leave out --cap",
    "stream": "the table is read into memory; leave out --stream",
    "checkpoint": "models are not trained step by step; leave out --checkpoint",
    "cost_alarm": "the report has no costs; leave out --cost-alarm",
    "cost_miss": "the report has no costs; leave out --cost-miss",
    "importance": "importance is not measured; leave out --importance",
    "show_values": "the report has no rows; leave out --show-values",
    "baseline_scores": "each would need scores of its own; leave out --baseline-scores",
    "called": "labels are called after their columns; leave out --called",
    "figures": "the figures are part of the page; use --report instead of --figures",
}


def fit_several(targets: Sequence[str], context: typer.Context) -> None:
    """Train on several targets; the context has the options of ``setpoint fit``."""
    given = context.params
    from setpoint.cli.output_paths import check_outputs, check_separate
    from setpoint.cli.reports import ReportRequest
    from setpoint.data.table_reader import read_table
    from setpoint.errors import SetpointError
    from setpoint.saving.storage import check_target
    from setpoint.tables.model_options import check_device, check_label_goals

    for name, why in _REFUSED.items():
        if _is_given(context, name):
            raise SetpointError(f"{_SEVERAL} {why}.")
    data, out, report = given["data"], given["out"], given["report"]
    model = given["model"] or "logistic"
    average: Any = given["average"] or "macro"
    confidence, test = given["confidence"], given["test"]
    check_label_goals(targets, given["goal"], average, model)
    check_device(given["device"], model)
    if test == 0 and report:
        raise SetpointError("a report needs test rows; leave out --test 0.")
    if data.is_dir():
        raise SetpointError(f"{_SEVERAL} the table is one file, and {data} is a folder.")
    check_target(out)
    check_separate(out.expanduser(), "model", {"the table": data})
    check_outputs({"the table": data, "the model": out}, report, None)
    if confidence is not None:
        with first_imports():
            from setpoint.tables.label_fitting import check_label_options

        check_label_options(targets, given["goal"], average, model, confidence)
    dropped = o.column_names(given["drop"] or [], data)
    hint = o.check_columns(data, targets, given["group"], given["time"], dropped)
    if not is_main_process():
        return
    with first_imports():
        from setpoint.tables.label_fitting import fit_labels

    request = ReportRequest(data, report, None, None, given["title"], None, context.find_root().obj)
    output = Output(given["as_json"], given["quiet"])
    request.note_unused_options(output)
    if hint:
        output.note(hint, "warning")
    with output.progress(f"reading {data.name}"):
        frame = read_table(data)
    frame = o.only_labelled(frame, targets if given["skip_unlabelled"] else (), output)
    with training(output, f"training for {len(targets)} labels"):
        fitted = fit_labels(
            frame, targets, given["goal"], average=average, positive=given["positive"],
            model=model, confidence=confidence, group=given["group"], time=given["time"],
            test=test, drop=tuple(dropped), random_state=given["seed"],
        )  # fmt: skip
    save_fitted(fitted, out, output)
    facts = {
        "targets": ", ".join(targets), "columns left out": ", ".join(dropped),
        "group": given["group"], "time": given["time"], "model": model,
        "confidence": confidence, "fraction of test rows": test, "seed": given["seed"],
    }  # fmt: skip
    content = _report(fitted, request, facts)
    _show(content, fitted, out, output, request.files(lambda: content))
    certificate = content.certificate
    exit_if_missed(given["strict"], content.met if certificate is None else certificate.certified)


def _report(fitted: FittedLabels, request: ReportRequest, facts: Mapping[str, Any]) -> LabelsReport:
    """Return the report of a new model, on its test rows or else on those that set thresholds."""
    from setpoint.report.labels import LabelsReport

    model, test = fitted.model, fitted.test
    certificate, verdicts = model.certificate, {}
    if certificate is not None and test is not None:
        verdicts = certificate.check(test.Y, test.scores, groups=test.groups)
    own = {k: v for k, v in model.facts.items() if k not in ("model", "group", "time")}
    own["rows of the table"] = own.pop("rows")
    own.pop("random_state", None)
    point = model.operating_point if fitted.test_point is None else fitted.test_point
    notes = (*fitted.notes, *(sign.message for sign in fitted.leakage))
    return LabelsReport(
        point,
        certificate,
        verdicts,
        fitted.usual,
        request.title or f"{request.data.stem}: {model.goals}",
        request.facts_of({**facts, **own}) if request.wanted else {},
        notes,
    )


def _show(
    content: LabelsReport,
    fitted: FittedLabels,
    out: Path,
    output: Output,
    files: Iterator[tuple[str, Path]],
) -> None:
    from setpoint.cli.labels_points import labels_table
    from setpoint.report.page import summary

    certificate, set_on = content.certificate, fitted.model.operating_point
    tested = fitted.test_point
    fields: Mapping[str, Any] = {
        "model": str(out),
        "goal": str(fitted.model.goals),
        "threshold_set_on": set_on.to_dict(),
        "test": None if tested is None else tested.to_dict(),
        "certificate": None if certificate is None else certificate.to_dict(),
    }
    parts: list[Any] = [labels_table(content)]
    if certificate is not None:
        parts.append(str(certificate))
    parts += [summary(content, with_certificate=certificate is None), f"Model: {out}"]
    saved = f"The model is saved: {out}."
    output.result_and_files(dict(fields), *parts, files=files, saved=saved)


def _is_given(context: typer.Context, name: str) -> bool:
    """Return whether the user gave an option that asks for something."""
    source = context.get_parameter_source(name)
    given = source is not None and source.name != "DEFAULT"
    return given and context.params[name] not in _NOTHING
