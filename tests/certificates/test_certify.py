import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from certificate_rows import clopper_pearson, normal, outcomes
from setpoint import (
    FPOR,
    FROP,
    OFOS,
    Goal,
    GoalError,
    SetpointError,
    certify,
    define_metric,
    evaluate_threshold,
)
from setpoint.certificates import certify_best
from setpoint.certificates.certify import _draw_rows
from setpoint.certificates.sequence import Rows

GOALS = [
    "max recall s.t. precision >= 0.9",
    "max precision s.t. recall >= 0.5",
    "max recall s.t. fpr <= 0.2",
    "max recall s.t. alarm_rate <= 0.6",
    "max f1 s.t. precision >= 0.3, recall >= 0.3",
    "max accuracy s.t. npv >= 0.5",
    "max f1",
    "max precision",
    "max mcc",
    "max recall s.t. gmean >= 0.1",
]
WAYS = [{"method": "sequence"}, {"method": "split"}, {"threshold": 0.5}]
CHOSEN_OR_GIVEN = [{}, {"threshold": 1.5}]
WITHOUT_EXACT_BOUND = ["mcc", "fbeta(2)", "gmean", "balanced_accuracy"]

# Hypothesis tries every combination of so few values.
goals, ways = st.sampled_from(GOALS), st.sampled_from(WAYS)


def check_consistent(certificate):
    """Check that messages, bounds and JSON of a certificate agree with each other."""
    for each in (certificate, certificate.at_prevalence(0.1)):
        text = json.dumps(each.to_dict(), allow_nan=False)
        messages = f"{each} {each.message} {text}".replace(": null", "").lower()
        assert "nan" not in messages
        assert "none" not in messages
        assert each.message.endswith(".")
        assert len(each.bounds) == len(each.goal.constraints) + 1
        for bound in each.bounds:
            assert bound.bound is None or np.isfinite(bound.bound)
            assert bound.p_value is None or 0 <= bound.p_value <= 1
    if certificate.certified:  # a certified level was observed, with a margin
        for bound in certificate.bounds[:-1]:
            assert bound.trials > 0
            assert bound.p_value <= 1 - certificate.confidence
            assert bound.metric.sign * (bound.value - bound.level) >= 0
            assert bound.metric.sign * (bound.bound - bound.level) >= 0


# --- a threshold given beforehand ----------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.floats(-1, 4), st.sampled_from([0.8, 0.9, 0.95]))
def test_a_threshold_given_beforehand_has_the_bounds_of_clopper_and_pearson(seed, t, confidence):
    y, scores = normal(seed, n=120)
    goal = Goal.parse("max recall s.t. precision >= 0.7, fpr <= 0.1, npv >= 0.8")
    found = certify(y, scores, goal, t, confidence)
    alarm = scores > t
    draws = {
        "precision": ((alarm & y).sum(), alarm.sum()),
        "fpr": ((alarm & ~y).sum(), (~y).sum()),
        "npv": ((~alarm & ~y).sum(), (~alarm).sum()),
        "recall": ((alarm & y).sum(), y.sum()),
    }
    assert [b.metric.name for b in found.bounds] == ["precision", "fpr", "npv", "recall"]
    passed = []
    for bound in found.bounds:
        k, n = draws[bound.metric.name]
        assert (bound.successes, bound.trials, bound.kind) == (k, n, "exact")
        if n == 0:
            passed.append(False)
            continue
        side = "upper" if bound.metric.name == "fpr" else "lower"
        assert bound.value == pytest.approx(k / n)
        assert bound.bound == pytest.approx(clopper_pearson(k, n, confidence, side), abs=1e-9)
        if bound.level is None:
            assert bound.p_value is None
            continue
        tail = binom.cdf(k, n, bound.level) if side == "upper" else binom.sf(k - 1, n, bound.level)
        assert bound.p_value == pytest.approx(tail, abs=1e-12)
        passed.append(tail <= 1 - confidence)
    assert found.certified == all(passed)
    assert (found.threshold, found.choice, found.tested) == (t, "beforehand", 1)


@given(st.integers(0, 10_000), st.floats(-1, 4))
def test_counts_at_a_threshold_and_the_bound_of_an_objective_without_constraints(seed, t):
    y, scores = normal(seed, n=80)
    found = certify(y, scores, OFOS(), t, on="May")
    assert found.operating_point == evaluate_threshold(y, scores, t, "max f1", on="May")
    alarm = scores > t
    J = clopper_pearson((alarm & y).sum(), (alarm | y).sum(), 0.9)
    assert found.certified == (J > 0)  # F1 is at least 0 in any case
    assert found.bounds[0].bound == pytest.approx(2 * J / (1 + J), abs=1e-9)


def test_a_threshold_given_beforehand_uses_all_rows_whatever_the_method_and_the_seed():
    y, scores = normal()
    found = certify(y, scores, FPOR(0.9), 2.0)
    assert found == certify(y, scores, FPOR(0.9), 2.0, method="split", random_state=5, planning=0.9)
    assert found.bounds[-1].trials == y.sum()


def test_a_threshold_of_nan_raises():
    with pytest.raises(SetpointError, match="threshold must be a number"):
        certify(*normal(), FPOR(0.9), float("nan"))


@given(goals, st.sampled_from([np.inf, -np.inf]))
def test_an_infinite_threshold_is_accepted(goal, threshold):
    check_consistent(certify(*normal(), goal, threshold))


# --- a threshold that is chosen ------------------------------------------------------------------


@given(goals, ways)
def test_the_same_seed_gives_the_same_certificate(goal, way):
    y, scores = normal()
    assert certify(y, scores, goal, **way, random_state=3) == certify(
        y.tolist(), scores.tolist(), goal, **way, random_state=3
    )


def test_another_seed_splits_the_rows_differently():
    y, scores = normal()
    found = {
        certify(y, scores, FPOR(0.8), method="sequence", random_state=s).operating_point.tp
        for s in range(5)
    }
    assert len(found) > 1


def test_no_seed_decides_what_is_certified_at_all_thresholds_at_once():
    y, scores = normal(n=400)
    groups = np.arange(400) // 2
    for rows in ({}, {"groups": groups}):
        first, *others = (certify(y, scores, FPOR(0.8), random_state=s, **rows) for s in range(4))
        assert first.certified
        assert all(first == other for other in others)


def test_weights_and_groups_of_different_lengths_raise():
    y, scores = normal(n=40)
    with pytest.raises(SetpointError, match="one weight per row"):
        certify(y, scores, FPOR(0.8), groups=np.arange(40), sample_weight=np.ones(4))


def test_a_floor_that_nothing_reaches_is_refused_where_it_is_closest():
    y, scores = normal(n=400)
    found = certify(y, scores, "max precision s.t. recall >= 1")
    assert not found.certified
    assert found.operating_point.recall == 1


def test_negatives_alone_allow_as_many_alarms_as_possible():
    found = certify(np.zeros(300), np.arange(300.0), "max recall s.t. fpr <= 0.1")
    assert found.certified
    assert 15 < found.operating_point.fp < 30


def test_planning_is_the_fraction_of_planning_rows():
    y, scores = normal(n=4000)
    for planning in (0.1, 0.3, 0.7):
        point = certify(y, scores, FPOR(0.8), planning=planning).operating_point
        assert sum(point.counts[2:]) / 4000 == pytest.approx(1 - planning, abs=0.03)


def test_a_split_tests_one_threshold_and_a_sequence_many():
    y, scores = normal(n=3000)
    assert certify(y, scores, FPOR(0.8), method="split").tested == 1
    assert certify(y, scores, FPOR(0.8), method="sequence").tested > 10


def test_a_sequence_retains_more_of_the_objective_than_a_split():
    retained = {"sequence": [], "split": []}
    for seed in range(20):
        y, scores = normal(seed, n=1500, gap=2.0)
        for method, values in retained.items():
            found = certify(y, scores, FPOR(0.8), method=method, random_state=seed)
            values.append(found.operating_point.objective * found.certified)
    assert np.mean(retained["sequence"]) > np.mean(retained["split"])


@pytest.mark.parametrize("goal", [FPOR(0.9), FROP(0.9), "max recall s.t. fpr <= 0.02", "max f1"])
def test_a_good_classifier_is_certified(goal):
    found = certify(*normal(n=3000, gap=4.0), goal)
    assert found.certified
    check_consistent(found)
    assert found.operating_point.objective > 0.9


@given(
    st.sampled_from([FPOR(0.9), FROP(0.99999), "max recall s.t. fpr <= 0.00001, precision >= 0.9"]),
    st.sampled_from(["sequence", "split"]),
)
def test_random_scores_are_not_certified(goal, method):
    y, _ = normal(n=2000)
    scores = np.random.default_rng(1).normal(size=2000)
    found = certify(y, scores, goal, method=method)
    assert not found.certified
    check_consistent(found)


@pytest.mark.parametrize(
    ("method", "planned", "tested"),
    [
        ("split", [25, 2, 35, 2], 1),
        ("sequence", [25, 2, 35, 20], 2),
        ("simultaneous", [25, 2, 35, 2], None),
        ("simultaneous", [25, 2, 35, 20], None),
    ],
)
def test_a_precision_floor_is_falsely_certified_no_more_often_than_allowed(method, planned, tested):
    """All outcomes of twelve certification rows: at the lowest cut precision just misses its floor.

    Scores are 2 or 1; of a hundred rows 25 and 35 are positives, 5 and 35 negatives. On the
    planning rows the lower cut is better than it truly is.
    """
    confidence, level = 0.7, 0.6 + 1e-9
    goal = Goal.parse(f"max recall s.t. precision >= {level}")
    labels, values = np.array([True, False, True, False]), np.array([2.0, 2.0, 1.0, 1.0])

    def rows(counts):
        return Rows.of(np.repeat(labels, counts), np.repeat(values, counts))

    false = certified = 0.0
    for counts, chance in zip(*outcomes(12, [0.25, 0.05, 0.35, 0.35]), strict=True):
        found = certify_best(rows(planned), rows(counts), goal, confidence, on="all", method=method)
        false += chance * any(t in found.certified_thresholds for t in (0.0, 0.5, 0.999))
        certified += chance * found.certified
        assert found.tested == tested
    assert certified > 0.2
    assert 0.05 < false <= 1 - confidence + 1e-9


# --- goals ---------------------------------------------------------------------------------------


@given(st.sampled_from(WITHOUT_EXACT_BOUND), st.sampled_from(CHOSEN_OR_GIVEN))
def test_an_objective_without_an_exact_bound_is_only_estimated(name, way):
    found = certify(*normal(), f"max {name}", **way)
    assert not found.certified
    assert found.bounds[0].kind == "estimate"
    assert 0 < found.bounds[0].bound < found.bounds[0].value
    assert (
        f"there is no exact bound for {name}. A bootstrap estimate is {name} >= " in found.message
    )
    assert found.message.endswith(f" {name} is {found.bounds[0].value:.3f}.")
    assert "no guarantee" in str(found)
    check_consistent(found)


@given(st.sampled_from(WITHOUT_EXACT_BOUND), st.sampled_from(CHOSEN_OR_GIVEN))
def test_a_constraint_without_an_exact_bound_is_never_certified(name, way):
    found = certify(*normal(n=3000, gap=6.0), f"max recall s.t. {name} >= 0.01", **way)
    assert not found.certified
    assert found.bounds[0].kind == "estimate"
    assert found.bounds[0].p_value is None
    assert found.more_positives is None
    assert f"there is no exact bound for {name}." in found.message
    check_consistent(found)


def test_one_constraint_without_an_exact_bound_prevents_the_certificate():
    for way in CHOSEN_OR_GIVEN:
        goal = "max recall s.t. precision >= 0.1, mcc >= 0"
        found = certify(*normal(n=3000, gap=6.0), goal, **way)
        assert not found.certified
        assert "there is no exact bound for mcc." in found.message
        check_consistent(found)


def test_constraints_are_certified_though_the_objective_is_only_estimated():
    for goal in ("max mcc s.t. recall >= 0.5", "max gmean s.t. precision >= 0.5"):
        found = certify(*normal(n=3000, gap=4.0), goal)
        assert found.certified
        assert [b.kind for b in found.bounds] == ["exact", "estimate"]
        check_consistent(found)


def test_a_custom_metric_is_estimated():
    custom = define_metric(
        "thrift_of_certify_test",
        lambda tp, fp, P, N: (5 * (P - tp) + fp) / (5 * P + N),
        direction="min",
    )
    y, scores = normal(n=3000, gap=5.0)
    for way in WAYS:
        found = certify(y, scores, f"min {custom}", **way)
        assert not found.certified
        assert found.bounds[0].kind == "estimate"
        assert found.bounds[0].bound >= found.bounds[0].value
        assert f"{custom} <= " in found.message
        check_consistent(found)
        found = certify(y, scores, f"max recall s.t. {custom} <= 0.9", **way)
        assert not found.certified
        check_consistent(found)
        found = certify(y, scores, f"min {custom} s.t. recall >= 0.5", **way)
        assert found.certified
        check_consistent(found)


@given(
    st.sampled_from(
        [
            "max recall s.t. precision >= 0",
            "max precision s.t. recall >= 0",
            "max recall s.t. fpr <= 1",
        ]
    ),
    ways,
)
def test_a_level_that_nothing_can_miss_is_certified(goal, way):
    found = certify(*normal(), goal, **way)
    assert found.certified
    check_consistent(found)


@given(
    st.sampled_from(
        [
            "max recall s.t. precision >= 1",
            "max precision s.t. recall >= 1",
            "max recall s.t. fpr <= 0",
        ]
    ),
    ways,
)
def test_a_level_that_no_number_of_rows_proves_is_not_certified(goal, way):
    y = np.arange(400) % 2 == 0
    found = certify(y, y.astype(float), goal, **way)  # a perfect classifier
    assert not found.certified
    assert found.more_positives is None
    check_consistent(found)


def test_several_constraints_are_certified_only_together():
    y, scores = normal(n=3000)
    goal = "max recall s.t. precision >= {}, fpr <= {}, recall >= {}"
    assert certify(y, scores, goal.format(0.8, 0.1, 0.7), 1.5).certified
    for levels in [(0.99, 0.1, 0.7), (0.8, 0.01, 0.7), (0.8, 0.1, 0.99)]:
        found = certify(y, scores, goal.format(*levels), 1.5)
        assert not found.certified
        check_consistent(found)


def test_an_alarm_rate_is_certified_with_and_without_a_precision():
    y, scores = normal(n=3000)
    for other in ("", ", precision >= 0.8"):
        found = certify(y, scores, f"max recall s.t. alarm_rate <= 0.3{other}")
        assert found.certified
        assert found.operating_point.value("alarm_rate") < 0.3
        assert found.operating_point.recall > 0.7
        check_consistent(found)


def test_a_goal_may_be_an_object_or_a_text():
    y, scores = normal()
    assert certify(y, scores, FPOR(0.9)) == certify(y, scores, "max recall s.t. precision >= 0.9")


# --- degenerate rows -----------------------------------------------------------------------------


@given(goals)
def test_no_predicted_positives_certify_no_precision_and_no_recall(goal):
    found = certify(*normal(), goal, threshold=1e9)
    check_consistent(found)
    names = {c.metric.name for c in found.goal.constraints}
    assert found.operating_point.empty
    if names & {"precision", "recall"} or goal == "max precision":
        assert not found.certified
    if names <= {"fpr", "alarm_rate"} and names:  # these are certainly small there
        assert found.certified
        assert "Nothing is predicted positive there." in found.message


@given(goals)
def test_all_predicted_positive_certifies_no_ceiling(goal):
    found = certify(*normal(), goal, threshold=-1e9)
    check_consistent(found)
    names = {c.metric.name for c in found.goal.constraints}
    if names & {"fpr", "alarm_rate", "npv"} or goal == "max recall s.t. precision >= 0.9":
        assert not found.certified
    if names == {"recall"}:
        assert found.certified


@given(goals, ways)
def test_rows_of_positives_only_certify_no_fpr(goal, way):
    found = certify(np.ones(50), np.linspace(0, 1, 50), goal, **way)
    check_consistent(found)
    if "fpr" in goal:
        assert not found.certified


@given(goals, ways)
def test_rows_of_negatives_only_certify_no_recall_and_no_precision(goal, way):
    found = certify(np.zeros(50), np.linspace(0, 1, 50), goal, **way)
    check_consistent(found)
    if "recall >=" in goal or "precision >=" in goal:
        assert not found.certified
    if found.certified and not found.goal.constraints:
        assert found.guarantees[0].level == 0


@given(goals, ways)
def test_tied_scores_are_on_the_same_side_of_the_threshold(goal, way):
    y, _ = normal()
    found = certify(y, np.full(len(y), 0.7), goal, **way)
    check_consistent(found)
    point = found.operating_point
    assert (point.tp, point.fp) in [(0, 0), (point.tp + point.fn, point.fp + point.tn)]
    if "precision >= 0.9" in goal:
        assert not found.certified


@given(goals, ways)
def test_five_rows_certify_hardly_anything(goal, way):
    found = certify([1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.4, 0.3], goal, **way)
    check_consistent(found)
    if found.goal.constraints and "alarm_rate" not in goal:
        assert not found.certified


@given(goals, ways, st.sampled_from([0, 1]))
def test_one_row_certifies_no_constraint(goal, way, label):
    found = certify([label], [0.7], goal, **way)
    check_consistent(found)
    if found.goal.constraints:
        assert not found.certified


@settings(max_examples=120)  # all combinations
@given(goals, ways, st.sampled_from(["mixed", "positives low", "all high", "all low"]))
def test_infinite_scores_are_accepted(goal, way, kind):
    y, scores = normal(n=200)
    if kind == "mixed":
        scores[::3] = np.where(y[::3], np.inf, -np.inf)
        scores[1::7] = -np.inf
    else:
        end = np.inf if kind == "all high" else -np.inf
        scores[y | (kind != "positives low")] = end
    found = certify(y, scores, goal, **way)
    check_consistent(found)
    if kind != "mixed" and "precision >= 0.9" in goal:
        assert not found.certified


@given(goals, ways, st.sampled_from([np.float32, np.float16]))
def test_scores_of_lower_precision_give_the_same_as_in_double(goal, way, dtype):
    y, scores = normal()
    scores = scores.astype(dtype)
    found, double = (certify(y, s, goal, **way) for s in (scores, scores.astype(np.float64)))
    check_consistent(found)
    assert found.certified == double.certified
    assert found.bounds == double.bounds
    if found.choice == "any" or "threshold" in way:  # all rows are certification rows
        again = evaluate_threshold(y, scores, found.threshold, goal)
        assert (again.tp, again.fp) == (found.operating_point.tp, found.operating_point.fp)


@given(goals, ways)
def test_labels_of_any_kind_give_the_same(goal, way):
    y, scores = normal()
    expected = certify(y, scores, goal, **way)
    assert certify(y.astype(int), scores, goal, **way) == expected
    assert certify(np.where(y, 1, -1), scores, goal, **way) == expected
    assert certify(np.where(y, 1.0, 0.0), scores, goal, **way) == expected
    texts = np.where(y, "fraud", "fine")
    assert certify(texts, scores, goal, **way, pos_label="fraud") == expected


def test_labels_that_are_texts_need_a_positive_label():
    with pytest.raises(SetpointError, match="pos_label"):
        certify(["a", "b"], [0.1, 0.2], "max f1")


# --- weights -------------------------------------------------------------------------------------


@given(goals, ways)
def test_weights_select_rows_and_must_otherwise_be_equal(goal, way):
    y, scores = normal()
    expected = certify(y, scores, goal, **way)
    assert certify(y, scores, goal, **way, sample_weight=np.full(len(y), 0.25)) == expected
    kept = np.random.default_rng(4).random(len(y)) < 0.6
    expected = certify(y[kept], scores[kept], goal, **way)
    assert certify(y, scores, goal, **way, sample_weight=kept.astype(float)) == expected
    different = np.ones(len(y))
    different[3] = 2
    with pytest.raises(SetpointError, match="exact bounds count independent rows"):
        certify(y, scores, goal, **way, sample_weight=different)


@given(goals, ways)
def test_rows_that_all_have_weight_zero_raise_or_certify_nothing(goal, way):
    y, scores = normal(n=30)
    try:
        found = certify(y, scores, goal, **way, sample_weight=np.zeros(30))
    except SetpointError:
        return
    assert not found.certified
    check_consistent(found)


# --- invalid arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "scores"),
    [
        ([1, 0, 1], [0.1, np.nan, 0.3]),
        ([1.0, 0.0, np.nan], [0.1, 0.2, 0.3]),
        ([1, 0, None], [0.1, 0.2, 0.3]),
        ([1, 0], [0.1, 0.2, 0.3]),
        ([], []),
        ([1, 0, 2], [0.1, 0.2, 0.3]),
        ([1, 0], [[0.1, 0.9], [0.8, 0.2]]),
        ([1, 0], ["low", "high"]),
    ],
    ids=["NaN score", "NaN label", "None", "lengths", "no rows", "three labels", "matrix", "texts"],
)
def test_invalid_rows_raise(y, scores):
    for way in WAYS:
        with pytest.raises(SetpointError):
            certify(y, scores, FPOR(0.9), **way)


@given(st.sampled_from([0, 1, -0.1, 1.5, 90, float("nan")]), ways)
def test_confidence_must_lie_between_0_and_1(confidence, way):
    with pytest.raises(SetpointError, match="confidence must lie between 0 and 1"):
        certify(*normal(), FPOR(0.9), **way, confidence=confidence)


@pytest.mark.parametrize("goal", [FPOR(0.9), FROP(0.9)], ids=str)
def test_planning_and_method_are_checked_also_where_they_are_not_needed(goal):
    for planning in (0, 1, -0.1, 1.5, float("nan")):
        with pytest.raises(SetpointError, match="planning must lie between 0 and 1"):
            certify(*normal(), goal, planning=planning)
    for method in ("bonferroni", "", None, 3):
        with pytest.raises(SetpointError, match="method is 'simultaneous', 'sequence'"):
            certify(*normal(), goal, method=method)


def test_an_invalid_goal_raises():
    for goal in ("max luck", "recall", "max recall s.t. precision >= 90"):
        with pytest.raises(GoalError):
            certify(*normal(), goal)


def test_very_few_or_very_many_planning_rows_are_accepted():
    for planning in (0.001, 0.999):
        check_consistent(certify(*normal(n=300), FPOR(0.9), planning=planning))


# --- the split, groups, labels and precision -----------------------------------------------------


@pytest.mark.parametrize("n", [1000, 150_000])
def test_planning_rows_are_drawn_one_by_one_whatever_the_order_of_the_rows(n):
    """Rows sorted by class must not be drawn in blocks, or the fractions vary too much."""
    y = np.arange(n) < n // 10
    fractions = [_draw_rows(n, 0.3, seed)[y].mean() for seed in range(60)]
    spread = np.sqrt(0.3 * 0.7 / y.sum())
    assert abs(np.mean(fractions) - 0.3) < 5 * spread / np.sqrt(60)
    assert 0.6 * spread < np.std(fractions) < 1.5 * spread


def test_the_split_is_independent_of_data_drawn_with_the_same_seed():
    y = np.random.default_rng(0).random(2000) < 0.3
    assert 0.2 < _draw_rows(2000, 0.3, 0)[y].mean() < 0.4


def test_a_random_state_is_whatever_scikit_learn_accepts():
    for state in (None, np.random.RandomState(3), 7):
        assert certify(*normal(n=3000, gap=4.0), FPOR(0.9), random_state=state).certified


def test_one_row_of_each_group_is_used():
    y, scores = normal(n=400, gap=4.0)
    many = {"y": np.repeat(y, 5), "scores": np.repeat(scores, 5)}
    found = certify(**many, goal=FROP(0.8), groups=np.repeat(np.arange(400), 5))
    assert found.one_per_group
    assert sum(found.operating_point.counts[2:]) == 400
    assert replace(found, one_per_group=False) == certify(y, scores, FROP(0.8))
    with pytest.raises(SetpointError, match="give groups="):
        found.check(y, scores)
    with pytest.raises(SetpointError, match="one entry per row"):
        found.check(y, scores, groups=[1, 2, 3])


def test_the_positive_label_is_stored():
    y, scores = normal(n=3000, gap=4.0)
    flipped = (~y).astype(int)  # 0 is positive
    found = certify(flipped, scores, FPOR(0.9), pos_label=0)
    assert not found.check(flipped, scores).broken
    assert found.check(flipped, scores).operating_point.tp > 0


@given(
    st.sampled_from([np.float32, np.float16]),
    st.sampled_from([FPOR(0.8), "max f1 s.t. precision >= 0.8, recall >= 0.5"]),
)
def test_a_threshold_is_exact_in_the_precision_of_the_scores(dtype, goal):
    """Between neighbouring numbers of that precision there is no other."""
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    low = dtype(1.0)
    scores = np.where(y, np.nextafter(low, dtype(2.0)), low).astype(dtype)
    found = certify(y, scores, goal)
    assert found.certified
    assert dtype(found.threshold) == found.threshold
    assert ((scores - dtype(found.threshold) > 0) == y).all()


def test_rows_of_weight_zero_are_dropped_before_one_row_of_each_group_is_drawn():
    """Of each group, the row that counts is used; the others would displace it."""
    y = np.repeat([True, True, True, False], 100)
    scores = np.repeat([3.0, 2.5, 2.0, 0.0], 100)
    groups, weight = np.arange(400), np.ones(400)
    empty = 5  # rows of weight 0 in each group, with other labels and scores
    many = {
        "y": np.concatenate([y, np.repeat(~y, empty)]),
        "scores": np.concatenate([scores, np.repeat(3 - scores, empty)]),
        "groups": np.concatenate([groups, np.repeat(groups, empty)]),
        "sample_weight": np.concatenate([weight, np.zeros(400 * empty)]),
    }
    found = certify(goal="max recall s.t. precision >= 0.9", threshold=1.0, **many)
    assert found.operating_point.counts == (300, 0, 300, 100)
    assert found.certified


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_positives_alone_certify_a_floor_on_recall(level):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200)
    goal = f"max precision s.t. recall >= {level}"
    alone = certify(np.ones(200, bool), scores, goal, pos_label=True)
    assert alone.certified
    assert "there are no negatives" in alone.message
    least = next(k for k in range(201) if binom.sf(k - 1, 200, level) <= 0.1)
    assert alone.operating_point.tp == least == (scores > alone.threshold).sum()
    assert alone.bounds[-1].bound is None


def test_positives_alone_certify_nothing_about_precision():
    found = certify(np.ones(200, bool), np.arange(200.0), FPOR(0.8), pos_label=True)
    assert not found.certified
