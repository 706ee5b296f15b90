"""Sections of the page on the model's reasons: coefficients, importance, rows, drift."""

from __future__ import annotations

from typing import Any

from setpoint.explain.coefficients import Coefficients
from setpoint.explain.explanations import Explanations
from setpoint.report.why_drawings import Bar, draw_bars

_SHOWN = 10  # features and columns; the others open on demand
_MOST = 500  # in all: a page is no place for thousands of rows


def reasons(why: Explanations | None) -> dict[str, Any]:
    """Return the content of the sections by their names in the template; most may be empty."""
    why = why or Explanations()
    return {"coefficients": _coefficients(why.coefficients)}


def _coefficients(found: Coefficients | None) -> dict[str, Any] | None:
    if found is None:
        return None
    head, *rows = found.table(_MOST)
    bars = [
        Bar(one.feature, one.per_deviation, text[2])
        for one, text in zip(found[:_SHOWN], rows[:_SHOWN], strict=True)
        if one.per_deviation == one.per_deviation  # unknown without a standardizer
    ]
    label = "change of the score per standard deviation"
    described = (
        f"Bars of the {len(bars)} most influential features: {label}. The table lists the numbers."
    )
    return {
        "meaning": found.meaning,
        "picture": draw_bars(bars, label, "coefficients-bars", described) if bars else "",
        "head": head,
        **_folded(rows, len(found)),
    }


def _folded(rows: list[list[str]], every: int) -> dict[str, Any]:
    """Return the first rows of a table, and those that open on demand."""
    return {
        "rows": rows[:_SHOWN], "more": rows[_SHOWN:], "omitted": every - len(rows)
    }  # fmt: skip
