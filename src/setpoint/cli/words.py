"""Tables and endings that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpoint.operating_point import OperatingPoint


def point_table(*points: OperatingPoint | None) -> Any:
    """Return operating points side by side, for a terminal."""
    from rich.table import Table
    from rich.text import Text

    shown = [point for point in points if point is not None]
    goal = shown[0].goal
    names = dict.fromkeys(["precision", "recall", "f1", *(m.name for m in goal.metrics)])
    table = Table(title=Text(str(goal)), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for point in shown:
        table.add_column(Text(f"on {point.on}"), justify="right")  # a file's name is no markup
    for name in names:
        table.add_row(Text(name), *(f"{point.value(name):.3f}" for point in shown))
    for word, count in (
        ("caught", "tp"),
        ("false alarms", "fp"),
        ("missed", "fn"),
        ("passed", "tn"),
    ):
        table.add_row(word, *(f"{getattr(point, count):,.0f}" for point in shown))
    table.add_row("goal met", *(met_in_a_word(point) for point in shown))
    return table


def met(point: OperatingPoint) -> bool:
    """Whether the goal is met, and by more than that there are no alarms."""
    return point.feasible and not point.empty


def met_in_a_word(point: OperatingPoint) -> str:
    """Return whether the goal is met, for a table."""
    if met(point):
        return "yes"
    return "by no alarms" if point.feasible else "no"


def ending(strict: bool, kept: bool) -> None:
    """End with another exit code where that was asked for and something was missed."""
    import typer

    from setpoint.cli.app import MISSED

    if strict and not kept:
        raise typer.Exit(MISSED)
