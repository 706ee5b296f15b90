"""Segments that are too small to be judged."""

import warnings

import numpy as np
import pytest

from setpoint import Goal
from setpoint.goals.columns import GoalColumns

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


def test_small_segments_that_are_large_together_are_pooled():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert large({"a": (6, 9), "b": (6, 9)}) == {"region": ("north", "(other)")}
