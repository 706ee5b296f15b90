"""The columns that a goal names, read from a table."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import SchemaError
from setpoint.goals.periods import period_codes
from setpoint.tables.goal_columns import calendar_times
from setpoint.tables.kinds import times_of


def east(hours):
    return timezone(timedelta(hours=hours))


@pytest.mark.parametrize(
    "values",
    [
        ["2024-03-31 00:30:00+01:00", "2024-03-31 23:30:00+02:00"],  # summer time begins
        ["2024-03-31 00:30:00+01", "2024-03-31 23:30:00+02"],  # as PostgreSQL writes it
        ["2024-03-31T00:30:00Z", "2024-03-31T23:30:00 -0500"],
        ["2024-03-31 00:30:00+02:00"] * 150 + ["2024-03-31 23:30:00"],
        ["2024-03-31 00:30:00"] * 150 + ["2024-03-31 23:30:00+02:00"],
        ["31-03-2024 00:30", "31-03-2024 23:30"],
        pd.to_datetime(["2024-03-31 00:30", "2024-03-31 23:30"]).tz_localize("Europe/Berlin"),
        pd.to_datetime(["2024-03-31 00:30", "2024-03-31 23:30"]),
        [datetime(2024, 3, 31, 0, 30, tzinfo=east(1)), datetime(2024, 3, 31, 23, tzinfo=east(2))],
    ],
)
@pytest.mark.parametrize("dtype", [None, object])
def test_a_day_is_the_day_as_it_is_written(values, dtype):
    times = calendar_times(pd.Series(values, name="when", dtype=dtype))
    assert period_codes(times, "day").names == ("2024-03-31",)


@pytest.mark.parametrize(
    "values",
    [
        ["2024-03-31 00:30:00+01", "2024-03-31 23:30:00+02"],
        ["2024-03-31 00:30:00"] * 150 + ["2024-03-31 23:30:00+02:00"],
    ],
)
def test_rows_are_ordered_by_times_of_several_offsets(values):
    assert np.diff(times_of(pd.Series(values))).min() >= 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2024-03-31", None], "1 of 2 times in 'when' is missing, the first in row 2"),
        ([None, 3.5, None], "2 of 3 times in 'when' are missing, the first in row 1"),
        ([1.5, np.inf], "inf in row 2 of 'when' is not a finite number of days"),
        (["2024-03-31 10:00Z"] * 30 + ["unknown"], "'unknown' in row 31 of 'when' is not a time"),
        (["soon", "later"], "neither dates nor numbers of days, e.g. 'soon' in row 1"),
    ],
)
def test_times_that_are_wrong(values, message):
    with pytest.raises(SchemaError, match=message):
        calendar_times(pd.Series(values, name="when"))


def test_the_error_shows_what_is_not_a_date():
    for texts, row in ((["2024-12-31"] * 4 + ["NA"], 5), (["2024-12-31"] * 3 + ["unknown"], 4)):
        with pytest.raises(SchemaError, match=f"'{texts[-1]}' in row {row}"):
            calendar_times(pd.Series(texts, name="when"))
    with pytest.raises(SchemaError, match="there are no rows"):
        calendar_times(pd.Series([], name="when", dtype=object))
    with pytest.raises(SchemaError, match="'2024-12-31 23-59' in row 1"):
        calendar_times(pd.Series(["2024-12-31 23-59", "2024-12-31 22-10"], name="when"))
