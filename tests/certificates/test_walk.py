import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from setpoint.certificates import walk
from setpoint.certificates.walk import WalkTest, ville_evidence

levels = st.sampled_from([0.02, 0.3, 0.5, 0.8, 0.99])
planned = st.sampled_from([2, 10, 40, 300])
errors = st.sampled_from([0.01, 0.05, 0.085])


def states(n):
    """Return all pairs of successes and failures of up to n trials, as arrays over (k, w)."""
    k, w = np.mgrid[: n + 1, : n + 1]
    return w.astype(float), (k - w).astype(float), w <= k


def chance_of_entering(region, level):
    """Return the probability that the walk enters a region; it stays in once it is there."""
    outside = np.zeros(region.shape[1])
    outside[0] = 1.0
    entered = 0.0
    for k in range(region.shape[0]):
        if k:
            outside[1:] = level * outside[:-1] + (1 - level) * outside[1:]
            outside[0] *= 1 - level
        entered += outside[region[k]].sum()
        outside[region[k]] = 0.0
    return entered


@settings(max_examples=30)
@given(levels, planned, errors)
def test_the_line_is_reached_with_at_most_the_stated_probability(level, planned, error):
    test = WalkTest(level, planned, error)
    successes, failures, possible = states(400)
    region = test.passes_anywhere(successes, failures) & possible
    entered = chance_of_entering(region, level)
    assert entered <= test.crossing + 1e-12 <= error + 1e-12
    if level <= 0.8:  # otherwise it takes more trials to reach it
        assert entered > 0.3 * test.crossing


@settings(max_examples=20)
@given(levels, planned, errors, st.sampled_from([0.01, 0.05]))
def test_a_fixed_threshold_passes_on_the_way_with_at_most_the_stated_probability(
    level, planned, error, way
):
    """For every k: that the line was reached by k, or that the count at k passes."""
    test = WalkTest(level, planned, error)
    n = min(walk._size(planned) + 60, 300)
    successes, failures, possible = states(n)
    line = test.passes_anywhere(successes, failures) & possible
    passes = test.passes_on_the_way(successes, failures, way) & possible
    for k in [1, 5, 20, 63, 64, 65, n]:
        region = line[: k + 1].copy()
        region[k] = passes[k]
        assert chance_of_entering(region, level) <= test.crossing + way + 1e-12


@settings(max_examples=40)
@given(levels, planned, errors, st.sampled_from([0.002, 0.05, 0.3]), st.booleans())
def test_regions_are_closed_under_one_more_success_and_one_failure_less(
    level, planned, error, way, far
):
    """The theorem needs that, also where the recursion ends and a formula takes over."""
    test = WalkTest(level, planned, error)
    successes, failures, possible = states(160)
    if far:
        before = walk._size(planned) - 40
        successes = successes + math.floor(level * before)
        failures = failures + before - math.floor(level * before)
    evidence = ville_evidence(successes.ravel(), failures.ravel(), level)
    for passes in (
        test.passes_anywhere(successes, failures),
        test.passes_on_the_way(successes, failures, way),
        evidence.reshape(successes.shape) >= 10,
    ):
        inside = passes & possible
        assert not (inside[:-1, :-1] & ~passes[1:, 1:]).any()  # k + 1, w + 1
        fewer = inside[1:, :] & possible[:-1, :]
        assert not (fewer & ~passes[:-1, :]).any()  # k - 1, the same w


@pytest.mark.parametrize("level", [0.05, 0.6, 0.97])
@pytest.mark.parametrize("error", [0.02, 0.08])
def test_beyond_the_recursion_the_binomial_tail_is_at_most_the_error_and_not_far_below(
    level, error
):
    for k in (2049, 10_000, 300_000):
        least = walk._least_beyond(k, level, error)
        assert binom.sf(least - 1, k, level) <= error
        assert binom.sf(least - 3, k, level) > error


def test_impossible_and_trivial_levels():
    counts = np.array([0.0, 5.0, 500.0]), np.array([0.0, 1.0, 0.0])
    for level, expected in ((0.0, True), (1.0, False)):
        test = WalkTest(level, 40, 0.05)
        assert test.crossing == 0
        assert (test.passes_anywhere(*counts) == expected).all()
        assert (test.passes_on_the_way(*counts, 0.05) == expected).all()


def test_the_mixture_is_reached_with_at_most_the_stated_probability():
    for level in (0.1, 0.8):
        successes, failures, possible = states(500)
        evidence = ville_evidence(successes.ravel(), failures.ravel(), level)
        region = (evidence.reshape(successes.shape) >= 10) & possible
        assert 0.03 < chance_of_entering(region, level) <= 0.1
