"""SetpointBand: decisions, scikit-learn's conventions, certificates and model files."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from saved_models import forge, make_rows
from setpoint import BandGoal, SetpointBand, choose_band, load
from setpoint.errors import (
    GoalError,
    InfeasibleGoalWarning,
    ModelFileError,
    SetpointError,
    UncertifiedWarning,
)
from setpoint.model_files import save

GOAL = "min review_rate s.t. precision(alarm) >= 0.85, npv(clear) >= 0.93"
MODEL = make_pipeline(StandardScaler(), LogisticRegression())


def fitted(X, y, estimator=MODEL, **parameters):
    return SetpointBand(estimator, **{"goal": GOAL, "random_state": 0} | parameters).fit(X, y)


def test_decisions_follow_the_thresholds(rows):
    X, y = rows
    band = fitted(X, y)
    scores = band.positive_scores(X)
    assert (band.predict(X) == "alarm").tolist() == (scores > band.high_).tolist()
    assert (band.predict(X) == "clear").tolist() == (scores <= band.low_).tolist()
    assert band.predict(X).dtype.kind == "U"
    assert band.operating_point_.feasible
    assert band.operating_point_.on == "the cross-fitted rows"
    assert band.bands_.shape == (5, 2)
    assert (band.bands_[:, 0] <= band.bands_[:, 1]).all()
    assert band.certificate_ is None
    assert band.low_ < band.high_
    point = band.evaluate(X, y)
    assert point.alarm_positives == ((scores > band.high_) & y).sum()
    assert point.on == "the test rows"
    assert band.predict_proba(X).tolist() == band.estimator_.predict_proba(X).tolist()
    assert band.decision_function(X).tolist() == scores.tolist()


def test_the_band_is_that_of_cross_fitted_scores(rows):
    X, y = rows
    splits = [(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(200))]
    band = fitted(X, y, cv=splits)
    scores = np.empty(400)
    for train, test in splits:
        scores[test] = clone(MODEL).fit(X[train], y[train]).decision_function(X[test])
    point = choose_band(y, scores, GOAL)
    assert (band.low_, band.high_) == (point.low, point.high)
    assert band.operating_point_.counts == point.counts


def test_names_of_labels_and_the_positive_one(rows):
    X, y = rows
    named = np.where(y, "bad", "good")
    band = fitted(X, named, pos_label="bad", cv=0.3)
    assert band.pos_label_ == "bad"
    assert set(band.predict(X)) == {"alarm", "review", "clear"}
    assert band.positive_scores(X[:1]) == -band.decision_function(X[:1])


def test_scikit_learn_conventions(rows):
    X, y = rows
    band = SetpointBand(MODEL, GOAL, cv=3, random_state=1)
    twin = clone(band)
    assert twin.get_params()["goal"] == GOAL
    assert twin.set_params(estimator__logisticregression__C=0.1) is twin
    assert twin.get_params()["estimator__logisticregression__C"] == 0.1
    assert not is_classifier(band)
    assert not hasattr(band, "score")
    for method in ("predict", "positive_scores", "decision_function", "evaluate"):
        with pytest.raises(NotFittedError):
            getattr(band, method)(*([X, y] if method == "evaluate" else [X]))
    assert band.fit(X, y) is band
    assert band.n_features_in_ == 5
    again = clone(band).fit(X, y)
    assert (again.low_, again.high_) == (band.low_, band.high_)
    assert not hasattr(fitted(X, y, SVC()), "predict_proba")
    assert band.get_params()["goal"] == GOAL  # fit does not change parameters
    parsed = clone(SetpointBand(MODEL, BandGoal.parse(GOAL), random_state=1, cv=3)).fit(X, y)
    assert parsed.low_ == band.low_


def test_inside_of_a_pipeline_and_with_data_frames(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcde"))
    pipeline = make_pipeline(StandardScaler(), SetpointBand(LogisticRegression(), GOAL, cv=2))
    assert set(pipeline.fit(frame, y).predict(frame)) == {"alarm", "review", "clear"}
    band = fitted(frame, pd.Series(y), HistGradientBoostingClassifier(max_iter=5), cv=2)
    assert band.feature_names_in_.tolist() == list("abcde")
    refitted = band.fit(X, y)
    assert not hasattr(refitted, "feature_names_in_")


def test_metadata(rows):
    X, y = rows
    groups = np.arange(400) // 4
    weights = np.where(np.arange(400) < 200, 1.0, 0.0)
    band = fitted(X, y, LogisticRegression(), cv=2)
    weighted = SetpointBand(LogisticRegression(), GOAL, cv=2, random_state=0)
    weighted.fit(X, y, sample_weight=weights)
    c = weighted.operating_point_.counts
    assert c.P + c.N == 200
    assert band.operating_point_.counts.P + band.operating_point_.counts.N == 400
    with config_context(enable_metadata_routing=True):
        routed = SetpointBand(
            LogisticRegression().set_fit_request(sample_weight=True), GOAL, cv=GroupKFold(3)
        )
        routed.fit(X, y, sample_weight=weights, groups=groups)
        assert routed.bands_.shape == (3, 2)


def test_costs_with_amounts(rows):
    X, y = rows
    amount = np.random.default_rng(0).gamma(2.0, 10.0, 400)
    goal = "min cost(fp=5, fn=Amount, review=1)"
    band = SetpointBand(MODEL, goal, cv=0.5, random_state=0).fit(X, y, amounts={"Amount": amount})
    held_out = band.operating_point_
    assert held_out.counts.P + held_out.counts.N == 200
    point = band.evaluate(X, y, amounts={"Amount": amount})
    missed = (band.predict(X) == "clear") & y
    assert point.costs[1] == pytest.approx(amount[missed].sum())
    with pytest.raises(SetpointError, match="pass amounts="):
        band.evaluate(X, y)

    class Untrainable(LogisticRegression):
        def fit(self, *_, **__):
            raise AssertionError

    for wrong in (None, {"Amount": amount[:3]}, {"amount": amount}):
        with pytest.raises(SetpointError, match="Amount"):
            SetpointBand(Untrainable(), goal).fit(X, y, amounts=wrong)


def test_certificates(rows):
    X, y = make_rows(6000)
    band = fitted(X[:3000], y[:3000], confidence=0.9, cv=2)
    found = band.certificate_
    assert found.certified
    assert (band.low_, band.high_) == (found.low, found.high)
    assert band.operating_point_ is found.operating_point
    assert band.operating_point_.on == "the certification rows"
    c = band.operating_point_.counts
    assert 800 < c.P + c.N < 1000
    new = band.evaluate(X[3000:], y[3000:])
    assert new.value("precision(alarm)") == pytest.approx(0.86, abs=0.03)
    assert new.value("npv(clear)") == pytest.approx(0.94, abs=0.02)
    X, y = rows
    with pytest.warns(UncertifiedWarning, match="Not certified at 90 %") as caught:
        fitted(X, y, confidence=0.9, cv=2, goal=GOAL.replace("0.93", "0.999"))
    assert caught[0].filename == __file__


def test_groups_are_certified_by_one_row_each():
    X, y = make_rows(2000)
    groups = np.arange(2000) // 2
    model = clone(MODEL).fit(X[::7], y[::7])
    for cv in (2, "prefit"):
        band = SetpointBand(model, GOAL, cv=cv, confidence=0.9, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertifiedWarning)
            band.fit(X, y, groups=groups)
        assert band.certificate_.one_per_group
        c = band.operating_point_.counts
        assert 250 < c.P + c.N <= (350 if cv == 2 else 1000)


def test_a_fitted_classifier(rows):
    X, y = rows
    model = clone(MODEL).fit(X[:200], y[:200])
    band = fitted(X[200:], y[200:], model, cv="prefit")
    assert band.estimator_ is model
    assert band.operating_point_.on == "the rows given"
    point = choose_band(y[200:], model.decision_function(X[200:]), GOAL)
    assert (band.low_, band.high_) == (point.low, point.high)


def test_errors_and_warnings(rows):
    X, y = rows
    with pytest.raises(GoalError, match="needs a side"):
        SetpointBand(MODEL, "max recall s.t. precision >= 0.9").fit(X, y)
    with pytest.raises(SetpointError, match="refit=False needs one split"):
        fitted(X, y, refit=False)
    with pytest.raises(SetpointError, match="confidence must lie"):
        fitted(X, y, confidence=2)
    strict = "min review_rate s.t. fnr(clear) <= 0, fpr(alarm) <= 0, review_rate <= 1%"
    with pytest.warns(InfeasibleGoalWarning, match="is not met: fnr.*and fpr"):
        fitted(X, y, goal=strict)
    with pytest.warns(InfeasibleGoalWarning, match="only because no row raises an alarm"):
        fitted(X, np.where(np.arange(400) % 9 == 0, 1, 0), goal=GOAL.replace("0.85", "0.999"))


def test_notebook(rows):
    X, y = make_rows(1500)
    band = fitted(X, y, confidence=0.9, cv=2)
    html = band._repr_html_()
    for text in ("positive: True", "review", "Certified at 90 % confidence"):
        assert text in html


# --- model files ----------------------------------------------------------------------------------


def assert_same(a, b, X, y):
    assert a.positive_scores(X).tobytes() == b.positive_scores(X).tobytes()
    assert a.predict(X).tolist() == b.predict(X).tolist()
    for name in ("low_", "high_", "goal_", "operating_point_", "certificate_", "pos_label_"):
        assert getattr(a, name) == getattr(b, name)
    assert str(a.certificate_) == str(b.certificate_)
    assert a.bands_.tolist() == b.bands_.tolist()
    assert a.get_params()["goal"] == str(b.get_params()["goal"])
    assert hasattr(b, "predict_proba") == hasattr(a, "predict_proba")


@pytest.fixture(scope="module")
def certified():
    X, y = make_rows(3000)
    goal = f"{GOAL}, review_rate <= 0.9"
    return fitted(X, y, goal=goal, confidence=0.9, cv=2)


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_saved_bands_do_the_same(certified, rows, tmp_path, name):
    X, y = rows
    certified.save(tmp_path / name)
    assert_same(certified, load(tmp_path / name), X, y)


def test_saved_bands_of_other_kinds(rows, tmp_path):
    X, y = rows
    named = np.where(y, "bad", "good")
    for i, (estimator, parameters) in enumerate(
        [
            (MODEL, {"cv": ShuffleSplit(2, random_state=0), "pos_label": "good"}),
            (clone(MODEL).fit(X, named), {"cv": "prefit", "pos_label": "bad"}),
            (HistGradientBoostingClassifier(max_iter=4), {"cv": 0.5, "confidence": 0.9}),
            (MODEL, {"goal": "min review_rate s.t. alarm_rate <= 0", "cv": 2}),
        ]
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            band = fitted(X, named, estimator, **parameters)
        save(band, tmp_path / str(i))
        back = load(tmp_path / str(i))
        assert_same(band, back, X, named)
        assert len(back.load_notes_) == (i == 0)
        assert (back.estimator is back.estimator_) == (parameters["cv"] == "prefit")


NAN = {"$": "float", "value": "nan"}
INF = {"$": "float", "value": "inf"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(goal="max f1"), "goal 'max f1' of the model cannot be read"),
        (lambda m: m.update(goal="min review_rate"), "is for"),
        (lambda m: m.pop("operating_point"), "does not describe a model"),
        (lambda m: m["operating_point"].update(low=NAN), "threshold low is nan"),
        (lambda m: m["operating_point"].update(high="x"), "threshold high is 'x'"),
        (lambda m: m["operating_point"].update(low=9e9), "not in order"),
        (lambda m: m["operating_point"].update(alarm_positives=-1.0), "a count .* is -1"),
        (lambda m: m["operating_point"].update(clear_negatives=INF), "a count .* is inf"),
        (lambda m: m["operating_point"].update(costs=[1]), "cannot be read"),
        (lambda m: m["operating_point"].update(alarm_positives=1e6), "does not fit"),
        (lambda m: m["operating_point"].update(goal="min review_rate"), "does not fit its goal"),
        (lambda m: m.update(bands=[]), "does not describe a model"),
        (lambda m: m.update(labels={"classes": [1], "positive_index": 0}), "two classes"),
        (lambda m: m["certificate"].update(low=-9e9), "not those of its counts"),
        (lambda m: m["certificate"].update(confidence=1.5), "its confidence is 1.5"),
        (lambda m: m["certificate"].update(certified=1), "certified is 1"),
        (lambda m: m["certificate"].update(certified=False), "the reason against it None"),
        (lambda m: m["certificate"].update(reason="x"), "the reason against it 'x'"),
        (lambda m: m["certificate"].update(one_per_group="x"), "one_per_group is 'x'"),
        (lambda m: m["certificate"].update(more_positives=-1), "more_positives is -1"),
        (lambda m: m["certificate"].update(chosen=["high"]), "chosen is"),
        (lambda m: m["certificate"].update(alarm_thresholds=[]), "not among its certified"),
        (lambda m: m["certificate"].update(clear_thresholds=[[1, 0]]), "in rising order"),
        (lambda m: m["certificate"].update(clear_thresholds=3), "incomplete"),
        (lambda m: m["certificate"].pop("bounds"), "incomplete"),
        (lambda m: m["certificate"]["bounds"].pop(), "needs 4 bounds"),
        (lambda m: m["certificate"]["bounds"][0].update(bound=0.1), "but its bound is"),
        (lambda m: m["certificate"]["bounds"][0].update(bound=None), "but its bound is"),
        (lambda m: m["certificate"]["bounds"][0].update(kind="estimate"), "but its bound is"),
        (lambda m: m["certificate"]["bounds"][0].update(kind="other"), "the bound on precision"),
        (lambda m: m["certificate"]["bounds"][1].update(trials=-1), "the bound on npv"),
        (lambda m: m["certificate"]["bounds"][1].update(metric="npv"), "needs a side"),
        (lambda m: m["certificate"].update(goal="min review_rate"), "is for 'min review_rate'"),
    ],
)
def test_changed_files_are_rejected(certified, tmp_path, change, message):
    certified.save(tmp_path / "model")
    forge(tmp_path / "model", change)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model")


def test_other_models_cannot_be_saved_as_bands(certified, tmp_path):
    class Other(SetpointBand):
        pass

    with pytest.raises(ModelFileError, match="and no subclasses"):
        Other(MODEL).save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        SetpointBand(MODEL).save(tmp_path / "model")
    certified.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "model.json").read_text())["model"]["kind"] == (
        "SetpointBand"
    )
