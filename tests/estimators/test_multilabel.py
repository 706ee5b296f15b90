"""Classifiers of several labels."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from setpoint import (
    InfeasibleGoalWarning,
    SetpointClassifier,
    SetpointError,
    SetpointMultilabel,
    SetpointThreshold,
    UncertifiedWarning,
    choose_thresholds,
    load,
)
from setpoint.errors import ModelFileError
from setpoint.estimators.label_classifiers import takes_matrices

X, Y = make_multilabel_classification(400, n_features=8, n_classes=4, random_state=0)
GOAL = "max recall s.t. precision >= 0.5"


def logistic():
    return LogisticRegression(max_iter=1000)


def weights_are_refused(estimator):
    """The checks that cannot pass: a certificate takes no weights that differ."""
    if estimator.confidence is None:
        return {}
    names = ("weights_not_overwritten", "weight_equivalence_on_dense_data")
    names += ("weight_equivalence_on_sparse_data",)
    return {f"check_sample_{name}": "weights that differ are refused" for name in names}


@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks provoke warnings on purpose
@parametrize_with_checks(
    [
        SetpointMultilabel(LogisticRegression(), random_state=0),
        SetpointMultilabel(
            DecisionTreeClassifier(max_depth=3, random_state=0), average="micro", cv=0.3,
            random_state=0,
        ),
        SetpointMultilabel(LogisticRegression(), confidence=0.9, random_state=0),
    ],
    expected_failed_checks=weights_are_refused,
)  # fmt: skip
def test_scikit_learn_compatibility(estimator, check):
    check(estimator)


# --- thresholds and predictions -----------------------------------------------------------------


@pytest.mark.parametrize("average", ["macro", "micro", None])
def test_thresholds_are_exact_on_the_cross_fitted_scores(average):
    clf = SetpointMultilabel(
        logistic(), "max f1", average=average, cv=KFold(4, shuffle=True, random_state=3)
    ).fit(X, Y)
    rows, scores = [], []
    for train, held_out in KFold(4, shuffle=True, random_state=3).split(X):
        rows.append(held_out)
        columns = [logistic().fit(X[train], y[train]).decision_function(X[held_out]) for y in Y.T]
        scores.append(np.column_stack(columns))
    expected = choose_thresholds(
        Y[np.concatenate(rows)], np.concatenate(scores), "max f1", average=average
    )
    np.testing.assert_allclose(clf.thresholds_, expected.thresholds)
    assert clf.operating_points_ == list(clf.operating_point_.points)
    assert clf.operating_point_.objective == pytest.approx(expected.objective, nan_ok=True)
    # The classifiers that decide are trained on all rows.
    full = np.column_stack([logistic().fit(X, y).decision_function(X) for y in Y.T])
    np.testing.assert_allclose(clf.label_scores(X), full)
    predicted = clf.predict(X)
    assert (predicted == (full > clf.thresholds_)).all()
    assert predicted.dtype.kind == "i"
    assert (predicted == (clf.decision_function(X) > 0)).all()
    assert clf.score(X, Y) == np.mean((predicted == Y).all(axis=1))


@pytest.mark.parametrize(
    ("estimator", "whole"),
    [
        (logistic(), False),
        (make_pipeline(StandardScaler(), logistic()), False),
        (RandomForestClassifier(10, random_state=0), True),
        (make_pipeline(StandardScaler(), ExtraTreesClassifier(10, random_state=0)), True),
        (KNeighborsClassifier(), True),
        (MLPClassifier((4,), max_iter=30, random_state=0), True),
        (OneVsRestClassifier(logistic()), True),
        (MultiOutputClassifier(logistic()), True),
        (ClassifierChain(logistic()), True),
    ],
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_any_classifier(estimator, whole, tmp_path):
    assert takes_matrices(estimator) == whole
    clf = SetpointMultilabel(estimator, "max micro f1", cv=3, random_state=0).fit(X, Y)
    assert (clf.estimator_ is not None) == whole
    assert (clf.estimators_ is None) == whole
    assert clf.predict(X).shape == Y.shape
    assert clf.evaluate(X, Y).micro("f1") > 0.6
    assert clf.n_features_in_ == 8
    if isinstance(estimator, KNeighborsClassifier):
        return  # its trees cannot be saved
    clf.save(tmp_path / "model.zip")
    same = load(tmp_path / "model.zip")
    assert (same.label_scores(X) == clf.label_scores(X)).all()
    assert same.operating_point_ == clf.operating_point_
    assert same.evaluate(X, Y) == clf.evaluate(X, Y)
    assert type(same.estimator) is type(estimator)


def test_names_and_goals_of_a_data_frame():
    frame = pd.DataFrame(Y, columns=["news", "sport", "art", "law"])
    goals = dict.fromkeys(frame, "max f1") | {"law": GOAL}
    clf = SetpointMultilabel(logistic(), goals, average=None, random_state=0).fit(X, frame)
    assert clf.label_names_ == list(frame)
    assert clf.operating_point_["law"].goal == clf.goals_.goals[3]
    assert str(clf.goals_.goals[3]) == GOAL
    assert clf.evaluate(X, frame)["news"].f1 > 0.5


def test_one_vector_of_labels_is_an_ordinary_classifier(tmp_path):
    y = np.array(["no", "yes"])[Y[:, 0]]
    clf = SetpointMultilabel(logistic(), GOAL, cv=KFold(3)).fit(X, y)
    same = SetpointThreshold(logistic(), GOAL, cv=KFold(3)).fit(X, y)
    assert clf.thresholds_[0] == same.threshold_
    assert (clf.predict(X) == same.predict(X)).all()
    assert clf.classes_.tolist() == ["no", "yes"]
    assert clf.evaluate(X, y).points[0] == same.evaluate(X, y)
    clf.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == clf.predict(X)).all()


def test_rows_of_any_kind():
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    expected = SetpointMultilabel(logistic(), random_state=0).fit(X, Y)
    for rows, labels in ((frame, Y), (sparse.csr_matrix(X), sparse.csr_matrix(Y)), (X, Y == 1)):
        clf = SetpointMultilabel(logistic(), random_state=0).fit(rows, labels)
        np.testing.assert_allclose(clf.thresholds_, expected.thresholds_, rtol=1e-3, atol=1e-3)
    assert SetpointMultilabel(logistic()).fit(frame, Y).feature_names_in_.tolist() == list(frame)


def test_weights_and_groups():
    weight = np.ones(len(X))
    weight[:100] = 0
    clf = SetpointMultilabel(logistic(), cv=KFold(3)).fit(X, Y, sample_weight=weight)
    same = SetpointMultilabel(logistic(), cv=KFold(3)).fit(X[100:], Y[100:])
    np.testing.assert_allclose(clf.thresholds_, same.thresholds_, rtol=1e-6)
    groups = np.arange(len(X)) // 4
    for cv in (GroupKFold(3), 3, 0.3):
        grouped = SetpointMultilabel(logistic(), cv=cv, random_state=0).fit(X, Y, groups=groups)
        assert grouped.operating_point_.feasible
    with pytest.raises(ValueError, match="zero"):
        clf.fit(X, Y, sample_weight=np.zeros(len(X)))


def test_searches_and_scorers():
    search = GridSearchCV(
        SetpointMultilabel(logistic(), "max micro f1", cv=3, random_state=0),
        {"estimator__C": [0.01, 1.0]}, scoring="f1_micro", cv=3,
    ).fit(X, Y)  # fmt: skip
    assert search.best_score_ > 0.6
    found = cross_val_score(clone(search.best_estimator_), X, Y, cv=3, scoring="average_precision")
    assert (found > 0.5).all()


# --- rare labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator", [logistic(), RandomForestClassifier(5, random_state=0)], ids=["each", "all"]
)
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_labels_of_one_class(estimator, average, tmp_path):
    labels = Y.copy()
    labels[:, 1], labels[:, 3] = 0, 1
    clf = SetpointMultilabel(estimator, average=average, cv=3, random_state=0)
    with pytest.warns(InfeasibleGoalWarning, match="2 of 4 labels: '1', '3'"):
        clf.fit(X, labels)
    assert clf.thresholds_[[1, 3]].tolist() == [np.inf, -np.inf]
    predicted = clf.predict(X)
    assert not predicted[:, 1].any()
    assert predicted[:, 3].all()
    assert clf.operating_point_.left_out == ("1", "3")
    clf.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == predicted).all()


def test_rare_labels_are_spread_over_the_folds():
    rng = np.random.default_rng(0)
    labels = (rng.random((300, 6)) < 0.4).astype(int)
    for column, count in ((4, 5), (5, 1)):
        labels[:, column] = 0
        labels[rng.choice(300, count, replace=False), column] = 1
    rows = rng.normal(size=(300, 2)) + labels[:, [4, 5]] * 3
    clf = SetpointMultilabel(logistic(), cv=5, random_state=0).fit(rows, labels)
    # Each of the five is scored by a classifier that has seen the other four.
    assert clf.operating_point_["4"].tp > 0
    # A label with one positive has no scores of a classifier that knows it.
    assert clf.operating_point_["5"].empty


def test_many_labels_and_a_fold_without_one():
    rng = np.random.default_rng(1)
    labels = (rng.random((60, 30)) < 0.05).astype(int)
    labels[:2] = [[1], [0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleGoalWarning)
        clf = SetpointMultilabel(RandomForestClassifier(3, random_state=0), cv=2, random_state=0)
        clf.fit(rng.normal(size=(60, 3)), labels)
    assert np.isfinite(clf.operating_point_.macro("f1"))


# --- certificates ---------------------------------------------------------------------------------


def separable(n, labels=3, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, labels)) < 0.3).astype(int)
    return Y * 3.0 + rng.normal(size=Y.shape), Y


@pytest.mark.parametrize("joint", [True, False])
def test_certificates_at_joint_confidence(joint, tmp_path):
    X, Y = separable(3000)
    clf = SetpointMultilabel(
        logistic(), "max recall s.t. precision >= 0.8", confidence=0.9, joint=joint, random_state=0
    ).fit(X, Y)
    assert clf.certificate_.certified
    each = 1 - 0.1 / 3 if joint else 0.9
    assert [c.confidence for c in clf.certificates_] == pytest.approx([each] * 3)
    assert ("joint confidence" in clf.certificate_.message) == joint
    assert (clf.thresholds_ == clf.certificate_.thresholds).all()
    new = separable(20_000, seed=1)
    point = clf.evaluate(*new)
    assert all(p.precision >= 0.8 for p in point.points)
    clf.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert same.certificate_ == clf.certificate_
    verdict = same.certificates_[0].check(new[1][:, 0], same.label_scores(new[0])[:, 0])
    assert not verdict.broken


def test_labels_that_cannot_be_certified_are_named():
    X, Y = separable(600)
    Y[:, 2] = 0
    clf = SetpointMultilabel(
        logistic(), "max recall s.t. precision >= 0.5", confidence=0.9, random_state=0
    )
    with pytest.warns((UncertifiedWarning, InfeasibleGoalWarning)) as caught:
        clf.fit(X, Y)
    assert any("Not certified: '2'." in str(w.message) for w in caught)
    assert clf.thresholds_[2] == np.inf
    assert clf.certificate_.certified_labels == ("0", "1")
    groups = np.arange(len(X)) // 2
    with pytest.warns((UncertifiedWarning, InfeasibleGoalWarning)):
        clf.fit(X, Y, groups=groups)
    assert all(c.one_per_group for c in clf.certificates_)


def test_fitted_classifiers(tmp_path):
    X, Y = separable(3000)
    fitted = MultiOutputClassifier(logistic()).fit(X[:1000], Y[:1000])
    clf = SetpointMultilabel(fitted, "max f1", cv="prefit").fit(X[1000:], Y[1000:])
    scores = np.column_stack([p[:, 1] for p in fitted.predict_proba(X[1000:])])
    assert (clf.thresholds_ == choose_thresholds(Y[1000:], scores, "max f1").thresholds).all()
    certified = SetpointMultilabel(
        fitted, "max precision s.t. recall >= 0.8", cv="prefit", confidence=0.9
    ).fit(X[1000:], Y[1000:], groups=np.arange(2000) // 2)
    assert certified.certificate_.certified
    certified.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == certified.predict(X)).all()
    with pytest.raises(SetpointError, match="wrap yours in sklearn.multioutput"):
        SetpointMultilabel(logistic().fit(X, Y[:, 0]), cv="prefit").fit(X, Y)


# --- model files ---------------------------------------------------------------------------------


def test_classifiers_of_this_package(tmp_path):
    clf = SetpointMultilabel(
        SetpointClassifier("max f1", random_state=0), cv=0.3, random_state=0
    ).fit(X[:200], Y[:200, :2])
    clf.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert (same.label_scores(X) == clf.label_scores(X)).all()
    assert type(same.estimators_[1]) is SetpointClassifier


def test_custom_classifiers_are_refused(tmp_path):
    class Own(LogisticRegression):
        pass

    clf = SetpointMultilabel(Own(max_iter=1000), cv=2, random_state=0).fit(X, Y)
    with pytest.raises(ModelFileError, match="The classifier of a label cannot be saved"):
        clf.save(tmp_path / "model")


# --- errors --------------------------------------------------------------------------------------


class WithoutScores(DecisionTreeClassifier):
    predict_proba = property()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 1}, "cv has 1 folds"),
        ({"cv": 1.5}, "a fraction between 0 and 1"),
        ({"confidence": 2}, "between 0 and 1"),
        ({"goal": "max micro f1", "confidence": 0.9}, "cannot be certified"),
        ({"goal": ["max f1"]}, "1 goals for 4 labels"),
        ({"average": "weighted"}, "average is"),
        ({"estimator": WithoutScores()}, "thresholds need scores"),
    ],
)
def test_invalid_parameters(options, message):
    clf = SetpointMultilabel(**{"estimator": logistic(), **options})
    with pytest.raises(SetpointError, match=message):
        clf.fit(X, Y)
