"""Precision from the top: boundaries, cuts, missing answers, when to stop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.certificates.walk import MOST_TRIALS
from setpoint.labelling.designs import top_down_design
from setpoint.labelling.top_down import (
    UNKNOWN,
    TopDownTest,
    certified_sizes,
    cut_sizes,
    is_hopeless,
)

LEVEL, ALPHA = 0.7, 0.1


def by_hand(test, scores, answers):
    """Return the numbers of rows above the cuts that pass, threshold by threshold."""
    found = set()
    alive = test.start is not None
    thresholds = sorted(set(scores.tolist()), reverse=True)
    # Just below each score, which is at the next one or below all.
    for low in [*thresholds[1:], -1e9]:
        above = scores > low
        k, tp = int(above.sum()), int((answers[above] == 1).sum())
        anywhere, on_the_way = test.passes(np.array([float(tp)]), np.array([k]))
        passes = bool(anywhere[0])
        if test.start is not None and low <= test.start and (scores > test.start).any():
            alive = alive and bool(on_the_way[0])
            passes = passes or alive
        if passes:
            found.add(k)
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([None, 0.3, 0.6, 2.0]), st.booleans())
def test_cuts_that_pass_are_those_found_one_by_one(seed, start, tied):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    scores = np.sort(rng.random(n).round(1 if tied else 9))[::-1]
    answers = (rng.random(n) < np.where(scores > 0.5, 0.95, 0.6)).astype(np.int8)
    test = TopDownTest(LEVEL, ALPHA, start, 20)
    assert set(certified_sizes(test, scores, answers).tolist()) == by_hand(test, scores, answers)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([None, 0.5]))
def test_missing_answers_never_certify_more(seed, start):
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.random(50).round(2))[::-1]
    answers = (rng.random(50) < 0.9).astype(np.int8)
    test = TopDownTest(LEVEL, ALPHA, start, 20)
    every = certified_sizes(test, scores, answers)
    some = np.where(rng.random(50) < 0.3, UNKNOWN, answers).astype(np.int8)
    assert np.isin(certified_sizes(test, scores, some), every).all()


def test_of_the_cut_at_the_start_only_thresholds_up_to_the_start_are_certified():
    scores = np.append(np.linspace(2, 1, 40), np.linspace(0, -1, 40))
    answers = np.where(scores > 0.5, 1, 0).astype(np.int8)
    answers[10:20] = 0
    answers[20:34] = 1
    start = 0.1  # the cut lies between 1 and 0, its middle at 0.5
    test = TopDownTest(0.6, ALPHA, start, 40)
    assert test.passes(np.array([float(answers.sum())]), np.array([40]))[1][0]
    outcome = top_down_design(test, scores, None, None).outcome(answers)
    assert start in outcome.certified
    assert 0.5 not in outcome.certified
    assert all(t in outcome.certified for t in outcome.thresholds)


def test_pools_with_more_alarms_than_the_recursion_are_certified():
    n = 3 * MOST_TRIALS
    scores, rng = np.arange(n, 0.0, -1), np.random.default_rng(0)
    answers = (rng.random(n) < 0.8).astype(np.int8)
    assert certified_sizes(TopDownTest(0.75, ALPHA, n - 500.0, 2000), scores, answers)[-1] == n


def test_cuts_never_divide_ties_or_lie_below_minus_infinity():
    assert cut_sizes(np.array([3.0, 2.0, 2.0, 1.0])).tolist() == [1, 3, 4]
    assert cut_sizes(np.array([np.inf, 5.0, -np.inf, -np.inf])).tolist() == [1, 2]
    assert cut_sizes(np.array([1.0])).tolist() == [1]
    assert cut_sizes(np.empty(0)).tolist() == []


def test_one_row_and_no_answers_certify_nothing():
    test = TopDownTest(LEVEL, ALPHA)
    assert len(certified_sizes(test, np.array([1.0]), np.array([1], dtype=np.int8))) == 0
    none = np.full(30, UNKNOWN, dtype=np.int8)
    assert len(certified_sizes(test, np.arange(30.0)[::-1], none)) == 0


def test_a_start_above_all_scores_leaves_the_other_test():
    scores, answers = np.arange(60.0)[::-1], np.ones(60, dtype=np.int8)
    test = TopDownTest(LEVEL, ALPHA, 1e9, 20)
    k = np.arange(1, 61)
    anywhere, _ = test.passes(k.astype(float), k)
    assert certified_sizes(test, scores, answers).tolist() == k[anywhere].tolist()


@pytest.mark.parametrize("start", [None, 30.0])
def test_negatives_at_the_top_are_hopeless_and_positives_are_not(start):
    scores = np.arange(1000.0)[::-1]
    test = TopDownTest(0.9, ALPHA, start, 50)
    for label, expected in ((0, True), (1, False)):
        answers = np.full(1000, UNKNOWN, dtype=np.int8)
        answers[:60] = label
        sizes = certified_sizes(test, scores, answers)
        certified = int(sizes[-1]) if len(sizes) else 0
        assert is_hopeless(test, scores, answers, certified) is expected
    assert is_hopeless(test, scores, np.ones(1000, dtype=np.int8), 1000)


def test_nothing_is_hopeless_before_the_first_label():
    none = np.full(1000, UNKNOWN, dtype=np.int8)
    assert not is_hopeless(TopDownTest(0.9, ALPHA), np.arange(1000.0)[::-1], none, 0)
