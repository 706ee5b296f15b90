"""Columns of texts, most of which are numbers or dates."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from setpoint.data import read_table, split_rows
from setpoint.data.values import parse_number
from setpoint.errors import SchemaError, SplitError
from setpoint.tables import fit_table, score_file
from setpoint.tables.kinds import times_of
from setpoint.tables.leakage import find_leakage
from setpoint.tables.schema import Schema

# --- numbers --------------------------------------------------------------------------------------


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
def test_a_few_other_texts_count_as_missing(values, missing):
    schema = schema_of(values)
    column = schema.columns[0]
    assert (column.kind, list(column.missing), column.format) == ("number", missing, None)
    (note,) = schema.notes
    assert "taken as numbers" in note
    assert all(repr(text) in note for text in missing)
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
    ("values", "message"),
    [
        # Every tenth code has a letter: codes, not typing errors.
        (with_values(WHOLE, **{f"_{i}": f"A{i}" for i in range(0, 300, 15)}), "93 % .*'A0' .row 1"),
        (with_values(DECIMALS, **{f"_{i}": f"{i} kg" for i in range(21)}), "93 % .*'0 kg'"),
        (["1,234", "56", "12,345"] * 30, "'1,234' may be 1234 or 1.234.*plain numbers"),
        ([*WHOLE, "1,234"], "may be 1234 or 1.234"),
        (["€5.00", "$7.00"] * 30, "several ways, e.g. '€5.00', '.7.00'"),
        (["1 234,5", "7,5", "12 000,0"] * 30, "several ways"),
    ],
)
def test_texts_that_only_look_like_numbers_have_a_note(values, message):
    schema = schema_of(values)
    assert schema.columns[0].kind == "category"
    assert schema.columns[0].missing == ()
    assert re.search(message, *schema.notes)
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
def test_other_texts_stay_categories(values):
    schema = schema_of(values)
    assert schema.columns[0].kind == "category"
    assert schema.notes == ()


@pytest.mark.parametrize(
    ("text", "example", "value"),
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
def test_amounts(text, example, value):
    assert parse_number(text, example) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("write", "example"),
    [
        (lambda v: f"€{v:,.2f}", "€1,234.5"),
        (lambda v: f"{v:,.2f} $", "1,234.5$"),
        (lambda v: f"{v:.1f}%", "1,234.5%"),
        (lambda v: f"{v:.2f}".replace(".", ","), "1.234,5"),
        (lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")), "1.234,5"),
        (lambda v: f"£{v:,.0f}", "£1,234.5"),
    ],
)
def test_amounts_of_one_format_are_numbers(write, example):
    values = np.random.default_rng(0).normal(0, 3_000, 200).round(2)
    texts = [write(v) for v in values]
    texts[17] = "?"
    schema = schema_of(texts)
    column = schema.columns[0]
    assert (column.kind, column.format, column.missing) == ("number", example, ("?",))
    assert f"written like {example}" in schema.notes[0]
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
def test_numbers_are_not_taken_for_an_identifier(odd):
    values = [f"{v:.6f}" if odd == "unknown" else f"{v:,.0f}" for v in range(1, 201)]
    frame = pd.DataFrame({"x": [*values, odd], "z": RNG.normal(size=201)})
    y = np.arange(201) % 5 == 0
    schema = Schema.of(frame)
    assert find_leakage(schema.check(frame), y, schema, split_rows(201, y)) == []
    assert schema.notes


def test_times_must_be_clean():
    with pytest.raises(SplitError, match="'soon' in row 40 of 'when' is not a time"):
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


# --- plain numbers among amounts ------------------------------------------------------------------


AMOUNT_RNG = np.random.default_rng(0)
VALUES = AMOUNT_RNG.normal(300, 2_000, 300).round(2)
FORMATS = {
    "$1,234.5": lambda v: f"${v:,.2f}".replace("$-", "-$"),
    "1,234.5%": lambda v: f"{v:.2f}%",
    "1.234,5€": lambda v: f"{v:,.2f} €".translate(str.maketrans(",.", ".,")),
}


@pytest.fixture(params=FORMATS)
def formatted(request):
    """Return an example of a format, and numbers in it."""
    return request.param, [FORMATS[request.param](v) for v in VALUES]


EVERY_SECOND = list(range(0, 300, 2))


@pytest.mark.parametrize(
    ("zero", "rows"),
    [("0", [0]), ("0.0", [7]), ("0,00", EVERY_SECOND), ("-0", EVERY_SECOND), (" 0 ", [0])],
)
def test_zero_is_zero_in_every_unit(formatted, zero, rows):
    example, texts = formatted
    for row in rows:
        texts[row] = zero
    schema = schema_of(texts)
    column = schema.columns[0]
    assert (column.kind, column.format, column.missing) == ("number", example, ())
    found = schema.check(pd.DataFrame({"x": texts, "other": 1}))["x"]
    assert (found[rows] == 0).all()
    assert not found.isna().any()


def test_a_bare_number_is_not_an_amount_with_a_unit():
    zeros = [("0", "1,234.5%"), ("0,0", "€1,234.5"), ("0.00", "1.234,5")]
    assert [parse_number(*pair) for pair in zeros] == [0, 0, 0]
    none = [("7", "1,234.5%"), ("00", "€1,234.5"), (".", "1,234.5"), ("0.", "1,234.5%")]
    assert np.isnan([parse_number(*pair) for pair in none]).all()


def test_plain_numbers_in_training_make_a_category(formatted):
    example, texts = formatted
    for bare in ("1220.00", "12", "-3"):
        column = schema_of([*texts, bare]).columns[0]
        assert column.kind == "category"
        assert f"{bare!r} (row 301)" in column.note
        assert f"like {example}" in column.note


def test_plain_numbers_in_later_files_raise_an_error(formatted):
    example, texts = formatted
    schema = schema_of(texts)
    for later in (
        pd.Series(["1220.00", "3.5"]),
        pd.Series([1220.0, 3.5]),
        pd.Series([1220, 3]),
        pd.Series([1220.0, 3.5], dtype=object),
        pd.array([None, 3], dtype="Int64"),
    ):
        with pytest.raises(SchemaError) as caught:
            schema.check(pd.DataFrame({"x": later, "other": 1}))
        message = str(caught.value)
        assert f"'x' held numbers written like {example}" in message
        assert f"Write them like {example}, as in training, or fit the model again on" in message
        assert "on plain numbers" in message
    fine = pd.DataFrame({"x": [0.0, np.nan], "other": 1})
    assert schema.check(fine)["x"].fillna(-1).tolist() == [0, -1]


def test_numbers_of_no_unit_are_numbers_in_any_type():
    schema = schema_of([f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in VALUES])
    with pytest.raises(SchemaError, match=r"'96127.25' in row 1 .*Write them like 1.234,5, as in"):
        schema.check(pd.DataFrame({"x": ["96127.25"], "other": 1}))
    for later in (pd.Series([1.234, -7.5]), pd.Series([1.234, -7.5], dtype=object)):
        assert schema.check(pd.DataFrame({"x": later, "other": 1}))["x"].tolist() == [1.234, -7.5]


def test_numbers_and_amounts_in_one_column_stay_categories():
    texts = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in VALUES]
    column = schema_of([*texts, 1.234]).columns[0]
    assert column.kind == "category"
    assert "several ways" in column.note


def test_markers_of_missing_values_count_as_missing_later(tmp_path):
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


# --- codes, ranges, limits and units --------------------------------------------------------------


CODE_RNG = np.random.default_rng(0)
CODES = 5_000
ICD = [250.0, 401.9, 414.01]


def column_of(values):
    frame = pd.DataFrame({"x": pd.Series(values, dtype="str"), "other": range(len(values))})
    return Schema.of(frame).columns[0]


def among(values, *odd, times=1):
    values = [str(v) for v in values]
    places = CODE_RNG.choice(len(values), times * len(odd), replace=False)
    for i, place in enumerate(places):
        values[place] = odd[i % len(odd)]
    return values


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        (among(CODE_RNG.choice([99213, 80053, 36415], CODES), "G0439", times=50), "G0439"),
        (among(CODE_RNG.choice([11, 21, 42, 54], CODES), "44-45", times=20), "44-45"),
        (among(CODE_RNG.integers(1, 6, CODES), "5+", times=30), "5+"),
        (
            among(CODE_RNG.choice([250.0, 401.9, 414.01], CODES), "V45.81", "E885.9", times=75),
            "V45.81",
        ),
        (among(CODE_RNG.integers(10_000, 99_999, CODES), "SW1A"), "SW1A"),
        (among(CODE_RNG.random(CODES).round(2), "<0.5", times=150), "<0.5"),
        (among(CODE_RNG.random(CODES).round(2), "> 100"), "> 100"),
        (among(CODE_RNG.random(CODES).round(2), "≤LOD", times=5), "≤LOD"),
        (among(CODE_RNG.integers(1, 90, CODES), "34 years"), "34 years"),
        (among(CODE_RNG.integers(1, 90, CODES), "1234F", times=2), "1234F"),
        (among(CODE_RNG.random(CODES).round(2), "12%"), "12%"),
        (among(CODE_RNG.random(CODES).round(2), "(12.50)"), "(12.50)"),
        (among(CODE_RNG.random(CODES).round(2), "$3.50"), "$3.50"),
    ],
)
def test_informative_texts_make_a_category(values, odd):
    column = column_of(values)
    assert (column.kind, column.missing, column.format) == ("category", (), None)
    assert f"{odd!r}" in column.note
    assert "row " in column.note
    assert "For it to be numbers, write" in column.note


@pytest.mark.parametrize("odd", ["old", "n/a", "abc", "4O", "1.2.3", "--", "<none>", "3..5"])
def test_typing_errors_still_count_as_missing(odd):
    column = column_of(among(CODE_RNG.integers(1, 90, CODES), odd))
    assert (column.kind, column.missing) == ("number", () if odd == "n/a" else (odd,))
    if odd != "n/a":
        assert f"1 value is not a number and counts as missing: {odd!r} (row" in column.note


@pytest.mark.parametrize(
    ("write", "example"),
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
def test_numbers_with_units_in_letters_have_a_note(write, example):
    values = [write(v) for v in np.linspace(10, 99, 300)]
    frame = pd.DataFrame({"x": values})
    schema = Schema.of(frame)
    assert schema.columns[0].kind == "category"
    (note,) = schema.notes
    assert example in note
    assert "plain numbers such as 1234.5" in note
    y = np.arange(300) % 5 == 0
    found = find_leakage(schema.check(frame), y, schema, split_rows(300, y))
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
def test_codes_stay_categories(values):
    column = column_of(values)
    assert (column.kind, column.note) == ("category", "")


# --- dates ----------------------------------------------------------------------------------------


DAYS = pd.date_range("2020-01-01", periods=600)


def schema_of_dates(values):
    return Schema.of(pd.DataFrame({"x": values, "z": np.arange(len(values)) % 7}))


@pytest.mark.parametrize(
    ("date_format", "odd"),
    [
        ("%Y-%m-%d", ["unknown"]),
        ("%d.%m.%Y", ["31.02.2020", "soon"]),
        ("%m/%d/%Y", ["?"] * 200),
        ("%d/%m/%Y", ["unknown"]),
        ("%d %b %Y", ["31.02.2020", "soon"]),
        ("%Y-%m-%d", ["?"] * 200),
    ],
)
def test_dirty_dates(date_format, odd):
    values = [*odd, *DAYS.strftime(date_format)]
    schema = schema_of_dates(values)
    column = schema.columns[0]
    assert column.kind == "date"
    assert column.format == ("ISO8601" if date_format == "%Y-%m-%d" else date_format)
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


def test_the_order_of_day_and_month_is_not_guessed_from_some_dates():
    early = [d for d in pd.date_range("2000-01-01", "2020-12-31") if d.day <= 12]
    values = [d.strftime("%d/%m/%Y") for d in early] + ["31/12/2020", "unknown"]
    column = schema_of_dates(values).columns[0]
    assert (column.format, column.missing) == ("%d/%m/%Y", ("unknown",))


@pytest.mark.parametrize(
    "values",
    [
        ["2024-01-01", "unknown"],
        [*DAYS.strftime("%Y-%m-%d")[:80], *(f"week {i}" for i in range(20))],
        [f"2024-{i:03d}" for i in range(300)],
    ],
)
def test_texts_that_are_not_dates_stay_categories(values):
    assert schema_of_dates(values).columns[0].kind == "category"


def test_too_many_other_texts_have_a_note_and_are_not_an_identifier():
    values = [*DAYS.strftime("%d.%m.%Y"), *(f"week {i}" for i in range(30))]
    frame = pd.DataFrame({"x": values, "z": np.arange(len(values)) % 7 + 0.5})
    schema = Schema.of(frame)
    assert schema.columns[0].kind == "category"
    (note,) = schema.notes
    assert "95 % of its values are dates" in note
    assert "'week 0' (row 601)" in note
    y = np.arange(len(values)) % 5 == 0
    assert find_leakage(schema.check(frame), y, schema, split_rows(len(values), y)) == []


def test_times_must_be_clean_dates():
    values = pd.Series([*DAYS.strftime("%d.%m.%Y"), "soon"], name="when")
    with pytest.raises(SplitError, match="'soon' in row 601 of 'when' is not a time"):
        times_of(values)
