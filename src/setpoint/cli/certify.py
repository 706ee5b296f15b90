"""``setpoint certify``: scores from anywhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output
from setpoint.cli.words import ending, point_table


def certify(
    data: o.Data,
    label: Annotated[str, typer.Option(help="The column with the label.", show_default=False)],
    score: Annotated[str, typer.Option(help="The column with the score.", show_default=False)],
    goal: o.GoalText,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Certify this threshold, chosen beforehand on other rows.",
            show_default="the best that can be promised",
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="How surely.")] = 0.9,
    positive: o.Positive = None,
    group: o.Group = None,
    seed: o.Seed = 0,
    report: o.Report = None,
    figures: o.Figures = None,
    cost_alarm: o.CostOfAlarm = None,
    cost_miss: o.CostOfMiss = None,
    currency: o.Currency = "€",
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Find the best threshold of given scores that can be promised, and say what is promised."""
    from setpoint import certificates
    from setpoint.cli.reports import costs_of, report_of_scores, write
    from setpoint.goals import Goal
    from setpoint.tabular.files import read_table
    from setpoint.tabular.target import read_target, scores_of

    parsed = Goal.parse(goal)
    costs = costs_of(cost_alarm, cost_miss, currency)
    output = Output(as_json, quiet)
    columns = tuple(dict.fromkeys(c for c in (label, score, group) if c is not None))
    frame = read_table(data, columns=columns)
    found = read_target(frame[label], positive)
    scores = scores_of(frame[score])
    with output.warnings_as_notes():
        certificate = certificates.certify(
            found.y,
            scores,
            parsed,
            threshold=threshold,
            confidence=confidence,
            groups=None if group is None else frame[group].to_numpy(),
            random_state=seed,
        )
    written = []
    if report or figures:
        content = report_of_scores(found.y, scores, found.positive, certificate, data, costs)
        written = write(content, report, figures)
    output.result(
        {
            "certificate": certificate.to_dict(),
            "report": None if report is None else str(report),
        },
        point_table(certificate.operating_point),
        str(certificate),
        *written,
    )
    ending(strict, certificate.operating_point, certificate)


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(certify)
