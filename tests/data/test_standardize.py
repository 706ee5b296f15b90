import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from setpoint.data.standardize import Standardizer


def test_equals_the_standard_scaler():
    rng = np.random.default_rng(0)
    X, w = rng.normal(3, 5, size=(50, 4)), rng.integers(1, 5, 50).astype(float)
    ours = Standardizer.fit(X, w).transform(X)
    np.testing.assert_allclose(ours, StandardScaler().fit(X, sample_weight=w).transform(X))


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("offset", [0.0, 1.0, -100.0])
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


def test_rounding_noise_is_no_feature():
    X = 0.1 + np.random.default_rng(0).integers(0, 2, size=(50, 1)) * np.spacing(0.1)
    assert (Standardizer.fit(X, np.ones(50)).transform(X) == 0).all()


def test_float32_stays_float32():
    X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    assert Standardizer.fit(X, np.ones(20, np.float32)).transform(X).dtype == np.float32
