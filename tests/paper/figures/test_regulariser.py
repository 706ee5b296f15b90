"""The numbers behind the contours of the regulariser."""

import numpy as np
import pytest
import torch

from setpoint.method.reformulation import psi
from setpoint.paper.figures import regulariser
from setpoint.paper.figures.regulariser import LEVELS, R, r

rng = np.random.default_rng(0)
A, S = rng.uniform(0.001, 0.999, (2, 500))


def test_r_by_hand():
    assert R(np.float64(0.25), np.float64(0.5)) == pytest.approx(np.log(0.5))
    assert R(np.float64(0.2), np.float64(0.9)) == pytest.approx(
        0.2 * np.log(0.9) + 0.8 * np.log(0.1)
    )
    assert r(np.float64(0.25), np.float64(0.5)) == pytest.approx(np.log(np.log(2)))


def test_r_is_at_its_best_where_both_are_0_or_both_are_1():
    corners = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]).T
    assert R(*corners).tolist() == [0, 0, -np.inf, -np.inf]
    assert (R(A, S) < 0).all()
    for order in ("printed", "psi"):
        assert r(*corners, order).tolist() == [-np.inf, -np.inf, np.inf, np.inf]


def test_the_order_of_psi_is_that_of_the_regulariser_that_is_trained_with():
    one = torch.ones(1, dtype=torch.float64)
    for a, s in zip(A, S, strict=True):
        term = psi(torch.logit(torch.tensor([a])), torch.tensor([s]), one)
        assert R(s, a) == pytest.approx(float(term))
        assert r(a, s, "psi") == pytest.approx(np.log(-float(term)))


def test_the_two_orders_are_mirror_images_and_not_the_same():
    assert np.array_equal(r(A, S, "psi"), r(S, A, "printed"))
    assert np.abs(r(A, S, "psi") - r(A, S, "printed")).max() > 0.5


def test_psi_is_linear_in_s_and_the_printed_r_in_a():
    a, s, other = A[:100], S[:100], S[100:200]
    assert R((s + other) / 2, a) == pytest.approx((R(s, a) + R(other, a)) / 2)
    assert R((s + other) / 2, (s + other) / 2) != pytest.approx((R(s, s) + R(other, other)) / 2)


def test_the_figure_shows_both_orders_on_one_scale():
    from matplotlib.contour import QuadContourSet

    figure = regulariser.figure()
    for ax, order in zip(figure.axes, ("printed", "psi"), strict=False):
        filled, lines = (c for c in ax.get_children() if isinstance(c, QuadContourSet))
        assert filled.levels.tolist() == LEVELS.tolist()
        assert lines.levels.tolist() == LEVELS[::2].tolist()
        # A point of the line for 0 lies where r is 0; x is a and y is s.
        (zero,) = np.flatnonzero(lines.levels == 0)
        a, s = lines.get_paths()[zero].vertices.T
        assert len(a) > 100
        assert np.abs(r(a, s, order)).max() < 0.02
        assert np.abs(r(s, a, order)).max() > 0.1
