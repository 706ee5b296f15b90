import json
from dataclasses import replace
from itertools import product
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

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
from setpoint.certificates.certify import _drawn
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
every_goal = pytest.mark.parametrize("goal", GOALS)
every_way = pytest.mark.parametrize("way", WAYS, ids=["sequence", "split", "beforehand"])


def normal(seed=0, n=600, share=0.3, gap=2.5):
    """Labels and scores, two normal distributions."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    return y, rng.normal(size=n) + gap * y


def told(certificate):
    """Check all that a certificate says of itself, and return it as it comes out of JSON."""
    for each in (certificate, certificate.at_prevalence(0.1)):
        text = json.dumps(each.to_dict(), allow_nan=False)
        words = f"{each} {each.message} {text}".replace(": null", "").lower()
        for no_word in ("nan", "none"):
            assert no_word not in words
        assert each.message.endswith(".")
        assert len(each.bounds) == len(each.goal.constraints) + 1
        for bound in each.bounds:
            assert bound.bound is None or np.isfinite(bound.bound)
            assert bound.p_value is None or 0 <= bound.p_value <= 1
    if certificate.certified:  # what is promised was observed, with room to spare
        for bound in certificate.bounds[:-1]:
            assert bound.trials > 0
            assert bound.p_value <= 1 - certificate.confidence
            assert bound.metric.sign * (bound.value - bound.level) >= 0
            assert bound.metric.sign * (bound.bound - bound.level) >= 0
    return json.loads(json.dumps(certificate.to_dict(), allow_nan=False))


# --- a threshold given beforehand ----------------------------------------------------------------


def by_hand(k, n, relation, confidence):
    """The exact one-sided bound of a share, from scipy."""
    if relation == ">=":
        return binomtest(k, n, alternative="greater").proportion_ci(confidence).low
    return binomtest(k, n, alternative="less").proportion_ci(confidence).high


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
    promised = []
    for bound in found.bounds:
        k, n = draws[bound.metric.name]
        assert (bound.successes, bound.trials, bound.kind) == (k, n, "exact")
        if n == 0:
            promised.append(False)
            continue
        relation = "<=" if bound.metric.name == "fpr" else ">="
        assert bound.value == pytest.approx(k / n)
        assert bound.bound == pytest.approx(by_hand(k, n, relation, confidence), abs=1e-9)
        if bound.level is None:
            assert bound.p_value is None
            continue
        tail = binom.cdf(k, n, bound.level) if relation == "<=" else binom.sf(k - 1, n, bound.level)
        assert bound.p_value == pytest.approx(tail, abs=1e-12)
        promised.append(tail <= 1 - confidence)
    assert found.certified == all(promised)
    assert (found.threshold, found.choice, found.tested) == (t, "beforehand", 1)


@given(st.integers(0, 10_000), st.floats(-1, 4))
def test_the_counts_are_those_of_the_threshold(seed, t):
    y, scores = normal(seed, n=80)
    found = certify(y, scores, "max f1", t, on="May")
    assert found.operating_point == evaluate_threshold(y, scores, t, "max f1", on="May")


@given(st.integers(0, 10_000), st.floats(-1, 4))
def test_the_objective_of_a_goal_without_constraints_is_bounded(seed, t):
    y, scores = normal(seed, n=80)
    found = certify(y, scores, OFOS(), t)
    alarm = scores > t
    J = by_hand((alarm & y).sum(), (alarm | y).sum(), ">=", 0.9)
    assert found.certified == (J > 0)  # that F1 is at least 0 was known before
    assert found.bounds[0].bound == pytest.approx(2 * J / (1 + J), abs=1e-9)


def test_a_threshold_given_beforehand_uses_all_rows_whatever_the_method_and_the_seed():
    y, scores = normal()
    found = certify(y, scores, FPOR(0.9), 2.0)
    assert found == certify(y, scores, FPOR(0.9), 2.0, method="split", random_state=5, planning=0.9)
    assert found.bounds[-1].trials == y.sum()


def test_a_threshold_that_is_nan_is_refused():
    with pytest.raises(SetpointError, match="threshold must be a number"):
        certify(*normal(), FPOR(0.9), float("nan"))


@pytest.mark.parametrize("threshold", [np.inf, -np.inf])
@every_goal
def test_an_infinite_threshold_can_be_written_down(goal, threshold):
    told(certify(*normal(), goal, threshold))


# --- a threshold that is chosen ------------------------------------------------------------------


@every_goal
@every_way
def test_the_same_seed_gives_the_same_certificate(goal, way):
    y, scores = normal()
    assert certify(y, scores, goal, **way, random_state=3) == certify(
        y.tolist(), scores.tolist(), goal, **way, random_state=3
    )


def test_another_seed_parts_the_rows_in_another_way():
    y, scores = normal()
    found = {certify(y, scores, FPOR(0.8), random_state=s).operating_point.tp for s in range(5)}
    assert len(found) > 1


@pytest.mark.parametrize("planning", [0.1, 0.3, 0.7])
def test_about_the_share_asked_for_plans_and_the_rest_test(planning):
    y, scores = normal(n=4000)
    point = certify(y, scores, FPOR(0.8), planning=planning).operating_point
    tested = point.tp + point.fp + point.fn + point.tn
    assert tested / 4000 == pytest.approx(1 - planning, abs=0.03)


def test_one_threshold_is_tested_by_a_split_and_many_by_a_sequence():
    y, scores = normal(n=3000)
    assert certify(y, scores, FPOR(0.8), method="split").tested == 1
    assert certify(y, scores, FPOR(0.8)).tested > 10


def test_a_sequence_keeps_more_of_the_objective_than_a_split():
    kept = {"sequence": [], "split": []}
    for seed in range(20):
        y, scores = normal(seed, n=1500, gap=2.0)
        for method, values in kept.items():
            found = certify(y, scores, FPOR(0.8), method=method, random_state=seed)
            values.append(found.operating_point.objective * found.certified)
    assert np.mean(kept["sequence"]) > np.mean(kept["split"])


@pytest.mark.parametrize("goal", [FPOR(0.9), FROP(0.9), "max recall s.t. fpr <= 0.02", "max f1"])
def test_a_good_classifier_gets_its_certificate(goal):
    found = certify(*normal(n=3000, gap=4.0), goal)
    assert found.certified
    told(found)
    assert found.operating_point.objective > 0.9


@pytest.mark.parametrize(
    "goal", [FPOR(0.9), FROP(0.99999), "max recall s.t. fpr <= 0.00001, precision >= 0.9"]
)
@pytest.mark.parametrize("method", ["sequence", "split"])
def test_a_classifier_that_knows_nothing_gets_none(goal, method):
    y, _ = normal(n=2000)
    scores = np.random.default_rng(1).normal(size=2000)
    found = certify(y, scores, goal, method=method)
    assert not found.certified
    told(found)


def all_outcomes(n, chances):
    """Yield all counts of n draws and their chance."""
    for counts in product(range(n + 1), repeat=len(chances) - 1):
        if sum(counts) <= n:
            whole = (*counts, n - sum(counts))
            ways = factorial(n)
            for k in whole:
                ways //= factorial(k)
            yield np.array(whole), ways * float(np.prod(np.array(chances) ** np.array(whole)))


@pytest.mark.parametrize(("steps", "planned"), [(1, [25, 2, 35, 2]), (200, [25, 2, 35, 20])])
def test_a_precision_floor_is_falsely_certified_no_more_often_than_it_says(steps, planned):
    """All outcomes of twelve testing rows: at the lowest cut precision just misses its floor.

    Scores are 2 or 1; of a hundred rows 25 and 35 are positives, 5 and 35 negatives. The planning
    rows saw the lower cut better than it is.
    """
    cells, confidence = np.array([0.25, 0.05, 0.35, 0.35]), 0.7
    level = 0.6 + 1e-9
    goal = Goal.parse(f"max recall s.t. precision >= {level}")
    labels, values = np.array([True, False, True, False]), np.array([2.0, 2.0, 1.0, 1.0])

    def rows(counts):
        return Rows.of(np.repeat(labels, counts), np.repeat(values, counts))

    false = certified = whole = 0.0
    for counts, chance in all_outcomes(12, cells):
        found = certify_best(rows(planned), rows(counts), goal, confidence, on="all", steps=steps)
        true = 5 / 6 if found.threshold >= 1 else 0.6
        false += chance * (found.certified and true < level)
        certified += chance * found.certified
        whole += chance
        assert found.tested == (1 if steps == 1 else 2)
    assert whole == pytest.approx(1)
    assert certified > 0.2
    assert 0.1 < false <= 1 - confidence + 1e-9


# --- goals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [{}, {"threshold": 1.5}], ids=["chosen", "beforehand"])
@pytest.mark.parametrize("name", ["mcc", "fbeta(2)", "gmean", "balanced_accuracy"])
def test_an_objective_without_an_exact_bound_is_only_estimated(name, way):
    found = certify(*normal(), f"max {name}", **way)
    assert not found.certified
    assert found.bounds[0].kind == "estimate"
    assert 0 < found.bounds[0].bound < found.bounds[0].value
    assert f"Not certified: for {name} there is no exact bound. A bootstrap" in found.message
    assert "no guarantee" in str(found)
    told(found)


@pytest.mark.parametrize("way", [{}, {"threshold": 1.5}], ids=["chosen", "beforehand"])
@pytest.mark.parametrize("name", ["mcc", "fbeta(2)", "gmean", "balanced_accuracy"])
def test_a_constraint_without_an_exact_bound_is_never_certified(name, way):
    found = certify(*normal(n=3000, gap=6.0), f"max recall s.t. {name} >= 0.01", **way)
    assert not found.certified
    assert found.bounds[0].kind == "estimate"
    assert found.bounds[0].p_value is None
    assert found.more_positives is None
    assert f"for {name} there is no exact bound" in found.message
    told(found)


@pytest.mark.parametrize("way", [{}, {"threshold": 1.5}], ids=["chosen", "beforehand"])
def test_one_constraint_without_an_exact_bound_spoils_the_others(way):
    found = certify(*normal(n=3000, gap=6.0), "max recall s.t. precision >= 0.1, mcc >= 0", **way)
    assert not found.certified
    assert "for mcc there is no exact bound" in found.message
    told(found)


@pytest.mark.parametrize("goal", ["max mcc s.t. recall >= 0.5", "max gmean s.t. precision >= 0.5"])
def test_an_estimated_objective_does_not_keep_its_constraints_from_being_certified(goal):
    found = certify(*normal(n=3000, gap=4.0), goal)
    assert found.certified
    assert [b.kind for b in found.bounds] == ["exact", "estimate"]
    told(found)


@every_way
def test_a_metric_of_ones_own_is_estimated(way):
    own = define_metric(
        "thrift_of_certify_test",
        lambda tp, fp, P, N: (5 * (P - tp) + fp) / (5 * P + N),
        direction="min",
    )
    y, scores = normal(n=3000, gap=5.0)
    found = certify(y, scores, f"min {own}", **way)
    assert not found.certified
    assert found.bounds[0].kind == "estimate"
    assert found.bounds[0].bound >= found.bounds[0].value
    assert f"{own} <= " in found.message
    told(found)
    found = certify(y, scores, f"max recall s.t. {own} <= 0.9", **way)
    assert not found.certified
    told(found)
    found = certify(y, scores, f"min {own} s.t. recall >= 0.5", **way)
    assert found.certified
    told(found)


@pytest.mark.parametrize(
    "goal",
    [
        "max recall s.t. precision >= 0",
        "max precision s.t. recall >= 0",
        "max recall s.t. fpr <= 1",
    ],
)
@every_way
def test_a_level_that_nothing_can_break_is_certified(goal, way):
    found = certify(*normal(), goal, **way)
    assert found.certified
    told(found)


@pytest.mark.parametrize(
    "goal",
    [
        "max recall s.t. precision >= 1",
        "max precision s.t. recall >= 1",
        "max recall s.t. fpr <= 0",
    ],
)
@every_way
def test_a_level_that_no_number_of_rows_proves_is_not_certified(goal, way):
    y = np.arange(400) % 2 == 0
    found = certify(y, y.astype(float), goal, **way)  # a classifier without a fault
    assert not found.certified
    assert found.more_positives is None
    told(found)


def test_several_constraints_are_certified_only_together():
    y, scores = normal(n=3000)
    goal = "max recall s.t. precision >= {}, fpr <= {}, recall >= {}"
    assert certify(y, scores, goal.format(0.8, 0.1, 0.7), 1.5).certified
    for levels in [(0.99, 0.1, 0.7), (0.8, 0.01, 0.7), (0.8, 0.1, 0.99)]:
        found = certify(y, scores, goal.format(*levels), 1.5)
        assert not found.certified
        told(found)


def test_an_alarm_rate_can_be_promised_with_and_without_a_precision():
    y, scores = normal(n=3000)
    for other in ("", ", precision >= 0.8"):
        found = certify(y, scores, f"max recall s.t. alarm_rate <= 0.3{other}")
        assert found.certified
        assert found.operating_point.value("alarm_rate") < 0.3
        assert found.operating_point.recall > 0.7
        told(found)


def test_a_goal_may_be_an_object_or_a_sentence():
    y, scores = normal()
    assert certify(y, scores, FPOR(0.9)) == certify(y, scores, "max recall s.t. precision >= 0.9")


# --- degenerate rows -----------------------------------------------------------------------------


@every_goal
def test_no_predicted_positives_certify_no_precision_and_no_recall(goal):
    y, scores = normal()
    found = certify(y, scores, goal, threshold=1e9)
    told(found)
    names = {c.metric.name for c in found.goal.constraints}
    assert found.operating_point.empty
    if names & {"precision", "recall"} or goal == "max precision":
        assert not found.certified
    if names <= {"fpr", "alarm_rate"} and names:  # these are 0 there, and that is known
        assert found.certified
        assert "Nothing is predicted positive there." in found.message


@every_goal
def test_all_predicted_positive_certifies_no_ceiling(goal):
    y, scores = normal()
    found = certify(y, scores, goal, threshold=-1e9)
    told(found)
    names = {c.metric.name for c in found.goal.constraints}
    if names & {"fpr", "alarm_rate", "npv"} or goal == "max recall s.t. precision >= 0.9":
        assert not found.certified
    if names == {"recall"}:
        assert found.certified


@every_goal
@every_way
def test_rows_of_positives_only_certify_nothing_of_negatives(goal, way):
    found = certify(np.ones(50), np.linspace(0, 1, 50), goal, **way)
    told(found)
    if "fpr" in goal:
        assert not found.certified


@every_goal
@every_way
def test_rows_of_negatives_only_certify_nothing_of_positives(goal, way):
    found = certify(np.zeros(50), np.linspace(0, 1, 50), goal, **way)
    told(found)
    if "recall >=" in goal or "precision >=" in goal:
        assert not found.certified
    if found.certified and not found.goal.constraints:
        assert found.promises[0].level == 0


@every_goal
@every_way
def test_scores_that_are_all_tied_are_never_parted(goal, way):
    y, _ = normal()
    found = certify(y, np.full(len(y), 0.7), goal, **way)
    told(found)
    point = found.operating_point
    assert (point.tp, point.fp) in [(0, 0), (point.tp + point.fn, point.fp + point.tn)]
    if "precision >= 0.9" in goal:
        assert not found.certified


@every_goal
@every_way
def test_five_rows_certify_nothing_that_is_worth_a_word(goal, way):
    found = certify([1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.4, 0.3], goal, **way)
    told(found)
    if found.goal.constraints and "alarm_rate" not in goal:
        assert not found.certified


@every_goal
@every_way
@pytest.mark.parametrize("label", [0, 1])
def test_one_row_certifies_nothing(goal, way, label):
    found = certify([label], [0.7], goal, **way)
    told(found)
    if found.goal.constraints:
        assert not found.certified


@every_goal
@every_way
@pytest.mark.parametrize("kind", ["mixed", "positives low", "all high", "all low"])
def test_infinite_scores_are_scores(goal, way, kind):
    y, scores = normal(n=200)
    if kind == "mixed":
        scores[::3] = np.where(y[::3], np.inf, -np.inf)
        scores[1::7] = -np.inf
    else:
        end = np.inf if kind == "all high" else -np.inf
        scores[y | (kind != "positives low")] = end
    found = certify(y, scores, goal, **way)
    told(found)
    if kind != "mixed" and "precision >= 0.9" in goal:
        assert not found.certified


@every_goal
@every_way
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_scores_of_less_precision_give_what_the_same_numbers_give_in_double(goal, way, dtype):
    y, scores = normal()
    scores = scores.astype(dtype)
    found, double = (certify(y, s, goal, **way) for s in (scores, scores.astype(np.float64)))
    told(found)
    assert found.certified == double.certified
    for one, other in zip(found.bounds, double.bounds, strict=True):
        assert one == other
    if found.choice == "any" or "threshold" in way:  # all rows test
        again = evaluate_threshold(y, scores, found.threshold, goal)
        assert (again.tp, again.fp) == (found.operating_point.tp, found.operating_point.fp)


@every_goal
@every_way
def test_labels_of_any_kind_give_the_same(goal, way):
    y, scores = normal()
    expected = certify(y, scores, goal, **way)
    assert certify(y.astype(int), scores, goal, **way) == expected
    assert certify(np.where(y, 1, -1), scores, goal, **way) == expected
    assert certify(np.where(y, 1.0, 0.0), scores, goal, **way) == expected
    words = np.where(y, "fraud", "fine")
    assert certify(words, scores, goal, **way, pos_label="fraud") == expected


def test_words_need_a_positive_label():
    with pytest.raises(SetpointError, match="pos_label"):
        certify(["a", "b"], [0.1, 0.2], "max f1")


# --- weights -------------------------------------------------------------------------------------


@every_goal
@every_way
def test_equal_weights_are_no_weights(goal, way):
    y, scores = normal()
    expected = certify(y, scores, goal, **way)
    assert certify(y, scores, goal, **way, sample_weight=np.full(len(y), 0.25)) == expected


@every_goal
@every_way
def test_rows_of_no_weight_are_no_rows(goal, way):
    y, scores = normal()
    kept = np.random.default_rng(4).random(len(y)) < 0.6
    expected = certify(y[kept], scores[kept], goal, **way)
    assert certify(y, scores, goal, **way, sample_weight=kept.astype(float)) == expected


@every_goal
@every_way
def test_different_weights_are_refused(goal, way):
    y, scores = normal()
    weights = np.ones(len(y))
    weights[3] = 2
    with pytest.raises(SetpointError, match="exact bounds count independent rows"):
        certify(y, scores, goal, **way, sample_weight=weights)


@every_goal
@every_way
def test_rows_that_all_have_no_weight_are_refused_or_certify_nothing(goal, way):
    y, scores = normal(n=30)
    try:
        found = certify(y, scores, goal, **way, sample_weight=np.zeros(30))
    except SetpointError:
        return
    assert not found.certified
    told(found)


# --- what makes no sense -------------------------------------------------------------------------


@every_way
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
    ids=["NaN score", "NaN label", "None", "lengths", "no rows", "three labels", "matrix", "words"],
)
def test_rows_that_make_no_sense_are_refused(y, scores, way):
    with pytest.raises(SetpointError):
        certify(y, scores, FPOR(0.9), **way)


@every_way
@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, 90, float("nan")])
def test_a_confidence_must_lie_between_0_and_1(confidence, way):
    with pytest.raises(SetpointError, match="confidence must lie between 0 and 1"):
        certify(*normal(), FPOR(0.9), **way, confidence=confidence)


@pytest.mark.parametrize("goal", [FPOR(0.9), FROP(0.9)], ids=str)
@pytest.mark.parametrize("planning", [0, 1, -0.1, 1.5, float("nan")])
def test_planning_is_a_share(planning, goal):
    with pytest.raises(SetpointError, match="planning must lie between 0 and 1"):
        certify(*normal(), goal, planning=planning)


@pytest.mark.parametrize("goal", [FPOR(0.9), FROP(0.9)], ids=str)
@pytest.mark.parametrize("method", ["bonferroni", "", None, 3])
def test_an_unknown_method_is_refused(method, goal):
    with pytest.raises(SetpointError, match="method is 'sequence' or 'split'"):
        certify(*normal(), goal, method=method)


@pytest.mark.parametrize("goal", ["max luck", "recall", "max recall s.t. precision >= 90"])
def test_a_goal_that_makes_no_sense_is_refused(goal):
    with pytest.raises(GoalError):
        certify(*normal(), goal)


@pytest.mark.parametrize("planning", [0.001, 0.999])
def test_very_little_or_very_much_planning_certifies_nothing_falsely(planning):
    found = certify(*normal(n=300), FPOR(0.9), planning=planning)
    told(found)


# --- whose rows, in which order, of which label ---------------------------------------------------


@pytest.mark.parametrize("n", [1000, 150_000])
def test_planning_rows_are_drawn_one_by_one_whatever_the_order_of_the_rows(n):
    """Rows that come class by class must not be drawn in blocks, or the shares vary too much."""
    y = np.arange(n) < n // 10
    shares = [_drawn(n, 0.3, seed)[y].mean() for seed in range(60)]
    spread = np.sqrt(0.3 * 0.7 / y.sum())
    assert abs(np.mean(shares) - 0.3) < 5 * spread / np.sqrt(60)
    assert 0.6 * spread < np.std(shares) < 1.5 * spread


def test_the_split_does_not_follow_data_that_were_drawn_with_the_same_seed():
    y = np.random.default_rng(0).random(2000) < 0.3
    assert 0.2 < _drawn(2000, 0.3, 0)[y].mean() < 0.4


@pytest.mark.parametrize("state", [None, np.random.RandomState(3), 7])
def test_a_random_state_is_what_scikit_learn_takes(state):
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


def test_the_positive_label_is_remembered():
    y, scores = normal(n=3000, gap=4.0)
    flipped = (~y).astype(int)  # 0 is positive
    found = certify(flipped, scores, FPOR(0.9), pos_label=0)
    assert not found.check(flipped, scores).broken
    assert found.check(flipped, scores).operating_point.tp > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("goal", [FPOR(0.8), "max f1 s.t. precision >= 0.8, recall >= 0.5"])
def test_a_threshold_can_be_told_in_the_precision_of_the_scores(dtype, goal):
    """Between neighbouring numbers of that precision there is no other."""
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    low = dtype(1.0)
    scores = np.where(y, np.nextafter(low, dtype(2.0)), low).astype(dtype)
    found = certify(y, scores, goal)
    assert found.certified
    assert dtype(found.threshold) == found.threshold
    assert ((scores - dtype(found.threshold) > 0) == y).all()
