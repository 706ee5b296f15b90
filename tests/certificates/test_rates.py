from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial

from certificate_rows import clopper_pearson, outcomes
from setpoint import Constraint, define_metric
from setpoint.certificates.rates import (
    at_least,
    at_most,
    lower_bound,
    p_value,
    rate_of,
    upper_bound,
)
from setpoint.goals.metrics import BUILT_IN, metric

FRACTIONS = [*(name for name in BUILT_IN if metric(name).population), "f1"]
OTHERS = [*(name for name in BUILT_IN if name not in FRACTIONS), "fbeta(2)", "fbeta(0.5)"]

TEN_ROWS, _ = outcomes(10, [0.25] * 4)  # all (tp, fp, fn, tn)

trials = st.integers(1, 400)
fractions = st.floats(0.001, 0.999)
confidences = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.999])


def at(tp, fp, fn, tn):
    """The counts that metrics are functions of."""
    return np.float64(tp), np.float64(fp), np.float64(tp + fn), np.float64(fp + tn)


# --- the binomial distribution -------------------------------------------------------------------


@given(trials, st.data(), fractions)
def test_tails_are_those_of_the_binomial_distribution(n, data, p):
    k = data.draw(st.integers(0, n))
    assert at_least(k, n, p) == pytest.approx(binom.sf(k - 1, n, p), rel=1e-9, abs=1e-300)
    assert at_most(k, n, p) == pytest.approx(binom.cdf(k, n, p), rel=1e-9, abs=1e-300)


def test_tails_take_arrays():
    k, n = np.arange(11), np.full(11, 10)
    np.testing.assert_allclose(at_least(k, n, 0.3), binom.sf(k - 1, n, 0.3))
    np.testing.assert_allclose(at_most(k, n, 0.3), binom.cdf(k, n, 0.3))


@given(st.integers(1, 200), st.data(), confidences)
def test_bounds_are_those_of_clopper_and_pearson(n, data, confidence):
    k = data.draw(st.integers(0, n))
    lower, upper = (clopper_pearson(k, n, confidence, side) for side in ("lower", "upper"))
    assert lower_bound(k, n, confidence) == pytest.approx(lower, abs=1e-9)
    assert upper_bound(k, n, confidence) == pytest.approx(upper, abs=1e-9)


@given(st.sampled_from([1, 2, 5, 13, 40]), st.sampled_from([0.8, 0.9, 0.99]))
def test_a_bound_is_beyond_the_truth_no_more_often_than_allowed(n, confidence):
    lower = np.array([lower_bound(k, n, confidence) for k in range(n + 1)])
    upper = np.array([upper_bound(k, n, confidence) for k in range(n + 1)])
    worst = 0.0
    for p in np.linspace(0.005, 0.995, 199):
        chance = binom.pmf(np.arange(n + 1), n, p)
        missed = chance[lower > p].sum(), chance[upper < p].sum()
        assert max(missed) <= 1 - confidence + 1e-12
        worst = max(worst, *missed)
    assert worst > 0.5 * (1 - confidence)  # and not much less often than it may


@given(trials, st.data(), confidences, fractions)
def test_a_level_passes_its_test_where_the_bound_reaches_it(n, data, confidence, level):
    k = data.draw(st.integers(0, n))
    bound = lower_bound(k, n, confidence)
    assume(abs(bound - level) > 1e-9)
    assert (at_least(k, n, level) <= 1 - confidence) == (bound >= level)
    bound = upper_bound(k, n, confidence)
    assume(abs(bound - level) > 1e-9)
    assert (at_most(k, n, level) <= 1 - confidence) == (bound <= level)


@given(st.integers(1, 60), st.data(), fractions, st.floats(0, 1))
def test_counts_that_are_not_whole_lie_between_those_that_are(n, data, p, part):
    k = data.draw(st.integers(0, n - 1))
    tails = [float(at_least(x, n, p)) for x in (k, k + part, k + 1)]
    assert tails[0] >= tails[1] - 1e-12
    assert tails[1] >= tails[2] - 1e-12


# --- metrics as fractions ------------------------------------------------------------------------


@given(st.sampled_from(FRACTIONS))
def test_each_fraction_is_successes_over_trials_and_gives_back_the_metric(name):
    which, rate = metric(name), rate_of(metric(name))
    for counts in outcomes(5, [0.25] * 4)[0]:
        k, n = rate.draws(*at(*counts))
        assert 0 <= k <= n
        assert (k, n) == (int(k), int(n))
        if n > 0:
            assert rate.from_fraction(k / n) == pytest.approx(float(which.value(*at(*counts))))
    for value in np.linspace(0, 1, 11):
        assert rate.from_fraction(rate.to_fraction(value)) == pytest.approx(value)


@given(
    st.sampled_from(FRACTIONS),
    st.sampled_from(
        [
            (0.25, 0.25, 0.25, 0.25),
            (0.05, 0.02, 0.03, 0.9),
            (0.3, 0.01, 0.29, 0.4),
            (0.7, 0.1, 0.1, 0.1),
        ]
    ),
)
def test_each_bound_holds_as_often_as_stated_over_all_outcomes(name, cells):
    """All outcomes of ten rows, weighted by their chances, instead of a simulation."""
    which, rate = metric(name), rate_of(metric(name))
    counts, chance = outcomes(10, cells)
    assert chance.sum() == pytest.approx(1)
    true = float(which.value(*at(*cells)))
    for confidence in (0.6, 0.9):
        bounds = np.array([rate.bound(confidence, *at(*c)) for c in counts])
        beyond = which.sign * (bounds - true) > 1e-12
        assert chance[beyond].sum() <= 1 - confidence + 1e-12
        # A level just on the other side of the truth is missed: it seldom passes.
        level = float(np.clip(true + which.sign * 1e-9, 0, 1))
        passes = rate.p_value(level, *at(*counts.T)) <= 1 - confidence
        assert chance[passes].sum() <= 1 - confidence + 1e-6


def test_the_bounds_of_f1_are_not_vacuous():
    """For one of the true values the bound fails about as often as it may."""
    rate = rate_of(metric("f1"))
    bounds = np.array([rate.bound(0.9, *at(*c)) for c in TEN_ROWS])
    worst = 0.0
    for hit in np.linspace(0.05, 0.9, 60):
        cells = np.array([hit, (0.95 - hit) / 2, (0.95 - hit) / 2, 0.05])
        true = 2 * hit / (2 * hit + 0.95 - hit)
        worst = max(worst, multinomial.pmf(TEN_ROWS, 10, cells)[bounds > true].sum())
    assert 0.06 < worst <= 0.1 + 1e-12


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 50), confidences)
def test_the_bound_of_f1_is_that_of_jaccard_turned_into_f1(tp, fp, fn, confidence):
    J = clopper_pearson(tp, tp + fp + fn, confidence)
    bound = rate_of(metric("f1")).bound(confidence, *at(tp, fp, fn, 7))
    assert bound == pytest.approx(2 * J / (1 + J), abs=1e-9)


@given(st.sampled_from(OTHERS))
def test_metrics_that_are_not_fractions_have_no_exact_bound(name):
    assert rate_of(metric(name)) is None
    constraint = Constraint(metric(name), 0.1)
    found = p_value(constraint, np.array([5.0, 9.0]), np.array([1.0, 0.0]), 10, 10)
    assert found.tolist() == [1, 1]


def test_a_custom_metric_has_no_exact_bound_even_if_it_is_a_fraction():
    custom = define_metric("hits_of_rates_test", lambda tp, fp, P, N: tp / P)
    assert rate_of(custom) is None
    alike = replace(metric("precision"), name="precision_of_rates_test")
    assert rate_of(alike) is None  # nobody checks of which rows it is a fraction


@given(st.sampled_from(["precision", "npv", "recall", "fpr", "f1"]))
def test_without_draws_nothing_is_known(name):
    which = metric(name)
    rate = rate_of(which)
    counts = {
        "precision": (0, 0, 4, 4),
        "npv": (4, 4, 0, 0),
        "recall": (0, 2, 0, 2),
        "fpr": (2, 0, 2, 0),
        "f1": (0, 0, 0, 9),
    }[name]
    assert rate.draws(*at(*counts))[1] == 0
    for level in (0.0, 0.5, 1.0):
        assert rate.p_value(level, *at(*counts)) == 1
    assert rate.bound(0.9, *at(*counts)) == (0 if which.direction == "max" else 1)


@pytest.mark.parametrize(("name", "free", "unreachable"), [("recall", 0, 1), ("fpr", 1, 0)])
def test_levels_that_cannot_be_missed_pass_and_those_that_cannot_be_proved_fail(
    name, free, unreachable
):
    rate = rate_of(metric(name))
    for counts in [(0, 10, 10, 0), (10, 0, 0, 10), (5, 5, 5, 5)]:
        assert rate.p_value(free, *at(*counts)) == 0
        assert rate.p_value(unreachable, *at(*counts)) == 1


@given(st.sampled_from(FRACTIONS), st.integers(0, 285))
def test_a_stricter_level_is_never_easier(name, index):
    which, rate = metric(name), rate_of(metric(name))
    counts = TEN_ROWS[index]
    values = [float(rate.p_value(x, *at(*counts))) for x in np.linspace(0, 1, 21)]
    steps = which.sign * np.diff(values)
    assert (steps >= -1e-12).all()
    assert min(values) >= 0
    assert max(values) <= 1
