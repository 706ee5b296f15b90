"""The first sentences of a report: what to expect, what is promised, and what that rests on."""

from __future__ import annotations

from typing import NamedTuple

from setpoint.certificates.certificate import Certificate
from setpoint.certificates.monitor import Verdict
from setpoint.goals.goal import TOLERANCE, Constraint, shown
from setpoint.goals.metrics import called, plain
from setpoint.report.content import Report
from setpoint.report.words import CONFIDENCE, FEW, Share, between, share
from setpoint.thresholds.operating_point import OperatingPoint


class Headline(NamedTuple):
    """The sentences one by one; each may be empty."""

    broken: str
    expected: str
    goal: str
    promise: str
    caution: str
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
    return Headline(
        _broken(report), _expected(report), _goal(report), _promise(report), _caution(report),
        _basis(report),
    )  # fmt: skip


def where(verdict: Verdict) -> str:
    """Say which rows a verdict rests on."""
    return "on these rows" if verdict.looks == 1 else "by the cases since the certificate"


def _broken(report: Report) -> str:
    found = report.compared
    if found is None or not found.broken:
        return ""
    said = []
    for promise in found.contradicted:
        value = found.operating_point.value(promise.metric.name)
        asked = f"at {'least' if promise.relation == '>=' else 'most'} {plain(promise.level)}"
        now = f"{called(promise.metric.name)} is {shown(value, promise)}"
        if promise.shortfall(*found.operating_point.counts) > TOLERANCE:
            said.append(f"{now} and was promised to be {asked}")
        else:  # once broken is broken
            said.append(f"{now}, but an earlier look contradicted {asked}")
    return f"The promise is broken {where(found)}: {'; '.join(said)}."


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
    elif P < FEW or tp == P or report.rows.chose:  # nothing to expect again
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


def _missed(point: OperatingPoint) -> list[Constraint]:
    constraints = point.goal.constraints
    return [c for c in constraints if c.shortfall(*point.counts) > TOLERANCE]


def missed_levels(point: OperatingPoint, but: tuple[Constraint, ...] = ()) -> list[str]:
    """Say which of the goal's levels are not kept at a point, but for some."""
    said = []
    for constraint in _missed(point):
        if constraint not in but:
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
    found = report.compared
    missed = missed_levels(point, () if found is None else found.contradicted)
    if missed:
        return f"The goal is not met on these rows: {'; '.join(missed)}."
    if point.empty:
        return "The goal is met only in that there are no alarms."
    return "" if report.certificate else "The goal is met on these rows."


def _promise(report: Report) -> str:
    held = report.certificate
    if held is None:
        return "Nothing is certified, so new data may differ."
    if report.broken:
        percent = f"{100 * held.confidence:g} %"
        return (
            f"The promise was certified at {percent} confidence. Certify anew on recent data "
            "before relying on this threshold."
        )
    if held.certified and _missed(report.point):
        return f"{promised(held)} {_all_the_same(report)}"
    return promised(held)


def _all_the_same(report: Report) -> str:
    """Say why a promise stands although the goal is missed on the rows."""
    found = report.compared
    if found is None:
        return not_compared(report) or "It rests on the certifying rows alone."
    missed = [c for c in _missed(report.point) if c in found.promises]
    if not missed:  # the promise is another than the goal
        return "The rows do not contradict it."
    said = []
    for promise in missed:
        _, trials = found.draws(promise)
        one, many = {
            "precision": ("alarm", "alarms"),
            "recall": (report.one, report.many),
            "fnr": (report.one, report.many),
            "fpr": ("other case", "other cases"),
            "specificity": ("other case", "other cases"),
        }.get(promise.metric.name, ("row", "rows"))
        said.append(f"1 {one} is" if trials == 1 else f"{trials:,} {many} are")
    return f"It stands all the same: {' and '.join(said)} too few to contradict it."


def not_compared(report: Report) -> str:
    """Say why later rows say nothing about the promise, where they do not."""
    held = report.certificate
    if held is None or not held.certified or not report.later or report.compared is not None:
        return ""
    why = "such a promise cannot be watched"
    if held.one_per_group:
        why = "it is about one case of each group"
    return f"These rows were not compared with it, for {why}."


def _caution(report: Report) -> str:
    if not report.rows.chose:
        return ""
    held = report.certificate
    allowed = "; the promise allows for that" if held is not None and held.certified else ""
    return (
        "The threshold was chosen on these rows, so these counts look better than those of new "
        f"rows will{allowed}."
    )


def promised(certificate: Certificate) -> str:
    """Return the certificate's message without what was observed, which stands elsewhere."""
    text = certificate.message
    observed = text.rfind(f" On {certificate.operating_point.on} ")
    return text if observed < 0 else text[:observed]


def _basis(report: Report) -> str:
    tp, fp, P, N = report.point.counts
    among = f"{P:,.0f} {report.many if P > 1 else report.one} among them"
    rests = f"This rests on {P + N:,.0f} rows of {report.rows.on}, {among}."
    if report.rows.chose:  # the intervals are for rows that nothing was chosen on
        return rests
    caught = f"{between(tp, P)} {report.many} are caught"
    real = "" if tp + fp == 0 else f", and {between(tp, tp + fp)} alarms are real"
    unless = "" if report.later else "; less, if model or threshold were chosen on these rows"
    sure = f"({100 * CONFIDENCE:g} % confidence each{unless})"
    return f"{rests} In the long run {caught}{real} {sure}."


def _is(said: Share) -> str:
    return f"{said.text} {'are' if said.plural else 'is'}"


def _was(said: Share) -> str:
    return f"{said.text} {'were' if said.plural else 'was'}"


def _raise(said: Share) -> str:
    return "raise" if said.plural else "raises"
