import json

import numpy as np

from setpoint import choose_threshold
from setpoint.training import History, Record


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
