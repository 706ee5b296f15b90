"""Weights of classes."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, recall_score

from setpoint import GoalError, SetpointError, choose_class_weights, choose_threshold
from setpoint.thresholds.class_goals import ClassGoal, Counts, parse_term
from setpoint.thresholds.multiclass import _Rows

GOALS = [
    "max accuracy",
    "max macro f1",
    "max balanced_accuracy",
    "max accuracy s.t. recall >= 0.6 for each class",
    "max recall[class=2] s.t. precision[class=2] >= 0.6, accuracy >= 0.5",
    "max macro f1 s.t. precision >= 0.5 for each class",
]


def tiny(rng, n=8, classes=3, weighted=False):
    """Rows of three classes, whose probabilities know something of them."""
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    proba = rng.dirichlet(np.ones(classes), n)
    proba[np.arange(n), y] += rng.exponential(0.25, n)
    weights = rng.integers(1, 4, n).astype(float) if weighted else None
    return y, proba / proba.sum(axis=1, keepdims=True), weights


def between(values):
    values = np.unique(values)
    return np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])


def all_decisions(proba):
    """Every decision of the rows that weights of three classes can make.

    With the first weight fixed, the two others make a plane, in which each pair of classes of each
    row is separated by a line. Between neighbouring crossings of these lines, all cells are met.
    """
    logs = np.log(proba)
    first, second, third = logs.T
    crossings = ((first - third)[:, None] - (second - third)).ravel()
    found = []
    for x in between(np.concatenate([first - second, crossings])):
        for z in between(np.concatenate([first - third, x + second - third])):
            found += [np.argmax(logs + np.array([0, x, z]), axis=1)]
    return np.unique(found, axis=0)


def best_of_all(goal, y, proba, weights):
    """The best -violation and gain of all decisions."""
    w = np.ones(len(y)) if weights is None else weights
    decisions = all_decisions(proba)
    tp, fp = (
        np.stack([((decisions == k) & (right(y, k))) @ w for k in range(3)]).astype(float)
        for right in (np.equal, np.not_equal)
    )
    counts = Counts(tp, fp, np.bincount(y, w, 3))
    violation = np.broadcast_to(goal.violation(counts), tp.shape[1:])
    least = violation.min()
    return -least, float(goal.gain(counts)[violation <= least + 1e-12].max())


@pytest.mark.parametrize("text", GOALS)
def test_the_best_decision_is_found_nearly_always(text):
    """A local optimum: never better than the best of all, and seldom worse."""
    rng = np.random.default_rng(0)
    goal = ClassGoal.parse(text, (0, 1, 2))
    same = 0
    for case in range(30):
        y, proba, weights = tiny(rng, weighted=case % 2 == 1)
        expected = best_of_all(goal, y, proba, weights)
        found = choose_class_weights(y, proba, text, sample_weight=weights)
        reached = -found.violation, float(goal.gain(found.counts))
        assert reached[0] <= expected[0] + 1e-9
        assert reached[0] < expected[0] - 1e-9 or reached[1] <= expected[1] + 1e-9
        same += np.allclose(reached, expected, atol=1e-9)
    assert same >= 26


@pytest.mark.parametrize("text", GOALS)
def test_no_single_weight_can_be_improved(text):
    rng = np.random.default_rng(1)
    for _ in range(5):
        y, proba, _ = tiny(rng, n=25)
        found = choose_class_weights(y, proba, text, starts=2)
        rows = _Rows.of(y, proba, (0, 1, 2), None)
        best = -found.violation, float(found.goal.gain(found.counts))
        for k in range(3):
            for shift in np.linspace(-5, 5, 201):
                offsets = np.log(found.weights)
                offsets[k] += shift
                counts = rows.counts(offsets)
                rank = -float(found.goal.violation(counts)), float(found.goal.gain(counts))
                assert rank[0] < best[0] - 1e-9 or rank[1] <= best[1] + 1e-9 or rank[0] < best[0]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans(), st.booleans())
def test_counts_along_a_weight_are_those_of_the_decisions(seed, classes, weighted, ties):
    rng = np.random.default_rng(seed)
    y, proba, weights = tiny(rng, 12, classes, weighted)
    if ties:
        proba = np.round(proba * 4) / 4
        proba[~proba.any(axis=1), 0] = 1.0
    rows = _Rows.of(y, proba, tuple(range(classes)), weights)
    offsets = rng.normal(size=classes)
    for k in range(classes):
        values, counts = rows.along(offsets, k)
        for i, value in enumerate(values):
            moved = offsets.copy()
            moved[k] = value
            expected = rows.counts(moved)
            np.testing.assert_allclose(counts.tp[:, i], expected.tp)
            np.testing.assert_allclose(counts.fp[:, i], expected.fp)


def test_two_classes_are_a_threshold():
    rng = np.random.default_rng(2)
    for _ in range(20):
        y = rng.integers(0, 2, 40)
        p = np.clip(rng.random(40) * 0.8 + 0.2 * y, 0.01, 0.99)
        found = choose_class_weights(y, np.column_stack([1 - p, p]), "max f1[class=1]")
        assert found.objective == pytest.approx(choose_threshold(y, p, "max f1").f1)


def test_metrics_are_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = LogisticRegression(C=0.01, max_iter=1000).fit(X[::2], names[y[::2]])
    found = choose_class_weights(
        names[y[::2]], model.predict_proba(X[::2]), "max macro f1", classes=model.classes_
    )
    for rows in (slice(0, None, 2), slice(1, None, 2)):
        proba, truth = model.predict_proba(X[rows]), names[y[rows]]
        point = found.evaluate(truth, proba)
        predicted = found.predict(proba)
        assert point.value("accuracy") == pytest.approx(accuracy_score(truth, predicted))
        assert point.value("macro f1") == pytest.approx(f1_score(truth, predicted, average="macro"))
        assert point.value("balanced_accuracy") == pytest.approx(
            balanced_accuracy_score(truth, predicted)
        )
        assert point.value("recall[class=virginica]") == pytest.approx(
            recall_score(truth, predicted, average=None)[2]
        )
    assert found.objective >= f1_score(
        names[y[::2]], model.predict(X[::2]), average="macro"
    )  # fmt: skip
    assert np.prod(found.weights) == pytest.approx(1)


def test_messages():
    rng = np.random.default_rng(3)
    y, proba, _ = tiny(rng, 60)
    goal = "max accuracy s.t. recall >= 0.99 for each class, precision[class=1] >= 0.1"
    found = choose_class_weights(y, proba, goal)
    assert not found.feasible
    assert "Not met: recall[class=" in found.message
    assert str(found.goal) == goal
    assert ClassGoal.parse(str(found.goal), (0, 1, 2)) == found.goal
    assert [line.split()[0] for line in str(found).splitlines()[1:]] == [
        "class", "0", "1", "2", "accuracy"
    ]  # fmt: skip
    assert json.loads(json.dumps(found.to_dict()))["feasible"] is False
    easy = choose_class_weights(y, proba, "max accuracy s.t. recall >= 0.1 for each class")
    assert "All constraints are met" in easy.message


def test_a_class_that_does_not_occur_is_left_out_of_means():
    rng = np.random.default_rng(4)
    y, proba, _ = tiny(rng, 30)
    wide = np.column_stack([proba, np.full(30, 0.01)])
    goal = "max macro f1 s.t. recall >= 0.2 for each class"
    found = choose_class_weights(y, wide, goal, classes=[0, 1, 2, 3])
    assert found.feasible
    assert found.objective >= choose_class_weights(y, proba, goal).objective - 0.05


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("max f1", "must say of which class: 'macro f1'"),
        ("max micro f1", "micro averages equal accuracy"),
        ("max recall[class=7]", "there is no class '7'; the classes are 0, 1, 2"),
        ("max accuracy s.t. recall >= 0.9, recall >= 0.8", "constrained twice"),
        ("max accuracy for each class", "is a constraint"),
        ("max macro recal", "unknown metric"),
        ("max accuracy s.t. recall <= 0.9 for each class", "better when higher"),
        ("max accuracy s.t. alarms <= 10 per day", "about periods .'per day'., which goals of "),
        ("max accuracy s.t. recall >= 0.5 for each region", "about segments .'region'."),
        ("max accuracy s.t. precision[region=north] >= 0.5", "about segments .'region'."),
        ("max accuracy s.t. cost(fp=1, fn=amount) <= 3", "about amounts of the rows .'amount'."),
        ("max macro recall[amount]", "about amounts of the rows"),
        ("max macro precision@20", "have no '@'"),
        (3, "a goal is a text"),
    ],
)
def test_goals_that_cannot_be_meant(goal, message):
    y, proba, _ = tiny(np.random.default_rng(0))
    with pytest.raises(GoalError, match=message):
        choose_class_weights(y, proba, goal)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"proba": np.ones((8, 2))}, "a column for each of 3 classes"),
        ({"proba": -np.ones((8, 3))}, "not negative.*softmax"),
        ({"proba": np.zeros((8, 3))}, "positive for at least one class"),
        ({"y": np.zeros(7)}, "one class per row"),
        ({"y": np.full(8, 5)}, "y holds 5; the classes are 0, 1, 2"),
        ({"classes": [0, 0, 1]}, "at least two different labels"),
        ({"sample_weight": np.zeros(8)}, "not all zero"),
        ({"sample_weight": np.zeros(7)}, "the labels"),
        ({"starts": 0}, "starts must be a whole number"),
    ],
)
def test_invalid_data(change, message):
    y, proba, _ = tiny(np.random.default_rng(0))
    arguments = {"y": y, "proba": proba, "goal": "max accuracy", "classes": [0, 1, 2], **change}
    with pytest.raises(SetpointError, match=message):
        choose_class_weights(**arguments)


def test_a_term_of_amounts_is_refused():
    with pytest.raises(GoalError, match="about amounts of the rows"):
        parse_term("recall[amount][class=2]", [0, 1, 2])


def test_goals_are_written_with_their_levels():
    text = "max accuracy s.t. alarms <= 10 for each class, precision[class=2] >= 70%"
    assert str(ClassGoal.parse(text, [0, 1, 2])) == text.replace("70%", "0.7")
