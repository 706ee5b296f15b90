"""Explanations of commands: what is computed, printed and shown in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from setpoint.explain.coefficients import Coefficients, coefficients_or_none
from setpoint.explain.drift import Drift
from setpoint.explain.explanations import Explanations
from setpoint.explain.importance import MAX_ROWS, Importances
from setpoint.explain.nearest import EACH_SIDE
from setpoint.goals.bands import BandGoal
from setpoint.tables.explanations import table_nearest_rows

if TYPE_CHECKING:
    from setpoint.cli.output import Output
    from setpoint.tables.fitting import FittedTable
    from setpoint.tables.model import TableModel

_MOST = 10  # lines of a table in a terminal
_WORK, _FEWEST = 150_000, 1_000  # columns times rows, and rows, for the report of a fit


def explain_fit(
    fitted: FittedTable,
    frame: Any,
    output: Output,
    *,
    importance: bool | None,
    wanted: bool,
    show_values: bool,
) -> Explanations:
    """Return the explanations of a new model, on its test rows.

    ``frame`` is the table; None if it was streamed. ``wanted``: there will be a report.
    """
    model, test = fitted.model, fitted.test
    coefficients = coefficients_or_none(model)
    if frame is None or test is None or not (wanted or importance):
        return Explanations(coefficients)
    rows = frame.iloc[test.rows]
    measured = None
    if not (test.y.any() and not test.y.all()):
        output.note("the test rows are of one class, so importance of columns is not measured.")
    elif wanted if importance is None else importance:
        most = int(np.clip(_WORK // len(model.schema.columns), _FEWEST, MAX_ROWS))
        measured = measure(model, rows, "the test rows", output, max_rows=most)
    nearest = None
    if wanted and not isinstance(model.goal, BandGoal):
        nearest = table_nearest_rows(
            model, rows, EACH_SIDE, show_values, on="the test rows", ignore_extra=True,
            numbers=test.rows, scores=test.scores,
        )  # fmt: skip
    return Explanations(coefficients, measured, nearest, show_values=show_values)


def explain_rows(
    model: TableModel,
    frame: Any,
    scores: Any,
    on: str,
    output: Output,
    *,
    importance: bool,
    nearest: int | None,
    wanted: bool,
    show_values: bool,
) -> Explanations:
    """Return the explanations of a saved model on labelled rows, given their scores.

    ``nearest`` is the number of rows on each side of the threshold, if they are asked for.
    ``wanted``: there will be a report.
    """
    measured = measure(model, frame, on, output) if importance else None
    near = None
    if nearest is not None or (wanted and not isinstance(model.goal, BandGoal)):
        each_side = EACH_SIDE if nearest is None else nearest
        near = table_nearest_rows(
            model, frame, each_side, show_values, on=on, ignore_extra=True, scores=scores
        )
    drift = None
    if model.summaries:
        drift = Drift.of(model.summaries, model.schema.check(frame, ignore_extra=True), on)
    else:
        output.note(
            "the model was saved by an earlier version and has no summary of its training rows, so "
            "its columns are not compared with them; fit it again for that."
        )
    return Explanations(coefficients_or_none(model), measured, near, drift, show_values)


def measure(
    model: TableModel, rows: Any, on: str, output: Output, max_rows: int = MAX_ROWS
) -> Importances:
    """Return the permutation importance, with a progress bar."""
    with output.progress("importance of columns") as show:
        return model.permutation_importance(
            rows, on=on, max_rows=max_rows, ignore_extra=True, progress=show
        )


def coefficients_text(found: Coefficients) -> str:
    """Return the most influential coefficients, and how to see all."""
    text = f"Coefficients. {found.text(_MOST)}"
    if len(found) > _MOST:
        text += " (all of them: --json, or model.coefficients() in Python)"
    return text


def importance_text(found: Importances) -> str:
    """Return the most important columns, and how to see all."""
    text = f"Importance. {found.text(_MOST)}"
    return text + (" (all of them: --json)" if len(found) > _MOST else "")


def drift_text(found: Drift) -> str:
    """Return the columns that differ from training, and how to see all."""
    if not found.notable:
        return f"Drift. {found.meaning}"
    shown = min(len(found.notable), _MOST)
    text = f"Drift. {found.text(shown)}"
    return text + (" (all of them: --json)" if len(found) > shown else "")
