"""How the figures look, and what they are drawn on.

Figures are made without pyplot: none stays open, no backend is chosen, and matplotlib's settings
are those of the library for the time of drawing and the caller's own again afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from setpoint._extras import need

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
    need("matplotlib", "experiments", "a figure")
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
