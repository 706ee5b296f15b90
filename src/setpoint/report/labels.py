"""The content of a report about several labels, and its sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.joint_monitor import JointVerdict
from setpoint.certificates.monitor import Verdict
from setpoint.certificates.multilabel import MultilabelCertificate
from setpoint.goals.goal import Constraint, Goal, format_metric
from setpoint.goals.metrics import Metric, metric
from setpoint.report.content import Terms
from setpoint.report.fractions import fraction
from setpoint.report.goal_wording import goal_in_words
from setpoint.report.sentences import Headline
from setpoint.report.wording import (
    capitalized,
    in_words,
    is_and_should_be,
    joined,
    metric_label,
    shortened,
    value_text,
)
from setpoint.thresholds.multilabel import MultilabelPoint
from setpoint.thresholds.operating_point import OperatingPoint

TERMS = Terms("case with the label", "cases with the label", "")
_NAMED = 5  # labels in a sentence
_NOT_CERTIFIED = (
    "A label that is not certified is not thereby bad: its rows were too few, or its results too "
    "close to the level, to be sure."
)


class LabelResult(NamedTuple):
    """The results of one label.

    Attributes
    ----------
    name : str
        The label.
    point : OperatingPoint
        Its counts and metrics on the rows.
    met : bool or None
        Whether its constraints are met, and not only because there are no alarms; None if the rows
        have one class of the label, or the goal has no constraints.
    certificate : Certificate or None
        What is certified for it.
    verdict : Verdict or None
        How the rows compare with its certificate.
    """

    name: str
    point: OperatingPoint
    met: bool | None
    certificate: Certificate | None
    verdict: Verdict | JointVerdict | None

    @property
    def one_class(self) -> str:
        """Which class the rows lack: "positives" or "negatives"; empty if none."""
        _, _, P, N = self.point.counts
        return "positives" if P == 0 else "negatives" if N == 0 else ""

    @property
    def contradicted(self) -> bool:
        """Whether the rows contradict its certificate."""
        return self.verdict is not None and self.verdict.broken


@dataclass(frozen=True, eq=False)
class LabelsReport:
    """Everything that the page about several labels shows.

    Attributes
    ----------
    point : MultilabelPoint
        The counts and metrics of each label on the rows of the report.
    certificate : MultilabelCertificate or None
        What is certified for each label.
    verdicts : mapping of str to Verdict
        How the rows compare with the certificates of labels, if they are later data.
    usual : MultilabelPoint or None
        The same scores at common thresholds, a probability of 0.5.
    title : str
        The page's title.
    facts : mapping of str to str
        What is needed to reproduce the numbers.
    notes : tuple of str
        Sentences for the reader, e.g. warnings about the data.
    """

    point: MultilabelPoint
    certificate: MultilabelCertificate | None = None
    verdicts: Mapping[str, Verdict | JointVerdict] = field(default_factory=dict)
    usual: MultilabelPoint | None = None
    title: str = "Several labels"
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def results(self) -> list[LabelResult]:
        """The results of the labels, the worst first; labels of one class come last."""
        found = []
        for name, point in zip(self.point.names, self.point.points, strict=True):
            met = None
            if point.goal.constraints and name not in self.point.left_out:
                met = point.feasible and not point.empty
            own = None if self.certificate is None else self.certificate[name]
            found.append(LabelResult(name, point, met, own, self.verdicts.get(name)))
        return sorted(found, key=_worst_first)

    @property
    def judged(self) -> list[LabelResult]:
        """The labels whose constraints the rows can judge."""
        return [result for result in self.results if result.met is not None]

    @property
    def missed(self) -> list[LabelResult]:
        """Those that miss their constraints, the worst first."""
        return [result for result in self.judged if not result.met]

    @property
    def contradicted(self) -> list[LabelResult]:
        """The labels whose certificate the rows contradict."""
        return [result for result in self.results if result.contradicted]

    @property
    def goal(self) -> Goal | None:
        """The goal of the labels, if all have the same."""
        found = dict.fromkeys(self.point.goals.goals)
        return next(iter(found)) if len(found) == 1 else None

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Precision, recall, F1 and the metrics of the goals, by name."""
        found = {name: metric(name) for name in ("precision", "recall", "f1")}
        for goal in dict.fromkeys(self.point.goals.goals):
            found |= {m.name: m for m in goal.metrics if m.name not in found}
        return found

    @property
    def met(self) -> bool:
        """Whether every label, and the sums of all, meet the constraints."""
        return not self.missed and self.point.feasible


def _worst_first(result: LabelResult) -> tuple[bool, bool, float, float, str]:
    point = result.point
    gain = point.goal.objective.sign * point.objective
    violation = point.violation if result.met is False else 0.0
    gain = math.inf if math.isnan(gain) else gain
    return bool(result.one_class), result.met is not False, -violation, gain, result.name


def value_of(point: OperatingPoint, which: Metric, level: Constraint | None = None) -> str:
    """Return a metric of a label for a table; a dash where the rows do not define it."""
    tp, fp, P, N = point.counts
    undefined = {"precision": tp + fp == 0, "recall": P == 0, "f1": P == 0}
    if undefined.get(which.name, P == 0 or N == 0):
        return "–"
    value = point.value(which.name)
    return "–" if math.isnan(value) else value_text(which, value, "", level)


# --- sentences -----------------------------------------------------------------------------------


def labels_headline(report: LabelsReport) -> Headline:
    """Return the main results of several labels in plain sentences."""
    return Headline(
        _broken(report), _expected(report), _goal(report), _certificate(report), "", "",
        _basis(report),
    )  # fmt: skip


def _broken(report: LabelsReport) -> str:
    found = report.contradicted
    if not found:
        return ""
    names = _named([r.name for r in found])
    one = len(found) == 1
    return (
        f"These rows contradict the certificate{'' if one else 's'} of {len(found):,} "
        f"label{'' if one else 's'}: {names}."
    )


def _expected(report: LabelsReport) -> str:
    tp, fp, P, _ = (float(x) for x in report.point.sums)
    labels = f"Over all {len(report.point.names):,} labels"
    if P == 0:
        return f"{labels}, no row has a label; {tp + fp:,.0f} were predicted."
    if tp + fp == 0:
        return f"{labels}, nothing is predicted: none of {P:,.0f} labels is found."
    found = fraction(tp, P, "true label", "true labels")
    right = fraction(tp, tp + fp, "alarm", "alarms")
    return f"{labels}, {found.followed_by('are')} found; {right.followed_by('are')} real."


def _goal(report: LabelsReport) -> str:
    objective = report.point.goals.objective
    sentences = []
    judged, missed = report.judged, report.missed
    if judged and not missed:
        every = "Both labels meet" if len(judged) == 2 else f"All {len(judged):,} labels meet"
        sentences.append(f"{every if len(judged) > 1 else 'The only label meets'} the goal.")
    elif judged:
        names = _named([r.name for r in missed])
        verb = "misses" if len(missed) == 1 else "miss"
        sentences.append(
            f"{len(missed):,} of {len(judged):,} labels {verb} the goal: {names}. "
            f"{_why_missed(missed[0])}"
        )
    if missed_sums := report.point.missed_sums:
        sentences.append(f"All labels together miss the goal: {'; '.join(missed_sums)}.")
    if objective is not None and not math.isnan(report.point.macro(objective.name)):
        mean = value_text(objective, report.point.macro(objective.name), "")
        name = metric_label(objective)
        sentences.append(f"On average over the labels, {name} is {mean}{_extremes(report)}.")
    left = report.point.left_out
    if left:
        verb = "has" if len(left) == 1 else "have"
        sentences.append(
            f"{capitalized(_named(left))} cannot be judged: the rows {verb} one class of "
            f"{'it' if len(left) == 1 else 'them'} only."
        )
    return " ".join(sentences).replace("the rows has", "the rows have")


def _named(names: Sequence[str]) -> str:
    """Return the first few labels for a sentence."""
    shown = [in_words(shortened(name)) for name in names[:_NAMED]]
    more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    return joined([*shown, *more])


def _why_missed(worst: LabelResult) -> str:
    point = worst.point
    if point.feasible:
        return f"No alarm is raised for {in_words(worst.name)}, so nothing is found."
    constraint = point.missed[0]
    text = is_and_should_be(constraint, point.value(constraint.metric.name), "")
    return f"The worst is {in_words(worst.name)}: {text}."


def _extremes(report: LabelsReport) -> str:
    """Return the label with the worst objective, as the end of a sentence."""
    objective = report.point.goals.objective
    assert objective is not None
    values = [(objective.sign * r.point.objective, r) for r in report.results if not r.one_class]
    values = [pair for pair in values if math.isfinite(pair[0])]
    if len(values) < 2:
        return ""
    worst = min(values, key=lambda pair: pair[0])[1]
    side = "lowest" if objective.direction == "max" else "highest"
    return f"; it is {side} for {in_words(worst.name)}, {format_metric(worst.point.objective)}"


def _certificate(report: LabelsReport) -> str:
    certificate = report.certificate
    if certificate is None:
        return "Nothing is certified: results on new data may differ."
    count, every = len(certificate.certified_labels), len(certificate.names)
    kind = "joint confidence" if certificate.joint else "confidence each"
    percent = f"{100 * certificate.confidence:g} %"
    return f"Certified for new data, at {percent} {kind}: {count:,} of {every:,} labels."


def _basis(report: LabelsReport) -> str:
    tp, fp, P, N = (float(x) for x in report.point.sums)
    rows = (P + N) / len(report.point.names)
    basis = f"Based on {report.point.on}: {rows:,.0f} rows with {P:,.0f} labels in all."
    if P == 0 or tp + fp == 0:
        return basis
    return f"{basis} A row may have several labels, or none; each label of a row counts once."


def confidence_in_words(certificate: MultilabelCertificate) -> list[str]:
    """Explain what the confidence of several certificates means, in a few sentences."""
    percent, labels = f"{100 * certificate.confidence:g}", len(certificate.names)
    each = f"{100 * certificate.each:.6g} %"
    if not certificate.joint:
        return [
            f"The confidence of {percent} % is that of each label by itself: of {labels:,} labels, "
            "several certificates may be false."
        ]
    return [
        f"The confidence is joint: in at least {percent} of 100 studies like this one, every "
        "certificate of the table is true, whichever labels are certified. All of them may be used "
        "together.",
        f"For that, each of the {labels:,} labels is tested more strictly, at {each}. The more "
        "labels there are, the more rows each of them needs.",
        *([] if certificate.certified else [_NOT_CERTIFIED]),
    ]


def goal_of_labels(report: LabelsReport) -> str:
    """Describe the goal of several labels."""
    goals, goal = report.point.goals, report.goal
    if goal is None:
        return f"Each of the {len(goals.goals):,} labels has a goal of its own."
    text = goal_in_words(goal, TERMS)
    how = {
        "micro": "This is asked of the counts of all labels together (micro average)"
        + ("; what is required, of each label." if goal.constraints else "."),
        "macro": "This is asked of each label, which has a threshold of its own; the result is the "
        "mean over the labels (macro average).",
        None: "This is asked of each label, which has a threshold of its own.",
    }[goals.average]
    return f"{text} {how}"
