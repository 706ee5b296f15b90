"""Columns that a goal names: amounts that are no numbers, and segments of any type and size."""

import warnings
from datetime import date

import numpy as np
import pandas as pd
import pytest

from setpoint import Goal, SetpointError
from setpoint.goals.columns import GoalColumns, segment_texts

GOAL = Goal.parse("max recall s.t. precision >= 0.5 for each region")


def large(small):
    """Return the segments that are judged, of one large one and small ones of given sizes."""
    region = np.repeat(["north", *small], [40, *(p + n for p, n in small.values())])
    classes = [(20, 20), *small.values()]
    y = np.concatenate([np.repeat([True, False], counts) for counts in classes])
    columns = GoalColumns.of(GOAL, len(y), segments={"region": region})
    return columns.large_segments(GOAL, y)


@pytest.mark.parametrize(
    ("small", "words"),
    [
        ({"islands": (5, 100)}, "the segment 'islands' of 'region' is too small to be judged: it "
         "has 5 positives and 100 negatives, and 10 of each are needed."),
        ({"islands": (1, 1)}, "it has 1 positive and 1 negative, and 10 of each are needed. "
         "'max recall s.t. precision >= 0.5 for each region' does not apply to it."),
        ({"east": (2, 50), "west": (3, 9)}, "the segments 'east', 'west' of 'region' are too small "
         "to be judged: together they have 5 positives and 59 negatives, and 10 of each are "
         "needed. 'max recall s.t. precision >= 0.5 for each region' does not apply to them."),
    ],
)  # fmt: skip
def test_small_segments_are_named_in_a_warning(small, words):
    with pytest.warns(UserWarning, match="too small to be judged") as caught:
        assert large(small) == {"region": ("north",)}
    assert words in str(caught[0].message)


def test_segments_can_be_judged_by_their_rows_alone():
    region = np.repeat(["north", "a", "b", "c"], [20, 10, 9, 19])
    columns = GoalColumns.of(GOAL, len(region), segments={"region": region})
    assert columns.large_segments(GOAL, None) == {"region": ("north", "(other)")}
    with pytest.warns(UserWarning, match="together they have 19 rows, and 20 are needed"):
        assert columns.take(region != "c").large_segments(GOAL, None) == {"region": ("north",)}
    with pytest.raises(SetpointError, match="has 20 rows, which .*; the largest have 19 rows"):
        columns.take(region != "north").large_segments(GOAL, None)


def test_small_segments_that_are_large_together_are_pooled():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert large({"a": (6, 9), "b": (6, 9)}) == {"region": ("north", "(other)")}


@pytest.mark.parametrize(
    ("amounts", "what"),
    [
        (np.array(["2024-03-01", "2024-03-02"], dtype="datetime64[D]"), "dates"),
        (np.array([1, 2], dtype="timedelta64[h]"), "durations"),
        (np.array([True, False]), "booleans"),
        ([True, False], "booleans"),
        (np.array([1.5, True], dtype=object), "booleans"),
        (
            np.array([np.datetime64("2024-03-01"), np.datetime64("2024-03-02")], dtype=object),
            "dates",
        ),
        ([date(2024, 3, 1), date(2024, 3, 2)], ""),
        (["a", "b"], ""),
    ],
)
def test_amounts_are_numbers(amounts, what):
    goal = Goal.parse("min cost(fp=5, fn=amount)")
    message = rf"amounts\['amount'\] must be numbers{f', not {what}' if what else ''}"
    with pytest.raises(SetpointError, match=message):
        GoalColumns.of(goal, 2, amounts={"amount": amounts})


def test_a_segment_without_rows():
    region = np.repeat(["n", "e", "s", "w", "mid"], 4)
    for text in ("max recall[region=zzz]", "max recall s.t. precision[region=zzz] >= 0.5"):
        goal = Goal.parse(text)
        columns = GoalColumns.of(goal, len(region), segments={"region": region})
        message = "there is no region 'zzz' in these rows; there are 'e', 'mid', 'n', 's', ..."
        with pytest.raises(SetpointError, match=message):
            columns.check_values(goal)
    goal = Goal.parse("max recall[region=Mid] s.t. precision[region=n] >= 0.5")
    with pytest.raises(SetpointError, match="no region 'Mid' .* Did you mean 'mid'"):
        GoalColumns.of(goal, len(region), segments={"region": region}).check_values(goal)


@pytest.mark.parametrize(
    "stores",
    [
        np.array([20240101.0, 20240102.0]),
        [20240101.0, 20240102],
        np.array([20240101.0, 20240102.0], dtype=object),
        np.array([20240101, 20240102], dtype=object),
        pd.Series([20240101, 20240102], dtype="Int64"),
        pd.Series([20240101, 20240102], dtype="Float64"),
        pd.Categorical([20240101.0, 20240102.0]),
        ["20240101", "20240102"],
    ],
)
def test_whole_numbers_are_the_same_segments_whatever_their_type(stores):
    assert segment_texts("store", stores, 2).tolist() == ["20240101", "20240102"]


def test_segments_that_are_fractions_keep_all_digits():
    sizes = [1.5, 1.0000001, 1.0000002, 0.1, -0.0, 123456789.25]
    wanted = ["1.5", "1.0000001", "1.0000002", "0.1", "0", "123456789.25"]
    assert segment_texts("size", sizes, 6).tolist() == wanted
    assert segment_texts("size", np.array(sizes, dtype=object), 6).tolist() == wanted
    assert segment_texts("size", np.array([0.1, 2], dtype=np.float32), 2).tolist() == ["0.1", "2"]


@pytest.mark.parametrize(
    "stores",
    [
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="string"),
        pd.Series([True, None], dtype="boolean"),
        [1.5, np.nan],
        ["a", ""],
        ["a", None],
    ],
)
def test_missing_segments(stores):
    message = r"segments\['store'\] is missing in 1 of 2 rows, the first at position 1"
    with pytest.raises(SetpointError, match=message):
        segment_texts("store", stores, 2)
