"""The first sentences of a report: what to expect, what is promised, and what that rests on."""

from __future__ import annotations

from typing import NamedTuple

from setpoint.certificates import Certificate
from setpoint.goals import TOLERANCE
from setpoint.metrics import plain
from setpoint.operating_point import OperatingPoint
from setpoint.report.content import Report
from setpoint.report.words import CONFIDENCE, FEW, Share, between, called, share, shown


class Headline(NamedTuple):
    """The sentences one by one; each may be empty."""

    expected: str
    goal: str
    promise: str
    basis: str


def headline(report: Report) -> str:
    """Return what a manager should read, in plain sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint.report import Report, Rows, headline
    >>> y = np.arange(1000) < 200
    >>> scores = np.where(np.arange(1000) < 182, 0.8, 0.1)  # 18 positives are missed
    >>> scores[990:] = 0.9  # and 10 alarms are false
    >>> report = Report("max recall", Rows(y, scores), 0.5, positive="fraud", positives="frauds")
    >>> headline(report).split(". ")[0]
    'At this threshold expect to catch 91 of 100 frauds; 95 of 100 alarms are real'
    """
    return " ".join(filter(None, sentences(report)))


def sentences(report: Report) -> Headline:
    """Return the headline in its parts."""
    return Headline(_expected(report), _goal(report), _promise(report), _basis(report))


def _expected(report: Report) -> str:
    point = report.point
    tp, fp, P, _ = point.counts
    alarms = tp + fp
    if alarms == 0:
        missed = f"none of the {P:,.0f} {report.many} is caught"
        if P == 1:
            missed = f"the only {report.one} is missed"
        return f"At this threshold there are no alarms: {missed}."
    caught = share(tp, P, report.one, report.many)
    real = share(tp, alarms, "alarm", "alarms")
    if tp == 0:
        false = "the only alarm is false" if alarms == 1 else f"all {alarms:,.0f} alarms are false"
        missed = f"none of the {P:,.0f} {report.many} is caught"
        if P == 1:
            missed = f"the only {report.one} is missed"
        text = f"At this threshold {missed}, and {false}"
    elif P < FEW or tp == P:  # so few, or all of them, are nothing to expect again
        text = f"At this threshold {_was(caught)} caught; {_was(real)} real"
    else:
        verb = _was(real) if fp == 0 else _is(real)
        text = f"At this threshold expect to catch {caught.text}; {verb} real"
    return "; ".join([text, *_others(report)]) + "."


def _others(report: Report) -> list[str]:
    """Say what the goal's other metrics are."""
    tp, fp, P, N = report.point.counts
    said = []
    for which in dict.fromkeys(report.goal.metrics):
        if which.name in ("precision", "recall", "fnr"):
            continue
        if which.name in ("fpr", "specificity"):
            wrong = share(fp, N, "other case", "other cases")
            said.append(f"{wrong.text} {_raise(wrong)} a false alarm")
        elif which.name == "alarm_rate":
            raised = share(tp + fp, P + N, "case", "cases")
            said.append(f"{raised.text} {_raise(raised)} an alarm")
        else:
            said.append(f"{called(which.name)} is {shown(report.point.value(which.name))}")
    return list(dict.fromkeys(said))  # fpr and specificity say the same


def missed_levels(point: OperatingPoint) -> list[str]:
    """Say which of the goal's levels are not kept at a point."""
    said = []
    for constraint in point.goal.constraints:
        if constraint.shortfall(*point.counts) > TOLERANCE:
            value = shown(point.value(constraint.metric.name), constraint)
            side = "least" if constraint.relation == ">=" else "most"
            level = plain(constraint.level)
            name = called(constraint.metric.name)
            said.append(f"{name} is {value} and should be at {side} {level}")
    return said


def _goal(report: Report) -> str:
    point = report.point
    if not report.goal.constraints:
        return ""
    missed = missed_levels(point)
    if missed:
        return f"The goal is not met on these rows: {'; '.join(missed)}."
    if point.empty:
        return "The goal is met only in that there are no alarms."
    return "" if report.certificate else "The goal is met on these rows."


def _promise(report: Report) -> str:
    if report.certificate is None:
        return "Nothing is certified, so new data may differ."
    return promised(report.certificate)


def promised(certificate: Certificate) -> str:
    """Return the certificate's message without what was observed, which stands elsewhere."""
    text = certificate.message
    observed = text.rfind(f" On {certificate.operating_point.on} ")
    return text if observed < 0 else text[:observed]


def _basis(report: Report) -> str:
    tp, fp, P, N = report.point.counts
    total = f"{P + N:,.0f} rows of {report.rows.on}"
    among = f"{P:,.0f} {report.many if P > 1 else report.one} among them"
    caught = f"{between(tp, P)} {report.many} are caught"
    real = "" if tp + fp == 0 else f", and {between(tp, tp + fp)} alarms are real"
    unless = "" if report.rows.unseen else ", if neither model nor threshold was chosen on them"
    return (
        f"This rests on {total}, {among}. In the long run {caught}{real} "
        f"({100 * CONFIDENCE:g} % confidence each{unless})."
    )


def _is(said: Share) -> str:
    return f"{said.text} {'are' if said.plural else 'is'}"


def _was(said: Share) -> str:
    return f"{said.text} {'were' if said.plural else 'was'}"


def _raise(said: Share) -> str:
    return "raise" if said.plural else "raises"
