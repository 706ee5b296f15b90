"""Pictures of a model's reasons, as SVG, drawn by hand."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from setpoint.report.drawings import WIDTH, Frame, error_bar, ticks
from setpoint.report.wording import shortened

_ROW = 22  # height of a bar's row
_LETTER = 7.2  # width of a letter of a tick's label


class Bar(NamedTuple):
    """A bar: its name, its value with the text to the right, and the ends of an interval."""

    name: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None


def draw_bars(bars: list[Bar], label: str, picture: str, described: str) -> Markup:
    """Draw horizontal bars from 0, one below the other: positive ones to the right."""
    names = [shortened(bar.name, 22) for bar in bars]
    ends = [0.0]
    for bar in bars:
        ends += [x for x in (bar.value, bar.low, bar.high) if x is not None and math.isfinite(x)]
    low, high = min(ends), max(ends)
    if not high - low > 0:
        high = low + 1.0
    margin = 0.04 * (high - low)
    low, high = low - margin * (low < 0), high + margin * (high > 0)
    frame = Frame(
        height=50 + _ROW * len(bars),
        x=(low, high),
        y=(0.0, float(len(bars))),
        left=14 + _LETTER * max(map(len, names)),
        right=14 + _LETTER * max(len(bar.text) for bar in bars),
    )
    middles = [len(bars) - i - 0.5 for i in range(len(bars))]
    parts = [frame.axes(ticks(low, high, 4), middles, label, "", names)]
    zero = frame.across(0.0)
    for bar, at in zip(bars, middles, strict=True):
        y, end = frame.up(at), frame.across(bar.value)
        kind = "positives" if bar.value > 0 else "others"
        left, width = min(zero, end), abs(end - zero)
        parts.append(
            f'<path class="bar {kind}" d="M{left:.1f} {y - 6:.1f}h{width:.1f}v12h-{width:.1f}z"/>'
        )
        if bar.low is not None and bar.high is not None:
            parts.append(error_bar(frame.across(bar.low), frame.across(bar.high), y))
        parts.append(
            f'<text class="tick" x="{WIDTH - frame.right + 8:.1f}" y="{y + 4:.1f}">'
            f"{escape(bar.text)}</text>"
        )
    parts.append(f'<path class="axis" d="M{zero:.1f} {frame.top}V{frame.bottom:.1f}"/>')
    return frame.picture(picture, described, *parts)
