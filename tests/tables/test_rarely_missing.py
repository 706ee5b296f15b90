"""One missing value in training must not decide the rows in which that column is missing later."""

import numpy as np
import pandas as pd
import pytest

from setpoint.data.table_writer import TableWriter
from setpoint.tables import fit_table, score_file
from setpoint.tables.encoder import encode, feature_names, fit_encoder, make_encoder
from setpoint.tables.schema import Schema

N = 1_500


def table(seed=0):
    rng = np.random.default_rng(seed)
    amount = rng.normal(size=N)
    return pd.DataFrame(
        {
            "amount": amount,
            "age": [str(v) for v in rng.integers(18, 90, N)],
            "flag": pd.array(rng.random(N) < 0.5, dtype="boolean"),
            "where": rng.choice(["home", "near", "far"], N, p=[0.6, 0.3, 0.1]),
            "when": pd.date_range("2024", periods=N, freq="h"),
            "y": (amount + rng.normal(0, 0.4, N) > 1).astype(int),
        }
    )


@pytest.fixture(scope="module")
def frame():
    """A positive row in which all but the amount is missing, by one name or another."""
    frame = table()
    one = frame.index[frame["y"] == 1][7]
    frame.loc[one, ["age", "flag", "where", "when"]] = ["old", None, None, pd.NaT]
    return frame


@pytest.fixture(scope="module", params=["logistic", "linear", "hgb"])
def model(request, frame):
    return fit_table(frame, "y", "max f1", model=request.param, test=0).model


@pytest.mark.parametrize(
    ("column", "nothing"), [("age", None), ("flag", None), ("where", None), ("when", pd.NaT)]
)
def test_it_does_not_decide(model, column, nothing):
    later = table(seed=1)
    before = model.predict(later)["alarm"]
    after = model.predict(later.assign(**{column: nothing}))["alarm"]
    assert (before != after).mean() < 0.1


def test_frequent_ones_are_still_marked():
    frame = table()
    frame.loc[frame.index[frame["y"] == 1][::2], ["flag", "where"]] = None  # tells half of them
    frame["age"] = np.where(frame["y"] == 1, None, frame["age"])  # tells all
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
    later = table(seed=1).assign(where="moon")
    (note,) = model.unseen_values(later)
    assert "In 'where', 1,500 of 1,500 values did not occur in training" in note
    names = feature_names(model.encoder)
    assert "where_" not in names
    assert "where_far" in names or "where" in names  # of trees
    assert len(names) == model.features(later).shape[1]


def test_columns_that_are_missing_more_often_are_told_of(model, tmp_path):
    later = table(seed=1).head(200)
    assert model.unseen_values(later) == []
    later.loc[:5, "age"] = None  # 3 %, which may happen
    later.loc[:79, "where"] = None
    later["when"] = pd.NaT
    told = [
        "'where' is missing in 80 of 200 rows; in training it was missing in 1 of 1,500.",
        "'when' is missing in all 200 rows; in training it was missing in 1 of 1,500.",
    ]
    assert model.unseen_values(later) == told
    with TableWriter(tmp_path / "later.parquet") as out:
        out.write(later)
    source, scored = tmp_path / "later.parquet", tmp_path / "scored.csv"
    assert list(score_file(model, source, scored, batch_rows=30).notes) == told


def test_counts_are_kept_and_checked(model):
    fields = model.schema.to_dict()
    assert Schema.from_dict(fields) == model.schema
    for column in fields["columns"]:
        del column["absent"]  # as older files have it
    assert {c.absent for c in Schema.from_dict(fields).columns} == {None}
    for wrong in ("x", [1], [1, "a"], [3, 2], [-1, 2], [True, 2]):
        fields["columns"][0]["absent"] = wrong
        with pytest.raises(Exception, match="not a schema"):
            Schema.from_dict(fields)
