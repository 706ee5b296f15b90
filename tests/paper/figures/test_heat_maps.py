"""The numbers behind the heat maps of G_t and H_t."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from setpoint.method.reformulation import G, H
from setpoint.paper.figures import heat_maps
from setpoint.paper.figures.heat_maps import field, zero_set

T = 0.25  # its sums with eighths are exact, so that kinks and the jump are met
EIGHTHS = np.arange(-16, 25) / 8


def value_of(which, a, s, t):
    function = {"G": G, "H": H}[which]
    return function(torch.tensor(a), torch.tensor(s), t).numpy()


def test_off_the_jump_g_and_h_have_the_same_zeros():
    g, h = field("G", EIGHTHS, T), field("H", EIGHTHS, T)
    off = g.a != T
    assert np.array_equal((g.value == 0)[off], (h.value == 0)[off])
    assert ((g.value == 0) & off).sum() == 40  # s = 0 left of t, s = 1 right of it
    assert ((h.value == 0) & ~off).sum() == 9  # at a = t all s from 0 to 1
    assert ((g.value == 0) & ~off).sum() == 1  # and only s = 0


def test_the_lines_of_zeros_are_zeros():
    for which, t in product(("G", "H"), (0.0, 0.3, 0.5, 1.0)):
        for line in zero_set(which, t):
            for start, end in pairwise(line):
                share = np.linspace(0, 1, 101)[:, None]
                a, s = ((1 - share) * start + share * end).T  # exact at both ends
                values = value_of(which, a, s, t)
                if which == "G" and s[0] == 1:  # G's upper line begins where it is not yet 0
                    values = values[1:]
                assert np.abs(values).max() < 1e-12


def test_there_are_no_zeros_beside_the_lines():
    """A random point that is a tenth away from all lines has a value that is not 0."""
    for which in ("G", "H"):
        rng = np.random.default_rng(0)
        a, s = rng.uniform(heat_maps.LOW, heat_maps.HIGH, (2, 4000))
        t = 0.3
        away = np.full(4000, np.inf)
        for line in zero_set(which, t):
            for start, end in pairwise(line):
                span = end - start
                share = np.clip(
                    ((a - start[0]) * span[0] + (s - start[1]) * span[1]) / (span @ span), 0, 1
                )
                nearest = start[:, None] + share * span[:, None]
                away = np.minimum(away, np.hypot(a - nearest[0], s - nearest[1]))
        far = away > 0.1
        assert far.sum() > 1000
        assert np.abs(value_of(which, a, s, t)[far]).min() > 0.05


def test_the_gradient_of_g_is_straight_up_and_there_is_none_at_the_jump():
    g = field("G", EIGHTHS, T)
    jump = g.a == T
    assert jump.any()
    assert np.isnan(g.d_a[jump]).all()
    assert np.isnan(g.d_s[jump]).all()
    assert (g.d_a[~jump] == 0).all()
    assert (g.d_s[~jump] == 1).all()


def test_the_gradient_of_h_is_that_of_autograd_where_it_is_smooth():
    h = field("H", EIGHTHS, T)
    u = h.s + h.a - T
    smooth = (u != 0) & (u != 1)
    a, s = (torch.tensor(x, requires_grad=True) for x in (h.a, h.s))
    d_a, d_s = torch.autograd.grad(H(a, s, T).sum(), [a, s])
    assert np.array_equal(h.d_a[smooth], d_a.numpy()[smooth])
    assert np.array_equal(h.d_s[smooth], d_s.numpy()[smooth])


def test_at_kinks_of_h_the_arrow_is_the_middle_of_the_clarke_subdifferential():
    h = field("H", EIGHTHS, T)
    kink = np.isin(h.s + h.a - T, (0, 1))
    assert kink.any()
    assert (h.d_a[kink] == -0.5).all()
    assert (h.d_s[kink] == 0.5).all()


def test_rows_are_s_and_columns_a():
    g = field("G", [0.0, 1.0], 0.3)
    assert g.value.tolist() == [[0.0, -1.0], [1.0, 0.0]]


def test_the_figure_shows_the_numbers():
    figure = heat_maps.figure()
    left, right = figure.axes[:2]
    for ax, which in ((left, "G"), (right, "H")):
        (image,) = ax.get_images()
        pixels = image.get_array()
        low, high, bottom, top = image.get_extent()
        assert (low, high, bottom, top) == (-0.25, 1.25, -0.25, 1.25)
        # The pixel over (a, s) = (0.9, 0.1): its row counts s from below, its column a.
        row, column = int((0.1 + 0.25) / 1.5 * 600), int((0.9 + 0.25) / 1.5 * 600)
        assert pixels[row, column] == pytest.approx(value_of(which, [0.9], [0.1], 0.3)[0], abs=0.01)
        assert image.origin == "lower"
        assert "t=0.3" in ax.get_title(loc="left")
    assert left.get_images()[0].get_clim() == right.get_images()[0].get_clim()
