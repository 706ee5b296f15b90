"""Means and deviations from one pass."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.data import ArrayRows, ByChance
from setpoint.data.splits import TRAINING
from setpoint.data.standardize import Moments, Standardizer, standardizer_of
from setpoint.goals.goal import Goal
from setpoint.training import StreamProblem


def features(n=500, seed=0):
    """Return columns that break sums of squares: far from zero, constant, tiny, of one value."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 6))
    z[:, 1] = z[:, 1] * 0.5 + 30_000.0  # float32 keeps eight bits of the deviation
    z[:, 2] = 1e7
    z[:, 3] *= 1e-12
    z[:, 4] *= 1e9
    z[:, 5] = np.arange(n) == 17
    return z.astype(np.float32), rng.integers(0, 4, n).astype(float)


@settings(max_examples=30)
@given(data=st.data())
def test_pieces_add_up_to_what_numpy_says(data):
    X, weight = features(60)
    X, weight = X.astype(np.float64), weight + 0.5
    cuts = sorted(data.draw(st.sets(st.integers(1, 59), max_size=6)))
    parts = [Moments.of(*p) for p in zip(np.split(X, cuts), np.split(weight, cuts), strict=True)]
    order = data.draw(st.permutations(range(len(parts))))
    whole = parts[order[0]]
    for i in order[1:]:
        whole = whole + parts[i]
    mean = np.average(X, axis=0, weights=weight)
    variance = np.average(np.square(X - mean), axis=0, weights=weight)
    assert whole.weight == pytest.approx(weight.sum())
    np.testing.assert_allclose(whole.mean, mean, rtol=1e-12, atol=1e-20)
    rounding = 1e-9 * variance + 1e-28 * mean**2
    assert (np.abs(whole.squares / whole.weight - variance) <= rounding).all()
    np.testing.assert_array_equal(whole.low, X.min(axis=0))
    np.testing.assert_array_equal(whole.high, X.max(axis=0))


def problem(X, y, weight=None, split=None, **given):
    source = ArrayRows(X, y, sample_weight=weight, block_rows=64)
    return StreamProblem(source, Goal.parse("max f1"), split, **given)


def test_as_for_rows_in_memory():
    X, weight = features()
    y = np.arange(len(X)) % 5 == 0
    found = standardizer_of(problem(X, y, weight))
    held = weight > 0
    expected = Standardizer.fit(X[held], weight[held])
    np.testing.assert_allclose(found.centre, expected.centre, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)
    assert np.isposinf(found.scale[2])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-2, rtol=1e-5)
    assert (found.transform(X)[:, 2] == 0).all()


def test_only_rows_that_train_count():
    X, _ = features()
    y = np.arange(len(X)) % 5 == 0
    split = ByChance(validation=0.3, certification=0.3)
    own = problem(X, y, split=split)
    numbers = torch.cat([block.number for block in own.part(TRAINING)]).numpy()
    assert len(numbers) < 300
    expected = Standardizer.fit(X[numbers], np.ones(len(numbers)))
    others = standardizer_of(problem(X, y))
    found = standardizer_of(own)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)
    assert (found.scale[:2] != others.scale[:2]).all()


def test_shards_do_not_matter():
    X, weight = features()
    y = np.arange(len(X)) % 5 == 0
    one, many = (standardizer_of(problem(X, y, weight, shards=s)) for s in (1, 4))
    np.testing.assert_array_equal(one.centre, many.centre)
    np.testing.assert_array_equal(one.scale, many.scale)
