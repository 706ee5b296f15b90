"""Scored files, and notes on values that training has not seen."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from setpoint.data.table_writer import TableWriter
from setpoint.errors import SetpointError
from setpoint.tables import fit_table, score_file


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    amount = rng.normal(size=n)
    return pd.DataFrame(
        {
            "amount": amount,
            "where": rng.choice(["home", "near", "far", None], n),
            "flag": rng.random(n) < 0.5,
            "shop": [f"shop {i}" for i in rng.integers(0, 900, n)],
            "when": pd.date_range("2024", periods=n, freq="7h"),
            "y": (amount + 0.5 * rng.normal(size=n) > 1).astype(int),
        }
    )


@pytest.fixture(scope="module", params=["logistic", "hgb"])
def model(request):
    return fit_table(rows(400), "y", "max f1", model=request.param, test=0).model


@pytest.fixture
def later():
    frame = rows(100, seed=1)
    frame.loc[:10, "where"] = "moon"
    frame.loc[90:93, "where"] = ["mars", "venus", "pluto", "moon"]
    return frame.assign(amount=np.nan, when=pd.NaT)


def test_the_former_name_of_unseen_values(model):
    with pytest.warns(DeprecationWarning, match="use unseen_values"):
        assert model.strangers(rows(400)) == []


def test_known_rows_have_no_unseen_values(model):
    assert model.unseen_values(rows(400)) == []
    assert (
        model.unseen_values(rows(400).head(1).assign(amount=None)) == []
    )  # one missing value is not unusual


def test_unseen_values_are_counted(model, later):
    told = model.unseen_values(later)
    assert told == [
        "In 'where', 15 of 100 values did not occur in training ('moon', 'mars', 'venus', ...) "
        "and are ignored by the model.",
        "'amount' is missing in all 100 rows; in training it never was.",
        "'when' is missing in all 100 rows; in training it never was.",
    ]


def test_batches_add_up(model, later, tmp_path):
    path = tmp_path / "later.parquet"
    with TableWriter(path) as out:
        out.write(later)
    done = score_file(model, path, tmp_path / "scored.csv", batch_rows=13)
    assert list(done.notes) == model.unseen_values(later)
    later.loc[99, "amount"] = 1.0  # in the last batch alone
    with TableWriter(path) as out:
        out.write(later)
    done = score_file(model, path, tmp_path / "scored.csv", batch_rows=13)
    told = "'amount' is missing in 99 of 100 rows; in training it was missing in 0 of 400."
    assert [note for note in done.notes if "'amount'" in note] == [told]


def test_a_column_named_label_may_be_kept(model, tmp_path):
    path = tmp_path / "new.parquet"
    with TableWriter(path) as out:
        out.write(rows(30).assign(label=7))
    score_file(model, path, tmp_path / "scored.parquet", keep=["label"])
    found = pd.read_parquet(tmp_path / "scored.parquet")
    assert list(found) == ["label", "score", "alarm", "predicted"]
    assert (found["label"] == 7).all()
    assert set(found["predicted"]) <= {0, 1}


def test_scores_that_are_not_numbers_raise_an_error(model):
    class Broken:
        def positive_scores(self, X):
            return np.where(np.arange(len(X)) == 2, np.nan, 1.0)

    broken = replace(model, classifier=Broken())
    with pytest.raises(SetpointError, match=r"no score for row 1,003 \(1 such\)"):
        broken.scores(rows(5), first_row=1_000)
    with pytest.raises(SetpointError, match="row 3"):
        broken.predict(rows(5))
