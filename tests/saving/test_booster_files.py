"""XGBoost's and LightGBM's classifiers come back with their scores and their parameters."""

import json

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from saved_models import forge
from setpoint import ModelSearch, SetpointMultilabel, SetpointThreshold, load
from setpoint.errors import ModelFileError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    return X, X[:, 0] + X[:, 1] ** 2 + rng.normal(size=600) > 1


def light(**parameters):
    return lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1, **parameters)


def extreme(**parameters):
    return xgboost.XGBClassifier(n_estimators=10, n_jobs=1, **parameters)


def fitted(classifier, X, y):
    return SetpointThreshold(classifier, "max f1", cv=0.3, random_state=0).fit(X, y)


def saved(clf, folder):
    clf.save(folder / "model")
    return load(folder / "model")


@pytest.mark.parametrize(
    "classifier",
    [
        light(min_data_in_leaf=100, bagging_fraction=0.5, bagging_freq=1),
        light(boosting_type="rf", bagging_fraction=0.5, bagging_freq=1),
        light(monotone_constraints=[1, 0, 0, 0], metric=["auc", "binary_logloss"]),
        light(class_weight={False: 1, True: 3}, extra_trees=True, forcedsplits_filename=None),
        extreme(max_cached_hist_node=100, monotone_constraints=(1, 0, 0, 0), max_depth=2),
        extreme(booster="dart", rate_drop=0.5, random_state=3),
        extreme(interaction_constraints="[[0, 1], [2, 3]]", grow_policy="lossguide"),
    ],
)
def test_all_parameters_come_back(classifier, data, tmp_path):
    X, y = data
    clf = fitted(classifier, X, y)
    back = saved(clf, tmp_path)
    assert back.load_notes_ == []
    assert repr(back.estimator_.get_params()) == repr(clf.estimator_.get_params())
    assert np.array_equal(back.positive_scores(X), clf.positive_scores(X))
    again = back.fit(X, y)
    assert np.array_equal(again.positive_scores(X), clf.positive_scores(X))


def own_loss(y, p):
    return float(-np.mean(y * np.log(p)))


def test_parameters_that_are_not_plain_are_noted(data, tmp_path):
    X, y = data
    clf = fitted(extreme(eval_metric=own_loss), X, y)
    wanted = ["eval_metric=the function own_loss was not saved; fit() would use the default, None."]
    back = saved(clf, tmp_path)
    assert back.load_notes_ == wanted
    assert np.array_equal(back.positive_scores(X), clf.positive_scores(X))
    inside = make_pipeline(StandardScaler(), extreme(eval_metric=own_loss))
    assert saved(fitted(inside, X, y), tmp_path).load_notes_ == wanted
    chosen = fitted(ModelSearch({"one": inside}), X, np.where(y, "yes", "no"))
    assert saved(chosen, tmp_path).load_notes_[-1:] == wanted
    several = light(random_state=np.random.RandomState(0))
    clf = SetpointMultilabel(several, "max f1", random_state=0).fit(X, np.column_stack([y, ~y]))
    (note,) = saved(clf, tmp_path).load_notes_
    assert note.startswith("random_state=RandomState(MT19937) was not saved")


@pytest.mark.parametrize("name", ["predict", "_other_params", "not a name", "process_params"])
def test_parameters_that_cannot_be_ones_are_noted_and_not_set(name, data, tmp_path):
    X, y = data
    clf = fitted(light(), X, y)
    clf.save(tmp_path / "model")

    def change(content):
        content["estimator"]["parameters"]["kept"][name] = 3

    forge(tmp_path / "model", change)
    back = load(tmp_path / "model")
    assert back.load_notes_ == [
        f"{name}=3 is no parameter of LGBMClassifier; fit() would not use it."
    ]
    assert np.array_equal(back.predict(X), clf.predict(X))
    assert name not in back.estimator_.get_params()


@pytest.mark.parametrize(
    "change",
    [
        lambda dart: dart["weight_drop"].pop(),
        lambda dart: dart["weight_drop"].append(1.0),
        lambda dart: dart.update(weight_drop=[[1.0]] * 10),
        lambda dart: dart.update(weight_drop=[float("nan")] * 10),
        lambda dart: dart["gbtree"]["model"]["trees"][0]["left_children"].__setitem__(0, 99),
        lambda dart: dart["gbtree"].update(name="dart"),
        lambda dart: dart.pop("weight_drop"),
    ],
)
def test_damaged_weights_of_dropped_trees_are_refused(change, data, tmp_path):
    fitted(extreme(booster="dart"), *data).save(tmp_path / "model")

    def changed(content):
        trees = json.loads(content)
        change(trees["learner"]["gradient_booster"])
        return json.dumps(trees).encode()

    forge(tmp_path / "model", part="estimator.xgboost", data=changed)
    with pytest.raises(ModelFileError):
        load(tmp_path / "model")


def test_linear_boosters_are_refused(data, tmp_path):
    clf = fitted(extreme(booster="gblinear"), *data)
    with pytest.raises(ModelFileError, match=r"only boosted trees of XGBoost \(gbtree or dart\)"):
        clf.save(tmp_path / "model")
