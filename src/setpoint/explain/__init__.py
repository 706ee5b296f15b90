"""Why a model decides as it does: coefficients, importance, rows near the threshold, drift."""

from setpoint.explain.coefficients import Coefficient, Coefficients
from setpoint.explain.column_summary import ColumnSummary
from setpoint.explain.drift import ColumnDrift, Drift
from setpoint.explain.explanations import Explanations
from setpoint.explain.importance import Importance, Importances
from setpoint.explain.nearest import NearestRows, NearRow

__all__ = [
    "Coefficient",
    "Coefficients",
    "ColumnDrift",
    "ColumnSummary",
    "Drift",
    "Explanations",
    "Importance",
    "Importances",
    "NearRow",
    "NearestRows",
]
