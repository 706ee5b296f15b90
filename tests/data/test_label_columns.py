"""Two labels, however they are written."""

import numpy as np
import pandas as pd
import pytest

from setpoint.data.label_columns import positive_rows, read_target, scores_of
from setpoint.data.labels import Labels, same_label
from setpoint.errors import TargetError


@pytest.mark.parametrize(
    ("values", "positive", "negative"),
    [
        ([0, 1, 0], 1, 0),
        ([0.0, 1.0, 1.0], 1, 0),
        ([-1, 1, 1], 1, -1),
        ([1, 2, 2], 2, 1),
        ([True, False, True], True, False),
        (pd.array([0, 1, 1], dtype="Int64"), 1, 0),
        (["ok", "fraud", "ok"], "fraud", "ok"),
        (["ok ", "fraud", " ok"], "fraud", "ok"),
        (["a", "b"], "b", "a"),
        (pd.Categorical(["ok", "fraud", "ok"], categories=["ok", "fraud", "never"]), "fraud", "ok"),
        (pd.Categorical([1, 0, 0]), 1, 0),
        ([0.5, 1.5, 1.5], 1.5, 0.5),
    ],
)
def test_likely_positive(values, positive, negative):
    series = pd.Series(values, name="y")
    found = read_target(series)
    assert (found.positive, found.negative) == (positive, negative)
    assert type(found.positive) in (str, int, float, bool)
    assert found.y.dtype == bool
    assert (found.note == "") == (set(values) in ({0, 1}, {-1, 1}))
    assert found.note == "" or repr(positive) in found.note
    # The other one, by name, has no note.
    other = read_target(series, negative)
    assert (other.y == ~found.y).all()
    assert other.note == ""


@pytest.mark.parametrize(
    "values", [[0, 1, 0], [0.0, 1.0, 0.0], [False, True, False], ["0", "1", "0"]]
)
def test_spellings_of_one(values):
    for positive in ("1", 1, 1.0, True, "1.0"):
        assert read_target(pd.Series(values), positive).y.tolist() == [False, True, False]
    for positive in ("True", "true"):
        if isinstance(values[0], bool):
            assert read_target(pd.Series(values), positive).y.tolist() == values
        else:
            with pytest.raises(TargetError, match="does not occur"):
                read_target(pd.Series(values), positive)


def test_texts_are_not_confused():
    assert not same_label("no", "No")
    assert not same_label("a", "b")
    assert not same_label(1, 0)
    assert not same_label("1a", 1)


def test_positive_that_does_not_occur():
    with pytest.raises(TargetError) as caught:
        read_target(pd.Series(["Fraud"] * 2 + ["ok"] * 5, name="Class"), "fraud")
    message = str(caught.value)
    for text in ("'fraud' does not occur in 'Class'", "'ok' (5), 'Fraud' (2)", "mean 'Fraud'"):
        assert text in message


def test_other_than_two_values():
    counted = r"3 distinct.*'a' \(3\), 'b' \(2\), 'c' \(1\)\. Name the positive one.*--positive 1,2"
    with pytest.raises(TargetError, match=counted):
        read_target(pd.Series(list("aaabbc")))
    with pytest.raises(TargetError, match=r"100 distinct.*, \.\.\."):
        read_target(pd.Series(range(100)))
    with pytest.raises(TargetError, match=r"holds only 1 \(3\)"):
        read_target(pd.Series([1, 1, 1]))
    with pytest.raises(TargetError, match="3 distinct"):
        read_target(pd.Series([0, 1, "unknown"]))


@pytest.mark.parametrize("positive", ["1,2", "2, 1", [1, 2], ("1", 2.0), {1, 2}, np.array([1, 2])])
def test_several_positive_labels(positive):
    found = read_target(pd.Series([0, 1, 2, 3, 1]), positive)
    assert found.y.tolist() == [False, True, True, False, True]
    assert found.negative == "other"
    assert found.positive in ("1 or 2", "2 or 1")
    assert set(found.positive_labels) == {1, 2}


def test_all_but_the_positive_label_are_negative():
    found = read_target(pd.Series(list("aabbc")), "c")
    assert (found.negative, found.positive) == ("other", "c")
    assert found.y.tolist() == [False] * 4 + [True]
    labels = Labels.pair(found.negative, found.positive, positive_labels=found.positive_labels)
    assert positive_rows(pd.Series(["c", "new"]), labels).tolist() == [True, False]


def test_a_label_with_a_comma_comes_before_a_list():
    column = pd.Series(["a,b", "a", "b", "c"])
    assert read_target(column, "a,b").y.tolist() == [True, False, False, False]
    assert read_target(column[1:], "a,b").y.tolist() == [True, True, False]
    with pytest.raises(TargetError, match="'d' does not occur"):
        read_target(column, "a,d")
    with pytest.raises(TargetError, match="all labels of .* are named as positive"):
        read_target(column, ["a", "b", "c", "a,b"])


@pytest.mark.parametrize("missing", [None, np.nan, "", "  "])
def test_missing_labels(missing):
    with pytest.raises(TargetError, match="2 of 5 labels in 'y' are missing, the first in row 3"):
        read_target(pd.Series(["a", "b", missing, "a", missing], name="y"))


def test_labels_of_new_rows():
    assert positive_rows(pd.Series(["1", "0"]), Labels.pair(0, 1)).tolist() == [True, False]
    assert positive_rows(pd.Series([True, False]), Labels.pair(0, 1)).tolist() == [True, False]
    assert positive_rows(pd.Series([0.0, 0.0]), Labels.pair(False, True)).tolist() == [False, False]
    with pytest.raises(TargetError, match="holds 2, 'x'; the model knows 0 and 1"):
        positive_rows(pd.Series([0, 2, "x"]), Labels.pair(0, 1))
    with pytest.raises(TargetError, match="1 of 2 labels"):
        positive_rows(pd.Series([0, None]), Labels.pair(0, 1))


def test_scores():
    assert scores_of(pd.Series(["0.5", 1])).tolist() == [0.5, 1.0]
    with pytest.raises(TargetError, match="in row 2 of 's' 'high' is not a number"):
        scores_of(pd.Series([0.5, "high"], name="s"))
    with pytest.raises(TargetError, match="in row 1 of .* is missing"):
        scores_of(pd.Series([None, 0.5]))
    with pytest.raises(TargetError) as caught:
        scores_of(pd.Series([0.5, np.nan]))
    assert "np." not in str(caught.value)
