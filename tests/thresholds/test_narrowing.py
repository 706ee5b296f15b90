import numpy as np
import pytest

from setpoint import Goal
from setpoint.thresholds import choose, narrowing
from setpoint.thresholds.choose import best_point
from setpoint.thresholds.narrowing import best_cut_of_many
from setpoint.training.problem import Penalised

GOALS = [
    "max recall s.t. precision >= 0.9",
    "max recall s.t. precision >= 0.3",
    "max precision s.t. recall >= 0.9",
    "max precision s.t. recall >= 0.99",
    "max f1",
    "max recall s.t. fpr <= 0.1, precision >= 0.5",
]
SHAPES = {
    "normal": lambda scores: scores,
    "ties": lambda scores: np.round(scores, 1),
    "outliers": lambda scores: np.exp(4 * scores),
    "float32": lambda scores: scores.astype(np.float32),
}


def drawn(seed, shape):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(100, 3000))
    y = rng.random(n) < rng.choice([0.01, 0.1, 0.5])
    y[:2] = True, False
    return y, SHAPES[shape](rng.normal(size=n) + y * rng.choice([0, 1, 3]))


@pytest.mark.parametrize("text", GOALS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_point_is_that_of_a_sort(monkeypatch, text, shape):
    goal = Goal.parse(text)
    found_directly = 0
    for seed in range(25):
        y, scores = drawn(seed, shape)
        for ranking in (goal, Penalised(goal, 0.5), Penalised(goal, 500.0)):
            monkeypatch.setattr(choose, "MANY", 10**9)
            expected = best_point(y, scores, None, ranking, goal, "rows")
            for module in (choose, narrowing):
                monkeypatch.setattr(module, "MANY", 60)
            assert best_point(y, scores, None, ranking, goal, "rows") == expected
            found_directly += best_cut_of_many(scores[y], scores[~y], ranking) is not None
    assert found_directly > 20


@pytest.mark.parametrize(
    ("positive", "negative"),
    [
        ([1.0, 2.0, np.inf], [0.0]),  # no intervals
        ([0.0, 0.0], [-1.0, 1.0]),  # no alarm is better
        ([1.0, 2.0], [3.0]),  # nothing but alarms
    ],
)
def test_some_cuts_need_all_scores(monkeypatch, positive, negative):
    monkeypatch.setattr(narrowing, "MANY", 1)
    goal = Goal.parse("max recall s.t. precision >= 0.6")
    y = np.repeat([True, False], [len(positive), len(negative)])
    scores = np.array(positive + negative)
    expected = best_point(y, scores, None, goal, goal, "rows")
    monkeypatch.setattr(choose, "MANY", 1)
    assert best_point(y, scores, None, goal, goal, "rows") == expected
