"""Saved models, as commands want them."""

from __future__ import annotations

from pathlib import Path

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
