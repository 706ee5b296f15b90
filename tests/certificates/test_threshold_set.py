import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setpoint import SetpointError
from setpoint.certificates.threshold_set import EVERY_THRESHOLD, NO_THRESHOLDS, ThresholdSet

ends = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8, unique=True).map(sorted)


def some(values):
    """Return the set whose intervals have these ends."""
    pairs = zip(values[::2], values[1::2], strict=False)
    return ThresholdSet(tuple(pairs))


def test_the_lower_end_belongs_to_an_interval_and_the_upper_does_not():
    found = ThresholdSet(((-1.0, 0.5), (2.0, math.inf)))
    assert [t in found for t in (-1.1, -1, 0.4999, 0.5, 2, 1e300, math.inf)] == [
        False, True, True, False, True, True, True,
    ]  # fmt: skip
    assert list(found) == [(-1.0, 0.5), (2.0, math.inf)]
    assert len(found) == 2
    assert math.nan not in found
    assert not ThresholdSet()


@pytest.mark.parametrize("bad", [((1.0, 1.0),), ((2.0, 1.0),), ((0.0, 2.0), (1.0, 3.0)), ((1.0,),)])
def test_intervals_that_are_not_in_rising_order_raise(bad):
    with pytest.raises(SetpointError, match="in rising order"):
        ThresholdSet(bad)


def test_neighbours_are_joined():
    low, high = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 4.0])
    assert ThresholdSet.of(low, high).intervals == ((0.0, 2.0), (3.0, 4.0))
    assert ThresholdSet.of(low[:0], high[:0]) == ThresholdSet()


@given(st.lists(st.floats(allow_nan=False), max_size=6))
def test_single_thresholds_and_no_others_belong_to_a_set_of_points(values):
    found = ThresholdSet.of_points(values)
    assert all(value in found for value in values)
    assert 0.123 not in found or 0.123 in values
    assert bool(found) == bool(values)
    if len(set(values)) == 1:
        assert found.is_one_threshold


@given(ends, st.floats(-1e3, 1e3), st.sampled_from([np.float32, np.float64]))
def test_after_subtraction_the_same_decisions_belong_to_the_set(values, threshold, dtype):
    """For scores around every end: a score exceeds the number of a certified threshold."""
    values = np.unique(np.array(values, dtype=dtype)).tolist()
    found = some(values)
    threshold = float(dtype(threshold))
    shifted = found.less(threshold, dtype)
    near = [np.nextafter(dtype(v), dtype(to)) for v in values for to in (-np.inf, v, np.inf)]
    scores = np.unique(np.array(near, dtype=dtype))
    measured = scores - dtype(threshold)
    for t in np.unique(measured):
        if t in shifted:
            alarms = measured > t
            assert any(((scores > u) == alarms).all() for u in scores if u in found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_after_subtraction_the_threshold_itself_stays_in_a_set_of_points(dtype):
    """Neighbouring numbers in double precision are the same one in single precision."""
    points = [float(dtype(t)) for t in (0.1, 0.7, 1e3)]
    for t in points:
        assert 0.0 in ThresholdSet.of_points(points).less(t, dtype)


@given(ends)
def test_the_shown_ends_belong_to_the_set(values):
    found = some(values)
    if len(found) > 3:
        assert str(found).startswith(f"{len(found)} ")
        return
    for text, (low, high) in zip(str(found).split(", "), found, strict=True):
        if " to " not in text:
            assert float(text) == low
        elif "below" not in text:
            first, last = map(float, text.split(" to "))
            assert low <= first <= last < high


@pytest.mark.parametrize(
    ("intervals", "text"),
    [
        ((), "none"),
        (((-math.inf, math.inf),), "any"),
        (((-math.inf, 0.5),), "up to 0.499999"),
        (((0.1234561, math.inf),), "0.123457 or more"),
        (((0.0, 1.0), (2.5, 3.0)), "0 to 0.999999, 2.5 to 2.99999"),
        (((0.5, math.nextafter(0.5, 1)),), "0.5"),
        (((0.123456789, math.nextafter(0.123456789, 1)),), "0.123456789"),
        (((-math.inf, 0.0),), "below 0"),
        (((-1.0, 0.0),), "-1 to below 0"),
        (
            tuple((t, math.nextafter(t, 9)) for t in (0.1, 0.2, 0.3, 0.4)),
            "4 single thresholds from 0.1 to 0.4",
        ),
        (
            ((0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, math.inf)),
            "4 intervals, the first 0 to 0.999999 and the last 6 or more",
        ),
        (((1.0, 1.0 + 1e-9),), "from 1.0 to below 1.000000001"),
    ],
)
def test_text(intervals, text):
    assert str(ThresholdSet(intervals)) == text


@given(ends.map(some), ends.map(some))
def test_an_intersection_holds_what_both_sets_hold(first, second):
    both = first & second
    every = {t for own in (first, second, both) for ends in own for t in ends}
    for t in every | {np.nextafter(t, -np.inf) for t in every} | {0.0}:
        assert (t in both) == (t in first and t in second)
    assert first & EVERY_THRESHOLD == first
    assert not first & NO_THRESHOLDS


def test_all_thresholds_from_one_on():
    found = ThresholdSet.above(0.5)
    assert [t in found for t in (0.4999, 0.5, 1e300, np.inf)] == [False, True, True, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_single_threshold_stays_single(dtype):
    found = ThresholdSet.of_points([0.3]).less(0.3, dtype)
    assert found == ThresholdSet.of_points([0.0])
    assert found.is_one_threshold
