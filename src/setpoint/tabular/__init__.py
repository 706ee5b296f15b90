"""Tables: from a file of mixed columns to a fitted model that scores files of any size.

    file ──► schema ──► features ──► classifier ──► scores of another file

``fit_table`` and ``score_file`` go all the way; every step can be used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._lazy import lazy

if TYPE_CHECKING:
    from setpoint.tabular.errors import PartsError, SchemaError, TableFileError, TargetError
    from setpoint.tabular.files import TableFile, TableWriter, count_rows, read_table, table_batches
    from setpoint.tabular.fitted import FittedTable, Ordinary, TestRows
    from setpoint.tabular.fitting import fit_table
    from setpoint.tabular.learners import MODELS
    from setpoint.tabular.model import TableModel
    from setpoint.tabular.parts import Parts, part_rows
    from setpoint.tabular.schema import Schema
    from setpoint.tabular.scoring import Scored, score_file
    from setpoint.tabular.smells import Smell, find_smells
    from setpoint.tabular.target import Target, read_target

# As in setpoint itself, names come from their modules when they are first asked for.
_HOMES = {
    "errors": ("PartsError", "SchemaError", "TableFileError", "TargetError"),
    "files": ("TableFile", "TableWriter", "count_rows", "read_table", "table_batches"),
    "fitted": ("FittedTable", "Ordinary", "TestRows"),
    "fitting": ("fit_table",),
    "learners": ("MODELS",),
    "model": ("TableModel",),
    "parts": ("Parts", "part_rows"),
    "schema": ("Schema",),
    "scoring": ("Scored", "score_file"),
    "smells": ("Smell", "find_smells"),
    "target": ("Target", "read_target"),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}

__all__ = [
    "MODELS",
    "FittedTable",
    "Ordinary",
    "Parts",
    "PartsError",
    "Schema",
    "SchemaError",
    "Scored",
    "Smell",
    "TableFile",
    "TableFileError",
    "TableModel",
    "TableWriter",
    "Target",
    "TargetError",
    "TestRows",
    "count_rows",
    "find_smells",
    "fit_table",
    "part_rows",
    "read_table",
    "read_target",
    "score_file",
    "table_batches",
]

__getattr__, __dir__ = lazy(globals(), _HOME)
