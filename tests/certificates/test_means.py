"""Bounds on the mean of bounded values."""

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_rows import clopper_pearson
from setpoint import SetpointError
from setpoint.certificates.means import Moments, Sample, mean_upper_bound, random_order

VALUES = st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.1, 0.5, 1.0]), min_size=1, max_size=60)


def wealth_by_hand(values, m, error, plan):
    """Return the wealth row by row, as the module's docstring defines it."""
    from statistics import NormalDist

    normal, n, wealth = NormalDist(), len(values), 1.0
    weight = min(plan.rows, 1 + n / 10)
    ends = np.unique(np.linspace(0, n, min(n, 64) + 1).astype(int))
    for begin, end in pairwise(ends):
        seen, caution = values[:begin], 1 + 0.03 * n * (1 - begin / n) ** 3
        square = ((seen - m) ** 2).sum()
        square += weight * (plan.square - 2 * m * plan.mean + m * m) + caution * m * (1 - m)
        remaining = (n - begin) * square / (begin + weight + caution)
        bet = 0.0
        if wealth * error < 1 - 1e-9:
            d = normal.inv_cdf(wealth * error)
            bet = normal.pdf(d) / normal.cdf(d) / math.sqrt(remaining)
        for value in values[begin:end]:
            wealth *= 1 + min(bet, 0.95 / (1 - m)) * (m - value)
    return wealth


@settings(max_examples=50)
@given(VALUES, st.floats(0.05, 0.9), st.sampled_from([0.01, 0.1, 0.3]))
def test_the_wealth_is_that_of_the_bets(values, m, error):
    values, plan = np.array(values), Moments(0.1, 0.05, 7.0)
    found = Sample(values, plan, 0.0, 1.0).log_wealth(np.array([m]), error)[0]
    assert np.exp(found) == pytest.approx(wealth_by_hand(values, m, error, plan), rel=1e-6)


@pytest.mark.parametrize("chances", [(0.5, 0.3, 0.2), (0.9, 0.0, 0.1), (0.2, 0.8, 0.0)])
@pytest.mark.parametrize("error", [0.05, 0.2])
def test_the_expected_wealth_is_1_if_the_mean_is_as_high_as_tested(chances, error):
    """All sequences of six rows, with their probabilities."""
    values = np.array([0.0, 0.3, 1.0])
    mean = float(values @ chances)
    plan, expected, rejected = Moments(0.2, 0.1, 10.0), 0.0, 0.0
    for index in np.ndindex(*(3,) * 6):
        chance = np.prod([chances[i] for i in index])
        if chance == 0:
            continue
        sample = Sample(values[list(index)], plan, 0.0, 1.0)
        wealth = np.exp(sample.log_wealth(np.array([mean]), error)[0])
        expected += chance * wealth
        rejected += chance * (wealth >= 1 / error)
    assert expected == pytest.approx(1.0)
    assert rejected <= error


@pytest.mark.parametrize(
    ("n", "mean", "error"), [(11, 0.2, 0.1), (11, 0.1, 0.05), (9, 0.3, 0.2), (11, 0.3, 0.1)]
)
def test_the_exact_error_for_values_0_and_1(n, mean, error):
    """All sequences of n draws, with their probabilities."""
    sequences = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    ones = sequences.sum(axis=1)
    chances = mean**ones * (1 - mean) ** (n - ones)
    rejected = [Sample.of(s, 0, 1).p_value(mean, error) <= error for s in sequences]
    assert chances[rejected].sum() <= error


def test_bounds_hold_for_all_sequences_of_a_few_draws():
    """The exact probability that the bound lies below the mean, for values 0, 0.5 and 1."""
    values = np.array([0.0, 0.5, 1.0])
    for chances in [(0.6, 0.2, 0.2), (0.95, 0.0, 0.05), (0.1, 0.1, 0.8)]:
        mean, below = float(values @ chances), 0.0
        for index in itertools.product(range(3), repeat=5):
            chance = np.prod([chances[i] for i in index])
            if chance and mean_upper_bound(values[list(index)], 0, 1, 0.8) < mean:
                below += chance
        assert below <= 0.2


def test_the_order_depends_on_the_number_of_rows_alone():
    order = random_order(100)
    assert sorted(order) == list(range(100))
    assert (order != np.arange(100)).any()
    values = np.random.default_rng(0).random(100)
    first = math.ceil(100 / 32)  # plan
    assert (Sample.of(values, 0, 1).values == values[order][first:]).all()


@settings(max_examples=30, deadline=None)
@given(VALUES, st.floats(-100, 100), st.floats(0.1, 100))
def test_bounds_are_scaled_with_the_values(values, low, width):
    values = np.array(values)
    expected = low + width * mean_upper_bound(values, 0, 1, 0.9)
    found = mean_upper_bound(low + width * values, low, low + width, 0.9)
    assert found == pytest.approx(expected, abs=1e-6 * (abs(low) + width))
    assert low + width * values.mean() <= found <= low + width


@pytest.mark.parametrize("method", ["betting", "hoeffding-bentkus"])
@settings(max_examples=30, deadline=None)
@given(values=VALUES)
def test_more_confidence_means_a_higher_bound(method, values):
    bounds = [mean_upper_bound(values, 0, 1, c, method=method) for c in (0.6, 0.9, 0.999)]
    assert np.mean(values) <= bounds[0] + 0.05
    assert bounds[0] <= bounds[1] + 0.02
    assert bounds[1] <= bounds[2] <= 1


@settings(max_examples=30, deadline=None)
@given(VALUES)
def test_a_level_above_the_bound_passes(values):
    """The bound is the end of a search over levels, of which each passed."""
    sample = Sample.of(values, 0, 1)
    bound = sample.upper_bound(0.1)
    if bound < 1:
        assert sample.p_value(bound, 0.1 * (1 - 2 * 0.02)) <= 0.1
    assert sample.p_value(1.0, 0.1) == 0
    assert sample.p_value(0.0, 0.1) == 1


@pytest.mark.parametrize(("ones", "n"), [(0, 100), (3, 100), (30, 100), (20, 2000), (100, 10_000)])
def test_for_values_0_and_1_the_bound_is_near_the_exact_one(ones, n):
    exact = clopper_pearson(ones, n, 0.9, "upper")
    values = np.random.default_rng(0).permutation(np.repeat([0.0, 1.0], [n - ones, ones]))
    found = mean_upper_bound(values, 0, 1, 0.9)
    # It depends on the order, too, so that some are lower.
    assert 0.6 * (exact - ones / n) < found - ones / n < 1.5 * (exact - ones / n)


def test_the_bound_adapts_to_the_variance():
    rng = np.random.default_rng(0)
    amounts = np.minimum(np.exp(rng.normal(size=20_000)), 100) * (rng.random(20_000) < 0.02)
    betting, reference = (
        mean_upper_bound(amounts, 0, 100, 0.9, method=m) for m in ("betting", "hoeffding-bentkus")
    )
    mean = amounts.mean()
    assert mean < betting < mean + 0.5 * (reference - mean)


def test_planning_rows_make_it_sharper_or_not_but_never_invalid():
    rng = np.random.default_rng(1)
    values = (rng.random(2000) < 0.01) * 1.0
    planned = mean_upper_bound(values, 0, 1, 0.9, planned=(rng.random(2000) < 0.01) * 1.0)
    misled = mean_upper_bound(values, 0, 1, 0.9, planned=np.zeros(2000))
    assert values.mean() < planned <= misled


def test_hoeffding_and_bentkus_by_hand():
    from scipy.stats import binom

    values = np.repeat([0.0, 1.0], [90, 10])
    sample = Sample(values, Moments(0, 0, 0), 0.0, 1.0)
    m = 0.2
    hoeffding = math.exp(-100 * (0.1 * math.log(0.1 / m) + 0.9 * math.log(0.9 / 0.8)))
    expected = min(hoeffding, math.e * binom.cdf(10, 100, m))
    assert sample.p_value(m, 0.1, "hoeffding-bentkus") == pytest.approx(expected)


def test_without_rows_nothing_is_known():
    assert mean_upper_bound([], -5, 7, 0.9) == 7
    assert Sample.of([], -5, 7).p_value(3, 0.1) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_upper_bound([1, 9], 0, 5, 0.9), r"range \[0, 5\]; row 1 has 9"),
        (lambda: mean_upper_bound([1, math.inf], 0, 5, 0.9), "values is inf in row 1"),
        (lambda: mean_upper_bound([[1]], 0, 5, 0.9), "one number per row"),
        (lambda: mean_upper_bound([1], 5, 5, 0.9), "low < high"),
        (lambda: mean_upper_bound([1], 0, math.inf, 0.9), "finite range"),
        (lambda: mean_upper_bound([1], 0, 5, 1.0), "confidence must lie between 0 and 1"),
        (lambda: mean_upper_bound([1], 0, 5, 0.9, method="clt"), "method is 'betting' or"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(SetpointError, match=message):
        call()
