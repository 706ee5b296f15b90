"""Features: finite, the same for a row alone, and nothing in them that cannot be saved."""

import numpy as np
import pandas as pd
import pytest

from setpoint.data.table_writer import TableWriter
from setpoint.errors import SchemaError
from setpoint.tables import fit_table, score_file
from setpoint.tables.encoder import (
    encode,
    feature_names,
    fit_encoder,
    make_encoder,
    tree_categories,
)
from setpoint.tables.schema import Schema


@pytest.fixture(scope="module")
def schema(table):
    return Schema.of(table, {"outcome": "the target"})


@pytest.fixture(scope="module", params=[False, True], ids=["linear", "trees"])
def fitted(request, table, schema):
    encoder = make_encoder(schema, text_features=10, for_trees=request.param)
    return fit_encoder(encoder, schema.check(table.iloc[:450])), request.param


def test_features_are_finite(fitted, schema, table, later):
    encoder, for_trees = fitted
    for frame in (table, later):
        X = encode(encoder, schema.check(frame))
        assert X.dtype == np.float32
        assert X.flags.c_contiguous
        assert len(X) == len(frame)
        assert not np.isinf(X).any()
        if not for_trees:
            assert np.isfinite(X).all()
            assert np.abs(X).max() <= 10


def test_a_row_alone_has_the_same_features(fitted, schema, later):
    encoder, _ = fitted
    whole = encode(encoder, schema.check(later))
    for i in range(0, len(later), 37):
        alone = encode(encoder, schema.check(later.iloc[[i]]))
        assert np.array_equal(alone[0], whole[i], equal_nan=True)


def test_names(fitted, schema, table):
    encoder, for_trees = fitted
    names = feature_names(encoder)
    assert len(names) == encode(encoder, schema.check(table.head(2))).shape[1]
    assert len(set(names)) == len(names)
    assert "note_9" in names
    assert ("country" if for_trees else "country_far") in names


def test_fitting_again_gives_the_same(schema, table):
    checked = schema.check(table)
    first, second = (
        encode(fit_encoder(make_encoder(schema, text_features=5), checked), checked)
        for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_saved_without_functions(fitted, schema, table):
    io = pytest.importorskip("skops.io")
    encoder, _ = fitted
    data = io.dumps(encoder)
    untrusted = io.get_untrusted_types(data=data)
    assert all(name.startswith("skrub._") or name == "numpy.dtype" for name in untrusted)
    assert all(name.rpartition(".")[2].lstrip("_")[0].isupper() or name == "numpy.dtype"
               for name in untrusted)  # fmt: skip
    again = io.loads(data, trusted=untrusted)
    checked = schema.check(table)
    assert np.array_equal(encode(again, checked), encode(encoder, checked), equal_nan=True)


def test_trees_get_categories_first_and_missing_values(schema, table, later):
    encoder = fit_encoder(
        make_encoder(schema, text_features=5, for_trees=True), schema.check(table)
    )
    k = tree_categories(schema)
    assert feature_names(encoder)[:k] == ["country"]
    X = encode(encoder, schema.check(later))
    assert np.isnan(X[:11, 0]).all()  # a level that was not there
    assert set(X[11:, 0]) <= {0.0, 1.0, 2.0, 3.0}
    assert np.isnan(X[:, feature_names(encoder).index("größe (€) ")]).all()


def test_outliers_and_infinities_keep_their_order():
    schema = Schema.of(pd.DataFrame({"x": np.arange(100.0)}))
    values = [-np.inf, -1e300, -1e30, 0, 50, 99, 1e30, 1e300, np.inf]
    encoder = fit_encoder(make_encoder(schema), schema.check(pd.DataFrame({"x": np.arange(100.0)})))
    X = encode(encoder, schema.check(pd.DataFrame({"x": values})))[:, 0]
    assert np.isfinite(X).all()
    assert (np.diff(X) >= 0).all()
    assert X[3] < X[4] < X[5] < X[6]


def test_missing_values_are_marked():
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0], "b": [True, None, False, True]})
    schema = Schema.of(frame)
    encoder = fit_encoder(make_encoder(schema), schema.check(frame))
    X = encode(encoder, schema.check(frame))
    marks = [i for i, name in enumerate(feature_names(encoder)) if "missing" in name]
    assert X[:, marks].tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


def test_columns_missing_in_the_rows_that_fit():
    frame = pd.DataFrame(
        {
            "x": [np.nan] * 50 + [1.0, 2.0], "b": [None] * 50 + [True, False],
            "d": [pd.NaT] * 50 + list(pd.to_datetime(["2024-01-01", "2024-01-02"])),
            "c": [None] * 50 + ["a", "b"], "z": np.arange(52),
        }
    )  # fmt: skip
    schema = Schema.of(frame)
    checked = schema.check(frame)
    encoder = fit_encoder(make_encoder(schema), checked.iloc[:50])
    assert np.isfinite(encode(encoder, checked)).all()


def test_few_rows_of_text():
    texts = [f"a short text of row {i}" for i in range(50)]
    frame = pd.DataFrame({"t": texts})
    schema = Schema.of(frame)
    encoder = fit_encoder(make_encoder(schema), schema.check(frame).iloc[:10])
    assert encode(encoder, schema.check(pd.DataFrame({"t": ["", "新しい文"]}))).shape[0] == 2


def test_width_of_text_must_be_some(schema):
    with pytest.raises(SchemaError, match="text_features"):
        make_encoder(schema, text_features=0)


# --- columns that are rarely missing --------------------------------------------------------------


ROWS = 1_500


def make_table(seed=0):
    rng = np.random.default_rng(seed)
    amount = rng.normal(size=ROWS)
    return pd.DataFrame(
        {
            "amount": amount,
            "age": [str(v) for v in rng.integers(18, 90, ROWS)],
            "flag": pd.array(rng.random(ROWS) < 0.5, dtype="boolean"),
            "where": rng.choice(["home", "near", "far"], ROWS, p=[0.6, 0.3, 0.1]),
            "when": pd.date_range("2024", periods=ROWS, freq="h"),
            "y": (amount + rng.normal(0, 0.4, ROWS) > 1).astype(int),
        }
    )


@pytest.fixture(scope="module")
def frame():
    """A positive row in which all but the amount is missing, by one name or another."""
    frame = make_table()
    one = frame.index[frame["y"] == 1][7]
    frame.loc[one, ["age", "flag", "where", "when"]] = ["old", None, None, pd.NaT]
    return frame


@pytest.fixture(scope="module", params=["logistic", "linear", "hgb"])
def model(request, frame):
    return fit_table(frame, "y", "max f1", model=request.param, test=0).model


def test_a_rarely_missing_column_does_not_decide(model):
    later = make_table(seed=1)
    before = model.predict(later)["alarm"]
    for column, missing in (("age", None), ("flag", None), ("where", None), ("when", pd.NaT)):
        after = model.predict(later.assign(**{column: missing}))["alarm"]
        assert (before != after).mean() < 0.1, column


def test_frequent_ones_are_still_marked():
    frame = make_table()
    frame.loc[frame.index[frame["y"] == 1][::2], ["flag", "where"]] = None  # reveals half of them
    frame["age"] = np.where(frame["y"] == 1, None, frame["age"])  # reveals all
    model = fit_table(frame.drop(columns="amount"), "y", "max f1", model="logistic", test=0).model
    names = feature_names(model.encoder)
    assert [n for n in names if "missing" in n] == ["missingindicator_age", "missingindicator_flag"]
    assert "where_" in names
    assert model.evaluate(frame, ignore_extra=True).f1 > 0.95


@pytest.mark.parametrize(
    ("missing", "rows", "marked"),
    [(0, 900, 0), (19, 900, 0), (20, 900, 1), (29, 3_000, 0), (30, 3_000, 1), (885, 900, 0)],
)
def test_how_many_are_enough(missing, rows, marked):
    x = np.arange(float(rows))
    x[:missing] = np.nan
    frame = pd.DataFrame({"x": x, "z": np.arange(rows)})
    schema = Schema.of(frame)
    schema = schema.counted(schema.check(frame))
    assert schema.columns[0].absent == (missing, rows)
    encoder = fit_encoder(make_encoder(schema), schema.check(frame))
    assert sum("missing" in name for name in feature_names(encoder)) == marked
    assert np.isfinite(encode(encoder, schema.check(frame.assign(x=np.nan)))).all()


def test_filled_categories_keep_their_levels(model, frame):
    later = make_table(seed=1).assign(where="moon")
    (note,) = model.unseen_values(later)
    assert "In 'where', 1,500 of 1,500 values did not occur in training" in note
    names = feature_names(model.encoder)
    assert "where_" not in names
    assert "where_far" in names or "where" in names  # of trees
    assert len(names) == model.features(later).shape[1]


def test_columns_that_are_missing_more_often_have_a_note(model, tmp_path):
    later = make_table(seed=1).head(200)
    assert model.unseen_values(later) == []
    later.loc[:5, "age"] = None  # 3 %, which may happen
    later.loc[:79, "where"] = None
    later["when"] = pd.NaT
    notes = [
        "'where' is missing in 80 of 200 rows; in training it was missing in 1 of 1,500.",
        "'when' is missing in all 200 rows; in training it was missing in 1 of 1,500.",
    ]
    assert model.unseen_values(later) == notes
    with TableWriter(tmp_path / "later.parquet") as out:
        out.write(later)
    source, scored = tmp_path / "later.parquet", tmp_path / "scored.csv"
    assert list(score_file(model, source, scored, batch_rows=30).notes) == notes


def test_counts_are_saved_and_checked(model):
    fields = model.schema.to_dict()
    assert Schema.from_dict(fields) == model.schema
    for column in fields["columns"]:
        del column["absent"]  # as older files have it
    assert {c.absent for c in Schema.from_dict(fields).columns} == {None}
    for wrong in ("x", [1], [1, "a"], [3, 2], [-1, 2], [True, 2]):
        fields["columns"][0]["absent"] = wrong
        with pytest.raises(Exception, match="not a schema"):
            Schema.from_dict(fields)
