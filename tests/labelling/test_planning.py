"""Plans: strata, the start of the way down, designs of samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.labelling.planning import Guess, plan_sample, plan_top_down


def rows(n=4000, prevalence=0.1, gap=2.5, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prevalence
    return rng.normal(size=n) + gap * y, y.astype(float)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 300), st.booleans(), st.booleans())
def test_strata_add_up_to_the_rows(seed, n, tied, labelled):
    rng = np.random.default_rng(seed)
    scores = rng.random(n).round(1 if tied else 9)
    chances = (rng.random(n) < 0.5).astype(float)
    chances[0] = 1.0
    strata = Guess.of(scores, chances, labelled).strata()
    assert strata.shares.sum() == pytest.approx(1)
    assert (np.diff(strata.edges) < 0).all()
    assert ((strata.chances >= 0) & (strata.chances <= 1)).all()
    high = np.append(np.inf, strata.edges[:-1])
    for low, top, share in zip(strata.edges, high, strata.shares, strict=True):
        assert ((scores > low) & (scores <= top)).mean() == pytest.approx(share)


def test_the_start_is_a_threshold_that_is_likely_to_pass():
    scores, y = rows()
    plan = plan_top_down(Guess.of(scores, y, True), 0.8, 0.1, 4000, 3000)
    above = scores > plan.start
    assert y[above].mean() > 0.85
    assert 20 < above.sum() < plan.planned
    assert plan.rows == 4000


def test_a_part_of_the_pool_is_used_if_alarms_are_many():
    scores, y = rows()
    plan = plan_top_down(Guess.of(scores, y, True), 0.8, 0.1, 1_000_000, 500)
    assert plan.planned == pytest.approx(500, rel=0.1)
    assert plan.rows < 20_000


def test_no_positives_give_no_plan():
    guess = Guess.of(np.arange(10.0), np.zeros(10), True)
    assert plan_top_down(guess, 0.8, 0.1, 100, 3000) is None
    assert plan_sample(guess.strata(), 0.5, None, 0.1, 100, None) is None


@pytest.mark.parametrize("precision", [None, 0.5])
def test_a_design_respects_the_limits_of_its_bets(precision):
    strata = Guess.of(*rows(), True).strata()
    plan = plan_sample(strata, 0.6, precision, 0.1, 20_000, None)
    scores, _ = rows(seed=1)
    pi = plan.probabilities(scores, strata)
    assert ((pi > 0) & (pi <= 1)).all()
    assert max(plan.bets) <= pi.min() / 0.6
    assert (pi[scores > plan.threshold] == plan.above).all()
    assert plan.labels <= plan.most


def test_a_budget_limits_the_expected_number_of_labels():
    strata = Guess.of(*rows(), True).strata()
    free = plan_sample(strata, 0.6, 0.5, 0.1, 20_000, None)
    tight = plan_sample(strata, 0.6, 0.5, 0.1, 20_000, free.most / 3)
    assert tight.most <= free.most / 3
    assert tight.chance < free.chance
    assert plan_sample(strata, 0.6, 0.5, 0.1, 20_000, 0.5) is None


def test_floors_that_no_threshold_meets_give_no_plan():
    strata = Guess.of(*rows(gap=0.5), True).strata()
    assert plan_sample(strata, 0.9, 0.9, 0.1, 20_000, None) is None
