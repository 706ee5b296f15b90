"""Room for markers that would cover each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

APART = 7.5  # points between two markers: as much as one is wide
_ROUNDS = 600
_SEED = 0.05
_GOLDEN = np.pi * (3 - np.sqrt(5))


def apart(places: Floats, wall: float, size: tuple[float, float]) -> Floats:
    """Return where to draw markers so that none covers another, each near its place.

    Markers that are too near push each other away, in small steps. Where nothing is near, a marker
    stays exactly at its place.

    Parameters
    ----------
    places : array of shape (n, 2)
        Where they belong, in points from the lower left corner of the panel.
    wall : float
        No marker is moved across this x.
    size : pair of float
        The panel's width and height, which no marker leaves.
    """
    # Equal places need directions to part in: those of a sunflower's seeds, which fill a disc.
    k = np.arange(len(places))
    seeds = np.sqrt(k)[:, None] * np.column_stack([np.cos(k * _GOLDEN), np.sin(k * _GOLDEN)])
    at = places + _SEED * seeds
    side = np.where(places[:, 0] >= wall, 1.0, -1.0)
    half = APART / 2
    # What is wanted grows, for a sudden push would scatter them.
    for wanted in APART * np.minimum(np.arange(_ROUNDS) / (_ROUNDS // 2), 1.0):
        away = at[:, None] - at
        gap = np.linalg.norm(away, axis=2)
        np.fill_diagonal(gap, np.inf)
        push = np.maximum(wanted - gap, 0.0)
        at += (away * (0.3 * push / gap)[:, :, None]).sum(axis=1)
        # Thrown back from the wall; held there, they would stand in a row.
        at[:, 0] = wall + side * np.abs(at[:, 0] - wall)
        at = np.clip(at, half, np.subtract(size, half))
    moved = np.linalg.norm(at - places, axis=1) > _SEED * np.sqrt(len(k))
    return np.where(moved[:, None], at, places)
