"""Recall from a designed sample: the wealth, all thresholds at once, both floors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from setpoint.labelling.designed_sample import (
    JointTest,
    RecallTest,
    is_out_of_reach,
    is_unlikely,
    jointly_certified,
    log_wealth,
    lowest_alarm,
    passes_recall,
    precision_p_value,
)
from setpoint.labelling.top_down import UNKNOWN

TEST = RecallTest(0.6, 0.1, (0.2, 0.3))


def draw(seed, n=40, known=1.0):
    rng = np.random.default_rng(seed)
    scores, pi = rng.random(n).round(2), rng.uniform(0.2, 1, n)
    answers = (rng.random(n) < scores).astype(np.int8)
    answers[rng.random(n) > known] = UNKNOWN
    return scores, pi, answers


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(-0.1, 1.1))
def test_the_wealth_is_the_greatest_mean_product(seed, threshold):
    scores, pi, y = draw(seed)
    best = 1.0
    for n in range(1, len(y) + 1):
        x = y[:n] * ((scores[:n] > threshold) - 0.6) / pi[:n]
        best = max(best, float(np.mean([np.prod(1 + bet * x) for bet in TEST.bets])))
    assert log_wealth(TEST, threshold, scores, pi, y) == pytest.approx(math.log(best), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_the_highest_threshold_is_found(seed):
    scores, pi, y = draw(seed, 60)
    lowest = lowest_alarm(TEST, scores, pi, y)
    passing = [s for s in np.unique(scores)
               if passes_recall(TEST, np.nextafter(s, -1), scores, pi, y)]  # fmt: skip
    assert lowest == (max(passing) if passing else None)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(-0.1, 1.1))
def test_missing_answers_are_the_worst_ones(seed, threshold):
    scores, pi, y = draw(seed, known=0.8)
    worst = log_wealth(TEST, threshold, scores, pi, y)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        filled = np.where(y == UNKNOWN, rng.integers(0, 2, len(y)), y).astype(np.int8)
        assert log_wealth(TEST, threshold, scores, pi, filled) >= worst - 1e-12


def test_a_lost_bet_of_everything_stays_lost():
    test = RecallTest(0.5, 0.1, (1.0,))
    scores, pi = np.array([0.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.5])
    y = np.ones(3, dtype=np.int8)
    assert log_wealth(test, 0.5, scores, pi, y) == 0.0
    assert lowest_alarm(test, scores, pi, np.zeros(3, dtype=np.int8)) is None


def test_no_selected_rows_certify_nothing():
    none = np.empty(0)
    assert lowest_alarm(TEST, none, none, none.astype(np.int8)) is None


def test_precision_is_a_binomial_test_of_the_selected_rows_above():
    scores = np.array([3.0, 2.0, 2.0, 1.0, 0.0])
    y = np.array([1, 1, UNKNOWN, 1, 1], dtype=np.int8)
    assert precision_p_value(0.4, 1.5, scores, y) == pytest.approx(binom.sf(1, 3, 0.4))
    assert precision_p_value(0.4, 5.0, scores, y) == 1.0


def test_both_floors_are_tested_in_order_until_one_fails():
    rng = np.random.default_rng(0)
    scores = rng.random(2000)
    y = (rng.random(2000) < scores**2).astype(np.int8)
    pi = np.ones(2000)
    recall = RecallTest(0.5, 0.1, (0.5,))
    assert jointly_certified(JointTest(0.5, recall, (0.6, 0.5)), scores, pi, y) == (0.6, 0.5)
    # Above 0.95 recall is missed, which ends the sequence.
    assert jointly_certified(JointTest(0.5, recall, (0.6, 0.95, 0.5)), scores, pi, y) == (0.6,)
    # Above 0 precision is missed.
    assert jointly_certified(JointTest(0.5, recall, (0.0, 0.6)), scores, pi, y) == ()


def test_out_of_reach_is_when_the_best_answers_do_not_help():
    scores, pi = np.linspace(1, 0, 100), np.ones(100)
    test = JointTest(0.9, RecallTest(0.5, 0.1, (0.5,)), (0.5,))
    unknown = np.full(100, UNKNOWN, dtype=np.int8)
    assert not is_out_of_reach(test, scores, pi, unknown)
    unknown[:20] = 0  # at most 30 of 50 alarms are real
    assert is_out_of_reach(test, scores, pi, unknown)
    assert not is_out_of_reach(test.recall, scores, pi, unknown)
    assert is_out_of_reach(test.recall, scores, pi, np.zeros(100, dtype=np.int8))


def test_unlikely_follows_the_guess():
    scores, pi = np.linspace(1, 0, 100), np.ones(100)
    unknown = np.full(100, UNKNOWN, dtype=np.int8)
    test = RecallTest(0.5, 0.1, (0.5,))
    assert not is_unlikely(test, 0.5, scores, pi, unknown, (scores > 0.5) * 0.9)
    assert is_unlikely(test, 0.5, scores, pi, unknown, (scores < 0.5) * 0.9)
