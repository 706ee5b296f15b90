import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from certificate_rows import clopper_pearson, normal, rows_with_counts
from setpoint import Bound, Goal, certify, define_metric
from setpoint.certificates.bounds import (
    bootstrap_bound,
    bound_at_prevalence,
    bounds_of,
    fpr_bound_everywhere,
    is_sharper_everywhere,
)
from setpoint.goals.metrics import BUILT_IN, metric, metric_names
from setpoint.thresholds.operating_point import OperatingPoint

# --- bounds of a goal's metrics ------------------------------------------------------------------


def test_bounds_allow_for_all_thresholds_that_were_planned():
    rows = normal(n=1500, gap=2.0)
    found = certify(*rows, "max recall s.t. precision >= 0.7", method="sequence")
    precision, recall = found.bounds
    assert found.certified
    assert found.tested > 10
    expected = recall.successes / recall.trials - np.sqrt(np.log(10) / 2 / recall.trials)
    assert recall.bound == pytest.approx(expected, abs=1e-9)
    assert precision.bound >= 0.7
    f1 = certify(*rows, "max f1 s.t. precision >= 0.7", method="sequence").bounds[-1]
    jaccard = clopper_pearson(f1.successes, f1.trials, 1 - 0.1 / found.tested)
    assert f1.bound == pytest.approx(2 * jaccard / (1 + jaccard), abs=1e-9)


def test_a_threshold_chosen_among_all_bounds_its_constraints_and_nothing_else():
    found = certify(*normal(n=1500, gap=2.0), "max precision s.t. recall >= 0.7")
    recall, precision = found.bounds
    assert found.certified
    assert recall.bound == 0.7
    assert precision.bound is None
    assert "precision: observed 0." in str(found)
    assert "; no bound" in str(found)
    missed = certify(*normal(n=1500, gap=2.0), "max precision s.t. recall >= 0.99999")
    assert not missed.certified
    assert [b.bound for b in missed.bounds] == [None, None]


@settings(max_examples=50)
@given(st.tuples(*[st.integers(0, 30)] * 4), st.integers(1, 200))
def test_more_thresholds_never_tighten_a_bound(counts, tested):
    assume(sum(counts) > 0)
    goal = Goal.parse("max recall s.t. precision >= 0.7, fpr <= 0.2")
    point = OperatingPoint(0.5, *map(float, counts), goal)
    one, many = (bounds_of(point, 0.9, t, False) for t in (1, tested))
    assert one[-1].metric.sign * (one[-1].bound - many[-1].bound) >= -1e-12
    if tested > 1:  # nothing is known of a constraint that did not pass
        assert [b.bound for b in many[:-1]] == [None, None]


@pytest.mark.parametrize("goal", ["max recall s.t. fpr <= 0.9", "min fpr s.t. recall >= 0.01"])
def test_the_bound_of_recall_or_fpr_holds_at_all_thresholds_at_once(goal):
    """Uniform scores of 40 rows of each class: at threshold t, recall and fpr are 1 - t."""
    runs, n, goal = 4000, 40, Goal.parse(goal)
    scores = np.sort(np.random.default_rng(0).random((runs, n)), axis=1)[:, ::-1]
    # The count jumps at a score: recall is highest just below it, and fpr lowest just above it.
    alarms = np.arange(n) + (goal.objective.name == "recall")
    bounds = [
        bounds_of(OperatingPoint(0.5, a, a, n - a, n - a, goal), 0.9, None, True)[-1].bound
        for a in alarms.astype(float)
    ]
    false = (goal.objective.sign * (np.array(bounds) - (1 - scores)) > 0).any(axis=1).mean()
    assert 0.03 < false <= 0.1 + 3 * np.sqrt(0.09 / runs)


@given(st.floats(0.02, 0.98), st.integers(20, 5000), st.integers(2, 200))
def test_which_bound_is_sharper_is_known_beforehand(rate, n, tested):
    goal = Goal.parse("max recall s.t. precision >= 0.5")
    k = int(rate * n)
    point = OperatingPoint(0.5, float(k), 5.0, float(n - k), 55.0, goal)
    there, divided = (bounds_of(point, 0.9, tested, True, e)[-1].bound for e in (True, False))
    assert divided == pytest.approx(clopper_pearson(k, n, 1 - 0.1 / tested))
    prefers = is_sharper_everywhere(goal.objective, 0.9, tested, k / n, n)
    assert prefers == (there > divided) or there == pytest.approx(divided) or there == 0
    fnr = Goal.parse("min fnr s.t. precision >= 0.5").objective
    assert is_sharper_everywhere(fnr, 0.9, tested, (n - k) / n, n) == prefers
    assert is_sharper_everywhere(metric("f1"), 0.9, tested, rate, n)  # it does not matter


def test_a_low_confidence_or_another_metric_has_no_such_bound():
    goal = Goal.parse("max recall s.t. fpr <= 0.2")
    point = OperatingPoint(0.5, 30.0, 5.0, 10.0, 55.0, goal)
    assert bounds_of(point, 0.4, None, True)[-1].bound is None
    goal = Goal.parse("max precision s.t. recall >= 0.2")
    point = OperatingPoint(0.5, 30.0, 5.0, 10.0, 55.0, goal)
    assert bounds_of(point, 0.9, None, True)[-1].bound is None


def test_a_bound_as_text():
    exact, estimate, ceiling = (
        certify(*rows_with_counts(90, 5, 10, 95), goal, 0.5).bounds[0]
        for goal in ("max f1", "max mcc", "min fpr")
    )
    assert str(exact).startswith("f1 >= 0.8")
    assert str(exact).endswith("(observed 0.9231, 90 of 105; exact)")
    assert str(estimate).endswith("; bootstrap estimate, no guarantee)")
    assert str(ceiling).startswith("fpr <= 0.0")
    unknown = Bound(metric("recall"), 0.9, float("nan"), None, "exact", 0, 0, 1.0)
    assert str(unknown) == "recall: not observed, 0 of 0; no bound"


# --- bootstrap estimates -------------------------------------------------------------------------

ESTIMATED = ["mcc", "gmean", "fbeta(2)", "balanced_accuracy"]


def resampled(which, confidence, tp, fp, P, N, draws=3000):
    """Resample whole rows, and return the quantile of the metric."""
    rng = np.random.default_rng(12345)
    cells = np.repeat(np.arange(4), [tp, fp, P - tp, N - fp])
    drawn = rng.choice(cells, size=(draws, len(cells)))
    a, b, c, d = ((drawn == i).sum(axis=1).astype(float) for i in range(4))
    values = [float(which.value(*map(np.float64, x))) for x in zip(a, b, a + c, b + d, strict=True)]
    return np.quantile(values, 1 - confidence if which.direction == "max" else confidence)


@given(
    st.sampled_from(ESTIMATED),
    st.sampled_from([((40, 10, 60, 90), 0.8), ((30, 25, 40, 160), 0.95)]),
)
def test_an_estimate_is_that_of_resampled_rows(name, case):
    which, (counts, confidence) = metric(name), case
    expected = resampled(which, confidence, *counts)
    spread = abs(float(which.value(*map(np.float64, counts))) - expected)
    assert bootstrap_bound(which, confidence, *counts) == pytest.approx(expected, abs=0.15 * spread)


def test_with_many_rows_an_estimate_is_that_of_the_normal_approximation():
    tp, fp, P, N = 1800.0, 700.0, 2000.0, 7000.0
    recall, fpr = tp / P, fp / N
    error = np.sqrt(recall * (1 - recall) / P + fpr * (1 - fpr) / N) / 2
    expected = (recall + 1 - fpr) / 2 - norm.ppf(0.9) * error
    found = bootstrap_bound(metric("balanced_accuracy"), 0.9, tp, fp, P, N)
    assert found == pytest.approx(expected, abs=0.1 * error)


def test_the_estimate_of_a_cost_is_an_upper_bound():
    cost = define_metric(
        "cost_of_estimate_test",
        lambda tp, fp, P, N: (5 * (P - tp) + fp) / (5 * P + N),
        direction="min",
    )
    counts = (40.0, 10.0, 60.0, 90.0)
    value, bound = cost.value(*counts), bootstrap_bound(cost, 0.9, *counts)
    assert value < bound < 1
    assert bound == pytest.approx(resampled(cost, 0.9, 40, 10, 60, 90), abs=0.15 * (bound - value))


@settings(max_examples=25)
@given(
    st.sampled_from(ESTIMATED),
    st.tuples(*[st.integers(0, 6)] * 4),
    st.sampled_from([0.5, 0.9, 0.99]),
)
def test_an_estimate_is_a_possible_value_of_the_metric(name, cells, confidence):
    tp, fp, fn, tn = map(float, cells)
    which = metric(name)
    bound = bootstrap_bound(which, confidence, tp, fp, tp + fn, fp + tn)
    assert which.bounds[0] <= bound <= which.bounds[1]


@given(st.sampled_from(ESTIMATED))
def test_an_estimate_falls_with_the_confidence_and_without_rows_is_the_worst_value(name):
    which = metric(name)
    bounds = [bootstrap_bound(which, c, 20, 5, 30, 40) for c in (0.5, 0.8, 0.9, 0.99)]
    assert bounds == sorted(bounds, reverse=True)
    assert bootstrap_bound(which, 0.9, 20, 5, 30, 40) == bounds[2]  # the draws are seeded
    assert bootstrap_bound(which, 0.9, 0, 0, 0, 0) == which.bounds[0]
    if name in ("gmean", "balanced_accuracy"):  # undefined for one class
        assert bootstrap_bound(which, 0.9, 8, 0, 10, 0) == 0
        assert bootstrap_bound(which, 0.9, 0, 3, 0, 10) == 0


@pytest.mark.parametrize("positives", [1, 0])
def test_an_unbounded_metric_gets_a_certificate_without_nan(positives):
    """A profit may be arbitrarily low; draws without positives are then -inf."""
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


# --- another prevalence --------------------------------------------------------------------------

MONOTONE = [*(name for name in BUILT_IN if metric(name).monotone), "fbeta(2)"]

some_counts = st.tuples(st.integers(1, 60), st.integers(1, 60)).flatmap(
    lambda totals: st.tuples(
        st.integers(0, totals[0]), st.integers(0, totals[1]), st.just(totals[0]), st.just(totals[1])
    )
)
prevalences = st.floats(0.001, 0.999)


def formula(name, pi, r, f):
    """Return a metric from prevalence, recall and fpr."""
    tp, fp = pi * r, (1 - pi) * f
    if name == "precision":
        return tp / (tp + fp)
    if name == "f1":
        return 2 * tp / (tp + fp + pi)
    if name == "accuracy":
        return tp + (1 - pi) * (1 - f)
    return tp + fp  # alarm_rate


def box(counts, confidence):
    """Return exact bounds of recall and fpr, each with half the error."""
    tp, fp, P, N = counts
    each = 1 - (1 - confidence) / 2
    recalls = clopper_pearson(tp, P, each), clopper_pearson(tp, P, each, "upper")
    return recalls, clopper_pearson(fp, N, each, "upper")


def value_on(which, pi, recall, fpr):
    with np.errstate(all="ignore"):
        return which.value(pi * recall, (1 - pi) * fpr, pi, 1 - pi)


@given(st.sampled_from(MONOTONE), some_counts, prevalences, st.sampled_from([0.8, 0.95]))
def test_the_bound_is_the_worst_of_all_recalls_and_fprs_within_their_bounds(
    name, counts, pi, confidence
):
    which = metric(name)
    (least, _), most_fpr = box(counts, confidence)
    recall, fpr = np.meshgrid(np.linspace(least, 1, 21), np.linspace(0, most_fpr, 21))
    values = which.sign * value_on(which, pi, recall, fpr)
    values = values[np.isfinite(values)]
    _, bound = bound_at_prevalence(which, pi, counts, confidence)
    assert which.sign * bound == pytest.approx(values.min(), abs=1e-7)


@settings(max_examples=50)
@given(some_counts, prevalences)
def test_the_alarm_rate_is_bounded_at_the_greatest_recall_and_fpr(counts, pi):
    (_, most), most_fpr = box(counts, 0.9)
    _, bound = bound_at_prevalence(metric("alarm_rate"), pi, counts, 0.9)
    assert bound == pytest.approx(pi * most + (1 - pi) * most_fpr, abs=1e-9)


@given(st.sampled_from(["precision", "f1", "accuracy", "alarm_rate"]), some_counts, prevalences)
def test_the_value_follows_from_recall_and_fpr(name, counts, pi):
    tp, fp, P, N = counts
    value, _ = bound_at_prevalence(metric(name), pi, counts, 0.9)
    if tp + fp > 0:
        assert value == pytest.approx(formula(name, pi, tp / P, fp / N))


@given(st.sampled_from(["precision", "f1", "accuracy", "alarm_rate", "npv"]), some_counts)
def test_at_the_observed_prevalence_the_value_is_the_observed_one(name, counts):
    _, _, P, N = counts
    value, _ = bound_at_prevalence(metric(name), P / (P + N), counts, 0.9)
    assert value == pytest.approx(float(metric(name).value(*map(np.float64, counts))))


@given(
    st.sampled_from(["precision", "f1", "accuracy", "alarm_rate", "mcc"]),
    st.sampled_from([0.02, 0.5]),
)
def test_the_bound_holds_as_often_as_stated_over_all_outcomes(name, pi):
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


@given(some_counts, prevalences, st.integers(2, 300))
def test_several_thresholds_divide_the_error(counts, pi, tested):
    one = bound_at_prevalence(metric("precision"), pi, counts, 0.9)
    many = bound_at_prevalence(metric("precision"), pi, counts, 0.9, tested)
    assert many[0] == one[0]
    assert many[1] <= one[1] + 1e-12
    strict = bound_at_prevalence(metric("precision"), pi, counts, 1 - 0.1 / tested)
    assert many[1] == pytest.approx(strict[1], abs=1e-9)


def test_the_bound_at_a_threshold_chosen_among_all_is_weaker_than_at_a_given_one():
    counts = (800, 10, 1000, 10_000)
    for name, side in (("precision", 1), ("f1", 1), ("alarm_rate", -1)):
        value, given = bound_at_prevalence(metric(name), 0.1, counts, 0.9)
        chosen = bound_at_prevalence(metric(name), 0.1, counts, 0.9, None)[1]
        planned = bound_at_prevalence(metric(name), 0.1, counts, 0.9, 10**6)[1]
        assert side * value > side * given > side * chosen > side * planned


def test_the_bound_on_fpr_at_all_thresholds_holds_for_uniform_scores():
    """The fpr with f false alarms is uniform order statistics: any f may break the bound."""
    rng = np.random.default_rng(0)
    draws, N = 2000, 60
    most = np.array([fpr_bound_everywhere(f, N, 0.8) for f in range(N + 1)])
    fpr = np.sort(rng.random((draws, N)))  # of the scores 1 - u, from the highest
    beyond = (fpr > most[:N]).any(axis=1).mean()  # fpr just above the score of rank f + 1
    assert 0.05 < beyond <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / draws)
    assert most[-1] == 1
    assert (np.diff(most) >= 0).all()


def test_a_metric_that_is_not_monotone_has_no_bound():
    custom = define_metric(
        "wobble_of_prevalence_test", lambda tp, fp, P, N: 0.5 + 0.0 * tp, monotone=False
    )
    assert bound_at_prevalence(custom, 0.1, (8, 1, 10, 10), 0.9) == (0.5, None)


def test_a_custom_metric_has_no_bound():
    """It may depend on more than fractions."""
    custom = define_metric("mix_of_prevalence_test", lambda tp, fp, P, N: (tp / P + 1 - fp / N) / 2)
    value, bound = bound_at_prevalence(custom, 0.1, (8, 1, 10, 10), 0.9)
    assert value == pytest.approx(0.85)
    assert bound is None


def test_without_one_of_the_classes_nothing_is_known():
    for name in metric_names():
        if "(" in name:
            continue
        for counts in [(0, 3, 0, 5), (3, 0, 5, 0)]:
            value, bound = bound_at_prevalence(metric(name), 0.1, counts, 0.9)
            assert np.isnan(value), name
            assert bound is None, name
