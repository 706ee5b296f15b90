"""The results of several labels as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpoint.report.labels import LabelsReport

MOST_ROWS = 40  # labels in a table


def labels_table(report: LabelsReport) -> Any:
    """Return a table of the labels, the worst first, with micro and macro averages."""
    from rich.table import Table
    from rich.text import Text

    from setpoint.report.labels import value_of
    from setpoint.report.wording import metric_label, value_text

    point = report.point
    title = f"{point.goals}, on {point.on}" + (", the worst first" if len(point.names) > 1 else "")
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("label")
    metrics = report.metrics.values()
    judged, certified = bool(report.judged), report.certificate is not None
    heads = ["positives", "alarms", *(metric_label(m) for m in metrics)]
    heads += [*(["goal met"] if judged else []), *(["certified"] if certified else [])]
    for head in heads:
        table.add_column(Text(head), justify="right")
    for result in report.results[:MOST_ROWS]:
        tp, fp, P, _ = result.point.counts
        levels = {c.metric.name: c for c in result.point.goal.constraints}
        row = [f"{P:,.0f}", f"{tp + fp:,.0f}"]
        row += [value_of(result.point, m, levels.get(m.name)) for m in metrics]
        if judged:
            trivial = result.met is False and result.point.feasible
            row.append(
                "trivially (no alarms)" if trivial
                else {True: "yes", False: "no", None: f"– (no {result.one_class})"}[result.met]
            )  # fmt: skip
        if result.certificate is not None:
            yes = "yes" if result.certificate.certified else "no"
            row.append("contradicted" if result.contradicted else yes)
        table.add_row(Text(result.name), *row)
    if len(report.results) > MOST_ROWS:
        table.add_row(Text(f"… {len(report.results) - MOST_ROWS:,} more labels, none worse"))
    found, false, positives, _ = map(float, point.sums)
    averages = {"micro": point.micro, "macro": point.macro}
    for name, average in averages.items():
        counts = [f"{positives:,.0f}", f"{found + false:,.0f}"] if name == "micro" else ["", ""]
        values = [average(m.name) for m in metrics]
        texts = [
            "–" if v != v else value_text(m, v, "") for v, m in zip(values, metrics, strict=True)
        ]
        table.add_row(Text(f"all labels, {name}"), *counts, *texts)
    return table
