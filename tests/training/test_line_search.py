from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from setpoint import Goal, choose_threshold
from setpoint.training import line_search, make_problem
from setpoint.training.bundle import LinearBundle
from setpoint.training.line_search import best_steps, explore, polish, rounds_for, search_lines

GOALS = [
    Goal.parse(goal)
    for goal in (
        "max f1",
        "max recall s.t. precision >= 0.8",
        "max precision s.t. recall >= 0.8",
        "max recall s.t. fpr <= 0.3, precision >= 0.5",
        "max mcc",
        "max recall s.t. alarm_rate <= 0.4",  # not monotone
        "min fpr s.t. recall >= 0.5",
    )
]
F1 = GOALS[0]


def rank(alarm, positive, weight, goal):
    tp, fp = weight[alarm & positive].sum(), weight[alarm & ~positive].sum()
    at = (tp, fp, weight[positive].sum(), weight[~positive].sum())
    with np.errstate(all="ignore"):
        return -float(goal.violation(*at)), float(goal.gain(*at)), tp, -fp


def brute_force(margins, direction, positive, weight, goal):
    """Try no step, the middle between neighbouring changes, and both ends, in whole fractions."""
    m, u = [[Fraction(int(v)) for v in vector] for vector in (margins, direction)]
    changes = sorted({-a / b for a, b in zip(m, u, strict=True) if b}) or [Fraction(0)]
    taus = [Fraction(0), changes[0] - 1, *((a + b) / 2 for a, b in pairwise(changes))]
    return max(
        rank(np.array([a + tau * b > 0 for a, b in zip(m, u, strict=True)]), positive, weight, goal)
        for tau in [*taus, changes[-1] + 1]
    )


@st.composite
def lines(draw):
    """Margins and directions in small whole numbers, so that many change together or never."""
    n, m = draw(st.integers(2, 10)), draw(st.integers(1, 3))
    whole = st.integers(-3, 3)
    margins = draw(st.lists(whole, min_size=n, max_size=n))
    directions = draw(st.lists(st.lists(whole, min_size=m, max_size=m), min_size=n, max_size=n))
    positive = [True, False, *draw(st.lists(st.booleans(), min_size=n - 2, max_size=n - 2))]
    # Multiples of 1/4 add up exactly in any order.
    weight = draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    arrays = (np.array(a, float) for a in (margins, directions))
    return *arrays, np.array(positive), np.array(weight) / 4


@given(lines(), st.sampled_from(GOALS))
def test_the_best_step_is_that_of_brute_force(line, goal):
    margins, directions, positive, weight = line
    steps, ranks = best_steps(margins, directions.T, positive, weight, goal)
    for step, found, direction in zip(steps, ranks, directions.T, strict=True):
        assert tuple(found) == brute_force(margins, direction, positive, weight, goal)
        assert tuple(found) == rank(margins + step * direction > 0, positive, weight, goal)


@given(lines(), st.sampled_from(GOALS), st.integers(1, 4))
def test_with_a_window_a_step_is_the_best_of_those_within_it(line, goal, window):
    margins, directions, positive, weight = line
    steps, ranks = best_steps(margins, directions.T, positive, weight, goal, window=window)
    for step, found, u in zip(steps, ranks, directions.T, strict=True):
        if found[0] == -np.inf:  # all changes within the window are at no step at all
            assert (margins == 0).sum() > window
            continue
        assert tuple(found) == rank(margins + step * u > 0, positive, weight, goal)
        assert tuple(found) >= rank(margins > 0, positive, weight, goal) or (margins == 0).any()
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = np.sort(np.abs(np.where(u == 0, np.inf, margins / u)))
        if len(changes) > window:
            assert abs(step) <= changes[window]


@given(lines(), st.sampled_from(GOALS))
def test_fixed_rows_count_as_they_are(line, goal):
    margins, directions, positive, weight = line
    others = np.array([True, True, False, False, False])
    alarms = np.array([True, False, True, False, False])
    counts = [(others & alarms).sum(), (~others & alarms).sum(), others.sum(), (~others).sum()]
    fixed = tuple(float(count) for count in counts)
    one = best_steps(margins, directions.T, positive, weight, goal, fixed)
    # The same rows, without a direction: their decisions never change.
    still = np.where(alarms, 1.0, -1.0)
    all_rows = (
        np.concatenate([margins, still]),
        np.concatenate([directions, np.zeros((5, directions.shape[1]))]).T,
        np.concatenate([positive, others]),
        np.concatenate([weight, np.ones(5)]),
    )
    other = best_steps(*all_rows, goal)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_allclose(one[1], other[1])


def test_a_step_goes_to_the_middle_or_well_beyond_the_ends():
    y, one = np.array([False, True]), np.ones(2)
    between, _ = best_steps(np.array([-5.0, -3.0]), np.ones((1, 2)), y, one, F1)
    assert between[0] == 4.0
    beyond, _ = best_steps(np.array([3.0, -5.0]), np.array([[0.0, 1.0]]), y, one, F1)
    assert beyond[0] == 10.0
    before, _ = best_steps(np.array([3.0, -0.5]), np.array([[0.0, -1.0]]), y, one, F1)
    assert before[0] == -1.5


def test_without_a_direction_there_is_no_step():
    margins, y = np.array([1.0, -1.0, 0.0]), np.array([True, False, True])
    steps, ranks = best_steps(margins, np.zeros((1, 3)), y, np.ones(3), F1)
    assert steps[0] == 0.0
    assert tuple(ranks[0]) == rank(margins > 0, y, np.ones(3), F1)  # a margin of 0 is negative


def test_weights_that_round_leave_nothing_behind():
    """0.1 + 0.2 + 0.3 - 0.3 - 0.2 - 0.1 is not 0, but an empty decision has a precision of 1."""
    margins, y = np.array([1.0, 4.0, 3.0, 2.0]), np.array([True, False, False, False])
    goal, weight = Goal.parse("max recall s.t. precision >= 0.9"), np.array([0.1, 0.1, 0.2, 0.3])
    _, ranks = best_steps(margins, np.full((1, 4), -1.0), y, weight, goal)
    assert -ranks[0, 0] == choose_threshold(y, margins, goal, sample_weight=weight).violation == 0


# --- polish ------------------------------------------------------------------------------------


def polished(w, X, y, goal, seed=0, rounds=5, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    start = choose_threshold(y, X @ w, goal, sample_weight=weight)
    rng = np.random.default_rng(seed)
    end = polish(w, X, y, weight, goal, rng, rounds)
    return end, start, choose_threshold(y, X @ end, goal, sample_weight=weight)


def overlapping(n, d, seed):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    y[:2] = True, False
    return rng.normal(size=(n, d)) + 0.8 * y[:, None], y, rng.normal(size=d)


@st.composite
def tied_problems(draw):
    n, d = draw(st.integers(2, 8)), draw(st.integers(1, 2))
    whole = st.integers(-9, 9)
    X = draw(st.lists(st.lists(whole, min_size=d, max_size=d), min_size=n, max_size=n))
    w = draw(st.lists(st.integers(-9, 9), min_size=d, max_size=d))
    positive = [True, False, *draw(st.lists(st.booleans(), min_size=n - 2, max_size=n - 2))]
    return np.array(X) / 10, np.array(positive), np.array(w) / 7


@given(tied_problems(), st.sampled_from(GOALS))
# All decisions change at tau = -1, but for rounding: what lies between is not there.
@example((np.array([[-0.3], [-0.5], [0.3]]), np.array([1, 0, 0], bool), np.array([-1.34])), F1)
def test_never_worse_where_many_decisions_change_at_once(problem, goal):
    X, y, w = problem
    _, start, end = polished(w, X, y, goal)
    assert end.rank >= start.rank


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_never_worse_and_mostly_better(goal, seed):
    X, y, w = overlapping(80, 4, seed)
    weight = np.random.default_rng(seed).integers(1, 5, size=80) / 4
    _, start, end = polished(w, X, y, goal, rounds=10, weight=weight)
    assert end.rank > start.rank  # the start is a random direction


def test_a_wrong_sign_is_put_right():
    X, y = np.arange(-4.0, 4.0)[:, None] + 0.5, np.arange(8) >= 4
    w, start, end = polished(np.array([-1.0]), X, y, F1, rounds=2)
    assert start.f1 < 1
    assert end.f1 == 1
    assert w[0] > 0


def test_no_rounds_change_nothing():
    X, y, w = overlapping(30, 3, 0)
    assert (polished(w, X, y, F1, rounds=0)[0] == w).all()


def test_the_generator_decides():
    X, y, w = overlapping(60, 3, 1)
    before = w.copy()
    one, again, other = (polished(w, X, y, F1, seed=seed)[0] for seed in (0, 0, 1))
    assert (one == again).all()
    assert (one != other).any()
    assert (w == before).all()


def test_a_plateau_is_walked_in_more_than_one_direction():
    X = np.array([[1.0, 1], [2, 1], [1, 2], [-1, -1], [-2, -1], [-1, -2]])
    y = np.arange(6) < 3
    w, start, end = polished(np.array([1.0, 1.0]), X, y, F1, rounds=10)
    assert start.f1 == end.f1 == 1
    assert (w != [1.0, 1.0]).all()


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_exploring_never_makes_worse_and_finds_what_polishing_misses(goal):
    rng = np.random.default_rng(3)
    gains = 0
    for seed in range(4):
        draw = np.random.default_rng(seed)
        y = np.arange(40) < 12
        X = draw.normal(size=(40, 3)) + 1.2 * y[:, None] * np.array([1.0, 0.5, 0.0])
        weight = np.ones(40)
        start = draw.normal(size=3)
        polished = polish(start, X, y, weight, goal, rng, 2)
        before = choose_threshold(y, X @ polished, goal)
        explored = explore(polished, X, y, weight, goal, rng, 200)
        after = choose_threshold(y, X @ explored, goal)
        assert after.rank >= before.rank
        assert np.linalg.norm(explored) == pytest.approx(np.linalg.norm(polished))
        gains += after.rank > before.rank
    if goal in (F1, GOALS[2]):
        assert gains


def test_without_rounds_nothing_is_explored():
    w, X, y = np.array([1.0, 2.0]), np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) < 4
    assert explore(w, X, y, np.ones(10), F1, np.random.default_rng(0), 9) is w


# --- the models of a bundle -----------------------------------------------------------------------


def bundle_of(problem, seeds):
    module = torch.nn.Linear(problem.X.shape[1], 1).double()
    starts = []
    for seed in seeds:
        torch.manual_seed(seed)
        starts.append({"weight": torch.randn_like(module.weight), "bias": torch.zeros(1)})
    return LinearBundle(module, starts)


def points_of(problem, bundle):
    return problem.points_of(bundle.scores(problem.X))


@pytest.mark.parametrize("goal", ["max f1", "max recall s.t. precision >= 0.8"])
def test_many_rows_are_searched_near_the_threshold(goal, monkeypatch):
    monkeypatch.setattr(line_search, "_NEAR_ROWS", 60)
    monkeypatch.setattr(line_search, "_WINDOW", 20)
    X, y, _ = overlapping(3000, 4, 0)
    problem = make_problem(torch.from_numpy(X), torch.from_numpy(y), goal)
    bundle = bundle_of(problem, range(3))
    before = points_of(problem, bundle)
    search_lines(problem, bundle, before, range(3), 10**6, seed=0)
    after = points_of(problem, bundle)
    assert all(b.sort_key >= a.sort_key for a, b in zip(before, after, strict=True))
    assert max(p.sort_key for p in after) > max(p.sort_key for p in before)


def test_effort_and_memory_limit_the_rounds(monkeypatch):
    X, y, _ = overlapping(100, 3, 0)
    problem = make_problem(torch.from_numpy(X), torch.from_numpy(y), "max f1")
    assert rounds_for(problem, 1000) == 0
    assert 0 < rounds_for(problem, 10**5) < rounds_for(problem, 10**6)
    assert rounds_for(problem, 10**12) == line_search._MOST_ROUNDS
    monkeypatch.setattr(line_search, "_MOST_NUMBERS", 299)
    assert rounds_for(problem, 10**12) == 0


def test_a_column_without_spread_keeps_its_weight():
    """Its weight has no effect on these rows, but would have one on others."""
    X, y, w = overlapping(300, 4, 0)
    X[:, 3] = 0.0
    end = polish(w, X, y, np.ones(300), F1, np.random.default_rng(0), 100)
    assert end[3] == w[3]
    assert (end[:3] != w[:3]).any()


@pytest.mark.parametrize("seed", range(3))
def test_weights_stay_bounded(seed):
    X, y, w = overlapping(40, 3, seed)
    end = polish(w, X, y, np.ones(40), GOALS[1], np.random.default_rng(seed), 300)
    threshold = choose_threshold(y, X @ w, GOALS[1]).threshold
    assert np.abs(end).max() <= line_search._MOST_GROWTH * max(*np.abs(w), abs(threshold))


def test_many_features_are_searched_without_an_inverse(monkeypatch):
    monkeypatch.setattr(line_search, "_MOST_FEATURES", 4)
    X, y, w = overlapping(80, 4, 0)
    _, start, end = polished(w, X, y, F1, rounds=20)
    assert end.rank > start.rank


def test_rows_without_a_spread_do_no_harm():
    """All rows equal, or at the threshold: moments and distances are zero."""
    X, y = np.zeros((50, 3)), np.arange(50) < 20
    problem = make_problem(torch.from_numpy(X), torch.from_numpy(y), "max f1")
    bundle = bundle_of(problem, range(2))
    search_lines(problem, bundle, points_of(problem, bundle), range(2), 10**6, seed=0)
    assert bundle.matrix.isfinite().all()
