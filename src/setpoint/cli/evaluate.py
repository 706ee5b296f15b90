"""``setpoint evaluate``: what a saved model does on labelled rows."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.monitor import Verdict
from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.words import (
    counted_as_they_are,
    ending,
    met,
    missing_class,
    one_class,
    point_fields,
    point_table,
)
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint

_GO_ON = (
    "To go on with this check on later rows, keep what --json prints and give it to 'evaluate' "
    "with --after."
)


def evaluate(
    context: typer.Context,
    model: o.Model,
    data: o.DataOrFolder,
    after: o.After = None,
    ignore_extra: o.IgnoreExtra = False,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.CostOfAlarm = None,
    cost_miss: o.CostOfMiss = None,
    currency: o.Currency = "€",
    title: o.Title = None,
    called: o.Called = None,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Measure a saved model on labelled rows, and check whether its certificate still holds."""
    from setpoint.cli import evaluate as looks
    from setpoint.cli.models import check_both_classes, groups_of, load_table_model
    from setpoint.cli.overwriting import check_outputs
    from setpoint.cli.reports import Wish, costs_of, report_of_rows
    from setpoint.errors import SetpointError
    from setpoint.thresholds.operating_point import evaluate_threshold

    costs = costs_of(cost_alarm, cost_miss, currency)
    check_outputs({"the table": data, "the model": model}, report, figures)
    wish = Wish(data, report, figures, costs, title, called, context.find_root().obj)
    output = Output(as_json, quiet)
    wish.note_unused(output)
    with output.warnings_as_notes():
        loaded = load_table_model(model)
    certificate = loaded.certificate
    promised = certificate is not None and certificate.certified
    if after is not None and not promised:
        raise SetpointError(f"{model} has no certificate, so there is no check to go on with.")
    before = None
    if after is not None and certificate is not None:
        before = looks.read(after, certificate)
    name = data.name or str(data)
    with output.progress(f"reading {name}"):
        frame = loaded.read(data, ignore_extra=ignore_extra)
    if wish.wanted:
        check_both_classes(loaded, frame, name)
    y, scores = loaded.labelled_scores(frame)
    unseen = loaded.unseen_values(frame)
    for note in unseen:
        output.note(note)
    point = evaluate_threshold(y, scores, 0.0, loaded.goal, on=name)
    verdict = None
    if certificate is not None and promised:
        verdict = certificate.check(y, scores, after=before, groups=groups_of(loaded, frame))
    parts = [point_table(loaded.operating_point, point)]
    if missing_class(point) is not None:
        parts.append(one_class(point))
    if verdict is not None:
        parts.append(str(verdict))
        if caution := counted_as_they_are(point, verdict.promises):
            parts.append(caution)
            output.notes.append(caution)
        if not verdict.broken:
            parts.append(_GO_ON)
    facts = {
        "model": model, "target": loaded.target,
        "confidence": None if certificate is None else certificate.confidence,
        "check after": after,
    }  # fmt: skip
    output.result_and_files(
        {
            "model": str(model),
            "evaluated": point_fields(point),
            "verdict": None if verdict is None else looks.to_json(verdict),
        },
        *parts,
        files=wish.files(
            lambda: report_of_rows(loaded, y, scores, verdict, wish, facts, tuple(unseen))
        ),
    )
    ending(strict, bool(met(point)) and not (verdict is not None and verdict.broken))


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(evaluate)


_COUNTS = ("tp", "fp", "fn", "tn")


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict with the certificate that it belongs to."""
    return {
        **verdict.to_dict(),
        "operating_point": point_fields(verdict.operating_point),
        "certificate": list(verdict.identity),
    }


def read(path: Path, certificate: Certificate) -> Verdict:
    """Read what ``evaluate --json`` printed, to go on from it."""
    wanted = "--after takes what 'setpoint evaluate --json' printed"
    if not path.exists():
        raise SetpointError(f"there is no file {path} to go on from; {wanted}.")
    if path.is_dir():
        raise SetpointError(f"{path} is a folder, and no answer to go on from; {wanted}.")
    if path.is_file() and path.stat().st_size == 0:
        raise SetpointError(
            f"{path} is empty, and no answer to go on from; {wanted}. (In a shell '> {path.name}' "
            "empties the file before the command reads it: write to another one.)"
        )
    try:
        return _verdict(json.loads(path.read_text("utf-8"))["verdict"], certificate)
    except (KeyError, TypeError, ValueError) as error:
        raise SetpointError(
            f"{path} is no answer to go on from; it must be what 'setpoint evaluate --json' "
            "printed of this model, with its certificate."
        ) from error


def _verdict(kept: dict[str, Any], certificate: Certificate) -> Verdict:
    promises = certificate.promises
    counts = [float(kept["operating_point"][name]) for name in _COUNTS]
    # JSON knows no infinity, which evidence may be.
    evidence = [math.inf if value is None else float(value) for value in kept["evidence"]]
    if len(evidence) != len(promises) or not all(0 <= x < math.inf for x in counts):
        raise ValueError("it belongs to something else")
    tp, fp, fn, tn = counts
    goal = Goal(promises[0].metric, promises)
    return Verdict(
        bool(kept["broken"]),
        promises,
        tuple(evidence),
        OperatingPoint(certificate.threshold, tp, fp, fn, tn, goal, "later data"),
        float(kept["level"]),
        int(kept["looks"]),
        tuple(kept["certificate"]),
    )


# DOC of cli.looks: One check of a promise over several files: an answer is kept as JSON, and gone on from.
