"""The part of the page on what is promised, and on what the rows say about it."""

from __future__ import annotations

import numpy as np

from setpoint.certificates.bounds import weaker
from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.goals.goal import shown
from setpoint.goals.metrics import called, number, plain
from setpoint.report.content import Report
from setpoint.report.headline import not_compared
from setpoint.report.html import bullets, paragraph, table

_WITHIN_A_CLASS = ("recall", "fnr", "fpr", "specificity")  # do not depend on the prevalence


def promise(report: Report) -> str:
    """Return what is promised of new data, on which assumptions, and what speaks against them."""
    certificate = report.certificate
    if certificate is None:
        return paragraph(
            "Nothing: no certificate was asked for. All numbers here describe "
            f"{len(report.rows):,} rows of {report.rows.on}; new data vary, and a threshold that "
            "just meets its level misses it on new data about half of the time."
        )
    if report.broken:
        assert report.compared is not None
        first, held = paragraph(report.compared.message, "bad"), "It was promised"
        first += paragraph(f"What was promised: {certificate.message}")
    elif certificate.certified:
        first, held = paragraph(certificate.message, "good"), "This holds"
    else:
        text = "Nothing; what is missing is said above. The table shows how much is known."
        first, held = paragraph(text, "bad"), "This was tested"
    caption = f"Metric by metric, with {100 * certificate.confidence:g} % confidence each"
    parts = [
        first,
        table(caption, ["metric", "asked", "observed", "on new data"], _bounds(certificate)),
        paragraph(f"The threshold {number(certificate.threshold)} was {_choice(certificate)}."),
        f"<h3>{held} provided that</h3>",
        bullets(certificate.assumptions),
    ]
    parts += [paragraph(text, kind) for kind, text in _hints(report, certificate)]
    if certificate.certified and not report.broken:
        parts.append(
            paragraph(
                "A promise does not renew itself: compare it with later labelled cases "
                "(certificate.check in Python and setpoint evaluate --after on the command line "
                "may be asked after every one of them), and certify anew when it is broken or the "
                "population changes.",
                "small",
            )
        )
    return "".join(parts)


def _bounds(certificate: Certificate) -> list[list[str]]:
    rows = []
    for bound in certificate.bounds:
        side = "≥" if bound.metric.direction == "max" else "≤"
        known = "nothing"
        if bound.bound is not None:
            known = f"{side}\N{NO-BREAK SPACE}{plain(weaker(bound.metric, bound.bound))}"
            known += "" if bound.kind == "exact" else " (estimate, no guarantee)"
        best = "highest" if side == "≥" else "lowest"
        asked = best if bound.level is None else f"{side} {plain(bound.level)}"
        draws = ""
        if bound.trials is not None:  # on a phone in a line of its own, but whole
            draws = f"({bound.successes:,} of {bound.trials:,})".replace(" ", "\N{NO-BREAK SPACE}")
        observed = f"{shown(bound.value)} {draws}".rstrip()
        rows.append([called(bound.metric.name), asked, observed, known])
    return rows


def _choice(certificate: Certificate) -> str:
    if certificate.choice == "beforehand":
        return "fixed before the certifying rows were looked at"
    if not certificate.certified:
        return "the nearest to passing; nothing passed"
    if certificate.choice == "any":
        return "the best that passes of all there are"
    if certificate.tested == 1:
        return "chosen on other rows"
    return f"the best that passed of {certificate.tested} planned on other rows"


def _hints(report: Report, certificate: Certificate) -> list[tuple[str, str]]:
    """Return what the report's rows say about the certificate, each with its kind."""
    if not report.later:
        return []
    found = []
    n, positives = len(report.rows), float(report.point.counts[2])
    here = positives / n
    there = certificate.operating_point.counts
    size = float(sum(there[2:]))
    assumed = float(there[2]) / size
    error = np.sqrt(assumed * (1 - assumed) / size + here * (1 - here) / n)
    if isinstance(certificate, ShiftedCertificate):
        assumed, error = certificate.prevalence, np.sqrt(here * (1 - here) / n)
    depends = any(m.name not in _WITHIN_A_CLASS for m in report.goal.metrics)
    if depends and abs(here - assumed) > 3 * error:
        text = (
            f"Another share of positives: {100 * here:.3g} % on {report.rows.on}, where the "
            f"certificate assumes {100 * assumed:.3g} %. Precision depends on it; "
            f"certificate.at_prevalence({here:.3g}) says what is promised here."
        )
        found.append(("note", text))
    looked = report.compared
    if looked is None:
        if text := not_compared(report):
            found.append(("plain", text))
        return found
    grouped = " One row of each group was looked at." if certificate.one_per_group else ""
    if not looked.broken:
        text = f"The rows of this report ({report.rows.on}) do not contradict it."
        found.append(("plain", text + grouped))
    elif grouped:
        found.append(("plain", grouped.strip()))
    return found
