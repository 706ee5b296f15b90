import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_rows import normal, outcomes
from setpoint import Goal, SetpointError, certify
from setpoint.certificates import simultaneous
from setpoint.certificates.nested import NestedTest
from setpoint.certificates.sequence import Rows
from setpoint.certificates.simultaneous import (
    Cells,
    Plan,
    certified_thresholds,
    is_testable_anywhere,
)
from setpoint.certificates.walk import WalkTest, rounded_trials

ANYWHERE = [
    "max recall s.t. precision >= 0.6",
    "max f1 s.t. npv >= 0.7",
    "max recall s.t. precision >= 0.5, fpr <= 0.3",
    "max precision s.t. precision >= 0.5, recall >= 0.4",
    "max f1 s.t. precision >= 0.4, npv >= 0.5",
    "max f1 s.t. recall >= 0.3, fpr <= 0.5",
]
NOT_ANYWHERE = [
    "max f1",
    "max recall s.t. f1 >= 0.5",
    "max recall s.t. jaccard >= 0.5, precision >= 0.5",
    "max recall s.t. accuracy >= 0.9",
    "max recall s.t. mcc >= 0.2",
]


def case(seed):
    """Return a hundred rows, with or without ties."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 160))
    y = rng.random(n) < rng.choice([0.3, 0.6])
    y[:2] = True, False
    scores = rng.normal(size=n) + rng.choice([1.0, 3.0]) * y
    return y, np.round(scores, 1) if rng.random() < 0.5 else scores


def test_goals_whose_constraints_all_have_such_a_test():
    assert all(is_testable_anywhere(Goal.parse(goal)) for goal in ANYWHERE)
    assert not any(is_testable_anywhere(Goal.parse(goal)) for goal in NOT_ANYWHERE)


@settings(max_examples=100)
@given(
    st.integers(0, 100_000),
    st.sampled_from(ANYWHERE),
    st.floats(-1, 4) | st.none(),
    st.booleans(),
)
def test_the_set_is_what_passes_anywhere_and_on_the_way(seed, goal, start, upwards):
    """Brute force: the tests at every threshold, one by one."""
    goal, alpha = Goal.parse(goal), 0.2
    y, scores = case(seed)
    J, P, N = len(goal.constraints), float(y.sum()), float((~y).sum())
    trials = 30.0
    planned = Plan(start, upwards, (trials,) * J)
    found = certified_thresholds(Rows.of(y, scores), goal, planned, alpha)
    walks = any(c.metric.name in ("precision", "npv") for c in goal.constraints)
    share = 1.0 if start is None else 0.85 if walks else 0.5
    each = share * alpha / J
    tests = [
        WalkTest(c.level, rounded_trials(trials), each)
        if c.metric.name in ("precision", "npv")
        else NestedTest(c, P, N)
        for c in goal.constraints
    ]
    total = sum(t.crossing if isinstance(t, WalkTest) else each for t in tests)

    def passes(threshold, way):
        alarm = scores > threshold
        tp, fp = float((alarm & y).sum()), float((alarm & ~y).sum())
        for c, test in zip(goal.constraints, tests, strict=True):
            if isinstance(test, NestedTest):
                error = alpha - total + each if way else each
                passed = test.passes(np.array([tp]), np.array([tp + fp]), np.array([fp]), error)
            else:
                draws = (tp, fp) if c.metric.name == "precision" else (N - fp, P - tp)
                draws = [np.array([d]) for d in draws]
                passed = test.passes_anywhere(*draws)
                if way:
                    passed = test.passes_on_the_way(*draws, alpha - total)
            if not passed[0]:
                return False
        return True

    at = np.unique(np.append(scores, [-9.0, 9.0]))
    if start is not None:
        at = np.unique(np.append(at, [start, np.nextafter(start, 9), np.nextafter(start, -9)]))
    for t in at:
        expected = passes(t, way=False)
        if not expected and start is not None and (t >= start if upwards else t <= start):
            between = at[(at >= min(t, start)) & (at <= max(t, start))]
            expected = all(passes(u, way=True) for u in between)
        assert (t in found.thresholds) == expected, t
    if found.best is not None:
        assert found.best in found.thresholds


@given(st.integers(0, 1000), st.sampled_from(ANYWHERE))
def test_cells_of_very_many_rows_certify_a_part_of_the_same_set(seed, goal):
    y, scores = case(seed)
    rows, goal = Rows.of(y, scores), Goal.parse(goal)
    planned = Plan(1.0, False, (40.0,) * len(goal.constraints))
    exact = certified_thresholds(rows, goal, planned, 0.2)
    with mock.patch.multiple(simultaneous, _EVERY=10, _CUTS=12):
        coarse = certified_thresholds(rows, goal, planned, 0.2)
    for low, high in coarse.thresholds:
        assert low in exact.thresholds
        assert high in exact.thresholds or math.nextafter(high, -math.inf) in exact.thresholds
    if coarse.best is not None:
        assert coarse.best in exact.thresholds


def test_cells_cover_all_thresholds_once():
    y, scores = normal(n=300)
    cells = Cells.of(Rows.of(y, np.round(scores)))
    assert cells.high[0] == np.inf
    assert cells.low[-1] == -np.inf
    assert (cells.low[:-1] == cells.high[1:]).all()
    assert cells.is_exact.all()


def test_the_plan_starts_where_it_is_safest_and_goes_towards_the_objective():
    rows = Rows.of(*normal(n=3000))
    down = Plan.of(rows, Goal.parse("max recall s.t. precision >= 0.8"), 3000, 0.1)
    up = Plan.of(rows, Goal.parse("max precision s.t. precision >= 0.5, recall >= 0.5"), 3000, 0.1)
    assert not down.upwards
    assert up.upwards
    assert down.trials[0] > 300
    negatives = Rows.of(np.zeros(30, bool), np.arange(30.0))
    nothing = Plan.of(negatives, Goal.parse("max recall s.t. precision >= 0.8"), 3000, 0.1)
    assert nothing.start is None


def test_planning_rows_of_the_caller_leave_all_rows_for_certification():
    y, scores = normal(n=500)
    others = normal(seed=1, n=2000)
    found = certify(y, scores, "max recall s.t. precision >= 0.8", planning_rows=others)
    assert found.certified
    assert sum(found.operating_point.counts[2:]) == 500


@pytest.mark.parametrize("bad", [3, (np.ones(3),), "ab c", (np.ones(3), np.ones(4))])
def test_other_planning_rows_raise(bad):
    with pytest.raises(SetpointError):
        certify(*normal(), "max recall s.t. precision >= 0.8", planning_rows=bad)


@pytest.mark.parametrize("level", [1, 0.9999999999, 0.99999999, 0.9999995])
@pytest.mark.parametrize("name", ["precision", "npv"])
def test_nothing_is_certified_at_a_level_of_almost_one(name, level):
    rows = np.repeat([1, 0], 500), np.repeat([1.0, 0.0], 500)
    assert not certify(*rows, f"max recall s.t. {name} >= {level}").certified


def test_tables_that_are_sorted_by_score_are_not_planned_on_the_same_ranks():
    ranks = []
    for seed in range(3):
        scores = np.sort(np.random.default_rng(seed).normal(size=1000))
        found = certify(np.arange(1000) > 500, scores, "max recall s.t. precision >= 0.8")
        ranks.append(found.operating_point.counts[2])
    assert len(set(map(float, ranks))) > 1


# --- exact validity ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "planned"),
    [
        ("max recall s.t. precision >= 0.5000001", (0.5, False)),
        ("max recall s.t. precision >= 0.5000001", (1.5, False)),
        ("max precision s.t. precision >= 0.5000001", (-0.5, True)),
        ("max recall s.t. npv >= 0.5000001", (0.5, True)),
        ("max recall s.t. precision >= 0.5000001, recall >= 0.2500001", (0.5, False)),
        ("max recall s.t. precision >= 0.5000001, fpr <= 0.6", (0.5, False)),
    ],
)
def test_any_false_threshold_is_certified_no_more_often_than_allowed(goal, planned):
    """All outcomes of nine rows with scores 0, 1 and 2 whose labels are coin flips.

    Precision and npv just miss their levels everywhere, and recall and fpr somewhere.
    """
    goal, confidence = Goal.parse(goal), 0.7
    start, upwards = planned
    plan = Plan(start, upwards, (6.0,) * len(goal.constraints))
    labels, values = np.tile([True, False], 3), np.repeat([0.0, 1.0, 2.0], 2)
    certified = 0.0
    for counts, chance in zip(*outcomes(9, [0.25, 0.25, 0.125, 0.125, 0.125, 0.125]), strict=True):
        rows = Rows.of(np.repeat(labels, counts), np.repeat(values, counts))
        found = certified_thresholds(rows, goal, plan, 1 - confidence)
        certified += chance * bool(found.thresholds)
    assert 0.02 < certified <= 1 - confidence + 1e-9
