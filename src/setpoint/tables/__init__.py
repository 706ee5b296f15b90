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
    from setpoint.tables.fitting import FittedTable, TestRows, fit_table
    from setpoint.tables.leakage import LeakageWarning, find_leakage
    from setpoint.tables.model import TableModel
    from setpoint.tables.schema import Schema
    from setpoint.tables.scoring import Scored, UnseenValues, score_file

_HOMES = {
    "classifiers": ("MODELS",),
    "fitting": ("FittedTable", "TestRows", "fit_table"),
    "leakage": ("LeakageWarning", "find_leakage"),
    "model": ("TableModel",),
    "schema": ("Schema",),
    "scoring": ("Scored", "UnseenValues", "score_file"),
}

__all__ = [
    "MODELS",
    "FittedTable",
    "LeakageWarning",
    "Schema",
    "Scored",
    "TableModel",
    "TestRows",
    "UnseenValues",
    "find_leakage",
    "fit_table",
    "score_file",
]

_get, __dir__ = lazy(globals(), _HOMES)
__getattr__ = renamed_names(
    __name__,
    _get,
    {
        "Ordinary": "setpoint.report.Baseline",
        "Parts": "setpoint.data.Split",
        "part_rows": "setpoint.data.split_rows",
        "Smell": "setpoint.tables.LeakageWarning",
        "find_smells": "setpoint.tables.find_leakage",
    },
)
