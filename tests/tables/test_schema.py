"""What columns are, and what is said of tables that do not have them."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import SchemaError
from setpoint.tables.schema import Schema

N = 200
ROWS = np.arange(N)
SENTENCES = [f"call me {i} times on day number {i * 7}" for i in range(N)]


def kind(values, **options):
    frame = pd.DataFrame({"x": pd.Series(values, **options)})
    return Schema.of(frame).columns[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], "number"),
        ([1.5, np.nan, np.inf], "number"),
        (pd.array([1, None, 2**60], dtype="Int64"), "number"),
        ([Decimal("1.5"), None, 2], "number"),
        (pd.to_timedelta(["1h", None, "2h"]), "number"),
        (["1.5", "", "2e3", None], "number"),
        ([True, False, True], "boolean"),
        ([True, None, False], "boolean"),
        (pd.array([True, None, False], dtype="boolean"), "boolean"),
        (["00123", "00456", "00789"], "category"),
        (["a", "b", None], "category"),
        (["a", 1, 2.0], "category"),
        ([True, 3, "x"], "category"),
        (pd.Categorical([1, 2, 1]), "category"),
        (pd.Categorical(["a", "b", None]), "category"),
        ([f"customer-{i}" for i in range(10_000)], "category"),
        (["a long name of few values", "another long name of them"] * 50, "category"),
        ([f"Jane Doe {i}" for i in range(N)], "category"),
        (SENTENCES, "text"),
        ([*SENTENCES, None, "", "  "], "text"),
        (pd.to_datetime(["2024-01-01", None, "2024-03-01"]), "date"),
        (pd.to_datetime(["2024-01-01", "2024-03-01"]).tz_localize("Europe/Paris"), "date"),
        ([datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2)], "date"),
        (["2024-01-01", "", "2024-12-31"], "date"),
        (["2024-01-01 10:00", "2024-12-31 11:30:15.25"], "date"),
        (["2024-01-01T10:00:00Z", "2024-12-31T11:30:15+02:00"], "date"),
        (["01/02/2024", "31/12/2024"], "date"),
        (["12/31/2024", "01/02/2024"], "date"),
        (["2024-01-01", "unknown"], "category"),
        (["10.0.0.1", "10.0.0.2"], "category"),
    ],
)
def test_kinds(values, expected):
    assert kind(values).kind == expected


def test_dates_know_how_they_are_written():
    assert kind(["01/02/2024", "31/12/2024"]).format == "%d/%m/%Y"
    assert kind(["01/02/2024", "12/31/2024"]).format == "%m/%d/%Y"
    assert kind(["2024-01-01T10:00:00Z", "2024-12-31T11:30:15+02:00"]).zone == "UTC"
    paris = pd.to_datetime(["2024-01-01", "2024-03-01"]).tz_localize("Europe/Paris")
    assert kind(paris).zone == "Europe/Paris"


@pytest.mark.parametrize("values", [[[1], [2]], [b"a", b"b"], [{"a": 1}, {"a": 2}], [1j, 2j]])
def test_values_of_which_nothing_can_be_learnt(values):
    with pytest.raises(SchemaError, match="column 'x' holds .*drop it"):
        kind(values)


def test_useless_columns_are_put_aside():
    frame = pd.DataFrame(
        {
            "a": [1, 2, 3], "empty": [None] * 3, "blank": ["", " ", None], "nan": [np.nan] * 3,
            "one": [7] * 3, "hint": [7, None, 7], "y": [0, 1, 0],
        }
    )  # fmt: skip
    schema = Schema.of(frame, {"y": "the target"})
    assert schema.names == ["a", "hint"]
    assert len(schema.notes) == 4
    assert "'empty' is missing in every row" in schema.notes[0]
    assert "'one' is the same in every row" in schema.notes[3]
    # All of them may be there later, with other values, or not.
    assert list(schema.check(frame.assign(one=[1, 2, 3], empty="now a text"))) == ["a", "hint"]
    assert list(schema.check(frame[["hint", "a"]])) == ["a", "hint"]


def test_nothing_left():
    with pytest.raises(SchemaError, match="no column is left.*'one' is the same"):
        Schema.of(pd.DataFrame({"one": [1, 1], "y": [0, 1]}), {"y": "the target"})


def messy():
    return pd.DataFrame(
        {
            "größe (m²) ": ROWS / 8,
            "n": ROWS,
            "flag": ROWS % 2 == 0,
            "who": pd.Series([f"w{i % 5}" for i in ROWS], dtype="str"),
            "note": pd.Series(SENTENCES, dtype="str"),
            "day": pd.Series([f"{1 + i % 28:02d}/02/2024" for i in ROWS], dtype="str"),
            "when": pd.date_range("2024", periods=N, freq="h", tz="Europe/Paris"),
        }
    )


def test_model_types():
    schema, frame = Schema.of(messy()), messy()
    found = schema.check(frame.iloc[:, ::-1])
    assert list(found) == list(frame)
    kinds = ["float64", "float64", "float64", "str", "str", "datetime64[us]"]
    assert [str(t) for t in found.dtypes] == [*kinds, "datetime64[us, Europe/Paris]"]
    assert found["day"].iloc[2] == pd.Timestamp("2024-02-03")
    assert found["flag"].tolist()[:2] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("n", ROWS.astype("int32")),
        ("n", ROWS.astype("float64")),
        ("n", np.full(N, np.nan)),
        ("n", [None] * N),
        ("n", [str(i) for i in ROWS]),
        ("n", pd.array(ROWS, dtype="Int8") if N < 128 else pd.array(ROWS, dtype="Int16")),
        ("flag", [None] * N),
        ("flag", ROWS % 2),
        ("flag", ["True", "false"] * (N // 2)),
        ("who", pd.Categorical([f"w{i % 5}" for i in ROWS])),
        ("who", pd.array([f"w{i % 9}" for i in ROWS], dtype="string")),
        ("who", np.array([f"w{i}" for i in ROWS], dtype=object)),
        ("who", np.full(N, np.nan)),
        ("note", [None] * N),
        ("day", pd.date_range("2024", periods=N)),
        ("day", [f"2024-02-{1 + i % 28:02d}" for i in ROWS]),
        ("day", np.full(N, np.nan)),
        ("when", pd.date_range("2024", periods=N, freq="h", tz="UTC")),
        ("when", [f"2024-02-{1 + i % 28:02d}T10:00:00Z" for i in ROWS]),
        ("when", [None] * N),
    ],
)
def test_harmless_changes_of_type(column, values):
    schema = Schema.of(messy())
    found = schema.check(messy().assign(**{column: values}))
    expected = schema.check(messy()).dtypes
    assert list(found.dtypes) == list(expected)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("n", "twelve", "held numbers .*'twelve' in row 1,004"),
        ("n", pd.Timestamp("2024-01-01"), "held numbers"),
        ("flag", 2, "held true or false.* 2 in row 1,004"),
        ("flag", "maybe", "held true or false"),
        ("who", 17, "held texts .* 17 in row 1,004"),
        ("note", 17.5, "held texts"),
        ("day", "2024/31/31", "held dates without a time zone such as %d/%m/%Y"),
        ("day", 5, "held dates"),
        ("when", "2024-01-01 10:00", "held dates with a time zone"),
        ("when", "yesterday", "held dates"),
    ],
)
def test_harmful_changes_of_type(column, value, expected):
    schema, frame = Schema.of(messy()), messy()
    values = frame[column].astype(object)
    values[:] = None
    values.iloc[3] = value
    with pytest.raises(SchemaError, match=f"'{column}' {expected}"):
        schema.check(frame.assign(**{column: values}), first_row=1_000)


@pytest.mark.parametrize(
    ("column", "values"),
    [("who", ROWS), ("n", pd.date_range("2024", periods=N)), ("day", ROWS), ("flag", ROWS)],
)
def test_columns_of_another_type(column, values):
    with pytest.raises(SchemaError, match=f"'{column}' held"):
        Schema.of(messy()).check(messy().assign(**{column: values}))


def test_every_difference_is_named_at_once():
    frame = messy().rename(columns={"who": "Who", "note": "remarks"}).assign(n="x", other=1)
    with pytest.raises(SchemaError) as caught:
        Schema.of(messy()).check(frame)
    told = str(caught.value)
    for part in ("'who' is missing. Did you mean 'Who'?", "'note' is missing", "'n' held numbers",
                 "not known to the model: 'Who', 'remarks', 'other'"):  # fmt: skip
        assert part in told


def test_extra_columns_can_be_passed_over():
    schema = Schema.of(messy())
    with pytest.raises(SchemaError, match="not known to the model: 'extra'"):
        schema.check(messy().assign(extra=1))
    assert "extra" not in schema.check(messy().assign(extra=1), ignore_extra=True)


def test_mixed_columns_take_anything():
    schema = Schema.of(pd.DataFrame({"x": ["a", 1, 2.0, None]}))
    assert schema.check(pd.DataFrame({"x": [1, 2, 3]}))["x"].tolist() == ["1", "2", "3"]
    assert schema.check(pd.DataFrame({"x": [1.0, "b", None]}))["x"].tolist() == ["1", "b", ""]


def test_numbers_too_large_to_square_are_infinite():
    schema = Schema.of(pd.DataFrame({"x": [1.0, 2.0]}))
    found = schema.check(pd.DataFrame({"x": [1e300, -1e300, np.inf, 1e99]}))["x"]
    assert found.tolist() == [np.inf, -np.inf, np.inf, 1e99]


def test_json_and_back():
    schema = Schema.of(messy().assign(one=1), {"n": "the target"})
    text = json.dumps(schema.to_dict())
    assert Schema.from_dict(json.loads(text)) == schema
    for columns in (3, [], [{"name": "x"}], [{"name": "x", "kind": "?", "dtype": ""}]):
        broken = {"columns": columns, "aside": []}
        with pytest.raises(SchemaError, match="not a schema"):
            Schema.from_dict(broken)


def test_names_that_cannot_be():
    with pytest.raises(SchemaError, match="several columns are named 'a'"):
        Schema.of(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))
    with pytest.raises(SchemaError, match="must be strings, not 0"):
        Schema.of(pd.DataFrame([[1, 2], [3, 4]]))
    with pytest.raises(SchemaError, match="2 columns and 0 rows"):
        Schema.of(pd.DataFrame({"a": [], "b": []}))


def test_index_does_not_matter():
    frame = messy()
    frame.index = np.repeat([5, 7], N // 2)
    found = Schema.of(frame).check(frame)
    assert found["day"].tolist() == Schema.of(messy()).check(messy())["day"].tolist()


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_values_in_types_of_arrow_are_the_same(zone):
    """Ray and ``read_parquet(dtype_backend="pyarrow")`` give such tables."""
    import pyarrow as pa

    when = pd.Series(pd.to_datetime(["2024-01-01 08:30", None, "2024-05-01 09:00"])).dt.as_unit(
        "us"
    )
    frame = pd.DataFrame(
        {
            "number": [1.5, None, 2.0],
            "count": [1, 2, 3],
            "text": ["a", None, "b"],
            "flag": pd.array([True, None, False], dtype="boolean"),
            "when": when.dt.tz_localize(zone),
            "day": [datetime.date(2024, 1, 1), None, datetime.date(2024, 5, 1)],
        }
    )
    arrow = pa.Table.from_pandas(frame).to_pandas(types_mapper=pd.ArrowDtype)
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in arrow.dtypes)
    expected = Schema.of(frame).check(frame)
    for schema in (Schema.of(frame), Schema.of(arrow)):
        pd.testing.assert_frame_equal(schema.check(arrow), expected)
