"""Reports on a review band: their content, and the results in plain English."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.joint_monitor import JointVerdict
from setpoint.explain.explanations import Explanations
from setpoint.goals.bands import BandGoal
from setpoint.report.content import Described, Rows
from setpoint.report.fractions import FEW, between, fraction
from setpoint.report.sentences import (
    Headline,
    basis,
    caution,
    certificate_sentence,
    goal_sentence,
    still_certified,
)
from setpoint.report.wording import (
    is_and_should_be,
    level_text,
    metric_label,
    value_text,
)
from setpoint.thresholds.bands import BandPoint, check_band, evaluate_band

# --- content -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BandBaseline:
    """Another classifier's review band to compare with, on the same rows.

    Attributes
    ----------
    name : str
        E.g. ``"logistic regression, tuned band"``.
    point : BandPoint
        Its counts on the rows of the report.
    """

    name: str
    point: BandPoint


@dataclass(frozen=True, eq=False)
class BandReport(Described):
    """Everything that the page of a review band shows.

    Parameters
    ----------
    goal : BandGoal or str
        The goal of the band.
    rows : Rows
        Labels and scores, the source of all counts, with the ``amounts`` that a cost names.
    low, high : float
        ``score > high`` is an alarm, ``score <= low`` is cleared, all else is reviewed.
    certificate : BandCertificate, optional
        For this goal and these thresholds.
    verdict : JointVerdict, optional
        The result of ``certificate.check`` on the rows. Without it, unseen rows are checked here,
        unless the certificate is about one case of each group.
    tuned : BandBaseline, optional
        A classifier to compare with.
    currency : str
        Of costs; written before them.
    title, positive, positives, facts, notes, why
        As in :class:`setpoint.report.Report`.
    """

    decided_by: ClassVar[str] = "band"

    goal: BandGoal
    rows: Rows
    low: float
    high: float
    certificate: BandCertificate | None = None
    verdict: JointVerdict | None = None
    tuned: BandBaseline | None = None
    currency: str = "€"
    title: str = "What this review band does"
    positive: str = "positive"
    positives: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    why: Explanations | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", BandGoal.parse(self.goal))
        for name, value in zip(("low", "high"), check_band(self.low, self.high), strict=True):
            object.__setattr__(self, name, value)
        self._check("low", "high")

    @cached_property
    def point(self) -> BandPoint:
        """The counts of the band on the rows."""
        rows = self.rows
        named: Any = rows.named
        amounts = named.get("amounts")
        return evaluate_band(
            rows.y, rows.scores, self.low, self.high, self.goal, amounts=amounts, on=rows.on
        )


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


def band_headline_parts(report: BandReport) -> Headline:
    """Return the sentences of the headline one by one."""
    goal = goal_sentence(report, band_missed(report), band_trivially(report))
    return Headline(
        _broken(report), band_expected(report), goal, certificate_sentence(report),
        still_certified(report, lambda _: TOO_FEW), caution(report),
        basis(report, _long_run(report)),
    )  # fmt: skip


TOO_FEW = (
    "The certificate still stands although these rows miss the goal: it is about new cases in the "
    "long run, and these rows are too few to contradict it."
)


def band_expected(report: BandReport) -> str:
    """Return what happens to 1,000 cases, in a sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint.report import BandReport, Rows
    >>> counts = [180, 20, 300, 700, 20, 18780]
    >>> y = np.repeat([True, False, True, False, True, False], counts)
    >>> scores = np.repeat([0.9, 0.9, 0.5, 0.5, 0.1, 0.1], counts)
    >>> names = {"positive": "fraud", "positives": "frauds"}
    >>> goal = "min review_rate s.t. precision(alarm) >= 0.9"
    >>> print(band_expected(BandReport(goal, Rows(y, scores), 0.3, 0.7, **names)))
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
        cost = value_text(report.goal.objective, point.objective, report.currency)
        text += f". The decision on a case costs {cost} on average"
    return f"{text}."


def _counted(number: float, one: str, many: str) -> str:
    return f"none {one}" if number == 0 else f"{number:,.0f} {one if number == 1 else many}"


def _article(word: str) -> str:
    return "an" if word.lstrip("“").lower().startswith(tuple("aeio")) else "a"


def band_missed(report: BandReport) -> list[str]:
    """Describe the levels that are missed, one by one."""
    point = report.point
    return [is_and_should_be(c, point.value(c.metric.name), report.currency) for c in point.missed]


def band_trivially(report: BandReport) -> str:
    """Explain why a goal is met only by convention; empty if it is not."""
    none = {"alarm": "there are no alarms", "clear": "nothing is cleared"}
    counts, constraints = report.point.counts, report.goal.constraints
    sides = [c.metric.side for c in constraints if c.metric.is_by_convention(counts)]
    return " and ".join(dict.fromkeys(none[side] for side in sides))


def _broken(report: BandReport) -> str:
    if not report.broken:
        return ""
    held = " and ".join(
        f"{metric_label(c.metric)} {level_text(c, '')}" for c in report.checked.contradicted
    )
    return f"Cases since certification contradict the certificate of {held}."


def _long_run(report: BandReport) -> list[str]:
    point, cases = report.point, Cases.of(report.point)
    parts = []
    if cases.alarms:
        parts.append(f"{between(point.alarm_positives, cases.alarms)} alarms are real")
    if cases.cleared:
        clean = between(point.clear_negatives, cases.cleared)
        parts.append(f"{clean} cleared cases are no {report.plural}")
    return parts
