import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn import metrics as reference

from setpoint.errors import GoalError
from setpoint.goals.custom_metrics import not_monotone_at
from setpoint.goals.metrics import ALARM_RATE, BUILT_IN, fbeta, metric

EVERY = [*BUILT_IN, "fbeta(2)", "fbeta(0.5)"]
MONOTONE = [name for name in EVERY if metric(name).monotone]


@st.composite
def counts(draw, inside=False):
    """Totals P and N, and counts TP <= P and FP <= N: real numbers, as with sample weights."""
    P, N = (draw(st.floats(0.5, 1e4)) for _ in range(2))
    low, high = (0.05, 0.95) if inside else (0.0, 1.0)
    tp, fp = (draw(st.floats(low, high)) * total for total in (P, N))
    return tp, fp, P, N


@given(counts(inside=True))
def test_derivatives_match_finite_differences(at):
    tp, fp, P, N = at
    for m in map(metric, EVERY):
        for exact, plus, minus, h in (
            (m.d_tp(*at), (tp + 1e-5 * P, fp), (tp - 1e-5 * P, fp), 1e-5 * P),
            (m.d_fp(*at), (tp, fp + 1e-5 * N), (tp, fp - 1e-5 * N), 1e-5 * N),
        ):
            difference = (m.value(*plus, P, N) - m.value(*minus, P, N)) / (2 * h)
            assert exact * h == pytest.approx(difference * h, rel=1e-3, abs=1e-9), m.name


@given(counts(), st.floats(0, 1), st.floats(0, 1))
def test_monotone_metrics_are_monotone(at, more_tp, more_fp):
    tp, fp, P, N = at
    for m in map(metric, MONOTONE):
        assert m.monotone, m.name
        here = m.sign * m.value(*at)
        assert m.sign * m.value(tp + more_tp * (P - tp), fp, P, N) >= here - 1e-9, m.name
        assert m.sign * m.value(tp, fp + more_fp * (N - fp), P, N) <= here + 1e-9, m.name


def test_monotone_metrics_are_monotone_at_the_edges():
    """Whole counts include all 0/0 conventions: nothing predicted positive, or negative."""
    assert {name: not_monotone_at(metric(name)) for name in MONOTONE} == dict.fromkeys(MONOTONE)


def test_alarm_rate_is_not_monotone():
    assert not ALARM_RATE.monotone
    assert "true positive makes it worse" in not_monotone_at(ALARM_RATE)


@given(counts())
def test_values_lie_within_bounds_and_derivatives_are_finite(at):
    for m in map(metric, EVERY):
        low, high = m.bounds
        assert low - 1e-9 <= m.value(*at) <= high + 1e-9, m.name
        assert np.isfinite([m.d_tp(*at), m.d_fp(*at)]).all(), m.name


def test_floats_arrays_and_tensors_agree():
    tp, fp = np.array([0.0, 0.0, 3.0, 5.0, 5.0]), np.array([0.0, 2.0, 0.0, 1.0, 9.0])
    for f in (f for m in map(metric, EVERY) for f in (m.value, m.d_tp, m.d_fp)):
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
def test_errors_about_unknown_names_suggest_others(name, expected):
    with pytest.raises(GoalError, match=expected):
        metric(name)


def test_gmean_is_finite_at_counts_rounded_beyond_the_domain():
    m = metric("gmean")
    at = (torch.tensor(-1e-7), torch.tensor(9.0 + 1e-6), 5.0, 9.0)
    assert all(torch.isfinite(f(*at)) for f in (m.value, m.d_tp, m.d_fp))
