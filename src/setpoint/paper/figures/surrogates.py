"""The errors of replacing the decision by a sigmoid.

The example of the paper's Section "Critical issues of approximation-based methods": P(y=1) = 0.2,
x | y=1 uniform on [-0.5, 2], x | y=0 uniform on [-2, 0.5], 500 points, the classifier 1{x > t},
and in place of the indicator sigma_{T,t}(x) = 1 / (1 + exp(-T (x - t))).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.goals.metrics import metric
from setpoint.method.reformulation import sigmoid_surrogate
from setpoint.paper.figures.style import (
    BLACK,
    GREEN,
    GREY,
    NEGATIVE,
    ORANGE,
    PINK,
    POSITIVE,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Floats = NDArray[np.float64]

TEMPERATURES = (1.0, 2.0, 10.0)
METRICS = ("precision", "recall", "f1")
SHOWN_THRESHOLD = 0.2
_NAMES = {"precision": "precision", "recall": "recall", "f1": "$F_1$"}
_COLOURS = dict(zip(TEMPERATURES, (PINK, ORANGE, GREEN), strict=True))


@dataclass(frozen=True)
class Toy:
    """The 500 points: one feature and whether they are positive."""

    x: Floats
    positive: NDArray[np.bool_]


def toy_data(seed: int = 0, n: int = 500) -> Toy:
    """Draw the example's points."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.2
    x = np.where(positive, rng.uniform(-0.5, 2.0, n), rng.uniform(-2.0, 0.5, n))
    return Toy(x, positive)


@dataclass(frozen=True)
class Star:
    """The threshold with the largest approximate F1, that F1, and the true F1 there."""

    threshold: float
    approximate: float
    true: float


@dataclass(frozen=True)
class Curves:
    """True metrics by threshold, and approximate ones by temperature and threshold."""

    thresholds: Floats
    true: Mapping[str, Floats]
    approximate: Mapping[float, Mapping[str, Floats]]

    def star(self, temperature: float) -> Star:
        """Return the maximum of the approximate F1."""
        f1 = self.approximate[temperature]["f1"]
        best = int(f1.argmax())
        return Star(float(self.thresholds[best]), float(f1[best]), float(self.true["f1"][best]))


def curves(toy: Toy, thresholds: Floats | None = None) -> Curves:
    """Return true and approximate precision, recall and F1 at the thresholds."""
    at = np.linspace(-2.0, 2.0, 1601) if thresholds is None else np.asarray(thresholds, float)
    x, t = torch.from_numpy(toy.x), torch.from_numpy(at)[:, None]
    approximate = {T: _metrics(sigmoid_surrogate(x, t, T), toy.positive) for T in TEMPERATURES}
    return Curves(at, _metrics((x > t).double(), toy.positive), approximate)


def _metrics(decisions: torch.Tensor, positive: NDArray[np.bool_]) -> dict[str, Floats]:
    """Return the metrics of decisions or their surrogates, one row per threshold."""
    s = decisions.numpy()
    tp, fp = s[:, positive].sum(axis=1), s[:, ~positive].sum(axis=1)
    P, N = float(positive.sum()), float((~positive).sum())
    return {name: np.asarray(metric(name).value(tp, fp, P, N)) for name in METRICS}


def derivative(distance: Floats, temperature: float) -> Floats:
    """Return the slope of the surrogate at a distance x - t from the threshold."""
    value = sigmoid_surrogate(torch.from_numpy(np.asarray(distance, float)), 0.0, temperature)
    return np.asarray(temperature * value * (1 - value))


@styled
def figure(seed: int = 0) -> Figure:
    """Draw all five panels: data and surrogates, three metrics, the surrogates' slopes."""
    toy = toy_data(seed)
    found = curves(toy)
    fig = new_figure(11.0, 6.4)
    axes = fig.subplots(2, 3).ravel()
    draw_data(axes[0], toy)
    for ax, name, letter in zip(axes[1:4], METRICS, "abc", strict=True):
        draw_metric(ax, found, name)
        ax.set_title(f"({letter}) {_NAMES[name]}, true and approximate")
    draw_derivative(axes[4])
    axes[4].set_title("(d) slope of the surrogate")
    _legend(axes[5])
    return fig


def draw_data(ax: Axes, toy: Toy) -> None:
    """Draw the points of both classes, the decision and what others put in its place."""
    t = SHOWN_THRESHOLD
    bins = np.linspace(-2.0, 2.0, 33)
    counts: Any = ax.twinx()
    for chosen, colour in ((toy.positive, POSITIVE), (~toy.positive, NEGATIVE)):
        counts.hist(toy.x[chosen], bins, color=colour, alpha=0.3)
    counts.set(ylabel="points per bin", ylim=(0, 90))
    counts.spines["right"].set_visible(True)
    ax.set_zorder(counts.get_zorder() + 1)
    ax.patch.set_visible(False)
    x = torch.linspace(-2, 2, 801, dtype=torch.float64)
    for T in TEMPERATURES:
        ax.plot(x, sigmoid_surrogate(x, t, T), color=_COLOURS[T])
    ax.plot([-2, t, t, 2], [0, 0, 1, 1], color=BLACK, lw=1.4)
    ax.set(xlabel="$x$", ylabel="decision or surrogate", ylim=(-0.04, 1.08), xlim=(-2.05, 2.05))
    ax.set_title(f"Data and surrogates at $t={t:g}$")


def draw_metric(ax: Axes, found: Curves, name: str) -> None:
    """Draw one metric against the threshold; for F1 with a star at each approximate optimum."""
    t = found.thresholds
    for T in TEMPERATURES:
        ax.plot(t, found.approximate[T][name], color=_COLOURS[T])
    ax.plot(t, found.true[name], color=BLACK, lw=1.4)
    if name == "f1":
        for T in TEMPERATURES:
            star, colour = found.star(T), _COLOURS[T]
            t_best = star.threshold
            ax.plot([t_best] * 2, [star.approximate, star.true], ":", color=GREY, lw=1.2)
            ax.plot(t_best, star.approximate, "*", color=colour, mec=BLACK, ms=12, zorder=5)
            ax.plot(t_best, star.true, "o", color=colour, mfc="white", mew=1.6, ms=6.5, zorder=6)
    top = 0.85 if name == "f1" else 1.06
    ax.set(xlabel="threshold $t$", ylabel=_NAMES[name], ylim=(-0.03, top), xlim=(-2.05, 2.05))


def draw_derivative(ax: Axes) -> None:
    """Draw the slope of each surrogate around the threshold."""
    distance = np.linspace(-2.0, 2.0, 801)
    for T in TEMPERATURES:
        ax.plot(distance, derivative(distance, T), color=_COLOURS[T])
    ax.set(xlabel="$x - t$", ylabel="$\\sigma'_{T,t}(x)$", xlim=(-2.05, 2.05))


def _legend(ax: Axes) -> None:
    """Put the common legend into the empty panel."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ax.axis("off")
    point: dict[str, Any] = {"color": GREY, "ls": "", "mew": 1.3}
    handles: list[Any] = [
        Line2D([], [], color=BLACK, lw=1.4, label="the decision $1\\{x > t\\}$: true metrics"),
        *(Line2D([], [], color=_COLOURS[T], label=f"surrogate, $T={T:g}$") for T in TEMPERATURES),
        Line2D([], [], label="best approximate $F_1$", marker="*", mec=BLACK, ms=13, **point),
        Line2D([], [], label="true $F_1$ at that threshold", marker="o", mfc="white", **point),
        Patch(color=POSITIVE, alpha=0.3, label="positive points"),
        Patch(color=NEGATIVE, alpha=0.3, label="negative points"),
    ]
    ax.legend(handles=handles, loc="center left", fontsize=10.5, labelspacing=0.8)
