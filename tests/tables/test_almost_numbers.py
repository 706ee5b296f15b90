"""Numbers stay numbers where a few values are dirty, or where all of them wear a dress."""

import json

import numpy as np
import pandas as pd
import pytest

from setpoint.data import read_table
from setpoint.data.values import amount
from setpoint.errors import PartsError, SchemaError
from setpoint.tables import fit_table, score_file
from setpoint.tables.leakage import find_leakage
from setpoint.tables.parts import part_rows, times_of
from setpoint.tables.schema import Schema

RNG = np.random.default_rng(0)
DECIMALS = [f"{v:.3f}" for v in RNG.normal(size=300)]
WHOLE = [str(v) for v in RNG.integers(1, 90, 300)]


def schema_of(values):
    return Schema.of(pd.DataFrame({"x": pd.Series(values), "other": range(len(values))}))


def with_values(values, **at):
    values = list(values)
    for place, value in at.items():
        values[int(place.strip("_"))] = value
    return values


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (with_values(DECIMALS, _50="unknown"), ["unknown"]),
        (with_values(DECIMALS, _3="1.2.3", _4="1O.5", _9="-"), ["1.2.3", "1O.5", "-"]),
        (with_values(WHOLE, _7="4O"), ["4O"]),
        (with_values(WHOLE, _7="?", _8=" ? ", _9="NA"), ["?"]),
        (["?"] * 200 + WHOLE, ["?"]),  # many, but a marker is a marker
        ([1.5, "?", *range(40)], ["?"]),  # as a spreadsheet gives them
        (pd.Categorical([*DECIMALS, "n.a."]), ["n.a."]),
    ],
)
def test_few_strangers_count_as_missing(values, missing):
    schema = schema_of(values)
    column = schema.columns[0]
    assert (column.kind, list(column.missing), column.format) == ("number", missing, None)
    (note,) = schema.notes
    assert "taken as numbers" in note
    assert all(repr(stranger) in note for stranger in missing)
    frame = pd.DataFrame({"x": pd.Series(values), "other": 1})
    found = schema.check(frame)["x"]
    assert found.dtype == float
    wanted = pd.to_numeric(frame["x"].astype(object), errors="coerce").astype(float)
    assert found.equals(wanted)


def test_the_note_names_rows():
    (note,) = schema_of(with_values(DECIMALS, _50="unknown", _60="?", _61="?")).notes
    assert "3 values are not numbers and count as missing" in note
    assert "'unknown' (row 51)" in note
    assert "'?' (2 times, first in row 61)" in note


def test_later_rows_are_read_in_the_same_way():
    schema = schema_of(with_values(DECIMALS, _50="unknown"))
    back = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert back == schema
    later = pd.DataFrame({"x": ["1.5", "unknown", "", None], "other": 1})
    found = back.check(later)["x"]
    assert found[0] == 1.5
    assert found[1:].isna().all()
    with pytest.raises(SchemaError, match="'x' held numbers .*'unheard of' in row 2"):
        back.check(later.assign(x=["1", "unheard of", "2", "3"]))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        # Every tenth code has a letter: codes, and no typing errors.
        (with_values(WHOLE, **{f"_{i}": f"A{i}" for i in range(0, 300, 15)}), "93 % .*'A0' .row 1"),
        (with_values(DECIMALS, **{f"_{i}": f"{i} kg" for i in range(21)}), "93 % .*'0 kg'"),
        (["1,234", "56", "12,345"] * 30, "'1,234' may be 1234 or 1.234.*plain numbers"),
        ([*WHOLE, "1,234"], "may be 1234 or 1.234"),
        (["€5.00", "$7.00"] * 30, "several ways, e.g. '€5.00', '.7.00'"),
        (["1 234,5", "7,5", "12 000,0"] * 30, "several ways"),
    ],
)
def test_what_only_looks_like_numbers_is_told_of(values, told):
    schema = schema_of(values)
    assert schema.columns[0].kind == "category"
    assert schema.columns[0].missing == ()
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(*schema.notes)
    assert schema.texts == {"x"}


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "c"] * 30,
        ["2", "3", "4", "5more"] * 30,
        ["10.0.0.1", "10.0.0.2", "192.168.1.7"] * 30,
        ["00123", "00456", "x"] * 30,
        [f"uuid-{i}" for i in range(100)],
        ["12kg", "13kg"] * 30,
        [True, "x", *range(60)],
    ],
)
def test_categories_are_left_in_peace(values):
    schema = schema_of(values)
    assert schema.columns[0].kind == "category"
    assert schema.notes == ()


@pytest.mark.parametrize(
    ("text", "how", "value"),
    [
        ("€1,234.50", "€1,234.5", 1234.5),
        ("-€ 12", "€1,234.5", -12.0),
        ("€-12", "€1,234.5", -12.0),
        ("1.234.567,8 €", "1.234,5€", 1234567.8),
        ("12.5%", "1,234.5%", 12.5),
        ("-0,13", "1.234,5", -0.13),
        ("1,5e-3", "1.234,5", 0.0015),
        ("--5", "1,234.5", np.nan),
        ("12,34", "1,234.5", np.nan),
        ("0,500", "1,234.5", np.nan),
        ("€1.234", "€1,234.5", np.nan),  # money has no three decimals
        ("€1.234", "€1.234,5", 1234.0),
    ],
)
def test_amounts(text, how, value):
    assert amount(text, how) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (lambda v: f"€{v:,.2f}", "€1,234.5"),
        (lambda v: f"{v:,.2f} $", "1,234.5$"),
        (lambda v: f"{v:.1f}%", "1,234.5%"),
        (lambda v: f"{v:.2f}".replace(".", ","), "1.234,5"),
        (lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")), "1.234,5"),
        (lambda v: f"£{v:,.0f}", "£1,234.5"),
    ],
)
def test_amounts_written_in_one_way_are_numbers(write, how, tmp_path):
    values = np.random.default_rng(0).normal(0, 3_000, 200).round(2)
    texts = [write(v) for v in values]
    texts[17] = "?"
    schema = schema_of(texts)
    column = schema.columns[0]
    assert (column.kind, column.format, column.missing) == ("number", how, ("?",))
    assert f"written like {how}" in schema.notes[0]
    found = schema.check(pd.DataFrame({"x": texts, "other": 1}))["x"]
    assert np.isnan(found[17])
    assert found.drop(17).to_numpy() == pytest.approx(np.delete(values, 17), abs=0.51)
    with pytest.raises(SchemaError, match="held numbers written like"):
        schema.check(pd.DataFrame({"x": ["twelve", "7"], "other": 1}))
    # A file in which all of them look plain is read in the same way.
    assert "x" in schema.texts


def test_a_typing_error_does_not_change_the_other_numbers():
    column = schema_of([f"{v:.3f}" for v in np.linspace(1, 9, 200)] + ["1,5"]).columns[0]
    assert (column.kind, column.format, column.missing) == ("number", None, ("1,5",))


def test_rare_thousands_are_read_and_not_lost():
    schema = schema_of([*DECIMALS, "1,234.5", "12,000.5"])
    assert schema.columns[0].format == "1,234.5"
    frame = pd.DataFrame({"x": [*DECIMALS[:2], "12,000.5"], "other": 1})
    assert schema.check(frame)["x"].tolist() == [float(v) for v in DECIMALS[:2]] + [12_000.5]


def test_formats_from_a_file_are_checked():
    fields = schema_of(DECIMALS).to_dict()
    fields["columns"][0] |= {"kind": "number", "format": "(.*)*"}
    with pytest.raises(SchemaError, match="not a schema"):
        Schema.from_dict(fields)
    fields["columns"][0] |= {"format": None, "name": "other"}
    with pytest.raises(SchemaError, match="not a schema: columns of the names"):
        Schema.from_dict(fields)


@pytest.mark.parametrize("odd", ["unknown", "1,234"])
def test_never_taken_for_an_identifier(odd):
    values = [f"{v:.6f}" if odd == "unknown" else f"{v:,.0f}" for v in range(1, 201)]
    frame = pd.DataFrame({"x": [*values, odd], "z": RNG.normal(size=201)})
    y = np.arange(201) % 5 == 0
    schema = Schema.of(frame)
    assert find_leakage(schema.check(frame), y, schema, part_rows(201, y)) == []
    assert schema.notes


def test_times_must_be_clean():
    with pytest.raises(PartsError, match="'soon' in row 40 of 'when' is no time"):
        times_of(pd.Series([f"{i}.5" for i in range(39)] + ["soon"], name="when"))
    times = times_of(pd.Series([f"{i},5" for i in range(40)], name="when"))
    assert times.tolist() == [i + 0.5 for i in range(40)]


def test_from_a_dirty_file_to_scores(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(0, 2_000, 400).round(2)
    y = (x + rng.normal(0, 300, 400) > 1_500).astype(int)
    texts = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in x]
    texts[5] = "unknown"
    path = tmp_path / "german.csv"
    frame = pd.DataFrame({"amount": texts, "y": y})
    frame.to_csv(path, sep=";", index=False)
    fitted = fit_table(read_table(path), "y", "max f1", model="logistic")
    assert fitted.test_point.f1 > 0.7
    assert fitted.leakage == []
    assert any("'unknown' (row 6)" in note for note in fitted.notes)
    model = fitted.model
    expected = model.scores(pd.DataFrame({"amount": x}).iloc[10:])
    # Later, clean, with another delimiter, and all of a kind that looks like plain numbers.
    later = tmp_path / "later.csv"
    frame[10:].to_csv(later, sep=";", index=False)
    score_file(model, later, tmp_path / "scored.parquet")
    assert read_table(tmp_path / "scored.parquet")["score"].tolist() == expected.tolist()
    later.write_text('amount\n"1.234"\n"2.500"\n')
    thousands = model.scores(pd.DataFrame({"amount": [1234.0, 2500.0]}))
    assert model.scores(model.read(later)).tolist() == thousands.tolist()
