import json

import numpy as np

from setpoint import FPOR, OFOS, choose_threshold
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training import History, Record
from setpoint.training.history import Patience


def example():
    point = choose_threshold([0, 1, 1, 0], [1, 2, 3, 4], "max recall s.t. fpr <= 0.5")
    return History([Record.of(k, point, 2.0**k, -0.5) for k in range(3)], best_iteration=1)


def test_columns():
    history = example()
    assert history.objective.tolist() == [1.0, 1.0, 1.0]
    assert history.violation.tolist() == [0.0, 0.0, 0.0]
    assert history.lam.tolist() == [1.0, 2.0, 4.0]
    assert history.column("fpr").tolist() == [0.5, 0.5, 0.5]
    assert isinstance(history.objective, np.ndarray)
    assert len(history) == 3
    assert history[1].iteration == 1


def test_round_trip_through_json():
    history = example()
    assert History.from_dict(json.loads(json.dumps(history.to_dict()))) == history


# --- patience -------------------------------------------------------------------------------------


def point(tp, fp=40.0, goal=None):
    return OperatingPoint(0.0, tp, fp, 100.0 - tp, 900.0 - fp, goal or OFOS())


def test_a_gain_smaller_than_chance_is_none():
    first = point(60.0)
    little = 0.05 * first.standard_error * 100  # in true positives, or less in f1
    patience = Patience(2)
    assert not patience.ends_at(first)
    assert not patience.ends_at(point(60.0 + little))
    assert patience.ends_at(point(60.0 + little))


def test_small_gains_add_up_to_one():
    patience = Patience(2)
    seen = [patience.ends_at(point(60.0 + 0.3 * i)) for i in range(20)]
    assert not any(seen)


def test_less_violation_is_a_gain_whatever_the_objective():
    goal = FPOR(0.9)
    patience = Patience(1)
    assert not patience.ends_at(point(60.0, 40.0, goal))
    assert not patience.ends_at(point(50.0, 20.0, goal))
    assert patience.ends_at(point(70.0, 40.0, goal))


def test_without_a_number_it_never_ends():
    patience = Patience(None)
    assert not any(patience.ends_at(point(60.0)) for _ in range(50))


def test_a_state_can_be_restored():
    one, other = Patience(3), Patience(3)
    for _ in range(3):
        one.ends_at(point(60.0))
    other.load_state_dict(one.state_dict())
    assert other.ends_at(point(60.0))
