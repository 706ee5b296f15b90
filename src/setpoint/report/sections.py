"""The other parts of the page, in their order."""

from __future__ import annotations

from html import escape

import numpy as np

from setpoint.goals.goal import shown
from setpoint.goals.metrics import called, number, plain
from setpoint.report.amounts import CASES, per_cases
from setpoint.report.content import Report
from setpoint.report.data import Contents
from setpoint.report.drawings import history, legend, scores
from setpoint.report.headline import missed_levels, sentences, where
from setpoint.report.html import paragraph, table
from setpoint.report.words import between, goal_in_words, meaning
from setpoint.training.candidates import Candidates

# --- what comes first ----------------------------------------------------------------------------


def opening(report: Report) -> str:
    """Return the headline, and the three numbers behind it."""
    said = sentences(report)
    first = paragraph(said.broken or said.expected, "headline")
    rest = [said.expected] * bool(said.broken) + [said.goal, said.promise]
    tp, fp, P, _ = report.point.counts
    cases = per_cases(report.point)
    real, no_alarms = [f"precision {shown(report.point.precision)}"], ["no alarms"]
    caught = [f"recall {shown(report.point.recall)}"]
    if not report.rows.chose:
        caught.append(f"long run: {between(tp, P)}")
        real.append(f"long run: {between(tp, tp + fp)}")
        no_alarms.append("nothing is known of them")
    tiles = [
        _tile("caught", f"{tp:,.0f} of {P:,.0f}", *caught),
        _tile("real alarms", f"{tp:,.0f} of {tp + fp:,.0f}", *(real if tp + fp else no_alarms)),
        _tile(f"alarms in {CASES:,} cases", cases["alarms"],
              f"{cases['tp']} real, {cases['fp']} false", f"{cases['fn']} {report.many} missed"),
    ]  # fmt: skip
    notes = "".join(paragraph(note, "note") for note in (said.caution, *report.notes) if note)
    return (
        f"{first}{badges(report)}{paragraph(' '.join(filter(None, rest)), 'lede')}"
        f'<div class="tiles">{"".join(tiles)}</div>{paragraph(said.basis, "small")}{notes}'
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
    looked = report.compared
    if certificate is None:
        found.append(("plain", "no certificate"))
    elif looked is not None and looked.broken:
        found.append(("bad", f"✗ promise broken {where(looked)}"))
    elif certificate.certified:
        found.append(("good", f"✓ certified at {100 * certificate.confidence:g} %"))
    else:
        found.append(("bad", "✗ nothing promised"))
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
    head, *rows = candidates.table()
    caption = f"Ways of training, on {won.point.on}"
    many = f"{len(rows)} ways of training were compared; {won.name} was taken"
    return f"<details><summary>{escape(many)}</summary>{table(caption, head, rows)}</details>"


def facts(report: Report) -> str:
    """Return what is needed to make the same report again."""
    rows = report.rows
    shown_facts = {
        "rows of this report": f"{len(rows):,} of {rows.on}: {int(report.point.counts[2]):,} "
        f"{report.many}, {int(report.point.counts[3]):,} other cases",
        "goal": str(report.goal),
        "threshold": _exactly(report.threshold),
    }
    for name, rival in (("baseline", report.baseline), ("tuned", report.tuned)):
        if rival is not None:
            shown_facts[name] = f"{rival.name}, threshold {_exactly(rival.threshold)}"
    known = set(shown_facts)
    for name, value in report.facts.items():
        key = {"random_state": "seed"}.get(name, name).casefold()
        if str(value) not in ("", "None") and key not in known:
            known.add(key)
            shown_facts[name] = str(value)
    return table("Data and run", ["what", "value"], list(shown_facts.items()), kind="facts")


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
    if not report.rows.chose:
        words["long run"] = (
            "what would be seen on very many such cases. Few cases say little about it; the "
            "interval given contains it in 95 of 100 such studies"
        )
    if report.certificate is not None:
        percent = 100 * (1 - report.certificate.confidence)
        words["certified"] = (
            "shown by an exact statistical test on rows that neither model nor threshold had seen. "
            f"Of all attempts to certify, at most {percent:.3g} of 100 end in a false certificate"
        )
    if report.rivals:
        names = " and ".join(rival.name for rival, _ in report.rivals)
        words["baseline"] = f"what the classifier is compared with: {names}"
    items = "".join(
        f"<div><dt>{escape(word)}</dt><dd>{escape(text)}</dd></div>" for word, text in words.items()
    )
    return f"<dl>{items}</dl>"
