"""Tables and endings that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpoint.certificates import Certificate
    from setpoint.operating_point import OperatingPoint


def point_table(*points: OperatingPoint | None) -> Any:
    """Return operating points side by side, for a terminal."""
    from rich.table import Table

    shown = [point for point in points if point is not None]
    goal = shown[0].goal
    names = dict.fromkeys(
        [
            "precision",
            "recall",
            "f1",
            goal.objective.name,
            *(c.metric.name for c in goal.constraints),
        ]
    )
    table = Table(title=str(goal), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for point in shown:
        table.add_column(f"on {point.on}", justify="right")
    for name in names:
        table.add_row(name, *(f"{point.value(name):.3f}" for point in shown))
    for word, count in (
        ("caught", "tp"),
        ("false alarms", "fp"),
        ("missed", "fn"),
        ("passed", "tn"),
    ):
        table.add_row(word, *(f"{getattr(point, count):,.0f}" for point in shown))
    table.add_row("goal met", *("yes" if point.feasible else "no" for point in shown))
    return table


def ending(strict: bool, point: OperatingPoint, certificate: Certificate | None) -> None:
    """End with another exit code where that was asked for and something was missed."""
    import typer

    from setpoint.cli.app import MISSED

    kept = point.feasible if certificate is None else certificate.certified
    if strict and not kept:
        raise typer.Exit(MISSED)
