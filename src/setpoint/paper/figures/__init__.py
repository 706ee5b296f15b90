"""The paper's figures, one file each: numbers in one function, drawing in another.

>>> from setpoint.paper.figures import FIGURES, save
>>> save(FIGURES["heat-maps"](), "out", "heat-maps")  # doctest: +SKIP
[PosixPath('out/heat-maps.png'), PosixPath('out/heat-maps.svg')]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setpoint._internal.files import AtomicFile
from setpoint.errors import SetpointError
from setpoint.paper.figures import heat_maps, logit_histograms, regulariser, stress_test, surrogates
from setpoint.paper.figures.style import look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[], Figure]] = {
    "surrogates": surrogates.figure,
    "heat-maps": heat_maps.figure,
    "regulariser": regulariser.figure,
}
"""Figures that need no results."""

NAMES = (*FIGURES, "logit-histograms", "stress-test")

# What else would change from day to day or from one version of matplotlib to the next.
_NO_STAMPS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(
    figure: Figure, folder: str | Path, name: str, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write a figure, the same bytes for the same figure; return the files.

    A file is replaced in one step, so nobody ever reads half a figure.

    Parameters
    ----------
    figure : matplotlib Figure
        What to write.
    folder : path
        Where; made if it is not there.
    name : str
        The name of the files, without the ending.
    formats : sequence of {"png", "svg", "pdf"}
        The endings.
    """
    formats = [formats] if isinstance(formats, str) else list(formats)
    for ending in formats:
        if ending not in _NO_STAMPS:
            raise SetpointError(f"figures are written as {', '.join(_NO_STAMPS)}, not {ending!r}.")
    if name in ("", ".", "..") or Path(name).name != name:
        raise SetpointError(f"{name!r} is not the name of a file; folders go into `folder`.")
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    return [_write(figure, where / f"{name}.{ending}", ending) for ending in formats]


def _write(figure: Figure, path: Path, ending: str) -> Path:
    with AtomicFile(path) as file, look():
        figure.savefig(file, format=ending, dpi=150, metadata=_NO_STAMPS[ending])
    return path


__all__ = [
    "FIGURES",
    "NAMES",
    "heat_maps",
    "logit_histograms",
    "regulariser",
    "save",
    "stress_test",
    "surrogates",
]
