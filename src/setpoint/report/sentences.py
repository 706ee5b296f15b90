"""The report's sentences: results in plain English, and whether they are certified.

Those on the goal, the certificate and the rows serve a review band as well; its results are put
into words by :mod:`setpoint.report.bands`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from setpoint.certificates.joint_monitor import JointVerdict
from setpoint.certificates.mean_monitor import MeanVerdict
from setpoint.certificates.monitor import Verdict, format_p_value
from setpoint.goals.budgets import format_percent, is_count, per_of
from setpoint.goals.goal import Constraint, format_metric
from setpoint.goals.metrics import Metric, display_name, format_number
from setpoint.goals.money import is_money
from setpoint.goals.tallies import Tally
from setpoint.report.breakdown import BySegment, Measured, by_period, plain_name
from setpoint.report.certificate_sentences import not_compared
from setpoint.report.content import Described, Report
from setpoint.report.fractions import CONFIDENCE, FEW, between, fraction
from setpoint.report.money import PER, OutcomeBill
from setpoint.report.wording import (
    alarms_in_words,
    at_level,
    counted,
    in_percent,
    in_words,
    is_and_should_be,
    metric_label,
    scope_of,
    shortened,
    value_in_words,
    value_text,
)

# --- the headline --------------------------------------------------------------------------------


class Headline(NamedTuple):
    """The sentences of the headline; each may be empty.

    ``alert`` comes before what is expected: the certificate is contradicted, or no threshold meets
    the goal.
    """

    alert: str
    expected: str
    goal: str
    certificate: str
    stands: str
    caution: str
    basis: str


def headline(report: Report) -> str:
    """Return the main results in plain sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint.report import Report, Rows, headline
    >>> y = np.arange(1000) < 200
    >>> scores = np.where(np.arange(1000) < 182, 0.8, 0.1)  # 18 positives are missed
    >>> scores[990:] = 0.9  # and 10 alarms are false
    >>> report = Report("max recall", Rows(y, scores), 0.5, positive="fraud", positives="frauds")
    >>> headline(report).split(". ")[0]
    'At this threshold, expect to catch 91 of 100 frauds; 95 of 100 alarms are real'
    """
    return " ".join(filter(None, headline_parts(report)))


def headline_parts(report: Report) -> Headline:
    """Return the sentences of the headline one by one."""
    verdict = report.checked
    missed = missed_levels(report, () if verdict is None else verdict.contradicted)
    return Headline(
        _broken(report) or _infeasible(report), _expected(report),
        goal_sentence(report, missed, trivially(report)),
        certificate_sentence(report), still_certified(report, _too_few), caution(report),
        basis(report, _long_run(report)),
    )  # fmt: skip


def _broken(report: Report) -> str:
    verdict = report.checked
    if verdict is None or not verdict.broken:
        return ""
    found = []
    for constraint in verdict.contradicted:
        now = _observed(verdict, constraint, report.currency)
        level = at_level(constraint, report.currency)
        if (per := per_of(constraint.metric)) is not None:
            each, _ = verdict.part_of(constraint)
            level = f"at most {format_percent(each.plain.level)} of {per.period}s"
        if verdict.is_missed(constraint):
            found.append(f"{now}, but {level} was certified")
        else:  # a contradicted certificate stays contradicted
            found.append(f"{now} now, but an earlier check contradicted {level}")
    rows = "These rows" if verdict.checks == 1 else "The cases since certification"
    return f"{rows} contradict the certificate: {'; '.join(found)}."


def _infeasible(report: Report) -> str:
    if report.closest is None:
        return ""
    return "No threshold meets this goal; the closest one was taken."


def _observed(verdict: Verdict | JointVerdict, constraint: Constraint, currency: str) -> str:
    """Write what was observed of a guaranteed metric, e.g. "precision is 0.812"."""
    which = constraint.metric
    if isinstance(verdict, Verdict):
        value = verdict.operating_point.value(which.name)
        return f"{display_name(which.name)} is {format_metric(value, constraint)}"
    each, part = verdict.part_of(constraint)
    if isinstance(part, MeanVerdict):
        return f"{metric_label(which)} is {value_text(which, part.value, currency, constraint)}"
    if (per := per_of(which)) is not None:
        over, periods = part.draws(each.plain)
        more = f"more than {format_number(constraint.level)} alarms"
        return f"{over:,} of {periods:,} {per.period}s have {more}"
    value = part.operating_point.value(each.plain.metric.name)
    return f"{metric_label(which)} is {format_metric(value, constraint)}"


def _expected(report: Report) -> str:
    tp, fp, P, _ = report.point.counts
    alarms = tp + fp
    missed = f"none of the {P:,.0f} {report.plural} is caught"
    if P == 1:
        missed = f"the only {report.singular} is missed"
    if alarms == 0:
        return f"At this threshold, there are no alarms: {missed}."
    caught = fraction(tp, P, report.singular, report.plural)
    real = fraction(tp, alarms, "alarm", "alarms")
    if tp == 0:
        false = "the only alarm is false" if alarms == 1 else f"all {alarms:,.0f} alarms are false"
        text = f"{missed}, and {false}"
    elif P < FEW or tp == P or report.rows.chose:  # too little to expect the same again
        text = f"{caught.followed_by('were')} caught; {real.followed_by('were')} real"
    else:
        verb = "were" if fp == 0 else "are"
        text = f"expect to catch {caught.text}; {real.followed_by(verb)} real"
    return "; ".join([f"At this threshold, {text}", *_other_metrics(report)]) + "."


def _other_metrics(report: Report) -> list[str]:
    """Describe the goal's other metrics; of many segments, only the worst."""
    point = report.point
    constraints = [None, *_of_all_rows(report)]
    found = []
    for constraint in constraints:
        which = point.goal.objective if constraint is None else constraint.metric
        if which.name in ("precision", "recall", "fnr"):
            continue
        allowed = ""
        if constraint is not None and is_count(which):
            allowed = f", and {at_level(constraint, '').removeprefix('at most ')} are allowed"
        found.append(describe_metric(report, which) + allowed)
    for constraint in report.goal.constraints:
        if constraint.each and (worst := _worst_segment(report, constraint)):
            name, there = worst
            value = _described(report, there.constraint.metric, scope=False)
            segment = in_words(shortened(name))
            found.append(f"in the worst {in_words(constraint.each)}, {segment}, {value}")
    return list(dict.fromkeys(found))  # fpr and specificity give the same sentence


def describe_metric(report: Report, which: Metric) -> str:
    """Describe one of the goal's metrics, e.g. "a case costs €1.19 on average"."""
    text = _described(report, which)
    if is_money(which):
        bill = OutcomeBill(which, report)
        text += f", {bill.write(abs(bill.total), report.currency)} per {PER:,} cases"
    return text


def _described(report: Report, which: Metric, *, scope: bool = True) -> str:
    point = report.point
    counts = point.goal.counts_of(which, *point.goal_counts)
    return value_in_words(which, point.value(which.name), counts, report.terms, scope=scope)


def _of_all_rows(report: Report) -> list[Constraint]:
    """Return the constraints, bound to the rows, that are not one of many "for each" segment."""
    return [
        c
        for c in report.point.goal.constraints
        if c in report.goal.constraints or not c.metric.tallies[0].segment
    ]


def _worst_segment(report: Report, constraint: Constraint) -> tuple[str, Measured] | None:
    """Return the name and the value of the worst segment; None if none is judged."""
    every = BySegment(report, constraint.each).measured(plain_name(constraint.metric))
    return every[0] if every else None


def missed_levels(report: Report, omit: tuple[Constraint, ...] = ()) -> list[str]:
    """Describe the goal's levels that are missed, except some."""
    missed = [c for c in report.point.missed if c not in omit]
    found = [_missed_level(report, c) for c in _of_all_rows(report) if c in missed]
    each = [_missed_in_segments(report, c) for c in report.goal.constraints if c.each]
    return [*found, *filter(None, each)]


def _missed_level(report: Report, constraint: Constraint) -> str:
    """Describe a level that is missed, e.g. "precision is 0.79 and should be at least 0.8"."""
    which, level = constraint.metric, at_level(constraint, report.currency)
    value = report.point.value(which.name)
    if (per := per_of(which)) is not None:
        periods = next(p for p in by_period(report) if p.per == per)
        if per.share is None:
            text = value_text(which, value, report.currency, constraint)
            return f"{alarms_in_words(per, text)}, and {level} are allowed"
        over = f"{int(periods.over.sum()):,} of {counted(len(periods), per.period)}"
        share = in_percent(1 - per.share)
        may = "" if per.share == 1 else f", and at most {share} may"
        return f"{over} had more than {counted(constraint.level, 'alarm')}{may}"
    if is_count(which):
        return f"{_described(report, which)}, and {level} are allowed"
    plain = replace(constraint, metric=which.base.within(Tally(amount=which.tallies[0].amount)))
    return scope_of(which.tallies[0]) + is_and_should_be(plain, value, report.currency)


def _missed_in_segments(report: Report, constraint: Constraint) -> str:
    """Describe in how many segments a level is missed, and the worst of them."""
    every = BySegment(report, constraint.each).measured(plain_name(constraint.metric))
    missed = [found for found in every if not found[1].met]
    if not missed:
        return ""
    name, worst = missed[0]
    label, segment = metric_label(constraint.metric), in_words(shortened(name))
    column, currency = in_words(constraint.each), report.currency
    if len(missed) == len(every) == 1:
        text = is_and_should_be(constraint, worst.value, currency)
        return f"in the only {column}, {segment}, {text}"
    value = value_text(worst.constraint.metric, worst.value, currency, worst.constraint)
    level = at_level(constraint, currency)
    number = f"{len(missed):,} of {len(every):,} segments of {column}"
    where = f"in {segment}" if len(missed) == 1 else f"in the worst, {segment},"
    return (
        f"{label} should be {level} in each {column} and misses that in {number}; "
        f"{where} it is {value}"
    )


def trivially(report: Report) -> str:
    """Explain why a goal is met only by convention; empty if it is not."""
    return "there are no alarms" if report.point.empty else ""


def _too_few(report: Report) -> str:
    """Explain why the rows do not contradict the certificate although the goal is missed."""
    return too_few(report.checked, report.point.missed, report.singular, report.plural)


def too_few(
    verdict: Verdict | JointVerdict,
    missed: Sequence[Any],
    singular: str,
    plural: str,
    *,
    with_p_values: bool = True,
) -> str:
    """Explain why rows that miss some constraints do not contradict a certificate.

    ``singular`` and ``plural`` are what positives are called.
    """
    missed = [c for c in missed if c in verdict.guarantees]
    if not missed:  # the certificate is not about the missed level
        return "These rows do not contradict it."
    found: list[str] = []
    p_values: list[float | None] = []
    for constraint in missed:
        _, trials = verdict.draws(constraint)
        per = per_of(constraint.metric)
        one, many = ("row", "rows") if per is None else (per.period, f"{per.period}s")
        one, many = {
            "alarms": ("alarm", "alarms"),
            "positives": (singular, plural),
            "negatives": ("other case", "other cases"),
        }.get(str(constraint.metric.population), (one, many))
        found.append(f"1 {one} is" if trials == 1 else f"{trials:,} {many} are")
        p_values += verdict.p_values[verdict.guarantees.index(constraint) :][:1]
    text = (
        "The certificate still stands although these rows miss the goal: it is about new cases in "
        f"the long run, and {' and '.join(found)} too few to contradict it"
    )
    known = [p for p in p_values if p is not None]
    # After several checks the counts are those of all, and the p-values those of the last one.
    if not with_p_values or verdict.checks > 1 or not known:
        return f"{text}."
    named = " and ".join(f"p {format_p_value(p)}" for p in known)
    if min(known) <= verdict.level / len(verdict.guarantees):
        return (
            f"{text} in a check that may be repeated; as the only planned check they do ({named})."
        )
    return f"{text} ({named} as the only planned check)."


def _long_run(report: Report) -> list[str]:
    """Return what the rows say about very many such cases."""
    tp, fp, P, _ = report.point.counts
    caught = f"{between(tp, P)} {report.plural} are caught"
    return [caught, *([f"{between(tp, tp + fp)} alarms are real"] if tp + fp else [])]


# --- sentences that one threshold and a review band share ----------------------------------------


def goal_sentence(report: Described, missed: Sequence[str], why: str) -> str:
    """Return whether the goal is met, or ``why`` only by convention; empty if nothing is new."""
    if not report.goal.constraints:
        return ""
    if missed:
        return f"The goal is not met on these rows: {'; '.join(missed)}."
    if why:
        return f"The goal is met only because {why}."
    return "" if report.certificate else "The goal is met on these rows."


def certificate_sentence(report: Described) -> str:
    """Return what is certified, or why nothing is."""
    certificate = report.certificate
    if certificate is None:
        return "Nothing is certified: results on new data may differ."
    if report.broken:
        return (
            f"The certificate was issued at {100 * certificate.confidence:g} % confidence. Certify "
            f"again on recent data before relying on this {report.decided_by}."
        )
    message = str(certificate.message)
    observed = message.rfind(f" On {certificate.operating_point.on} ")
    # The page shows the observed value anyway.
    return message[:observed] if observed >= 0 else message


def still_certified(report: Described, too_few: Callable[[Any], str]) -> str:
    """Return why the certificate stands although the goal is missed; empty where it is not so.

    ``too_few`` explains why rows that miss the goal do not contradict the certificate.
    """
    certificate = report.certificate
    missed = certificate is not None and certificate.certified and bool(report.point.missed)
    if not missed or report.broken:
        return ""
    if report.checked is not None:
        return too_few(report)
    return not_compared(report) or "It is based on the certification rows only."


def caution(report: Described) -> str:
    """Warn if the thresholds were chosen on these rows."""
    if not report.rows.chose:
        return ""
    certified = report.certificate is not None and report.certificate.certified
    allowed = "; the certificate allows for this" if certified else ""
    return (
        f"The {report.decided_by} was chosen on these rows, so results on new rows are likely to "
        f"be worse{allowed}."
    )


def basis(report: Described, long_run: Sequence[str]) -> str:
    """Return the rows that the numbers are about, and what they say about the long run."""
    n, P = len(report.rows), int(report.rows.y.sum())
    positives = f"{P:,} {report.plural if P > 1 else report.singular}"
    text = f"Based on {report.rows.on}: {n:,} rows, including {positives}."
    if report.rows.chose or not long_run:  # intervals hold for rows on which nothing was chosen
        return text
    chosen = f"the model or {report.decided_by} was chosen on these rows"
    unless = "" if report.later else f"; less if {chosen}"
    sure = f"({100 * CONFIDENCE:g} % confidence each{unless})"
    return f"{text} In the long run, {', and '.join(long_run)} {sure}."


# --- other choices --------------------------------------------------------------------------------


def margin(report: Report) -> str:
    """Explain why other thresholds may look better; empty if none is left for caution."""
    if not report.caution:
        return ""
    return (
        f"The threshold leaves a margin (caution={report.caution:g}), so that new rows are more "
        "likely to meet the goal's levels. A threshold that looks better here may miss them there."
    )


def better_baselines(report: Report) -> list[str]:
    """Name baselines that meet the goal on the rows and are better there."""
    objective = report.point.goal.objective
    own = report.point.value(objective.name)
    found = []
    for baseline, point in report.baselines:
        value = point.value(objective.name)
        ahead = value > own if objective.direction == "max" else value < own
        if point.feasible and not point.empty and (ahead or not report.point.feasible):
            by = f"{metric_label(objective)} is {value_text(objective, value, report.currency)}"
            than = f"instead of {value_text(objective, own, report.currency)}"
            meets = "meets the goal too" if report.point.feasible else "meets the goal"
            if not report.goal.constraints:
                meets = "is better"
            found.append(f"On {report.rows.on}, {baseline.name} {meets}: {by} {than}.")
    return found
