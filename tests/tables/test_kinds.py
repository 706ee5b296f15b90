"""The kind of a column, and times of rows, read from columns of any kind."""

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import SplitError
from setpoint.tables import kinds
from setpoint.tables.kinds import column_of, times_of


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        ["2024-03-01", "2024-01-01", "2024-02-01"],
        ["03/01/2024", "01/01/2024", "02/01/2024"],
        pd.to_datetime(["2024-03-01", "2024-01-01", "2024-02-01"]),
        pd.to_datetime(["2024-03-31 03:30", "2024-01-01 00:00", "2024-02-01 00:00"]).tz_localize(
            "UTC"
        ),
        ["2024-03-01T00:00:00+02:00", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"],
    ],
)
def test_times(values):
    assert np.argsort(times_of(pd.Series(values))).tolist() == [1, 2, 0]


def test_invalid_times():
    with pytest.raises(SplitError, match="neither dates nor numbers .*'soon'"):
        times_of(pd.Series(["soon", "later"], name="when"))
    with pytest.raises(SplitError, match="1 of 2 times in 'when' is missing, the first in row 2"):
        times_of(pd.Series(["2024-01-01", None], name="when"))


def test_each_category_is_checked_once(monkeypatch):
    """However many rows there are: the time must not grow with them."""
    checked = []

    def numbers(series, *args):
        checked.append(len(series))
        return kinds_numbers(series, *args)

    kinds_numbers = kinds.numbers
    monkeypatch.setattr(kinds, "numbers", numbers)
    values = pd.Series(["no", "yes", "1"] * 10_000, name="answer", dtype="str")
    assert column_of(values) == kinds.Column("answer", "category", "str", 3)
    assert checked == [3]
