"""A bare number among amounts: 0 is 0 in every unit, of another the unit is not known."""

import numpy as np
import pandas as pd
import pytest

from setpoint.data import read_table
from setpoint.data.values import amount
from setpoint.errors import SchemaError
from setpoint.tables import fit_table
from setpoint.tables.schema import Schema

RNG = np.random.default_rng(0)
VALUES = RNG.normal(300, 2_000, 300).round(2)
WAYS = {
    "$1,234.5": lambda v: f"${v:,.2f}".replace("$-", "-$"),
    "1,234.5%": lambda v: f"{v:.2f}%",
    "1.234,5€": lambda v: f"{v:,.2f} €".translate(str.maketrans(",.", ".,")),
}


def schema_of(values):
    return Schema.of(pd.DataFrame({"x": pd.Series(values), "other": range(len(values))}))


@pytest.fixture(params=WAYS)
def way(request):
    return request.param, WAYS[request.param]


@pytest.mark.parametrize("zero", ["0", "0.0", "0,00", "-0", " 0 "])
@pytest.mark.parametrize("where", [[0], [7], list(range(0, 300, 2))])
def test_zero_is_zero_in_every_unit(way, zero, where):
    how, write = way
    texts = [write(v) for v in VALUES]
    for row in where:
        texts[row] = zero
    schema = schema_of(texts)
    column = schema.columns[0]
    assert (column.kind, column.format, column.missing) == ("number", how, ())
    found = schema.check(pd.DataFrame({"x": texts, "other": 1}))["x"]
    assert (found[where] == 0).all()
    assert not found.isna().any()


def test_amounts():
    assert amount("0", "1,234.5%") == amount("0,0", "€1,234.5") == amount("0.00", "1.234,5") == 0
    none = [("7", "1,234.5%"), ("00", "€1,234.5"), (".", "1,234.5"), ("0.", "1,234.5%")]
    assert np.isnan([amount(*pair) for pair in none]).all()


@pytest.mark.parametrize("bare", ["1220.00", "12", "-3"])
def test_others_in_training_make_a_category(way, bare):
    how, write = way
    column = schema_of([*map(write, VALUES), bare]).columns[0]
    assert column.kind == "category"
    assert f"{bare!r} (row 301)" in column.note
    assert f"like {how}" in column.note


@pytest.mark.parametrize(
    "later",
    [
        pd.Series(["1220.00", "3.5"]),
        pd.Series([1220.0, 3.5]),
        pd.Series([1220, 3]),
        pd.Series([1220.0, 3.5], dtype=object),
        pd.array([None, 3], dtype="Int64"),
    ],
    ids=["texts", "floats", "whole", "objects", "nullable"],
)
def test_others_are_refused_later_in_files_of_all_kinds(way, later):
    how, write = way
    schema = schema_of([write(v) for v in VALUES])
    with pytest.raises(SchemaError) as caught:
        schema.check(pd.DataFrame({"x": later, "other": 1}))
    told = str(caught.value)
    assert f"'x' held numbers written like {how}" in told
    assert f"Write them like {how}, as in training, or fit the model again on plain numbers" in told
    fine = pd.DataFrame({"x": [0.0, np.nan], "other": 1})
    assert schema.check(fine)["x"].fillna(-1).tolist() == [0, -1]


def test_numbers_of_no_unit_are_numbers_in_any_type():
    schema = schema_of([f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in VALUES])
    with pytest.raises(SchemaError, match=r"'96127.25' in row 1 .*Write them like 1.234,5, as in"):
        schema.check(pd.DataFrame({"x": ["96127.25"], "other": 1}))
    for later in (pd.Series([1.234, -7.5]), pd.Series([1.234, -7.5], dtype=object)):
        assert schema.check(pd.DataFrame({"x": later, "other": 1}))["x"].tolist() == [1.234, -7.5]


def test_numbers_and_amounts_in_one_column_are_not_mixed_up():
    texts = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in VALUES]
    column = schema_of([*texts, 1.234]).columns[0]
    assert column.kind == "category"
    assert "several ways" in column.note


def test_markers_of_missing_are_known_later(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    x = rng.integers(0, 90, n)
    days = pd.date_range("2024", periods=n).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"n": x, "day": days, "y": (x + rng.normal(0, 9, n) > 70).astype(int)})
    model = fit_table(frame, "y", "max f1", model="logistic", test=0).model
    later = frame.astype({"n": str}).astype(object)
    later.loc[[3, 4, 9], "n"] = ["?", " UNKNOWN ", "?"]
    later.loc[3, "day"] = "unknown"
    later.to_csv(tmp_path / "later.csv", index=False)
    rows = model.read(tmp_path / "later.csv")
    empty = frame.astype({"n": float})
    empty.loc[[3, 4, 9], "n"] = np.nan
    empty.loc[3, "day"] = None
    assert model.scores(rows).tolist() == model.scores(empty).tolist()
    assert model.unseen_values(rows) == [
        "In 'n', 3 values count as missing ('?', 'UNKNOWN'), since they are not numbers.",
        "In 'day', 1 value counts as missing ('unknown'), since it is not a date.",
    ]
    assert model.evaluate(rows).tp > 0
    with pytest.raises(SchemaError, match=r"'old' in row 6 .*Correct .* or leave .* empty"):
        model.scores(rows.assign(n=["1"] * 5 + ["old"] * (n - 5)))
    assert read_table(tmp_path / "later.csv")["n"][3] == "?"
