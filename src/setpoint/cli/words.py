"""Tables and endings that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpoint.goals.goal import Constraint
    from setpoint.thresholds.operating_point import OperatingPoint


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
        table.add_row(
            Text(name),
            *(f"{point.value(name):.3f}" if _known(point, name) else "–" for point in shown),
        )
    for word, count in (
        ("caught", "tp"),
        ("false alarms", "fp"),
        ("missed", "fn"),
        ("passed", "tn"),
    ):
        table.add_row(word, *(f"{getattr(point, count):,.0f}" for point in shown))
    table.add_row("goal met", *(met_in_a_word(point) for point in shown))
    return table


def met(point: OperatingPoint) -> bool | None:
    """Whether the goal is met, and by more than that there are no alarms.

    None where one class is missing and the goal asks for something that needs it.
    """
    from setpoint.goals.goal import TOLERANCE

    if missing_class(point) is None:
        return point.feasible and not point.empty
    constraints = point.goal.constraints
    known = [c for c in constraints if _known(point, c.metric.name)]
    if any(c.shortfall(*point.counts) > TOLERANCE for c in known):
        return False
    return not point.empty if known and len(known) == len(constraints) else None


def met_in_a_word(point: OperatingPoint) -> str:
    """Return whether the goal is met, for a table."""
    found = met(point)
    if found is None:
        return "cannot be judged"
    if found:
        return "yes"
    return "by no alarms" if point.feasible else "no"


def missing_class(point: OperatingPoint) -> str | None:
    """Return "positives" or "negatives" where there are none."""
    _, _, P, N = point.counts
    return "positives" if P == 0 else "negatives" if N == 0 else None


def one_class(point: OperatingPoint) -> str:
    """Say what rows of one class tell of the goal."""
    if met(point) is None:
        return point.message
    said = [
        f"{c.metric} is {point.value(c.metric.name):.3f}"
        for c in point.goal.constraints
        if _known(point, c.metric.name)
    ]
    verdict = "met" if point.feasible else "not met"
    return (
        f"On {point.on} there are no {missing_class(point)}; of the others {' and '.join(said)}, "
        f"so the goal '{point.goal}' is {verdict}."
    )


def point_fields(point: OperatingPoint) -> dict[str, Any]:
    """Return an operating point for JSON; what rows of one class cannot tell is None."""
    fields = point.to_dict()
    if missing_class(point) is None:
        return fields
    names = {name: name for name in ("precision", "recall", "f1")}
    names["objective"] = point.goal.objective.name
    fields |= {field: None for field, name in names.items() if not _known(point, name)}
    if met(point) is None:
        fields |= {"feasible": None, "violation": None}
    elif not point.feasible:  # the sum may hold something that is not known
        fields |= {"violation": None}
    return {**fields, "message": one_class(point)}


def counted_as_they_are(point: OperatingPoint, promises: tuple[Constraint, ...]) -> str:
    """Say when a check of promises is not for these rows, where one class is missing."""
    unknown = [f"'{p}'" for p in promises if not _known(point, p.metric.name)]
    if not unknown:
        return ""
    return (
        "The check takes these rows for all cases of some time; if they were picked by their "
        f"label, it says nothing of {' and '.join(unknown)}."
    )


def _known(point: OperatingPoint, name: str) -> bool:
    """Whether a metric means anything there, which of one class most do not."""
    _, _, P, N = point.counts
    needs = {"recall": (P,), "fnr": (P,), "fpr": (N,), "specificity": (N,)}.get(name, (P, N))
    return all(total > 0 for total in needs)


def ending(strict: bool, kept: bool) -> None:
    """End with another exit code where that was asked for and something was missed."""
    import typer

    from setpoint.cli.app import MISSED

    if strict and not kept:
        raise typer.Exit(MISSED)
