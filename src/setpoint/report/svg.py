"""A frame to draw in: from numbers to the coordinates of an SVG picture.

Pictures are 400 wide whatever the screen, so that their text is readable on a phone (335 px)
and not too large on a desk. Colours come from the page's style sheet, by class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

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
