"""The part of the page with the slider: what every threshold does."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from setpoint.goals.goal import Constraint, relation, shown
from setpoint.goals.metrics import called, number
from setpoint.report.amounts import CASES, Bill, money, per_cases
from setpoint.report.content import Report
from setpoint.report.data import Contents
from setpoint.report.drawings import legend, precision_recall
from setpoint.report.html import Raw, table
from setpoint.thresholds.operating_point import OperatingPoint

_Measure = Callable[[OperatingPoint], str]


def explore(contents: Contents) -> str:
    """Return slider, confusion matrix, metrics, counts, money and the curve."""
    tables = [_matrix(contents), _metrics(contents), _counts(contents), _money(contents)]
    columns = "columns" + " compared" * bool(contents.report.rivals)  # more numbers in a row
    return (
        f'<div class="{columns}"><div class="panel">{_slider(contents)}{"".join(tables)}</div>'
        f'<figure class="panel sticky">{_curve(contents)}</figure></div>'
        f"{_glance(contents)}"
    )


def _slider(contents: Contents) -> str:
    stops = contents.steps.stops([contents.chosen]).tolist()
    at = stops.index(contents.chosen)
    chosen = number(contents.report.threshold)
    return (
        '<form class="controls" autocomplete="off">'
        '<label for="slider">Threshold: cases with a higher score raise an alarm</label>'
        f'<input type="range" id="slider" min="0" max="{len(stops) - 1}" step="1" value="{at}" '
        f'aria-valuetext="threshold {escape(chosen)}">'
        '<div class="ends" aria-hidden="true"><span>more alarms</span><span>fewer alarms</span>'
        '</div><div class="row"><label for="box">Exact value</label>'
        '<input type="number" id="box" step="any" aria-describedby="snapped">'
        f'<button type="button" id="reset">Back to the chosen threshold ({escape(chosen)})'
        '</button></div><p id="snapped" class="small" role="status"></p></form>'
        f'<p id="summary" class="summary"><output for="slider box" data-out="summary">'
        f"{escape(_summary(contents.report))}</output></p>"
    )


def _summary(report: Report) -> str:
    """Say what the chosen threshold does; the script says the same of others."""
    point = report.point
    tp, fp, P, _ = (int(x) for x in point.counts)
    false = "1 false alarm" if fp == 1 else f"{fp:,} false alarms"
    return f"At {number(report.threshold)}: {tp:,} of {P:,} {report.many} caught, {false}."


def _matrix(contents: Contents) -> str:
    report, point = contents.report, contents.report.point
    cells = {name: f"{int(getattr(point, name)):,}" for name in ("tp", "fn", "fp", "tn")}

    def count(name: str, meaning: str, right: bool) -> Raw:
        kind = "right" if right else "wrong"
        return Raw(
            f'<td class="{kind}"><output data-out="{name}" for="slider box">{cells[name]}</output>'
            f"<small>{meaning}</small></td>"
        )

    rows = [
        [f"{report.many} ({contents.steps.P:,})",
         count("tp", "caught", True), count("fn", "missed", False)],
        [f"other cases ({contents.steps.N:,})",
         count("fp", "false alarms", False), count("tn", "left alone", True)],
    ]  # fmt: skip
    caption = f"Confusion matrix: counts on the {len(report.rows):,} rows of {report.rows.on}"
    return table(caption, ["", "alarm", "no alarm"], rows, kind="matrix")


def _columns(contents: Contents, measure: _Measure, name: str) -> list[str]:
    """Return a measure at the slider, at the chosen threshold and of the rivals."""
    report = contents.report
    chosen = measure(report.point)
    here = Raw(f'<td class="screen here"><output data-out="{name}" for="slider box">'
               f"{escape(chosen)}</output></td>")  # fmt: skip
    return [here, chosen, *(measure(point) for _, point in report.rivals)]


def _heads(contents: Contents) -> list[str]:
    return ["", "slider", "chosen", *(rival.name for rival, _ in contents.report.rivals)]


def _kind(contents: Contents) -> str:
    return "numbers compare" + " wide" * (len(contents.report.rivals) > 1)


def _metrics(contents: Contents) -> str:
    asked = {c.metric.name: c for c in contents.report.goal.constraints}
    rows = []
    for which in contents.metrics:
        constraint = asked.get(which.name)
        name = called(which.name)
        label = name if constraint is None else f"{name} (asked: {relation(constraint)})"
        measure = _metric(which.name, constraint)
        rows.append([label, *_columns(contents, measure, f"metric-{which.name}")])
    if asked:
        rows.append(["goal", *_columns(contents, lambda p: verdict(p.feasible), "met")])
    return table("Metrics", _heads(contents), rows, kind=_kind(contents), screen=1)


def _metric(name: str, asked: Constraint | None) -> _Measure:
    return lambda point: shown(point.value(name), asked)


def verdict(met: bool) -> str:
    """Say whether a goal is met, by sign and by word."""
    return "✓ met" if met else "✗ not met"


def _counts(contents: Contents) -> str:
    def of(name: str) -> _Measure:
        return lambda point: per_cases(point)[name]

    labels = {
        "alarms": "alarms", "tp": "of these real", "fp": "of these false",
        "fn": f"missed {contents.report.many}",
    }  # fmt: skip
    rows = [
        [label, *_columns(contents, of(name), f"cases-{name}")] for name, label in labels.items()
    ]
    positives = per_cases(contents.report.point)["positives"]
    caption = f"Of {CASES:,} such cases ({positives} of them {contents.report.many})"
    return table(caption, _heads(contents), rows, kind=_kind(contents), screen=1)


def _money(contents: Contents) -> str:
    report = contents.report
    costs = report.costs
    if costs is None:
        return ""
    bill = Bill(costs, report)
    labels = {"alarms": "looking into alarms", "misses": f"missed {report.many}"}
    if costs.catch:
        labels["catches"] = f"caught {report.many}"
    labels |= {"total": "total", "saved": "saved against no model"}
    labels |= {f"gained{i}": f"saved against {r.name}" for i, (r, _) in enumerate(report.rivals)}

    def of(key: str) -> _Measure:
        return lambda point: money(bill.of(point)[key], costs.currency, bill.digits)

    rows = [[text, *_columns(contents, of(key), f"money-{key}")] for key, text in labels.items()]
    made = table(
        f"Money, of {CASES:,} such cases", _heads(contents), rows, kind=_kind(contents), screen=1
    )
    return f'{made}<p class="small">{escape(_prices(bill, report))}</p>'


def _prices(bill: Bill, report: Report) -> str:
    costs = bill.costs
    each = [
        f"{money(costs.alarm, costs.currency)} for each alarm",
        f"{money(costs.miss, costs.currency)} for each missed {report.one}",
    ]
    if costs.catch > 0:
        each.append(f"{money(costs.catch, costs.currency)} for each one caught")
    elif costs.catch < 0:
        each.append(f"less {money(-costs.catch, costs.currency)} for each one caught")
    return (
        f"Reckoned with {', '.join(each)}. Without a model nothing is caught, which costs "
        f"{money(bill.nothing, costs.currency, bill.digits)}."
    )


def _curve(contents: Contents) -> str:
    report = contents.report
    drawn = {c.metric.name for c in report.goal.constraints} & {"precision", "recall"}
    certificate = report.certificate
    bound = certificate is not None and any(
        b.bound is not None and b.kind == "exact" and b.metric.name in ("precision", "recall")
        for b in certificate.bounds
    )
    entries = [
        ("model", "every threshold"),
        ("chosen", "the chosen one"),
        ("here", "the slider"),
        ("floor", "asked for") if drawn else None,
        ("bound", "certifying rows, down to the bound") if bound else None,
        ("baseline", report.baseline.name) if report.baseline is not None else None,
        ("tuned", report.tuned.name) if report.tuned is not None else None,
    ]
    return (
        f"<figcaption>Precision and recall at every threshold</figcaption>"
        f"{precision_recall(contents)}{legend(*entries)}"
    )


def _glance(contents: Contents) -> str:
    """Return the curve as a table: the highest threshold that reaches each recall."""
    steps, report = contents.steps, contents.report
    places: dict[int, str] = {}
    for tenth in range(1, 11):
        reached = (steps.recall >= tenth / 10 - 1e-12).nonzero()[0]
        if len(reached):  # a positive with a score of -inf is never caught
            places.setdefault(int(reached[-1]), "")
    places[contents.chosen] = "◆\N{NO-BREAK SPACE}"
    rows = []
    for index, mark in sorted(places.items()):
        tp, fp = int(steps.tp[index]), int(steps.fp[index])
        at = report.threshold if mark else float(steps.at[index])
        precision = shown(float(steps.precision[index])) if tp + fp else "–"
        marked = f"{mark}{number(at)}"
        rows.append([marked, shown(float(steps.recall[index])), precision, f"{tp:,}", f"{fp:,}"])
    head = ["threshold", "recall", "precision", "caught", "false alarms"]
    return table("The same curve in numbers (◆: the chosen threshold)", head, rows)
