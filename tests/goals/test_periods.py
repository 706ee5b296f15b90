"""Periods of time."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import SetpointError
from setpoint.goals.periods import beginning_of, period_codes

TIMES = st.lists(st.datetimes(datetime(1960, 1, 1), datetime(2050, 1, 1)), min_size=1, max_size=20)


def names_by_hand(times, period):
    """Return the period of each time as text, from the standard library."""
    found = []
    for t in times:
        monday = t.date() - timedelta(days=t.weekday())
        found.append(
            {
                "hour": f"{t:%Y-%m-%d} {t.hour} h",
                "day": f"{t:%Y-%m-%d}",
                "week": f"week of {monday}",
                "month": f"{t:%Y-%m}",
            }[period]
        )
    return found


@given(TIMES, st.sampled_from(["hour", "day", "week", "month"]), st.sampled_from(range(5)))
def test_periods_of_dates_of_all_kinds(times, period, kind):
    given_as = [
        times,
        np.array(times, dtype="datetime64[us]"),
        pd.Series(times),
        [t.isoformat() for t in times],
        pd.DatetimeIndex(times).tz_localize("UTC"),
    ][kind]
    found = period_codes(given_as, period)
    assert [found.names[code] for code in found.codes] == names_by_hand(times, period)
    assert sorted(set(found.codes)) == list(range(len(found)))
    order = np.argsort(np.array(times, dtype="datetime64[us]"), kind="stable")
    assert (np.diff(found.codes[order]) >= 0).all()
    begins = np.array([beginning_of(name) for name in found.names], dtype="datetime64[us]")
    assert period_codes(begins, period).names == found.names
    assert (begins[found.codes] <= np.array(times, dtype="datetime64[us]")).all()


@given(st.lists(st.integers(0, 400), min_size=1), st.sampled_from(["day", "week"]))
def test_numbers_count_days_from_0(days, period):
    found = period_codes(np.array(days), period)
    length = {"day": 1, "week": 7}[period]
    assert [found.names[code] for code in found.codes] == [f"{period} {d // length}" for d in days]
    assert [int(beginning_of(name)) for name in found.names] == sorted({d // length for d in days})


def test_parts_of_days():
    found = period_codes([0.0, 0.5, 0.99, 1.0], "hour")
    assert found.names == ("hour 0", "hour 12", "hour 23", "hour 24")
    assert period_codes([0.0, 0.5, 0.99, 1.0], "day").codes.tolist() == [0, 0, 0, 1]


def test_time_zones_are_dropped_and_not_converted():
    zone = timezone(timedelta(hours=2))
    times = [
        datetime(2024, 3, 1, 0, 30, tzinfo=zone),
        "2024-03-01T00:30:00+02:00",
        datetime(2024, 3, 1, 23, 30, tzinfo=UTC),
        date(2024, 3, 1),
    ]
    assert period_codes(times, "day").names == ("2024-03-01",)
    berlin = pd.Series(pd.to_datetime(["2024-03-01 00:30"])).dt.tz_localize("Europe/Berlin")
    assert period_codes(berlin, "day").names == ("2024-03-01",)


def test_periods_without_rows_count_if_asked_for():
    times = ["2024-03-01", "2024-03-04"]
    assert len(period_codes(times, "day")) == 2
    found = period_codes(times, "day", every=True)
    assert found.names == ("2024-03-01", "2024-03-02", "2024-03-03", "2024-03-04")
    assert found.codes.tolist() == [0, 3]


def test_the_first_and_the_last_period_may_be_partial():
    times = pd.date_range("2024-03-01 12:00", "2024-03-04 09:00", freq="h")
    assert period_codes(times, "day").partial.tolist() == [True, False, False, True]
    whole = pd.date_range("2024-03-01", "2024-03-03 23:00", freq="h")
    assert not period_codes(whole, "day").partial.any()
    dates = pd.date_range("2024-01-01", "2024-02-10")
    assert not period_codes(dates, "day").partial.any()
    assert period_codes(dates, "month").partial.tolist() == [False, True]
    assert period_codes(np.arange(3, 21), "week").partial.tolist() == [True, False, False]


def test_no_rows():
    found = period_codes(np.array([], dtype="datetime64[D]"), "day")
    assert len(found) == len(found.codes) == len(found.partial) == 0


@pytest.mark.parametrize(
    ("times", "period", "message"),
    [
        (["2024-03-01"], "year", "a period is hour, day, week, month, not 'year'"),
        (["2024-03-01", "tomorrow"], "day", "'tomorrow' at position 1 is not a date or time"),
        (["2024-03-01", None], "day", "times are missing in 1 of 2 rows, the first at position 1"),
        (["2024-03-01", ""], "day", "missing"),
        (pd.Series(pd.to_datetime(["2024-03-01", None])), "day", "missing"),
        ([1.0, float("nan")], "day", "missing"),
        ([1.0, 2.0], "month", "have no months"),
        ([1.7e9], "day", "convert seconds since 1970 to dates"),
        ([True, False], "day", "dates, times, ISO texts or numbers"),
        ([["2024-03-01"]], "day", "one time per row"),
        (["2024-03-01", 5], "day", "'5' at position 1 is not a date"),
    ],
)
def test_bad_times(times, period, message):
    with pytest.raises(SetpointError, match=message):
        period_codes(times, period)


@pytest.mark.parametrize(
    "times",
    [
        ["2024-03-01", "2024-03-02", "2024-03-02"],
        np.array(["2024-03-01", "2024-03-02"], dtype="datetime64[D]"),
        [17, 18, 18],
    ],
)
def test_days_have_no_hours(times):
    with pytest.raises(SetpointError, match="the times have no hours: all .* are at midnight"):
        period_codes(times, "hour")
    assert len(period_codes(times, "day")) == 2


def test_rows_of_one_midnight_have_an_hour():
    assert period_codes(["2024-03-01 00:00"] * 3, "hour").names == ("2024-03-01 0 h",)
    assert len(period_codes(["2024-03-01 00:00", "2024-03-02 01:00"], "hour")) == 2
