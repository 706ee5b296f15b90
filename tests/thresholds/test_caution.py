"""Rankings of cuts by their objective and by how likely their constraints hold on new rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from setpoint import Goal, choose_threshold
from setpoint.goals.goal import Constraint
from setpoint.goals.metrics import metric
from setpoint.thresholds import gpu
from setpoint.thresholds.caution import Cautious, cautious, errors_above, row_weights_of
from setpoint.thresholds.choose import best_point
from setpoint.thresholds.narrowing import MANY
from setpoint.thresholds.operating_point import OperatingPoint, caution_fields, with_caution
from setpoint.thresholds.stream import stream_threshold
from setpoint.thresholds.sweep import rank_of

FLOOR = Goal.parse("max recall s.t. precision >= 0.8")
GOALS = [
    "max recall s.t. precision >= 0.8",
    "max precision s.t. recall >= 0.7",
    "max recall s.t. fpr <= 0.1, precision >= 0.5",
    "max recall s.t. npv >= 0.9",
    "max f1 s.t. accuracy >= 0.8",
    "min fpr s.t. recall >= 1",
    "max precision s.t. f1 >= 0.5",
    "max recall s.t. mcc >= 0.3",
    "max recall s.t. alarm_rate <= 0.2",
    "min cost(fp=20, fn=70) s.t. recall >= 0.6",
    "min cost(fp=20, fn=70) s.t. alarm_rate <= 0.3",
]
RATES = ["precision", "recall", "specificity", "fpr", "fnr", "npv", "accuracy", "jaccard"]
ONE = (1.0, 1.0)
sizes = st.integers(1, 40)
cautions = st.floats(0.001, 10.0)


def best(y, scores, ranking, goal, weights=None):
    return best_point(y, scores, weights, ranking, goal, "here")


def drawn(seed, n=200):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    y[:2] = True, False
    return y, np.round(rng.normal(size=n) + 1.5 * y, 1)


def floor(name, level):
    return Constraint(metric(name), level)


@pytest.mark.parametrize(
    ("constraint", "counts", "expected"),
    [
        (floor("precision", 0.8), (90, 10, 200, 900), 0.095 / np.sqrt(0.8 * 0.2 / 100)),
        (floor("precision", 0.8), (801, 200, 900, 900), 0.0),  # less than half a row above
        (floor("precision", 0.2), (2, 0, 200, 900), 0.55 / np.sqrt(0.2 * 0.8 / 2)),
        (floor("precision", 0.9), (80, 20, 200, 900), -0.1 / np.sqrt(0.9 * 0.1 / 100)),
        (floor("recall", 0.7), (80, 20, 100, 900), 0.095 / np.sqrt(0.7 * 0.3 / 100)),
        (floor("fpr", 0.1), (80, 45, 100, 900), (0.05 - 0.5 / 900) / np.sqrt(0.1 * 0.9 / 900)),
        (floor("precision", 0.8), (0, 0, 100, 900), -np.inf),
        (floor("npv", 0.8), (100, 900, 100, 900), -np.inf),
        (floor("recall", 1.0), (100, 20, 100, 900), 0.0),
        (floor("f1", 0.5), (0, 0, 100, 900), 0.0),
    ],
)
def test_a_fraction_is_compared_with_a_binomial_at_its_level(constraint, counts, expected):
    found = errors_above(constraint, ONE, *map(np.float64, counts))
    assert found == pytest.approx(expected)


def test_other_metrics_have_the_standard_error_of_simulated_counts():
    rng = np.random.default_rng(0)
    P, N = 400.0, 4000.0
    tp, fp = rng.binomial(400, 0.75, 20_000), rng.binomial(4000, 0.02, 20_000)
    for name in ("f1", "gmean", "mcc", "balanced_accuracy", "fbeta(2)"):
        values = metric(name).value(tp, fp, P, N)
        above = float(metric(name).value(300.0, 80.0, P, N)) - 0.1
        found = errors_above(floor(name, 0.1), ONE, 300.0, 80.0, P, N)
        assert above / found == pytest.approx(values.std(), rel=0.05)


def test_rows_of_a_larger_weight_count_as_fewer():
    y = np.array([True] * 10 + [False] * 20)
    assert row_weights_of(y, np.where(y, 3.0, 0.5)) == (3.0, 0.5)
    assert row_weights_of(y, np.ones(30, dtype=np.float32)) == ONE
    assert row_weights_of(y, np.zeros(30)) == ONE
    uneven = np.where(np.arange(30) == 0, 91.0, 1.0)
    of_positives = row_weights_of(y, uneven)[0]
    assert 100 / of_positives == pytest.approx(100**2 / (91**2 + 9))  # little more than one row
    one = errors_above(floor("recall", 0.7), ONE, 8.0, 1.0, 10.0, 20.0)
    other = errors_above(floor("recall", 0.7), (3.0, 0.5), 24.0, 0.5, 30.0, 10.0)
    assert other == pytest.approx(one)


def test_the_probabilities_of_several_constraints_are_multiplied():
    goal = Goal.parse("max recall s.t. precision >= 0.5, fpr <= 0.1")
    at = (np.float64(80), np.float64(40), 100.0, 900.0)
    each = [norm.cdf(errors_above(c, ONE, *at) - 2.0) for c in goal.constraints]
    assert Cautious(goal, 0.3).gain(*at) == pytest.approx(0.8 + 0.3 * each[0] * each[1])
    assert Cautious(goal, 0.3).violation(*at) == goal.violation(*at)


@given(st.sampled_from(RATES), st.floats(0.01, 0.99), cautions, sizes, sizes, st.data())
def test_a_further_true_positive_never_hurts_and_a_false_one_never_helps(
    name, level, caution, P, N, data
):
    relation = ">=" if metric(name).sign > 0 else "<="
    goal = Goal.parse(f"max f1 s.t. {name} {relation} {level:.3f}")
    ranking = Cautious(goal, caution, data.draw(st.sampled_from([ONE, (3.0, 0.2)])))
    assert ranking.is_monotone
    tp, fp = data.draw(st.integers(0, P)), data.draw(st.integers(0, N))

    def rank(tp, fp):
        with np.errstate(all="ignore"):
            violation, gain, *_ = rank_of(ranking, tp, fp, float(P), float(N))
        return round(violation, 9), gain

    if tp < P:
        assert rank(tp + 1, fp) >= tuple(x - 1e-9 for x in rank(tp, fp))
    if fp < N:
        assert tuple(x - 1e-9 for x in rank(tp, fp + 1)) <= rank(tp, fp)


@given(st.sampled_from(GOALS), cautions, st.integers(0, 10_000))
def test_the_cut_is_the_best_of_all_in_memory_and_in_a_stream(text, caution, seed):
    goal = Goal.parse(text)
    y, scores = drawn(seed, 60)
    ranking = Cautious(goal, caution)
    with np.errstate(all="ignore"):
        own = rank_of(ranking, *best(y, scores, ranking, goal).counts)
        P, N = float(y.sum()), float((~y).sum())
        alarms = [scores > t for t in (-np.inf, *np.unique(scores))]
        ranks = [rank_of(ranking, (y & a).sum(), (~y & a).sum(), P, N) for a in alarms]
    assert own == max(ranks)

    def scan():
        yield y[:20], scores[:20], None
        yield y[20:], scores[20:], None

    streamed = stream_threshold(scan, goal, ranking=ranking)
    assert streamed.sort_key == own


@pytest.mark.parametrize("text", GOALS[:6])
def test_many_scores_give_the_same_cut_by_intervals_by_a_sort_and_in_torch(text):
    goal = Goal.parse(text)
    rng = np.random.default_rng(1)
    y = rng.random(MANY + 5) < 0.2
    scores = rng.normal(size=len(y)) + 2.0 * y
    ranking = Cautious(goal, 0.2)
    found = best(y, scores, ranking, goal)
    weighted = best(y, scores, ranking, goal, np.ones(len(y)))  # without intervals
    assert (found.threshold, found.counts) == (weighted.threshold, weighted.counts)
    (swept,) = gpu.sweep(torch.from_numpy(y), torch.from_numpy(scores)[None], ranking)
    assert swept == (found.threshold, found.tp, found.fp)


def test_what_is_given_up_grows_with_the_caution_and_is_no_more_than_it():
    y, scores = drawn(0, 4000)
    plain = choose_threshold(y, scores, FLOOR)
    recalls, precisions = [plain.recall], [plain.precision]
    for caution in (1e-3, 0.01, 0.1, 0.3):
        point = best(y, scores, Cautious(FLOOR, caution), FLOOR)
        assert point.feasible
        assert plain.recall - caution <= point.recall
        recalls.append(point.recall)
        precisions.append(point.precision)
    assert recalls == sorted(recalls, reverse=True)
    assert precisions == sorted(precisions)
    assert precisions[-1] > precisions[0]


def test_nothing_is_given_up_where_that_does_not_help():
    """One alarm of ten rows: no cut makes it likely that the floor holds."""
    y = np.array([True, *[False] * 5, True, *[False] * 3])
    scores = -np.arange(10.0)
    found = best(y, scores, Cautious(FLOOR, 0.2), FLOOR)
    assert (found.tp, found.fp) == (1.0, 0.0)


def test_two_alarms_of_two_do_not_make_a_low_floor_likely():
    """Two positives come first by luck, then one in four, then one in forty."""
    y = np.array([True, True, *[False, False, False, True] * 8, *([False] * 39 + [True]) * 90])
    goal = Goal.parse("max recall s.t. precision >= 0.2")
    found = best(y, -np.arange(float(len(y))), Cautious(goal, 0.2), goal)
    assert found.tp == 10


def test_no_alarms_do_not_count_as_a_floor_that_holds():
    y, scores = np.array([True, False, False, True]), np.array([4.0, 3.0, 2.0, 1.0])
    assert not best(y, scores, Cautious(FLOOR, 100.0), FLOOR).empty
    y, scores = np.array([False, True, False, True]), np.array([4.0, 3.0, 2.0, 1.0])
    for ranking in (FLOOR, Cautious(FLOOR, 100.0)):
        assert best(y, scores, ranking, FLOOR).empty  # only so can it be met


def test_a_goal_that_cannot_be_met_is_missed_by_least():
    goal = Goal.parse("max recall s.t. precision >= 0.9, recall >= 0.9")
    for seed in range(20):
        y, scores = drawn(seed, 100)
        plain = choose_threshold(y, scores, goal)
        assert not plain.feasible
        found = best(y, scores, Cautious(goal, 1.0), goal)
        assert found.violation == plain.violation


def test_there_is_no_caution_without_constraints():
    goal = Goal.parse("max f1")
    assert cautious(goal, 1.0, ONE) is goal
    assert cautious(FLOOR, 0.0, ONE) is FLOOR
    assert cautious(FLOOR, 1.0, (2.0, 1.0)) == Cautious(FLOOR, 1.0, (2.0, 1.0))
    assert not Cautious(Goal.parse("max recall s.t. f1 >= 0.5"), 1.0).is_monotone


def test_the_ranking_orders_points_and_does_not_decide_whether_they_are_feasible():
    counts = ((50, 11), (49, 1))
    many, few = (OperatingPoint(0.0, tp, fp, 100 - tp, 900 - fp, FLOOR) for tp, fp in counts)
    assert many.sort_key > few.sort_key
    fields = [0.2, 1.0, 1.0]
    one, other = (with_caution(point, fields) for point in (many, few))
    assert one.feasible
    assert other.sort_key > one.sort_key
    assert caution_fields(one) == fields
    assert caution_fields(many) is None
    assert with_caution(many, None) is many
    assert one == many
