"""The page's three pictures, as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from setpoint.goals.goal import shown
from setpoint.goals.metrics import number
from setpoint.report.data import Contents
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
        """Return the commands of a line; points that would not be seen apart are left out."""
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
        for tick, text in zip(across, texts(across), strict=True):
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

    def picture(self, name: str, described: str, *parts: str) -> str:
        """Return the whole picture, with a description for those who do not see it."""
        return (
            f'<svg id="{name}" viewBox="0 0 {WIDTH} {self.height:g}" role="img" '
            f'aria-label="{escape(described)}">{"".join(parts)}</svg>'
        )


def marker(shape: str, x: float, y: float, kind: str, name: str = "") -> str:
    """Return a mark at a place in the picture: a diamond, a square, a triangle or a circle."""
    shapes = {
        "diamond": '<path d="M0 -8L8 0L0 8L-8 0Z"/>',
        "square": '<path d="M-6 -6H6V6H-6Z"/>',
        "triangle": '<path d="M0 -8L8 6H-8Z"/>',
        "circle": '<circle r="7"/>',
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
    """Write ticks, short and all alike."""
    return [f"{v:.4g}".replace("-", "−") for v in values]


CURVE = Frame(height=360, x=(0.0, 1.0), y=(0.0, 1.0))
_FIFTHS = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
_MOST_RECORDS = 400


def precision_recall(contents: Contents) -> str:
    """Return precision over recall at every threshold, with all that is known of the chosen one."""
    report, frame, steps = contents.report, CURVE, contents.steps
    parts = [frame.axes(_FIFTHS, _FIFTHS, "recall: share caught", "precision: share real")]
    for constraint in report.goal.constraints:
        level = constraint.level
        if constraint.metric.name == "precision":
            parts.append(frame.line([0, 1], [level, level], "floor"))
        elif constraint.metric.name == "recall":
            parts.append(frame.line([level, level], [0, 1], "floor"))
    other = contents.baseline_steps
    if other is not None:
        some = other.tp + other.fp > 0
        parts.append(frame.line(other.recall[some], other.precision[some], "baseline"))
    some = steps.tp + steps.fp > 0
    parts.append(frame.line(steps.recall[some], steps.precision[some], "model"))
    parts.append(_bounds(contents))
    for rival, at in report.rivals:
        x, y = frame.across(at.recall), frame.up(at.precision)
        kind = ("triangle", "tuned") if rival is report.tuned else ("square", "baseline")
        parts.append(marker(kind[0], x, y, kind[1]))
    point = report.point
    x, y = frame.across(point.recall), frame.up(point.precision)
    parts.append(marker("circle", x, y, "here screen", "curve-here"))
    parts.append(marker("diamond", x, y, "chosen"))
    described = (
        f"Precision over recall at every threshold. The chosen one has recall "
        f"{shown(point.recall)} and precision {shown(point.precision)}."
    )
    for rival, at in report.rivals:
        described += f" {rival.name} has {shown(at.recall)} and {shown(at.precision)}."
    return frame.picture("curve", described + " The table below has the numbers.", *parts)


def _bounds(contents: Contents) -> str:
    """Draw how far precision and recall may lie from what was observed."""
    certificate = contents.report.certificate
    if certificate is None:
        return ""
    point, parts = certificate.operating_point, []
    if math.isnan(point.recall):
        return ""
    x, y = CURVE.across(point.recall), CURVE.up(point.precision)
    for bound in certificate.bounds:
        if bound.bound is None or bound.kind != "exact":
            continue
        if bound.metric.name == "precision":
            end = CURVE.up(bound.bound)
            parts.append(f'<path class="bound" d="M{x:.1f} {y:.1f}V{end:.1f}m-6 0h12"/>')
        elif bound.metric.name == "recall":
            end = CURVE.across(bound.bound)
            parts.append(f'<path class="bound" d="M{x:.1f} {y:.1f}H{end:.1f}m0 -6v12"/>')
    if parts:
        parts.append(f'<circle class="from" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    return "".join(parts)


def scores_frame(contents: Contents) -> Frame:
    """Return the frame of the scores' picture."""
    edges = contents.histogram.edges
    return Frame(height=300, x=(float(edges[0]), float(edges[-1])), y=(-1.0, 1.0))


def scores(contents: Contents) -> str:
    """Return the scores of both classes: positives upwards, the others downwards.

    Each half has a scale of its own, in shares of its class; else a rare class would not be seen.
    """
    report, found, frame = contents.report, contents.histogram, scores_frame(contents)
    edges, middle = found.edges, frame.up(0)
    halves = []
    peaks = []
    for shares, sign, kind in ((found.positives, 1, "positives"), (found.negatives, -1, "others")):
        peak = float(max(shares.max(), 1e-300))
        peaks.append(peak)
        bars = []
        for i, part in enumerate(shares.tolist()):
            if part == 0:
                continue
            x, end = frame.across(edges[i]), frame.across(edges[i + 1])
            size = abs(frame.up(sign * 0.96 * part / peak) - middle)
            top = middle - size if sign > 0 else middle
            bars.append(f"M{x:.1f} {top:.1f}H{end - 0.6:.1f}v{size:.1f}H{x:.1f}z")
        halves.append(f'<path class="bar {kind}" d="{"".join(bars)}"/>')
    x = frame.across(report.threshold)
    up_texts = [_percent(peaks[1]), "0", _percent(peaks[0])]
    right = WIDTH - frame.right
    parts = [
        frame.axes(ticks(*frame.x), [-0.96, 0.0, 0.96], "score", "share of its class", up_texts),
        *halves,
        f'<path class="axis" d="M{frame.left} {middle:.1f}H{right}"/>',
        f'<path id="scores-here" class="cut here screen" d="M0 {frame.top}V{frame.bottom:.1f}" '
        f'transform="translate({x:.1f} 0)"/>',
        f'<path class="cut chosen" d="M{x:.1f} {frame.top}V{frame.bottom:.1f}"/>',
    ]
    described = (
        f"Histograms of the scores: {report.many} above, all other cases below. "
        f"Cases right of the threshold {number(report.threshold)} raise an alarm."
    )
    return frame.picture("scores", described, *parts)


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1g} %"


def history(found: History, objective: str) -> str:
    """Return the objective and the violation over the iterations, one above the other."""
    kept = np.unique(np.linspace(0, len(found) - 1, _MOST_RECORDS).round().astype(int))
    records = [found[int(i)] for i in kept]
    last = max(float(found[-1].iteration), 1.0)
    pictures = []
    for name, text, kind in (
        ("objective", objective, "model"),
        ("violation", "missed by", "violation"),
    ):
        values = [float(getattr(r, name)) for r in records]
        finite = [v for v in values if math.isfinite(v)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        if name == "violation":
            low, high = 0.0, max(high, 1e-3)
        margin = 0.06 * (high - low) or 0.05
        up = ticks(low, high, 4)
        left = 30 + 7 * max(map(len, texts(up)))  # the label stands left of the longest number
        frame = Frame(190, (0.0, last), (low - margin, high + margin), left=left)
        iterations = [r.iteration for r in records]
        parts = [frame.axes(_whole(ticks(0.0, last)), up, "iteration", text)]
        parts.append(frame.line(iterations, values, kind))
        best = next((r for r in found if r.iteration == found.best_iteration), None)
        if best is not None and math.isfinite(getattr(best, name)):
            x, y = frame.across(best.iteration), frame.up(getattr(best, name))
            parts.append(marker("diamond", x, y, "chosen"))
        ends = f"from {shown(values[0])} to {shown(values[-1])}"
        described = f"{text} over {len(found)} iterations, {ends}."
        if name == "violation":
            described = f"What the goal is missed by, over {len(found)} iterations, {ends}."
        pictures.append(frame.picture(f"history-{name}", described, *parts))
    return "".join(f"<div>{picture}</div>" for picture in pictures)


def _whole(values: list[float]) -> list[float]:
    return [v for v in values if v == int(v)]


def swatch(kind: str) -> str:
    """Return a small picture for a legend."""
    square = marker("square", 14, 8, "baseline")
    dot = '<circle class="from" cx="4" cy="8" r="4"/>'
    shapes = {
        "model": '<path class="line model" d="M0 8H28"/>',
        "baseline": f'<path class="line baseline" d="M0 8H28"/>{square}',
        "tuned": marker("triangle", 14, 8, "tuned"),
        "floor": '<path class="line floor" d="M0 8H28"/>',
        "bound": f'<path class="bound" d="M4 8H24m0 -6v12"/>{dot}',
        "chosen": marker("diamond", 14, 8, "chosen"),
        "here": marker("circle", 14, 8, "here"),
        "cut": '<path class="cut chosen" d="M14 0V16"/>',
        "positives": '<path class="bar positives" d="M6 1h16v14h-16z"/>',
        "others": '<path class="bar others" d="M6 1h16v14h-16z"/>',
    }
    return f'<svg class="swatch" viewBox="0 0 28 16" aria-hidden="true">{shapes[kind]}</svg>'


def legend(*entries: tuple[str, str] | None) -> str:
    """Return the legend of a picture."""
    items = (
        f'<li class="{"screen" if kind == "here" else "always"}">{swatch(kind)}{escape(text)}</li>'
        for kind, text in (e for e in entries if e is not None)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


# DOC of report.svg: A frame to draw in: from numbers to the coordinates of an SVG picture.
#
# Pictures are 400 wide whatever the screen, so that their text is readable on a phone (335 px)
# and not too large on a desk. Colours come from the page's style sheet, by class.
#
