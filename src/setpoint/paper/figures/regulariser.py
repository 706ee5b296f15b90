"""The confidence regulariser of one sample, as contours over the score a and the lifted s.

The paper's figure shows r(a, s) = log |R(a, s)| with R(a, s) = a log s + (1 - a) log(1 - s). The
regulariser psi used in training has the arguments swapped: s log f + (1 - s) log(1 - f) with the
score f = a. The two are mirror images in the diagonal, and both have their maximum, 0, where a and
s are both 0 or both 1. psi is linear in s, R in a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from setpoint.paper.figures.style import BLACK, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure


Floats = NDArray[np.float64]
Order = Literal["printed", "psi"]
ORDERS: tuple[Order, ...] = ("printed", "psi")

LEVELS = np.arange(-3.0, 1.51, 0.25)


def R(a: Floats, s: Floats) -> Floats:  # noqa: N802
    """Return a log s + (1 - a) log(1 - s): the explanatory function of the paper."""
    with np.errstate(divide="ignore"):  # log 0 is -inf, as intended
        return np.asarray(xlogy(a, s) + xlogy(1 - np.asarray(a), 1 - np.asarray(s)))


def r(a: Floats, s: Floats, order: Order = "printed") -> Floats:
    """Return log |R|, with the arguments as printed with the figure or as in psi."""
    value = R(a, s) if order == "printed" else R(s, a)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.abs(value)))


@styled
def figure() -> Figure:
    """Draw the contours for both orders of the arguments."""
    fig = new_figure(9.6, 5.0)
    axes = fig.subplots(1, 2, sharey=True)
    for ax, order in zip(axes, ORDERS, strict=True):
        filled, lines = draw(ax, order)
    axes[0].set_ylabel("lifted variable $s$")
    bar = fig.colorbar(filled, ax=axes, pad=0.02, shrink=0.9, ticks=LEVELS[::2])
    bar.add_lines(lines)
    bar.set_label("$r = \\log |R|$;  darker is better")
    _legend(fig)
    return fig


def draw(ax: Axes, order: Order = "printed") -> tuple[QuadContourSet, QuadContourSet]:
    """Draw r over the unit square; return the filled contours and the lines."""
    # Inside the border, where |R| is infinite or 0, and denser towards it, where |R| is steep.
    along = np.sin(np.pi / 2 * np.linspace(0.02, 0.98, 201)) ** 2
    s, a = np.meshgrid(along, along, indexing="ij")
    values = r(a, s, order)
    filled = ax.contourf(a, s, values, LEVELS, cmap="viridis", extend="both")
    lines = ax.contour(
        a, s, values, LEVELS[::2], colors="white", linewidths=1.0, linestyles="solid"
    )
    ax.plot([0, 1], [0, 1], ":", color="white", lw=1.5)
    ax.plot([0, 1], [0, 1], "o", color=BLACK, mfc="white", ms=9, mew=1.5, clip_on=False, zorder=5)
    formula = {
        "printed": "$R(a, s) = a\\,\\log s + (1-a)\\,\\log(1-s)$",
        "psi": "in $\\psi$:  $s\\,\\log a + (1-s)\\,\\log(1-a)$",
    }
    ax.set_title(formula[order], pad=10)
    ax.set(xlabel="score $a$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return filled, lines


def _legend(fig: Figure) -> None:
    from matplotlib.lines import Line2D

    best = Line2D([], [], color=BLACK, marker="o", mfc="white", ms=9, mew=1.5, ls="")
    mirror = Line2D([], [], color=GREY, ls=":", lw=1.5)
    labels = ["best: $R = 0$", "$a = s$, in which the two are mirror images"]
    fig.legend([best, mirror], labels, loc="outside lower center", ncols=2)
