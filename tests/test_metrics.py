import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics as reference

from setpoint import Goal
from setpoint.errors import GoalError
from setpoint.metrics import (
    ALARM_RATE,
    Metric,
    _not_monotone_at,
    define_metric,
    fbeta,
    metric,
    metric_names,
)

BUILT_IN = [
    "precision", "recall", "f1", "fbeta(2)", "fbeta(0.5)", "fpr", "fnr", "specificity", "npv",
    "accuracy", "balanced_accuracy", "gmean", "jaccard", "mcc", "alarm_rate",
]  # fmt: skip
MONOTONE = [name for name in BUILT_IN if name != "alarm_rate"]


@st.composite
def counts(draw, inside=False):
    """Totals P, N and counts TP <= P, FP <= N, real numbers as weighted counts are."""
    P, N = (draw(st.floats(0.5, 1e4)) for _ in range(2))
    low, high = (0.05, 0.95) if inside else (0.0, 1.0)
    tp, fp = (draw(st.floats(low, high)) * total for total in (P, N))
    return tp, fp, P, N


@pytest.mark.parametrize("name", BUILT_IN)
@given(at=counts(inside=True))
def test_derivatives_match_finite_differences(name, at):
    m, (tp, fp, P, N) = metric(name), at
    for exact, plus, minus, h in (
        (m.d_tp(*at), (tp + 1e-5 * P, fp), (tp - 1e-5 * P, fp), 1e-5 * P),
        (m.d_fp(*at), (tp, fp + 1e-5 * N), (tp, fp - 1e-5 * N), 1e-5 * N),
    ):
        difference = (m.value(*plus, P, N) - m.value(*minus, P, N)) / (2 * h)
        assert exact * h == pytest.approx(difference * h, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("name", MONOTONE)
@given(at=counts(), more_tp=st.floats(0, 1), more_fp=st.floats(0, 1))
def test_flagged_monotone_is_monotone(name, at, more_tp, more_fp):
    m, (tp, fp, P, N) = metric(name), at
    assert m.monotone
    here = m.sign * m.value(*at)
    assert m.sign * m.value(tp + more_tp * (P - tp), fp, P, N) >= here - 1e-9
    assert m.sign * m.value(tp, fp + more_fp * (N - fp), P, N) <= here + 1e-9


@pytest.mark.parametrize("name", MONOTONE)
def test_flagged_monotone_is_monotone_at_the_edges(name):
    """Whole counts include all 0/0 conventions: nothing predicted positive, or negative."""
    assert _not_monotone_at(metric(name)) is None


def test_alarm_rate_is_not_monotone():
    assert not ALARM_RATE.monotone
    assert "true positive makes it worse" in _not_monotone_at(ALARM_RATE)


@pytest.mark.parametrize("name", BUILT_IN)
@given(at=counts())
def test_values_lie_within_bounds_and_derivatives_are_finite(name, at):
    m = metric(name)
    low, high = m.bounds
    assert low - 1e-9 <= m.value(*at) <= high + 1e-9
    assert np.isfinite([m.d_tp(*at), m.d_fp(*at)]).all()


@pytest.mark.parametrize("name", BUILT_IN)
def test_floats_arrays_and_tensors_agree(name):
    m = metric(name)
    tp, fp = np.array([0.0, 0.0, 3.0, 5.0, 5.0]), np.array([0.0, 2.0, 0.0, 1.0, 9.0])
    for f in (m.value, m.d_tp, m.d_fp):
        arrays = f(tp, fp, 5.0, 9.0)
        tensors = f(torch.tensor(tp), torch.tensor(fp), 5.0, 9.0)
        floats = [f(a, b, 5.0, 9.0) for a, b in zip(tp.tolist(), fp.tolist(), strict=True)]
        np.testing.assert_allclose(tensors.numpy() + np.zeros(5), arrays + np.zeros(5), rtol=1e-12)
        np.testing.assert_allclose(floats, arrays + np.zeros(5), rtol=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=40))
def test_values_match_scikit_learn(pairs):
    y, predicted = (np.array(column) for column in zip(*pairs, strict=True))
    assume(y.any() and not y.all() and predicted.any() and not predicted.all())
    tn, fp, fn, tp = reference.confusion_matrix(y, predicted).ravel().tolist()
    at = (tp, fp, tp + fn, fp + tn)
    expected = {
        "precision": reference.precision_score(y, predicted),
        "recall": reference.recall_score(y, predicted),
        "f1": reference.f1_score(y, predicted),
        "fbeta(2)": reference.fbeta_score(y, predicted, beta=2),
        "specificity": reference.recall_score(~y, ~predicted),
        "npv": reference.precision_score(~y, ~predicted),
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced_accuracy": reference.balanced_accuracy_score(y, predicted),
        "jaccard": reference.jaccard_score(y, predicted),
        "mcc": reference.matthews_corrcoef(y, predicted),
    }
    for name, value in expected.items():
        assert metric(name).value(*at) == pytest.approx(value)
    assert metric("gmean").value(*at) == pytest.approx(
        np.sqrt(expected["recall"] * expected["specificity"])
    )


def test_conventions_when_nothing_is_predicted():
    assert metric("precision").value(0, 0, 5, 9) == 1.0
    assert metric("npv").value(5, 9, 5, 9) == 1.0
    assert metric("f1").value(0, 0, 5, 9) == 0.0
    assert metric("mcc").value(0, 0, 5, 9) == 0.0


@pytest.mark.parametrize(
    ("alias", "name"), [("tpr", "recall"), ("TNR", "specificity"), ("fbeta( 2.0 )", "fbeta(2)")]
)
def test_aliases(alias, name):
    assert metric(alias) == metric(name)
    assert metric(alias).name == name


def test_f1_is_fbeta_of_one():
    assert fbeta(1).value(3, 2, 5, 9) == metric("f1").value(3, 2, 5, 9)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("recal", "recall"),
        ("precison", "precision"),
        ("fbeta", r"fbeta\(2\)"),
        ("fbeta(x)", "'x' is not a number"),
        ("fbeta(-1)", "between 1e-6 and 1e6"),
        ("recall(2)", "takes no number"),
        ("zzz", "known: accuracy"),
    ],
)
def test_unknown_names_are_answered_with_help(name, expected):
    with pytest.raises(GoalError, match=expected):
        metric(name)


def profit_value(tp, fp, P, N):
    return (50 * tp - fp) / (50 * P)


@pytest.fixture
def profit():
    return define_metric("profit", profit_value, bounds=(-1e9, 1.0))


def test_user_defined_metric_joins_the_language(profit):
    assert metric("profit") is profit
    assert "profit" in metric_names()
    assert profit.d_tp(3.0, 2.0, 5.0, 9.0) == pytest.approx(1 / 5)
    assert profit.d_fp(3.0, 0.0, 5.0, 9.0) == pytest.approx(-1 / 250)  # at the edge of the domain


def test_user_defined_metric_travels_to_another_process(tmp_path):
    """Where nobody has defined it: the pickle takes its functions along."""
    (tmp_path / "mine.py").write_text("def gain(tp, fp, P, N):\n    return tp / P - fp / N\n")
    write = (
        "import pickle, mine; from setpoint import Goal, define_metric; "
        "define_metric('gain', mine.gain, bounds=(-1, 1)); "
        "pickle.dump(Goal.parse('max gain s.t. recall >= 0.5'), open('goal.pkl', 'wb'))"
    )
    read = (
        "import pickle; goal = pickle.load(open('goal.pkl', 'rb')); "
        "from setpoint import Goal; assert Goal.parse(str(goal)) == goal; "
        "print(goal.objective.value(4.0, 1.0, 8.0, 4.0))"
    )
    for code in (write, read):
        result = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "0.25"


def test_a_metric_is_its_function_and_not_only_its_name(profit):
    before = Goal.parse("max profit")
    after = define_metric("profit", lambda tp, fp, P, N: tp / P)
    assert Goal.parse("max profit") != before
    assert before.objective.value(0.0, 5.0, 5.0, 9.0) < 0 == after.value(0.0, 5.0, 5.0, 9.0)
    assert copy.deepcopy(before).objective is profit
    assert pickle.loads(pickle.dumps(before)) == before
    assert Metric("recall", _value, _value, _value) != metric("recall")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda tp, fp, P, N: tp / (tp + fp), "value is nan at TP=0, FP=0"),
        (lambda tp, fp, P, N: np.divide(tp, tp + fp), "value is nan at TP=0, FP=0"),
        (lambda tp, fp, P, N: 1.0 if tp > fp else 0.0, "does not take numpy arrays"),
        (lambda tp, fp, P, N: tp - fp, "outside of its bounds"),
    ],
)
def test_user_defined_metric_must_be_a_number_everywhere(value, expected):
    with pytest.raises(GoalError, match=expected):
        define_metric("broken", value)
    with pytest.raises(GoalError, match="unknown metric 'broken'"):
        metric("broken")


def test_a_constant_is_a_metric():
    assert define_metric("half", lambda tp, fp, P, N: 0.5).monotone


def test_gmean_survives_rounding_beyond_the_domain():
    m = metric("gmean")
    at = (torch.tensor(-1e-7), torch.tensor(9.0 + 1e-6), 5.0, 9.0)
    assert all(torch.isfinite(f(*at)) for f in (m.value, m.d_tp, m.d_fp))


def test_user_defined_metric_must_keep_its_claim():
    with pytest.raises(GoalError, match=r"not monotone: at TP=0.*worse.*monotone=False"):
        define_metric("negated", lambda tp, fp, P, N: 1 - tp / P)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("recall",), "taken"),
        (("tpr",), "taken"),
        (("and",), "word of the goal language"),
        (("Not A Name",), "lower-case"),
    ],
)
def test_user_defined_metric_needs_a_free_name(arguments, expected):
    with pytest.raises(GoalError, match=expected):
        define_metric(*arguments, lambda tp, fp, P, N: tp / P)


def test_user_defined_metric_needs_bounds_and_direction():
    with pytest.raises(GoalError, match="not in order"):
        define_metric("odd", lambda tp, fp, P, N: tp / P, bounds=(1.0, 0.0))
    with pytest.raises(GoalError, match="'max' or 'min'"):
        define_metric("odd", lambda tp, fp, P, N: tp / P, direction="up")


def _value(tp, fp, P, N):
    return tp / P


def test_unregistered_metric_pickles_by_its_functions():
    own = Metric("mine", _value, _value, _value)
    assert pickle.loads(pickle.dumps(own)) == own
