import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from setpoint import SetpointError
from setpoint.thresholds.histogram import from_keys, largest_below, to_keys

KINDS = {16: np.float16, 32: np.float32, 64: np.float64}


def edge_values(kind):
    """The numbers at which an order by bits goes wrong first."""
    info = np.finfo(kind)
    upper = np.array([0, info.smallest_subnormal, info.tiny, info.eps, 1, info.max, np.inf], kind)
    near = np.concatenate([upper, np.nextafter(upper[:-2], kind(np.inf))])
    return np.concatenate([near, -near])


@pytest.mark.parametrize("width", KINDS)
def test_keys_have_the_order_of_the_scores(width):
    scores = edge_values(KINDS[width])
    keys = to_keys(scores)
    assert keys.dtype == f"uint{width}"
    np.testing.assert_array_equal(scores[:, None] < scores, keys[:, None] < keys)
    np.testing.assert_array_equal(scores[:, None] == scores, keys[:, None] == keys)


@given(st.sampled_from(list(KINDS)), st.data())
def test_any_scores_keep_their_order_and_come_back(width, data):
    numbers = st.floats(allow_nan=False, width=width)
    scores = data.draw(hnp.arrays(KINDS[width], st.integers(0, 30), elements=numbers))
    keys = to_keys(scores)
    np.testing.assert_array_equal(
        np.argsort(scores, kind="stable"), np.argsort(keys, kind="stable")
    )
    back = from_keys(keys)
    assert back.dtype == scores.dtype
    np.testing.assert_array_equal(back, scores)


def test_the_input_is_left_alone_and_may_be_a_view_or_read_only():
    scores = np.array([3.0, -0.0, -1.0, 2.0], dtype=np.float32)
    scores.setflags(write=False)
    keys = to_keys(scores[::-1])
    np.testing.assert_array_equal(from_keys(keys), [2, -1, 0, 3])
    assert np.signbit(scores[1])


def test_every_key_of_16_bits_comes_back():
    finite = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = finite[~np.isnan(finite)]
    np.testing.assert_array_equal(from_keys(to_keys(finite)), finite)


def test_what_has_no_order_is_refused():
    with pytest.raises(SetpointError, match="2 of 3 scores are NaN"):
        to_keys(np.array([np.nan, 1.0, -np.nan]))
    with pytest.raises(SetpointError, match="not int64"):
        to_keys(np.array([1, 2]))
    with pytest.raises(SetpointError, match="not float32"):
        from_keys(np.zeros(2, dtype=np.float32))


@pytest.mark.parametrize("score", [-1.5, -1e-45, 0.0, 1e-45, 1.0, 3e38, np.inf])
def test_a_threshold_just_below_a_key_lets_it_through(score):
    score = np.float32(score)
    threshold = largest_below(int(to_keys(np.array(score))))
    assert np.float32(threshold) == threshold  # float32 compares it as it is
    assert score > np.float32(threshold)
    if np.isfinite(score):
        assert np.nextafter(np.float32(threshold), np.float32(np.inf)) == score
    else:
        assert threshold == np.finfo(np.float32).max
