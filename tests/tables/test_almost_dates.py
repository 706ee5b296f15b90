"""A few dirty values do not turn dates into categories."""

import json

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import PartsError
from setpoint.tables.leakage import find_leakage
from setpoint.tables.parts import part_rows, times_of
from setpoint.tables.schema import Schema

DAYS = pd.date_range("2020-01-01", periods=600)


def schema_of(values):
    return Schema.of(pd.DataFrame({"x": values, "z": np.arange(len(values)) % 7}))


@pytest.mark.parametrize("how", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d %b %Y"])
@pytest.mark.parametrize("odd", [["unknown"], ["31.02.2020", "soon"], ["?"] * 200])
def test_dirty_dates(how, odd):
    values = [*odd, *DAYS.strftime(how)]
    schema = schema_of(values)
    column = schema.columns[0]
    assert column.kind == "date"
    assert column.format == ("ISO8601" if how == "%Y-%m-%d" else how)
    assert set(column.missing) == set(odd)
    (note,) = schema.notes
    assert "'x' is taken as dates" in note
    assert f"{odd[0]!r}" in note
    assert "row 1)" in note
    frame = pd.DataFrame({"x": values, "z": 1})
    back = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    found = back.check(frame)["x"]
    assert found[: len(odd)].isna().all()
    assert found[len(odd) :].tolist() == list(DAYS)
    assert back.check(frame.head(1))["x"].isna().all()


def test_the_order_of_day_and_month_is_not_guessed_from_a_part():
    early = [d for d in pd.date_range("2000-01-01", "2020-12-31") if d.day <= 12]
    values = [d.strftime("%d/%m/%Y") for d in early] + ["31/12/2020", "unknown"]
    column = schema_of(values).columns[0]
    assert (column.format, column.missing) == ("%d/%m/%Y", ("unknown",))


@pytest.mark.parametrize(
    "values",
    [
        ["2024-01-01", "unknown"],
        [*DAYS.strftime("%Y-%m-%d")[:80], *(f"week {i}" for i in range(20))],
        [f"2024-{i:03d}" for i in range(300)],
    ],
)
def test_other_things_stay_categories(values):
    assert schema_of(values).columns[0].kind == "category"


def test_too_many_strangers_are_told_of_and_no_identifier():
    values = [*DAYS.strftime("%d.%m.%Y"), *(f"week {i}" for i in range(30))]
    frame = pd.DataFrame({"x": values, "z": np.arange(len(values)) % 7 + 0.5})
    schema = Schema.of(frame)
    assert schema.columns[0].kind == "category"
    (note,) = schema.notes
    assert "95 % of its values are dates" in note
    assert "'week 0' (row 601)" in note
    y = np.arange(len(values)) % 5 == 0
    assert find_leakage(schema.check(frame), y, schema, part_rows(len(values), y)) == []


def test_times_must_be_clean():
    values = pd.Series([*DAYS.strftime("%d.%m.%Y"), "soon"], name="when")
    with pytest.raises(PartsError, match="'soon' in row 601 of 'when' is no time"):
        times_of(values)
