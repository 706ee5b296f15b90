"""Small tables for notebooks: what an operating point, certificate or model says, at a glance.

Colours are the notebook's own, so that they are readable on light and on dark ground; every
style stands in the element, for notebooks drop style sheets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from setpoint.certificates import Certificate, Verdict
from setpoint.certificates.bound import weaker
from setpoint.metrics import plain
from setpoint.operating_point import OperatingPoint
from setpoint.report.words import called, number, relation, shown

if TYPE_CHECKING:
    from setpoint.solvers.candidates import Candidates
    from setpoint.tabular.model import TableModel

_EDGE = "border-bottom:1px solid rgba(128,128,128,.4);"
_CELL = f"{_EDGE}padding:3px 10px;background:none;color:inherit;"


def operating_point_html(
    point: OperatingPoint, positive: str = "positive", negative: str = "negative"
) -> str:
    """Return an operating point as a small table; the classes may have names."""
    counts = [
        ["", "alarm", "no alarm"],
        [positive, plain(point.tp), plain(point.fn)],
        [negative, plain(point.fp), plain(point.tn)],
    ]
    asked = {c.metric.name: c for c in point.goal.constraints}
    names = dict.fromkeys(["precision", "recall", "f1", *(m.name for m in point.goal.metrics)])
    values = [["metric", "value", "asked"]]
    for name in names:
        level = asked.get(name)
        text = "" if level is None else relation(level)
        values.append([name, shown(point.value(name), level), text])
    head = f"threshold {number(point.threshold)} on {point.on}"
    kept = point.feasible and not point.empty  # kept by never raising an alarm is not kept
    return _box(point.message, kept, head, _table(counts), _table(values))


def certificate_html(certificate: Certificate) -> str:
    """Return a certificate as a small table, with its assumptions."""
    rows = [["metric", "asked", "observed", "known of new data"]]
    for bound in certificate.bounds:
        side = "≥" if bound.metric.direction == "max" else "≤"
        known = "nothing"
        if bound.bound is not None:
            known = f"{side} {plain(weaker(bound.metric, bound.bound))}"
            known += "" if bound.kind == "exact" else " (estimate)"
        draws = "" if bound.trials is None else f" ({bound.successes:,} of {bound.trials:,})"
        asked = "" if bound.level is None else f"{side} {plain(bound.level)}"
        rows.append([bound.metric.name, asked, shown(bound.value) + draws, known])
    head = (
        f"threshold {number(certificate.threshold)}, {100 * certificate.confidence:g} % confidence"
    )
    items = "".join(f"<li>{escape(text)}</li>" for text in certificate.assumptions)
    assumed = f"<details><summary>It assumes that</summary><ul>{items}</ul></details>"
    return _box(certificate.message, certificate.certified, head, _table(rows), assumed)


def verdict_html(verdict: Verdict) -> str:
    """Return what later data say about a promise as a small table."""
    rows = [["metric", "promised", "seen since", "draws"]]
    for promise in verdict.promises:
        successes, trials = verdict.draws(promise)
        value = shown(verdict.operating_point.value(promise.metric.name), promise)
        seen = value if trials else "–"
        draws = f"{successes:,} of {trials:,}"
        rows.append([promise.metric.name, relation(promise), seen, draws])
    looks = "1 look" if verdict.looks == 1 else f"{verdict.looks:,} looks"
    head = f"{looks}; a false alarm with a chance of at most {plain(verdict.level)} over all looks"
    return _box(verdict.message, not verdict.broken, head, _table(rows))


def candidates_html(candidates: Candidates) -> str:
    """Return the models that were compared as a small table."""
    if not len(candidates):
        return "<p>no candidates</p>"
    rows, point = candidate_rows(candidates), candidates.winner.point
    head = f"{len(candidates)} ways of training, on {point.on}"
    message = f"{candidates.winner.name} was taken for '{point.goal}'"
    return _box(message, point.feasible and not point.empty, head, _table(rows))


def candidate_rows(candidates: Candidates) -> list[list[str]]:
    """Return a table of the models that were compared, its head first."""
    won = candidates.winner
    names = list(dict.fromkeys(m.name for m in won.point.goal.metrics))
    asked = {c.metric.name: c for c in won.point.goal.constraints}
    rows = [["candidate", *map(called, names), "iteration", ""]]
    for one in candidates:
        values = [shown(one.point.value(name), asked.get(name)) for name in names]
        marks = ["★ taken"] * (one is won) + ["✗ goal not met"] * (not one.point.feasible)
        rows.append([one.name, *values, str(one.iteration), ", ".join(marks) or "–"])
    return rows


def classifier_html(classifier: Any) -> str:
    """Return what a fitted classifier of this package does, and nothing for one that is not."""
    if not hasattr(classifier, "operating_point_"):
        return ""
    positive = classifier.pos_label_
    [negative] = [label for label in classifier.classes_.tolist() if label != positive]
    return _decisions(classifier.operating_point_, classifier.certificate_, positive, negative)


def table_model_html(model: TableModel) -> str:
    """Return what a model of a table does; scikit-learn's diagram of its steps is folded."""
    from sklearn.pipeline import Pipeline

    steps = Pipeline([("encoder", model.encoder), ("classifier", model.classifier)])
    diagram = steps._repr_mimebundle_().get("text/html")  # none where scikit-learn shows text
    folded = f"<details><summary>Its steps</summary>{diagram}</details>" if diagram else ""
    point, certificate = model.operating_point, model.certificate
    return _decisions(point, certificate, model.positive, model.negative) + folded


def _decisions(
    point: OperatingPoint, certificate: Certificate | None, positive: Any, negative: Any
) -> str:
    shown_point = operating_point_html(
        point, f"positive: {_short(positive)}", f"negative: {_short(negative)}"
    )
    return shown_point + ("" if certificate is None else certificate_html(certificate))


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _box(message: str, good: bool, head: str, *parts: str) -> str:
    sign = "✓" if good else "✗"
    return (
        '<div style="max-width:60em;margin-bottom:.8em">'
        f'<p style="margin:.2em 0"><b>{sign} {escape(message)}</b></p>'
        f'<p style="margin:.2em 0;opacity:.8">{escape(head)}</p>'
        '<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:8px 32px">'
        f"{''.join(parts)}</div></div>"
    )


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = []
    for i, row in enumerate(rows):
        cells = []
        for j, text in enumerate(row):
            kind = "th" if i == 0 or j == 0 else "td"
            side = "left" if j == 0 else "right"
            style = f"{_CELL}text-align:{side};font-weight:{'600' if i == 0 else '400'}"
            cells.append(f'<{kind} style="{style}">{escape(text)}</{kind}>')
        lines.append(f'<tr style="background:none">{"".join(cells)}</tr>')
    style = "border-collapse:collapse;margin:.4em 0;font-variant-numeric:tabular-nums"
    return f'<table style="{style}">{"".join(lines)}</table>'
