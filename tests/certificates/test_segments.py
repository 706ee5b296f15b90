"""Certificates for segments: one threshold for all, or one for each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint import Goal, SetpointError, certify, certify_by_segment
from setpoint.certificates import certify_best
from setpoint.certificates.certify import planning_draw
from setpoint.certificates.nested import NestedTest
from setpoint.certificates.rates import least_trials, shortage
from setpoint.certificates.segments import holm, joint_error
from setpoint.certificates.sequence import Rows, TalliedRows, worst_p_value
from setpoint.certificates.simultaneous import Plan, certified_thresholds
from setpoint.certificates.walk import WalkTest, rounded_trials, share_anywhere
from setpoint.errors import GoalError
from setpoint.goals.goal import Constraint
from setpoint.goals.tallies import Tally

PRECISION = Goal.parse("max recall s.t. precision >= 0.8")
RECALL = Goal.parse("max precision s.t. recall >= 0.7")
EACH = "max recall s.t. precision >= 0.8 for each region"


def table(seed=0, n=3000, names=("north", "south", "west"), gap=3.0, fraction=0.3):
    """Return labels, scores and regions."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < fraction
    return y, rng.normal(size=n) + gap * y, rng.choice(names, n)


def rows_of(y, scores, regions, included=True):
    """Return some rows of each region."""
    return {
        str(name): Rows.of(y, scores, (regions == name) & included) for name in np.unique(regions)
    }


def tallied(y, scores, regions):
    """Return all rows, with a tally for each region."""
    own = {Tally(segment="region", value=n): r for n, r in rows_of(y, scores, regions).items()}
    return TalliedRows(Rows.of(y, scores), own)


def in_each(goal, names):
    """Return the goal with each constraint once per region."""
    constraints = [
        Constraint(c.metric.within(Tally(segment="region", value=name)), c.level)
        for name in names
        for c in goal.constraints
    ]
    return Goal(goal.objective, tuple(constraints))


# --- one threshold for all ------------------------------------------------------------------------


def test_each_constraint_counts_its_own_rows():
    y, scores, regions = table()
    testing, own = tallied(y, scores, regions), rows_of(y, scores, regions)
    for constraint in in_each(PRECISION, own).constraints:
        rows = own[constraint.metric.tallies[0].value]
        assert testing.of_constraint(constraint).totals == rows.totals
    assert testing.of_constraint(PRECISION.constraints[0]) is testing.plain
    assert testing.totals == tuple(sum(r.totals[i] for r in own.values()) for i in (0, 1))
    with pytest.raises(SetpointError, match=r"no rows of \[region=east\] to test"):
        testing.of_constraint(Constraint("precision[region=east]", 0.8))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["precision >= 0.8", "recall >= 0.7"]))
def test_one_segment_is_the_same_as_no_segments(seed, constraint):
    y, scores, regions = table(seed, n=400, names=("all",))
    plans = planning_draw(scores)
    goal = Goal.parse(f"max f1 s.t. {constraint}")
    expected = certify_best(
        Rows.of(y, scores, plans), Rows.of(y, scores, ~plans), goal, 0.9, on="new rows"
    )
    found = certify(y, scores, f"{goal} for each region", segments={"region": regions})
    assert found.certified_thresholds == expected.certified_thresholds


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 3) | st.none(), st.booleans())
def test_a_common_threshold_passes_in_every_segment(seed, start, upwards):
    """Brute force: the test of each segment at every threshold, with its part of the error."""
    y, scores, regions = table(seed, n=300, names=("a", "b"))
    rows, alpha, trials = rows_of(y, scores, regions), 0.2, 30.0
    goal, testing = in_each(PRECISION, rows), tallied(y, scores, regions)
    found = certified_thresholds(testing, goal, Plan(start, upwards, (trials,) * 2), alpha)
    share = 1.0 if start is None else share_anywhere(trials) / 2
    test = WalkTest(0.8, rounded_trials(trials), share * alpha / 2)
    rest = alpha - 2 * test.crossing
    every = np.append(np.unique(scores), -9.0)
    anywhere, way = np.ones(len(every), bool), np.ones(len(every), bool)
    for own in rows.values():
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
    y, scores, regions = table(3)
    goal = "max precision s.t. recall >= 0.7 for each region"
    found = certify(y, scores, goal, segments={"region": regions})
    testing = rows_of(y, scores, regions, ~planning_draw(scores))
    highest = found.certified_thresholds.intervals[-1][1]
    for t, expected in ((highest - 1e-9, True), (highest, False)):
        passed = [
            NestedTest(RECALL.constraints[0], *own.totals).passes(
                *own.counts(np.array([t]))[:1] * 3, 0.1
            )[0]
            for own in testing.values()
        ]
        assert all(passed) is expected


# --- one threshold per segment --------------------------------------------------------------------


def test_individual_and_joint_certificates():
    y, scores, regions = table(4, n=1500)
    found = certify_by_segment(y, scores, EACH, segments={"region": regions})
    plans, level = planning_draw(scores), 1 - joint_error(0.1, 3)
    planning, testing = rows_of(y, scores, regions, plans), rows_of(y, scores, regions, ~plans)
    for name, rows in testing.items():
        own = certify_best(planning[name], rows, PRECISION, 0.9, on="x")
        both = certify_best(planning[name], rows, PRECISION, level, on="x")
        assert found.individual[name].certified_thresholds == own.certified_thresholds
        assert found.joint[name].certified_thresholds == both.certified_thresholds
        assert found.thresholds[name] == both.threshold
    assert [row["segment"] for row in found.rows()] == list(testing)
    lines = str(found).splitlines()
    assert lines[0] == (
        "Certified at 90 % confidence: 3 of 3 segments, each by itself, and 3 of 3 all at once."
    )
    for line, (name, threshold) in zip(lines[1:], found.thresholds.items(), strict=True):
        assert line.startswith(f"  {name}: threshold by itself ")
        assert line.endswith(f", together with the others {threshold:.6g}")


def test_unknown_segments_and_amounts_are_refused():
    y, scores, regions = table(4, n=1500)
    fixed = dict.fromkeys(np.unique(regions).tolist(), 1.5) | {"mars": 0.3}
    with pytest.raises(SetpointError, match="a threshold of region=mars, and no row"):
        certify_by_segment(y, scores, EACH, segments={"region": regions}, thresholds=fixed)
    goal = "min cost(fp=5, fn=amount) s.t. precision >= 0.6 for each region"
    with pytest.raises(GoalError, match="names amounts, which"):
        certify_by_segment(y, scores, goal, segments={"region": regions})


def test_joint_errors_multiply_to_the_whole():
    assert (1 - joint_error(0.1, 7)) ** 7 == pytest.approx(0.9)
    assert 0.1 / 7 < joint_error(0.1, 7) < 0.1


def test_small_segments_are_refused_with_the_number_they_need():
    rng = np.random.default_rng(0)
    y = np.r_[rng.random(2000) < 0.3, [True] * 15, [False] * 40]
    scores = rng.normal(size=len(y)) + 3 * y
    names = np.repeat(["large", "small"], [2000, 55])
    fixed = {"large": 2.0, "small": 2.0}
    goal = "max recall s.t. precision >= 0.9 for each region"
    found = certify_by_segment(y, scores, goal, segments={"region": names}, thresholds=fixed)
    assert found.too_small == {
        "small": "'precision >= 0.9' needs at least 22 positives, and there are 15, even if all "
        "of them are right"
    }
    assert found.rows()[1]["why not"] == found.too_small["small"]
    assert "small" not in found.thresholds
    assert "small: not certified: 'precision >= 0.9' needs" in str(found)


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


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("precision >= 0.9", None),
        ("fpr <= 0.05", "'fpr <= 0.05' needs at least 45 negatives, and there are 10"),
        ("accuracy >= 0.99", "'accuracy >= 0.99' needs at least 230 rows, and there are 40"),
    ],
)
def test_a_shortage_names_what_is_missing(constraint, expected):
    assert shortage(Goal.parse(f"max f1 s.t. {constraint}").constraints[0], 30, 10, 0.1) == expected


def test_fixed_thresholds_are_tested_by_holm():
    y, scores, regions = table(5, n=900)
    fixed = dict.fromkeys(np.unique(regions).tolist(), 2.0)
    found = certify_by_segment(y, scores, EACH, segments={"region": regions}, thresholds=fixed)
    rows = rows_of(y, scores, regions)  # a threshold that is given needs no plan
    p = [
        float(worst_p_value(PRECISION, *own.counts(np.array([2.0])), *own.totals)[0])
        for own in rows.values()
    ]
    assert [name in found.jointly_certified for name in rows] == holm(p, 0.1).tolist()
    assert [name in found.individually_certified for name in rows] == [x <= 0.1 for x in p]


@pytest.mark.parametrize("kind", [int, float, np.int32, np.float64])
def test_thresholds_of_segments_that_are_numbers(kind):
    y, scores, regions = table(5, n=900)
    numbers = np.unique(regions, return_inverse=True)[1]
    fixed = dict.fromkeys(map(kind, range(3)), 2.0)
    found = certify_by_segment(
        y, scores, EACH, segments={"region": numbers.astype(kind)}, thresholds=fixed
    )
    assert list(found.individual) == ["0", "1", "2"]


def test_a_segment_that_passes_alone_may_be_refused_jointly():
    def found(low):
        """Three regions of 30 alarms, all but one right, and some of 15, p = 0.035."""
        parts = [("abc"[i], 30, 1) for i in range(3)] + [(name, 15, 0) for name in low]
        y, scores, regions = [], [], []
        for name, tp, fp in parts:
            y += [1] * (tp + 5) + [0] * (fp + 30)
            scores += [1.0] * tp + [0.0] * 5 + [1.0] * fp + [0.0] * 30
            regions += [name] * (tp + fp + 35)
        return certify_by_segment(
            y, scores, EACH, segments={"region": regions}, thresholds=dict.fromkeys(regions, 0.5)
        )

    assert "d" in found("d").jointly_certified  # the others passed before it
    refused = found("def")
    assert refused.jointly_certified == ("a", "b", "c")
    assert len(refused.individually_certified) == 6
    assert not refused.joint["d"].certified_thresholds
    assert "15 of 15), not enough to certify 'precision >= 0.8';" in refused.joint["d"].refusal


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


@pytest.mark.parametrize(
    ("goal", "options", "error", "message"),
    [
        ("max recall s.t. precision >= 0.8", {}, GoalError, "constraints 'for each'"),
        (f"{EACH}, recall >= 0.5", {}, GoalError, "'recall >= 0.5 for each region'"),
        (EACH, {"confidence": 90}, SetpointError, "confidence must lie"),
        (EACH, {"thresholds": {"north": 1.0}}, SetpointError, "no threshold of region=south"),
        (EACH, {"segments": {"area": ["x"] * 3000}}, SetpointError, "region"),
        (EACH, {"segments": {"region": ["x"]}}, SetpointError, "region"),
        (EACH, {"segments": {"region": [None] * 3000}}, SetpointError, "region"),
    ],
)
def test_bad_input(goal, options, error, message):
    y, scores, regions = table()
    with pytest.raises(error, match=message):
        certify_by_segment(y, scores, goal, **{"segments": {"region": regions}, **options})
