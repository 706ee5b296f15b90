"""Settings of the figures, and how they are saved.

Figures are made without pyplot: none stays open, no backend is chosen, and matplotlib's settings
are restored after drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from setpoint._internal.files import AtomicFile
from setpoint._internal.imports import need
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_P = ParamSpec("_P")
_T = TypeVar("_T")

# Distinguishable by the colour-blind as well (Okabe and Ito).
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
    "svg.hashsalt": "setpoint",  # names in an SVG are the same in every run
    "svg.fonttype": "path",
}


@contextmanager
def figure_settings() -> Iterator[None]:
    """Draw with the settings of the figures, whatever the caller's are."""
    need("matplotlib", "paper", "a figure")
    from matplotlib import style

    with style.context(["default", _SETTINGS]):
        yield


def styled(draw: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a function draw with the settings of the figures."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with figure_settings():
            return draw(*args, **kwargs)

    return drawn


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, unknown to pyplot; sizes are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


# Without these, equal figures give equal files on every day and with every matplotlib.
_NO_STAMPS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(
    figure: Figure, folder: str | Path, name: str, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write a figure atomically, with equal bytes for equal figures; return the files.

    Parameters
    ----------
    figure : matplotlib Figure
        The figure.
    folder : path
        Created if it does not exist.
    name : str
        The name of the files without extension.
    formats : sequence of {"png", "svg", "pdf"}
        The extensions.
    """
    formats = [formats] if isinstance(formats, str) else list(formats)
    for ending in formats:
        if ending not in _NO_STAMPS:
            raise SetpointError(f"formats are {', '.join(_NO_STAMPS)}, not {ending!r}.")
    if name in ("", ".", "..") or Path(name).name != name:
        raise SetpointError(f"{name!r} is not a file name; pass the folder as `folder`.")
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    paths = [where / f"{name}.{ending}" for ending in formats]
    for path, ending in zip(paths, formats, strict=True):
        with AtomicFile(path) as file, figure_settings():
            figure.savefig(file, format=ending, dpi=150, metadata=_NO_STAMPS[ending])
    return paths
