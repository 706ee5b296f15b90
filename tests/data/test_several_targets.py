"""Several columns of labels: which values are positive, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from setpoint.data.several_targets import indicators, read_targets
from setpoint.errors import TargetError


def frame(**columns):
    return pd.DataFrame(columns)


def test_the_same_two_texts_have_one_positive_label_in_all_columns():
    table = frame(a=["yes", "yes", "yes", "no"], b=["no"] * 4, c=["no", "no", "no", "yes"])
    found = read_targets(table, ["a", "b", "c"])
    assert found.Y.sum(axis=0).tolist() == [3, 0, 1]  # "yes" in all of them
    assert len(found.notes) == 1
    assert "all 3 targets" in found.notes[0]


def test_columns_with_other_texts_are_read_one_by_one():
    table = frame(a=["spam", "ham", "ham"], b=["late", "late", "on time"])
    found = read_targets(table, ["a", "b"])
    assert found.Y.T.tolist() == [[True, False, False], [False, False, True]]
    assert len(found.notes) == 2


@pytest.mark.parametrize("only", [0, 1, False, True])
def test_a_column_of_one_value_is_all_positive_or_all_negative(only):
    found = read_targets(frame(a=[0, 1, 0], b=[only] * 3), ["a", "b"])
    assert found.Y[:, 1].tolist() == [bool(only)] * 3


def test_the_meaning_of_one_text_must_be_named():
    table = frame(a=[0, 1], b=["late", "late"])
    with pytest.raises(TargetError, match="'b' holds only 'late'.*--positive"):
        read_targets(table, ["a", "b"])


def test_a_named_positive_may_be_absent_from_a_column_of_one_value():
    table = frame(a=["yes", "no"], b=["no", "no"])
    assert read_targets(table, ["a", "b"], "yes").Y.tolist() == [[True, False], [False, False]]
    with pytest.raises(TargetError, match="'ye' does not occur in 'a'"):
        read_targets(table, ["a", "b"], "ye")


@pytest.mark.parametrize("positive", ["1,2", [1, 2]])
def test_several_positive_labels_of_all_columns(positive):
    found = read_targets(frame(a=[0, 1, 2], b=[0, 0, 2]), ["a", "b"], positive)
    assert found.Y.T.tolist() == [[False, True, True], [False, False, True]]
    later = frame(a=[3, 1], b=[1, 0])  # 1 did not occur in b
    assert indicators(later, ["a", "b"], found.labels).tolist() == [[False, True], [True, False]]


def test_missing_labels_are_listed_for_all_columns():
    table = frame(a=[1, None, 0], b=["x", "y", None])
    with pytest.raises(TargetError, match=r"1 in 'a', the first in row 2; 1 in 'b'.*row 3"):
        read_targets(table, ["a", "b"])


def test_some_target_needs_both_classes():
    with pytest.raises(TargetError, match="one class only"):
        read_targets(frame(a=[0, 0], b=[1, 1]), ["a", "b"])


def test_other_rows_are_read_alike():
    table = frame(a=[0, 1], b=["no", "yes"])
    labels = read_targets(table, ["a", "b"], None).labels
    later = frame(b=["yes", "no"], a=["1", "0"])
    assert np.array_equal(indicators(later, ["a", "b"], labels), [[True, True], [False, False]])
    with pytest.raises(TargetError, match="no column 'b'"):
        indicators(later[["a"]], ["a", "b"], labels)
