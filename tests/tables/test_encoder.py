"""Features: finite, the same for a row alone, and nothing in them that cannot be saved."""

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import SchemaError
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
    strangers = io.get_untrusted_types(data=data)
    assert all(name.startswith("skrub._") or name == "numpy.dtype" for name in strangers)
    assert all(name.rpartition(".")[2].lstrip("_")[0].isupper() or name == "numpy.dtype"
               for name in strangers)  # fmt: skip
    again = io.loads(data, trusted=strangers)
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
