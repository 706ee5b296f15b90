"""Review bands as tables for a terminal and as JSON, also for rows of one class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpoint.goals.band_metrics import BandMetric
    from setpoint.goals.bands import BandConstraint
    from setpoint.thresholds.bands import BandPoint


def band_table(*points: BandPoint) -> Any:
    """Return a table with the counts and metrics of a band on several data sets."""
    from rich.table import Table
    from rich.text import Text

    from setpoint.thresholds.bands import ALARM, CLEAR, REVIEW, format_value

    last = points[-1]
    levels = {c.metric: c for c in last.goal.constraints}
    table = Table(title=Text(str(last.goal)), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for point in points:
        table.add_column(Text(f"on {point.on}"), justify="right")  # a file name is not markup
    for which in last.metrics:
        values = (
            format_value(point.value(which.name), levels.get(which))
            if is_defined(point, which)
            else "–"
            for point in points
        )
        table.add_row(Text(str(which)), *values)
    for band in (ALARM, REVIEW, CLEAR):
        counts = (_counts(point, band) for point in points)
        name = {ALARM: "alarms", REVIEW: "reviews", CLEAR: "cleared"}[band]
        table.add_row(
            f"{name} (positive, negative)",
            *(f"{sum(both):,.0f} ({both[0]:,.0f}, {both[1]:,.0f})" for both in counts),
        )
    table.add_row("goal met", *(describe_band(point) for point in points))
    return table


def _counts(point: BandPoint, band: str) -> tuple[float, float]:
    return getattr(point, f"{band}_positives"), getattr(point, f"{band}_negatives")


def describe_band(point: BandPoint) -> str:
    """Return whether the goal is met, for a table."""
    met = is_band_met(point)
    if met is None:
        return "cannot be evaluated"
    if met or not point.feasible:
        return "yes" if met else "no"
    sides = {c.metric.side for c in point.goal.constraints if _is_empty(point, c)}
    why = {"alarm": "no alarms", "clear": "nothing cleared"}
    return f"trivially ({' and '.join(why[side] for side in sorted(sides))})"


def is_band_met(point: BandPoint) -> bool | None:
    """Return whether the goal is met, and not only because a side is empty.

    None if the rows are of one class and the goal needs the other.
    """
    constraints = point.goal.constraints
    defined = [c for c in constraints if is_defined(point, c.metric)]
    if any(c in point.missed for c in defined):
        return False
    if len(defined) < len(constraints) or (not constraints and _is_of_one_class(point)):
        return None
    return not point.empty


def band_message(point: BandPoint) -> str:
    """Return a message on whether rows of one class meet the goal."""
    from setpoint.thresholds.bands import format_value

    if is_band_met(point) is None:
        return point.message
    missing = "positives" if point.counts.P == 0 else "negatives"
    values = [
        f"{c.metric} is {format_value(point.value(c.metric.name), c)}"
        for c in point.goal.constraints
        if is_defined(point, c.metric)
    ]
    return (
        f"On {point.on} there are no {missing}; {' and '.join(values)}, so the goal "
        f"'{point.goal}' is {'met' if is_band_met(point) else 'not met'}."
    )


def band_fields(point: BandPoint) -> dict[str, Any]:
    """Return a band for JSON; what rows of one class do not define is None."""
    fields = point.to_dict()
    if not _is_of_one_class(point):
        return fields
    fields["metrics"] = {
        str(m): fields["metrics"][str(m)] if is_defined(point, m) else None for m in point.metrics
    }
    if not is_defined(point, point.goal.objective):
        fields["objective"] = None
    fields |= {"feasible": is_band_met(point), "violation": None}
    return {**fields, "message": band_message(point)}


def is_defined(point: BandPoint, which: BandMetric) -> bool:
    """Return whether the rows define a metric; most metrics need both classes."""
    counts = point.counts
    positives, negatives = bool(counts.P > 0), bool(counts.N > 0)
    alone = {"recall(alarm)": positives, "fnr(clear)": positives, "fpr(alarm)": negatives}
    return alone.get(which.name, positives and negatives)


def _is_of_one_class(point: BandPoint) -> bool:
    return not (point.counts.P > 0 and point.counts.N > 0)


def _is_empty(point: BandPoint, constraint: BandConstraint) -> bool:
    return bool(constraint.metric.is_by_convention(point.counts))
