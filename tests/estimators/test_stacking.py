"""Stacks: weights that minimise the logistic loss, and scores that do not depend on the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setpoint import ModelSearch, SetpointThreshold, load
from setpoint.estimators.stacking import (
    _RIDGE,
    Columns,
    Member,
    OnColumns,
    StackedModels,
    as_logits,
    fit_weights,
    logits,
)


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 1


def loss(weights, intercept, Z, y, weight):
    margin = np.where(y, 1, -1) * (Z @ weights + intercept)
    ridge = _RIDGE / 2 * np.sum((weights * Z.std(axis=0)) ** 2)
    return weight @ np.logaddexp(0, -margin) + ridge


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), models=st.integers(1, 4), weighted=st.booleans())
def test_no_other_weights_have_a_smaller_loss(seed, models, weighted):
    rng = np.random.default_rng(seed)
    y = rng.random(80) < 0.3
    y[:2] = [True, False]
    Z = rng.normal(size=(80, models)) * rng.uniform(0.1, 9, models) + 2 * rng.normal(size=models)
    Z += y[:, None] * rng.normal(1, 1, models)
    weight = rng.uniform(0.2, 3, 80) if weighted else np.ones(80)
    weights, intercept = fit_weights(Z, y, weight if weighted else None)
    assert (weights >= 0).all()
    least = loss(weights, intercept, Z, y, weight)
    for _ in range(40):
        scale = rng.choice([1e-3, 1e-1, 1.0])
        other = np.maximum(weights + scale * rng.normal(size=models) / Z.std(axis=0), 0)
        assert loss(other, intercept + scale * rng.normal(), Z, y, weight) >= least - 1e-4


def test_a_model_against_the_labels_has_no_weight():
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.2
    good, bad = y + rng.normal(size=500), rng.normal(size=500) - y
    weights, _ = fit_weights(np.column_stack([good, bad]), y)
    assert weights[0] > 0.1
    assert weights[1] == 0


def test_constant_scores_do_no_harm():
    X, y = rows()
    weights, intercept = fit_weights(np.column_stack([X[:, 0], np.full(len(y), 3.0)]), y)
    assert np.isfinite([*weights, intercept]).all()


def test_logits_of_probabilities_are_finite():
    X, y = rows()
    forest = ExtraTreesClassifier(20, random_state=0).fit(X, y)  # is sure of its training rows
    assert forest.predict_proba(X)[:, 1].max() == 1
    found = logits(forest, X)
    assert found.max() == logit(1 - 0.1 / 20)
    assert found.min() == logit(0.1 / 20)
    bayes = GaussianNB().fit(X, y)
    assert np.allclose(expit(logits(bayes, X)), bayes.predict_proba(X)[:, 1])
    assert as_logits(bayes, np.array([0.0, 1.0])).tolist() == [logit(1e-6), logit(1 - 1e-6)]
    line = LogisticRegression().fit(X, y)
    assert np.array_equal(logits(line, X), line.decision_function(X))


@pytest.fixture(scope="module")
def stack():
    X, y = rows()
    members = [
        Member("line", LogisticRegression().fit(X[:, 1:], y), (1, 3)),
        Member("trees", HistGradientBoostingClassifier(max_iter=5).fit(X, y)),
    ]
    return StackedModels(members, np.array([0.5, 1.5]), -0.2)


def test_scores_are_the_weighted_sum_of_logits(stack):
    X, _ = rows(seed=1)
    expected = -0.2 + 0.5 * logits(stack.members[0].classifier, X[:, 1:])
    expected = expected + 1.5 * logits(stack.members[1].classifier, X)
    assert np.allclose(stack.decision_function(X), expected, rtol=1e-14)
    assert np.array_equal(stack.predict_proba(X)[:, 1], expit(stack.decision_function(X)))
    assert np.allclose(stack.predict_proba(X).sum(axis=1), 1)
    assert np.array_equal(stack.predict(X), stack.decision_function(X) > 0)
    assert stack.n_features_in_ == 3
    one_by_one = [stack.decision_function(X[[i]])[0] for i in range(20)]
    assert np.allclose(one_by_one, stack.decision_function(X[:20]), rtol=1e-13)


def test_the_positive_label_may_be_the_first(stack):
    X, _ = rows(seed=1)
    named = StackedModels(stack.members, stack.weights, -0.2, np.array(["bad", "good"]), 0)
    assert np.array_equal(named.decision_function(X), -stack.decision_function(X))
    assert (named.predict(X) == "bad").tolist() == (stack.decision_function(X) >= 0).tolist()
    assert named.classes_.tolist() == ["bad", "good"]


def test_members_must_be_fitted(stack):
    X, y = rows()
    assert stack.fit(X, y) is stack
    unfitted = StackedModels([Member("line", LogisticRegression())], np.ones(1))
    with pytest.raises(NotFittedError):
        unfitted.__sklearn_is_fitted__()


def test_a_classifier_on_some_columns():
    X, y = rows()
    line = LogisticRegression().fit(X[:, :2], y)
    found = OnColumns(line, (0, 2))
    assert np.array_equal(found.decision_function(X), line.decision_function(X[:, :2]))
    assert np.array_equal(found.predict(X), line.predict(X[:, :2]))
    assert np.array_equal(found.predict_proba(X), line.predict_proba(X[:, :2]))
    assert found.classes_.tolist() == [False, True]
    assert found.fit(X, y) is found
    forest = OnColumns(ExtraTreesClassifier(3).fit(X[:, :2], y), (0, 2))
    assert not hasattr(forest, "decision_function")
    assert hasattr(forest, "predict_proba")


@pytest.mark.parametrize("in_64_bits", [False, True])
def test_linear_members_compute_in_64_bits_where_that_is_asked_for(in_64_bits, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3)).astype(np.float32)
    y = X[:, 0] + X[:, 1] + rng.normal(size=len(X)) / 2 > 1
    models = {
        "line": make_pipeline(StandardScaler(), LogisticRegression()),
        "forest": ExtraTreesClassifier(10, min_samples_leaf=5, random_state=0),
    }
    search = ModelSearch(models, columns={"line": Columns(1, 3, in_64_bits), "forest": (0, 1)})
    clf = SetpointThreshold(search, cv=2, random_state=0).fit(X, y)
    line, forest = clf.estimator_.members
    scaler, regression = (step for _, step in line.classifier.steps)
    weights = regression.coef_.ravel()
    assert weights.dtype == (np.float64 if in_64_bits else np.float32)
    exact = (X[:, 1:].astype(np.float64) - scaler.mean_) / scaler.scale_ @ weights
    error = np.abs(line.logits(line.take(X)) - exact - regression.intercept_).max()
    assert bool(error < 1e-12) is in_64_bits
    assert forest.take(X).dtype == np.float32
    clf.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert [m.columns for m in loaded.estimator_.members] == [(1, 3, in_64_bits), (0, 1, False)]
    assert np.array_equal(loaded.positive_scores(X), clf.positive_scores(X))


def test_columns_of_stacks_saved_by_earlier_versions_stay_as_they_are():
    from setpoint.estimators.stack_saving import stack_from_json, stack_to_json

    X, y = rows()
    member = Member("line", LogisticRegression().fit(X[:, :2], y), Columns(0, 2))
    content, parts = stack_to_json(
        StackedModels([member], np.ones(1)), lambda each: ({"kind": "any"}, {})
    )
    assert content["members"][0]["columns"] == [0, 2, False]
    content["members"][0]["columns"] = [0, 2]
    (restored,) = stack_from_json(content, parts, lambda *_: member.classifier).members
    assert restored.columns == Columns(0, 2, in_64_bits=False)
    assert restored.take(X.astype(np.float32)).dtype == np.float32
