"""The objective averaged over random halves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint import Goal, choose_threshold, define_metric
from setpoint.thresholds import halves as module
from setpoint.thresholds.halves import Halves

# A metric that needs its totals as numbers: a condition on an array would raise.
define_metric(
    "halves_test_profit",
    lambda tp, fp, P, N: (5 * tp - fp) / (5 * P if P > 0 else 1.0),
    bounds=(-1e9, 1.0),
)
# The best cut is often just below a negative.
define_metric("halves_test_false_alarms", lambda tp, fp, P, N: fp / N, monotone=False)
GOALS = [
    "max recall s.t. precision >= 0.7",
    "max precision s.t. recall >= 0.6",
    "min fpr s.t. recall >= 0.6",
    "max f1",
    "max mcc",
    "max recall s.t. fpr <= 0.1, precision >= 0.8",
    "max precision s.t. recall >= 0.9, fpr <= 0.05",  # often infeasible
    "max f1 s.t. recall >= 1, precision >= 1",
    "max recall s.t. alarm_rate <= 0.3",  # not monotone
    "max precision s.t. recall >= 0.8, alarm_rate <= 0.2",  # neither monotone nor feasible
    "max halves_test_false_alarms s.t. precision >= 0.5",
    "max halves_test_profit s.t. recall >= 0.5",
]


def rows(seed, n=40, digits=1, weighted=False):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    y[:4] = True, False, True, False
    scores = np.round(rng.normal(size=n) + y, digits)  # with ties
    return y, scores, rng.integers(1, 5, n) / 3 if weighted else None


def members(halves, n):
    """Return the weights of all rows in each half, from what the object holds."""
    found = np.zeros((len(halves._classes[0][1]), n))
    for own, inside, _ in halves._classes:
        found[:, own] = inside
    return found


def worth(y, scores, weight, goal):
    """The gain at the exact threshold of one half; a violation lowers it."""
    point = choose_threshold(y, scores, goal, sample_weight=weight)
    gain = Goal.parse(goal).objective.sign * point.objective
    return gain if point.feasible else gain - 1 - point.violation


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("goal", GOALS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 50), digits=st.integers(0, 2))
def test_as_by_the_exact_threshold_of_each_half(goal, weighted, seed, n, digits):
    y, scores, weight = rows(seed, n, digits, weighted)
    halves = Halves(y, weight)
    tried = [worth(y, scores, own, goal) for own in members(halves, n)]
    assert halves.average(scores, Goal.parse(goal)) == pytest.approx(np.mean(tried), abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("goal", GOALS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 50))
def test_each_half_is_counted_at_the_threshold_of_the_other(goal, weighted, seed, n):
    y, scores, weight = rows(seed, n, 1, weighted)
    halves = Halves(y, weight)
    every = members(halves, n)
    rates = []
    for half, own in enumerate(every):
        other = every[half ^ 1]
        alarm = scores > choose_threshold(y, scores, goal, sample_weight=own).threshold
        rates.append([other[alarm & c].sum() / other[c].sum() for c in (y, ~y)])
    found = halves.cross_fitted(scores, Goal.parse(goal))
    assert found == pytest.approx(np.mean(rates, axis=0).tolist())


def test_cross_fitted_rates_are_not_optimistic():
    """Of noise, a precision above the prevalence is luck, and other rows do not share it."""
    goal = Goal.parse("max recall s.t. precision >= 0.5")
    counted, tp, alarms = [], 0.0, 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = np.arange(400) % 4 == 0
        scores = rng.normal(size=400)
        counted.append(choose_threshold(y, scores, goal).precision)
        recall, fpr = Halves(y).cross_fitted(scores, goal)
        tp, alarms = tp + recall * 100, alarms + recall * 100 + fpr * 300
    assert min(counted) >= 0.5
    assert tp / alarms == pytest.approx(0.25, abs=0.05)
    separable = np.where(y, 2.0, 1.0)
    assert Halves(y).cross_fitted(separable, goal) == (1.0, 0.0)


def test_halves_of_equal_weight_and_others_are_computed_alike():
    """Equal totals are computed at once, other ones half by half."""
    y, scores, _ = rows(0)
    for goal in map(Goal.parse, GOALS):
        plain = Halves(y).average(scores, goal)
        assert Halves(y, np.full(len(y), 2.0)).average(scores, goal) == pytest.approx(plain)
        nearly = np.where(np.arange(len(y)) < 5, 1 + 1e-12, 1.0)
        assert Halves(y, nearly).average(scores, goal) == pytest.approx(plain)


@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), positives=st.integers(2, 9), negatives=st.integers(2, 30))
def test_pairs_of_halves_share_no_row_and_have_the_same_classes(
    weighted, seed, positives, negatives
):
    y = np.random.default_rng(seed).permutation(np.arange(positives + negatives) < positives)
    weight = np.linspace(0.5, 3, len(y)) if weighted else None
    inside = members(Halves(y, weight), len(y))
    assert len(inside) == 8
    assert ((inside > 0)[:, y].sum(axis=1) == positives // 2).all()
    assert ((inside > 0)[:, ~y].sum(axis=1) == negatives // 2).all()
    own = np.ones(len(y)) if weight is None else weight
    for one, two in zip(inside[::2], inside[1::2], strict=True):
        assert not (one * two).any()
        assert (one + two == own * (one + two > 0)).all()
        assert (one + two == 0).sum() == positives % 2 + negatives % 2


def test_halves_differ_and_are_the_same_for_all_models():
    y, *_ = rows(0)
    inside = members(Halves(y), len(y))
    assert len(np.unique(inside, axis=0)) == 8
    assert (members(Halves(y), len(y)) == inside).all()


def test_many_rows_have_fewer_halves(monkeypatch):
    y, *_ = rows(0, 40)
    for numbers, expected in ((160, 8), (159, 6), (80, 4), (40, 2), (10, 2)):
        monkeypatch.setattr(module, "_NUMBERS", numbers)
        assert len(members(Halves(y), len(y))) == expected


@pytest.mark.parametrize("goal", GOALS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_only_the_order_of_the_scores_counts(goal, seed):
    y, scores, weight = rows(seed, weighted=seed % 2 == 0)
    halves, goal = Halves(y, weight), Goal.parse(goal)
    expected = halves.average(scores, goal)
    for other in (5 * scores - 3, np.exp(scores), np.arctan(scores), scores**3 + scores):
        assert halves.average(other, goal) == expected
    assert halves.average(scores.astype(np.float32), goal) == expected


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_perfect_scores_have_the_best_value_and_no_others_more(seed, weighted):
    y, scores, weight = rows(seed, weighted=weighted)
    halves = Halves(y, weight)
    for goal in map(Goal.parse, GOALS):
        if not goal.is_monotone:
            continue
        best = 0.0 if goal.objective.name == "fpr" else 1.0
        assert halves.average(y.astype(float), goal) == pytest.approx(best)
        assert halves.average(scores, goal) <= best + 1e-12


def test_no_alarm_at_all_is_a_cut():
    """All scores are equal: recall is 1 or 0, and only 0 meets the floor of precision."""
    y = np.arange(40) < 10
    goal = Goal.parse("max recall s.t. precision >= 0.9")
    assert Halves(y).average(np.zeros(40), goal) == 0.0
    assert Halves(y).average(np.zeros(40), Goal.parse("max recall")) == 1.0


def test_a_half_that_misses_the_goal_counts_less_than_any_other():
    y = np.arange(40) < 20
    goal = Goal.parse("max f1 s.t. recall >= 1, fpr <= 0.25")
    same = np.zeros(40)  # the least violation: all alarms, fpr 1, or none, recall 0
    f1 = 2 * 0.5 / 1.5
    assert Halves(y).average(same, goal) == pytest.approx(f1 - 1 - 0.75)


def test_infinite_scores_are_scores():
    y, scores, _ = rows(3)
    halves, goal = Halves(y), Goal.parse("max f1")
    moved = scores.copy()
    moved[scores == scores.max()] = np.inf
    assert halves.average(moved, goal) == halves.average(scores, goal)


def test_no_threshold_lies_below_the_score_minus_infinity():
    y = np.array([True, True, False, False])
    scores = np.where(y, -np.inf, 0.0)
    goal = Goal.parse("max recall")
    assert choose_threshold(y, scores, goal).recall == 0.0
    assert Halves(y).average(scores, goal) == 0.0
