"""Sections of the page on the model's reasons: coefficients, importance, rows, drift."""

from __future__ import annotations

import math
import re
from typing import Any

from setpoint.explain.coefficients import Coefficients
from setpoint.explain.drift import Drift
from setpoint.explain.explanations import Explanations
from setpoint.explain.importance import Importances
from setpoint.goals.metrics import display_name
from setpoint.report.why_drawings import Bar, draw_bars
from setpoint.report.wording import capitalized

_SHOWN = 10  # features and columns; the others open on demand
_PICTURES = 2  # metrics that are drawn
_MOST = 500  # in all: a page is no place for thousands of rows


def reasons(why: Explanations | None) -> dict[str, Any]:
    """Return the content of the sections by their names in the template; most may be empty."""
    why = why or Explanations()
    return {
        "coefficients": _coefficients(why.coefficients),
        "importances": _importances(why.importances),
        "nearest": _nearest(why),
        "drift": _drift(why.drift),
    }


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


def _importances(found: Importances | None) -> dict[str, Any] | None:
    if found is None or not len(found):
        return None
    head, *rows = found.table(_MOST)
    pictures = []
    for i, name in enumerate(found.metrics[:_PICTURES]):
        bars = []
        for one, texts in zip(found[:_SHOWN], rows[:_SHOWN], strict=True):
            drop, deviation = one.drops[i], one.deviations[i]
            if math.isfinite(drop):
                text = texts[i + 1].partition(" ±")[0]
                bars.append(Bar(one.name, drop, text, drop - deviation, drop + deviation))
        label = f"worse {display_name(name)}"
        described = (
            f"Bars of the {len(bars)} most important columns: {label} if the column is shuffled. "
            "The table lists the numbers."
        )
        if bars:
            pictures.append(
                (capitalized(label), draw_bars(bars, label, f"importance-{i + 1}", described))
            )
    return {
        "meaning": found.meaning,
        "pictures": pictures,
        "caption": f"Permutation importance, sorted by {_order(len(found.metrics))}",
        "head": head,
        **_folded(rows, len(found)),
    }


def _order(metrics: int) -> str:
    """Say by what the columns are sorted."""
    if metrics == 1:
        return "the loss"
    return "the largest loss in any metric, as a fraction of the largest change of that metric"


def _nearest(why: Explanations) -> dict[str, Any] | None:
    found = why.nearest
    if found is None or not len(found):
        return None
    head, *rows = found.table(exact=why.show_values)
    hidden = not why.show_values and any(row.contributions for row in found)
    return {"meaning": found.meaning, "head": head, "rows": _unbroken(rows), "hidden": hidden}


def _drift(found: Drift | None) -> dict[str, Any] | None:
    if found is None or not len(found):
        return None
    head, *rows = found.table(_MOST)
    return {"meaning": found.meaning, "head": head, **_folded(_unbroken(rows), len(found))}


def _unbroken(rows: list[list[str]]) -> list[list[str]]:
    """Return texts whose lines are not broken before a sign, where a phone has to break them."""
    return [[re.sub(" (?=[±%↑↓])", "\N{NO-BREAK SPACE}", text) for text in row] for row in rows]


def _folded(rows: list[list[str]], every: int) -> dict[str, Any]:
    """Return the first rows of a table, and those that open on demand."""
    return {
        "rows": rows[:_SHOWN], "more": rows[_SHOWN:], "omitted": every - len(rows)
    }  # fmt: skip
