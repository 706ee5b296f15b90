"""Thresholds of several labels."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import f1_score, jaccard_score, precision_score, recall_score

from setpoint import (
    Goal,
    GoalError,
    InfeasibleGoalWarning,
    SetpointError,
    choose_threshold,
    choose_thresholds,
    evaluate_threshold,
    evaluate_thresholds,
)
from setpoint.goals.metrics import metric
from setpoint.thresholds.micro import LabelCuts, best_quotient, best_total

QUOTIENTS = ["f1", "fbeta(2)", "fbeta(0.5)", "precision", "recall", "jaccard", "accuracy",
             "npv", "specificity"]  # fmt: skip
FLOORS = ["", "recall >= 0.5", "precision >= 0.6", "fpr <= 0.3, recall >= 0.3"]


def tiny(rng, weighted):
    """A tiny problem with ties, where every label has both classes."""
    n, labels = int(rng.integers(3, 8)), int(rng.integers(1, 4))
    while True:
        Y = rng.random((n, labels)) < rng.uniform(0.2, 0.7)
        if (Y.any(axis=0) & ~Y.all(axis=0)).all():
            break
    scores = rng.integers(0, 5, (n, labels)) / 4
    weights = rng.integers(1, 5, n) / 2 if weighted else None
    return Y, scores, weights


def all_cuts(y, scores, weights):
    """All pairs of TP and FP of a label, with the totals."""
    w = np.ones(len(y)) if weights is None else weights
    cuts = [scores >= value for value in [*np.unique(scores), np.inf]]
    return [(w[c & y].sum(), w[c & ~y].sum()) for c in cuts], w[y].sum(), w[~y].sum()


def allowed_cuts(goal, y, scores, weights):
    """The cuts of a label with the least violation of its constraints."""
    cuts, P, N = all_cuts(y, scores, weights)
    missed = [float(goal.violation(np.float64(tp), np.float64(fp), P, N)) for tp, fp in cuts]
    return [cut for cut, m in zip(cuts, missed, strict=True) if m == min(missed)], P, N


def brute_force(goal, Y, scores, weights, on_sums=()):
    """The best (-violation, gain, TP, -FP) of the summed counts over all combinations of cuts."""
    found = [allowed_cuts(goal, Y[:, j], scores[:, j], weights) for j in range(Y.shape[1])]
    P, N = (sum(each[i] for each in found) for i in (1, 2))
    total = Goal(goal.objective, on_sums)
    best = (-np.inf,)
    with np.errstate(all="ignore"):
        for combination in itertools.product(*(each[0] for each in found)):
            tp, fp = np.sum(combination, axis=0)
            at = (np.float64(tp), np.float64(fp), P, N)
            rank = (-float(total.violation(*at)), float(total.gain(*at)), tp, -fp)
            best = max(best, rank)
    return best


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_micro_averages_are_those_of_all_combinations(name, weighted):
    """2,000 random cases in all, with ties and weights, with and without floors per label."""
    rng = np.random.default_rng([QUOTIENTS.index(name), weighted])
    for case in range(112):
        Y, scores, weights = tiny(rng, weighted)
        floors = FLOORS[case % len(FLOORS)]
        goal = Goal.parse(f"max {name} s.t. {floors}" if floors else f"max {name}")
        expected = brute_force(goal, Y, scores, weights)
        found = choose_thresholds(Y, scores, goal, average="micro", sample_weight=weights)
        tp, fp, _, _ = found.sums
        assert found.objective == pytest.approx(expected[1], abs=1e-12)
        if not weighted:  # whole counts are compared without rounding
            assert (tp, -fp) == expected[2:]


@pytest.mark.parametrize("name", ["fpr", "fnr", "alarm_rate"])
def test_micro_averages_where_lower_is_better(name):
    rng = np.random.default_rng(1)
    for _ in range(50):
        Y, scores, weights = tiny(rng, weighted=False)
        goal = Goal.parse(f"min {name} s.t. recall >= 0.5")
        found = choose_thresholds(Y, scores, goal, average="micro")
        expected = brute_force(goal, Y, scores, weights)
        assert -found.objective == pytest.approx(expected[1], abs=1e-12)
        assert found.sums[0] == expected[2]


@pytest.mark.parametrize(
    "constraint", ["precision >= 0.7", "recall >= 0.8", "fpr <= 0.2", "alarm_rate <= 0.3"]
)
@pytest.mark.parametrize("objective", ["max recall", "max f1", "max precision", "max mcc"])
def test_constraints_on_the_sums_are_those_of_all_combinations(objective, constraint):
    rng = np.random.default_rng(2)
    for case in range(40):
        Y, scores, _ = tiny(rng, weighted=False)
        own = ["", "recall >= 0.3 for each label, "][case % 2]
        found = choose_thresholds(Y, scores, f"{objective} s.t. {own}micro {constraint}")
        goal = Goal.parse(f"{objective} s.t. recall >= 0.3" if own else objective)
        expected = brute_force(goal, Y, scores, None, (constraint,))
        tp, fp, P, N = found.sums
        total = found.goals.of_sums
        assert -float(total.violation(tp, fp, P, N)) == pytest.approx(expected[0], abs=1e-12)
        assert float(total.gain(tp, fp, P, N)) == pytest.approx(expected[1], abs=1e-12)
        assert (tp, -fp) == expected[2:]
        assert found.goals.average == "micro"
        if not own:
            assert found.feasible == (expected[0] == 0)


def test_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 5)) < 0.3).astype(int)
    scores = rng.random((200, 5)) + 0.4 * Y
    for average in ("micro", "macro"):
        point = choose_thresholds(Y, scores, "max f1", average=average)
        predicted = (scores > point.thresholds).astype(int)
        value = getattr(point, average)
        functions = {"f1": f1_score, "jaccard": jaccard_score, "precision": precision_score}
        for name, function in {**functions, "recall": recall_score}.items():
            assert value(name) == pytest.approx(function(Y, predicted, average=average))
        assert point.objective == value("f1")


def test_macro_separates():
    rng = np.random.default_rng(0)
    Y, scores = rng.random((60, 4)) < 0.4, rng.random((60, 4))
    goals = ["max f1", "max recall s.t. precision >= 0.5", "max f1", "min fpr s.t. recall >= 0.9"]
    point = choose_thresholds(Y, scores, goals, average=None, names=list("abcd"))
    for j, (name, goal) in enumerate(zip("abcd", goals, strict=True)):
        assert point[name] == choose_threshold(Y[:, j], scores[:, j], goal)
    frame = pd.DataFrame(Y, columns=list("abcd"))
    by_name = {name: goals["abcd".index(name)] for name in "badc"}
    assert choose_thresholds(frame, scores, by_name, average=None) == point
    assert np.isnan(point.objective)
    same = choose_thresholds(Y, scores, "max macro f1")
    assert same.objective == np.mean([
        choose_threshold(y, s, "max f1").f1 for y, s in zip(Y.T, scores.T, strict=True)
    ])  # fmt: skip
    assert choose_thresholds(sparse.csr_array(Y.astype(int)), scores, "max f1") == same


def test_dinkelbach_improves_in_every_step_and_needs_few():
    rng = np.random.default_rng(3)
    for name in QUOTIENTS:
        for _ in range(20):
            Y = rng.random((150, 8)) < rng.uniform(0.02, 0.3, 8)
            Y[0], Y[1] = True, False
            scores = rng.normal(size=Y.shape) + Y * rng.uniform(0, 2, 8)
            goal = Goal.parse(f"max {name}")
            cuts = [LabelCuts.of(y, s, None, goal) for y, s in zip(Y.T, scores.T, strict=True)]
            found = best_quotient(cuts, metric(name))
            assert 1 <= found.steps <= 12
            # A step from the best value finds nothing better: the table of all totals agrees.
            exact = best_total(cuts, goal, weighted=False)
            P, N = (sum(getattr(c, side) for c in cuts) for side in ("P", "N"))
            assert goal.gain(found.tp, found.fp, P, N) == pytest.approx(
                goal.gain(exact.tp, exact.fp, P, N), abs=1e-12
            )
            assert (found.tp, found.fp) == (exact.tp, exact.fp)


def test_thresholds_reproduce_the_counts():
    rng = np.random.default_rng(4)
    Y = rng.random((300, 6)) < 0.2
    scores = (rng.normal(size=Y.shape) + Y).round(1)
    for goal in ("max micro f1", "max f1", "max recall s.t. micro precision >= 0.6"):
        for kind in (np.float32, np.float64):
            point = choose_thresholds(Y, scores.astype(kind), goal)
            same = evaluate_thresholds(Y, scores.astype(kind), point.thresholds, goal)
            assert [p.counts for p in same.points] == [p.counts for p in point.points]
            assert same.objective == point.objective


@st.composite
def problems(draw):
    n, labels = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    Y = np.array([draw(flags) for _ in range(labels)]).T
    values = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    scores = np.array([draw(values) for _ in range(labels)], dtype=float).T
    weights = draw(st.none() | st.lists(st.integers(1, 3), min_size=n, max_size=n))
    return Y, scores, weights


@pytest.mark.filterwarnings("ignore:only one class")
@settings(deadline=None, max_examples=150)
@given(problems(), st.sampled_from(QUOTIENTS))
def test_micro_is_at_least_as_good_as_any_other_thresholds(problem, name):
    Y, scores, weights = problem
    if Y.all() or not Y.any():
        return
    goal = f"max {name}"
    best = choose_thresholds(Y, scores, goal, average="micro", sample_weight=weights)
    for average in ("macro", None):
        other = choose_thresholds(Y, scores, goal, average=average, sample_weight=weights)
        assert best.objective >= other.micro(name) - 1e-12
    # Rows in another order, and weights as copies of rows, change nothing.
    again = choose_thresholds(
        Y[::-1], scores[::-1], goal, average="micro",
        sample_weight=None if weights is None else weights[::-1],
    )  # fmt: skip
    assert again.objective == pytest.approx(best.objective, abs=1e-12)
    if weights is not None:
        copies = np.repeat(np.arange(len(Y)), weights)
        plain = choose_thresholds(Y[copies], scores[copies], goal, average="micro")
        assert plain.objective == pytest.approx(best.objective, abs=1e-12)


def test_one_label_is_the_ordinary_threshold():
    rng = np.random.default_rng(5)
    y, s = rng.random(50) < 0.4, rng.random(50)
    for goal in ("max f1", "max recall s.t. precision >= 0.6", "max precision s.t. recall >= 0.3"):
        for average in ("micro", "macro", None):
            point = choose_thresholds(y[:, None], s[:, None], goal, average=average)
            assert point.points[0] == choose_threshold(y, s, goal)


@pytest.mark.parametrize("goal", ["max f1", "max micro f1", "max recall s.t. micro fpr <= 0.1"])
def test_200_labels_of_which_one_has_no_positives(goal):
    rng = np.random.default_rng(0)
    Y = rng.random((300, 200)) < 0.1
    Y[:, 17], Y[:, 18] = False, True
    scores = rng.random(Y.shape) + Y
    with pytest.warns(
        InfeasibleGoalWarning, match=r"2 of 200 labels: '17', '18'\. A label without"
    ):
        point = choose_thresholds(Y, scores, goal)
    assert point.thresholds[17] == np.inf
    assert point.thresholds[18] == -np.inf
    assert point.left_out == ("17", "18")
    assert np.isfinite(point.macro("recall"))
    assert point.macro("f1") == np.mean([p.f1 for i, p in enumerate(point.points)
                                         if i not in (17, 18)])  # fmt: skip
    assert point.feasible
    assert "Left out, as only one class occurs: '17', '18'." in point.message
    assert "... (200 labels)" in str(point)
    same = evaluate_thresholds(Y, scores, point.thresholds, goal)
    assert same.micro("f1") == point.micro("f1")


@pytest.mark.filterwarnings("ignore:only one class")
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_no_label_with_both_classes(average):
    point = choose_thresholds([[0, 1], [0, 1]], np.eye(2), "max f1", average=average)
    assert point.thresholds.tolist() == [np.inf, -np.inf]
    assert np.isnan(point.macro("f1"))
    assert point.micro("f1") == 1.0


def test_labels_that_fail_are_named():
    rng = np.random.default_rng(0)
    Y = rng.random((100, 3)) < 0.3
    scores = np.column_stack([Y[:, 0], rng.random(100), Y[:, 2]]).astype(float)
    for average in ("macro", "micro"):
        point = choose_thresholds(
            Y, scores, "max f1 s.t. precision >= 0.9, recall >= 0.9", average=average,
            names=["good", "bad", "fine"],
        )  # fmt: skip
        assert not point.feasible
        assert point.failing == ("bad",)
        assert "1 of 3 labels do not meet their goals: 'bad'." in point.message
        # The least violation, as for a single label.
        alone = choose_threshold(Y[:, 1], scores[:, 1], point["bad"].goal)
        assert point["bad"].violation == pytest.approx(alone.violation)
    table = str(point).splitlines()
    assert [row.split()[0] for row in table[1:]] == [
        "label",
        "good",
        "bad",
        "fine",
        "micro",
        "macro",
    ]
    assert [row.split()[-1] for row in table[2:5]] == ["yes", "no", "yes"]
    values = json.loads(json.dumps(point.to_dict()))
    assert values["failing"] == ["bad"]
    assert values["labels"]["good"]["precision"] == 1.0
    assert values["micro"]["f1"] == point.micro("f1")
    with pytest.raises(KeyError, match="no label 'worse'"):
        point["worse"]


def test_sums_that_miss_their_level():
    Y, scores = np.array([[0, 1], [1, 0], [0, 1]]), np.array([[3.0, 1], [1, 3], [2, 2]])
    point = choose_thresholds(
        Y, scores, "max recall s.t. micro precision >= 0.9, micro recall >= 0.9"
    )
    assert not point.feasible
    assert "Micro " in point.message
    assert point.goals.average == "micro"


def test_the_goal_as_text():
    rng = np.random.default_rng(0)
    Y, scores = rng.random((30, 2)) < 0.4, rng.random((30, 2))
    text = "maximise micro_f1 subject to recall >= 50% for each label and fpr <= 0.6"
    point = choose_thresholds(Y, scores, text)
    expected = "max micro f1 s.t. recall >= 0.5 for each label, fpr <= 0.6 for each label"
    assert str(point.goals) == expected
    assert choose_thresholds(Y, scores, expected) == point
    assert str(choose_thresholds(Y, scores, "max f1", average=None).goals) == "max f1"


@pytest.mark.parametrize(
    ("goal", "options", "message"),
    [
        ("max mcc", {"average": "micro"}, "'mcc' is not a quotient .* average='macro'"),
        ("max f1 s.t. macro recall >= 0.5", {}, "a mean over the labels cannot be constrained"),
        ("max macro f1 s.t. micro recall >= 0.5", {}, "couples the labels; write 'micro' for both"),
        ("max f1", {"average": "weighted"}, "average is 'macro', 'micro' or None"),
        (["max f1"], {}, "1 goals for 2 labels"),
        (["max f1", "max recall"], {}, r"different objectives \(f1, recall\).*average=None"),
        (["max micro f1", "max macro f1"], {}, "different averages"),
        (["max f1 s.t. micro recall >= 0.5"] * 2, {}, "give one goal for all labels"),
        ({"0": "max f1", "2": "max f1"}, {}, "a goal for '2', but no such label"),
        ({"0": "max f1"}, {}, "no goal for the labels '1'"),
        (7, {}, "a goal is a string"),
        ("max f1 s.t. micro recall >= 0.5", {"sample_weight": [1, 2, 1]}, "unweighted rows only"),
    ],
)
def test_goals_that_cannot_be_meant(goal, options, message):
    with pytest.raises(GoalError, match=message):
        choose_thresholds([[0, 1], [1, 0], [1, 1]], np.eye(3)[:, :2], goal, **options)


def test_a_knapsack_that_is_too_large_is_refused():
    n, labels = 3000, 20
    Y = np.arange(n)[:, None] % 2 == np.zeros(labels)
    scores = np.random.default_rng(0).random((n, labels))
    with pytest.raises(GoalError, match="like the items of a knapsack.*constrain each label"):
        choose_thresholds(Y, scores, "max recall s.t. micro precision >= 0.9")


@pytest.mark.parametrize(
    ("Y", "scores", "options", "message"),
    [
        ([0, 1], [[1.0], [2.0]], {}, "must be a matrix.*MultiLabelBinarizer"),
        ([[0, 2]], [[1.0, 2.0]], {}, r"0 and 1 .*Y\[0, 1\] is"),
        ([[0.0, np.nan]], [[1.0, 2.0]], {}, r"Y\[0, 1\] is"),
        ([[0, 1], [1, 0]], [[1.0], [2.0]], {}, r"shape \(2, 2\), but have the shape \(2, 1\)"),
        ([[0, 1], [1, 0]], [[1.0, np.nan], [2, 1]], {}, "label '1': 1 of 2 scores are NaN"),
        ([[0, 1], [1, 0]], np.eye(2), {"names": ["a"]}, "1 names for 2 labels"),
        ([[0, 1], [1, 0]], np.eye(2), {"names": ["a", "a"]}, "several labels are called 'a'"),
        ([[0, 1], [1, 0]], np.eye(2), {"sample_weight": [0, 0]}, "zero in all rows"),
    ],
)
def test_invalid_data(Y, scores, options, message):
    with pytest.raises(SetpointError, match=message):
        choose_thresholds(Y, scores, "max f1", **options)


def test_thresholds_to_evaluate_are_one_per_label():
    with pytest.raises(SetpointError, match="one number for each of 2 labels"):
        evaluate_thresholds(np.eye(2), np.eye(2), [0.5], "max f1")
    point = evaluate_thresholds(np.eye(2), np.eye(2), [0.5, 0.5], "max f1")
    assert point.points[0] == evaluate_threshold([1, 0], [1.0, 0.0], 0.5, "max f1")


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[0.0, 1.0], [2.0, 0.0]]), r"Y\[1, 0\] is 2\.$"),
        (np.array([[0, 1], [1, 3]]), r"Y\[1, 1\] is 3\.$"),
        (np.array([[0.5, 1.0], [1.0, 0.0]]), r"Y\[0, 0\] is 0.5\.$"),
        ([["yes", "no"], ["no", "no"]], r"Y\[0, 0\] is 'yes'\.$"),
    ],
)
def test_other_values_than_0_and_1_are_shown_as_they_are_written(Y, message):
    with pytest.raises(SetpointError, match=message):
        choose_thresholds(Y, np.zeros((2, 2)), "max f1")
