"""The contents of the page's sections, as plain values for the templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from setpoint.certificates.bounds import weaker
from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.goals.goal import relation, shown
from setpoint.goals.metrics import called, number, plain
from setpoint.report.content import Report
from setpoint.report.data import CASES, Bill, Contents, drawn_bounds, money, per_cases
from setpoint.report.drawings import history, precision_recall, scores, swatch
from setpoint.report.sentences import (
    between,
    goal_in_words,
    headline_parts,
    meaning,
    missed_levels,
    not_compared,
)
from setpoint.thresholds.operating_point import OperatingPoint

_WITHIN_A_CLASS = ("recall", "fnr", "fpr", "specificity")  # do not depend on the prevalence


def sections(contents: Contents) -> dict[str, Any]:
    """Return the values of all sections; a section without content is None."""
    report = contents.report
    return {
        "opening": _opening(report),
        "goal": _goal(report),
        "certificate": None if report.certificate is None else _certificate(report),
        "explore": _explore(contents),
        "histograms": _histograms(contents),
        "training": _training(report),
        "candidates": report.candidates if report.candidates else None,
        "facts": _facts(report),
        "glossary": _glossary(contents),
    }


# --- opening, goal, certificate ------------------------------------------------------------------


def _opening(report: Report) -> dict[str, Any]:
    """Return the headline, the badges, and the three numbers behind them."""
    parts, point = headline_parts(report), report.point
    tp, fp, P, _ = point.counts
    cases = per_cases(point)
    caught = [f"recall {shown(point.recall)}"]
    real = [f"precision {shown(point.precision)}" if tp + fp else "no alarms"]
    if not report.rows.chose:
        caught.append(f"long run: {between(tp, P)}")
        real.append(f"long run: {between(tp, tp + fp) if tp + fp else 'unknown'}")
    alarms = [f"{cases['tp']} real, {cases['fp']} false", f"{cases['fn']} {report.plural} missed"]
    return {
        "headline": parts.broken or parts.expected,
        "badges": _badges(report),
        "lede": " ".join(
            filter(None, [parts.broken and parts.expected, parts.goal, parts.promise])
        ),
        "tiles": [
            ("caught", f"{tp:,.0f} of {P:,.0f}", caught),
            ("real alarms", f"{tp:,.0f} of {tp + fp:,.0f}", real),
            (f"alarms per {CASES:,} cases", cases["alarms"], alarms),
        ],
        "basis": parts.basis,
        "notes": [note for note in (parts.caution, *report.notes) if note],
    }


def _badges(report: Report) -> list[tuple[str, str]]:
    """Return the state of goal and certificate, by sign and word and not by colour alone."""
    found = []
    if report.goal.constraints:
        met = report.point.feasible
        found.append(("good", "✓ goal met") if met else ("bad", "✗ goal not met"))
    certificate = report.certificate
    if certificate is None:
        found.append(("plain", "no certificate"))
    elif report.broken:
        found.append(("bad", "✗ certificate contradicted"))
    elif certificate.certified:
        found.append(("good", f"✓ certified at {100 * certificate.confidence:g} %"))
    else:
        found.append(("bad", "✗ certification failed"))
    return found


def _goal(report: Report) -> dict[str, str]:
    point, on = report.point, report.rows.on
    reached = f"{called(report.goal.objective.name)} is {shown(point.objective)}."
    if not report.goal.constraints:
        kind, result = "", f"On {on}, {reached}"
    elif missed := missed_levels(point):
        kind, result = "bad", f"✗ Not met on {on}: {'; '.join(missed)}."
    elif point.empty:
        kind, result = "good", f"✓ Met on {on}, but only because there are no alarms; {reached}"
    else:
        kind, result = "good", f"✓ Met on {on}; {reached}"
    return {"words": goal_in_words(report.goal, report.plural), "kind": kind, "result": result}


def _certificate(report: Report) -> dict[str, Any]:
    """Return what is certified about new data, and whether the rows agree with it."""
    certificate = report.certificate
    assert certificate is not None
    return {
        "bounds": _bounds(certificate),
        "choice": f"The threshold {number(certificate.threshold)} {_choice(certificate)}.",
        "hints": _hints(report, certificate),
    }


def _bounds(certificate: Certificate) -> list[list[str]]:
    rows = []
    for bound in certificate.bounds:
        side, best = ("≥", "highest") if bound.metric.direction == "max" else ("≤", "lowest")
        required = best if bound.level is None else f"{side} {plain(bound.level)}"
        draws = ""
        if bound.trials is not None:  # a phone may break the line before it, but not inside
            draws = f" ({bound.successes:,} of {bound.trials:,})".replace(" of ", "\xa0of\xa0")
        known = "unknown"
        if bound.bound is not None:
            known = f"{side}\N{NO-BREAK SPACE}{plain(weaker(bound.metric, bound.bound))}"
            known += "" if bound.kind == "exact" else " (estimate, no guarantee)"
        rows.append([called(bound.metric.name), required, shown(bound.value) + draws, known])
    return rows


def _choice(certificate: Certificate) -> str:
    if certificate.choice == "beforehand":
        return "was fixed before the certification rows were used"
    if not certificate.certified:
        return "came closest to passing; none passed"
    if certificate.choice == "any":
        return "is the best of all thresholds that pass"
    if certificate.tested == 1:
        return "was chosen on other rows"
    return f"is the best that passed of {certificate.tested} planned on other rows"


def _hints(report: Report, certificate: Certificate) -> list[tuple[str, str]]:
    """Return what the rows say about the certificate, as pairs of a class and a sentence."""
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
            f"The share of positives differs: {100 * here:.3g} % on {report.rows.on}, while the "
            f"certificate assumes {100 * assumed:.3g} %. Precision depends on it; "
            f"certificate.at_prevalence({here:.3g}) gives the certificate for this share."
        )
        found.append(("note", text))
    if report.checked is None:
        return found + [("plain", text) for text in [not_compared(report)] if text]
    texts = []
    if not report.broken:
        texts.append(f"The rows of this report ({report.rows.on}) do not contradict it.")
    if certificate.one_per_group:
        texts.append("One row of each group was used.")
    return found + [("plain", " ".join(texts))] * bool(texts)


# --- slider and comparison -----------------------------------------------------------------------


class Row(NamedTuple):
    """A row of a comparison: its label, its name in the script, and the values.

    The first value is that of the chosen threshold, where the slider starts; the baselines follow.
    """

    label: str
    name: str
    values: list[str]


def _explore(contents: Contents) -> dict[str, Any]:
    """Return slider, confusion matrix, metrics, counts, money and the curve."""
    report, point = contents.report, contents.report.point
    stops = contents.steps.stops([contents.chosen]).tolist()
    counts = {name: f"{int(getattr(point, name)):,}" for name in ("tp", "fn", "fp", "tn")}
    false = "1 false alarm" if point.fp == 1 else f"{counts['fp']} false alarms"
    P, chosen = f"{contents.steps.P:,}", number(report.threshold)
    tables = [("Metrics", _metrics(contents)), _counts(report)]
    if report.costs is not None:
        tables.append(_costs(report, Bill(report.costs, report)))
    return {
        "last_stop": len(stops) - 1,
        "stop": stops.index(contents.chosen),
        "chosen": chosen,
        "summary": f"At {chosen}: {counts['tp']} of {P} {report.plural} caught, {false}.",
        "counts": counts,
        "P": P,
        "N": f"{contents.steps.N:,}",
        "names": [baseline.name for baseline, _ in report.baselines],
        "tables": tables,
        "assumed": None if report.costs is None else _prices(report, Bill(report.costs, report)),
        "curve": precision_recall(contents),
        "legend": _curve_legend(report),
        "points": _curve_points(contents),
    }


def _rows(
    report: Report, labels: Mapping[str, str], measure: Callable[[OperatingPoint], dict[str, str]]
) -> list[Row]:
    columns = [measure(point) for point in (report.point, *(p for _, p in report.baselines))]
    return [Row(label, name, [c[name] for c in columns]) for name, label in labels.items()]


def _metrics(contents: Contents) -> list[Row]:
    required = {c.metric.name: c for c in contents.report.goal.constraints}
    labels = {}
    for name in (m.name for m in contents.metrics):
        level = f" (required: {relation(required[name])})" if name in required else ""
        labels[f"metric-{name}"] = called(name) + level

    def measure(point: OperatingPoint) -> dict[str, str]:
        names = [m.name for m in contents.metrics]
        values = {f"metric-{n}": shown(point.value(n), required.get(n)) for n in names}
        return {**values, "met": "✓ met" if point.feasible else "✗ not met"}

    return _rows(contents.report, {**labels, **({"met": "goal"} if required else {})}, measure)


def _counts(report: Report) -> tuple[str, list[Row]]:
    labels = {
        "cases-alarms": "alarms", "cases-tp": "real alarms", "cases-fp": "false alarms",
        "cases-fn": f"missed {report.plural}",
    }  # fmt: skip
    caption = f"Per {CASES:,} such cases ({per_cases(report.point)['positives']} {report.plural})"
    rows = _rows(report, labels, lambda p: {f"cases-{k}": v for k, v in per_cases(p).items()})
    return caption, rows


def _costs(report: Report, bill: Bill) -> tuple[str, list[Row]]:
    labels = {"alarms": "investigating alarms", "misses": f"missed {report.plural}"}
    if bill.costs.catch:
        labels["catches"] = f"caught {report.plural}"
    labels |= {"total": "total", "saved": "saved vs. no model"}
    labels |= {f"gained{i}": f"saved vs. {b.name}" for i, (b, _) in enumerate(report.baselines)}

    def measure(point: OperatingPoint) -> dict[str, str]:
        amounts = bill.of(point).items()
        return {f"money-{k}": money(v, bill.costs.currency, bill.digits) for k, v in amounts}

    rows = _rows(report, {f"money-{name}": text for name, text in labels.items()}, measure)
    return f"Costs per {CASES:,} such cases", rows


def _prices(report: Report, bill: Bill) -> str:
    costs, unit = bill.costs, bill.costs.currency
    text = f"{money(costs.alarm, unit)} per alarm"
    text += (
        f"{',' if costs.catch else ' and'} {money(costs.miss, unit)} per missed {report.singular}"
    )
    if costs.catch:
        gain = "a gain of " if costs.catch < 0 else ""
        text += f" and {gain}{money(abs(costs.catch), unit)} per caught {report.singular}"
    nothing = money(bill.nothing, unit, bill.digits)
    return f"Assuming {text}. Without a model nothing is caught, which costs {nothing}."


def _legend(entries: list[tuple[str, str]]) -> list[tuple[str, Any, str]]:
    return [(kind, swatch(kind), text) for kind, text in entries]


def _curve_legend(report: Report) -> list[tuple[str, Any, str]]:
    levels = {c.metric.name for c in report.goal.constraints} & {"precision", "recall"}
    entries = [("model", "every threshold"), ("chosen", "chosen threshold"), ("here", "slider")]
    if levels:
        entries.append(("floor", "required level"))
    if drawn_bounds(report.certificate):
        entries.append(("bound", "certification rows, with bound"))
    for baseline, _ in report.baselines:
        entries.append(("tuned" if baseline is report.tuned else "baseline", baseline.name))
    return _legend(entries)


def _curve_points(contents: Contents) -> list[list[str]]:
    """Return the curve as a table: the highest threshold that reaches each tenth of recall."""
    steps, report = contents.steps, contents.report
    places = {contents.chosen}
    for tenth in range(1, 11):
        reached = (steps.recall >= tenth / 10 - 1e-12).nonzero()[0]
        if len(reached):  # a positive with a score of -inf is never caught
            places.add(int(reached[-1]))
    rows = []
    for index in sorted(places):
        tp, fp = int(steps.tp[index]), int(steps.fp[index])
        at = number(float(steps.at[index]))
        if index == contents.chosen:
            at = f"◆\N{NO-BREAK SPACE}{number(report.threshold)}"
        precision = shown(float(steps.precision[index])) if tp + fp else "–"
        rows.append([at, shown(float(steps.recall[index])), precision, f"{tp:,}", f"{fp:,}"])
    return rows


# --- scores, training, facts, glossary -----------------------------------------------------------


def _histograms(contents: Contents) -> dict[str, Any]:
    entries = [
        ("positives", f"{contents.report.plural} (upwards)"),
        ("others", "other cases (downwards)"),
        ("cut", "chosen threshold"),
    ]
    beyond = contents.histogram.beyond
    return {"picture": scores(contents), "legend": _legend(entries), "beyond": beyond}


def _training(report: Report) -> dict[str, Any] | None:
    found = report.history
    if found is None or not len(found):
        return None
    objective = called(report.goal.objective.name)
    return {"pictures": history(found, objective), "objective": objective}


def _facts(report: Report) -> dict[str, str]:
    """Return what is needed to make the same page again."""
    _, _, P, N = report.point.counts
    rows = f"{len(report.rows):,} of {report.rows.on}"
    facts = {
        "rows of this report": f"{rows}: {P:,.0f} {report.plural}, {N:,.0f} other cases",
        "goal": str(report.goal),
        "threshold": _exactly(report.threshold),
    }
    for baseline, _ in report.baselines:
        name = "tuned" if baseline is report.tuned else "baseline"
        facts[name] = f"{baseline.name}, threshold {_exactly(baseline.threshold)}"
    known = set(facts)
    for name, value in report.facts.items():
        key = {"random_state": "seed"}.get(name, name).casefold()
        if str(value) not in ("", "None") and key not in known:
            known.add(key)
            facts[name] = str(value)
    return facts


def _exactly(threshold: float) -> str:
    return plain(threshold) if np.isfinite(threshold) else number(threshold)


def _glossary(contents: Contents) -> dict[str, str]:
    report = contents.report
    words = {
        "score": "the number that the model gives to a case; higher means more suspicious",
        "threshold": "the score above which a case raises an alarm; a score equal to it does not",
        "alarm": f"a case that is classified as one of the {report.plural}, correctly or not",
        "confusion matrix": "how many cases of each class are decided correctly and incorrectly",
    }
    for which in contents.metrics:
        words[called(which.name)] = meaning(which, report.plural)
    if not report.rows.chose:
        words["long run"] = (
            "what would be observed on very many such cases. Few rows say little about it: the "
            "interval given contains it in 95 of 100 such studies"
        )
    if report.certificate is not None:
        percent = 100 * (1 - report.certificate.confidence)
        words["certified"] = (
            "shown by an exact statistical test on rows that the model has not seen. At most "
            f"{percent:.3g} of 100 attempts to certify end in a false certificate"
        )
    if report.baselines:
        names = " and ".join(baseline.name for baseline, _ in report.baselines)
        words["baseline"] = f"what the classifier is compared with: {names}"
    return words
