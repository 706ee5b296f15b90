"""``setpoint evaluate``: measure a saved model on labelled rows, and check its certificate.

The check of a certificate can span several files: ``--after`` continues from the JSON output of the
previous one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed, first_imports
from setpoint.cli.output import Output
from setpoint.cli.points import (
    is_met,
    missing_class,
    one_class_caution,
    one_class_message,
    point_fields,
    point_table,
)
from setpoint.cli.predict import check_model_and_table
from setpoint.cli.prometheus import Samples
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from setpoint.certificates.joint_monitor import JointVerdict, Monitored
    from setpoint.certificates.mean_monitor import MeanVerdict
    from setpoint.certificates.monitor import Verdict
    from setpoint.data.fingerprints import Fingerprints, Hashes, Overlap
    from setpoint.goals.goal import Constraint
    from setpoint.tables.fitted_columns import FittedColumns
    from setpoint.tables.model import TableModel

T = TypeVar("T")

CONTINUE = (
    "To continue this check with later rows, save the output of --json and pass it to 'evaluate' "
    "with --after."
)


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
    from setpoint.cli.output_paths import check_file, check_outputs
    from setpoint.cli.predict import load_table_model
    from setpoint.cli.reports import ReportRequest, check_costs, costs_of, training_of

    check_costs(cost_alarm, cost_miss)
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
    with first_imports():
        from setpoint.cli.why import drift_text, explain_rows, importance_text
        from setpoint.report.content import Rows
        from setpoint.tables.goal_columns import check_todays_model
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

        for option, value in (
            ("--importance", importance or None), ("--nearest", nearest),
            ("--baseline-scores", baseline_scores),
        ):  # fmt: skip
            if value is not None:
                raise SetpointError(f"{option} is for models of one label; this one has several.")
        evaluate_several(loaded, context, request, output)
        return
    check_costs(cost_alarm, cost_miss, loaded.goal)
    check_todays_model(loaded.goal, baseline_scores)
    also = () if baseline_scores is None else (baseline_scores,)
    if baseline_scores in (*loaded.schema.names, loaded.target):
        what = "target" if baseline_scores == loaded.target else "feature"
        raise SetpointError(
            f"{baseline_scores!r} is a {what} of the model, and cannot be the scores of today's "
            "model too."
        )
    certificate = loaded.certificate
    if certificate is not None and not certificate.certified:
        certificate = None
    before = None
    if after is not None:
        if certificate is None:
            raise SetpointError(
                f"{model} has no certificate that can be checked, so there is no check to continue."
            )
        if not certificate.can_be_checked:
            raise SetpointError(f"there is no check to continue. {not_monitored(certificate)}")
        before = _read_verdict(after, certificate)
    earlier = None if after is None else read_output(after, earlier_rows)
    name = data.name or str(data)
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
    verdict, unmonitored = None, None
    if certificate is not None and not certificate.can_be_checked:
        unmonitored = not_monitored(certificate)
    elif certificate is not None:
        groups = groups_of(loaded, frame)
        verdict = certificate.check(y, scores, after=before, groups=groups, **named)
    current, current_point = None, None
    if baseline_scores is not None:
        assert todays is not None
        current, current_point = todays_model_on(
            baseline_scores, todays, y, loaded.goal, named, loaded.facts, name
        )
        if is_chosen_here(baseline_scores, loaded.facts):
            output.note(
                f"the threshold of {current.name} is the best one on these rows, which favours it; "
                "'setpoint fit --baseline-scores' chooses it on training rows."
            )
    parts = [point_table(loaded.operating_point, point, current_point)]
    if missing_class(point) is not None:
        parts.append(one_class_message(point))
    if unmonitored is not None:
        parts.append(unmonitored)
    if verdict is not None:
        parts.append(str(verdict))
        if point.missed and not verdict.broken:
            parts.append(_still_certified(verdict, point))
        if caution := one_class_caution(point, verdict.guarantees):
            parts.append(caution)
            output.notes.append(caution)
        if not verdict.broken:
            parts.append(CONTINUE)
    why = explain_rows(
        loaded, frame, scores, name, output, importance=importance, nearest=nearest,
        wanted=request.wanted, show_values=show_values,
    )  # fmt: skip
    if why.drift is not None:
        parts.append(drift_text(why.drift))
    if why.importances is not None:
        parts.append(importance_text(why.importances))
    if nearest is not None:
        parts.append(str(why.nearest))
    facts = {
        "model": model, "target": loaded.target,
        "confidence": None if loaded.certificate is None else loaded.certificate.confidence,
        "check continued from": after,
    }  # fmt: skip
    samples = Samples(str(model), str(loaded.goal))
    samples.add_point(point, loaded.rule.thresholds)
    samples.add("certified", certificate is not None)
    if verdict is not None:
        samples.add_verdict(verdict)
    seen.add_to(samples)
    output.result_and_files(
        {
            "model": str(model),
            "evaluated": point_fields(point),
            "baseline": None if current_point is None else point_fields(current_point),
            "verdict": None if verdict is None else verdict_fields(verdict),
            "not_monitored": unmonitored,
            "drift": None if why.drift is None else why.drift.to_dict(),
            "importance": None if why.importances is None else why.importances.to_dict(),
            "nearest": None if nearest is None or why.nearest is None else why.nearest.to_dict(),
            **seen.fields(continues=verdict is not None),
        },
        *parts,
        files=chain(
            samples.write(prometheus),
            request.files(
                lambda: request.report(
                    loaded.goal,
                    Rows(
                        y,
                        scores,
                        on=name,
                        named=named,
                        probability=loaded.probabilities_of(scores),
                    ),
                    loaded.rule.thresholds,
                    loaded.positive,
                    facts,
                    certificate=loaded.certificate,
                    verdict=verdict,
                    notes=tuple(unseen),
                    why=why,
                    **({} if current is None else {"current": current}),
                    **training_of(loaded),
                )
            ),
        ),
    )
    exit_if_missed(strict, bool(is_met(point)) and not (verdict is not None and verdict.broken))


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


def _still_certified(verdict: Any, point: Any) -> str:
    """Explain why a certificate stands although rows miss the goal."""
    from setpoint.goals.bands import BandGoal
    from setpoint.report.bands import TOO_FEW
    from setpoint.report.sentences import too_few

    if isinstance(point.goal, BandGoal):
        return TOO_FEW
    # The verdict states the p-values.
    return too_few(verdict, point.missed, "positive", "positives", with_p_values=False)


def not_monitored(certificate: Any) -> str:
    """Return why later rows are not compared with a certificate, and what to do instead."""
    return (
        f"The certificate is not monitored: {certificate.unchecked}. Certify the threshold again "
        "on later labelled rows instead."
    )


def groups_of(model: FittedColumns, frame: Any) -> Any:
    """Return the group of each row, if the model was fitted with groups."""
    if model.group is None:
        return None
    if model.group not in frame.columns:
        raise SetpointError(
            f"the certificate of this model is about one row per {model.group!r}; the table needs "
            "that column to check it."
        )
    return frame[model.group].to_numpy()


def verdict_fields(verdict: Any) -> dict[str, Any]:
    """Return a verdict for JSON, with the certificate that it belongs to."""
    found: dict[str, Any] = verdict.to_dict()
    if parts := getattr(verdict, "parts", None):
        return {**found, "parts": [verdict_fields(part) for part in parts]}
    if "operating_point" in found:
        found["operating_point"] = point_fields(verdict.operating_point)
    # JSON has no infinity, which a threshold may be.
    identity = [str(x) if x in (math.inf, -math.inf) else x for x in verdict.identity]
    return {**found, "certificate": identity}


class SeenRows(NamedTuple):
    """How many of the rows trained the model, or were in earlier files of a check.

    Attributes
    ----------
    trained, checked : Overlap or None
        The overlaps; None if they are not known.
    fingerprints : Fingerprints
        Of these rows and those of earlier files.
    """

    trained: Overlap | None
    checked: Overlap | None
    fingerprints: Fingerprints

    @classmethod
    def of(
        cls, hashes: Hashes, trained: Fingerprints | None, earlier: Fingerprints | None
    ) -> SeenRows:
        """Compare rows with those that trained the model, and those of earlier files."""
        from setpoint.data.fingerprints import Fingerprints

        return cls(
            None if trained is None else trained.overlap(hashes),
            None if earlier is None else earlier.overlap(hashes),
            Fingerprints.of(hashes) if earlier is None else earlier.joined(hashes),
        )

    def warn(self, output: Output, name: str) -> None:
        """Warn if rows have been seen before."""
        if self.trained is not None and self.trained.is_notable:
            output.note(
                f"{self.trained} of {name} trained or certified this model, so the results on them "
                "are too optimistic; use rows that played no part in fitting it.",
                "warning",
            )
        if self.checked is not None and self.checked.is_notable:
            output.note(
                f"{self.checked} of {name} were in earlier files of this check (--after) and now "
                "count twice, so its verdict is not valid; every row may occur once.",
                "warning",
            )

    def add_to(self, samples: Samples) -> None:
        """Add the fraction of rows that trained the model, if it is known."""
        if self.trained is not None:
            samples.add("rows_seen_in_training_ratio", self.trained.fraction)

    def fields(self, continues: bool) -> dict[str, Any]:
        """Return the overlaps for JSON, with the fingerprints if a check may be continued."""
        trained, checked = (
            None if overlap is None else overlap.fraction
            for overlap in (self.trained, self.checked)
        )
        return {
            "rows_seen": {"in_training": trained, "in_earlier_checks": checked},
            "fingerprints": self.fingerprints.to_dict() if continues else None,
        }


def earlier_rows(output: Any) -> Fingerprints | None:
    """Return the fingerprints in the output of ``evaluate --json``; earlier versions wrote none."""
    from setpoint.data.fingerprints import Fingerprints

    found = output.get("fingerprints")
    return None if found is None else Fingerprints.from_dict(found)


def _read_verdict(path: Path, certificate: Any) -> Any:
    """Return the verdict in the output of ``evaluate --json``."""
    return read_output(path, lambda found: parse_verdict(found["verdict"], certificate))


def read_output(path: Path, read: Callable[[Any], T]) -> T:
    """Return what ``read`` finds in the output of ``evaluate --json``."""
    expected = "--after takes the output of 'setpoint evaluate --json'"
    if not path.exists():
        raise SetpointError(f"there is no file {path}; {expected}.")
    if path.is_dir():
        raise SetpointError(f"{path} is a folder; {expected}.")
    if path.is_file() and path.stat().st_size == 0:
        raise SetpointError(
            f"{path} is empty; {expected}. (In a shell '> {path.name}' empties the file before the "
            "command reads it: write to another one.)"
        )
    try:
        return read(json.loads(path.read_text("utf-8")))
    except (
        KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise SetpointError(
            f"{path} is not the output of 'setpoint evaluate --json' for this model and its "
            "certificate, so the check cannot continue from it."
        ) from error


def parse_verdict(fields: dict[str, Any], certificate: Any) -> Verdict | JointVerdict:
    """Return a verdict from its values in JSON; ValueError if it is of another certificate."""
    from setpoint.certificates.joint_monitor import JointVerdict

    monitored = certificate.monitored
    if monitored is None:
        return _parse_counted(fields, certificate.guarantees, certificate.threshold)
    if len(fields["parts"]) != len(monitored):
        raise ValueError("it belongs to another certificate")
    parts = [
        _parse_counted(own, (each.plain,), each.threshold)
        if each.span is None
        else _parse_mean(own, each)
        for own, each in zip(fields["parts"], monitored, strict=True)
    ]
    last = tuple((str(kind), str(name)) for kind, name in fields["last_periods"].items())
    return JointVerdict(monitored, tuple(parts), float(fields["level"]), last)


def _parse_mean(fields: dict[str, Any], each: Monitored) -> MeanVerdict:
    from setpoint.certificates.mean_monitor import BETS, MeanVerdict

    assert each.span is not None
    logs = tuple(map(float, fields["logs"]))
    starts = tuple(tuple(map(float, start)) for start in fields["starts"])
    if fields["span"] != list(each.span) or {len(logs)} != {BETS, *(len(s) - 1 for s in starts)}:
        raise ValueError("it belongs to another certificate")
    rows, mean, uncapped = int(fields["rows"]), float(fields["mean"]), float(fields["uncapped"])
    numbers = (uncapped, *logs, *(x for start in starts for x in start))
    rising = [0.0, *(start[0] for start in starts), float(rows)]
    if rising != sorted(rising) or not 0 <= mean <= 1 or not all(map(math.isfinite, numbers)):
        raise ValueError("its values are not those of a check")
    return MeanVerdict(
        bool(fields["broken"]), each.plain, each.span, _evidence(fields["evidence"]),
        float(fields["level"]), rows, mean, logs, starts, int(fields["since"]),
        int(fields["checks"]), _identity(fields), int(fields["pending"]), int(fields["capped"]),
        uncapped,
    )  # fmt: skip


def _evidence(value: Any) -> float:
    """Return evidence, which may be infinite; JSON has no infinity."""
    found = math.inf if value is None else float(value)
    if not found >= 0:
        raise ValueError("its evidence is not a number of at least 0")
    return found


def _identity(fields: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(float(x) if x in ("inf", "-inf") else x for x in fields["certificate"])


def _parse_counted(
    fields: dict[str, Any], guarantees: tuple[Constraint, ...], threshold: float
) -> Verdict:
    """Return a verdict from its values in JSON; ValueError if it is of other guarantees."""
    from setpoint.certificates.monitor import Verdict
    from setpoint.goals.goal import Goal
    from setpoint.thresholds.operating_point import OperatingPoint

    counts = [float(fields["operating_point"][name]) for name in ("tp", "fp", "fn", "tn")]
    evidence = [_evidence(value) for value in fields["evidence"]]
    # Versions without restarts had none of these.
    since, reserve = fields.get("since") or (), fields.get("reserve")
    for numbers in (evidence, since or evidence, reserve or evidence):
        if len(numbers) != len(guarantees):
            raise ValueError("it belongs to another certificate")
    starts = tuple(_four_counts(start) for start in fields.get("starts", ()))
    stakes = () if reserve is None else tuple(map(float, reserve))
    if not all(0 <= x < math.inf for numbers in (counts, stakes, *starts) for x in numbers):
        raise ValueError("its counts are not counts")
    for series in zip((0.0,) * 4, *starts, counts, strict=True):
        if list(series) != sorted(series):
            raise ValueError("its counts do not rise")
    tp, fp, fn, tn = counts
    goal = Goal(guarantees[0].metric, guarantees)
    return Verdict(
        bool(fields["broken"]),
        guarantees,
        tuple(evidence),
        OperatingPoint(threshold, tp, fp, fn, tn, goal, "later data"),
        float(fields["level"]),
        int(fields["looks"]),
        _identity(fields),
        tuple(map(int, since)),
        int(fields.get("pending", 0)),
        starts,
        None if reserve is None else stakes,
    )


def _four_counts(start: Any) -> tuple[float, float, float, float]:
    tp, fp, fn, tn = map(float, start)
    return tp, fp, fn, tn
