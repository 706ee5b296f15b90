"""The content of a report on a review band: labelled rows, two thresholds, what is certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sklearn.utils.validation import check_is_fitted

from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.band_monitor import BandVerdict
from setpoint.errors import SetpointError
from setpoint.goals.bands import BandGoal
from setpoint.report.content import Called, Rows
from setpoint.thresholds.bands import BandPoint, check_band, evaluate_band


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
class BandReport(Called):
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
    verdict : BandVerdict, optional
        The result of ``certificate.check`` on the rows. Without it, unseen rows are checked here,
        unless the certificate is about one case of each group.
    tuned : BandBaseline, optional
        A classifier to compare with.
    currency : str
        Of costs; written before them.
    title, positive, positives, facts, notes
        As in :class:`setpoint.report.Report`.
    """

    goal: BandGoal
    rows: Rows
    low: float
    high: float
    certificate: BandCertificate | None = None
    verdict: BandVerdict | None = None
    tuned: BandBaseline | None = None
    currency: str = "€"
    title: str = "What this review band does"
    positive: str = "positive"
    positives: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "goal", BandGoal.parse(self.goal))
        low, high = check_band(self.low, self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        notes: object = self.notes
        if isinstance(notes, str):
            raise SetpointError("notes must be a tuple of sentences, not a string.")
        certificate = self.certificate
        if certificate is None:
            if self.verdict is not None:
                raise SetpointError("a verdict needs the certificate that it is about.")
            return
        if certificate.goal != self.goal:
            raise SetpointError(
                f"the certificate is for the goal '{certificate.goal}', the report for "
                f"'{self.goal}'."
            )
        if (certificate.low, certificate.high) != (low, high):
            raise SetpointError(
                f"the certificate is for the thresholds {certificate.low!r} and "
                f"{certificate.high!r} and does not apply to the report's, {low!r} and {high!r}."
            )
        if self.verdict is not None and self.verdict.guarantees != certificate.guarantees:
            raise SetpointError(
                "the verdict is about another certificate; get it from this certificate's check()."
            )

    @cached_property
    def point(self) -> BandPoint:
        """The counts of the band on the rows."""
        rows = self.rows
        named: Any = rows.named
        amounts = named.get("amounts")
        return evaluate_band(
            rows.y, rows.scores, self.low, self.high, self.goal, amounts=amounts, on=rows.on
        )

    @cached_property
    def checked(self) -> BandVerdict | None:
        """The verdict of the rows on the certificate; None where they cannot be compared."""
        certificate = self.certificate
        if self.verdict is not None or certificate is None:
            return self.verdict
        if not (self.rows.unseen and certificate.certified) or certificate.one_per_group:
            return None
        return certificate.check(self.rows.y, self.rows.scores, pos_label=True)

    @property
    def broken(self) -> bool:
        """Whether the rows contradict the certificate."""
        return self.checked is not None and self.checked.broken


def band_report_of(
    band: Any, X: Any = None, y: Any = None, *, groups: Any = None, amounts: Any = None,
    **options: Any,
) -> BandReport:  # fmt: skip
    """Return the report of a fitted SetpointBand; parameters as in ``report_of``."""
    check_is_fitted(band, "low_")
    if (X is None) != (y is None):
        raise SetpointError("a report on other rows needs both X and y.")
    certificate = band.certificate_
    named = {} if amounts is None else {"amounts": amounts}
    if X is not None:
        positive, scores = band._labels.is_positive(y), band.positive_scores(X)
        rows = Rows(positive, scores, on="the rows given", unseen=True, named=named)
        if groups is not None and certificate is not None and certificate.certified:
            verdict = certificate.check(rows.y, rows.scores, pos_label=True, groups=groups)
            options.setdefault("verdict", verdict)
    else:
        labelled = getattr(band, "_threshold_rows", None)
        if labelled is None or band.goal_.amounts:
            raise SetpointError(
                "the rows on which the band was chosen, with their amounts, are not kept; give "
                "report() labelled rows, X and y."
            )
        positive, scores = labelled
        rows = Rows(positive, scores, on=band.operating_point_.on, chose=True)
    options.setdefault("positive", str(band.pos_label_))
    return BandReport(band.goal_, rows, band.low_, band.high_, certificate=certificate, **options)
