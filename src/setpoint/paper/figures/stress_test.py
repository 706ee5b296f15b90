"""The feasibility stress test: what every method achieves at stricter levels of the goal.

One panel per data set and level: the metric of the constraint on the x axis, with a line at the
level and the feasible side shaded, and the objective on the y axis. A hollow marker shows a method
as trained, the filled one after threshold adjustment. The x axis shows signed square roots of the
distance from the level, near which most methods lie. Markers that would still cover each other are
drawn side by side, with a dotted line to their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.errors import SetpointError
from setpoint.paper.figures.style import GREEN, GREY, new_figure, styled
from setpoint.paper.tables import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Floats = NDArray[np.float64]
Kind = Literal["fpor", "frop"]

PARTS = ("train", "validation", "test")

COLUMNS = ("dataset", "kind", "alpha", "method", "label", "part", "adjusted", "precision", "recall")


class Look(NamedTuple):
    """The colour and the marker of a method; both are unique."""

    colour: str
    marker: str | tuple[int, int, int]


# First Tol's muted scheme, distinguishable by the colour-blind as well; the default is black.
LOOKS = {
    "wce": Look("#88ccee", "o"),
    "focal": Look("#cc6677", "s"),
    "ldam": Look("#117733", "^"),
    "term": Look("#332288", "v"),
    "sigmoidf1": Look("#999933", "p"),
    "ros": Look("#ddcc77", "<"),
    "rus": Look("#aa4499", ">"),
    "tfco": Look("#44aa99", "D"),
    "alm": Look("#d55e00", "P"),
    "ordinary": Look("#aa6600", (4, 1, 0)),
    "printed": Look("#0072b2", "d"),
    "lifted": Look("#882255", "h"),
    "projected": Look("#777777", "X"),
    "default": Look("#000000", "*"),
}
_MORE = [Look("#66aa00", "8"), Look("#bb99ff", "H"), Look("#ff6699", (6, 1, 0)),
         Look("#663300", (3, 1, 0))]  # fmt: skip


@dataclass(frozen=True)
class Point:
    """The point of a method in one panel: mean and standard deviation over its trials.

    ``x`` is the metric of the constraint, ``y`` the objective. These are population standard
    deviations, as in the paper.
    """

    dataset: str
    alpha: float
    part: str
    method: str
    label: str
    adjusted: bool
    x: float
    y: float
    x_deviation: float
    y_deviation: float


def summarise(results: Any, kind: Kind) -> list[Point]:
    """Return means and standard deviations over the trials of one kind of goal.

    Parameters
    ----------
    results : pandas.DataFrame
        One row per trial, with at least the columns ``COLUMNS``.
    kind : {"fpor", "frop"}
        Which rows to use. OFOS has no constraint to stress.
    """
    constraint, objective = _metrics(kind)
    missing = [name for name in COLUMNS if name not in results.columns]
    if missing:
        raise SetpointError(f"the results have no column {', '.join(missing)}.")
    chosen = results[results["kind"] == kind]
    if len(chosen) == 0:
        raise SetpointError(f"the results contain no trial of {kind}.")
    unknown = chosen[list(COLUMNS)].isna()
    if unknown.to_numpy().any():
        row, column = (int(k[0]) for k in unknown.to_numpy().nonzero())
        raise SetpointError(
            f"a trial of {chosen['method'].iloc[row]} on {chosen['dataset'].iloc[row]} has no "
            f"{COLUMNS[column]}; leave out failed trials."
        )
    by = ["dataset", "alpha", "part", "method", "adjusted"]
    points = []
    for (dataset, alpha, part, method, adjusted), group in chosen.groupby(by, sort=False):
        x, y = group[constraint].astype(float), group[objective].astype(float)
        points.append(
            Point(
                str(dataset), float(alpha), str(part), str(method), str(group["label"].iloc[0]),
                bool(adjusted), float(x.mean()), float(y.mean()), float(x.std(ddof=0)),
                float(y.std(ddof=0)),
            )
        )  # fmt: skip
    return points


def figure(results: Any, kind: Kind) -> Figure:
    """Draw the results of a tidy table of trials; see :func:`summarise`."""
    return figure_of_points(summarise(results, kind), kind)


@styled
def figure_of_points(points: Sequence[Point], kind: Kind) -> Figure:
    """Draw a column of panels per data set and level, and a row per subset of the data."""
    constraint, objective = _metrics(kind)
    datasets = list(dict.fromkeys(p.dataset for p in points))
    columns = sorted(
        {(p.dataset, p.alpha) for p in points}, key=lambda c: (datasets.index(c[0]), c)
    )
    parts = [part for part in PARTS if any(p.part == part for p in points)]
    if not parts:
        raise SetpointError(f"there are no points for {', '.join(PARTS)} rows.")
    looks = looks_of([p.method for p in points])
    fig = new_figure(max(3.2 * len(columns), 6.4) + 0.3, 2.9 * len(parts) + 1.2)
    grid = fig.subplots(len(parts), len(columns), squeeze=False)
    panels = []
    for row, part in zip(grid, parts, strict=True):
        for ax, (dataset, alpha) in zip(row, columns, strict=True):
            here = [p for p in points if (p.part, p.dataset, p.alpha) == (part, dataset, alpha)]
            panels.append((ax, here, alpha))
            draw(ax, here, alpha, looks)
            ax.set_title(f"{dataset}, $\\alpha={alpha:g}$, {part}")
        row[0].set_ylabel(f"{objective} (objective)")
    for ax in grid[-1]:
        ax.set_xlabel(f"{constraint} (constraint), stretched at $\\alpha$")
    _legend(fig, points, looks)
    fig.draw_without_rendering()  # sets the sizes of the panels, which markers need
    for ax, here, alpha in panels:
        draw_markers(ax, here, alpha, looks)
    return fig


def draw(ax: Axes, points: Sequence[Point], alpha: float, looks: dict[str, Look]) -> None:
    """Draw one panel without its markers."""
    if not points:
        ax.text(0.5, 0.5, "no trials", color=GREY, ha="center", transform=ax.transAxes)
        ax.set(xticks=[], yticks=[])
        return
    _scale(ax, points, alpha)
    ax.axvspan(alpha, 2.0, color=GREEN, alpha=0.13, lw=0, zorder=0)
    ax.axvline(alpha, color=GREEN, lw=1.2, zorder=1)
    for method, look in looks.items():
        pair = sorted((p for p in points if p.method == method), key=lambda p: p.adjusted)
        if len(pair) == 2:
            ax.plot([p.x for p in pair], [p.y for p in pair], color=look.colour, lw=1.0, zorder=2)
        for p in pair:
            ax.errorbar(
                p.x, p.y, p.y_deviation, p.x_deviation,
                fmt="none", ecolor=look.colour, elinewidth=0.8, alpha=0.45, zorder=2,
            )  # fmt: skip


def draw_markers(ax: Axes, points: Sequence[Point], alpha: float, looks: dict[str, Look]) -> None:
    """Draw the markers of one panel without overlap."""
    from matplotlib.transforms import ScaledTranslation

    if not points:
        return
    fig, box = ax.figure, ax.get_window_extent()
    per_point = fig.dpi / 72
    names = list(looks)
    ordered = sorted(points, key=lambda p: (names.index(p.method), p.adjusted))
    # A method may cover itself: then the adjustment changed nothing.
    spots = list(dict.fromkeys((p.method, p.x, p.y) for p in ordered))
    pixels = ax.transData.transform([(alpha, 0.0), *((x, y) for _, x, y in spots)])
    level, *rest = (pixels - box.p0) / per_point
    true = np.array(rest)
    moved = apart(true, float(level[0]), (box.width / per_point, box.height / per_point))
    shifts = dict(zip(spots, moved - true, strict=True))
    for p in ordered:
        look, there, shift = looks[p.method], ax.transData, shifts[p.method, p.x, p.y]
        if shift.any():
            there = there + ScaledTranslation(shift[0] / 72, shift[1] / 72, fig.dpi_scale_trans)
            thin = {
                "arrowstyle": "-", "color": look.colour, "lw": 0.9, "ls": ":",
                "shrinkA": 0, "shrinkB": 0,
            }  # fmt: skip
            ax.annotate(
                "", (p.x, p.y), shift, textcoords="offset points", arrowprops=thin, zorder=2.5
            ).set_in_layout(False)
        ax.plot(p.x, p.y, **_marker(look, filled=p.adjusted), transform=there, zorder=3)


def looks_of(methods: Sequence[str]) -> dict[str, Look]:
    """Return the look of each method, in drawing order; known methods always look the same."""
    names = list(dict.fromkeys(methods))
    others = [name for name in names if name not in LOOKS]
    if len(others) > len(_MORE):
        raise SetpointError(
            f"{len(others)} methods besides those of the tables cannot be distinguished; draw at "
            f"most {len(_MORE)} at a time."
        )
    looks = LOOKS | dict(zip(others, _MORE, strict=False))
    return {name: looks[name] for name in names}


def _metrics(kind: str) -> tuple[str, str]:
    if kind not in ("fpor", "frop"):
        raise SetpointError(f"the kind of a stress test must be 'fpor' or 'frop', not {kind!r}.")
    constraint, objective = METRICS[kind]
    return constraint, objective


def _marker(look: Look, *, filled: bool) -> dict[str, Any]:
    size = {"*": 10.0, "D": 5.5, "d": 7.5}.get(str(look.marker), 6.5)
    if isinstance(look.marker, tuple):
        size = 9.0  # only the tips of stars extend this far
    face = look.colour if filled else "white"
    edge = {"mec": look.colour, "mew": 1.3}
    return {"marker": look.marker, "ls": "", "ms": size, "mfc": face, **edge}


def stretch(x: ArrayLike, alpha: float) -> Floats:
    """Return the signed square root of the distance from the level."""
    distance = np.asarray(x, dtype=np.float64) - alpha
    return np.asarray(np.sign(distance) * np.sqrt(np.abs(distance)))


def unstretch(place: ArrayLike, alpha: float) -> Floats:
    """Undo :func:`stretch`."""
    place = np.asarray(place, dtype=np.float64)
    return np.asarray(alpha + np.sign(place) * place**2)


def _scale(ax: Axes, points: Sequence[Point], alpha: float) -> None:
    """Set limits that show every marker; error bars may leave the panel."""
    ax.set_xscale(
        "function", functions=(lambda x: stretch(x, alpha), lambda x: unstretch(x, alpha))
    )
    left = float(stretch(min(*(p.x for p in points), alpha - 0.02), alpha))
    right = float(stretch(max(*(p.x for p in points), 1.0), alpha))
    margin = 0.08 * (right - left)
    ax.set_xlim(*unstretch([left - margin, right + margin], alpha))
    _ticks(ax, alpha)
    low, high = min(p.y for p in points), max(p.y for p in points)
    margin = max(0.12 * (high - low), 0.02)
    ax.set_ylim(low - margin, high + margin)


def _ticks(ax: Axes, alpha: float) -> None:
    """Label the level and as many round numbers as fit."""
    low, high = ax.get_xlim()
    room = 0.125 * float(stretch(high, alpha) - stretch(low, alpha))
    ticks = [alpha]
    for tick in (1.0, 0.0, 0.5, 0.9, 0.8, 0.7, 0.3, 0.95, 0.98, 0.6, 0.2, 0.1):
        gaps = np.abs(stretch(ticks, alpha) - stretch(tick, alpha))
        if low <= tick <= high and gaps.min() >= (0.7 * room if tick == 1 else room):
            ticks.append(tick)
    ax.set_xticks(sorted(ticks), [f"{tick:g}" for tick in sorted(ticks)])
    ax.minorticks_off()


def _legend(fig: Figure, points: Sequence[Point], looks: dict[str, Look]) -> None:
    """Put the legend below all panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    label = {p.method: p.label for p in points}
    handles: list[Any] = [
        Line2D([], [], label=label[name], **_marker(look, filled=True))
        for name, look in looks.items()
    ]
    grey = Look(GREY, "o")
    handles += [
        Line2D([], [], label="hollow: as trained", **_marker(grey, filled=False)),
        Line2D([], [], label="filled: threshold adjusted", **_marker(grey, filled=True)),
        Line2D([], [], color=GREY, lw=0.8, alpha=0.7, label="bars: one deviation"),
        Line2D([], [], color=GREY, lw=0.9, ls=":", label="dotted: moved aside from there"),
        Patch(color=GREEN, alpha=0.2, label="feasible"),
    ]
    per_row = 6 if fig.get_figwidth() > 8 else 4
    fig.legend(handles=handles, loc="outside lower center", ncols=per_row)


APART = 7.5  # points between two markers: the width of one
_ROUNDS = 600
_SEED = 0.05
_GOLDEN = np.pi * (3 - np.sqrt(5))


def apart(places: Floats, wall: float, size: tuple[float, float]) -> Floats:
    """Return positions of markers such that none covers another, each near its place.

    Markers that are too near repel each other in small steps. A marker without neighbours stays
    exactly at its place.

    Parameters
    ----------
    places : array of shape (n, 2)
        Their places, in points from the lower left corner of the panel.
    wall : float
        No marker is moved across this x.
    size : pair of float
        Width and height of the panel, which no marker leaves.
    """
    # Equal places need distinct directions: those of a sunflower's seeds, which fill a disc.
    k = np.arange(len(places))
    seeds = np.sqrt(k)[:, None] * np.column_stack([np.cos(k * _GOLDEN), np.sin(k * _GOLDEN)])
    at = places + _SEED * seeds
    side = np.where(places[:, 0] >= wall, 1.0, -1.0)
    half = APART / 2
    # The wanted distance grows slowly, because a sudden push would scatter the markers.
    for wanted in APART * np.minimum(np.arange(_ROUNDS) / (_ROUNDS // 2), 1.0):
        away = at[:, None] - at
        gap = np.linalg.norm(away, axis=2)
        np.fill_diagonal(gap, np.inf)
        push = np.maximum(wanted - gap, 0.0)
        at += (away * (0.3 * push / gap)[:, :, None]).sum(axis=1)
        # Reflected at the wall; stopped there, they would form a line.
        at[:, 0] = wall + side * np.abs(at[:, 0] - wall)
        at = np.clip(at, half, np.subtract(size, half))
    moved = np.linalg.norm(at - places, axis=1) > _SEED * np.sqrt(len(k))
    return np.where(moved[:, None], at, places)
