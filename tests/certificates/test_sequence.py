import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_rows import normal, p_value_by_hand
from setpoint import FPOR, Goal, choose_threshold, evaluate_threshold
from setpoint.certificates import certify_best
from setpoint.certificates.sequence import STEPS, Rows, plan, try_in_order, worst_p_value

PRECISION = FPOR(0.7)
BOTH = Goal.parse("max recall s.t. precision >= 0.6, fpr <= 0.2")
FLOORS = Goal.parse("max f1 s.t. precision >= 0.5, recall >= 0.4")
goals = st.sampled_from([PRECISION, BOTH, FLOORS])


def scored(seed, n, ties=False):
    """Return labels and overlapping scores, which take seven values if there are ties."""
    y, scores = normal(seed, n, gap=1.8)
    return y, np.clip(np.round(scores), -2, 4) if ties else scores


@given(st.integers(0, 10_000), goals, st.floats(-2, 4))
def test_the_p_value_of_a_goal_is_that_of_its_least_certain_constraint(seed, goal, threshold):
    y, scores = scored(seed, 60)
    tp, fp = Rows.of(y, scores).counts(np.array([threshold]))
    found = worst_p_value(goal, tp, fp, y.sum(), (~y).sum())
    assert found == pytest.approx([p_value_by_hand(goal, scores > threshold, y)], abs=1e-12)


def test_one_threshold_or_many_have_one_p_value_each():
    assert worst_p_value(BOTH, 5.0, 1.0, 10.0, 10.0).shape == ()
    assert worst_p_value(BOTH, np.full(3, 5.0), np.ones(3), 10.0, 10.0).shape == (3,)


def test_rows_count_scores_above_a_threshold_by_class_in_all_rows_or_some():
    y = np.array([True, True, False, False, True])
    scores = np.array([3.0, 1.0, 2.0, 1.0, 2.0])
    rows = Rows.of(y, scores)
    assert rows.totals == (3, 2)
    tp, fp = rows.counts(np.array([-np.inf, 0.5, 1.0, 2.0, 3.0, np.inf]))
    assert tp.tolist() == [3, 3, 2, 1, 0, 0]
    assert fp.tolist() == [2, 2, 1, 0, 0, 0]
    part = Rows.of(y, scores, np.array([True, False, True, False, False]))
    assert part.totals == (1, 1)


@given(st.integers(0, 10_000), goals, st.booleans())
def test_a_plan_goes_one_way_through_distinct_thresholds(seed, goal, ties):
    y, scores = scored(seed, 150, ties)
    thresholds = plan(Rows.of(y, scores), goal, 300, 0.1)
    assert 1 <= len(thresholds) <= STEPS
    assert np.isfinite(thresholds).all()
    steps = np.diff(thresholds)
    assert (steps < 0).all() or (steps > 0).all()


@given(st.integers(0, 10_000), st.booleans())
def test_a_plan_starts_where_the_planning_rows_are_most_certain(seed, ties):
    y, scores = scored(seed, 150, ties)
    rows = Rows.of(y, scores)
    cuts = np.unique(scores)
    P, N = rows.totals
    tp, fp = rows.positive.at_or_above(cuts), rows.negative.at_or_above(cuts)
    expected = worst_p_value(PRECISION, 2 * tp, 2 * fp, 2 * P, 2 * N)
    first = plan(rows, PRECISION, 300, 0.1)[:1]
    tp, fp = rows.counts(first)
    found = worst_p_value(PRECISION, 2 * tp, 2 * fp, 2 * P, 2 * N)
    assert found[0] == pytest.approx(expected.min())


def test_a_plan_of_many_steps_is_cut_to_the_steps_there_are():
    y, scores = normal(0, n=20_000, gap=2.5)
    assert len(plan(Rows.of(y, scores), PRECISION, 40_000, 0.1)) == STEPS
    assert len(plan(Rows.of(y, scores), PRECISION, 40_000, 0.1, steps=20)) == 20


@given(st.integers(0, 10_000), goals)
def test_one_step_alone_is_expected_to_pass_if_anything_is(seed, goal):
    y, scores = scored(seed, 150)
    rows = Rows.of(y, scores)
    P, N = rows.totals
    thresholds = plan(rows, goal, 300, 0.1, steps=1)
    assert len(thresholds) == 1
    cuts = np.unique(scores[y])
    tp, fp = rows.positive.at_or_above(cuts), rows.negative.at_or_above(cuts)
    some = (worst_p_value(goal, 2 * tp, 2 * fp, 2 * P, 2 * N) <= 0.02).any()
    tp, fp = rows.counts(thresholds)
    if some:
        assert worst_p_value(goal, 2 * tp, 2 * fp, 2 * P, 2 * N)[0] <= 0.1


def test_rows_of_one_class_plan_nothing():
    for label in (True, False):
        rows = Rows.of(np.full(20, label), np.arange(20.0))
        for goal in (PRECISION, Goal.parse("max f1")):
            assert plan(rows, goal, 100, 0.1).tolist() == [np.inf]


@pytest.mark.parametrize("goal", ["max f1", "max mcc", "max recall s.t. mcc >= 0.3"])
def test_without_an_exact_test_the_plan_is_the_best_threshold_of_the_planning_rows(goal):
    y, scores = scored(3, 400)
    thresholds = plan(Rows.of(y, scores), Goal.parse(goal), 300, 0.1)
    assert thresholds.tolist() == [choose_threshold(y, scores, goal).threshold]


@pytest.mark.parametrize("steps", [1, STEPS])
def test_a_plan_copes_with_positives_that_all_score_minus_infinity(steps):
    """No threshold lies below them, so nothing can be planned; nothing may fail either."""
    scores = np.array([-np.inf, -np.inf, 0.0, 1.0, 2.0])
    rows = Rows.of(np.array([True, True, False, False, False]), scores)
    thresholds = plan(rows, PRECISION, 100, 0.1, steps)
    assert len(thresholds) >= 1
    assert not np.isnan(thresholds).any()


@pytest.mark.parametrize("steps", [1, STEPS])
def test_a_plan_copes_with_infinite_scores_on_both_sides(steps):
    rng = np.random.default_rng(0)
    y = rng.random(80) < 0.5
    scores = np.where(y, rng.choice([np.inf, -np.inf, 1.0], 80), rng.choice([-np.inf, 0.0], 80))
    thresholds = plan(Rows.of(y, scores), PRECISION, 100, 0.1, steps)
    assert not np.isnan(thresholds).any()


@given(st.integers(0, 10_000), goals, st.booleans())
def test_thresholds_pass_until_the_first_one_fails(seed, goal, ties):
    rng = np.random.default_rng(seed)
    y, scores = scored(seed, 200, ties)
    thresholds = np.sort(rng.normal(1, 1.5, size=12))[:: rng.choice([-1, 1])]
    values, passed = try_in_order(Rows.of(y, scores), goal, thresholds, 0.137)
    by_hand = [p_value_by_hand(goal, scores > t, y) for t in thresholds]
    np.testing.assert_allclose(values, by_hand, atol=1e-12)
    failures = [i for i, p in enumerate(by_hand) if p > 0.137]
    assert passed == (failures[0] if failures else len(thresholds))


def test_a_threshold_after_a_failure_is_not_certified_however_good_it_is():
    y, scores = normal(0, n=2000, gap=3.0)
    values, passed = try_in_order(Rows.of(y, scores), PRECISION, np.array([2.5, -9.0, 2.5]), 0.1)
    assert passed == 1
    assert values[0] == values[2] <= 0.1 < values[1]


@settings(max_examples=60)
@given(st.integers(0, 10_000), goals, st.booleans())
def test_the_certified_threshold_is_the_best_of_the_planned_that_pass(seed, goal, ties):
    """Test the plan again by hand."""
    y, scores = scored(seed, 400, ties) if ties else normal(seed, n=600, gap=2.2)
    plans = np.random.default_rng(seed).random(len(y)) < 0.3
    planning, testing = Rows.of(y, scores, plans), Rows.of(y, scores, ~plans)
    found = certify_best(planning, testing, goal, 0.9, on="May", method="sequence")
    thresholds = plan(planning, goal, (~plans).sum(), 1 - 0.9)
    labels, s = y[~plans], scores[~plans]
    best = None
    for t in thresholds:
        if p_value_by_hand(goal, s > t, labels) > 0.1:
            break
        tp, fp = ((s > t) & labels).sum(), ((s > t) & ~labels).sum()
        gain = float(goal.gain(tp, fp, labels.sum(), (~labels).sum()))
        best = gain if best is None else max(best, gain)
    assert found.certified == (best is not None)
    assert found.tested == len(thresholds)
    assert found.choice == "planned"
    if best is not None:
        assert found.operating_point.objective == best
    assert found.threshold in thresholds
    assert found.operating_point.tp == ((s > found.threshold) & labels).sum()
    assert found.operating_point.fp == ((s > found.threshold) & ~labels).sum()


def test_of_very_many_cuts_some_are_compared_with_hardly_any_loss():
    rng = np.random.default_rng(0)
    y = rng.random(60_000) < 0.5
    scores = rng.normal(size=60_000) + 2.0 * y
    goal = Goal.parse("max f1")
    (threshold,) = plan(Rows.of(y, scores), goal, 1000, 0.1)
    best = choose_threshold(y, scores, goal).objective
    found = evaluate_threshold(y, scores, threshold, goal).objective
    assert best - 1e-3 < found <= best
