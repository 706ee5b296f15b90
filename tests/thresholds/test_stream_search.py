import numpy as np
import pytest

from setpoint import FPOR, OFOS, Goal
from setpoint.thresholds.stream_search import bounds, subranges

GOALS = [
    FPOR(0.9),
    OFOS(),
    Goal.parse("max mcc s.t. npv >= 0.9, fpr <= 0.1"),
    Goal.parse("max recall s.t. alarm_rate <= 0.3"),
    Goal.parse("min alarm_rate s.t. precision >= 0.4"),
]


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_no_counts_between_the_ends_of_a_range_beat_its_bounds(goal):
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = rng.integers(0, 5, size=(2, 6)).astype(float)
        weights[:, -1] += 1
        N, P = weights.sum(axis=1).tolist()
        first = np.arange(6, dtype=np.uint64) * np.uint64(16)
        ranges = subranges((P, N, 0.0, 0.0), first, 4, weights, weights.sum(axis=0))
        violation, gain = bounds(ranges, goal, P, N)
        for i in range(6):
            tp = np.arange(ranges.tp[i] - ranges.positive[i], ranges.tp[i] + 1)
            fp = np.arange(ranges.fp[i] - ranges.negative[i], ranges.fp[i] + 1)
            at = (*(grid.ravel() for grid in np.meshgrid(tp, fp)), P, N)
            with np.errstate(divide="ignore", invalid="ignore"):
                assert goal.violation(*at).min() >= violation[i] - 1e-12
                assert goal.gain(*at).max() <= gain[i] + 1e-12


def test_counts_at_the_lower_end_are_those_of_the_whole_range():
    """Rounded sums of subranges never exceed the counts of the range."""
    weights = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])
    first = np.arange(3, dtype=np.uint64)
    ranges = subranges((0.6, 0.6, 0.0, 0.0), first, 0, weights, np.ones(3))
    assert (ranges.tp[0], ranges.fp[0]) == (0.6, 0.6)
    assert (ranges.tp <= 0.6).all()
    np.testing.assert_array_equal(ranges.below, [0, 0, 1])
    np.testing.assert_array_equal(ranges.last, first)
