"""G_t and H_t over the score a and the lifted variable s: values, zeros and gradients.

G_t jumps at a = t, and its gradient in a is 0 everywhere else. H_t is continuous, has the same
zeros for a != t (Lemma 1), and its gradient has a component in a wherever s differs from the
decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from setpoint.method.reformulation import G, H, clarke_subdifferential_of_H
from setpoint.paper.figures.style import BLACK, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


Floats = NDArray[np.float64]
Which = Literal["G", "H"]
BOTH: tuple[Which, ...] = ("G", "H")

LOW, HIGH = -0.25, 1.25
_PIXELS = 600
_LIMIT = 1.6  # of the colour scale: above the largest |value|, 1.25, so that arrows stay visible


@dataclass(frozen=True)
class Field:
    """Values and gradients of a function on a grid of (a, s)."""

    a: Floats
    s: Floats
    value: Floats
    d_a: Floats
    d_s: Floats


def field(which: Which, along: ArrayLike, t: float = 0.3) -> Field:
    """Return G_t or H_t and its gradient on the square grid of these values of a and s.

    The gradient of G_t is (0, 1), and NaN at the jump a = t. That of H_t is (omega - 1, omega); at
    kinks, it is the midpoint of the Clarke subdifferential.
    """
    ticks = torch.as_tensor(np.asarray(along, dtype=np.float64))
    s, a = torch.meshgrid(ticks, ticks, indexing="ij")
    if which == "G":
        value, d_s = G(a, s, t), torch.ones_like(a)
        d_a = torch.zeros_like(a)
        d_a[a == t] = d_s[a == t] = torch.nan
    else:
        low, high = clarke_subdifferential_of_H(a, s, t)
        value, d_s = H(a, s, t), (low + high) / 2
        d_a = d_s - 1
    return Field(*(x.numpy() for x in (a, s, value, d_a, d_s)))


def zero_set(which: Which, t: float = 0.3) -> list[Floats]:
    """Return the zeros of G_t or H_t on the square, as lines of points (a, s).

    Both are zero for s = 0 up to a = t and for s = 1 beyond; H_t, which is continuous, also on the
    segment between them at a = t. (G_t is 0 at (t, 0), but not at (t, 1).)
    """
    if which == "G":
        return [np.array([[LOW, 0.0], [t, 0.0]]), np.array([[t, 1.0], [HIGH, 1.0]])]
    return [np.array([[LOW, 0.0], [t, 0.0], [t, 1.0], [HIGH, 1.0]])]


@styled
def figure(t: float = 0.3) -> Figure:
    """Draw both functions side by side, with one colour scale."""
    fig = new_figure(9.6, 4.9)
    axes = fig.subplots(1, 2, sharey=True)
    for ax, which in zip(axes, BOTH, strict=True):
        image = draw(ax, which, t)
    axes[0].set_ylabel("lifted variable $s$")
    bar = fig.colorbar(image, ax=axes, shrink=0.85, pad=0.02)
    bar.set_label("value")
    _legend(fig)
    return fig


def draw(ax: Axes, which: Which, t: float = 0.3) -> AxesImage:
    """Draw values as colours, zeros as lines and gradients as arrows."""
    side = (HIGH - LOW) / _PIXELS
    pixels = field(which, LOW + side * (np.arange(_PIXELS) + 0.5), t)  # at their centres
    image = ax.imshow(
        pixels.value,
        origin="lower",
        extent=(LOW, HIGH, LOW, HIGH),
        cmap="PuOr_r",
        vmin=-_LIMIT,
        vmax=_LIMIT,
        interpolation="nearest",
    )
    # [0, 1] x [0, 1] is the range of scores and lifted variables.
    ax.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], color=GREY, lw=1.3, ls=(0, (4, 3)), zorder=2)
    arrows = field(which, np.linspace(LOW + 0.0625, HIGH - 0.0625, 12), t)
    ax.quiver(
        arrows.a, arrows.s, arrows.d_a, arrows.d_s,
        angles="xy", scale_units="xy", scale=14, width=0.0045, color="#333333", pivot="mid",
        zorder=3,
    )  # fmt: skip
    for line in zero_set(which, t):
        ax.plot(*line.T, color=BLACK, lw=3.0, solid_capstyle="butt", zorder=4)
    if which == "G":
        ax.plot(t, 0, "o", color=BLACK, ms=7, zorder=5)
        ax.plot(t, 1, "o", color=BLACK, mfc="white", mew=1.8, ms=7, zorder=5)
    formula = {"G": "$G_t = s - 1\\{a > t\\}$", "H": "$H_t = s + [s+a-1-t]_+ - [s+a-t]_+$"}
    ax.set_title(f"{formula[which]},  $t={t:g}$")
    ax.set(xlabel="score $a$", xlim=(LOW, HIGH), ylim=(LOW, HIGH), aspect="equal")
    return image


def _legend(fig: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=BLACK, lw=3.0, label="zeros"),
        Line2D([], [], color="#333333", marker=r"$\rightarrow$", ms=14, ls="", label="gradient"),
        Line2D([], [], color=GREY, lw=1.3, ls=(0, (4, 3)), label="$[0, 1] \\times [0, 1]$"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=3)
