"""SetpointThreshold.auto: which models are compared, which is chosen, and how it decides."""

import threading
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import cpu_count
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from setpoint import (
    Goal,
    ModelSearch,
    OperatingPoint,
    SetpointBand,
    SetpointClassifier,
    SetpointThreshold,
    UncertifiedWarning,
    choose_threshold,
    load,
)
from setpoint._internal import threads
from setpoint.errors import SetpointError
from setpoint.estimators.default_models import boosted_name, boosted_trees, extra_trees
from setpoint.estimators.search_fits import SearchProgress
from setpoint.estimators.stacking import Member, StackedModels
from setpoint.training.model_candidates import ModelCandidate, ModelCandidates

GOAL = "max recall s.t. precision >= 0.6"
LINE, TREES = LogisticRegression(), HistGradientBoostingClassifier(max_iter=8, random_state=0)
BOTH = {"line": LINE, "trees": TREES}


def rows(n=900, seed=0, curved=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + (X[:, 1] ** 2 if curved else X[:, 1]) + 0.6 * rng.normal(size=n)
    return X, score > 2


def search(models=BOTH, goal=GOAL, stack=True, **parameters):
    return SetpointThreshold(ModelSearch(models, stack=stack), goal, random_state=0, **parameters)


def names(clf):
    return [c.name for c in clf.candidates_]


def test_default_models_are_compared_and_the_winner_decides():
    X, y = rows()
    clf = SetpointThreshold.auto(GOAL, random_state=0, cv=2).fit(X, y)
    assert names(clf) == ["logistic", "linear", boosted_name(), "extra-trees", "stack"]
    assert clf.caution == 0.1
    won = clf.candidates_.winner
    assert won.name not in ("logistic", "linear")  # the problem is curved
    assert clf.operating_point_ == won.point
    new, labels = rows(seed=1)
    assert clf.evaluate(new, labels).recall > 0.5
    assert np.array_equal(clf.predict(new), clf.positive_scores(new) > clf.threshold_)


@pytest.mark.parametrize("name", ["line", "trees"])
def test_a_single_model_is_fitted_as_without_a_search(name):
    X, y = rows()
    alone = SetpointThreshold(BOTH[name], GOAL, cv=3, random_state=0).fit(X, y)
    found = search({name: BOTH[name]}).fit(X, y)  # in three folds
    assert names(found) == [name]  # a stack of one is none
    assert found.threshold_ == alone.threshold_
    assert found.operating_point_ == alone.operating_point_
    assert found.thresholds_.tolist() == alone.thresholds_.tolist()
    assert np.array_equal(found.positive_scores(X), alone.positive_scores(X))
    assert alone.candidates_ is None


def test_the_point_of_each_candidate_is_that_of_its_cross_fitted_scores():
    X, y = rows()
    train, held = np.arange(600), np.arange(600, 900)
    clf = search(cv=[(train, held)], stack=False).fit(X, y)
    for one in clf.candidates_:
        scores = clone(BOTH[one.name]).fit(X[train], y[train]).decision_function(X[held])
        expected = choose_threshold(y[held], scores, GOAL)
        assert (one.point.tp, one.point.fp) == (expected.tp, expected.fp)
        assert one.point.threshold == expected.threshold


def test_simple_models_win_where_they_suffice():
    X, y = rows(curved=False)
    assert search().fit(X, y).candidates_.winner.name == "line"
    X, y = rows()
    assert search().fit(X, y).candidates_.winner.name != "line"


def test_a_stack_of_models_that_know_different_things_beats_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 2))
    y = X.sum(axis=1) + 0.3 * rng.normal(size=3_000) > 2
    halves = {name: make_pipeline(ColumnOf(i), LogisticRegression()) for i, name in enumerate("ab")}
    clf = search(halves, goal="max f1").fit(X, y)
    assert clf.candidates_.winner.name == "stack"
    assert isinstance(clf.estimator_, StackedModels)
    weights = clf.estimator_.weights
    assert weights[0] == pytest.approx(weights[1], rel=0.2)
    points = {c.name: c.point.f1 for c in clf.candidates_}
    assert points["stack"] > max(points["a"], points["b"]) + 0.1
    assert "of a, b" in clf.candidates_.table()[-1][-1]


class ColumnOf(StandardScaler):
    """One column of X, standardized."""

    def __init__(self, column=0):
        super().__init__()
        self.column = column

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X[:, [self.column]], y)

    def transform(self, X, copy=None):
        return super().transform(X[:, [self.column]])


def test_the_same_seed_gives_the_same_model():
    X, y = rows(400)
    a, b = (search(cv=2).fit(X, y) for _ in range(2))
    assert a.candidates_.winner.name == b.candidates_.winner.name
    assert np.array_equal(a.positive_scores(X), b.positive_scores(X))
    assert [c.average for c in a.candidates_] == [c.average for c in b.candidates_]


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        (["no", "yes"], None),
        (["yes", "no"], "no"),  # the positive label is the first
        ([0, 1], None),
        ([1, 0], 0),
        ([-1, 1], None),
    ],
)
def test_labels_of_any_kind(labels, pos_label):
    X, y = rows(500)
    plain = search(cv=2).fit(X, y)
    named = search(cv=2, pos_label=pos_label).fit(X, np.where(y, *labels[::-1]))
    assert named.candidates_.winner.name == plain.candidates_.winner.name
    assert (named.predict(X) == labels[1]).tolist() == plain.predict(X).tolist()
    assert named.operating_point_.tp == plain.operating_point_.tp
    assert sorted(named.classes_) == sorted(labels)


@pytest.mark.parametrize(("labels", "pos_label"), [(["no", "yes"], None), (["yes", "no"], "no")])
@pytest.mark.parametrize(
    ("model", "method"),
    [
        (LINE, "auto"),
        (LINE, "predict_proba"),
        (make_pipeline(StandardScaler(), LINE), "auto"),
        (make_pipeline(StandardScaler(), LINE), "predict_proba"),
        (SetpointClassifier("max f1", random_state=0), "auto"),
    ],
)
def test_a_chosen_linear_model_has_the_same_coefficients_with_any_labels(
    model, method, labels, pos_label, tmp_path
):
    X, y = rows(300, curved=False)
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    models = {"line": model}
    plain = search(models, cv=2, response_method=method).fit(X, y)
    clf = search(models, cv=2, response_method=method, pos_label=pos_label)
    clf.fit(X, np.where(y, *labels[::-1]))
    clf.save(tmp_path / "model")
    expected = plain.coefficients()
    for one in (clf, load(tmp_path / "model")):
        assert one.feature_names_in_.tolist() == ["a", "b", "c"]
        found = one.coefficients()
        assert [c.feature for c in found] == [c.feature for c in expected]
        for c, wanted in zip(found, expected, strict=True):
            assert c.coefficient == pytest.approx(wanted.coefficient)
        assert (found.of, found.intercept) == (expected.of, pytest.approx(expected.intercept))
        near, same = (each.nearest_rows(X, each_side=1)[0] for each in (one, plain))
        assert near.contributions == pytest.approx(same.contributions)


def test_a_stack_has_no_coefficients_and_knows_the_names_that_all_members_know():
    X, y = rows(300)
    frame, labels = pd.DataFrame(X, columns=["a", "b", "c"]), np.where(y, "yes", "no")
    clf = search({"trees": TREES}, cv=2).fit(frame, labels)
    with pytest.raises(SetpointError, match="not of HistGradientBoostingClassifier"):
        clf.coefficients()
    members = [Member("line", clone(LINE).fit(frame, y)), Member("trees", clone(TREES).fit(X, y))]
    assert StackedModels(members[:1], np.ones(1)).feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(StackedModels(members, np.ones(2)), "feature_names_in_")
    known = [members[0], Member("trees", clone(TREES).fit(frame, y))]
    assert StackedModels(known, np.ones(2)).feature_names_in_.tolist() == ["a", "b", "c"]
    in_part = [Member("line", clone(LINE).fit(frame[["b"]], y), (1, 2))]
    assert not hasattr(StackedModels(in_part, np.ones(1)), "feature_names_in_")
    for stack in (StackedModels(known, np.ones(2)), StackedModels(in_part, np.ones(1))):
        clf = SetpointThreshold(stack, cv="prefit").fit(frame, y)
        with pytest.raises(SetpointError, match="not of StackedModels"):
            clf.coefficients()


@pytest.mark.parametrize("models", [{"line": LINE}, BOTH, {"nearest": KNeighborsClassifier()}])
def test_several_positive_labels(models):
    X, y = rows(500)
    classes = np.where(y, np.where(X[:, 2] > 0, "fraud", "theft"), "fine")
    clf = search(models, cv=2, pos_label=["fraud", "theft"]).fit(X, classes)
    assert set(clf.predict(X)) == {"other", "fraud or theft"}
    assert clf.predict_proba(X).shape == (500, 2)
    assert clf.operating_point_.recall > 0.2


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, sparse.csr_array, np.ndarray.tolist])
@pytest.mark.parametrize("labels", [(False, True), ("no", "yes")])
@pytest.mark.parametrize("stack", [False, True])
def test_models_may_take_some_columns_of_any_kind_of_rows(make, labels, stack):
    X, y = rows(400)
    models = {"first": LINE, "others": LINE} if stack else {"others": LINE}
    columns = {"first": (0, 1), "others": (1, 3)}
    clf, other = (
        SetpointThreshold(ModelSearch(models, columns=columns), "max f1", random_state=0, cv=2)
        for _ in range(2)
    )
    given = pd.DataFrame(X, columns=list("abc")) if make is pd.DataFrame else make(X)
    named = np.where(y, labels[1], labels[0])
    clf.fit(given, named)
    other.fit(X, named)
    assert clf.positive_scores(given) == pytest.approx(other.positive_scores(X))
    assert clf.predict(given).tolist() == other.predict(X).tolist()
    assert clf.evaluate(given, named).tp == other.evaluate(X, named).tp


def test_missing_values_leave_out_what_cannot_take_them():
    X, y = rows(500)
    X[::5, 1] = np.nan
    clf = SetpointThreshold.auto(GOAL, random_state=0, cv=2).fit(X, y)
    assert names(clf)[0] == "logistic"
    assert "linear" not in names(clf)
    assert np.isfinite(clf.positive_scores(X)).all()


@pytest.mark.parametrize("labels", [(False, True), ("no", "yes")])
def test_columns_of_nullable_numbers_and_booleans(labels):
    X, y = rows(500)
    plain = pd.DataFrame(X, columns=["a", "b", "c"])
    plain["d"] = (plain["c"] * 10).round()
    plain["e"] = (plain["a"] > 0).astype(float)
    for step, name in enumerate("bde"):
        plain.loc[:: 5 + step, name] = np.nan
    nullable = plain.astype({"b": "Float64", "d": "Int64", "e": "boolean"})
    assert nullable["d"].isna().any()
    named = np.where(y, labels[1], labels[0])
    clf = SetpointThreshold.auto("max f1", random_state=0, cv=2).fit(nullable, named)
    other = SetpointThreshold.auto("max f1", random_state=0, cv=2).fit(plain, named)
    assert names(clf) == names(other)
    assert "linear" not in names(clf)
    assert np.array_equal(clf.positive_scores(nullable), other.positive_scores(plain))
    complete = nullable.fillna({"b": 0.0, "d": 0, "e": False})
    assert "linear" in names(
        SetpointThreshold.auto("max f1", random_state=0, cv=2).fit(complete, y)
    )
    for column in (pd.Timestamp("2024-01-01"), "text", pd.Series(["x"], dtype="category")[0]):
        with pytest.raises(SetpointError, match="need numbers"):
            SetpointThreshold.auto("max f1").fit(nullable.assign(f=column), y)


def test_sample_weights_reach_every_model():
    X, y = rows(400)
    weight = np.where(np.arange(400) < 200, 1.0, 0.0)
    half = search(cv=[(np.arange(100), np.arange(100, 200))], stack=False)
    whole = search(cv=[(np.r_[0:100, 200:300], np.r_[100:200, 300:400])], stack=False)
    with_weight = whole.fit(X, y, sample_weight=weight)
    without = half.fit(X[:200], y[:200])
    assert with_weight.operating_point_.tp == pytest.approx(without.operating_point_.tp)
    pairs = zip(with_weight.candidates_, without.candidates_, strict=True)
    assert all(a.point.tp == pytest.approx(b.point.tp) for a, b in pairs)
    with pytest.raises(SetpointError, match="KNeighborsClassifier takes no sample_weight"):
        search({"nearest": KNeighborsClassifier()}).fit(X, y, sample_weight=weight + 1)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("auto", [True, False])
def test_sample_weights_and_groups_with_metadata_routing(n_jobs, auto):
    X, y = rows(400)
    given = {"sample_weight": 1.0 + np.arange(400) % 3, "groups": np.repeat(np.arange(200), 2)}
    models = {"line": make_pipeline(StandardScaler(), LINE), "trees": TREES}
    clf = search("auto" if auto else models, cv=2, n_jobs=n_jobs)
    expected = clf.fit(X, y, **given).positive_scores(X)
    with config_context(enable_metadata_routing=True):
        found = clone(clf).fit(X, y, **given)
        assert np.array_equal(found.positive_scores(X), expected)
        assert names(found) == names(clf)
        clf = clone(clf).set_fit_request(sample_weight=True, groups=True)
        clf.set_score_request(sample_weight=True)
        results = cross_validate(clf, X, y, cv=GroupKFold(2), params=given, error_score="raise")
    assert len(results["test_score"]) == 2


def test_rows_of_a_group_stay_together():
    X, y = rows(600)
    groups = np.repeat(np.arange(150), 4)
    X[:, 2] = groups  # trees would recognise groups that they have seen
    mean = np.add.reduceat(X[:, 0], np.arange(0, 600, 4))
    y = np.repeat(mean + 0.1 * np.random.default_rng(0).normal(size=150) > 0.5, 4)
    deep = {"deep": DecisionTreeClassifier(random_state=0)}
    apart = search(deep, "max f1").fit(X, y, groups=groups)
    mixed = search(deep, "max f1").fit(X, y)
    assert apart.operating_point_.f1 < mixed.operating_point_.f1
    clf = search({"a": LINE, "b": GaussianNB()}, "max f1").fit(X, y, groups=groups)
    assert "stack" in names(clf)


class Counted(DummyClassifier):
    """The same score for all rows; counts how often it is fitted."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


def test_a_hopeless_model_is_fitted_on_one_fold_only():
    X, y = rows(600)
    Counted.fits = 0
    clf = search({"line": LINE, "constant": Counted(), "trees": TREES}).fit(X, y)
    assert Counted.fits == 1
    assert names(clf) == ["line", "constant", "trees", "stack"]
    dropped = clf.candidates_[1]
    assert dropped.point is None
    assert dropped.note == "dropped after the first of 3 folds"
    assert "constant" not in clf.candidates_[-1].note
    assert "dropped" in str(clf.candidates_)
    Counted.fits = 0
    search({"constant": Counted(), "line": LINE}).fit(X, y)
    assert Counted.fits == 3  # nothing to compare the first model with


def test_no_further_model_is_fitted_after_the_time_limit():
    X, y = rows(300)
    models = ModelSearch(BOTH, time_limit=1e-9)
    clf = SetpointThreshold(models, GOAL, random_state=0).fit(X, y)
    assert [c.point is None for c in clf.candidates_] == [False, True]
    assert "over the time limit" in clf.candidates_[1].note
    assert clf.candidates_.winner.name == "line"


class Crowd(DummyClassifier):
    """Knows how many of its kind were fitted at once, at most."""

    lock = threading.Lock()
    now, most = 0, 0

    def fit(self, X, y, sample_weight=None):
        with self.lock:
            Crowd.now += 1
            Crowd.most = max(Crowd.most, Crowd.now)
        time.sleep(0.05)
        with self.lock:
            Crowd.now -= 1
        return super().fit(X, y, sample_weight)


@pytest.mark.filterwarnings("ignore::setpoint.InfeasibleGoalWarning")
@pytest.mark.parametrize(("n_jobs", "most"), [(1, 1), (2, 2), (3, 3), (-1, cpu_count()), (None, 2)])
def test_n_jobs_is_how_many_models_are_fitted_at_once(n_jobs, most, monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads.torch, "get_num_threads", lambda: 2)
    X, y = rows(200)
    Crowd.most = 0
    search({"a": Crowd(), "b": Crowd()}, cv=4, n_jobs=n_jobs).fit(X, y)
    assert Crowd.most == min(most, 3)  # folds at once: the first is fitted before the others


def test_progress_is_reported():
    X, y = rows(300)
    seen = []
    models = ModelSearch(BOTH, callback=lambda record, total: seen.append((record, total)))
    SetpointThreshold(models, GOAL, random_state=0, cv=2).fit(X, y)
    assert {total for _, total in seen} == {6}
    assert all(isinstance(record, SearchProgress) for record, _ in seen)
    assert {record.model for record, _ in seen} == {"line", "trees"}


def test_without_refit_the_models_of_the_split_decide():
    X, y = rows(600)
    train, held = np.arange(400), np.arange(400, 600)
    clf = search(cv=[(train, held)], refit=False, stack=False).fit(X, y)
    name = clf.candidates_.winner.name
    alone = clone(BOTH[name]).fit(X[train], y[train])
    assert np.array_equal(clf.positive_scores(X), alone.decision_function(X))
    stacked = search(cv=[(train, held)], refit=False).fit(X, y)
    assert np.isfinite(stacked.positive_scores(X)).all()


def test_a_certificate_of_the_chosen_model():
    X, y = rows(3_000)
    clf = search(confidence=0.9).fit(X, y)
    assert clf.certificate_.certified
    assert clf.candidates_.winner.name in ("trees", "stack")
    with pytest.warns(UncertifiedWarning):
        search(goal="max recall s.t. precision >= 0.999", confidence=0.9).fit(X[:400], y[:400])


def test_expected_value_and_segments():
    X, y = rows(900)
    amounts = {"amount": np.exp(X[:, 2])}
    clf = search(goal="min cost(fp=1, fn=amount)", decision="expected_value", cv=2)
    clf.fit(X, y, amounts=amounts)
    assert clf.decisions_ is not None
    assert clf.predict(X, amounts=amounts).any()
    segments = {"region": np.where(X[:, 2] > 0, "north", "south")}
    goal = "max recall s.t. precision >= 0.5 for each region"
    clf = search(goal=goal, thresholds="per group", cv=2).fit(X, y, segments=segments)
    assert clf.predict(X, segments=segments).any()
    assert {c.error for c in clf.candidates_} != {0.0}


def test_every_model_that_was_compared_comes_back_from_a_file(tmp_path):
    X, y = rows(500)
    for models, labels in ((BOTH, ("no", "yes")), ({"line": LINE}, (False, True))):
        clf = search(models, cv=2).fit(X, np.where(y, labels[1], labels[0]))
        clf.save(tmp_path / "model")
        back = load(tmp_path / "model")
        assert np.array_equal(back.positive_scores(X), clf.positive_scores(X))
        assert back.predict(X).tolist() == clf.predict(X).tolist()
        assert back.candidates_ == clf.candidates_
        again = back.fit(X, np.where(y, labels[1], labels[0]))  # the file names its models
        assert again.candidates_.winner.name in {c.name for c in clf.candidates_} | {"model"}


def test_the_default_models_come_back_from_a_file(tmp_path):
    X, y = rows(400)
    clf = SetpointThreshold.auto("max f1", random_state=0, cv=2).fit(X, y)
    clf.save(tmp_path / "model.zip")
    back = load(tmp_path / "model.zip")
    assert np.array_equal(back.positive_scores(X), clf.positive_scores(X))
    assert back.candidates_.to_dict() == clf.candidates_.to_dict()
    assert back.estimator.models == "auto"
    assert back.caution == 0.1


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({}, "models is empty"),
        ("best", "'auto' or a mapping"),
        ({"stack": LINE}, "no model can be called 'stack'"),
    ],
)
def test_models_that_cannot_be_compared(models, message):
    with pytest.raises(SetpointError, match=message):
        search(models).fit(*rows(100))


def test_what_a_search_refuses():
    X, y = rows(200)
    with pytest.raises(SetpointError, match="chooses a model for a goal"):
        ModelSearch().fit(X, y)
    with pytest.raises(SetpointError, match="need a dense X"):
        SetpointThreshold.auto(GOAL).fit(sparse.csr_array(X), y)
    with pytest.raises(SetpointError, match="need numbers"):
        SetpointThreshold.auto(GOAL).fit(pd.DataFrame({"a": ["x", "y"] * 100}), y)
    with pytest.raises(SetpointError, match="not for a ModelSearch"):
        search(cv="prefit").fit(X, y)
    band = SetpointBand(ModelSearch(BOTH), "min review_rate s.t. precision(alarm) >= 0.9")
    with pytest.raises(SetpointError, match="SetpointBand takes one classifier"):
        band.fit(X, y)
    with pytest.raises(SetpointError, match="caution"):
        search(caution=-1).fit(X, y)


def test_sparse_rows_with_models_that_take_them():
    X, y = rows(400)
    clf = search({"line": LINE, "bayes": DummyClassifier()}, cv=2).fit(sparse.csr_array(X), y)
    assert clf.candidates_.winner.name in ("line", "stack")


def test_models_without_probabilities_or_with_nothing_else():
    X, y = rows(400)
    clf = search({"line": Perceptron(random_state=0), "bayes": GaussianNB()}, cv=2).fit(X, y)
    assert names(clf) == ["line", "bayes", "stack"]
    assert np.isfinite(clf.positive_scores(X)).all()


def test_warnings_of_single_fits_are_not_shown():
    X, y = rows(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search({"line": LogisticRegression(max_iter=1), "trees": TREES}, cv=2).fit(X, y)


def test_large_tables_have_fewer_extra_trees():
    assert extra_trees(0).n_estimators == extra_trees(0, 10_000).n_estimators == 100
    assert extra_trees(0, 20_000).n_estimators == 50
    assert extra_trees(0, 10**7).n_estimators == 25


@pytest.mark.parametrize("name", ["hgb", "xgboost", "lightgbm"])
def test_boosted_trees_of_any_library(name):
    X, y = rows()
    X[::7, 0] = np.nan
    clf = search({"line": GaussianNB(), name: boosted_trees(name, 0)}, goal="max f1", cv=2)
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(X, y)
    clf = search({"few": ExtraTreesClassifier(3), name: boosted_trees(name, 0)}, cv=2).fit(X, y)
    assert clf.candidates_[1].point.recall > 0.4


def test_caution_gives_up_objective_for_constraints_that_hold():
    X, y = rows(2_000)
    bold, careful = (search({"trees": TREES}, caution=c).fit(X, y) for c in (0, 0.5))
    assert careful.operating_point_.precision > bold.operating_point_.precision
    assert careful.operating_point_.recall < bold.operating_point_.recall
    assert careful.operating_point_.ranking.caution == 0.5
    plain = [SetpointThreshold(TREES, "max f1", caution=c, random_state=0) for c in (0, 0.5)]
    assert len({clf.fit(X, y).threshold_ for clf in plain}) == 1  # there is no constraint


# --- scores, errors and penalties on one scale ----------------------------------------------------


def overlapping(seed, n=12_000):
    return make_classification(
        n, 8, n_informative=4, weights=[0.85], flip_y=0.05, random_state=seed
    )


@pytest.mark.parametrize("seed", [4, 8])
def test_a_goal_trained_model_decides_as_it_did_on_the_folds(seed):
    """Its own scores would not do: with those of seed 4, precision on new rows was 0.70."""
    X, y = overlapping(seed)
    goal = "max recall s.t. precision >= 0.8"
    models = {"linear": SetpointClassifier(goal, random_state=0)}
    clf = search(models, goal, stack=False, caution=0.2).fit(X[:1500], y[:1500])
    claimed, found = clf.operating_point_, clf.evaluate(X[1500:], y[1500:])
    assert found.precision > 0.8
    assert found.value("alarm_rate") == pytest.approx(claimed.value("alarm_rate"), rel=0.15)
    assert isinstance(clf.estimator_.members[0].classifier, SetpointClassifier)
    assert len(clf.estimator_.members) == 1


def test_the_calibration_of_a_member_becomes_part_of_the_stack():
    X, y = overlapping(0, 1500)
    models = {"line": LINE, "goal": SetpointClassifier(GOAL, random_state=0)}
    clf = search(models, goal="max f1").fit(X, y)
    found = clf.candidates_
    assert {c.name for c in found} == {"line", "goal", "stack"}
    if clf.candidates_.winner.name == "stack":
        members = clf.estimator_.members
        assert not any(isinstance(m.classifier, StackedModels) for m in members)


def test_scores_of_two_fits_of_a_goal_trained_model_are_not_compared():
    X, y = rows()
    for model in (SetpointClassifier(GOAL), make_pipeline(StandardScaler(), SetpointClassifier())):
        with pytest.raises(SetpointError, match=r"Use it alone, or fit it once: cv=0.25, refit="):
            SetpointThreshold(model, GOAL).fit(X, y)
    once = SetpointThreshold(
        SetpointClassifier(GOAL, random_state=0), GOAL, cv=0.25, refit=False, random_state=0
    )
    assert once.fit(X, y).evaluate(*rows(seed=1)).recall > 0.05


@pytest.mark.parametrize("unit", [5.0, 500.0, 0.05])
def test_the_currency_does_not_decide(unit):
    """A model that misses a constraint does not win because the costs are large numbers."""
    rng = np.random.default_rng(0)
    y = rng.random(6_000) < 0.2
    sure = y & (rng.random(6_000) < 0.3)
    levels = rng.random(6_000)
    vague = np.where(y, np.digitize(levels, [0.2, 0.3]), np.digitize(levels, [0.88, 0.97]))
    X = np.column_stack([sure, vague]).astype(float)
    models = {
        "sure": make_pipeline(ColumnOf(0), LogisticRegression()),
        "vague": make_pipeline(ColumnOf(1), LogisticRegression()),
    }
    goal = f"min cost(fp={unit}, fn={4 * unit}) s.t. precision >= 0.95, recall >= 0.2"
    clf = search(models, goal, stack=False, cv=0.5).fit(X, y)
    assert clf.candidates_.winner.name == "sure"
    assert clf.operating_point_.feasible


def test_rows_that_depend_on_each_other_count_once():
    X, y = rows(300)
    copies = np.tile(np.arange(300), 20)
    alone = search(goal="max f1", stack=False).fit(X, y).candidates_
    grouped = search(goal="max f1", stack=False).fit(X[copies], y[copies], groups=copies)
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=6, random_state=0)
    repeated = search(goal="max f1", stack=True, cv=cv).fit(X, y).candidates_
    error = max(c.log_loss_error for c in alone)
    for other in (grouped.candidates_, repeated):
        assert max(c.log_loss_error for c in other if c.name != "stack") > 0.6 * error


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")])
def test_probabilities_are_asked_for_whatever_the_labels(labels, tmp_path):
    """The decision function of AdaBoost is not the logit of its probability."""
    X, y = rows()
    named = np.where(y, labels[1], labels[0])
    model = AdaBoostClassifier(n_estimators=5, random_state=0)
    clf = search(
        {"ada": model}, stack=False, response_method="predict_proba", pos_label=labels[1]
    ).fit(X, named)
    expected = clone(model).fit(X, y).predict_proba(X)[:, 1]
    assert np.allclose(clf.positive_scores(X), expected, rtol=0, atol=1e-12)
    clf.save(tmp_path / "model.zip")
    assert np.array_equal(load(tmp_path / "model.zip").positive_scores(X), clf.positive_scores(X))


def test_a_model_with_hardly_any_alarms_is_not_close_to_a_good_one():
    """Its average is within a standard error of the best, which few positives make large."""
    goal = Goal.parse("max recall")
    points = {
        recall: OperatingPoint.of_counts(0.0, 100 * recall, 10, 100, 900, goal, "rows")
        for recall in (0.02, 0.18)
    }
    good = ModelCandidate("trees", points[0.18], 0.15, 0.0, 0.0, 0.25, 0.02, 0.01)
    idle = ModelCandidate(
        "stack", points[0.02], 0.08, 0.07, 0.14, 0.23, 0.0, 0.0, behind_on_all=0.16
    )
    assert ModelCandidates([good, idle]).winner is good
    near = replace(idle, behind_on_all=0.1)
    assert ModelCandidates([good, near]).winner is near


def test_the_difference_on_all_rows_is_kept(tmp_path):
    X, y = rows()
    clf = search().fit(X, y)
    best = max(c.point.recall for c in clf.candidates_)
    for one in clf.candidates_:
        assert one.behind_on_all <= best - one.point.recall + 1e-12
    assert any(one.behind_on_all for one in clf.candidates_)
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").candidates_ == clf.candidates_
