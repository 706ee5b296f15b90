"""Saved models, as commands want them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setpoint.errors import SetpointError
from setpoint.model_files import load
from setpoint.tabular.model import TableModel


def load_table_model(path: Path) -> TableModel:
    """Load a model that knows its table; one of arrays cannot read a file by itself."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise SetpointError(
            f"{path} holds a {type(model).__name__}, saved from Python: it takes arrays of "
            "features, not tables. Use setpoint.load in Python, or train with 'setpoint fit'."
        )
    return model


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
