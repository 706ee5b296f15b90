"""Tables of mixed columns: from a file to a fitted model that scores files of any size.

    file ──► schema ──► features ──► classifier ──► scores of another file

:func:`fit_table` and :func:`score_file` go all the way; every step can be used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal.imports import lazy
from setpoint._internal.renamed import renamed_names

if TYPE_CHECKING:
    from setpoint.tables.classifiers import MODELS
    from setpoint.tables.fitting import fit_table
    from setpoint.tables.leakage import Smell, find_smells
    from setpoint.tables.model import TableModel
    from setpoint.tables.results import FittedTable, Ordinary, TestRows
    from setpoint.tables.schema import Schema
    from setpoint.tables.scoring import Scored, score_file

_HOMES = {
    "classifiers": ("MODELS",),
    "fitting": ("fit_table",),
    "leakage": (
        "Smell",
        "find_smells",
    ),
    "model": ("TableModel",),
    "results": (
        "FittedTable",
        "Ordinary",
        "TestRows",
    ),
    "schema": ("Schema",),
    "scoring": (
        "Scored",
        "score_file",
    ),
}

__all__ = [
    "MODELS",
    "FittedTable",
    "Ordinary",
    "Schema",
    "Scored",
    "Smell",
    "TableModel",
    "TestRows",
    "find_smells",
    "fit_table",
    "score_file",
]

_get, __dir__ = lazy(globals(), _HOMES)
__getattr__ = renamed_names(
    __name__, _get, {"Parts": "setpoint.data.Split", "part_rows": "setpoint.data.split_rows"}
)
