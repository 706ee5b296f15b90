"""A table model of several labels: fitting, saving, scoring and evaluating."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from label_rows import TARGETS, tickets
from setpoint import load
from setpoint.errors import (
    GoalError,
    InfeasibleGoalWarning,
    ModelFileError,
    SchemaError,
    SplitError,
    TargetError,
)
from setpoint.tables import fit_labels, score_file

GOAL = "max recall s.t. precision >= 0.6"


@pytest.fixture(scope="module")
def table():
    return tickets()


@pytest.fixture(scope="module")
def fitted(table):
    return fit_labels(table, TARGETS, "max f1")


@pytest.mark.parametrize("model", ["logistic", "forest", "hgb"])
def test_models_learn_all_labels(table, model):
    found = fit_labels(table, TARGETS, "max f1", model=model)
    assert found.test_point.macro("f1") > 0.6
    assert found.model.schema.names == ["a", "b", "c", "channel"]  # no target is a feature
    rows = table.iloc[found.test.rows]
    again = found.model.evaluate(rows, on="the test rows")
    assert again.to_dict() == found.test_point.to_dict()


def test_scores_do_not_depend_on_other_rows(fitted, table):
    whole = fitted.model.predict(table.head(40))
    one_by_one = pd.concat([fitted.model.predict(table.iloc[[i]]) for i in range(40)])
    pd.testing.assert_frame_equal(whole, one_by_one, check_exact=True)
    for name in TARGETS:
        assert ((whole[f"{name}_score"] > 0) == whole[f"{name}_alarm"]).all()


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_a_saved_model_predicts_the_same(fitted, table, tmp_path, name):
    fitted.model.save(tmp_path / name)
    same = load(tmp_path / name)
    pd.testing.assert_frame_equal(
        same.predict(table), fitted.model.predict(table), check_exact=True
    )
    assert same.evaluate(table).to_dict() == fitted.model.evaluate(table).to_dict()


def test_a_changed_model_file_is_refused(fitted, tmp_path):
    fitted.model.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    document = json.loads(path.read_text("utf-8"))
    document["model"]["targets"] = document["model"]["targets"][:2]
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


def test_a_zip_holds_no_pickles(fitted, tmp_path):
    fitted.model.save(tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert all(name.endswith((".json", ".skops")) for name in archive.namelist())


def test_a_file_is_scored_in_batches(fitted, table, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    done = score_file(
        fitted.model, tmp_path / "rows.csv", tmp_path / "out.csv", batch_rows=100, keep=["spam"]
    )
    result, expected = pd.read_csv(tmp_path / "out.csv"), fitted.model.predict(table)
    alarms = {name: int(expected[f"{name}_alarm"].sum()) for name in TARGETS}
    marked = expected[[f"{name}_alarm" for name in TARGETS]].any(axis=1)
    assert (done.rows, done.alarms, done.of_labels) == (len(table), int(marked.sum()), alarms)
    assert list(result.columns) == ["spam", *expected.columns]


def test_200_labels_of_which_one_has_no_positives():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    Y = (X @ rng.normal(size=(6, 200)) > 2).astype(int)
    Y[:, 17] = 0
    names = [f"topic {i}" for i in range(200)]
    table = pd.concat(
        [pd.DataFrame(X, columns=list("abcdef")), pd.DataFrame(Y, columns=names)], axis=1
    )
    with pytest.warns(InfeasibleGoalWarning, match="topic 17"):
        found = fit_labels(table, names, "max f1", model="logistic")
    assert found.model.classifier.thresholds_[17] == np.inf
    scored = found.model.predict(table.head(5))
    assert (scored["topic 17_score"] == -np.inf).all()
    assert not scored["topic 17_alarm"].any()
    assert "topic 17" in found.test_point.left_out
    assert any("most frequent of 200 labels" in note for note in found.notes)


def test_two_labels_and_no_test_rows(table):
    found = fit_labels(table, ["spam", "urgent"], GOAL, test=0)
    assert found.test is None
    assert found.model.operating_point.names == ("spam", "urgent")


def test_a_label_that_is_constant_on_the_training_rows_is_never_predicted(table):
    frame = table.copy()
    frame["when"] = np.arange(len(frame))
    frame["late"] = (frame["when"] >= 880).astype(int)  # only among the test rows
    with pytest.warns(InfeasibleGoalWarning, match="late"):
        found = fit_labels(frame, ["spam", "late"], "max f1", time="when")
    assert found.model.classifier.thresholds_[1] == np.inf
    assert found.test_point["late"].recall == 0


def test_certificates_are_joint():
    found = fit_labels(tickets(2500), TARGETS, GOAL, confidence=0.9)
    certificate = found.model.certificate
    assert certificate.each == pytest.approx(1 - 0.1 / 3)
    assert "spam" in certificate.certified_labels
    verdicts = certificate.check(found.test.Y, found.test.scores)
    assert set(verdicts) == set(certificate.certified_labels)
    assert not any(verdict.broken for verdict in verdicts.values())
    wrong = certificate.check(~found.test.Y, found.test.scores)
    assert wrong["spam"].broken


def test_groups_and_times_are_not_features(table):
    frame = table.assign(customer=np.arange(len(table)) // 3, when=np.arange(len(table)))
    found = fit_labels(frame, TARGETS, "max f1", group="customer", time="when")
    assert {"customer", "when"}.isdisjoint(found.model.schema.names)
    assert frame["customer"].iloc[found.test.rows].min() > 0.7 * frame["customer"].max()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "linear"}, SchemaError, "'linear' is for one label.*logistic"),
        ({"model": "mlp"}, SchemaError, "several targets work with hgb, logistic, forest"),
        ({"targets": ["spam", "spam"]}, SchemaError, "'spam' is named twice"),
        ({"targets": ["spam", "urgnt"]}, SchemaError, "Did you mean 'urgent'"),
        ({"goal": "min cost(fp=1, fn=a)"}, GoalError, "amounts of the rows"),
        ({"goal": "max recall s.t. precision >= 0.5 for each channel"}, GoalError, "segments"),
        ({"goal": "max recall s.t. alarms <= 5 per day"}, GoalError, "periods"),
        ({"average": "micro", "confidence": 0.9}, GoalError, "cannot be certified"),
    ],
)
def test_what_is_refused(table, options, error, message):
    given = {"targets": list(TARGETS), "goal": "max f1", **options}
    with pytest.raises(error, match=message):
        fit_labels(table, given.pop("targets"), given.pop("goal"), **given)


def test_rows_with_missing_labels_are_refused(table):
    frame = table.astype({"urgent": "Int64"})
    frame.loc[3, "urgent"] = pd.NA
    with pytest.raises(TargetError, match=r"1 in 'urgent', the first in row 4"):
        fit_labels(frame, TARGETS, "max f1")


def test_too_few_rows_are_refused(table):
    with pytest.raises((SplitError, TargetError)):
        fit_labels(table.head(3), TARGETS, "max f1")
