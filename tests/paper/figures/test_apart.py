"""Markers that would cover each other."""

import numpy as np
import pytest

from setpoint.paper.figures.style import APART, apart

SIZE = (200.0, 180.0)


def nearest(places):
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    return gaps[~np.eye(len(places), dtype=bool)].min()


@pytest.mark.parametrize("n", [2, 3, 14, 30])
def test_what_coincides_becomes_a_disc_around_its_place(n):
    places = np.tile([100.0, 90.0], (n, 1))
    found = apart(places, 150.0, SIZE)
    assert nearest(found) > 0.98 * APART
    assert np.linalg.norm(found - places, axis=1).max() < 0.7 * APART * np.sqrt(n)


def test_only_those_without_room_are_moved():
    places = np.array([[20.0, 20.0], [100.0, 90.0], [100.0, 90.0], [100.0, 90.0 + 2.5 * APART]])
    found = apart(places, 150.0, SIZE)
    assert found[[0, 3]].tolist() == places[[0, 3]].tolist()
    assert (found[[1, 2]] != places[[1, 2]]).all()
    assert apart(places[:1], 150.0, SIZE).tolist() == places[:1].tolist()
    assert apart(places[:0], 150.0, SIZE).shape == (0, 2)


def test_neighbours_keep_their_order_along_a_column():
    places = np.column_stack([np.full(8, 100.0), 60.0 + np.arange(8) * 0.9 * APART])
    found = apart(places, 150.0, SIZE)
    assert (np.diff(found[:, 1]) > 0).all()
    assert nearest(found) > 0.98 * APART


@pytest.mark.parametrize("x", [149.9, 150.0, 150.1])
def test_none_crosses_the_wall_or_leaves_the_panel(x):
    found = apart(np.tile([x, 170.0], (20, 1)), 150.0, SIZE)
    assert ((found[:, 0] >= 150.0) if x >= 150 else (found[:, 0] <= 150.0)).all()
    assert (found >= 0).all()
    assert (found <= SIZE).all()
    assert nearest(found) > 0.7 * APART
