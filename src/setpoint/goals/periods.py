"""Periods of time, such as days: which period each row belongs to, and which are incomplete.

Times are dates or times of any kind that numpy or pandas knows, ISO texts, or numbers. Numbers
count days from 0, as in a column ``TX_TIME_DAYS``: 0.5 is noon of day 0, and 7.0 begins week 1.
Times are taken as they are written: a time zone is dropped and not converted, so that a day is the
day of the place where the time was written down. Weeks begin on Monday, or with day 0, 7, 14, ...
of numbers.

A period without rows is not a period, unless it is asked for with ``every=True``: then all periods
between the first and the last count. Whether a day without rows is a day without alarms (a holiday)
or a day on which nothing was recorded is not in the data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.errors import GoalError, SetpointError

PERIODS = ("hour", "day", "week", "month")
_MICROSECONDS = {"hour": 3_600_000_000, "day": 86_400_000_000, "week": 7 * 86_400_000_000}
_MOST_DAYS = 1e6
_MONDAY = 4 * 86_400_000_000  # 1970-01-05, in microseconds since 1970-01-01


@dataclass(frozen=True)
class Periods:
    """The period of each row.

    Attributes
    ----------
    codes : ndarray of int, shape (n,)
        0, 1, ... in the order of time.
    names : tuple of str
        The name of each period, e.g. "2024-03-01", "2024-03-01 14 h", "week of 2024-02-26",
        "2024-03" or, for numbers, "day 17".
    partial : ndarray of bool, shape (len(names),)
        Whether a period is only partly covered by the rows. This concerns the first and the last
        one: the time between its beginning and the first row (its end and the last row) is longer
        than any time without rows in between. The first day of an export that starts at noon is
        partial.
    """

    codes: NDArray[np.intp]
    names: tuple[str, ...]
    partial: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.names)


def period_codes(times: ArrayLike, period: str, *, every: bool = False) -> Periods:
    """Return the period of each row.

    Parameters
    ----------
    times : array-like of shape (n,)
        Dates, times, ISO texts or numbers of days.
    period : {"hour", "day", "week", "month"}
        The length of a period.
    every : bool
        Whether periods without rows, between the first and the last, count as well.

    Examples
    --------
    >>> found = period_codes(["2024-03-01 09:00", "2024-03-04", "2024-03-01"], "day")
    >>> found.codes, found.names
    (array([0, 1, 0]), ('2024-03-01', '2024-03-04'))
    """
    if period not in PERIODS:
        raise SetpointError(f"a period is {', '.join(PERIODS)}, not {period!r}.")
    moments, are_numbers = _moments(times)
    if len(moments) == 0:
        return Periods(np.empty(0, dtype=np.intp), (), np.empty(0, dtype=bool))
    if are_numbers and period == "month":
        raise SetpointError(
            "times are numbers, taken as days counted from 0, which have no months; give dates, or "
            "a period of an hour, a day or a week."
        )
    # Rows of one midnight may well have a time of day; those of several days have none.
    if period == "hour" and not (moments % _MICROSECONDS["day"]).any() and np.ptp(moments):
        raise SetpointError(
            f"the times have no hours: all {len(moments):,} are at midnight, or whole numbers of "
            "days. Give times of day, or a limit per day."
        )
    indices = _indices(moments, period, are_numbers)
    kept, codes = np.unique(indices, return_inverse=True)
    if every:
        kept, codes = np.arange(kept[0], kept[-1] + 1), indices - kept[0]
    names = tuple(_name(int(i), period, are_numbers) for i in kept)
    partial = _partial(moments, kept, period, are_numbers)
    return Periods(np.asarray(codes, dtype=np.intp).ravel(), names, partial)


def longest_of(periods: Sequence[str]) -> str:
    """Return the period that contains all others, so that splits of it keep all of them whole.

    Raises GoalError for weeks and months, of which neither consists of the other.
    """
    if "week" in periods and "month" in periods:
        raise GoalError(
            "a budget per week and one per month: a fit keeps whole periods in the same split, and "
            "months do not consist of whole weeks. Keep one of them, or replace the other by a "
            "budget per day."
        )
    return max(periods, key=PERIODS.index)


def beginning_of(name: str) -> str:
    """Return when a period begins, given its name, as ISO text; of a numbered one, its number.

    Examples
    --------
    >>> [beginning_of(name) for name in ("2024-03-01 9 h", "week of 2024-02-26", "day 17")]
    ['2024-03-01T09', '2024-02-26', '17']
    """
    if numbered := re.fullmatch(r"[a-z]+ (-?\d+)", name):
        return numbered[1]
    if name.endswith(" h"):
        day, hour, _ = name.split(" ")
        return f"{day}T{int(hour):02d}"
    return name.removeprefix("week of ")


def _indices(moments: NDArray[np.int64], period: str, are_numbers: bool) -> NDArray[np.int64]:
    """Return the number of each moment's period since 1970, or since day 0."""
    if period == "month":
        months = moments.astype("datetime64[us]").astype("datetime64[M]")
        return np.asarray(months.astype(np.int64))
    shift = _MONDAY if period == "week" and not are_numbers else 0
    return np.asarray((moments - shift) // _MICROSECONDS[period])


def _begin(index: int, period: str, are_numbers: bool) -> int:
    """Return when a period begins, in microseconds."""
    if period == "month":
        return int(np.datetime64(index, "M").astype("datetime64[us]").astype(np.int64))
    shift = _MONDAY if period == "week" and not are_numbers else 0
    return index * _MICROSECONDS[period] + shift


def _name(index: int, period: str, are_numbers: bool) -> str:
    if are_numbers:
        return f"{period} {index}"
    if period == "month":
        return str(np.datetime64(index, "M"))
    begin = np.datetime64(_begin(index, period, False), "us")
    if period == "hour":
        return f"{begin.astype('datetime64[D]')} {int(str(begin)[11:13])} h"
    day = str(begin.astype("datetime64[D]"))
    return f"week of {day}" if period == "week" else day


def _partial(
    moments: NDArray[np.int64], kept: NDArray[np.int64], period: str, are_numbers: bool
) -> NDArray[np.bool_]:
    ordered = np.unique(moments)
    found = np.zeros(len(kept), dtype=bool)
    # Times that are whole days stand for all of their day.
    resolution = 1
    for unit in ("hour", "day"):
        if not (ordered % _MICROSECONDS[unit]).any():
            resolution = _MICROSECONDS[unit]
    longest = max(int(np.diff(ordered).max(initial=0)), resolution)
    first, last = int(kept[0]), int(kept[-1])
    before = int(ordered[0]) - _begin(first, period, are_numbers)
    after = _begin(last + 1, period, are_numbers) - int(ordered[-1])
    found[0] |= before > longest
    found[-1] |= after > longest
    return found


# --- reading times --------------------------------------------------------------------------------


def _moments(times: ArrayLike) -> tuple[NDArray[np.int64], bool]:
    """Return times in microseconds, and whether they were numbers."""
    zone = getattr(getattr(times, "dtype", None), "tz", None)
    if zone is not None:  # pandas: keep the time as written
        accessor: Any = getattr(times, "dt", times)
        times = accessor.tz_localize(None)
    found = np.asarray(times)
    if found.ndim != 1:
        raise SetpointError(f"times must hold one time per row; their shape is {found.shape}.")
    if found.dtype.kind in "iuf":
        _check_complete(~np.isfinite(found.astype(float)), "missing or infinite")
        if len(found) and np.abs(found.astype(float)).max() > _MOST_DAYS:
            raise SetpointError(
                "times are numbers, taken as days counted from 0, but some exceed a million; "
                "convert seconds since 1970 to dates first, e.g. with pandas.to_datetime(times, "
                "unit='s')."
            )
        return np.floor(found.astype(float) * _MICROSECONDS["day"] + 0.5).astype(np.int64), True
    if found.dtype.kind in "OUT" or found.dtype.kind == "S":
        return _from_objects(found)
    if found.dtype.kind != "M":
        raise SetpointError(
            f"times must be dates, times, ISO texts or numbers of days, not {found.dtype}."
        )
    _check_complete(np.isnat(found))
    return found.astype("datetime64[us]").astype(np.int64), False


def _from_objects(found: NDArray[Any]) -> tuple[NDArray[np.int64], bool]:
    distinct: dict[Any, Any] = {}
    values = found.tolist()
    _check_complete(np.array([v is None or v != v or v in ("", b"") for v in values], dtype=bool))
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return _moments(np.asarray(values, dtype=float))
    for row, value in enumerate(values):
        if value not in distinct:
            distinct[value] = _moment(value, row)
    moments = np.array([distinct[value] for value in values], dtype="datetime64[us]")
    return moments.astype(np.int64), False


def _moment(value: Any, row: int) -> np.datetime64:
    """Return one time without its time zone."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        if isinstance(value, datetime):  # pandas' Timestamp is one
            return np.datetime64(value.replace(tzinfo=None), "us")
        if isinstance(value, date | np.datetime64):
            return np.datetime64(str(value), "us")
    except ValueError:
        pass
    raise SetpointError(
        f"times: {value!r} at position {row} is not a date or time; write e.g. '2024-03-01' or "
        "'2024-03-01 14:30', or give numbers of days."
    )


def _check_complete(missing: NDArray[np.bool_], what: str = "missing") -> None:
    if missing.any():
        raise SetpointError(
            f"times are {what} in {int(missing.sum()):,} of {len(missing):,} rows, the first at "
            f"position {int(np.argmax(missing))}; a budget per period needs the time of every row. "
            "Fill it in, or drop such rows."
        )
