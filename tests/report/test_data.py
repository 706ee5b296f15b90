"""Counts at every threshold are exact, even where only some steps are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from setpoint.report import data as module
from setpoint.report.data import Steps

SCORES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, np.inf, -np.inf, 1e308, -1e308, 5e-324]),
    st.floats(allow_nan=False),
)


def counts(y, scores, threshold):
    alarm = scores > threshold
    return int((alarm & y).sum()), int((alarm & ~y).sum())


@given(st.integers(1, 30).flatmap(lambda n: st.tuples(
    arrays(bool, n), arrays(float, n, elements=SCORES))), SCORES)  # fmt: skip
def test_every_step_has_the_counts_of_its_thresholds(data, threshold):
    y, scores = data
    steps = Steps.of(y, scores)
    for i in range(len(steps)):
        assert counts(y, scores, steps.at[i]) == (steps.tp[i], steps.fp[i])
        assert steps.low[i] <= steps.at[i]
    index = steps.find(threshold)
    assert index is not None
    assert counts(y, scores, threshold) == (steps.tp[index], steps.fp[index])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thinning_keeps_exact_counts_and_the_given_thresholds(dtype, monkeypatch):
    monkeypatch.setattr(module, "MAX_DISTINCT", 300)
    monkeypatch.setattr(module, "THINNED", 100)
    rng = np.random.default_rng(0)
    y = rng.random(5000) < 0.01
    scores = (rng.normal(size=5000) + 2 * y).astype(dtype)
    keep = [0.123456, float(scores[17]), 99.0, -99.0]
    steps = Steps.of(y, scores, keep)
    assert not steps.whole
    assert 50 < len(steps) <= 100
    as_double = scores.astype(float)
    for i in range(len(steps)):
        assert counts(y, as_double, steps.at[i]) == (steps.tp[i], steps.fp[i])
    for threshold in keep:
        index = steps.find(threshold)
        assert counts(y, as_double, threshold) == (steps.tp[index], steps.fp[index])
    assert (steps.tp[0], steps.fp[0]) == (y.sum(), (~y).sum())
    assert (steps.tp[-1], steps.fp[-1]) == (0, 0)
    gaps = [t for t in np.linspace(-2, 4, 500) if steps.find(t) is None]
    assert gaps  # steps that were left out are not invented


def test_few_distinct_scores_of_many_rows_are_all_kept():
    y = np.arange(20_000) % 7 == 0
    steps = Steps.of(y, np.round(np.sin(np.arange(20_000)), 2))
    assert steps.whole
    assert len(steps) == 202


def test_slider_stops_are_spread_over_recall_and_include_the_chosen_step():
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.02
    steps = Steps.of(y, rng.normal(size=4000) + 3 * y)
    stops = steps.stops([1234])
    assert 1234 in stops
    assert (stops[0], stops[-1]) == (0, len(steps) - 1)
    assert len(stops) <= module.STOPS
    assert (np.diff(stops) > 0).all()
    # Half of the slider covers relevant thresholds: most rows lie below the lowest positive.
    assert np.diff(steps.recall[stops]).min() > -0.05


def test_thresholds_have_few_digits():
    steps = Steps.of(np.array([True, False, True]), np.array([0.123456, 0.7654321, 0.9]))
    assert steps.at.tolist() == [0.11, 0.44, 0.83, 0.99]
    crossing = Steps.of(np.array([True, False]), np.array([-1.0, 1.0]))
    assert crossing.at[1] == 0.0


def test_one_distinct_score_gives_two_steps():
    steps = Steps.of(np.array([True, False]), np.zeros(2))
    assert list(zip(steps.tp, steps.fp, strict=True)) == [(1, 1), (0, 0)]


def test_a_threshold_exists_below_the_most_negative_float():
    end = 1.7976931348623157e308
    steps = Steps.of(np.array([True, False]), np.array([end, -end]))
    assert steps.at.min() < -end or steps.at.min() == -np.inf
