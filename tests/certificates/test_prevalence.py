import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from setpoint import define_metric
from setpoint.certificates.bounds import bound_at_prevalence
from setpoint.goals.metrics import metric, metric_names

MONOTONE = ["precision", "f1", "jaccard", "accuracy", "npv", "mcc", "gmean", "balanced_accuracy",
            "fbeta(2)", "recall", "fpr", "specificity", "fnr"]  # fmt: skip

counts = st.tuples(st.integers(1, 60), st.integers(1, 60)).flatmap(
    lambda totals: st.tuples(
        st.integers(0, totals[0]), st.integers(0, totals[1]), st.just(totals[0]), st.just(totals[1])
    )
)
prevalences = st.floats(0.001, 0.999)


def formula(name, pi, r, f):
    """What a share of positives, recall and fpr make of a metric."""
    tp, fp = pi * r, (1 - pi) * f
    if name == "precision":
        return tp / (tp + fp)
    if name == "f1":
        return 2 * tp / (tp + fp + pi)
    if name == "accuracy":
        return tp + (1 - pi) * (1 - f)
    return tp + fp  # alarm_rate


def box(at, confidence):
    """Exact bounds of recall and fpr, each with half the error."""
    tp, fp, P, N = at
    each = 1 - (1 - confidence) / 2

    def interval(k, n, side):
        return binomtest(k, n, alternative=side).proportion_ci(each, method="exact")

    recalls = interval(tp, P, "greater").low, interval(tp, P, "less").high
    return recalls, interval(fp, N, "less").high


def value_on(which, pi, recall, fpr):
    with np.errstate(all="ignore"):
        return which.value(pi * recall, (1 - pi) * fpr, pi, 1 - pi)


@given(st.sampled_from(MONOTONE), counts, prevalences, st.sampled_from([0.8, 0.95]))
def test_the_bound_is_the_worst_of_all_recalls_and_fprs_that_are_left(name, at, pi, confidence):
    which = metric(name)
    (least, _), most_fpr = box(at, confidence)
    recall, fpr = np.meshgrid(np.linspace(least, 1, 21), np.linspace(0, most_fpr, 21))
    values = which.sign * value_on(which, pi, recall, fpr)
    values = values[np.isfinite(values)]
    _, bound = bound_at_prevalence(which, pi, at, confidence)
    assert which.sign * bound == pytest.approx(values.min(), abs=1e-7)


@settings(max_examples=50)
@given(counts, prevalences)
def test_the_alarm_rate_is_bounded_at_the_greatest_recall_and_fpr(at, pi):
    (_, most), most_fpr = box(at, 0.9)
    _, bound = bound_at_prevalence(metric("alarm_rate"), pi, at, 0.9)
    assert bound == pytest.approx(pi * most + (1 - pi) * most_fpr, abs=1e-9)


@given(st.sampled_from(["precision", "f1", "accuracy", "alarm_rate"]), counts, prevalences)
def test_the_value_follows_from_recall_and_fpr(name, at, pi):
    tp, fp, P, N = at
    value, _ = bound_at_prevalence(metric(name), pi, at, 0.9)
    if tp + fp > 0:
        assert value == pytest.approx(formula(name, pi, tp / P, fp / N))


@given(st.sampled_from(["precision", "f1", "accuracy", "alarm_rate", "npv"]), counts)
def test_at_its_own_prevalence_the_value_is_the_one_observed(name, at):
    _, _, P, N = at
    value, _ = bound_at_prevalence(metric(name), P / (P + N), at, 0.9)
    assert value == pytest.approx(float(metric(name).value(*map(np.float64, at))))


@pytest.mark.parametrize("name", ["precision", "f1", "accuracy", "alarm_rate", "mcc"])
@pytest.mark.parametrize("pi", [0.02, 0.5])
def test_the_bound_holds_as_often_as_it_says_over_all_outcomes(name, pi):
    """All outcomes of 9 positives and 14 negatives, for many true recalls and fprs."""
    which, P, N, confidence = metric(name), 9, 14, 0.8
    bounds = np.array(
        [
            [bound_at_prevalence(which, pi, (a, b, P, N), confidence)[1] for b in range(N + 1)]
            for a in range(P + 1)
        ]
    )
    for recall in (0.2, 0.5, 0.8, 0.95):
        for fpr in (0.02, 0.1, 0.3, 0.7):
            true = float(value_on(which, pi, np.float64(recall), np.float64(fpr)))
            chance = np.outer(binom.pmf(range(P + 1), P, recall), binom.pmf(range(N + 1), N, fpr))
            assert chance[which.sign * (bounds - true) > 1e-12].sum() <= 1 - confidence


@given(counts, prevalences, st.integers(2, 300))
def test_many_thresholds_share_the_error(at, pi, tested):
    one = bound_at_prevalence(metric("precision"), pi, at, 0.9)
    many = bound_at_prevalence(metric("precision"), pi, at, 0.9, tested)
    assert many[0] == one[0]
    assert many[1] <= one[1] + 1e-12
    strict = bound_at_prevalence(metric("precision"), pi, at, 1 - 0.1 / tested)
    assert many[1] == pytest.approx(strict[1], abs=1e-9)


def test_a_threshold_chosen_among_all_has_no_bound():
    assert bound_at_prevalence(metric("precision"), 0.1, (8, 1, 10, 10), 0.9, None)[1] is None


def test_a_metric_that_is_not_monotone_has_no_bound():
    own = define_metric(
        "wobble_of_prevalence_test", lambda tp, fp, P, N: 0.5 + 0.0 * tp, monotone=False
    )
    value, bound = bound_at_prevalence(own, 0.1, (8, 1, 10, 10), 0.9)
    assert value == 0.5
    assert bound is None


def test_a_metric_of_ones_own_has_none():
    """It may depend on more than shares."""
    own = define_metric("mix_of_prevalence_test", lambda tp, fp, P, N: (tp / P + 1 - fp / N) / 2)
    value, bound = bound_at_prevalence(own, 0.1, (8, 1, 10, 10), 0.9)
    assert value == pytest.approx(0.85)
    assert bound is None


@pytest.mark.parametrize("name", [n for n in metric_names() if "(" not in n])
@pytest.mark.parametrize("at", [(0, 3, 0, 5), (3, 0, 5, 0)], ids=["no positives", "no negatives"])
def test_without_one_of_the_classes_nothing_is_known(name, at):
    value, bound = bound_at_prevalence(metric(name), 0.1, at, 0.9)
    assert np.isnan(value)
    assert bound is None
