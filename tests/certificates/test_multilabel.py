"""Certificates of several labels."""

import json

import numpy as np
import pandas as pd
import pytest

from setpoint import GoalError, SetpointError, certify, certify_labels

GOAL = "max recall s.t. precision >= 0.7"


def rows(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.random((n, 3)) < [0.3, 0.2, 0.01]
    return Y, rng.normal(size=Y.shape) + 2.5 * Y


@pytest.mark.parametrize("joint", [True, False])
def test_each_label_is_certified_at_its_part_of_the_error(joint):
    Y, scores = rows()
    found = certify_labels(Y, scores, GOAL, joint=joint, confidence=0.9, names=list("abc"))
    assert found.each == pytest.approx(1 - 0.1 / 3 if joint else 0.9)
    for j, name in enumerate("abc"):
        assert found[name] == certify(Y[:, j], scores[:, j], GOAL, confidence=found.each)
        assert found.thresholds[j] == found[name].threshold
    assert found.certified_labels == ("a", "b")
    assert not found.certified
    assert "2 of 3 labels, 'a', 'b'. Not certified: 'c'." in found.message
    together = "no certificate of the 3 labels is false; each holds at 96.6667 %"
    assert (together in found.message) == joint
    assert ("several certificates may be false" in found.message) == (not joint)
    assert str(found).count("precision >= 0.7") >= 2
    values = json.loads(json.dumps(found.to_dict()))
    assert values["joint"] is joint
    assert values["labels"]["a"]["certified"]
    with pytest.raises(KeyError, match="no label 'd'"):
        found["d"]


def test_goals_and_thresholds_of_each_label():
    Y, scores = rows()
    goals = {"x": GOAL, "y": "max precision s.t. recall >= 0.5", "z": GOAL}
    frame = pd.DataFrame(Y, columns=list("xyz"))
    found = certify_labels(frame, scores, goals, [2.0, 1.5, np.inf])
    assert found["x"] == certify(Y[:, 0], scores[:, 0], GOAL, 2.0, found.each)
    assert found["y"] == certify(Y[:, 1], scores[:, 1], goals["y"], 1.5, found.each)
    assert not found["z"].certified  # nothing is predicted


def test_planning_rows_and_groups():
    Y, scores = rows()
    plan = rows(500, 1)
    found = certify_labels(Y, scores, GOAL, planning_rows=plan, groups=np.arange(len(Y)) // 2)
    first = certify(
        Y[:, 0], scores[:, 0], GOAL, confidence=found.each,
        planning_rows=(plan[0][:, 0], plan[1][:, 0]), groups=np.arange(len(Y)) // 2,
    )  # fmt: skip
    assert found["0"] == first
    assert first.one_per_group


def test_a_label_of_one_class_is_refused():
    Y, scores = rows()
    Y[:, 1], Y[:, 2] = False, True
    for goal in (GOAL, "max precision s.t. recall >= 0.5"):
        found = certify_labels(Y, scores, goal)
        assert "0" in found.certified_labels
        assert "1" not in found.certified_labels


def test_many_labels_are_listed_briefly():
    rng = np.random.default_rng(0)
    Y = rng.random((50, 60)) < 0.3
    found = certify_labels(Y, rng.random(Y.shape), GOAL)
    assert "... (60 labels)" in str(found)
    assert len(found.message) < 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "max micro f1"}, "summed counts of all labels.*cannot be certified"),
        ({"goal": "max recall s.t. micro precision >= 0.9"}, "cannot be certified"),
        ({"thresholds": [1.0]}, "one number for each of 3 labels"),
        ({"planning_rows": 3}, "two matrices"),
        ({"planning_rows": (np.eye(2), np.eye(2))}, "2 labels instead of 3"),
        ({"confidence": 1.5}, "between 0 and 1"),
    ],
)
def test_invalid_arguments(options, message):
    Y, scores = rows(20)
    with pytest.raises((SetpointError, GoalError), match=message):
        certify_labels(Y, scores, **{"goal": GOAL, **options})
