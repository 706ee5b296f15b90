"""Operating points as tables for a terminal and as JSON, also for rows of one class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setpoint.cli import band_points as bands

if TYPE_CHECKING:
    from setpoint.goals.metrics import Metric
    from setpoint.thresholds.operating_point import OperatingPoint

_COUNTS = {"caught": "tp", "false alarms": "fp", "missed": "fn", "passed": "tn"}


def point_table(*points: Any) -> Any:
    """Return a table with operating points side by side."""
    from rich.table import Table
    from rich.text import Text

    from setpoint.goals.goal import format_metric
    from setpoint.report.wording import metric_label

    columns = [point for point in points if point is not None]
    if _is_band(columns[-1]):
        return bands.band_table(*columns)
    goal = columns[-1].goal
    metrics, omitted = columns[-1].listed_metrics()
    levels = {c.metric.name: c for c in goal.constraints}
    table = Table(title=Text(str(goal)), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for point in columns:
        table.add_column(Text(f"on {point.on}"), justify="right")  # a file name is not markup
    for which in metrics:
        own = (_metric_of(point, which) for point in columns)
        values = (
            "–" if m is None else format_metric(p.value(m.name), levels.get(m.name), m)
            for p, m in zip(columns, own, strict=True)
        )
        table.add_row(Text(metric_label(which)), *values)
    if omitted:
        table.add_row(Text(f"… {omitted:,} more segments, none of them worse"))
    for label, count in _COUNTS.items():
        table.add_row(label, *(f"{getattr(point, count):,.0f}" for point in columns))
    table.add_row("goal met", *(describe_met(point) for point in columns))
    return table


def is_met(point: Any) -> bool | None:
    """Return whether the goal is met, and not only because there are no alarms.

    None if the rows are of one class and the goal needs the other.
    """
    if _is_band(point):
        return bands.is_band_met(point)
    if missing_class(point) is None:
        return bool(point.feasible and not point.empty)
    constraints = point.goal.constraints
    defined = [c for c in constraints if _is_defined(point, c.metric.name)]
    if any(c in point.missed for c in defined):
        return False
    return not point.empty if defined and len(defined) == len(constraints) else None


def describe_met(point: Any) -> str:
    """Return whether the goal is met, for a table."""
    met = is_met(point)
    if met is None:
        return "cannot be evaluated"
    return "yes" if met else "trivially (no alarms)" if point.feasible else "no"


def missing_class(point: Any) -> str | None:
    """Return "positives" or "negatives" if there are none."""
    P, N = (point.counts.P, point.counts.N) if _is_band(point) else point.counts[2:]
    return "positives" if P == 0 else "negatives" if N == 0 else None


def one_class_message(point: Any) -> str:
    """Return a message on whether rows of one class meet the goal."""
    if _is_band(point):
        return bands.band_message(point)
    if is_met(point) is None:
        return str(point.message)
    from setpoint.goals.goal import describe_value

    values = [
        describe_value(c.metric, point.value(c.metric.name), c)
        for c in point.goal.constraints
        if _is_defined(point, c.metric.name)
    ]
    return (
        f"On {point.on} there are no {missing_class(point)}; {' and '.join(values)}, so the goal "
        f"'{point.goal}' is {'met' if point.feasible else 'not met'}."
    )


def listed_values(point: Any) -> dict[str, float]:
    """Return the metrics of a point that its rows define, by name."""
    listed = point.metrics if _is_band(point) else point.listed_metrics()[0]
    return {m.name: float(point.value(m.name)) for m in listed if _is_defined(point, m.name)}


def point_fields(point: Any) -> dict[str, Any]:
    """Return an operating point for JSON; what rows of one class do not define is None."""
    if _is_band(point):
        return bands.band_fields(point)
    fields: dict[str, Any] = point.to_dict()
    if missing_class(point) is None:
        return fields
    names = {name: name for name in ("precision", "recall", "f1")}
    names["objective"] = point.goal.objective.name
    fields |= {field: None for field, name in names.items() if not _is_defined(point, name)}
    if is_met(point) is None:
        fields |= {"feasible": None, "violation": None}
    elif not point.feasible:  # the sum may contain an undefined term
        fields |= {"violation": None}
    return {**fields, "message": one_class_message(point)}


def one_class_caution(point: Any, certified: tuple[Any, ...]) -> str:
    """Return which certified constraints rows of one class may not test; "" if they test all."""
    undefined = [f"'{c}'" for c in certified if not _is_defined(point, c.metric.name)]
    if not undefined:
        return ""
    return (
        "The check assumes that these rows are all cases of some period; if they were selected by "
        f"label, it does not apply to {', '.join(undefined)}."
    )


def _metric_of(point: OperatingPoint, which: Metric) -> Metric | None:
    """Return a metric as the goal of a point has it; None if the rows do not define it.

    Points on other rows have other periods and may lack a segment.
    """
    own = next((m for m in point.goal.metrics if m.name == which.name), None)
    if own is None and which.tallies[0].segment:
        return None
    return (own or which) if _is_defined(point, which.name) else None


def _is_band(point: Any) -> bool:
    from setpoint.thresholds.bands import BandPoint

    return isinstance(point, BandPoint)


def _is_defined(point: Any, name: str) -> bool:
    """Return whether the rows define a metric; most metrics need both classes."""
    from setpoint.goals.metrics import metric

    if _is_band(point):
        which = next(m for m in point.metrics if m.name == name)
        return bands.is_defined(point, which)
    _, _, P, N = point.counts
    which = next((m for m in point.goal.metrics if m.name == name), None) or metric(name)
    needs = {"positives": (P,), "negatives": (N,)}.get(str(which.population), (P, N))
    return all(total > 0 for total in needs)
