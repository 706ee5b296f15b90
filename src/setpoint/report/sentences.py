"""The report's sentences: results, certificate, goal and metrics in plain English."""

from __future__ import annotations

import math
from typing import NamedTuple

from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.certificates.rates import lower_bound, upper_bound
from setpoint.goals.goal import TOLERANCE, Constraint, Goal, format_metric, format_requirement
from setpoint.goals.metrics import Metric, display_name, format_number
from setpoint.report.content import Report
from setpoint.thresholds.operating_point import OperatingPoint

FEW = 100  # with fewer, "82 of 100" would claim more digits than were observed
CONFIDENCE = 0.95  # of the intervals

# --- the headline --------------------------------------------------------------------------------


class Headline(NamedTuple):
    """The sentences of the headline; each may be empty."""

    broken: str
    expected: str
    goal: str
    certificate: str
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
    return Headline(
        _broken(report), _expected(report), _goal(report), _certificate(report), _caution(report),
        _basis(report),
    )  # fmt: skip


def _broken(report: Report) -> str:
    verdict = report.checked
    if verdict is None or not verdict.broken:
        return ""
    found = []
    for constraint in verdict.contradicted:
        now = _value(verdict.operating_point, constraint.metric.name, constraint)
        if constraint.shortfall(*verdict.operating_point.counts) > TOLERANCE:
            found.append(f"{now}, but {_level(constraint)} was certified")
        else:  # a contradicted certificate stays contradicted
            found.append(f"{now} now, but an earlier check contradicted {_level(constraint)}")
    rows = "These rows" if verdict.checks == 1 else "The cases since certification"
    return f"{rows} contradict the certificate: {'; '.join(found)}."


def _value(point: OperatingPoint, name: str, constraint: Constraint | None = None) -> str:
    """Write the value of a metric, e.g. "precision is 0.812"."""
    return f"{display_name(name)} is {format_metric(point.value(name), constraint)}"


def _level(constraint: Constraint) -> str:
    """Write a constraint's level, e.g. "at least 0.8"."""
    side = "least" if constraint.relation == ">=" else "most"
    return f"at {side} {format_number(constraint.level)}"


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
    """Describe the goal's other metrics."""
    tp, fp, P, N = report.point.counts
    found = []
    for which in report.goal.metrics:
        if which.name in ("precision", "recall", "fnr"):
            continue
        if which.name in ("fpr", "specificity"):
            wrong = fraction(fp, N, "other case", "other cases")
            found.append(f"{wrong.followed_by('raise')} a false alarm")
        elif which.name == "alarm_rate":
            raised = fraction(tp + fp, P + N, "case", "cases")
            found.append(f"{raised.followed_by('raise')} an alarm")
        else:
            found.append(_value(report.point, which.name))
    return list(dict.fromkeys(found))  # fpr and specificity give the same sentence


def _missed(point: OperatingPoint) -> list[Constraint]:
    return point.missed


def missed_levels(point: OperatingPoint, omit: tuple[Constraint, ...] = ()) -> list[str]:
    """Describe the goal's levels that are missed at a point, except some."""
    missed = [c for c in _missed(point) if c not in omit]
    return [f"{_value(point, c.metric.name, c)} and should be {_level(c)}" for c in missed]


def _goal(report: Report) -> str:
    if not report.goal.constraints:
        return ""
    verdict = report.checked
    missed = missed_levels(report.point, () if verdict is None else verdict.contradicted)
    if missed:
        return f"The goal is not met on these rows: {'; '.join(missed)}."
    if report.point.empty:
        return "The goal is met only because there are no alarms."
    return "" if report.certificate else "The goal is met on these rows."


def _certificate(report: Report) -> str:
    certificate = report.certificate
    if certificate is None:
        return "Nothing is certified: results on new data may differ."
    if report.broken:
        return (
            f"The certificate was issued at {100 * certificate.confidence:g} % confidence. Certify "
            "again on recent data before relying on this threshold."
        )
    message = certificate.message
    observed = message.rfind(f" On {certificate.operating_point.on} ")
    if observed >= 0:  # the page shows the observed value anyway
        message = message[:observed]
    if certificate.certified and _missed(report.point):
        return f"{message} {_despite_missed_goal(report)}"
    return message


def _despite_missed_goal(report: Report) -> str:
    """Explain why the certificate stands although the goal is missed on the rows."""
    verdict = report.checked
    if verdict is None:
        return not_compared(report) or "It is based on the certification rows only."
    missed = [c for c in _missed(report.point) if c in verdict.guarantees]
    if not missed:  # the certificate is not about the missed level
        return "These rows do not contradict it."
    found = []
    for constraint in missed:
        _, trials = verdict.draws(constraint)
        one, many = {
            "alarms": ("alarm", "alarms"),
            "positives": (report.singular, report.plural),
            "negatives": ("other case", "other cases"),
        }.get(str(constraint.metric.population), ("row", "rows"))
        found.append(f"1 {one} is" if trials == 1 else f"{trials:,} {many} are")
    return f"The certificate still stands: {' and '.join(found)} too few to contradict it."


def _caution(report: Report) -> str:
    if not report.rows.chose:
        return ""
    certified = report.certificate is not None and report.certificate.certified
    allowed = "; the certificate allows for this" if certified else ""
    return (
        "The threshold was chosen on these rows, so results on new rows are likely to be worse"
        f"{allowed}."
    )


def _basis(report: Report) -> str:
    tp, fp, P, N = report.point.counts
    positives = f"{P:,.0f} {report.plural if P > 1 else report.singular}"
    basis = f"Based on {report.rows.on}: {P + N:,.0f} rows, including {positives}."
    if report.rows.chose:  # the intervals hold for rows on which nothing was chosen
        return basis
    caught = f"{between(tp, P)} {report.plural} are caught"
    real = "" if tp + fp == 0 else f", and {between(tp, tp + fp)} alarms are real"
    unless = "; less if the model or threshold was chosen on these rows" if not report.later else ""
    sure = f"({100 * CONFIDENCE:g} % confidence each{unless})"
    return f"{basis} In the long run, {caught}{real} {sure}."


# --- the certificate -----------------------------------------------------------------------------


def threshold_choice(certificate: Certificate) -> str:
    """Describe how the certificate's threshold was chosen, as the end of a sentence."""
    if certificate.choice == "beforehand":
        return "was fixed before the certification rows were used"
    if not certificate.certified:
        return "came closest to passing; none passed"
    if certificate.choice == "any":
        return "is the best of all thresholds that pass"
    if certificate.tested == 1:
        return "was chosen on other rows"
    return f"is the best that passed of {certificate.tested} planned on other rows"


CERTIFIED = "✓ Certified: the guarantee holds at this threshold."
NOT_CERTIFIED = "✗ Not certified: nothing is guaranteed at this threshold."


def certified_range(report: Report) -> str:
    """Describe which thresholds of the slider are certified; empty if none is."""
    certificate = report.certificate
    if certificate is None or report.broken or not certificate.certified_thresholds:
        return ""
    thresholds = certificate.certified_thresholds
    if thresholds.is_one_threshold:
        return "Only the chosen threshold is certified."
    if not thresholds.has_ranges:
        others = len(thresholds) - 1
        return f"The chosen threshold and {others} others that were planned are certified."
    held = " and ".join(f"{c.metric} {format_requirement(c)}" for c in certificate.guarantees)
    return (
        "Green marks the certified thresholds. You may use any of them, even after looking at "
        f"this page: {held} is guaranteed for all of them together, with "
        f"{100 * certificate.confidence:g} % confidence."
    )


def comparison_with_rows(report: Report) -> str:
    """Describe how later rows compare with the certificate; empty if they are not later."""
    certificate = report.certificate
    if certificate is None or report.checked is None:
        return not_compared(report)
    sentences = []
    if not report.broken:
        sentences.append(f"The rows of this report ({report.rows.on}) do not contradict it.")
    if certificate.one_per_group:
        sentences.append("One row of each group was used.")
    return " ".join(sentences)


def other_prevalence(report: Report) -> str:
    """Warn if the prevalence of later rows differs from the certificate's; empty if not."""
    certificate = report.certificate
    if certificate is None or not report.later:
        return ""
    n, positives = len(report.rows), float(report.point.counts[2])
    here = positives / n
    there = certificate.operating_point.counts
    size = float(sum(there[2:]))
    assumed = float(there[2]) / size
    error = math.sqrt(assumed * (1 - assumed) / size + here * (1 - here) / n)
    if isinstance(certificate, ShiftedCertificate):
        assumed, error = certificate.prevalence, math.sqrt(here * (1 - here) / n)
    depends = any(m.depends_on_prevalence for m in report.goal.metrics)
    if not depends or abs(here - assumed) <= 3 * error:
        return ""
    return (
        f"The fraction of positives differs: {100 * here:.3g} % on {report.rows.on}, while the "
        f"certificate assumes {100 * assumed:.3g} %. Precision depends on it; "
        f"certificate.at_prevalence({here:.3g}) gives the certificate for this fraction."
    )


def not_compared(report: Report) -> str:
    """Explain why later rows were not compared with the certificate; empty if they were."""
    certificate = report.certificate
    if certificate is None or not certificate.certified or not report.later or report.checked:
        return ""
    by_group = certificate.one_per_group
    why = "it is about one case of each group" if by_group else "its metric cannot be monitored"
    return f"These rows were not compared with the certificate: {why}."


# --- counts in words -----------------------------------------------------------------------------


class Phrase(NamedTuple):
    """A fraction in words, and whether a verb after it is in the plural."""

    text: str
    is_plural: bool

    def followed_by(self, verb: str) -> str:
        """Return the text and a verb, which is given in the plural."""
        singular = {"are": "is", "were": "was", "raise": "raises"}[verb]
        return f"{self.text} {verb if self.is_plural else singular}"


def fraction(successes: float, trials: float, one: str, many: str) -> Phrase:
    """Put a fraction into words: "82 of 100 frauds", "3 of the 7 frauds", "all 12 frauds".

    Rounding never turns some into none, or nearly all into all.
    """
    k, n = int(successes), int(trials)
    if n == 1 and k == 1:
        return Phrase(f"the only {one}", False)
    if k == 0:
        return Phrase(f"none of the {n:,} {many}" if n > 1 else f"not one {one}", False)
    if k == n:
        return Phrase(f"all {n:,} {many}", True)
    if n < FEW:
        return Phrase(f"{k} of the {n} {many}", k != 1)
    count, base = _rounded(k / n)
    if count == 0:
        return Phrase(f"fewer than 1 of {base:,} {many}", False)
    if count == base:
        return Phrase(f"more than {base - 1:,} of {base:,} {many}", True)
    return Phrase(f"{count:,} of {base:,} {many}", count != 1)


def _rounded(value: float) -> tuple[int, int]:
    """Return a fraction as a count of 10, 100 or 1,000, the smallest that is accurate enough."""
    for base, slack in ((10, 0.05), (100, 0.5)):
        count = round(value * base)
        if 0 < count < base and abs(value * base - count) <= slack + 1e-9:
            return count, base
    return round(value * 1000), 1000


def interval(successes: float, trials: float) -> tuple[float, float]:
    """Return the exact two-sided confidence interval of a proportion (Clopper and Pearson)."""
    if trials == 0:
        return 0.0, 1.0
    each = 1 - (1 - CONFIDENCE) / 2
    return lower_bound(successes, trials, each), upper_bound(successes, trials, each)


def between(successes: float, trials: float) -> str:
    """Put the interval into words, rounded outwards: "between 75 and 88 of 100"."""
    low, high = interval(successes, trials)
    base = 100 if high >= 0.02 and low <= 0.98 else 1000
    least, most = math.floor(low * base + 1e-9), math.ceil(high * base - 1e-9)
    return f"between {least:,} and {most:,} of {base:,}"


# --- goals and metrics in words ------------------------------------------------------------------

_OBJECTIVES = {
    "recall": "catch as many {many} as possible",
    "precision": "make the fraction of alarms that are real as high as possible",
    "fpr": "raise as few false alarms as possible",
    "specificity": "raise as few false alarms as possible",
    "fnr": "miss as few {many} as possible",
    "alarm_rate": "raise as few alarms as possible",
    "f1": "find the best balance of precision and recall (F1)",
    "accuracy": "decide as many cases as possible correctly",
}
_CONSTRAINTS = {
    "recall": "at least {level} {many} are caught",
    "precision": "at least {level} alarms are real",
    "fpr": "at most {level} other cases raise a false alarm",
    "specificity": "at least {level} other cases raise no alarm",
    "fnr": "at most {level} {many} are missed",
    "alarm_rate": "at most {level} cases raise an alarm",
}
_MEANINGS = {
    "precision": "the fraction of alarms that are real; 1 if there are no alarms",
    "recall": "the fraction of all {many} that raise an alarm, that is, are caught",
    "f1": "the harmonic mean of precision and recall; 1 is perfect",
    "fpr": "false positive rate: the fraction of all other cases that raise a false alarm",
    "fnr": "false negative rate: the fraction of all {many} that are missed",
    "specificity": "the fraction of all other cases that raise no alarm",
    "npv": "negative predictive value: the fraction of cases without an alarm that are negative",
    "accuracy": "the fraction of all cases decided correctly; uninformative if a class is rare",
    "balanced_accuracy": "the mean of recall and specificity; guessing gives 0.5",
    "gmean": "the geometric mean of recall and specificity; 1 is perfect",
    "jaccard": "real alarms, divided by all {many} and false alarms together",
    "mcc": "Matthews correlation between alarms and truth, from −1 to 1; guessing gives 0",
    "alarm_rate": "the fraction of all cases that raise an alarm, that is, the workload",
}


def goal_in_words(goal: Goal, many: str) -> str:
    """Describe a goal without a formula."""
    wish = _OBJECTIVES.get(goal.objective.name)
    if wish is None:
        best = "high" if goal.objective.direction == "max" else "low"
        wish = f"make {display_name(goal.objective.name)} as {best} as possible"
    wish = wish.format(many=many)
    text = wish[0].upper() + wish[1:]
    if not goal.constraints:
        return f"{text}."
    return f"{text}, provided that {' and '.join(_condition(c, many) for c in goal.constraints)}."


def _condition(constraint: Constraint, many: str) -> str:
    sentence = _CONSTRAINTS.get(constraint.metric.name)
    if sentence is None:
        return f"{display_name(constraint.metric.name)} is {_level(constraint)}"
    base = 100
    while base < 1_000_000 and abs(constraint.level * base - round(constraint.level * base)) > 1e-9:
        base *= 10
    return sentence.format(level=f"{round(constraint.level * base):,} of {base:,}", many=many)


def meaning(which: Metric, many: str) -> str:
    """Explain a metric."""
    if which.name.startswith("fbeta("):
        beta = which.name[6:-1]
        return f"like F1, with recall {beta} times as important as precision; 1 is perfect"
    return _MEANINGS.get(which.name, "a custom metric").format(many=many)
