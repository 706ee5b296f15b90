"""Saved models, as commands want them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setpoint.data.label_columns import positive_rows
from setpoint.data.labels import Labels
from setpoint.errors import SetpointError
from setpoint.model_files import load
from setpoint.tables.model import TableModel


def load_table_model(path: Path) -> TableModel:
    """Load a model that knows its table; one of arrays cannot read a file by itself."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise SetpointError(
            f"{path} holds a {type(model).__name__}, saved from Python: it takes arrays of "
            "features, not tables. Use setpoint.load in Python, or train with 'setpoint fit'."
        )
    return model


def check_both_classes(model: TableModel, frame: Any, name: str) -> None:
    """Refuse rows of one class, before they are scored for a report that needs both."""
    if model.target not in frame.columns:  # which is told by those who need it most
        return
    y = positive_rows(frame[model.target], Labels.pair(model.negative, model.positive))
    for present, which in ((y.any(), "positive"), (not y.all(), "negative")):
        if len(y) and not present:
            raise SetpointError(
                f"there are no {which} rows in {name}; a report needs both classes. Without "
                "--report and --figures they are counted all the same."
            )


def groups_of(model: TableModel, frame: Any) -> Any:
    """Return the groups of rows, where the model's promise is about groups."""
    name = model.group
    if name is None:
        return None
    if name not in frame.columns:
        raise SetpointError(
            f"what is promised of this model is about one row of each {name!r}; the table needs "
            "that column to check it."
        )
    return frame[name].to_numpy()
