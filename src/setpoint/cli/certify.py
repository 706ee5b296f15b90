"""``setpoint certify``: certify a threshold on scores of any model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed, first_imports
from setpoint.cli.output import Output
from setpoint.cli.points import point_table
from setpoint.errors import SetpointError


def certify(
    context: typer.Context,
    data: o.Data,
    label: o.Target,
    score: Annotated[str, o.option(help="Column with the score.")],
    goal: o.GoalText,
    threshold: o.Threshold = None,
    confidence: o.CertifyConfidence = 0.9,
    positive: o.Positive = None,
    group: o.CertifiedGroup = None,
    time: Annotated[str | None, o.option(help="Column of times, for budgets per day.")] = None,
    cap: o.Cap = None,
    baseline_scores: o.BaselineScores = None,
    skip_unlabelled: o.SkipUnlabelled = False,
    seed: o.Seed = 0,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.AlarmCost = None,
    cost_miss: o.MissCost = None,
    currency: o.Currency = "€",
    title: o.Title = None,
    called: o.Called = None,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find the best threshold for given scores that can be certified."""
    from setpoint.cli.output_paths import check_outputs
    from setpoint.cli.reports import ReportRequest, check_costs, costs_of
    from setpoint.data.table_reader import TableFile, read_table
    from setpoint.goals.bands import BandGoal, parse_any_goal
    from setpoint.goals.columns import check_caps
    from setpoint.tables.goal_columns import (
        check_group,
        check_named_roles,
        check_todays_model,
        goal_columns,
        named_columns,
    )

    parsed = parse_any_goal(goal)
    is_band = isinstance(parsed, BandGoal)
    caps = o.caps_of(cap)
    if is_band and (threshold is not None or caps):
        raise SetpointError(
            f"{'--cap' if caps else '--threshold'} is not for a review band: both thresholds of "
            f"'{parsed}' are found here, and its costs are not bounded. certify_band in Python "
            "takes thresholds that are given."
        )
    if not isinstance(parsed, BandGoal):
        check_caps(caps, parsed)
    check_costs(cost_alarm, cost_miss, parsed)
    check_outputs({"the table": data}, report, figures)
    check_group(parsed, group)
    check_todays_model(parsed, baseline_scores)
    named = named_columns(parsed, time)
    check_named_roles(parsed, time, {score: "the column of scores", label: "the column of labels"})
    columns = tuple(
        dict.fromkeys(c for c in (label, score, group, baseline_scores, *named) if c is not None)
    )
    TableFile(data).check_names(columns)
    with first_imports():
        from setpoint.data.label_columns import read_target, scores_of
        from setpoint.report.content import Rows
        from setpoint.tables.todays_model import todays_model_on, todays_scores

        costs = costs_of(cost_alarm, cost_miss, currency)
    request = ReportRequest(data, report, figures, costs, title, called, context.find_root().obj)
    output = Output(as_json, quiet)
    request.note_unused_options(output)
    frame = read_table(data, columns=columns)
    frame = o.only_labelled(frame, [label] if skip_unlabelled else [], output)
    found = read_target(frame[label], positive)
    if found.note:
        output.note(found.note)
    scores = scores_of(frame[score])
    with output.warnings_as_notes():
        certificate = _certify(
            found.y,
            scores,
            parsed,
            {} if is_band else {"threshold": threshold, "caps": caps},
            confidence=confidence,
            groups=None if group is None else frame[group].to_numpy(),
            random_state=seed,
            **goal_columns(frame, parsed, time),
        )
    used = 0 if is_band else int(sum(certificate.operating_point.counts[2:]))
    if group is None and 0 < used < (rows := len(found.y)):
        output.note(
            f"{rows - used:,} of the {rows:,} rows chose the thresholds to test, and the other "
            f"{used:,} certify; counts are those of the latter."
        )
    current, current_point = None, None
    if baseline_scores is not None:
        current, current_point = todays_model_on(
            baseline_scores, todays_scores(frame, baseline_scores), found.y, parsed,
            goal_columns(frame, parsed, time), {}, data.name,
        )  # fmt: skip
    chose = bool(certificate.chosen) if is_band else certificate.choice != "beforehand"
    thresholds = (certificate.low, certificate.high) if is_band else certificate.threshold
    facts = {
        "label": label, "score": score, "group": group, "threshold given": threshold,
        "confidence": confidence, "seed": seed,
    }  # fmt: skip
    output.result_and_files(
        {
            "certificate": certificate.to_dict(),
            "baseline": None if current_point is None else current_point.to_dict(),
            "positive": found.positive,
            "negative": found.negative,
        },
        point_table(certificate.operating_point, current_point),
        str(certificate),
        files=request.files(
            lambda: request.report(
                parsed,
                Rows(
                    found.y,
                    scores,
                    on=data.name,
                    chose=chose,
                    named=goal_columns(frame, parsed, time),
                ),
                thresholds,
                found.positive,
                facts,
                certificate=certificate,
                **({} if current is None else {"current": current}),
            )
        ),
    )
    exit_if_missed(strict, certificate.certified and not certificate.operating_point.empty)


def _certify(y: Any, scores: Any, goal: Any, one_threshold: dict[str, Any], **options: Any) -> Any:
    """Return the certificate of a threshold, with options for it alone, or of a review band."""
    from setpoint.certificates import certify as certify_threshold
    from setpoint.certificates.bands import certify_band
    from setpoint.goals.bands import BandGoal

    if isinstance(goal, BandGoal):
        return certify_band(y, scores, goal, **options)
    return certify_threshold(y, scores, goal, **one_threshold, **options)
