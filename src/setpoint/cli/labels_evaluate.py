"""``setpoint evaluate`` for a model of several labels."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed
from setpoint.cli.output import Output
from setpoint.cli.prometheus import Samples
from setpoint.cli.seen_rows import SeenRows, earlier_rows
from setpoint.cli.verdicts import CONTINUE, groups_of, parse_verdict, read_output, verdict_fields
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from setpoint.certificates.joint_monitor import JointVerdict
    from setpoint.certificates.monitor import Verdict
    from setpoint.certificates.multilabel import MultilabelCertificate
    from setpoint.cli.reports import ReportRequest
    from setpoint.tables.label_model import LabelsTableModel


def evaluate_several(
    model: LabelsTableModel, context: typer.Context, request: ReportRequest, output: Output
) -> None:
    """Measure a model of several labels; the context has the options of ``setpoint evaluate``."""
    from setpoint.cli.labels_points import labels_table
    from setpoint.report.labels import LabelsReport
    from setpoint.report.page import summary

    given = context.params
    for option, value, advice in (
        ("--importance", given["importance"] or None, "this one has several"),
        ("--nearest", given["nearest"], "this one has several"),
        ("--baseline-scores", given["baseline_scores"], "this one has several"),
        ("--figures", request.figures, "leave it out"),
        ("--cost-alarm", request.costs, "leave it out"),
        ("--called", request.called, "leave it out"),
    ):
        if value is not None:
            raise SetpointError(f"{option} is for models of one label; {advice}.")
    certificate, before = model.certificate, None
    if given["after"] is not None:
        before = _read_verdicts(given["after"], certificate, given["model"])
    data = request.data
    name = data.name or str(data)
    with output.progress(f"reading {name}"):
        frame = model.read(data, ignore_extra=given["ignore_extra"])
    frame = o.only_labelled(frame, model.targets if given["skip_unlabelled"] else (), output)
    Y, scores = model.labelled_scores(frame)
    earlier = None if given["after"] is None else read_output(given["after"], earlier_rows)
    seen = SeenRows.of(model.row_hashes(frame, Y), model.fingerprints, earlier)
    seen.warn(output, name)
    unseen = model.unseen_values(frame)
    for note in unseen:
        output.note(note)
    point = model.point_of(Y, scores, on=name)
    verdicts: dict[str, Verdict | JointVerdict] = {}
    if certificate is not None and certificate.certified_labels:
        verdicts = certificate.check(Y, scores, after=before, groups=groups_of(model, frame))
    facts = {
        "model": given["model"], "targets": ", ".join(model.targets),
        "confidence": None if certificate is None else certificate.confidence,
        "check continued from": given["after"],
    }  # fmt: skip
    content = LabelsReport(
        point,
        certificate,
        verdicts,
        model.point_of(Y, scores, on=name, thresholds=model.usual_thresholds),
        request.title or f"{data.stem}: {model.goals}",
        request.facts_of(facts) if request.wanted else {},
        tuple(unseen),
    )
    parts: list[Any] = [labels_table(content), summary(content)]
    if verdicts:
        parts.append(_outcome(verdicts))
        if not content.contradicted:
            parts.append(CONTINUE)
    fields = {
        "model": str(given["model"]),
        "evaluated": point.to_dict(),
        "verdicts": {label: verdict_fields(verdict) for label, verdict in verdicts.items()},
        **seen.fields(continues=bool(verdicts)),
    }
    samples = Samples(str(given["model"]), str(model.goals))
    for target, threshold in zip(model.targets, model.rule.thresholds, strict=True):
        samples.add_point(point[target], float(threshold), target=target)
        certified = certificate is not None and target in certificate.certified_labels
        samples.add("certified", certified, target=target)
        if target in verdicts:
            samples.add_verdict(verdicts[target], target=target)
    seen.add_to(samples)
    files = chain(samples.write(given["prometheus"]), request.files(lambda: content))
    output.result_and_files(fields, *parts, files=files)
    exit_if_missed(given["strict"], content.met and not content.contradicted)


def _outcome(verdicts: dict[str, Verdict | JointVerdict]) -> str:
    """Return what the checks of the certificates have found."""
    broken = {label: verdict for label, verdict in verdicts.items() if verdict.broken}
    if not broken:
        return f"None of the certificates of {len(verdicts):,} labels is contradicted."
    return "\n".join(f"{label}: {verdict.message}" for label, verdict in broken.items())


def _read_verdicts(
    path: Any, certificate: MultilabelCertificate | None, model: Any
) -> dict[str, Verdict | JointVerdict]:
    """Return the verdicts in the output of ``evaluate --json``."""
    if certificate is None or not certificate.certified_labels:
        raise SetpointError(
            f"{model} has no certificate that can be checked, so there is no check to continue."
        )
    return read_output(
        path,
        lambda found: {
            label: parse_verdict(fields, certificate[label])
            for label, fields in found["verdicts"].items()
        },
    )
