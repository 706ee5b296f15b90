"""How models of tables decide: the rule of several labels."""

import numpy as np
import pandas as pd
import pytest

from setpoint.errors import SetpointError, TableFileError
from setpoint.tables import fit_labels, score_file
from setpoint.tables.rules import LabelsRule
from setpoint.tables.scoring import Top


@pytest.fixture(scope="module")
def table():
    x = np.random.default_rng(0).normal(size=(600, 2))
    # Labels whose names are those of other counts of a result.
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "alarms": x[:, 0] > 1, "reviews": x[:, 1] > 0})


@pytest.fixture(scope="module")
def model(table):
    return fit_labels(table, ["alarms", "reviews"], "max f1").model


def test_a_label_is_predicted_above_its_threshold():
    rng = np.random.default_rng(1)
    thresholds = np.array([0.2, np.inf, -np.inf])
    scores = np.vstack([rng.normal(size=(50, 3)), [[0.2, 0.0, 0.0]]])  # a tie is no alarm
    rule = LabelsRule(("x", "never", "always"), thresholds)
    found = pd.DataFrame(rule.decide(scores))
    assert list(found) == list(rule.columns)
    assert (found["x_alarm"] == (scores[:, 0] > 0.2)).all()
    assert ((found["x_score"] > 0) == found["x_alarm"]).all()
    assert not found["never_alarm"].any()
    assert found["always_alarm"].all()
    counted = rule.counted(found)
    assert set(counted) == set(rule.counts)
    assert counted["alarms"] == 51
    assert counted["x_alarm"] == (scores[:, 0] > 0.2).sum()


@pytest.mark.parametrize("batch_rows", [7, 1000])
def test_alarms_of_a_file_are_counted_by_label(model, table, tmp_path, batch_rows):
    table.to_csv(tmp_path / "t.csv", index=False)
    done = score_file(
        model, tmp_path / "t.csv", tmp_path / "s.csv", batch_rows=batch_rows, ignore_extra=True
    )
    expected = model.predict(table, ignore_extra=True)
    written = pd.read_csv(tmp_path / "s.csv")
    pd.testing.assert_frame_equal(written, expected)
    alarms = expected[["alarms_alarm", "reviews_alarm"]]
    assert (done.rows, done.alarms, done.reviews) == (600, alarms.any(axis=1).sum(), None)
    assert done.of_labels == {"alarms": alarms.iloc[:, 0].sum(), "reviews": alarms.iloc[:, 1].sum()}


def test_what_a_result_of_several_labels_cannot_have(model, table, tmp_path):
    table.assign(alarms_score=1.0).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(SetpointError, match="of one label only"):
        score_file(model, tmp_path / "t.csv", tmp_path / "s.csv", top=Top(5), ignore_extra=True)
    with pytest.raises(TableFileError, match="'alarms_score' cannot be kept"):
        score_file(
            model, tmp_path / "t.csv", tmp_path / "s.csv", keep=["alarms_score"], ignore_extra=True
        )
