"""How the figures look, and what they are drawn on.

Figures are made without pyplot: none stays open, no backend is chosen, and matplotlib's settings
are those of the library for the time of drawing and the caller's own again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_P = ParamSpec("_P")
_T = TypeVar("_T")

# Told apart by the colour-blind as well (Okabe and Ito).
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK, GREY = (
    "#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#666666",
)  # fmt: skip
POSITIVE, NEGATIVE = RED, BLUE

_SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "setpoint",  # names in an SVG do not change from run to run
    "svg.fonttype": "path",
}


@contextmanager
def look() -> Iterator[None]:
    """Draw with the figures' own settings, whatever the caller's are."""
    need("matplotlib", "paper", "a figure")
    from matplotlib import style

    with style.context(["default", _SETTINGS]):
        yield


def styled(draw: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a drawing function draw with the figures' own settings."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with look():
            return draw(*args, **kwargs)

    return drawn


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, that pyplot knows nothing of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def unit_square(ax: Axes) -> None:
    """Mark [0, 1] x [0, 1], where scores and lifted variables live."""
    ax.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], color=GREY, lw=1.3, ls=(0, (4, 3)), zorder=2)


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


# DOC of experiments.figures._apart: Room for markers that would cover each other.
