import numpy as np
import pytest

from setpoint import Goal
from setpoint.method.capped_loss import prices
from setpoint.training.descent import Counts, multiplier_step
from setpoint.training.quotient_prices import QuotientPrices

P, N = 40.0, 300.0
GOALS = [
    "max recall s.t. precision >= 0.9",
    "max precision s.t. recall >= 0.9",
    "max f1",
    "max recall s.t. fpr <= 0.1, precision >= 0.5",
    "min fpr s.t. recall >= 0.8",
    "max fbeta(2) s.t. npv >= 0.95",
    "max accuracy",
    "min cost(fp=5, fn=100) s.t. recall >= 0.5",
    "max recall s.t. cost(fp=5, fn=100) <= 4, alarms <= 30",
]


@pytest.mark.parametrize("text", GOALS)
def test_they_are_those_of_every_goal(text):
    goal = Goal.parse(text)
    tp = np.array([0.0, 0.0, 1.0, 20.0, 40.0, 40.0])
    fp = np.array([0.0, 3.0, 0.0, 10.0, 0.0, 300.0])
    counts = Counts(tp, fp)
    multipliers = np.ones((len(goal.constraints), len(tp)))
    ours = multipliers.copy()
    quick = QuotientPrices(goal, P, N, 0.1)
    for _ in range(3):
        multiplier_step(multipliers, goal, counts, P, N, 0.1)
        expected = np.stack(prices(goal, tp, fp, P, N, multipliers), axis=1)
        with np.errstate(all="ignore"):
            found = quick(counts, ours)
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert ours == pytest.approx(multipliers, rel=1e-12)


def test_multipliers_stay_within_their_limits():
    goal = Goal.parse("max recall s.t. precision >= 0.9")
    counts, multipliers = Counts(np.array([40.0, 1.0]), np.array([0.0, 300.0])), np.ones((1, 2))
    quick = QuotientPrices(goal, P, N, 1.0)
    for _ in range(40):
        quick(counts, multipliers)
    assert multipliers[0].tolist() == [1e-3, 1e3]
