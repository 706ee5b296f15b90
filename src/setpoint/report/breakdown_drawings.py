"""Pictures of the results by segment and by period, as SVG, drawn by hand."""

from __future__ import annotations

import math
from html import escape
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from setpoint.goals.metrics import Metric
from setpoint.report.breakdown import MONTHS, MOST_DRAWN, ByPeriod, BySegment
from setpoint.report.drawings import WIDTH, Frame, error_bar, marker, ticks
from setpoint.report.wording import level_text, metric_label, shortened, value_text

_ROW = 22  # height of a segment's row
_LETTER = 7.2  # width of a letter of a tick's label
_MARGIN = 12  # space of a marker at either end of the axis, which would touch the texts there
_SHORT = tuple(month[:3] for month in MONTHS)
_MOST_BARS = 680  # with more periods, a bar is the busiest of several


# --- by segment ----------------------------------------------------------------------------------


def draw_segments(results: BySegment, name: str, picture: str) -> Markup:
    """Draw a constrained metric in each segment: its value, 95 % interval and required level.

    ``name`` is the metric's plain name, ``picture`` the id of the picture.
    """
    every = results.measured(name)
    currency, which = results.report.currency, results.metrics[name]
    rows = []
    for segment, found in every[:MOST_DRAWN]:
        level = found.constraint.level
        if (found.low, found.high) == (0.0, 1.0):  # no row counts: a precision without alarms
            rows.append(Dot(segment, math.nan, None, None, level, found.met, "–"))
            continue
        text = value_text(which, found.value, currency, found.constraint)
        rows.append(Dot(segment, found.value, found.low, found.high, level, found.met, text))
    missed = sum(not found.met for _, found in every)
    required = level_text(every[0][1].constraint, currency)
    described = (
        f"{metric_label(which)} in {len(rows)} segments of {results.column}, the worst first, with "
        f"95 % intervals. Required: {required}. {missed} of {len(every)} miss it. The table lists "
        "the numbers."
    )
    return draw_dots(rows, which, picture, described)


class Dot(NamedTuple):
    """A row of a picture: a metric's value, its interval, the required level, and the number.

    Attributes
    ----------
    name : str
        Written to the left of the row.
    value, low, high, level : float or None
        The value, the ends of its interval, and the level; an absent one is not drawn.
    met : bool
        Whether the level is reached; without a level, it is of no consequence.
    text : str
        The value, written to the right.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    level: float | None
    met: bool
    text: str


def draw_dots(rows: list[Dot], which: Metric, picture: str, described: str) -> Markup:
    """Draw a metric of several segments or labels, one below the other."""
    names = [shortened(row.name, 19) for row in rows]
    low, high = _span(rows, which)
    left = 14 + _LETTER * max(map(len, names))
    right = 14 + _LETTER * max(len(row.text) for row in rows)
    margin = _MARGIN * (high - low) / (WIDTH - left - right - 2 * _MARGIN)
    frame = Frame(
        height=50 + _ROW * len(rows),
        x=(low - margin, high + margin),
        y=(0.0, float(len(rows))),
        left=left,
        right=right,
    )
    middles = [len(rows) - i - 0.5 for i in range(len(rows))]
    parts = [frame.axes(ticks(low, high), middles, metric_label(which), "", names)]
    for row, at in zip(rows, middles, strict=True):
        y = frame.up(at)
        if row.level is not None:
            x, top, bottom = frame.across(row.level), frame.up(at + 0.5), frame.up(at - 0.5)
            parts.append(f'<path class="line floor" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
        if row.low is not None and row.high is not None:
            parts.append(error_bar(frame.across(row.low), frame.across(row.high), y))
        if math.isfinite(row.value):
            shape, kind = ("circle", "met") if row.met else ("diamond", "missed")
            if row.level is None:
                shape, kind = "dot", "observed"
            parts.append(marker(shape, frame.across(row.value), y, kind))
        parts.append(
            f'<text class="tick" x="{WIDTH - frame.right + 8:.1f}" y="{y + 4:.1f}">'
            f"{escape(row.text)}</text>"
        )
    return frame.picture(picture, described, *parts)


def _span(rows: list[Dot], which: Metric) -> tuple[float, float]:
    """Return the range of the values' axis: 0 to 1 for fractions."""
    bounds = which.bounds
    if math.isfinite(bounds[0]) and math.isfinite(bounds[1]):
        return bounds
    numbers = [0.0]
    for row in rows:
        numbers += [row.value if row.level is None else row.level, row.value]
    finite = [x for x in numbers if math.isfinite(x)]
    low, high = min(finite), max(finite)
    margin = 0.05 * (high - low) or 0.5
    return low - (margin if low < 0 else 0.0), high + margin


# --- by period -----------------------------------------------------------------------------------


class Bars(NamedTuple):
    """The bars of a picture: where they are, their alarms, and the real ones among these.

    Attributes
    ----------
    at, alarms, real : ndarray
        Of each bar.
    over : ndarray of bool
        Whether it is above the budget.
    each : int
        The number of periods of which a bar is the busiest.
    """

    at: NDArray[np.float64]
    alarms: NDArray[np.int64]
    real: NDArray[np.int64]
    over: NDArray[np.bool_]
    each: int


def bars_of(periods: ByPeriod, most: int = _MOST_BARS) -> Bars:
    """Return the bars of periods: one for each or, of very many, for the busiest of several."""
    places = periods.places
    each = math.ceil((int(places[-1]) - int(places[0]) + 1) / most)
    if each == 1:
        return Bars(places.astype(float), periods.alarms, periods.real, periods.over, 1)
    groups = (places - places[0]) // each
    order = np.lexsort((-periods.alarms, groups))
    _, first = np.unique(groups[order], return_index=True)
    kept = order[first]
    at = places[0] + groups[kept] * each + (each - 1) / 2
    return Bars(at, periods.alarms[kept], periods.real[kept], periods.over[kept], each)


def draw_periods(periods: ByPeriod, picture: str) -> Markup:
    """Draw the alarms of each period, the real ones among them, and what exceeds the budget."""
    bars = bars_of(periods)
    most = max(float(periods.alarms.max()), periods.level, 1.0)
    up = [tick for tick in ticks(0.0, most, 4) if tick % 1 == 0]
    left = 30 + 7 * max(len(f"{tick:,.0f}") for tick in up)
    half = 0.5 * bars.each
    x = (float(bars.at[0]) - half, float(bars.at[-1]) + half)
    frame = Frame(height=250, x=x, y=(0.0, 1.12 * most), left=left)
    at, labels = time_ticks(periods)
    parts = [
        frame.axes(
            at, up, periods.period if not periods.dated else "", f"alarms per {periods.period}",
            [f"{tick:,.0f}" for tick in up], labels,
        )
    ]  # fmt: skip
    width = frame.across(x[0] + bars.each) - frame.left
    gap = 0.15 * width if width > 3 else 0.0
    for heights, kind in ((bars.alarms, "others"), (bars.real, "positives")):
        path = "".join(
            f"M{frame.across(a - half) + gap:.2f} {frame.bottom:.1f}V{frame.up(h):.1f}"
            f"h{width - 2 * gap:.2f}V{frame.bottom:.1f}z"
            for a, h in zip(bars.at.tolist(), heights.tolist(), strict=True)
            if h
        )
        parts.append(f'<path class="bar {kind}" d="{path}"/>')
    parts.append(frame.line(x, [periods.level] * 2, "floor"))
    size = min(max(width / 2, 2.0), 4.0)
    over = "".join(
        f"M{frame.across(a):.1f} {frame.up(h) - 2:.1f}"
        f"l{-size:.1f} {-1.5 * size:.1f}h{2 * size:.1f}z"
        for a, h in zip(bars.at[bars.over].tolist(), bars.alarms[bars.over].tolist(), strict=True)
    )
    if over:
        parts.append(f'<path class="over" d="{over}"/>')
    described = f"Alarms per {periods.period}, real and false. {periods.sentence}"
    return frame.picture(picture, described, *parts)


def time_ticks(periods: ByPeriod, most: int = 6) -> tuple[list[float], list[str]]:
    """Return places on the time axis at round dates, at most so many, and their labels."""
    first, last = int(periods.places[0]), int(periods.places[-1])
    if not periods.dated:
        whole = [tick for tick in ticks(float(first), float(last)) if tick % 1 == 0] or [first]
        return [float(tick) for tick in whole], [f"{tick:,.0f}" for tick in whole]
    start, end = (_date(periods.period, place) for place in (first, last))
    found: NDArray[Any] = np.array([start])
    for unit, step in (
        ("h", 6), ("h", 12), ("D", 1), ("D", 2), ("D", 7), ("D", 14), ("M", 1), ("M", 2), ("M", 3),
        ("M", 6), ("M", 12), ("M", 24), ("M", 60), ("M", 120), ("M", 600), ("M", 1200),
    ):  # fmt: skip
        if {"hour": "hDM", "day": "DM", "week": "DM", "month": "M"}[periods.period].find(unit) < 0:
            continue
        dates = np.arange(
            start.astype(f"datetime64[{unit}]"), end.astype(f"datetime64[{unit}]") + 1
        )
        numbers = dates.astype(np.int64) + (3 if (unit, step) in (("D", 7), ("D", 14)) else 0)
        dates = dates[(numbers % step == 0) & (dates.astype(start.dtype) >= start)]
        if 1 < len(dates) <= most:
            found = dates
            break
    at = [_place(periods.period, date) for date in found]
    texts = [_label(str(date), periods.period) for date in found]
    for i, text in enumerate(texts):  # the year stands at the first month and at each January
        month, _, year = text.partition(" ")
        if i and month in _SHORT and month != "Jan" and year.isdigit():
            texts[i] = month
    return at, texts


def _date(period: str, place: int) -> Any:
    """Return the first moment of a period."""
    unit: Any = {"hour": "h", "day": "D", "week": "D", "month": "M"}[period]
    return np.datetime64(7 * place + 4 if period == "week" else place, unit)  # 4: a Monday


def _place(period: str, date: Any) -> float:
    if period == "week":
        return float((date.astype("datetime64[D]").astype(np.int64) - 4) / 7)
    unit = {"hour": "h", "day": "D", "month": "M"}[period]
    return float(date.astype(f"datetime64[{unit}]").astype(np.int64))


def _label(date: str, period: str) -> str:
    """Return a tick's label, as short as the date's precision: "16 Mar", "Mar 2024"."""
    day, _, hour = date.partition("T")
    year, month, *rest = day.split("-")
    name = _SHORT[int(month) - 1]
    text = f"{int(rest[0])} {name}" if rest else f"{name} {year}"
    return f"{text} {hour}h" if hour and period == "hour" and hour != "00" else text
