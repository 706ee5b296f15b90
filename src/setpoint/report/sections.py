"""The contents of the page's sections, as plain values for the templates."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from setpoint.certificates.bounds import round_conservatively
from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.goals.goal import format_metric, format_requirement
from setpoint.goals.metrics import display_name, format_number, format_threshold
from setpoint.report.content import Report
from setpoint.report.data import CASES, Bill, Contents, drawn_bounds, money, per_cases
from setpoint.report.drawings import history, precision_recall, scores
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
    """Return the values of all sections."""
    report, certificate = contents.report, contents.report.certificate
    objective, found = display_name(report.goal.objective.name), report.history
    return {
        "opening": _opening(report),
        "goal": _goal(report),
        "bounds": None if certificate is None else _bounds(certificate),
        "choice": None if certificate is None else _choice(certificate),
        "hints": None if certificate is None else _hints(report, certificate),
        "explore": _explore(contents),
        "curve": precision_recall(contents),
        "curve_points": _curve_points(contents),
        "shows_bounds": bool(drawn_bounds(certificate)),
        "scores": scores(contents),
        "beyond": contents.histogram.beyond,
        "objective": objective,
        "training": history(found, objective) if found is not None and len(found) else [],
        "facts": _facts(report),
        "metrics": {display_name(m.name): meaning(m, report.plural) for m in contents.metrics},
    }


# --- opening, goal, certificate ------------------------------------------------------------------


def _opening(report: Report) -> dict[str, Any]:
    """Return the headline, the badges, and the three numbers behind them."""
    parts, point = headline_parts(report), report.point
    tp, fp, P, _ = point.counts
    cases = per_cases(point)
    caught = [f"recall {format_metric(point.recall)}"]
    real = [f"precision {format_metric(point.precision)}" if tp + fp else "no alarms"]
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
    reached = f"{display_name(report.goal.objective.name)} is {format_metric(point.objective)}."
    if not report.goal.constraints:
        kind, result = "", f"On {on}, {reached}"
    elif missed := missed_levels(point):
        kind, result = "bad", f"✗ Not met on {on}: {'; '.join(missed)}."
    elif point.empty:
        kind, result = "good", f"✓ Met on {on}, but only because there are no alarms; {reached}"
    else:
        kind, result = "good", f"✓ Met on {on}; {reached}"
    return {"words": goal_in_words(report.goal, report.plural), "kind": kind, "result": result}


def _bounds(certificate: Certificate) -> list[list[str]]:
    rows = []
    for bound in certificate.bounds:
        side, best = ("≥", "highest") if bound.metric.direction == "max" else ("≤", "lowest")
        required = best if bound.level is None else f"{side} {format_number(bound.level)}"
        draws = ""
        if bound.trials is not None:  # a phone may break the line before it, but not inside
            draws = f" ({bound.successes:,} of {bound.trials:,})".replace(" of ", "\xa0of\xa0")
        known = "unknown"
        if bound.bound is not None:
            rounded = round_conservatively(bound.metric, bound.bound)
            known = f"{side}\N{NO-BREAK SPACE}{format_number(rounded)}"
            known += "" if bound.kind == "exact" else " (estimate, no guarantee)"
        rows.append(
            [display_name(bound.metric.name), required, format_metric(bound.value) + draws, known]
        )
    return rows


def _choice(certificate: Certificate) -> str:
    """Return how the threshold was chosen, as the end of a sentence."""
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


# --- slider, comparison, facts -------------------------------------------------------------------


def _explore(contents: Contents) -> dict[str, Any]:
    """Return the slider, and tables of numbers at the chosen threshold and of the baselines."""
    report, costs = contents.report, contents.report.costs
    stops = contents.steps.stops([contents.chosen]).tolist()
    bill = None if costs is None else Bill(costs, report)
    points = [report.point, *(point for _, point in report.baselines)]
    columns = [_numbers(contents, bill, point) for point in points]
    required = {c.metric.name: format_requirement(c) for c in report.goal.constraints}
    metrics = {f"metric-{m.name}": display_name(m.name) for m in contents.metrics}
    for name, level in required.items():
        metrics[f"metric-{name}"] += f" (required: {level})".replace(
            f"{level[0]} ", f"{level[0]}\xa0"
        )
    counts = {
        "cases-alarms": "alarms", "cases-tp": "real alarms", "cases-fp": "false alarms",
        "cases-fn": f"missed {report.plural}",
    }  # fmt: skip
    such = f"{CASES:,} such cases"
    tables = {
        "Metrics": {**metrics, **({"met": "goal"} if required else {})},
        f"Per {such} ({columns[0]['cases-positives']} {report.plural})": counts,
    }
    if costs is not None:
        labels = {"money-alarms": "investigating alarms", "money-misses": f"missed {report.plural}"}
        if costs.catch:
            labels["money-catches"] = f"caught {report.plural}"
        labels |= {"money-total": "total", "money-saved": "saved vs. no model"}
        for i, (baseline, _) in enumerate(report.baselines):
            labels[f"money-gained{i}"] = f"saved vs. {baseline.name}"
        tables[f"Costs per {such}"] = labels
    return {
        "last_stop": len(stops) - 1,
        "stop": stops.index(contents.chosen),
        "threshold": format_threshold(report.threshold),
        "P": f"{contents.steps.P:,}",
        "N": f"{contents.steps.N:,}",
        "names": [baseline.name for baseline, _ in report.baselines],
        "columns": columns,
        "tables": tables,
        "bill": bill,
    }


def _numbers(contents: Contents, bill: Bill | None, point: OperatingPoint) -> dict[str, str]:
    """Return all numbers of a point, by their names in the script, which writes them alike."""
    required = {c.metric.name: c for c in contents.report.goal.constraints}
    names = [m.name for m in contents.metrics]
    found = {name: f"{int(getattr(point, name)):,}" for name in ("tp", "fn", "fp", "tn")}
    found |= {
        f"metric-{name}": format_metric(point.value(name), required.get(name)) for name in names
    }
    found["met"] = "✓ met" if point.feasible else "✗ not met"
    found |= {f"cases-{name}": text for name, text in per_cases(point).items()}
    if bill is not None:
        write = partial(money, currency=bill.costs.currency, digits=bill.digits)
        found |= {f"money-{name}": write(amount) for name, amount in bill.of(point).items()}
    false = "1 false alarm" if point.fp == 1 else f"{found['fp']} false alarms"
    caught = f"{found['tp']} of {contents.steps.P:,} {contents.report.plural} caught"
    found["summary"] = f"At {format_threshold(point.threshold)}: {caught}, {false}."
    return found


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
        at = format_threshold(float(steps.at[index]))
        if index == contents.chosen:
            at = f"◆\N{NO-BREAK SPACE}{format_threshold(report.threshold)}"
        precision = format_metric(float(steps.precision[index])) if tp + fp else "–"
        rows.append(
            [at, format_metric(float(steps.recall[index])), precision, f"{tp:,}", f"{fp:,}"]
        )
    return rows


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
    return format_number(threshold) if np.isfinite(threshold) else format_threshold(threshold)
