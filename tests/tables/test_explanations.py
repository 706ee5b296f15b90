"""Permutation importance of a table's columns, rows near the threshold, drift."""

from dataclasses import replace
from zlib import crc32

import numpy as np
import pandas as pd
import pytest

from setpoint import load
from setpoint.errors import SchemaError, SetpointError
from setpoint.tables import fit_table

GOAL = "max recall s.t. precision >= 0.6"
pytestmark = pytest.mark.filterwarnings("ignore::setpoint.InfeasibleGoalWarning")


@pytest.fixture(scope="module")
def fitted(table):
    columns = ["outcome", "country", "größe (€) ", "ratio", "known"]
    frame = table[columns].head(400)
    return {
        model: fit_table(frame, "outcome", GOAL, model=model).model for model in ("logistic", "hgb")
    }


@pytest.mark.parametrize("model", ["logistic", "hgb"])
def test_shuffled_features_are_those_of_shuffled_columns(fitted, table, model):
    rows = table.head(300)[["outcome", *fitted[model].schema.names]]
    found = fitted[model].permutation_importance(rows, repeats=2)
    assert {one.columns for one in found} == {(name,) for name in fitted[model].schema.names}
    by_name = {one.name: one for one in found}
    assert by_name["country"].drops[0] > by_name["ratio"].drops[0]
    # The same by shuffling the column of the table.
    drops = []
    for repeat in range(2):
        rng = np.random.default_rng([0, crc32(b"country"), repeat])
        mixed = rows.assign(country=rows["country"].to_numpy()[rng.permutation(300)])
        after = fitted[model].evaluate(mixed)
        drops.append(fitted[model].evaluate(rows).recall - after.recall)
    assert by_name["country"].drops[0] == pytest.approx(np.mean(drops))
    assert by_name["country"].deviations[0] == pytest.approx(np.std(drops, ddof=1))


def test_bands(table):
    frame = table[["outcome", "country", "größe (€) ", "ratio"]]
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.6"
    model = fit_table(frame, "outcome", goal, model="logistic").model
    found = model.permutation_importance(frame, repeats=1)
    assert found.metrics == ("review_rate", "precision(alarm)", "npv(clear)")


def test_groups_samples_and_mistakes(fitted, table):
    model = fitted["logistic"]
    rows = table[["outcome", *model.schema.names]]
    found = model.permutation_importance(
        rows, columns=["ratio"], together=[["country", "known"]], max_rows=50, repeats=1
    )
    assert found[0].columns == ("country", "known")
    assert (found.rows, found.of_rows) == (50, 600)
    with pytest.raises(SetpointError, match="no column 'rati' .* Did you mean 'ratio'"):
        model.permutation_importance(rows, columns=["rati"])
    with pytest.raises(SchemaError, match="no column 'outcome'"):
        model.permutation_importance(rows.drop(columns="outcome"))
    with pytest.raises(SetpointError, match="no negative rows"):
        model.permutation_importance(rows[rows["outcome"] == "fraud"])


def test_hostile_names_and_constant_columns():
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {"<script>": rng.normal(size=n), "a,b": rng.choice([f"v{i}" for i in range(35)], n)}
    )
    frame["y"] = frame["<script>"] > 1
    frame["const"] = np.where(np.arange(n) == 0, 1, 0)
    model = fit_table(frame, "y", "max f1", model="logistic").model
    found = model.permutation_importance(frame.assign(const=0))
    assert found[0].columns == ("<script>",)
    constant = next(one for one in found if one.columns == ("const",))
    assert constant.drops == (0,)


def test_contributions_of_columns_and_the_average_add_up_to_the_score(fitted, table):
    model = fitted["logistic"]
    rows = table[["outcome", *model.schema.names]]
    found = model.nearest_rows(rows, each_side=2, on="these rows")
    scores = model.scores(rows)
    assert len(found) == 4
    for row in found:
        assert row.score == scores[row.number - 1]
        assert set(row.contributions) == set(model.schema.names)
        total = found.average + sum(row.contributions.values())
        assert total == pytest.approx(row.score, abs=1e-4)
        assert row.label == table["outcome"][row.number - 1]
        assert row.values == {}
    shown = model.nearest_rows(
        rows.iloc[::-1], each_side=2, values=True, numbers=np.arange(600)[::-1]
    )
    assert {row.number for row in shown} == {row.number for row in found}
    number = shown[0].number
    assert shown[0].values["country"] == str(table["country"][number - 1])
    unlabelled = model.nearest_rows(rows.drop(columns="outcome"), each_side=1)
    assert unlabelled[0].label is None


def test_nearest_rows_of_trees_and_bands(fitted, table):
    model = fitted["hgb"]
    found = model.nearest_rows(table, each_side=1, ignore_extra=True)
    assert found.average is None
    assert len(found) == 2
    frame = table[["outcome", "country", "ratio"]]
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.6"
    band = fit_table(frame, "outcome", goal, model="logistic").model
    with pytest.raises(SetpointError, match="review band"):
        band.nearest_rows(frame)


def test_drift_of_a_table(table, later, tmp_path):
    columns = ["outcome", "country", "größe (€) ", "ratio", "known", "opened", "note", "merchant"]
    model = fit_table(table[columns], "outcome", GOAL, model="logistic", text_features=3).model
    assert not model.drift(table[columns]).notable
    model.save(tmp_path / "m.zip")
    loaded = load(tmp_path / "m.zip")
    assert repr(loaded.summaries) == repr(model.summaries)
    found = {one.name: one for one in loaded.drift(later[columns], on="later rows")}
    assert found["größe (€) "].size > 0.8  # all missing now
    assert found["country"].unseen == pytest.approx(11 / 300, abs=0.01)
    assert found["ratio"].judgement in ("within chance", "small", "moderate")
    assert [level for level, n in next(s for s in loaded.summaries if s.name == "merchant").levels
            if n < 10] == []  # fmt: skip
    old = replace(loaded, summaries=())
    with pytest.raises(SetpointError, match="earlier version"):
        old.drift(later[columns])
    old.save(tmp_path / "old.zip")
    assert load(tmp_path / "old.zip").summaries == ()
