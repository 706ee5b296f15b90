"""The other parts of the page, in their order."""

from __future__ import annotations

from html import escape

import numpy as np

from setpoint.certificates import Certificate
from setpoint.certificates.bound import weaker
from setpoint.certificates.certificate import ShiftedCertificate
from setpoint.metrics import plain
from setpoint.report.content import Report
from setpoint.report.data import Contents
from setpoint.report.drawings import history, legend, scores
from setpoint.report.explore import CASES, per_cases
from setpoint.report.headline import missed_levels, sentences
from setpoint.report.tables import table
from setpoint.report.words import between, called, goal_in_words, meaning, number, shown
from setpoint.solvers.candidates import Candidates

_WITHIN_A_CLASS = ("recall", "fnr", "fpr", "specificity")  # do not depend on the prevalence


def paragraph(text: str, kind: str = "") -> str:
    """Return an escaped paragraph."""
    given = f' class="{kind}"' if kind else ""
    return f"<p{given}>{escape(text)}</p>"


def bullets(items: tuple[str, ...] | list[str]) -> str:
    """Return an escaped list."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


# --- what comes first ----------------------------------------------------------------------------


def opening(report: Report) -> str:
    """Return the headline, and the three numbers behind it."""
    said = sentences(report)
    first = paragraph(said.expected, "headline")
    rest = " ".join(filter(None, (said.goal, said.promise)))
    tp, fp, P, N = report.point.counts
    tiles = [
        _tile("caught", f"{tp:,.0f} of {P:,.0f}", f"recall {shown(report.point.recall)}",
              f"long run: {between(tp, P)}"),
        _tile("real alarms", f"{tp:,.0f} of {tp + fp:,.0f}",
              f"precision {shown(report.point.precision)}" if tp + fp else "no alarms",
              f"long run: {between(tp, tp + fp)}" if tp + fp else "nothing is known of them"),
        _tile(f"alarms in {CASES:,} cases", per_cases(tp + fp, P + N),
              f"{per_cases(tp, P + N)} real, {per_cases(fp, P + N)} false",
              f"{per_cases(P - tp, P + N)} {report.many} missed"),
    ]  # fmt: skip
    notes = "".join(paragraph(note, "note") for note in report.notes)
    return (
        f'{first}{badges(report)}{paragraph(rest, "lede")}<div class="tiles">{"".join(tiles)}'
        f"</div>{paragraph(said.basis, 'small')}{notes}"
    )


def _tile(name: str, value: str, *lines: str) -> str:
    more = "".join(f"<span>{escape(line)}</span>" for line in lines)
    return f'<div class="tile"><h2>{escape(name)}</h2><strong>{escape(value)}</strong>{more}</div>'


def badges(report: Report) -> str:
    """Return marks that say at a glance how things stand; by sign and word, not colour alone."""
    found = []
    if report.goal.constraints:
        met = report.point.feasible
        found.append(("good" if met else "bad", "✓ goal met" if met else "✗ goal not met"))
    certificate = report.certificate
    if certificate is None:
        found.append(("plain", "no certificate"))
    elif certificate.certified:
        found.append(("good", f"✓ certified at {100 * certificate.confidence:g} %"))
    else:
        found.append(("bad", "✗ not certified"))
    marks = "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in found)
    return f'<ul class="badges">{marks}</ul>'


def goal(report: Report) -> str:
    """Return what was asked for, and whether it is met."""
    point = report.point
    parts = [
        paragraph(goal_in_words(report.goal, report.many)),
        f"<p>As a formula: <code>{escape(str(report.goal))}</code></p>",
    ]
    on = report.rows.on
    missed = missed_levels(point)
    reached = f"{called(report.goal.objective.name)} is {shown(point.objective)}"
    if not report.goal.constraints:
        parts.append(paragraph(f"On {on} {reached}."))
    elif missed:
        parts.append(paragraph(f"✗ Not met on {on}: {'; '.join(missed)}.", "bad"))
    elif point.empty:
        parts.append(
            paragraph(f"✓ Met on {on}, but only in that there are no alarms; {reached}.", "good")
        )
    else:
        parts.append(paragraph(f"✓ Met on {on}; {reached}.", "good"))
    return "".join(parts)


# --- what is promised ----------------------------------------------------------------------------


def promise(report: Report) -> str:
    """Return what is promised of new data, on which assumptions, and what speaks against them."""
    certificate = report.certificate
    if certificate is None:
        return paragraph(
            "Nothing: no certificate was asked for. All numbers here describe "
            f"{len(report.rows):,} rows of {report.rows.on}; new data vary, and a threshold that "
            "just meets its level misses it on new data about half of the time."
        )
    kind = "good" if certificate.certified else "bad"
    rows = []
    for bound in certificate.bounds:
        side = "≥" if bound.metric.direction == "max" else "≤"
        known = "nothing"
        if bound.bound is not None:
            known = f"{side}\N{NO-BREAK SPACE}{plain(weaker(bound.metric, bound.bound))}"
            known += "" if bound.kind == "exact" else " (estimate, no guarantee)"
        best = "highest" if side == "≥" else "lowest"
        asked = best if bound.level is None else f"{side} {plain(bound.level)}"
        draws = "" if bound.trials is None else f" ({bound.successes:,} of {bound.trials:,})"
        rows.append([called(bound.metric.name), asked, shown(bound.value) + draws, known])
    head = ["metric", "asked", "observed", "on new data"]
    caption = f"Metric by metric, with {100 * certificate.confidence:g} % confidence each"
    parts = [
        paragraph(certificate.message, kind),
        table(caption, head, rows),
        paragraph(f"The threshold {number(certificate.threshold)} was {_choice(certificate)}."),
        f"<h3>This {'holds' if certificate.certified else 'was tested'} provided that</h3>",
        bullets(certificate.assumptions),
    ]
    parts += [paragraph(text, kind) for kind, text in hints(report, certificate)]
    if certificate.certified:
        parts.append(
            paragraph(
                "A promise does not renew itself: compare it with later labelled cases "
                "(certificate.check may be asked after every one of them), and certify anew when "
                "it is broken or the population changes.",
                "small",
            )
        )
    return "".join(parts)


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


def hints(report: Report, certificate: Certificate) -> list[tuple[str, str]]:
    """Return what the report's rows say about the certificate, each with its kind."""
    point, there = report.point, certificate.operating_point
    if not report.rows.unseen:
        return []
    found = []
    here, n = point.counts[2] / len(report.rows), len(report.rows)
    size = float(sum(there.counts[2:]))
    assumed = float(there.counts[2]) / size
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
    if certificate.certified and not certificate.one_per_group:
        looked = certificate.check(report.rows.y, report.rows.scores, pos_label=True)
        if looked.broken:
            text = f"The rows of this report, taken as later data, contradict it. {looked.message}"
            found.append(("bad", text))
        else:
            text = f"The rows of this report ({report.rows.on}) do not contradict it."
            found.append(("plain", text))
    return found


# --- the rest ------------------------------------------------------------------------------------


def score_histograms(contents: Contents) -> str:
    """Return the scores of both classes."""
    report = contents.report
    beyond = contents.histogram.beyond
    more = "" if not beyond else f" {beyond:,} scores beyond the ends count in the outermost bars."
    entries = (
        ("positives", f"{report.many} (upwards)"),
        ("others", "other cases (downwards)"),
        ("cut", "the chosen threshold"),
    )
    text = (
        "The better the two parts are separated, the fewer mistakes any threshold makes. Right of "
        f"the line are the alarms. Each half has a scale of its own.{more}"
    )
    return (
        f'<div class="columns"><figure>{scores(contents)}{legend(*entries)}</figure>'
        f"<div>{paragraph(text)}</div></div>"
    )


def training(report: Report) -> str:
    """Return how training went."""
    found = report.history
    if found is None or not len(found):
        return ""
    objective = called(report.goal.objective.name)
    says = [
        f"After each iteration: {objective}, and what the goal was missed by (0: met), on the rows "
        f"that judged. Kept was iteration {found.best_iteration} (the diamond)."
    ]
    if found.diverged:
        says.append("Training was stopped because the scores were no longer numbers.")
    elif found.interrupted:
        says.append("Training was stopped before its end.")
    pictures = history(found, objective)
    return f'<figure class="pair">{pictures}</figure>{paragraph(" ".join(says), "small")}'


def compared(candidates: Candidates | None) -> str:
    """Return the models that were compared, and which won."""
    if candidates is None or not len(candidates):
        return ""
    won = candidates.winner
    names = list(dict.fromkeys(m.name for m in won.point.goal.metrics))
    asked = {c.metric.name: c for c in won.point.goal.constraints}
    rows = []
    for one in candidates:
        values = [shown(one.point.value(name), asked.get(name)) for name in names]
        marks = ["★ taken"] * (one is won) + ["✗ goal not met"] * (not one.point.feasible)
        rows.append([one.name, *values, str(one.iteration), ", ".join(marks) or "–"])
    heads = [called(name) for name in names]
    caption = f"Ways of training, on {won.point.on}"
    return table(caption, ["candidate", *heads, "iteration", ""], rows)


def facts(report: Report) -> str:
    """Return what is needed to make the same report again."""
    rows = report.rows
    own = {
        "rows": f"{len(rows):,} of {rows.on}: {int(report.point.counts[2]):,} {report.many}, "
        f"{int(report.point.counts[3]):,} other cases",
        "goal": str(report.goal),
        "threshold": _exactly(report.threshold),
    }
    if report.baseline is not None:
        own["baseline"] = f"{report.baseline.name}, threshold {_exactly(report.baseline.threshold)}"
    pairs = [[name, str(value)] for name, value in {**own, **report.facts}.items()]
    return table("Data and run", ["what", "value"], pairs, kind="facts")


def _exactly(threshold: float) -> str:
    return plain(threshold) if np.isfinite(threshold) else number(threshold)


def glossary(contents: Contents) -> str:
    """Return the page's words in plain words."""
    report = contents.report
    words = {
        "score": "the number that the model gives a case; higher means more suspicious",
        "threshold": "the score above which a case raises an alarm (a score equal to it does not)",
        "alarm": f"a case that the classifier counts among the {report.many}, rightly or not",
        "confusion matrix": "how many cases are decided rightly and wrongly, of either class",
    }
    for which in contents.metrics:
        said = meaning(which, report.many)
        words[called(which.name)] = said or "a metric of the user's own"
    words["long run"] = (
        "what would be seen on very many such cases. Few cases say little about it; the interval "
        "given contains it in 95 of 100 such studies"
    )
    if report.certificate is not None:
        percent = 100 * (1 - report.certificate.confidence)
        words["certified"] = (
            "shown by an exact statistical test on rows that neither model nor threshold had seen. "
            f"Of all attempts to certify, at most {percent:.3g} of 100 end in a false certificate"
        )
    if report.baseline is not None:
        words["baseline"] = f"what the classifier is compared with: {report.baseline.name}"
    items = "".join(
        f"<div><dt>{escape(word)}</dt><dd>{escape(text)}</dd></div>" for word, text in words.items()
    )
    return f"<dl>{items}</dl>"
