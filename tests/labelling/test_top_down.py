"""Precision from the top: boundaries, cuts, missing answers, when to stop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.certificates.simultaneous import hybrid_boundaries, ville_evidence
from setpoint.labelling.top_down import (
    UNKNOWN,
    TopDownTest,
    certified_sizes,
    cut_sizes,
    is_hopeless,
    ville_boundaries,
)

LEVEL, ALPHA = 0.7, 0.1


def by_hand(test, scores, answers):
    """Return the numbers of rows above the cuts that pass, threshold by threshold."""
    found = set()
    boundaries = (
        None
        if test.start is None
        else hybrid_boundaries(LEVEL, ALPHA, test.planned, max(64, len(scores)))
    )
    alive = test.start is not None
    thresholds = sorted(set(scores.tolist()), reverse=True)
    # Just below each score, which is at the next one or below all.
    for low in [*thresholds[1:], -1e9]:
        above = scores > low
        k, tp = int(above.sum()), int((answers[above] == 1).sum())
        if test.start is None:
            passes = ville_evidence(np.array(tp * 1.0), np.array(k - tp * 1.0), LEVEL) >= 1 / ALPHA
        else:
            passes = tp >= boundaries.anywhere[k]
            if low <= test.start and (scores > test.start).any():
                first = scores > test.start
                if k >= first.sum():
                    alive = alive and tp >= min(boundaries.anywhere[k], boundaries.on_the_way[k])
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


def test_the_boundary_of_the_mixture_is_where_its_evidence_suffices():
    anywhere, way_down = ville_boundaries(0.8, 0.05, 300)
    k = np.arange(301)
    inside = anywhere <= k
    assert inside.any()
    tp = anywhere[inside].astype(float)
    assert (ville_evidence(tp, k[inside] - tp, 0.8) >= 20).all()
    assert (ville_evidence(tp - 1, k[inside] - tp + 1, 0.8) < 20).all()
    full = k[~inside].astype(float)
    assert (ville_evidence(full, 0 * full, 0.8) < 20).all()
    assert (way_down > k).all()


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
    sizes = certified_sizes(TopDownTest(LEVEL, ALPHA, 1e9, 20), scores, answers)
    line = hybrid_boundaries(LEVEL, ALPHA, 20, 64).anywhere
    assert sizes.tolist() == [k for k in range(1, 61) if k >= line[k]]


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
