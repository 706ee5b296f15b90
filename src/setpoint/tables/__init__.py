"""Tables of mixed columns: from a file to a fitted model that scores files of any size.

    file ──► schema ──► features ──► classifier ──► scores of another file

:func:`fit_table` and :func:`score_file` go all the way; every step can be used alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal.imports import lazy
from setpoint._internal.renamed import renamed_names

if TYPE_CHECKING:
    from setpoint.tables.fitting import FittedTable as FittedTable
    from setpoint.tables.fitting import TestRows as TestRows
    from setpoint.tables.fitting import fit_table as fit_table
    from setpoint.tables.label_fitting import FittedLabels as FittedLabels
    from setpoint.tables.label_fitting import LabelTestRows as LabelTestRows
    from setpoint.tables.label_fitting import fit_labels as fit_labels
    from setpoint.tables.label_model import LabelsTableModel as LabelsTableModel
    from setpoint.tables.leakage import LeakageWarning as LeakageWarning
    from setpoint.tables.leakage import find_leakage as find_leakage
    from setpoint.tables.model import TableModel as TableModel
    from setpoint.tables.model_options import MODELS as MODELS
    from setpoint.tables.schema import Schema as Schema
    from setpoint.tables.scoring import Scored as Scored
    from setpoint.tables.scoring import UnseenValues as UnseenValues
    from setpoint.tables.scoring import score_file as score_file

_NAMES = {
    "fitting": "FittedTable TestRows fit_table",
    "label_fitting": "FittedLabels LabelTestRows fit_labels",
    "label_model": "LabelsTableModel",
    "leakage": "LeakageWarning find_leakage",
    "model": "TableModel",
    "model_options": "MODELS",
    "schema": "Schema",
    "scoring": "Scored UnseenValues score_file",
}
__all__, _get, __dir__ = lazy(globals(), _NAMES)
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
