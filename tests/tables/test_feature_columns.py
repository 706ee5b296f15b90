"""Features and the columns they come from: coefficients give back the scores of table models."""

import math

import numpy as np
import pandas as pd
import pytest

from setpoint import SetpointError
from setpoint.explain.coefficients import MISSING_VALUE, OTHER_VALUE
from setpoint.tables import fit_table
from setpoint.tables.encoder import (
    encode,
    feature_names,
    fit_encoder,
    make_encoder,
    side_by_side,
)
from setpoint.tables.feature_columns import features_of
from setpoint.tables.schema import Schema

GOAL = "max recall s.t. precision >= 0.7"
pytestmark = pytest.mark.filterwarnings("ignore::setpoint.InfeasibleGoalWarning")


def score_of(found, row):
    """Return the score of a row from the public fields of coefficients alone."""
    total = found.intercept
    for one in found:
        value = row[one.column]
        if one.value is None:
            number = math.nan if pd.isna(value) else float(value)
            total += one.coefficient * one.counts_as(number)
            continue
        missing = pd.isna(value)
        known = {c.value for c in found if c.column == one.column} | {one.against}
        if one.against is None:  # marks a missing number
            total += one.coefficient * missing
        elif one.value == OTHER_VALUE:
            total += one.coefficient * (str(value) not in known and not missing)
        else:
            text = "" if missing else str(value)
            total += one.coefficient * (text == one.value)
    return total


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    n = 300
    amount = rng.lognormal(3, 2, n)
    country = rng.choice(["home", "near, “so”", "<script>alert(1)</script>"], n, p=[0.6, 0.3, 0.1])
    risk = np.log(amount) + 3 * (country == "near, “so”") + rng.normal(0, 1, n)
    return pd.DataFrame(
        {
            "<b>amount</b>, €": np.where(rng.random(n) < 0.1, np.nan, amount),
            "count": np.where(rng.random(n) < 0.8, 2, rng.integers(0, 9, n)),
            "yes": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
            "country": np.where(rng.random(n) < 0.2, None, country),
            "rare": np.where(np.arange(n) == 5, None, rng.choice(["a", "b"], n)),
            "constant": 1,
            "empty": None,
            "bad": risk > 5,
        }
    )


@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_scores_are_sums_of_coefficients(frame, model):
    fitted = fit_table(frame, "bad", GOAL, model=model).model
    found = fitted.coefficients()
    rows = frame.head(80).copy()
    rows.loc[0, "country"] = "nowhere yet"
    rows.loc[1, "<b>amount</b>, €"] = 1e30
    rows.loc[2, "<b>amount</b>, €"] = math.inf
    wanted = fitted.scores(rows)
    sums = [score_of(found, row) for row in rows.to_dict("records")]
    assert sums == pytest.approx(wanted, abs=2e-5)
    assert {c.column for c in found} == {
        "<b>amount</b>, €", "count", "yes", "country", "rare"
    }  # fmt: skip
    far = next(c for c in found if c.value == "near, “so”")
    assert (far.against, far.feature) == ("home", "country = near, “so”")
    assert far.coefficient > 0
    assert {c.value for c in found if c.column == "<b>amount</b>, €"} == {None, MISSING_VALUE}
    amount = next(c for c in found if c.feature == "<b>amount</b>, €")
    assert amount.centre == pytest.approx(frame["<b>amount</b>, €"].median(), rel=0.3)
    assert 0 < amount.limit < math.inf
    assert found[0].column in ("country", "<b>amount</b>, €")


def test_dates_texts_and_letters(table):
    columns = ["ratio", "opened", "merchant", "note", "day", "outcome"]
    fitted = fit_table(table[columns], "outcome", GOAL, model="logistic", text_features=3).model
    found = fitted.coefficients()
    features = {c.feature for c in found}
    assert {"opened year", "opened month (sine)", "day weekday (cosine)"} <= features
    assert {"note letters 3", "merchant letters 30", "ratio"} <= features
    assert len(found) == fitted.facts["features"]


def test_other_models_have_no_coefficients(table):
    columns = ["ratio", "country", "outcome"]
    fitted = fit_table(table[columns], "outcome", GOAL, model="hgb").model
    with pytest.raises(SetpointError, match="permutation_importance"):
        fitted.coefficients()


@pytest.mark.parametrize("for_trees", [False, True])
def test_features_come_from_the_column_that_changes_them(table, for_trees):
    # Account numbers are all equal as 32-bit floats.
    columns = [name for name in table if name not in ("outcome", "empty", "one", "account")]
    schema = Schema.of(table[columns])
    checked = schema.check(table[columns].head(150))
    schema = schema.counted(checked)
    encoder = make_encoder(schema, text_features=3, for_trees=for_trees)
    fit_encoder(encoder, checked)
    before = encode(encoder, checked)
    owners = np.array([f.column for f in features_of(encoder)])
    assert len(owners) == before.shape[1] == len(feature_names(encoder))
    for name in columns:
        mixed = checked.copy()
        mixed[name] = checked[name].to_numpy()[np.random.default_rng(0).permutation(len(checked))]
        after = encode(encoder, mixed)
        changed = (after != before) & ~(np.isnan(before) & np.isnan(after))
        assert set(owners[changed.any(axis=0)]) == {name}


def test_encoders_side_by_side(table):
    schema = Schema.of(table[["ratio", "country"]])
    checked = schema.check(table[["ratio", "country"]])
    both = [fit_encoder(make_encoder(schema, for_trees=t), checked) for t in (True, False)]
    found = features_of(side_by_side(*both))
    assert [f.column for f in found[:2]] == ["country", "ratio"]
    assert len(found) == sum(encode(e, checked).shape[1] for e in both)
