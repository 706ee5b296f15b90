"""The columns of a table that a goal names: amounts, segments and the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import as_text, did_you_mean, listed, quoted
from setpoint.data.values import (
    check_present,
    dates,
    is_present,
    numbers,
    without_categories,
    without_zones,
)
from setpoint.errors import SchemaError, SetpointError
from setpoint.goals.bands import AnyGoal, BandGoal
from setpoint.goals.periods import longest_of
from setpoint.goals.tallies import quoted_name
from setpoint.tables.kinds import column_of

NO_VALUE = "(missing)"  # the segment of rows whose own is missing


def named_columns(goal: AnyGoal, time: str | None) -> list[str]:
    """Return the columns that a goal needs besides those of the model."""
    if goal.periods and time is None:
        raise SchemaError(
            f"the goal '{goal}' is per {goal.periods[0]}; name the column of times with --time "
            "(time=)."
        )
    return [*goal.amounts, *goal.segments, *([time] if goal.periods and time else [])]


def check_group(goal: AnyGoal, group: str | None) -> None:
    """Raise SchemaError for groups of rows and a goal with a budget per period."""
    if goal.periods and group is not None:
        period = longest_of(goal.periods)
        raise SchemaError(
            f"the goal '{goal}' has a budget per {period}, which is about all rows of whole "
            f"{period}s; rows of one {group!r} on several {period}s cannot be kept together, or be "
            "represented by one of them, as well; leave out --group (group=)."
        )


def check_todays_model(goal: AnyGoal, column: str | None) -> None:
    """Raise SetpointError for a goal that today's scores cannot be compared for."""
    if column is not None and isinstance(goal, BandGoal):
        raise SetpointError(
            f"scores of today's model are compared at one threshold, and '{goal}' is the goal of a "
            "review band; leave out --baseline-scores (baseline_scores=)."
        )


def check_named(goal: AnyGoal, time: str | None, names: list[str]) -> None:
    """Raise SchemaError unless a table has the columns that a goal names."""
    for name in named_columns(goal, time):
        if name not in names:
            raise SchemaError(
                f"the goal '{goal}' names {name!r}, and the table has {listed(names)}."
                f"{did_you_mean(name, names)}"
            )


def check_named_roles(goal: AnyGoal, time: str | None, roles: Mapping[str, str]) -> None:
    """Raise SchemaError if a goal names the target or the score, which would leak into decisions.

    Parameters
    ----------
    goal : Goal or BandGoal
        The goal.
    time : str or None
        The column of times.
    roles : mapping of str to str
        Columns that a goal cannot name, and what they are.
    """
    uses = {
        "amounts": goal.amounts,
        "segments": goal.segments,
        "times": [time] if goal.periods and time is not None else [],
    }
    for use, names in uses.items():
        for name in names:
            if name in roles:
                raise SchemaError(
                    f"the goal '{goal}' takes {use} from {name!r}, which is {roles[name]}. "
                    "Amounts, segments and times cannot depend on labels or scores; name another "
                    "column."
                )


def goal_columns(frame: Any, goal: AnyGoal, time: str | None = None) -> dict[str, Any]:
    """Return the amounts, segments and times of a table's rows, as the estimators take them."""
    check_named(goal, time, list(frame.columns))
    found: dict[str, Any] = {}
    if goal.amounts:
        found["amounts"] = {name: _amounts(frame[name]) for name in goal.amounts}
    if goal.segments:
        found["segments"] = {name: segments_of(frame[name]) for name in goal.segments}
    if goal.periods and time is not None:
        found["times"] = calendar_times(frame[time])
    return found


def decision_values(frame: Any, goal: AnyGoal, wanted: Collection[str]) -> dict[str, Any]:
    """Return those amounts and segments of a table's rows that decisions need."""
    return {
        "amounts": {name: _amounts(frame[name]) for name in goal.amounts if name in wanted},
        "segments": {name: segments_of(frame[name]) for name in goal.segments if name in wanted},
    }


def take(named: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Return the columns of some rows."""
    return {
        kind: {name: column[rows] for name, column in columns.items()}
        if isinstance(columns, dict)
        else columns[rows]
        for kind, columns in named.items()
    }


def _amounts(series: Any) -> NDArray[np.float64]:
    name, series = str(series.name), without_categories(series)
    column = column_of(series)
    if column.kind in ("boolean", "date"):
        raise SchemaError(f"{name!r} holds {column.kind}s, and amounts are numbers.")
    # Other texts than those that always count as missing are mistakes here.
    values, bad = numbers(series, fmt=column.format if column.kind == "number" else None)
    values = np.asarray(values, dtype=np.float64)
    sign = f"-1*{quoted_name(name)}"
    worth = "Fill in what such a row is worth, or drop it"
    for wrong, what, remedy in (
        (bad, "is not a number", worth),
        (np.isnan(values), "is missing", worth),
        (np.isinf(values), "is too large", worth),
        (values < 0, "is negative", f"Give its size, and write the sign in the goal: {sign}"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            which = "it" if what == "is missing" else quoted(series.iloc[row])
            raise SchemaError(
                f"an amount must be a number of at least 0: in row {row + 1:,} of {name!r} "
                f"{which} {what} ({int(wrong.sum()):,} such). {remedy}."
            )
    return values


def segments_of(series: Any) -> NDArray[np.object_]:
    """Return the segment of each row as text; a missing one is a segment of its own."""
    series = without_categories(series)
    texts = np.array([as_text(value) for value in series], dtype=object)
    texts[~np.asarray(is_present(series))] = NO_VALUE
    return texts


def calendar_times(series: Any) -> NDArray[Any]:
    """Return times as they are written, without their time zones, or as numbers of days.

    A day is that of the place where the time was written down, whatever its offset from UTC. Of a
    column with a time zone, as in Parquet files, it is the day in this zone.
    """
    series = without_categories(series)
    if len(series) == 0:
        raise SchemaError(f"there are no rows, so {str(series.name)!r} has no times.")
    remedy = "periods need the time of every row. Fill it in, or drop such rows."
    check_present(series, "times", SchemaError, remedy)
    written = without_zones(series)
    column = column_of(written)
    if column.kind == "number":
        days = np.asarray(numbers(written, column.missing, column.format).values)
        _check_times(series, ~np.isfinite(days), "finite number of days")
        return days
    if column.kind != "date":
        _, wrong = dates(written, None, None)
        row = int(np.argmax(wrong))
        raise SchemaError(
            f"{str(series.name)!r} has values that are neither dates nor numbers of days, e.g. "
            f"{quoted(series.iloc[row])} in row {row + 1:,}; write dates as 2024-12-31 or "
            "2024-12-31 23:59:59."
        )
    times, bad = dates(written, column.format, column.zone)
    _check_times(series, bad, "time")
    if times.dt.tz is not None:  # 31-12-2024 looks as if it had one
        times = times.dt.tz_localize(None)
    return np.asarray(times.to_numpy(), dtype="datetime64[s]")


def _check_times(series: Any, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise SchemaError(
            f"{quoted(series.iloc[row])} in row {row + 1:,} of {str(series.name)!r} is not a "
            f"{what}; correct it, or drop such rows."
        )
