"""The sweep in torch equals the sweep in numpy to the last bit; here on a CPU."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from setpoint import Goal, choose_threshold
from setpoint.thresholds import gpu as device_sweep
from setpoint.thresholds.gpu import sweep
from setpoint.thresholds.sweep import ClassScores, best_cut, threshold_below
from setpoint.training.problem import Penalised

GOALS = [
    "max recall s.t. precision >= 0.9",
    "max precision s.t. recall >= 0.8",
    "max f1",
    "max recall s.t. fpr <= 0.05, precision >= 0.5",
    "min alarm_rate s.t. recall >= 0.7",  # not monotone
]


@pytest.mark.parametrize("goal", GOALS)
def test_equals_the_sweep_on_the_host(goal):
    for steps, seed in product([2, 30, 10**6], range(3)):
        rng = np.random.default_rng(seed)
        y = rng.random(3000) < 0.2
        scores = np.round(steps * (rng.normal(size=3000) + y)) / steps
        for dtype in (np.float32, np.float64):
            check_equal(goal, y, scores.astype(dtype))


@given(
    st.sampled_from(GOALS),
    st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=30),
)
def test_equals_the_sweep_on_the_host_with_few_rows_and_many_ties(goal, rows):
    y, scores = np.array([r[0] for r in rows]), np.array([r[1] for r in rows], dtype=np.float32)
    assume(y.any() and not y.all())
    check_equal(goal, y, scores)


def test_several_models_at_once_and_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.random(500) < 0.2
    scores = (rng.normal(size=(7, 500)) + rng.random((7, 1)) * y).round(2).astype(np.float32)
    scores[3] = -scores[3]  # worse than chance
    labels, given_scores = torch.from_numpy(y), torch.from_numpy(scores)
    for goal in map(Goal.parse, GOALS):
        one_by_one = [sweep(labels, row[None], goal)[0] for row in given_scores]
        assert sweep(labels, given_scores, goal) == one_by_one
        monkeypatch.setattr(device_sweep, "_NUMBERS", 1500)
        assert sweep(labels, given_scores, goal) == one_by_one
        monkeypatch.undo()


def check_equal(goal, y, scores):
    point = choose_threshold(y, scores, goal)
    labels, given_scores = torch.from_numpy(y), torch.from_numpy(scores)[None]
    (found,) = sweep(labels, given_scores, Goal.parse(goal))
    assert found == (point.threshold, point.tp, point.fp)
    relaxed = Penalised(Goal.parse(goal), 2.5)
    above, below = (ClassScores(scores, None, member) for member in (y, ~y))
    cut = best_cut(above, below, relaxed)
    threshold = threshold_below(cut.lowest_positive, above.sorted, below.sorted)
    assert sweep(labels, given_scores, relaxed) == [(threshold, cut.tp, cut.fp)]
