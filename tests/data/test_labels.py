import numpy as np
import pandas as pd
import pytest

from setpoint import SetpointError
from setpoint.data.label_columns import read_target
from setpoint.data.labels import Labels, same_label


@pytest.mark.parametrize(
    ("counts", "positive"),
    [
        ({0: 1, 1: 9}, 1),
        ({-1: 1, 1: 9}, 1),
        ({False: 1, True: 9}, True),
        ({3: 9, 5: 1}, 5),
        ({"no": 1, "yes": 9}, "yes"),
        ({"NO": 9, "Yes": 1}, "Yes"),
        ({"false": 1, "true": 9}, "true"),
        ({"Negative": 1, "Positive": 9}, "Positive"),
        ({"0": 1, "1": 9}, "1"),
        ({"fraud": 1, "ok": 9}, "fraud"),
        ({"benign": 9, "malignant": 1}, "malignant"),
        ({"fraud": 5, "ok": 5}, "ok"),
        ({"fraud": 9, "ok": 11}, "ok"),  # neither is clearly rarer
    ],
)
@pytest.mark.filterwarnings("ignore:pos_label is not given")
def test_arrays_and_columns_have_the_same_positive_label(counts, positive):
    y = np.repeat(list(counts), list(counts.values()))
    found = Labels.of(y)
    assert found.positive == positive
    assert found.classes.tolist() == sorted(counts)
    column = read_target(pd.Series(y, name="y"))
    assert same_label(column.positive, positive)
    assert (column.y == found.is_positive(y)).all()


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


def test_a_positive_text_that_may_be_a_surprise_warns():
    y = np.array(["high"] + ["low"] * 9)
    with pytest.warns(UserWarning, match=r"'high' is the positive class \(10% .*, not 'low'"):
        assert Labels.of(y).positive == "high"
    assert Labels.of(y, pos_label="high").positive == "high"
    with pytest.warns(UserWarning, match=r"'ok' is the positive class \(55% of the rows\), not 'f"):
        assert Labels.of(np.array(["fraud"] * 9 + ["ok"] * 11)).positive == "ok"
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


def test_several_positive_labels():
    y = np.array([0, 1, 2, 3, 2])
    labels = Labels.of(y, [1, 2])
    assert labels.classes.tolist() == ["other", "1 or 2"]
    assert labels.positive == "1 or 2"
    assert labels.pos_label == [1, 2]
    assert labels.is_positive(y).tolist() == [False, True, True, False, True]
    # Also classes, booleans, and labels that were not there.
    assert labels.is_positive(labels.of_decisions(y == 2)).tolist() == (y == 2).tolist()
    assert labels.is_positive(y == 2).tolist() == (y == 2).tolist()
    assert labels.is_positive(np.array([7, 1])).tolist() == [False, True]
    for wrong in (["1", "0"], [1.0, np.nan], np.array([1, None], dtype=object)):
        with pytest.raises(SetpointError, match="positive labels are 1, 2, and the others must"):
            labels.is_positive(np.asarray(wrong))


def test_one_positive_label_of_many():
    y = np.array(["a", "other", "b", "c"])
    labels = Labels.of(y, "b")
    assert labels.classes.tolist() == ["rest", "b"]
    assert labels.is_positive(y).tolist() == [False, False, True, False]
    assert Labels.of(np.array([0, 1, 2]), 2).pos_label == [2]
    # Two labels are classes themselves, unless a list is given.
    assert Labels.of(np.array([0, 2]), 2).classes.tolist() == [0, 2]
    assert Labels.of(np.array([0, 2]), [2]).classes.tolist() == ["other", "2"]


def test_positive_labels_that_do_not_fit():
    y = np.array([0, 1, 2])
    with pytest.raises(SetpointError, match="pos_label 5, 6 is not in y, whose labels are 0, 1, 2"):
        Labels.of(y, [5, 6])
    with pytest.raises(SetpointError, match="all labels of y .* are positive"):
        Labels.of(y, [0, 1, 2])
    with pytest.warns(UserWarning, match="names 5, which is not in y"):
        assert Labels.of(y, [1, 5]).is_positive(y).tolist() == [False, True, False]
