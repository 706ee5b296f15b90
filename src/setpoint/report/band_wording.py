"""Review bands in plain English: metrics, goals and results."""

from __future__ import annotations

from typing import Any, NamedTuple

from setpoint.goals.band_metrics import BandMetric
from setpoint.goals.bands import BandConstraint, BandGoal
from setpoint.goals.metrics import format_number
from setpoint.report.band_content import BandReport
from setpoint.report.content import Terms
from setpoint.report.fractions import CONFIDENCE, FEW, between, fraction
from setpoint.report.money import money
from setpoint.report.wording import _out_of, _price
from setpoint.thresholds.bands import BandPoint, format_value

# --- metrics and goals ---------------------------------------------------------------------------


class _Words(NamedTuple):
    """A metric's name for a table, the wish to optimise it, a level that it reaches, and sense."""

    label: str
    wish: str
    level: str
    meaning: str


_WORDS = {
    "precision(alarm)": _Words(
        "precision of alarms",
        "make the fraction of alarms that are real as high as possible",
        "at least {level} alarms are real",
        "the fraction of alarms that are real; 1 if there are none",
    ),
    "recall(alarm)": _Words(
        "recall of alarms",
        "raise an alarm for as many {many} as possible",
        "at least {level} {many} raise an alarm",
        "the fraction of all {many} that raise an alarm",
    ),
    "fpr(alarm)": _Words(
        "fpr of alarms",
        "raise as few false alarms as possible",
        "at most {level} other cases raise a false alarm",
        "false positive rate: the fraction of all other cases that raise a false alarm",
    ),
    "alarm_rate": _Words(
        "alarm rate",
        "raise as few alarms as possible",
        "at most {level} cases raise an alarm",
        "the fraction of all cases that raise an alarm",
    ),
    "npv(clear)": _Words(
        "npv of cleared cases",
        "make the fraction of cleared cases that are no {many} as high as possible",
        "at least {level} cleared cases are no {many}",
        "negative predictive value: the fraction of cleared cases that are no {many}; 1 if none is "
        "cleared",
    ),
    "fnr(clear)": _Words(
        "fnr of cleared cases",
        "clear as few {many} as possible",
        "at most {level} {many} are cleared",
        "false negative rate: the fraction of all {many} that are cleared, and so missed",
    ),
    "clear_rate": _Words(
        "clear rate",
        "clear as many cases as possible",
        "at least {level} cases are cleared",
        "the fraction of all cases that are cleared",
    ),
    "review_rate": _Words(
        "review rate",
        "send as few cases to review as possible",
        "at most {level} cases go to review",
        "the fraction of all cases that a person must look at",
    ),
    "cost": _Words(
        "cost per case",
        "make the cost of decisions as low as possible",
        "",
        "the mean cost of the decision on a case. {prices}",
    ),
}


def label_of(which: BandMetric) -> str:
    """Return a metric's name for a table of the report."""
    return _WORDS[which.name].label


def meaning_of(which: BandMetric, terms: Terms) -> str:
    """Explain a metric."""
    prices = "" if which.costs is None else _prices(which, terms).removesuffix(".")
    return _WORDS[which.name].meaning.format(many=terms.many, prices=prices)


def value_of(
    which: BandMetric, value: float, currency: str, level: BandConstraint | None = None
) -> str:
    """Write a metric's value, with the currency if it is a cost."""
    if which.costs is not None:
        return money(value, currency, 2 if abs(value) >= 0.1 else 4)
    return format_value(value, level)


def required(constraint: BandConstraint) -> str:
    """Write the level of a constraint, e.g. "≥ 0.9"."""
    sign = "≥" if constraint.metric.relation == ">=" else "≤"
    return f"{sign}\N{NO-BREAK SPACE}{format_number(constraint.level)}"


def band_goal_in_words(goal: BandGoal, terms: Terms) -> str:
    """Describe a goal without a formula."""
    text = _WORDS[goal.objective.name].wish.format(many=terms.many)
    text = text[0].upper() + text[1:]
    levels = [
        _WORDS[c.metric.name].level.format(level=_out_of(c.level), many=terms.many)
        for c in goal.constraints
    ]
    if levels:
        text = f"{text}, provided that {_listed(levels)}"
    prices = "" if goal.objective.costs is None else f" {_prices(goal.objective, terms)}"
    return f"{text}.{prices}"


def _prices(which: BandMetric, terms: Terms) -> str:
    names = ("a false alarm", f"a cleared {terms.one}", "a review")
    found = [
        f"{name} costs {_price(price.factor, price.amount, terms)}"
        for name, price in zip(names, which.costs or (), strict=True)
        if price.factor != 0
    ]
    text = _listed(found) or "nothing costs anything"
    return f"{text[0].upper()}{text[1:]}."


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


# --- results -------------------------------------------------------------------------------------


class Cases(NamedTuple):
    """Numbers of cases: alarms, reviews and cleared ones."""

    alarms: float
    reviews: float
    cleared: float

    @classmethod
    def of(cls, point: BandPoint) -> Cases:
        """Return the numbers of a point."""
        return cls(
            point.alarm_positives + point.alarm_negatives,
            point.review_positives + point.review_negatives,
            point.clear_positives + point.clear_negatives,
        )


def out_of_round(cases: Cases) -> tuple[int, Cases]:
    """Return a round number of cases, and how many of them are in each band; they add up.

    It is 1,000, or as many more as no band needs to be rounded to nothing; of fewer cases, all.

    Examples
    --------
    >>> out_of_round(Cases(25, 96, 2279))
    (1000, Cases(alarms=10, reviews=40, cleared=950))
    >>> out_of_round(Cases(1, 0, 9999))
    (10000, Cases(alarms=1, reviews=0, cleared=9999))
    """
    total = int(sum(cases))
    if total < 1000:
        return total, Cases(*map(int, cases))
    base = 1000
    while base < 1_000_000 and any(0 < base * count / total < 0.5 for count in cases):
        base *= 10
    parts = [base * count / total for count in cases]
    whole = [int(part) for part in parts]
    by_rest = sorted(range(3), key=lambda i: whole[i] - parts[i])
    for i in by_rest[: base - sum(whole)]:
        whole[i] += 1
    return base, Cases(*whole)


def band_headline(report: BandReport) -> str:
    """Return what happens to 1,000 cases, in a sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint.report import Rows
    >>> from setpoint.report.band_content import BandReport
    >>> counts = [180, 20, 300, 700, 20, 18780]
    >>> y = np.repeat([True, False, True, False, True, False], counts)
    >>> scores = np.repeat([0.9, 0.9, 0.5, 0.5, 0.1, 0.1], counts)
    >>> names = {"positive": "fraud", "positives": "frauds"}
    >>> goal = "min review_rate s.t. precision(alarm) >= 0.9"
    >>> print(band_headline(BandReport(goal, Rows(y, scores), 0.3, 0.7, **names)))
    Of 1,000 cases, 10 raise an alarm (9 of 10 are real), 50 go to review, and 940 are cleared; \
1 of 1,000 cleared cases is a fraud.
    """
    point, terms = report.point, report.terms
    cases = Cases.of(point)
    base, parts = out_of_round(cases)
    past = sum(cases) < 1000  # too few to say what happens
    opening = f"Of {'the ' if past else ''}{base:,} cases"
    alarms = _counted(parts.alarms, "raises an alarm", "raise an alarm")
    if cases.alarms:
        real, few = int(point.alarm_positives), cases.alarms < FEW
        found = fraction(real, cases.alarms, "one" if real else "", "")
        text = " ".join(found.followed_by("are" if not few else "were").split())
        alarms += f" ({text} real{f' on {report.rows.on}' if few and not past else ''})"
    reviews = _counted(parts.reviews, "goes to review", "go to review")
    cleared = _counted(parts.cleared, "is cleared", "are cleared")
    text = f"{opening}, {alarms}, {reviews}, and {cleared}"
    if cases.cleared:
        among = fraction(point.clear_positives, cases.cleared, "cleared case", "cleared cases")
        what = terms.many if among.is_plural else f"{_article(terms.one)} {terms.one}"
        text += f"; {among.followed_by('are')} {what}"
    if report.goal.objective.costs is not None:
        cost = value_of(report.goal.objective, point.objective, report.currency)
        text += f". The decision on a case costs {cost} on average"
    return f"{text}."


def _counted(number: float, one: str, many: str) -> str:
    return f"none {one}" if number == 0 else f"{number:,.0f} {one if number == 1 else many}"


def _article(word: str) -> str:
    return "an" if word.lstrip("“").lower().startswith(tuple("aeio")) else "a"


def band_missed(report: BandReport) -> list[str]:
    """Describe the levels that are missed, one by one."""
    found = []
    for c in report.point.missed:
        value = value_of(c.metric, report.point.value(c.metric.name), report.currency, c)
        least = "least" if c.metric.relation == ">=" else "most"
        level = format_number(c.level)
        found.append(f"{label_of(c.metric)} is {value} and should be at {least} {level}")
    return found


def trivially(point: BandPoint) -> str:
    """Say why a goal is met only by convention; empty if it is not."""
    none = {"alarm": "there are no alarms", "clear": "nothing is cleared"}
    counts = point.counts
    sides = [c.metric.side for c in point.goal.constraints if c.metric.is_by_convention(counts)]
    return " and ".join(dict.fromkeys(none[side] for side in sides))


def band_goal_sentence(report: BandReport) -> str:
    """Say whether the goal is met; empty if a certificate or nothing says more."""
    if not report.goal.constraints:
        return ""
    if missed := band_missed(report):
        return f"The goal is not met on these rows: {'; '.join(missed)}."
    if why := trivially(report.point):
        return f"The goal is met only because {why}."
    return "" if report.certificate else "The goal is met on these rows."


def band_certificate_sentence(report: BandReport) -> str:
    """Say what is certified, or why nothing is."""
    certificate = report.certificate
    if certificate is None:
        return "Nothing is certified: results on new data may differ."
    if report.broken:
        return (
            f"The certificate was issued at {100 * certificate.confidence:g} % confidence. Certify "
            "again on recent data before relying on this band."
        )
    message = certificate.message
    observed = message.rfind(f" On {certificate.operating_point.on} ")
    if observed >= 0:  # the page shows the observed value anyway
        message = message[:observed]
    if certificate.certified and report.point.missed:
        why = "The certificate still stands: these rows are too few to contradict it."
        if report.checked is None:
            why = not_compared(report) or "It is based on the certification rows only."
        message = f"{message} {why}"
    return message


def not_compared(report: BandReport) -> str:
    """Explain why unseen rows were not compared with the certificate; empty if they were."""
    certificate = report.certificate
    if certificate is None or not certificate.certified or report.checked is not None:
        return ""
    if not (report.rows.unseen and certificate.one_per_group):
        return ""
    return "These rows were not compared with the certificate: it is about one case of each group."


def band_broken(report: BandReport) -> str:
    """Say which guarantees the rows contradict; empty if none."""
    if report.checked is None or not report.checked.broken:
        return ""
    held = " and ".join(f"{label_of(c.metric)} {required(c)}" for c in report.checked.contradicted)
    return f"Cases since certification contradict the certificate of {held}."


def band_caution(report: BandReport) -> str:
    """Warn if the band was chosen on these rows."""
    if not report.rows.chose:
        return ""
    certified = report.certificate is not None and report.certificate.certified
    allowed = "; the certificate allows for this" if certified else ""
    return (
        "The band was chosen on these rows, so results on new rows are likely to be worse"
        f"{allowed}."
    )


def band_basis(report: BandReport) -> str:
    """Return the rows that the numbers are about, and how well they determine them."""
    point, counts = report.point, report.point.counts
    P, n = float(counts.P), float(counts.P + counts.N)
    positives = f"{P:,.0f} {report.plural if P > 1 else report.singular}"
    basis = f"Based on {report.rows.on}: {n:,.0f} rows, including {positives}."
    cases = Cases.of(point)
    parts: list[str] = []
    if cases.alarms:
        parts.append(f"{between(point.alarm_positives, cases.alarms)} alarms are real")
    if cases.cleared:
        clean = between(point.clear_negatives, cases.cleared)
        parts.append(f"{clean} cleared cases are no {report.plural}")
    if report.rows.chose or not parts:
        return basis
    sure = f"({100 * CONFIDENCE:g} % confidence each)"
    return f"{basis} In the long run, {' and '.join(parts)} {sure}."


def band_summary(report: BandReport, *, with_certificate: bool = True) -> str:
    """Return the main results in plain sentences, with or without those on the certificate."""
    sentences = [
        band_broken(report), band_headline(report), band_goal_sentence(report),
        band_certificate_sentence(report) if with_certificate else "", band_caution(report),
        band_basis(report),
    ]  # fmt: skip
    return " ".join(filter(None, sentences))


def glossary(metrics: list[BandMetric], terms: Terms) -> dict[str, Any]:
    """Return the names and meanings of metrics."""
    return {label_of(which): meaning_of(which, terms) for which in metrics}
