import ctypes
import os
import sys

import numpy as np
import pytest

from setpoint import Goal, SetpointError, choose_threshold
from setpoint.method.referee import _without_highs_output, solve_exactly

GOALS = [
    "max f1",
    "max recall s.t. precision >= 0.8",
    "max precision s.t. recall >= 0.8",
    "max recall s.t. precision >= 0.6, fpr <= 0.3",
    "max recall s.t. alarm_rate <= 0.2",  # not monotone: both rows for every sample
]
ALL_GOALS = [
    *GOALS,
    "min fpr s.t. recall >= 0.7",
    "min alarm_rate s.t. recall >= 0.5",
    "max precision s.t. alarm_rate <= 0.5, recall >= 0.3",
    "max balanced_accuracy",
    "max accuracy s.t. npv >= 0.9",
    "max f1 s.t. precision >= 0.9, recall >= 0.7",  # mostly out of reach
]


def on_a_grid(d, seed):
    """Integers: rows that can be separated can be separated with a margin."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 15))
    y = rng.random(n) < 0.4
    y[:2] = True, False
    return rng.integers(0, 7, size=(n, d)).astype(float), y


def overlapping(n, d, seed):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return rng.normal(size=(n, d)) + 0.7 * y[:, None], y


def all_directions(X):
    """Return a weight vector for every order of the rows by X @ w, for one or two columns.

    The order changes where w is normal to the difference of two rows; one w is taken from every
    arc between two such directions.
    """
    if X.shape[1] == 1:
        return np.array([[1.0], [-1.0]])
    i, j = np.triu_indices(len(X), 1)
    pairs = (X[i] - X[j])[(X[i] != X[j]).any(axis=1)]
    normal = np.arctan2(pairs[:, 0], -pairs[:, 1])
    angles = np.unique(np.concatenate([normal, normal + np.pi]).round(12) % (2 * np.pi))
    middle = (angles + np.append(angles[1:], angles[0] + 2 * np.pi)) / 2
    return np.column_stack([np.cos(middle), np.sin(middle)])


def brute_force(X, y, goal):
    return max((choose_threshold(y, X @ w, goal) for w in all_directions(X)), key=lambda p: p.rank)


def check_against_brute_force(X, y, goal):
    found, best = solve_exactly(X, y, goal), brute_force(X, y, goal)
    assert found.proven
    assert found.operating_point.feasible == best.feasible
    if best.feasible:
        assert found.operating_point.rank == best.rank
        assert found.bound == pytest.approx(best.objective)


@pytest.mark.parametrize("goal", ALL_GOALS)
def test_equals_brute_force_on_one_feature(goal):
    for seed in range(2):
        check_against_brute_force(*on_a_grid(1, seed), goal)


@pytest.mark.parametrize("goal", GOALS)
def test_equals_brute_force_on_two_features(goal):
    for seed in range(2):
        check_against_brute_force(*on_a_grid(2, seed), goal)


def test_better_than_its_starting_point():
    """Positives on both sides of the negatives, fewer on one: logistic regression misses them."""
    X = np.array([[-9.0], [-8], [-7], [0], [1], [2], [3], [4], [20], [21]])
    y = np.array([1, 1, 1, 0, 0, 0, 0, 0, 1, 1], bool)
    found = solve_exactly(X, y, "max recall s.t. precision >= 1")
    assert found.coef[0] < 0
    assert found.operating_point.recall == 0.6


@pytest.mark.parametrize("goal", GOALS)
def test_the_weights_have_the_reported_operating_point(goal):
    X, y = overlapping(20, 3, seed=1)
    X = X * [1.0, 30.0, 0.01] + [0.0, 100.0, 5.0]  # the box and the big M use standardized ones
    found = solve_exactly(X, y, goal)
    alarm = X @ found.coef > found.operating_point.threshold
    assert found.coef.shape == (3,)
    assert found.operating_point.tp == (alarm & y).sum()
    assert found.operating_point.fp == (alarm & ~y).sum()
    assert found.operating_point.fn + found.operating_point.tp == y.sum()
    assert found.operating_point.goal == Goal.parse(goal)


def test_moving_and_stretching_the_data_changes_nothing():
    X, y = on_a_grid(2, seed=5)
    here = solve_exactly(X, y, "max f1").operating_point
    there = solve_exactly(X * [1e-3, 1e3] + [7.0, -1e4], y, "max f1").operating_point
    assert here.rank == there.rank


@pytest.mark.parametrize("goal", ["max f1", "min fpr s.t. recall >= 0.9"])
def test_a_problem_too_hard_for_the_time_gives_the_best_so_far_and_a_bound(goal):
    X, y = overlapping(150, 8, seed=0)
    found = solve_exactly(X, y, goal, time_limit=0.5)
    assert not found.proven
    assert found.operating_point.feasible
    sign = Goal.parse(goal).objective.sign
    assert sign * found.bound > sign * found.operating_point.objective
    assert 0 <= found.bound <= 1
    logistic = solve_exactly(X, y, goal, time_limit=0.0)
    assert found.operating_point.rank >= logistic.operating_point.rank


def test_without_time_the_bound_comes_from_the_counts():
    X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    found = solve_exactly(X, y, "max recall s.t. alarm_rate <= 0.2", time_limit=0.0)
    assert not found.proven
    assert found.operating_point.recall == 0.2
    assert found.bound == 0.4  # both alarms true ones


def test_identical_rows_get_the_same_decision():
    found = solve_exactly(np.ones((5, 2)), [0, 1, 0, 1, 1], "max f1")
    assert found.proven
    assert (found.operating_point.tp, found.operating_point.fp) == (3, 2)


@pytest.mark.parametrize("objective", ["max f1", "min fpr"])
def test_a_goal_that_no_linear_model_meets(objective):
    X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0]])
    y = [1, 1, 0, 0]
    found = solve_exactly(X, y, f"{objective} s.t. precision >= 0.9, recall >= 0.9")
    assert not found.operating_point.feasible
    assert found.proven
    assert np.isinf(found.bound)


GOOD = np.arange(5.0)[:, None]
LABELS = [0, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("X", "y", "goal", "expected"),
    [
        (np.zeros((400, 5)), np.arange(400) % 2, "max f1", "400 rows of 5 features are too many"),
        (GOOD, LABELS, "max gmean", "'gmean' is not a quotient of linear functions"),
        (GOOD, LABELS, "max recall s.t. mcc >= 0.5", "'mcc' is not a quotient"),
        (np.where(GOOD == 2, np.nan, GOOD), LABELS, "max f1", "X must be finite"),
        (np.where(GOOD == 2, np.inf, GOOD), LABELS, "max f1", "X must be finite"),
        (GOOD[:, 0], LABELS, "max f1", r"at least one feature; its shape is \(5,\)"),
        (GOOD, [0, 1], "max f1", r"one label per row of X, 5, not \(2,\)"),
        (np.zeros((0, 2)), [], "max f1", "no samples"),
        (GOOD, [1] * 5, "max f1", "no negative samples"),
        (GOOD, [0] * 5, "max f1", "no positive samples"),
        (np.zeros((5, 0)), LABELS, "max f1", "feature"),
        (GOOD, LABELS, "max nonsense", "unknown metric"),
    ],
)
def test_invalid_input_raises(X, y, goal, expected):
    with pytest.raises(SetpointError, match=expected):
        solve_exactly(X, y, goal)


def test_force_tries_problems_that_are_too_large():
    X, y = overlapping(400, 5, seed=0)
    found = solve_exactly(X, y, "max f1", force=True, time_limit=0.2)
    assert 0 < found.operating_point.f1 <= found.bound <= 1


# --- the terminal ----------------------------------------------------------------------------

LIBC = pytest.mark.skipif(sys.platform == "win32", reason="asks the C library of a POSIX system")


def all_that_was_printed(capfd):
    """Return the output, including the C library's buffer."""
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out


@LIBC
def test_the_solver_prints_nothing(capfd):
    # Here HiGHS 1.12 prints a line about transformNewIntegerFeasibleSolution.
    solve_exactly(*overlapping(60, 3, seed=5), "max f1", time_limit=1.0)
    assert all_that_was_printed(capfd) == ""


def test_other_output_meanwhile_is_kept(capfd):
    print("before")
    with _without_highs_output():
        os.write(1, b"HighsMipSolverData: a stray line\n")
        print("meanwhile, through Python")
        sys.stdout.flush()
        os.write(1, b"meanwhile, past it\n")
    print("after")
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["before", "meanwhile, through Python", "meanwhile, past it", "after"]


@LIBC
def test_lines_in_the_buffer_of_the_c_library_are_filtered(capfd):
    """HiGHS prints with printf, whose output to a file or pipe is buffered."""
    with _without_highs_output():
        ctypes.CDLL(None).puts(b"HighsMipSolverData: a stray line")
    assert all_that_was_printed(capfd) == ""


def test_output_is_restored_after_an_error(capfd):
    def fail():
        print("last words")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), _without_highs_output():
        fail()
    print("after")
    assert capfd.readouterr().out == "last words\nafter\n"


def test_an_outlier_that_prevents_a_proof_raises():
    X = np.column_stack([np.arange(20.0), np.arange(20.0) % 5])
    X[3, 1] = 1e6
    y = np.arange(20) % 3 == 0
    with pytest.raises(SetpointError, match="feature 1 has an outlier"):
        solve_exactly(X, y, "max f1")
    assert solve_exactly(X, y, "max f1", force=True).operating_point.f1 > 0


def test_indicator_features_are_not_outliers():
    rare = np.arange(30.0) < 3
    X = np.column_stack([np.arange(30.0) % 7, rare, np.zeros(30)])
    assert solve_exactly(X, np.arange(30) % 4 == 0, "max f1", time_limit=20).operating_point.f1 > 0


def test_labels_may_be_texts():
    X, y = GOOD, np.where(np.array(LABELS) == 1, "ill", "well")
    named = solve_exactly(X, y, "max f1", pos_label="ill")
    assert named.operating_point.f1 == solve_exactly(X, LABELS, "max f1").operating_point.f1
    with pytest.raises(SetpointError, match="pass pos_label"):
        solve_exactly(X, y, "max f1")


@pytest.mark.parametrize("limit", [-1.0, np.nan, "a", None])
def test_the_time_limit_must_be_a_time(limit):
    with pytest.raises(SetpointError, match="time_limit must be a number of seconds"):
        solve_exactly(GOOD, LABELS, "max f1", time_limit=limit)


def test_goals_that_name_columns_are_refused():
    for goal in ("min cost(fp=5, fn=amount)", "max f1 s.t. recall >= 0.5 for each region"):
        with pytest.raises(SetpointError, match="which an exact solution does not read; compare"):
            solve_exactly(np.zeros((4, 1)), [0, 1, 0, 1], goal)
