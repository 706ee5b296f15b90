"""Sentences of the report on a certificate: its thresholds, and how later rows compare with it."""

from __future__ import annotations

import math

from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.report.content import Described, Report


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
    claims = [text.replace(">=", "≥").replace("<=", "≤") for text in certificate.claims]
    be = "is" if len(claims) == 1 else "are"
    return (
        "Green marks the certified thresholds. You may use any of them, even after looking at "
        f"this page: {' and '.join(claims)} {be} guaranteed for all of them together, with "
        f"{100 * certificate.confidence:g} % confidence."
    )


def comparison_with_rows(report: Described) -> str:
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


def not_compared(report: Described) -> str:
    """Explain why later rows were not compared with the certificate; empty if they were."""
    certificate = report.certificate
    if certificate is None or not certificate.certified or not report.later or report.checked:
        return ""
    by_group = certificate.one_per_group
    why = "it is about one case of each group" if by_group else "its metric cannot be monitored"
    return f"These rows were not compared with the certificate: {why}."
