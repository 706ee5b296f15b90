"""Models of tables that decide by a review band."""

import warnings

import numpy as np
import pandas as pd
import pytest

from saved_models import forge
from setpoint import SetpointError, load
from setpoint.errors import ModelFileError
from setpoint.goals.bands import BandGoal
from setpoint.tables import fit_table
from setpoint.tables.scoring import Top, score_file
from setpoint.thresholds.bands import BandPoint, decide

GOAL = "min review_rate s.t. precision(alarm) >= 0.8, npv(clear) >= 0.9"


@pytest.fixture(scope="module")
def fitted(table):
    return fit_table(table, "outcome", GOAL, model="hgb", positive="fraud", drop=["when"])


def test_decisions_follow_from_scores_and_thresholds(fitted, table):
    model = fitted.model
    found = model.predict(table, ignore_extra=True)
    assert list(found) == ["score", "decision"]
    low, high = model.rule.thresholds
    assert (model.classifier.low_, model.classifier.high_) == (low, high)
    assert np.array_equal(found["decision"], decide(found["score"].to_numpy(), low, high))
    X = model.features(table, ignore_extra=True)
    assert np.array_equal(found["decision"], model.classifier.predict(X))


def test_properties_are_those_of_the_band(fitted):
    model, point = fitted.model, fitted.test_point
    assert isinstance(model.goal, BandGoal)
    assert str(model.goal) == GOAL
    assert isinstance(model.operating_point, BandPoint)
    assert model.certificate is None
    assert point.on == "the test rows"
    total = point.counts.P + point.counts.N
    assert total == len(fitted.test.y) == model.facts["test rows"]
    assert fitted.baseline is None
    assert fitted.tuned.point.goal == model.goal
    assert sum(fitted.tuned.point.counts[5:7]) == total


def test_saved_and_loaded_it_decides_the_same(fitted, table, tmp_path):
    fitted.model.save(tmp_path / "m.zip")
    again = load(tmp_path / "m.zip")
    pd.testing.assert_frame_equal(
        again.predict(table, ignore_extra=True), fitted.model.predict(table, ignore_extra=True)
    )
    assert again.operating_point == fitted.model.operating_point
    assert again.evaluate(table.drop(columns="when")) == fitted.model.evaluate(
        table.drop(columns="when")
    )
    assert "review" in again._repr_html_()


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["operating_point"].update(low=c["operating_point"]["high"] + 1),
        lambda c: c["operating_point"].update(high=None),
        lambda c: c.update(goal="max recall s.t. precision >= 0.8"),
        lambda c: c["operating_point"].update(review_positives=-1.0),
        lambda c: c.update(kind="SetpointThreshold"),
    ],
)
def test_forged_bands_are_rejected(fitted, tmp_path, change):
    fitted.model.save(tmp_path / "m")
    forge(tmp_path / "m", lambda content: change(content["classifier"]))
    with pytest.raises(ModelFileError):
        load(tmp_path / "m")


def test_files_are_scored_in_pieces(fitted, table, tmp_path):
    table.drop(columns="when").to_csv(tmp_path / "rows.csv", index=False)
    done = score_file(
        fitted.model, tmp_path / "rows.csv", tmp_path / "out.csv", batch_rows=97,
        keep=["customer"], ignore_extra=True,
    )  # fmt: skip
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found) == ["customer", "score", "decision"]
    assert done.rows == len(found) == len(table)
    assert done.alarms == (found["decision"] == "alarm").sum()
    assert done.reviews == (found["decision"] == "review").sum()


def test_the_highest_scores_cannot_decide(fitted, table, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SetpointError, match="review band"):
        score_file(
            fitted.model, tmp_path / "rows.csv", tmp_path / "o.csv", ignore_extra=True, top=Top(3)
        )


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_models_that_are_trained_for_one_threshold_are_refused(table, model):
    with pytest.raises(SetpointError, match="hgb, logistic, forest"):
        fit_table(table, "outcome", GOAL, model=model)


@pytest.mark.parametrize(
    "option",
    [{"decision": "expected_value"}, {"thresholds": "per group"}, {"caps": {"ratio": 3.0}}],
)
def test_other_ways_to_decide_are_refused(table, option):
    with pytest.raises(SetpointError, match="review band"):
        fit_table(table, "outcome", GOAL, model="hgb", **option)


def test_groups_times_and_a_certificate(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = fit_table(
            table, "outcome", GOAL, model="logistic", positive="fraud", confidence=0.8,
            group="customer", time="when",
        )  # fmt: skip
    certificate = fitted.model.certificate
    assert certificate.one_per_group
    assert certificate.operating_point.on == "the certification rows"
    assert any("newest" in note for note in fitted.notes)
    times = table["when"].to_numpy()
    last = table.groupby("customer")["when"].transform("max").to_numpy()
    rest = np.setdiff1d(np.arange(len(table)), fitted.test.rows)
    assert last[fitted.test.rows].min() >= np.sort(times[rest]).min()
    assert set(table["customer"].iloc[fitted.test.rows]).isdisjoint(table["customer"].iloc[rest])


def test_costs_name_a_column(table):
    frame = table.assign(loss=np.linspace(1, 100, len(table)))
    goal = "min cost(fp=5, fn=loss, review=2) s.t. review_rate <= 20%"
    fitted = fit_table(frame, "outcome", goal, model="logistic", positive="fraud")
    point = fitted.test_point
    losses = frame["loss"].to_numpy()[fitted.test.rows]
    made = decide(fitted.test.scores, *fitted.model.rule.thresholds)
    expected = (
        5 * ((made == "alarm") & ~fitted.test.y).sum()
        + losses[(made == "clear") & fitted.test.y].sum()
        + 2 * (made == "review").sum()
    )
    assert point.objective == pytest.approx(expected / len(losses))
    assert fitted.tuned is None  # it would be the same model
    new = frame.drop(columns=["outcome", "loss"])
    with pytest.raises(SetpointError):
        fitted.model.predict(new)  # the amount is a feature, too
