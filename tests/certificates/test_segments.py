"""Certificates for segments: one threshold for all, or one for each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_rows import rows_with_counts
from setpoint import Goal, SetpointError
from setpoint.certificates import certify_best
from setpoint.certificates.nested import NestedTest
from setpoint.certificates.rates import least_trials
from setpoint.certificates.segments import (
    certify_common,
    certify_each,
    holm,
    in_each,
    joint_error,
    segment_rows,
    segment_tally,
    too_small,
)
from setpoint.certificates.sequence import Rows, TalliedRows, worst_p_value
from setpoint.certificates.simultaneous import Plan, certified_thresholds
from setpoint.certificates.walk import WalkTest, rounded_trials, share_anywhere
from setpoint.errors import GoalError
from setpoint.goals.goal import Constraint

PRECISION = Goal.parse("max recall s.t. precision >= 0.8")
RECALL = Goal.parse("max precision s.t. recall >= 0.7")


def segments(seed=0, n=3000, names=("north", "south", "west"), gap=3.0, fraction=0.3):
    """Return the rows of segments; a third plans."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < fraction
    scores = rng.normal(size=n) + gap * y
    return segment_rows(y, scores, rng.choice(names, n), rng.random(n) < 0.3)


def tallied(rows):
    """Return certification rows with a tally for each segment."""
    scores = [np.concatenate([r[1][i].sorted for r in rows.values()]) for i in (0, 1)]
    y = np.repeat([True, False], [len(s) for s in scores])
    plain = Rows.of(y, np.concatenate(scores))
    return TalliedRows(plain, {segment_tally(name): pair[1] for name, pair in rows.items()})


# --- rows of segments -----------------------------------------------------------------------------


def test_each_constraint_counts_its_own_rows():
    rows = segments()
    testing = tallied(rows)
    goal = in_each(PRECISION, rows)
    for constraint in goal.constraints:
        assert testing.of_constraint(constraint) is rows[constraint.metric.tallies[0].value][1]
    assert testing.of_constraint(PRECISION.constraints[0]) is testing.plain
    assert rows["north"][1].of_constraint(goal.constraints[0]) is rows["north"][1]
    assert testing.totals == tuple(sum(r[1].totals[i] for r in rows.values()) for i in (0, 1))
    with pytest.raises(SetpointError, match=r"no rows of \[segment=east\] to test"):
        testing.of_constraint(Constraint("precision[segment=east]", 0.8))


def test_a_metric_is_constrained_once_per_segment():
    goal = in_each(Goal.parse("max f1 s.t. precision >= 0.8, recall >= 0.5"), ["a", "b"])
    assert len(goal.constraints) == 4
    with pytest.raises(GoalError, match="constrained twice"):
        Goal(goal.objective, goal.constraints + goal.constraints[:1])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([PRECISION, RECALL]))
def test_one_segment_is_the_same_as_no_segments(seed, goal):
    rows = segments(seed, n=400, names=("all",))
    planning, testing = rows["all"]
    expected = certify_best(planning, testing, goal, 0.9, on="new rows")
    found = certify_common(rows, goal, 0.9, on="new rows")
    assert found.certified_thresholds == expected.certified_thresholds
    assert found.threshold == expected.threshold
    assert found.more_positives == expected.more_positives
    for a, b in zip(found.bounds, expected.bounds, strict=True):
        assert (a.value, a.bound, a.trials) == (b.value, b.bound, b.trials)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 3) | st.none(), st.booleans())
def test_a_common_threshold_passes_in_every_segment(seed, start, upwards):
    """Brute force: the test of each segment at every threshold, with its part of the error."""
    rows = segments(seed, n=300, names=("a", "b"))
    testing, alpha, trials = tallied(rows), 0.2, 30.0
    goal = in_each(PRECISION, rows)
    found = certified_thresholds(testing, goal, Plan(start, upwards, (trials,) * 2), alpha)
    share = 1.0 if start is None else share_anywhere(trials) / 2
    test = WalkTest(0.8, rounded_trials(trials), share * alpha / 2)
    rest = alpha - 2 * test.crossing
    every = np.unique(np.concatenate([own.sorted for pair in rows.values() for own in pair[1]]))
    every = np.append(every, -9.0)
    anywhere, way = np.ones(len(every), bool), np.ones(len(every), bool)
    for _, own in rows.values():
        tp, fp = own.counts(every)
        anywhere &= test.passes_anywhere(tp, fp)
        way &= test.passes_on_the_way(tp, fp, rest)
    for t, passes in zip(every, anywhere, strict=True):
        if passes:
            assert t in found.thresholds
        elif start is None:
            assert t not in found.thresholds
        elif t in found.thresholds:  # on the way: it and all before it pass
            assert t >= start if upwards else t <= start
            between = (every >= min(t, start)) & (every <= max(t, start))
            assert way[between].all()


def test_monotone_constraints_have_the_whole_error_in_each_segment():
    rows = segments(3)
    found = certify_common(rows, RECALL, 0.9)
    goal = RECALL.constraints[0]
    highest = found.certified_thresholds.intervals[-1][1]
    for t, expected in ((highest - 1e-9, True), (highest, False)):
        passed = [
            NestedTest(goal, *own.totals).passes(*own.counts(np.array([t]))[:1] * 3, 0.1)[0]
            for _, own in rows.values()
        ]
        assert all(passed) is expected


def test_bounds_are_those_of_each_segment():
    rows = segments(1)
    found = certify_common(rows, PRECISION, 0.9)
    assert found.certified
    for bound, (_, own) in zip(found.bounds, rows.values(), strict=False):
        tp, fp = (counts[0] for counts in own.counts(np.array([found.threshold])))
        assert (bound.successes, bound.trials) == (tp, tp + fp)
        assert bound.value == tp / (tp + fp)


def test_planned_orders_test_each_segment():
    goal = Goal.parse("max recall s.t. f1 >= 0.6")
    rows = segments(2)
    found = certify_common(rows, goal, 0.9)
    assert found.certified
    assert found.choice == "planned"
    for _, own in rows.values():
        tp, fp = own.counts(np.array([found.threshold]))
        assert worst_p_value(goal, tp, fp, *own.totals)[0] <= 0.1


# --- one threshold per segment --------------------------------------------------------------------


def test_individual_and_joint_certificates():
    rows = segments(4, n=1500)
    found = certify_each(rows, PRECISION, 0.9)
    level = 1 - joint_error(0.1, 3)
    for name, (planning, testing) in rows.items():
        own = certify_best(planning, testing, PRECISION, 0.9, on="x")
        both = certify_best(planning, testing, PRECISION, level, on="x")
        assert found.individual[name].certified_thresholds == own.certified_thresholds
        assert found.joint[name].certified_thresholds == both.certified_thresholds
        assert found.threshold(name) == (both.threshold if both.certified else own.threshold)
    assert set(found.jointly_certified) <= set(found.individually_certified)
    assert [row["segment"] for row in found.rows()] == list(rows)
    assert str(found).startswith("3 of 3 segments are certified at 90 % confidence each")


def test_joint_errors_multiply_to_the_whole():
    assert (1 - joint_error(0.1, 7)) ** 7 == pytest.approx(0.9)
    assert 0.1 / 7 < joint_error(0.1, 7) < 0.1


def test_small_segments_are_refused_with_the_number_they_need():
    rng = np.random.default_rng(0)
    y = np.r_[rng.random(2000) < 0.3, [True] * 15, [False] * 40]
    scores = rng.normal(size=len(y)) + 3 * y
    names = np.repeat(["large", "small"], [2000, 55])
    rows = segment_rows(y, scores, names, np.zeros(len(y), dtype=bool))
    goal = Goal.parse("max recall s.t. precision >= 0.9")
    found = certify_each(rows, goal, 0.9)
    assert set(found.refused) == {"small"}
    assert str(found.refused["small"]) == (
        "small has 15 positives; at least 22 are needed to certify 'precision >= 0.9', even if "
        "all of them are right."
    )
    assert found.rows()[1]["why not"] == str(found.refused["small"])
    assert found.threshold("small") is None
    assert "small: not certified: small has 15 positives" in str(found)


@pytest.mark.parametrize(
    ("constraint", "needed"),
    [
        ("precision >= 0.9", 22), ("recall >= 0.8", 11), ("fpr <= 0.05", 45), ("fnr <= 0.2", 11),
        ("npv >= 0.99", 230), ("precision >= 0", 0), ("recall >= 1", None), ("mcc >= 0.5", None),
    ],
)  # fmt: skip
def test_least_trials(constraint, needed):
    c = Goal.parse(f"max f1 s.t. {constraint}").constraints[0]
    assert least_trials(c, 0.1) == needed
    if needed:
        level = c.level if c.metric.direction == "max" else 1 - c.level
        assert level**needed <= 0.1 < level ** (needed - 1)


def test_too_small_names_what_is_missing():
    y = np.repeat([True, False], [30, 10])
    rows = Rows.of(y, np.arange(40.0))
    assert too_small("x", rows, Goal.parse("max f1 s.t. precision >= 0.9"), 0.1) is None
    found = too_small("x", rows, Goal.parse("max f1 s.t. fpr <= 0.05"), 0.1)
    assert (found.population, found.rows, found.needed) == ("negatives", 10, 45)
    found = too_small("x", rows, Goal.parse("max f1 s.t. accuracy >= 0.99"), 0.1)
    assert (found.population, found.rows, found.needed) == ("rows", 40, 230)


def test_fixed_thresholds_are_tested_by_holm():
    rows = segments(5, n=900)
    fixed = dict.fromkeys(rows, 2.0)
    found = certify_each(rows, PRECISION, 0.9, thresholds=fixed)
    p = [
        float(worst_p_value(PRECISION, *own.counts(np.array([2.0])), *own.totals)[0])
        for _, own in rows.values()
    ]
    assert [name in found.jointly_certified for name in rows] == holm(p, 0.1).tolist()
    assert [name in found.individually_certified for name in rows] == [x <= 0.1 for x in p]


def test_a_segment_that_passes_alone_may_be_refused_jointly():
    y, scores = rows_with_counts(30, 1, 5, 30)
    every = {name: (Rows.of(y, scores),) * 2 for name in "abc"}
    low = Rows.of(*rows_with_counts(15, 0, 5, 30))  # p = 0.035, too much for three or two
    every["d"] = low, low
    found = certify_each(every, PRECISION, 0.9, thresholds=dict.fromkeys(every, 0.5))
    assert "d" in found.jointly_certified  # the others passed before it
    every["e"] = every["d"]
    every["f"] = every["d"]
    found = certify_each(every, PRECISION, 0.9, thresholds=dict.fromkeys(every, 0.5))
    assert found.jointly_certified == ("a", "b", "c")
    assert len(found.individually_certified) == 6
    refused = found.joint["d"]
    assert not refused.certified_thresholds
    assert "15 of 15), not enough to certify 'precision >= 0.8';" in refused.refusal


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=8))
def test_holm_rejects_between_bonferroni_and_each_on_its_own(p_values):
    p = np.array(p_values)
    rejected = holm(p, 0.1)
    assert rejected[p <= 0.1 / len(p)].all()
    assert (p[rejected] <= 0.1).all()
    if rejected.any():
        assert p[rejected].max() <= p[~rejected].min(initial=1)
    # closed testing: a hypothesis is rejected if each set of hypotheses with it is, by Bonferroni
    for i in range(len(p)):
        others = np.sort(np.delete(p, i))[::-1]
        sets = [min(p[i], others[:k].min(initial=1)) <= 0.1 / (k + 1) for k in range(len(p))]
        assert rejected[i] == all(sets)


@pytest.mark.parametrize("certify", [certify_common, certify_each])
def test_bad_input(certify):
    with pytest.raises(SetpointError, match="there are no segments"):
        certify({}, PRECISION, 0.9)
    with pytest.raises(SetpointError, match="no constraint"):
        certify(segments(), Goal.parse("max f1"), 0.9)
    with pytest.raises(SetpointError, match="confidence must lie"):
        certify(segments(), PRECISION, 90)


def test_missing_segments_are_an_error():
    with pytest.raises(SetpointError, match="missing"):
        segment_rows(np.array([True]), np.ones(1), [None], np.array([False]))
