"""Standardization, of arrays and from one pass over blocks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from setpoint.data import ArrayRows, ByChance
from setpoint.data.splits import TRAINING
from setpoint.data.standardize import Moments, Standardizer, standardizer_of
from setpoint.goals.goal import Goal
from setpoint.training import StreamProblem


def test_equals_the_standard_scaler():
    rng = np.random.default_rng(0)
    X, w = rng.normal(3, 5, size=(50, 4)), rng.integers(1, 5, 50).astype(float)
    ours = Standardizer.fit(X, w).transform(X)
    np.testing.assert_allclose(ours, StandardScaler().fit(X, sample_weight=w).transform(X))


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1e-300, 0.0), (1e-300, -100.0), (1e-30, 1.0), (1e30, -100.0), (1e300, 0.0), (1e300, 1.0)],
)
def test_any_scale(scale, offset):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 2)) + offset
    expected = (Z - Z.mean(0)) / Z.std(0)
    with np.errstate(all="raise", under="ignore"):
        X = Standardizer.fit(Z * scale, np.ones(80)).transform(Z * scale)
    np.testing.assert_allclose(X, expected, rtol=1e-9)


def test_the_whole_range_of_floats():
    X = np.array([[-1.7e308], [1.7e308], [0.0]])
    with np.errstate(all="raise"):
        out = Standardizer.fit(X, np.ones(3)).transform(X)
    assert np.isfinite(out).all()
    assert out[0] < out[2] < out[1]


@pytest.mark.parametrize("value", [0.0, 1.0, -1e300, 1e-320, 0.1])
def test_constant_features_become_zero_and_stay_zero(value):
    X = np.full((7, 1), value)
    scaler = Standardizer.fit(X, np.ones(7))
    assert (scaler.transform(X) == 0).all()
    assert (scaler.transform(np.array([[5.0]])) == 0).all()


@pytest.mark.parametrize(("offset", "scale"), [(1e15, 1.0), (0.0, 1e-310)])
def test_what_precision_is_left_is_used(offset, scale):
    X = np.random.default_rng(0).normal(size=(200, 1)) * scale + offset
    out = Standardizer.fit(X, np.ones(200)).transform(X)
    assert out.std() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("values", [[0.0, 3e-45], [1e8, 1e8 + 8], [20240101.0, 20240103.0]])
def test_float32_features_keep_what_they_say(values):
    X = np.array(values * 30, dtype=np.float32)[:, None]
    out = Standardizer.fit(X, np.ones(60, np.float32)).transform(X)
    assert out.dtype == np.float32
    assert sorted(set(out[:, 0])) == pytest.approx([-1.0, 1.0])


def test_what_is_too_small_for_float64_is_constant():
    X = np.zeros((100, 1))
    X[:1] = 5e-324
    assert np.isfinite(Standardizer.fit(X, np.ones(100)).transform(X)).all()


def test_rounding_noise_is_not_a_feature():
    X = 0.1 + np.random.default_rng(0).integers(0, 2, size=(50, 1)) * np.spacing(0.1)
    assert (Standardizer.fit(X, np.ones(50)).transform(X) == 0).all()


def test_float32_stays_float32():
    X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    assert Standardizer.fit(X, np.ones(20, np.float32)).transform(X).dtype == np.float32


# --- from one pass --------------------------------------------------------------------------------


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
def test_moments_of_pieces_add_up(data):
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
    found = standardizer_of(problem(X, y, weight).part(TRAINING))
    held = weight > 0
    expected = Standardizer.fit(X[held], weight[held])
    np.testing.assert_allclose(found.centre, expected.centre, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)
    assert np.isposinf(found.scale[2])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-2, rtol=1e-5)
    assert (found.transform(X)[:, 2] == 0).all()


def test_only_training_rows_count():
    X, _ = features()
    y = np.arange(len(X)) % 5 == 0
    split = ByChance(validation=0.3, certification=0.3)
    own = problem(X, y, split=split)
    numbers = torch.cat([block.number for block in own.part(TRAINING)]).numpy()
    assert len(numbers) < 300
    expected = Standardizer.fit(X[numbers], np.ones(len(numbers)))
    others = standardizer_of(problem(X, y).part(TRAINING))
    found = standardizer_of(own.part(TRAINING))
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-6)
    assert (found.scale[:2] != others.scale[:2]).all()


def test_shards_do_not_matter():
    X, weight = features()
    y = np.arange(len(X)) % 5 == 0
    one, many = (standardizer_of(problem(X, y, weight, shards=s).part(TRAINING)) for s in (1, 4))
    np.testing.assert_array_equal(one.centre, many.centre)
    np.testing.assert_array_equal(one.scale, many.scale)
