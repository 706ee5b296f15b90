"""Several positive labels, and more than two labels."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

from setpoint import SetpointClassifier, SetpointError, SetpointThreshold, certify, load
from setpoint.data import ArrayRows
from setpoint.tables import fit_table
from setpoint.training import Stochastic

X, y = load_iris(return_X_y=True)
WANTED = np.isin(y, [1, 2])


def make_threshold(**options):
    model = LogisticRegression(max_iter=1000)
    return SetpointThreshold(model, "max f1", random_state=0, **options)


def make_classifier(**options):
    return SetpointClassifier("max f1", random_state=0, **options)


@pytest.mark.parametrize("make", [make_threshold, make_classifier])
@pytest.mark.parametrize(
    ("pos_label", "name"), [([1, 2], "1 or 2"), ({2, 1}, "1 or 2"), ((2,), "2"), (2, "2")]
)
def test_predictions_are_two_classes(make, pos_label, name, tmp_path):
    clf = make(pos_label=pos_label).fit(X, y)
    wanted = np.isin(y, pos_label if isinstance(pos_label, int) else list(pos_label))
    assert clf.classes_.tolist() == ["other", name]
    assert clf.pos_label_ == name
    predicted = clf.predict(X)
    assert set(predicted) <= {"other", name}
    # The same decisions as with booleans.
    plain = make().fit(X, wanted)
    assert ((predicted == name) == plain.predict(X)).all()
    assert clf.operating_point_ == plain.operating_point_
    assert clf.predict_proba(X).shape == (len(X), 2)
    np.testing.assert_array_equal(clf.predict_proba(X), plain.predict_proba(X))
    # Labels as they were given, booleans, and the two classes.
    for labels in (y, wanted, clf._labels.of_decisions(wanted)):
        assert clf.evaluate(X, labels) == plain.evaluate(X, wanted)
        assert clf.score(X, labels) == np.mean((predicted == name) == wanted)
    clf.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert same.pos_label == pos_label
    assert (same.predict(X) == predicted).all()
    assert same.evaluate(X, y) == clf.evaluate(X, y)
    assert clone(clf).fit(X, y).threshold_ == clf.threshold_ if make is make_threshold else True


def test_three_labels_need_a_name():
    with pytest.raises(SetpointError, match="name the positive one with pos_label, or several"):
        make_threshold().fit(X, y)


def test_texts():
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    clf = make_threshold(pos_label=["versicolor", "virginica"]).fit(X, names)
    assert clf.classes_.tolist() == ["other", "versicolor or virginica"]
    with pytest.raises(SetpointError, match="the others must be of their kind"):
        clf.evaluate(X, y)


def test_certificates_take_the_labels_as_they_are():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 3000)
    scores = np.isin(labels, [1, 3]) * 3.0 + rng.normal(size=3000)
    goal = "max recall s.t. precision >= 0.8"
    found = certify(labels, scores, goal, pos_label=[1, 3])
    assert found == certify(np.isin(labels, [1, 3]), scores, goal)
    assert found.certified
    clf = SetpointThreshold(
        LogisticRegression(), goal, confidence=0.9, pos_label=[1, 3], random_state=0
    ).fit(scores[:, None], labels)
    assert clf.certificate_.pos_label == [1, 3]
    verdict = clf.certificate_.check(labels, clf.positive_scores(scores[:, None]))
    assert not verdict.broken


@pytest.mark.parametrize("method", ["auto", "predict_proba"])
def test_a_fitted_classifier_of_all_classes(method, tmp_path):
    fitted = LogisticRegression(max_iter=1000).fit(X, y)
    clf = SetpointThreshold(
        fitted, "max f1", cv="prefit", pos_label=[1, 2], response_method=method
    ).fit(X, y)
    probability = fitted.predict_proba(X)[:, [1, 2]].sum(axis=1)
    np.testing.assert_allclose(clf.positive_scores(X), probability)
    np.testing.assert_allclose(clf.predict_proba(X)[:, 1], probability)
    assert ((clf.predict(X) == "1 or 2") == (probability > clf.threshold_)).all()
    clf.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == clf.predict(X)).all()
    with pytest.raises(SetpointError, match="a decision function for each of its 3 classes"):
        clf.decision_function(X)


def test_fitted_classifiers_that_do_not_fit():
    three = LinearSVC().fit(X, y)
    with pytest.raises(SetpointError, match="LinearSVC has no predict_proba"):
        SetpointThreshold(three, cv="prefit", pos_label=[1, 2]).fit(X, y)
    with pytest.raises(SetpointError, match="only probabilities of several classes can be added"):
        SetpointThreshold(
            three, cv="prefit", pos_label=[1, 2], response_method="decision_function"
        ).fit(X, y)
    one = LogisticRegression(max_iter=1000).fit(X[y > 0], y[y > 0])
    with pytest.raises(SetpointError, match="some must be positive .* and some negative"):
        SetpointThreshold(one, cv="prefit", pos_label=[1, 2]).fit(X, y)


def test_a_decision_function_of_two_classes():
    clf = SetpointThreshold(RidgeClassifier(), pos_label=[1, 2], random_state=0).fit(X, y)
    plain = SetpointThreshold(RidgeClassifier(), random_state=0).fit(X, WANTED)
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(X))
    assert clf.threshold_ == plain.threshold_


def test_streams():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 2000)
    rows = (np.isin(labels, [1, 3]) * 2.0 + rng.normal(size=2000))[:, None]
    source = ArrayRows(rows, labels, pos_label=[1, 3])
    assert source.classes == ("other", "1 or 3")
    short = Stochastic(outer_iterations=3, inner_iterations=20)
    clf = SetpointClassifier("max f1", solver=short, random_state=0).fit_stream(source)
    assert clf.classes_.tolist() == ["other", "1 or 3"]
    assert clf.evaluate(rows, labels).f1 > 0.7
    with pytest.raises(SetpointError, match="pos_label 8 is not in y"):
        ArrayRows(rows, labels, pos_label=[8])


@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_tables(model, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=y)
    fitted = fit_table(frame, "kind", "max f1", positive="1,2", model=model)
    plain = fit_table(frame.assign(kind=WANTED), "kind", "max f1", model=model)
    assert (fitted.model.negative, fitted.model.positive) == ("other", "1 or 2")
    assert fitted.test_point == plain.test_point
    predicted = fitted.model.predict(frame[list("abcd")])
    assert (predicted["alarm"] == (predicted["predicted"] == "1 or 2")).all()
    fitted.model.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert same.positive_labels == (1, 2)
    assert same.evaluate(frame) == fitted.model.evaluate(frame)
    assert same.evaluate(frame.assign(kind=frame["kind"].astype(str))).tp == same.evaluate(frame).tp
