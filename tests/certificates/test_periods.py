"""Bounds on the share of future days over budget."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from certificate_rows import clopper_pearson
from setpoint import SetpointError
from setpoint.certificates.periods import (
    certified_budget_threshold,
    day_thresholds,
    days_needed,
    every_day_bound,
    most_days_over,
    share_bound,
)

SHARES = st.floats(0.5, 0.99)
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.9, 0.99])


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.integers(0, 5))
def test_a_day_is_over_budget_exactly_below_its_threshold(seed, budget):
    """Brute force, with ties, days of different sizes and days without rows."""
    rng = np.random.default_rng(seed)
    n, total = int(rng.integers(0, 40)), 8
    scores, days = rng.integers(0, 6, n) / 5, rng.integers(0, total - 1, n)
    found = day_thresholds(scores, days, budget, total=total)
    for t in (-math.inf, -0.1, 0.0, 0.2, 0.3, 0.4, 0.99, 1.0, math.inf):
        alarms = np.array([((days == d) & (scores > t)).sum() for d in range(total)])
        assert ((alarms > budget) == (found > t)).all()


def test_days_without_rows_count_only_if_they_are_listed():
    assert len(day_thresholds([0.5], [2], 0)) == 3
    assert day_thresholds([0.5], [0], 0, total=3).tolist() == [0.5, -math.inf, -math.inf]
    assert len(day_thresholds([], np.array([], dtype=int), 0)) == 0


@given(st.integers(1, 200), SHARES, CONFIDENCES)
def test_the_rank_is_that_of_the_beta_distribution(days, share, confidence):
    over, error = most_days_over(days, share, confidence), 1 - confidence
    if over is None:
        assert beta.sf(1 - share, 1, days) > error - 1e-9
        return
    j = over + 1  # the threshold is the j-th largest
    assert beta.sf(1 - share, j, days + 1 - j) <= error + 1e-9
    assert beta.sf(1 - share, j, days + 1 - j) == pytest.approx(binom.cdf(over, days, 1 - share))
    if j < days:
        assert beta.sf(1 - share, j + 1, days - j) > error - 1e-9


@given(st.integers(0, 10_000), st.integers(1, 100), SHARES)
def test_the_threshold_leaves_as_many_days_over_budget_as_allowed(seed, days, share):
    found = np.random.default_rng(seed).random(days)
    t = certified_budget_threshold(found, share, 0.9)
    over = most_days_over(days, share, 0.9)
    assert (t is None) == (over is None)
    if t is not None:
        assert (found > t).sum() == over
        assert share_bound(found, t, 0.9, chosen=False) <= 1 - share + 1e-9


@given(SHARES, CONFIDENCES)
def test_days_needed_are_just_enough(share, confidence):
    days = days_needed(share, confidence)
    found = np.arange(float(days))
    assert certified_budget_threshold(found, share, confidence) == days - 1
    assert certified_budget_threshold(found[1:], share, confidence) is None
    assert every_day_bound(days, confidence) <= 1 - share + 1e-9


@given(st.integers(1, 300), st.integers(0, 300), CONFIDENCES)
def test_a_fixed_threshold_has_the_bound_of_clopper_and_pearson(days, over, confidence):
    over = min(over, days)
    found = np.arange(days, dtype=float)
    bound = share_bound(found, days - 1 - over, confidence, chosen=False)
    assert bound == pytest.approx(clopper_pearson(over, days, confidence, "upper"))
    assert bound <= share_bound(found, days - 1 - over, confidence, chosen=True) <= 1
    if over == 0:
        assert bound == pytest.approx(every_day_bound(days, confidence))


@given(st.integers(1, 100))
def test_a_higher_threshold_has_a_lower_bound(days):
    found = np.arange(days, dtype=float)
    for chosen in (False, True):
        bounds = [share_bound(found, t, 0.9, chosen=chosen) for t in range(-1, days + 1)]
        assert (np.diff(bounds) <= 0).all()


def test_without_days_nothing_is_known():
    assert share_bound([], 0.5, 0.9, chosen=True) == 1
    assert certified_budget_threshold([], 0.95, 0.9) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: day_thresholds([0.5], [0], -1), "the budget must be a whole number"),
        (lambda: day_thresholds([0.5], [0], 1.5), "the budget must be a whole number"),
        (lambda: day_thresholds([0.5], [0, 1], 1), "one entry per row"),
        (lambda: day_thresholds([math.nan], [0], 1), "NaN in row 0"),
        (lambda: day_thresholds([0.5], ["Monday"], 1), "codes 0, 1"),
        (lambda: day_thresholds([0.5], [-1], 1), "codes 0, 1"),
        (lambda: day_thresholds([0.5], [4], 1, total=3), "total must be"),
        (lambda: certified_budget_threshold([0.5], 1.0, 0.9), "share must lie between 0 and 1"),
        (lambda: certified_budget_threshold([math.nan], 0.9, 0.9), "without NaN"),
        (lambda: share_bound([0.5], 0.5, 90, chosen=False), "confidence must lie"),
        (lambda: every_day_bound(0, 0.9), "days must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(SetpointError, match=message):
        call()
