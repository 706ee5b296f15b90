import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from setpoint import certify, define_metric
from setpoint.certificates.bounds import bootstrap_bound
from setpoint.goals.metrics import metric

NAMES = ["mcc", "gmean", "fbeta(2)", "balanced_accuracy"]


def resampled(which, confidence, tp, fp, P, N, draws=3000):
    """Draw whole rows again, and take the quantile of the metric."""
    rng = np.random.default_rng(12345)
    cells = np.repeat(np.arange(4), [tp, fp, P - tp, N - fp])
    drawn = rng.choice(cells, size=(draws, len(cells)))
    a, b, c, d = ((drawn == i).sum(axis=1).astype(float) for i in range(4))
    values = [float(which.value(*map(np.float64, x))) for x in zip(a, b, a + c, b + d, strict=True)]
    return np.quantile(values, 1 - confidence if which.direction == "max" else confidence)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("at", "confidence"), [((40, 10, 60, 90), 0.8), ((30, 25, 40, 160), 0.95)])
def test_the_bound_is_that_of_drawing_rows_again(name, at, confidence):
    which = metric(name)
    expected = resampled(which, confidence, *at)
    spread = abs(float(which.value(*map(np.float64, at))) - expected)
    assert bootstrap_bound(which, confidence, *at) == pytest.approx(expected, abs=0.15 * spread)


def test_with_many_rows_the_bound_is_that_of_the_normal_approximation():
    tp, fp, P, N = 1800.0, 700.0, 2000.0, 7000.0
    recall, fpr = tp / P, fp / N
    error = np.sqrt(recall * (1 - recall) / P + fpr * (1 - fpr) / N) / 2
    expected = (recall + 1 - fpr) / 2 - norm.ppf(0.9) * error
    found = bootstrap_bound(metric("balanced_accuracy"), 0.9, tp, fp, P, N)
    assert found == pytest.approx(expected, abs=0.1 * error)


def test_a_cost_has_an_upper_bound():
    own = define_metric(
        "cost_of_estimate_test",
        lambda tp, fp, P, N: (5 * (P - tp) + fp) / (5 * P + N),
        direction="min",
    )
    at = (40.0, 10.0, 60.0, 90.0)
    value, bound = own.value(*at), bootstrap_bound(own, 0.9, *at)
    assert value < bound < 1
    assert bound == pytest.approx(resampled(own, 0.9, 40, 10, 60, 90), abs=0.15 * (bound - value))


@settings(max_examples=25)
@given(
    st.sampled_from(NAMES),
    st.tuples(*[st.integers(0, 6)] * 4),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_the_bound_is_a_number_within_the_bounds_of_the_metric(name, cells, confidence):
    tp, fp, fn, tn = map(float, cells)
    which = metric(name)
    bound = bootstrap_bound(which, confidence, tp, fp, tp + fn, fp + tn)
    assert which.bounds[0] <= bound <= which.bounds[1]


@pytest.mark.parametrize("name", NAMES)
def test_more_confidence_never_promises_more(name):
    bounds = [bootstrap_bound(metric(name), c, 20, 5, 30, 40) for c in (0.5, 0.8, 0.9, 0.99)]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_it_is_the_worst_value(name):
    assert bootstrap_bound(metric(name), 0.9, 0, 0, 0, 0) == metric(name).bounds[0]


@pytest.mark.parametrize("name", ["gmean", "balanced_accuracy"])
def test_with_one_class_it_is_the_worst_value(name):
    assert bootstrap_bound(metric(name), 0.9, 8, 0, 10, 0) == 0
    assert bootstrap_bound(metric(name), 0.9, 0, 3, 0, 10) == 0


def test_the_same_rows_give_the_same_bound():
    found = {bootstrap_bound(metric("mcc"), 0.9, 20, 5, 30, 40) for _ in range(3)}
    assert len(found) == 1


@pytest.mark.parametrize("positives", [1, 0])
def test_a_metric_without_a_worst_value_still_gets_a_certificate_without_nan(positives):
    """A profit may be as low as it likes; draws without positives are then -inf."""
    define_metric(
        "profit_of_estimate_test",
        lambda tp, fp, P, N: (50 * tp - fp) / (50 * P),
        bounds=(-np.inf, 1.0),
    )
    y = np.arange(20) < positives
    found = certify(y, np.arange(20.0), "max profit_of_estimate_test", threshold=10.0)
    assert not found.certified
    assert found.bounds[-1].bound is None or not np.isnan(found.bounds[-1].bound)
    assert "nan" not in str(found)
