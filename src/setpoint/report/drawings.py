"""The page's pictures as SVG, drawn by hand.

Pictures are 400 wide whatever the screen, so that their text is readable on a phone (335 px) and
not too large on a desktop. Colours come from the page's style sheet, by class. A plotting library
in the browser would add 4.8 MB to every page and draw nothing without its script; zooming is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from setpoint.certificates.certificate import Certificate
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_threshold
from setpoint.report.data import Histogram, ReportData, Steps, drawn_bounds
from setpoint.training.history import History

WIDTH = 400


@dataclass(frozen=True)
class Frame:
    """A plotting area: x from ``left`` to ``WIDTH - right``, y from ``bottom`` up to ``top``."""

    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    left: float = 46
    right: float = 12
    top: float = 10
    below: float = 40

    @property
    def bottom(self) -> float:
        """The y coordinate of the x axis."""
        return self.height - self.below

    @property
    def corners(self) -> list[float]:
        """Pixels and values of the corners: left, right, bottom, top of each, for the script."""
        return [self.left, WIDTH - self.right, self.bottom, self.top, *self.x, *self.y]

    def across(self, value: float) -> float:
        """Return the x coordinate of a value, kept inside the frame."""
        low, high = self.x
        part = min(max((value - low) / (high - low), 0.0), 1.0)
        return self.left + part * (WIDTH - self.right - self.left)

    def up(self, value: float) -> float:
        """Return the y coordinate of a value, kept inside the frame."""
        low, high = self.y
        part = min(max((value - low) / (high - low), 0.0), 1.0)
        return self.bottom - part * (self.bottom - self.top)

    def path(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """Return the commands of a line, without points that coincide in the picture."""
        commands: list[str] = []
        last, gap = None, True
        for x, y in zip(xs, ys, strict=True):
            if not (math.isfinite(x) and math.isfinite(y)):
                gap = True
                continue
            here = f"{self.across(x):.1f} {self.up(y):.1f}"
            if gap or here != last:
                commands.append(f"{'M' if gap else 'L'}{here}")
            last, gap = here, False
        return "".join(commands)

    def line(self, xs: Iterable[float], ys: Iterable[float], kind: str) -> str:
        """Return a line of a class."""
        return f'<path class="line {kind}" d="{self.path(xs, ys)}"/>'

    def axes(
        self,
        across: Sequence[float],
        up: Sequence[float],
        x_label: str,
        y_label: str,
        up_texts: Sequence[str] | None = None,
        across_texts: Sequence[str] | None = None,
    ) -> str:
        """Return grid lines, ticks and labels."""
        parts = []
        right = WIDTH - self.right
        for tick, text in zip(up, up_texts or texts(up), strict=True):
            y = self.up(tick)
            parts.append(f'<path class="grid" d="M{self.left} {y:.1f}H{right}"/>')
            parts.append(
                f'<text class="tick end" x="{self.left - 6}" y="{y + 4:.1f}">{escape(text)}</text>'
            )
        for tick, text in zip(across, across_texts or texts(across), strict=True):
            x = self.across(tick)
            parts.append(
                f'<path class="axis" d="M{x:.1f} {self.bottom:.1f}v4"/><text class="tick middle" '
                f'x="{x:.1f}" y="{self.bottom + 17:.1f}">{escape(text)}</text>'
            )
        parts.append(f'<path class="axis" d="M{self.left} {self.bottom:.1f}H{right}"/>')
        middle, height = (self.left + right) / 2, (self.top + self.bottom) / 2
        parts.append(
            f'<text class="label middle" x="{middle:.1f}" y="{self.height - 5:.1f}">'
            f"{escape(x_label)}</text>"
        )
        parts.append(
            f'<text class="label middle" x="12" y="{height:.1f}" '
            f'transform="rotate(-90 12 {height:.1f})">{escape(y_label)}</text>'
        )
        return "".join(parts)

    def picture(self, name: str, described: str, *parts: str) -> Markup:
        """Return the whole picture, with a description for screen readers."""
        return Markup(
            f'<svg id="{name}" viewBox="0 0 {WIDTH} {self.height:g}" role="img" '
            f'aria-label="{escape(described)}">{"".join(parts)}</svg>'
        )


def error_bar(start: float, end: float, at: float, *, upright: bool = False) -> str:
    """Return an interval from ``start`` to ``end``, with caps, and edged to stand out on bars."""
    if upright:
        d = f"M{at - 5:.1f} {start:.1f}h10m-5 0V{end:.1f}m-5 0h10"
    else:
        d = f"M{start:.1f} {at - 4:.1f}v8m0 -4H{end:.1f}m0 -4v8"
    return f'<path class="halo" d="{d}"/><path class="interval" d="{d}"/>'


def marker(shape: str, x: float, y: float, kind: str, name: str = "") -> str:
    """Return a marker: a diamond, a square, a triangle, a hexagon, a circle, a ring or a dot."""
    shapes = {
        "diamond": '<path d="M0 -6.5L6.5 0L0 6.5L-6.5 0Z"/>',
        "square": '<path d="M-5 -5H5V5H-5Z"/>',
        "triangle": '<path d="M0 -6L6 5H-6Z"/>',
        "hexagon": '<path d="M-6 0L-3 -5H3L6 0L3 5H-3Z"/>',
        "circle": '<circle r="6"/>',
        "ring": '<circle r="8.5"/>',
        "dot": '<circle r="4"/>',
    }
    given = f' id="{name}"' if name else ""
    return (
        f'<g{given} class="mark {kind}" transform="translate({x:.1f} {y:.1f})">{shapes[shape]}</g>'
    )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers between two values."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    size = 10.0 ** math.floor(math.log10(span / about))
    step = min((m * size for m in (1, 2, 5, 10)), key=lambda s: abs(span / s - about))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12 - math.floor(math.log10(step))) for i in range(first, last + 1)]


def texts(values: Sequence[float]) -> list[str]:
    """Write the labels of ticks."""
    return [f"{v:.4g}".replace("-", "−") for v in values]


CURVE = Frame(height=360, x=(0.0, 1.0), y=(0.0, 1.0))
_FIFTHS = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
_MOST_RECORDS = 400


def draw_precision_recall(data: ReportData) -> Markup:
    """Draw the precision-recall curves with required levels, bounds and operating points."""
    report, frame = data.report, CURVE
    parts = [frame.axes(_FIFTHS, _FIFTHS, "recall: fraction caught", "precision: fraction real")]
    for constraint in report.goal.constraints:
        if constraint.each:  # not a level of all rows together
            continue
        ends, level = [0.0, 1.0], [constraint.level] * 2
        if constraint.metric.name == "precision":
            parts.append(frame.line(ends, level, "floor"))
        elif constraint.metric.name == "recall":
            parts.append(frame.line(level, ends, "floor"))
    if data.band is not None:
        recall, low, high = (values[_shown(data.band[0])] for values in data.band)
        outline = frame.path([*recall, *recall[::-1]], [*low, *high[::-1]])
        edges = frame.path(recall, low) + frame.path(recall, high)
        parts.insert(0, f'<path class="area" d="{outline}Z"/><path class="edge" d="{edges}"/>')
    if data.baseline_steps is not None:
        parts.append(_curve(data.baseline_steps, "baseline"))
    if data.current_steps is not None:
        parts.append(_curve(data.current_steps, "current"))
    parts.append(_curve(data.steps, "model"))
    point = report.point
    described = (
        f"Precision over recall at every threshold. The chosen threshold has recall "
        f"{format_metric(point.recall)} and precision {format_metric(point.precision)}."
    )
    for baseline, at in report.baselines:
        x, y = frame.across(at.recall), frame.up(at.precision)
        shape, kind = ("triangle", "tuned") if baseline is report.tuned else ("square", "baseline")
        if baseline is report.current:
            shape, kind = "hexagon", "current"
        parts.append(marker(shape, x, y, kind))
        described += (
            f" {baseline.name}: recall {format_metric(at.recall)} and precision "
            f"{format_metric(at.precision)}."
        )
    x, y = frame.across(point.recall), frame.up(point.precision)
    parts.append(marker("ring", x, y, "here screen", "curve-here"))
    parts.append(_bounds(report.certificate))  # on top: all these points are close together
    parts.append(marker("diamond", x, y, "chosen"))
    return frame.picture("curve", f"{described} The table below lists the numbers.", *parts)


def _shown(recall: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where a curve is drawn: not on the axis itself.

    There, the precision of the first few alarms jumps between 0 and 1, in dashes upon each other.
    """
    return recall * (WIDTH - CURVE.right - CURVE.left) >= 1.0


def _curve(steps: Steps, kind: str) -> str:
    recall, precision = steps.curve()
    shown = _shown(recall)
    return CURVE.line(recall[shown], precision[shown], kind)


def _bounds(certificate: Certificate | None) -> str:
    """Draw lines from the certificate's operating point to its bounds."""
    bounds = drawn_bounds(certificate)
    if not bounds:
        return ""
    assert certificate is not None
    x = CURVE.across(certificate.operating_point.recall)
    y = CURVE.up(certificate.operating_point.precision)
    parts = []
    for bound in bounds:
        assert bound.bound is not None
        way = f"H{CURVE.across(bound.bound):.1f}m0 -5v10"
        if bound.metric.name == "precision":
            way = f"V{CURVE.up(bound.bound):.1f}m-5 0h10"
        parts.append(f'<path class="bound" d="M{x:.1f} {y:.1f}{way}"/>')
    return "".join([*parts, f'<circle class="from" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'])


def scores_frame(found: Histogram, top: float = 10) -> Frame:
    """Return the frame of the scores' picture, with space above it."""
    x = (float(found.edges[0]), float(found.edges[-1]))
    return Frame(height=290 + top, x=x, y=(-1.0, 1.0), top=top)


def histogram_parts(found: Histogram, frame: Frame, *behind: str) -> list[str]:
    """Return axes and bars of the scores: positives upwards, the others downwards.

    Each half has its own scale, relative to its class; otherwise a rare class would be invisible.
    ``behind`` is drawn first.
    """
    edges, middle = found.edges, frame.up(0)
    halves, peaks = [], []
    for fractions, sign, kind in (
        (found.positives, 1, "positives"),
        (found.negatives, -1, "others"),
    ):
        peak = float(max(fractions.max(), 1e-300))
        peaks.append(peak)
        bars = []
        for i, part in enumerate(fractions.tolist()):
            if part == 0:
                continue
            x, end = frame.across(edges[i]), frame.across(edges[i + 1])
            size = abs(frame.up(sign * 0.96 * part / peak) - middle)
            top = middle - size if sign > 0 else middle
            bars.append(f"M{x:.1f} {top:.1f}H{end - 0.6:.1f}v{size:.1f}H{x:.1f}z")
        halves.append(f'<path class="bar {kind}" d="{"".join(bars)}"/>')
    up_texts = [_percent(peaks[1]), "0", _percent(peaks[0])]
    return [
        *behind,
        frame.axes(ticks(*frame.x), [-0.96, 0.0, 0.96], "score", "fraction of its class", up_texts),
        *halves,
        f'<path class="axis" d="M{frame.left} {middle:.1f}H{WIDTH - frame.right}"/>',
    ]


def draw_scores(data: ReportData) -> Markup:
    """Draw histograms of the scores, with the threshold."""
    report, found = data.report, data.histogram
    frame = scores_frame(found)
    x = frame.across(report.threshold)
    parts = [
        *histogram_parts(found, frame),
        f'<path id="scores-here" class="cut here screen" d="M0 {frame.top}V{frame.bottom:.1f}" '
        f'transform="translate({x:.1f} 0)"/>',
        f'<path class="cut chosen" d="M{x:.1f} {frame.top}V{frame.bottom:.1f}"/>',
    ]
    described = (
        f"Histograms of the scores: {report.plural} above, all other cases below. "
        f"Cases to the right of the threshold {format_threshold(report.threshold)} raise an alarm."
    )
    return frame.picture("scores", described, *parts)


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.095 else f"{100 * value:.1g} %"


def draw_history(found: History, objective: str) -> list[Markup]:
    """Draw the objective and the violation over the iterations, a picture of each.

    There is no picture of a violation that is always 0.
    """
    kept = np.unique(np.linspace(0, len(found) - 1, _MOST_RECORDS).round().astype(int))
    records = [found[int(i)] for i in kept]
    iterations = [r.iteration for r in records]
    last = max(float(found[-1].iteration), 1.0)
    best = next((r for r in found if r.iteration == found.best_iteration), None)
    pictures = []
    for name, text, kind in (
        ("objective", objective, "model"),
        ("violation", "shortfall", "violation"),
    ):
        values = [float(getattr(r, name)) for r in records]
        if name == "violation" and not any(values):
            continue
        finite = [v for v in values if math.isfinite(v)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        if name == "violation":
            low, high = 0.0, max(high, 1e-3)
        margin = 0.06 * (high - low) or 0.05
        up = ticks(low, high, 4)
        left = 30 + 7 * max(map(len, texts(up)))  # the label stands left of the longest number
        frame = Frame(190, (0.0, last), (low - margin, high + margin), left=left)
        whole = [tick for tick in ticks(0.0, last) if tick == int(tick)]
        parts = [frame.axes(whole, up, "iteration", text), frame.line(iterations, values, kind)]
        if best is not None and math.isfinite(getattr(best, name)):
            x, y = frame.across(best.iteration), frame.up(getattr(best, name))
            parts.append(marker("diamond", x, y, "chosen"))
        described = (
            f"{'Shortfall from the goal' if name == 'violation' else text} over {len(found)} "
            f"iterations, from {format_metric(values[0])} to {format_metric(values[-1])}."
        )
        pictures.append(frame.picture(f"history-{name}", described, *parts))
    return pictures


def swatch(kind: str) -> Markup:
    """Return the symbol of a legend's entry."""
    square = marker("square", 14, 8, "baseline")
    hexagon = marker("hexagon", 14, 8, "current")
    dot = '<circle class="from" cx="4" cy="8" r="3.5"/>'
    shapes = {
        "model": '<path class="line model" d="M0 8H28"/>',
        "baseline": f'<path class="line baseline" d="M0 8H28"/>{square}',
        "current": f'<path class="line current" d="M0 8H28"/>{hexagon}',
        "tuned": marker("triangle", 14, 8, "tuned"),
        "floor": '<path class="line floor" d="M0 8H28"/>',
        "area": '<path class="area" d="M0 2H28V14H0Z"/><path class="edge" d="M0 2H28M0 14H28"/>',
        "bound": f'<path class="bound" d="M4 8H24m0 -5v10"/>{dot}',
        "chosen": marker("diamond", 14, 8, "chosen"),
        "here": '<circle class="mark here" cx="14" cy="8" r="7"/>',
        "cut": '<path class="cut chosen" d="M14 0V16"/>',
        "positives": '<path class="bar positives" d="M6 1h16v14h-16z"/>',
        "others": '<path class="bar others" d="M6 1h16v14h-16z"/>',
        "met": marker("circle", 14, 8, "met"),
        "observed": marker("dot", 14, 8, "observed"),
        "missed": marker("diamond", 14, 8, "missed"),
        "interval": error_bar(2, 26, 8),
        "alarm": '<path class="band alarm" d="M2 1h24v14h-24z"/>',
        "review": '<path class="band review" d="M2 1h24v14h-24z"/>',
        "clear": '<path class="band clear" d="M2 1h24v14h-24z"/>',
        "over": '<path class="over" d="M14 12l-4 -6h8z"/>',
    }
    picture = f'<svg class="swatch" viewBox="0 0 28 16" aria-hidden="true">{shapes[kind]}</svg>'
    return Markup(picture)
