import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.data.labels import Labels


def test_the_larger_label_is_positive_by_default():
    assert Labels.of(np.array([3, 5, 3])).positive == 5
    assert Labels.of(np.array([3, 5, 3]), pos_label=3).positive == 3
    assert Labels.of(np.array(["yes", "no"])).positive == "yes"


@pytest.mark.parametrize("pos_label", ["no", "yes"])
def test_labels_and_decisions_are_inverse(pos_label):
    y = np.array(["yes", "no", "no", "yes"])
    labels = Labels.of(y, pos_label)
    assert (labels.is_positive(y) == (y == pos_label)).all()
    assert (labels.of_decisions(labels.is_positive(y)) == y).all()


def test_a_frequent_positive_text_warns():
    y = np.array(["high"] + ["low"] * 9)
    with pytest.warns(UserWarning, match=r"'low' is the positive class, though it makes up 90%"):
        assert Labels.of(y).positive == "low"
    assert Labels.of(y, pos_label="high").positive == "high"
    assert Labels.of(np.array([0] + [1] * 9)).positive == 1  # numbers are taken at their word


def test_labels_of_mixed_types():
    with pytest.raises(SetpointError, match="mixes labels"):
        Labels.of(np.array([0, "1", 0], dtype=object))


def test_unknown_labels_of_any_type():
    labels = Labels.of(np.array(["a", "b"]), pos_label="a")
    with pytest.raises(SetpointError, match="labels None, 5, which were not there"):
        labels.is_positive(np.array(["a", None, 5], dtype=object))


def test_counts():
    labels = Labels.of(np.array([0, 1]))
    labels.check_counts(np.array([True, True, False]))
    with pytest.raises(SetpointError, match="class 1 has 1 row of positive weight.*at least 2"):
        labels.check_counts(np.array([True, False]))
    with pytest.raises(SetpointError, match="class 0 has 0 rows"):
        labels.check_counts(np.array([True, True]))
