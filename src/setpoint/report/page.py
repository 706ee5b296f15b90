"""The report as one HTML file that makes no network requests.

The page is complete before any script runs: pictures are drawn as SVG, and a small script moves a
marker in them. Every number can be read by a screen reader and by a test. A page has about 100 to
400 KB.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from setpoint.errors import SetpointError
from setpoint.explain.coefficients import coefficients_or_none
from setpoint.explain.explanations import Explanations
from setpoint.goals.bands import BandGoal
from setpoint.goals.budgets import is_count
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_threshold
from setpoint.goals.money import is_money
from setpoint.report.band_page import band_html
from setpoint.report.bands import BandReport, band_headline_parts
from setpoint.report.calibration import calibration_section
from setpoint.report.certificate_sentences import (
    CERTIFIED,
    NOT_CERTIFIED,
    certified_range,
    comparison_with_rows,
    other_prevalence,
    threshold_choice,
)
from setpoint.report.content import Report, Rows
from setpoint.report.data import ReportData, drawn_bounds, per_cases
from setpoint.report.drawings import (
    CURVE,
    draw_history,
    draw_precision_recall,
    draw_scores,
    scores_frame,
)
from setpoint.report.goal_wording import goal_in_words, meaning
from setpoint.report.labels import LabelsReport, labels_headline
from setpoint.report.labels_page import labels_html
from setpoint.report.money import CASES, Bill, money
from setpoint.report.rendering import (
    badges_of,
    bounds_table,
    exactly,
    facts_of,
    goal_section,
    opening,
    render,
    write_page,
)
from setpoint.report.sections import cheaper_baselines, sections, tiles
from setpoint.report.sentences import (
    better_baselines,
    describe_metric,
    headline_parts,
    margin,
    missed_levels,
    trivially,
)
from setpoint.report.why import reasons
from setpoint.report.wording import metric_label
from setpoint.thresholds.operating_point import OperatingPoint

AnyReport = Report | BandReport | LabelsReport


def html(report: AnyReport) -> str:
    """Return the page."""
    if isinstance(report, BandReport):
        return band_html(report)
    return labels_html(report) if isinstance(report, LabelsReport) else _html(report)


def summary(report: AnyReport, *, with_certificate: bool = True) -> str:
    """Return the main results in plain sentences, with or without those on the certificate."""
    if isinstance(report, BandReport):
        parts = band_headline_parts(report)
    elif isinstance(report, LabelsReport):
        parts = labels_headline(report)
    else:
        parts = headline_parts(report)
    return " ".join(filter(None, parts if with_certificate else parts._replace(certificate="")))


def write_report(report: AnyReport, path: str | Path) -> Path:
    """Write the page to a file, in one step: a failure leaves the former file as it was."""
    return write_page(html(report), path)


def write_report_of(
    classifier: Any, path: str | Path, X: Any = None, y: Any = None, **options: Any
) -> Path:
    """Write the page about a fitted classifier; parameters as in :func:`report_of`."""
    return write_report(report_of(classifier, X, y, **options), path)


def report_of(
    classifier: Any,
    X: Any = None,
    y: Any = None,
    *,
    groups: Any = None,
    amounts: Any = None,
    segments: Any = None,
    times: Any = None,
    **options: Any,
) -> Report | BandReport:
    """Return the report of a fitted SetpointClassifier, SetpointThreshold or SetpointBand.

    ``X`` and ``y`` are labelled rows that are new to the classifier, with their ``groups`` if the
    certificate is about one case of each group, and the ``amounts``, ``segments`` and ``times``
    that the goal names. Without them the report is about the rows on which the threshold was
    chosen. ``options`` are further fields of :class:`~setpoint.report.Report` or
    :class:`~setpoint.report.BandReport`.
    """
    check_is_fitted(
        classifier,
        "operating_point_",
        msg="this %(name)s is not fitted yet: call fit(X, y) before report().",
    )
    if (X is None) != (y is None):
        raise SetpointError("a report on other rows needs both X and y.")
    certificate, is_band = classifier.certificate_, isinstance(classifier.goal_, BandGoal)
    if X is not None:
        given = {"amounts": amounts, "segments": segments, "times": times}
        named = classifier.pooled({name: g for name, g in given.items() if g is not None})
        positive, scores = classifier._labels.is_positive(y), classifier._scores_of(X, named)
        rows = Rows(
            positive, scores, on="the rows given", unseen=True, named=named,
            probability=classifier.probabilities_of(scores),
        )  # fmt: skip
        checked = certificate is not None and certificate.certified and certificate.can_be_checked
        if groups is not None and checked:
            verdict = certificate.check(rows.y, rows.scores, pos_label=True, groups=groups, **named)
            options.setdefault("verdict", verdict)
    else:
        labelled = getattr(classifier, "_threshold_rows", None)
        if labelled is None or (is_band and classifier.goal_.amounts):
            raise SetpointError(
                "a model file does not contain the rows on which the threshold was chosen, and a "
                "review band does not keep their amounts; give report() labelled rows, X and y."
            )
        positive, scores = labelled
        # Counted as they are: cross-fitted counts are not those of any threshold.
        chosen = classifier._chosen_point or classifier.operating_point_
        columns = getattr(classifier, "_threshold_columns", None) or {}
        rows = Rows(
            positive, scores, on=chosen.on, chose=True, named=columns,
            probability=classifier.probabilities_of(scores),
        )  # fmt: skip
    options.setdefault("positive", str(classifier.pos_label_))
    if "why" not in options:
        options["why"] = Explanations(coefficients_or_none(classifier, X))
    if is_band:
        band = classifier.low_, classifier.high_
        return BandReport(classifier.goal_, rows, *band, certificate=certificate, **options)
    fields = {
        "certificate": certificate,
        **choice_of(classifier),
        "history": getattr(classifier, "history_", None),
        "candidates": getattr(classifier, "candidates_", None),
        "decisions": getattr(classifier, "decisions_", None),
        "segment_thresholds": getattr(classifier, "segment_thresholds_", None),
    }
    threshold = classifier.operating_point_.threshold
    return Report(classifier.goal_, rows, threshold, **{**fields, **options})


def choice_of(classifier: Any) -> dict[str, Any]:
    """Return how an uncertified threshold was chosen, as fields of a report."""
    if classifier.certificate_ is not None:
        return {}
    point = classifier.held_out_point()
    if not point.feasible:
        return {"closest": point}
    return {"caution": classifier.caution if point.goal.constraints else 0.0}


# --- the page on one threshold --------------------------------------------------------------------


def _html(report: Report) -> str:
    """Return the page."""
    data, certificate = ReportData(report), report.certificate
    parts, prevalence = headline_parts(report), other_prevalence(report)
    closest = "" if report.closest is None else report.closest.message
    script_data = data.for_script()
    script_data["verdicts"] = [NOT_CERTIFIED, CERTIFIED]
    script_data["frames"] = {"curve": CURVE.corners, "scores": scores_frame(data.histogram).corners}
    objective, history = metric_label(report.goal.objective), report.history
    return render(
        "page.html",
        ("page.js",),
        report=report,
        description=" ".join(filter(None, parts)),
        data=script_data,
        opening=opening(
            parts,
            badges_of(report),
            tiles(report),
            (closest, prevalence if report.broken else "", *report.notes),
        ),
        goal=_goal(report),
        bounds=bounds_table(report),
        remarks=_remarks(report),
        prevalence="" if report.broken else prevalence,
        comparison=comparison_with_rows(report),
        explore=_explore(data),
        baselines=[baseline.name for baseline, _ in report.baselines],
        certified=certified_range(report),
        curve=draw_precision_recall(data),
        curve_points=_curve_points(data),
        shows_bounds=bool(drawn_bounds(certificate)),
        scores=draw_scores(data),
        beyond=data.histogram.beyond,
        calibration=calibration_section(report, data.histogram),
        shows_band=data.band is not None,
        objective=objective,
        training=draw_history(history, objective) if history else [],
        facts=_facts(report),
        candidates_meaning=getattr(report.candidates, "meaning", ""),
        metrics={
            metric_label(line.metric): meaning(line.metric, report.terms)
            for line in data.lines
            if line.metric is not None
        },
        required=any(
            c.metric.name in ("precision", "recall") and not c.each for c in report.goal.constraints
        ),
        **sections(report),
        **reasons(report.why),
    )


def _remarks(report: Report) -> list[tuple[str, str]]:
    """Return how the certified threshold was chosen, and which others may be used."""
    certificate = report.certificate
    if certificate is None:
        return []
    threshold = format_threshold(certificate.threshold)
    text = f"The threshold {threshold} {threshold_choice(certificate)}."
    thresholds = certificate.certified_thresholds
    if certified_range(report) and not thresholds.is_one_threshold:
        allowed = str(thresholds).replace("-", "−")
        text += f" All of these are certified together, and any of them may be used: {allowed}."
    return [("", text)]


def _goal(report: Report) -> dict[str, str]:
    objective = report.point.goal.objective
    reached = f"{metric_label(objective)} is {format_metric(report.point.objective)}"
    if is_money(objective) or is_count(objective):
        reached = describe_metric(report, objective)
    text = goal_in_words(report.goal, report.terms)
    found = goal_section(report, text, reached, missed_levels(report), trivially(report))
    use = f"Raise an alarm where the score is above {format_threshold(report.threshold)}."
    return {**found, "use": "" if report.broken else use}


def _explore(data: ReportData) -> dict[str, Any]:
    """Return the slider, and tables of numbers at the chosen threshold and of the baselines."""
    report, costs = data.report, data.costs
    stops = data.steps.stops([data.chosen]).tolist()
    bill = None if costs is None else Bill(costs, report)
    points = [report.point, *(point for _, point in report.baselines)]
    columns = [_numbers(data, bill, point) for point in points]
    metrics = {
        f"metric-{line.key}": line.label + (f" (required: {line.required})" if line.level else "")
        for line in data.lines
    }
    counts = {
        "cases-alarms": "alarms", "cases-tp": "real alarms", "cases-fp": "false alarms",
        "cases-fn": f"missed {report.plural}",
    }  # fmt: skip
    such = f"{CASES:,} such cases"
    tables = {
        "Metrics": {**metrics, **({"met": "goal"} if report.goal.constraints else {})},
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
        "stop": stops.index(data.chosen),
        "threshold": format_threshold(report.threshold),
        "bands": _bands([data.thresholds[stop] in data.certified for stop in stops]),
        "P": f"{data.steps.P:,}",
        "N": f"{data.steps.N:,}",
        "names": [baseline.name for baseline, _ in report.baselines],
        "columns": columns,
        "tables": tables,
        "bill": bill,
        "cheaper": cheaper_baselines(report, bill),
        "better": better_baselines(report),
        "margin": margin(report),
    }


def _bands(certified: list[bool]) -> list[tuple[float, float]]:
    """Return start and length of every run of certified stops, half a stop wider on both sides."""
    bands, last, start = [], len(certified) - 1, 0
    for is_certified, run in groupby(certified):
        end = start + len(list(run))
        if is_certified:
            left, right = max(start - 0.5, 0.0), min(end - 0.5, float(last))
            bands.append((left, right - left))
        start = end
    return bands


def _numbers(data: ReportData, bill: Bill | None, point: OperatingPoint) -> dict[str, str]:
    """Return all numbers of a point, by their names in the script, which writes them alike."""
    found = {name: f"{int(getattr(point, name)):,}" for name in ("tp", "fn", "fp", "tn")}
    found |= {f"metric-{line.key}": line.text(point) for line in data.lines}
    met = "✓ met: no alarms" if point.empty else "✓ met"
    found["met"] = met if point.feasible else "✗ not met"
    found["certified"] = CERTIFIED if point.threshold in data.certified else NOT_CERTIFIED
    found |= {f"cases-{name}": text for name, text in per_cases(point).items()}
    if bill is not None:
        write = partial(money, currency=bill.costs.currency, digits=bill.digits)
        found |= {f"money-{name}": write(amount) for name, amount in bill.of(point).items()}
    false = "1 false alarm" if point.fp == 1 else f"{found['fp']} false alarms"
    caught = f"{found['tp']} of {data.steps.P:,} {data.report.plural} caught"
    found["summary"] = f"At {format_threshold(point.threshold)}: {caught}, {false}."
    return found


def _curve_points(data: ReportData) -> list[list[str]]:
    """Return the curve as a table: the highest threshold that reaches each tenth of recall."""
    steps, report = data.steps, data.report
    places = {data.chosen}
    for tenth in range(1, 11):
        reached = (steps.recall >= tenth / 10 - 1e-12).nonzero()[0]
        if len(reached):  # a positive with a score of -inf is never caught
            places.add(int(reached[-1]))
    rows = []
    for index in sorted(places):
        tp, fp = int(steps.tp[index]), int(steps.fp[index])
        at = format_threshold(float(steps.at[index]))
        if index == data.chosen:
            at = f"◆\N{NO-BREAK SPACE}{format_threshold(report.threshold)}"
        precision = format_metric(float(steps.precision[index])) if tp + fp else "–"
        rows.append(
            [at, format_metric(float(steps.recall[index])), precision, f"{tp:,}", f"{fp:,}"]
        )
    return rows


def _facts(report: Report) -> dict[str, str]:
    facts = {"threshold": exactly(report.threshold)}
    for baseline, _ in report.baselines:
        name = "tuned" if baseline is report.tuned else "baseline"
        name = "today's model" if baseline is report.current else name
        facts[name] = f"{baseline.name}, threshold {exactly(baseline.threshold)}"
    return facts_of(report, facts)
