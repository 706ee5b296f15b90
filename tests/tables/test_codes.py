"""Codes, ranges, limits and units are no dirty numbers, and are told of."""

import numpy as np
import pandas as pd
import pytest

from setpoint.tables.leakage import find_leakage
from setpoint.tables.parts import part_rows
from setpoint.tables.schema import Schema

RNG = np.random.default_rng(0)
N = 5_000


def column_of(values):
    frame = pd.DataFrame({"x": pd.Series(values, dtype="str"), "other": range(len(values))})
    return Schema.of(frame).columns[0]


def among(values, *odd, times=1):
    values = [str(v) for v in values]
    places = RNG.choice(len(values), times * len(odd), replace=False)
    for i, place in enumerate(places):
        values[place] = odd[i % len(odd)]
    return values


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        (among(RNG.choice([99213, 80053, 36415], N), "G0439", times=50), "G0439"),
        (among(RNG.choice([11, 21, 42, 54], N), "44-45", times=20), "44-45"),
        (among(RNG.integers(1, 6, N), "5+", times=30), "5+"),
        (among(RNG.choice([250.0, 401.9, 414.01], N), "V45.81", "E885.9", times=75), "V45.81"),
        (among(RNG.integers(10_000, 99_999, N), "SW1A"), "SW1A"),
        (among(RNG.random(N).round(2), "<0.5", times=150), "<0.5"),
        (among(RNG.random(N).round(2), "> 100"), "> 100"),
        (among(RNG.random(N).round(2), "≤LOD", times=5), "≤LOD"),
        (among(RNG.integers(1, 90, N), "34 years"), "34 years"),
        (among(RNG.integers(1, 90, N), "1234F", times=2), "1234F"),
        (among(RNG.random(N).round(2), "12%"), "12%"),
        (among(RNG.random(N).round(2), "(12.50)"), "(12.50)"),
        (among(RNG.random(N).round(2), "$3.50"), "$3.50"),
    ],
)
def test_strangers_that_say_something_make_a_category(values, odd):
    column = column_of(values)
    assert (column.kind, column.missing, column.format) == ("category", (), None)
    assert f"{odd!r}" in column.note
    assert "row " in column.note
    assert "For it to be numbers, write" in column.note


@pytest.mark.parametrize("odd", ["old", "n/a", "abc", "4O", "1.2.3", "--", "<none>", "3..5"])
def test_typing_errors_still_count_as_missing(odd):
    column = column_of(among(RNG.integers(1, 90, N), odd))
    assert (column.kind, column.missing) == ("number", () if odd == "n/a" else (odd,))
    if odd != "n/a":
        assert f"1 value is not a number and counts as missing: {odd!r} (row" in column.note


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda v: f"USD {v:.2f}", "'USD"),
        (lambda v: f"{v:.2f} CHF", " CHF'"),
        (lambda v: f"CHF {v:,.2f}", "'CHF"),
        (lambda v: f"{v:.1f} kg", " kg'"),
        (lambda v: f"{v:.0f}h", "h'"),
        (lambda v: f"{v:.0f} EUR/m²", " EUR/m²'"),
        (lambda v: f"({v:.2f})" if v > 50 else f"{v:.2f}", "-12.50"),
    ],
)
def test_numbers_with_words_are_told_of(write, told):
    values = [write(v) for v in np.linspace(10, 99, 300)]
    frame = pd.DataFrame({"x": values})
    schema = Schema.of(frame)
    assert schema.columns[0].kind == "category"
    (note,) = schema.notes
    assert told in note
    assert "plain numbers such as 1234.5" in note
    y = np.arange(300) % 5 == 0
    found = find_leakage(schema.check(frame), y, schema, part_rows(300, y))
    assert not any(warning.kind == "identifier" for warning in found)


@pytest.mark.parametrize(
    "values",
    [
        [f"E{v:03d}" for v in range(400)],
        [f"{v}{'ABCDEF'[v % 6]}" for v in range(400)],
        [f"room {v}" for v in range(400)],
        ["XS", "S", "M", "38", "40", "42"] * 60,
        [f"{v}-{v + 5}" for v in range(0, 400, 5)],
        ["1.2.3", "10.0.1"] * 30,
    ],
)
def test_codes_are_left_in_peace(values):
    column = column_of(values)
    assert (column.kind, column.note) == ("category", "")
