"""The paper's figures, one module each, with separate functions for numbers and drawing.

>>> from setpoint.paper.figures import FIGURES, save
>>> save(FIGURES["heat-maps"](), "out", "heat-maps")  # doctest: +SKIP
[PosixPath('out/heat-maps.png'), PosixPath('out/heat-maps.svg')]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from setpoint.paper.figures import heat_maps, logit_histograms, regulariser, stress_test, surrogates
from setpoint.paper.figures.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[], Figure]] = {
    "surrogates": surrogates.figure,
    "heat-maps": heat_maps.figure,
    "regulariser": regulariser.figure,
}
"""Figures that need no results."""

NAMES = (*FIGURES, "logit-histograms", "stress-test")

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
