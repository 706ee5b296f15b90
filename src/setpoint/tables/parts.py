"""Which rows train, and which are kept for the end."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from setpoint._internal.validation import check_groups, shown
from setpoint.data.values import dates, given, numbers, uncategorised
from setpoint.errors import PartsError
from setpoint.tables.kinds import column_of

Rows = NDArray[np.intp]
_TRIES = 50  # of splits by group


class Parts(NamedTuple):
    """Two sets of rows, each in ascending order."""

    train: Rows
    test: Rows


def part_rows(
    n: int,
    y: NDArray[np.bool_],
    *,
    test: float = 0.2,
    group: Any = None,
    time: Any = None,
    random_state: int = 0,
) -> Parts:
    """Keep some rows for a final test.

    Parameters
    ----------
    n : int
        How many rows there are.
    y : ndarray of bool
        Which of them are positive.
    test : float
        The share of the test rows; 0 keeps none.
    group : array-like, optional
        Rows of one group, e.g. of one customer, stay together.
    time : array-like of numbers, optional
        When each row came about, as of :func:`times_of`. The newest rows test; rows of one moment
        stay together. With groups, the groups that were seen last test.
    random_state : int
        The seed of a random part, which is stratified, or by groups as balanced as can be.

    Examples
    --------
    >>> y = np.array([False, True] * 5)
    >>> part_rows(10, y, test=0.2, time=np.arange(10)).test
    array([8, 9])
    """
    y = np.asarray(y, dtype=bool)
    if not 0 <= test < 1:
        raise PartsError(f"the share of test rows must be at least 0 and less than 1, not {test}.")
    check_seed(random_state)
    if test == 0:
        return Parts(np.arange(n), np.arange(0))
    groups = check_groups(group, (n,))
    if time is not None:
        parts = newest(np.arange(n), np.asarray(time, dtype=np.float64), groups, test)
    elif groups is not None:
        parts = _by_group(y, groups, test, random_state)
    else:
        parts = _random(y, test, random_state)
    for rows, name in zip(parts, ("training", "test"), strict=True):
        if not y[rows].any() or y[rows].all():
            missing = "negative" if y[rows].any() else "positive"
            raise PartsError(
                f"the {name} part has {len(rows):,} rows and none of them is {missing}; "
                f"{_remedy(groups is not None, time is not None)}"
            )
    return parts


def newest(rows: Rows, time: NDArray[np.float64], groups: Any, share: float) -> Parts:
    """Part the newest share from these rows; equal times and groups stay together."""
    moment = time[rows]
    if groups is not None:
        _, member = np.unique(groups[rows], return_inverse=True)
        last = np.full(member.max() + 1, -np.inf)
        np.maximum.at(last, member, moment)
        moment = last[member]
    ordered = np.sort(moment)
    # The cut is the moment at which the share begins; all of that moment come after it.
    cut = ordered[min(len(ordered) - 1, len(ordered) - max(1, round(share * len(ordered))))]
    late = moment >= cut
    if late.all():  # one moment holds more than the older part: it goes there
        late = moment > cut
    if late.all() or not late.any():
        raise PartsError("all rows are of one moment; they cannot be parted by time.")
    return Parts(rows[~late], rows[late])


def times_of(series: Any) -> NDArray[np.float64]:
    """Return a column of dates, or of numbers that grow with time, as numbers."""
    name = str(series.name)
    series = uncategorised(series)
    told = given(series)
    if not told.all():
        row = int(np.flatnonzero(~told)[0])
        raise PartsError(
            f"{int((~told).sum()):,} of {len(told):,} times in {name!r} are missing, the first in "
            f"row {row + 1:,}; drop such rows, or part the rows in another way."
        )
    column = column_of(series)
    if column.kind == "number":
        times = np.asarray(numbers(series, column.missing, column.format).values)
        _check_times(series, np.isnan(times))
        return times
    if column.kind == "date":
        times, bad = dates(series, column.format, column.zone)
        _check_times(series, bad)
        if column.zone is not None:
            times = times.dt.tz_convert("UTC").dt.tz_localize(None)
        return np.asarray(times.astype("int64").to_numpy(), dtype=np.float64)
    raise PartsError(
        f"{name!r} holds neither dates nor numbers (e.g. {shown(series.iloc[0])}), so rows cannot "
        "be ordered by it; write dates as 2024-12-31 or 2024-12-31 23:59:59."
    )


def _check_times(series: Any, bad: NDArray[np.bool_]) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise PartsError(
            f"{shown(series.iloc[row])} in row {row + 1:,} of {str(series.name)!r} is no time; "
            "correct it, or drop such rows."
        )


def _random(y: NDArray[np.bool_], share: float, seed: int) -> Parts:
    fewest = int(min(y.sum(), (~y).sum()))
    if fewest < 2:
        raise PartsError(
            f"one of the labels has {fewest} row{'' if fewest == 1 else 's'}, too few to train on "
            "and to test with; use more labelled rows."
        )
    _check_sizes(len(y), share, "rows", fewest=2)
    splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
    train, test = next(splitter.split(np.zeros((len(y), 1)), y))
    return Parts(np.sort(train), np.sort(test))


def _by_group(y: NDArray[np.bool_], groups: NDArray[Any], share: float, seed: int) -> Parts:
    """Part whole groups; of several tries the one whose classes are best balanced."""
    if len(np.unique(groups)) < 2:
        raise PartsError("all rows are of one group; a test part needs groups of its own.")
    _check_sizes(len(np.unique(groups)), share, "groups", fewest=1)
    splitter = GroupShuffleSplit(_TRIES, test_size=share, random_state=seed)

    def off(parts: tuple[Rows, Rows]) -> float:
        """Return how far the shares of both classes in the test part are from the one asked."""
        found = [labels[parts[1]].sum() / labels.sum() for labels in (y, ~y)]
        return float(sum(abs(part - share) for part in found))

    train, test = min(splitter.split(np.zeros((len(y), 1)), y, groups), key=off)
    return Parts(np.sort(train), np.sort(test))


def check_seed(seed: Any) -> None:
    """Refuse what cannot be the seed of a random part."""
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 2**32:
        raise PartsError(f"the seed must be a whole number from 0 to {2**32 - 1}, not {seed!r}.")


def _check_sizes(n: int, share: float, what: str, fewest: int) -> None:
    """Refuse a share of test rows or groups that leaves too few to either part."""
    test = math.ceil(share * n)
    if min(test, n - test) < fewest:
        raise PartsError(
            f"{n:,} {what} cannot be parted: a share of {share:g} is {test:,} to test and "
            f"{n - test:,} to train, and each part needs {fewest} or more. Choose another share, "
            "or 0 for no test part."
        )


def _remedy(grouped: bool, timed: bool) -> str:
    if timed:
        return "choose another share of test rows, or do not part them by time."
    if grouped:
        return "choose another share of test rows; the groups may be too large."
    return "choose another share of test rows, or use more labelled rows."
