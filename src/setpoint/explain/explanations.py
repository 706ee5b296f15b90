"""What a report says about a model's reasons."""

from __future__ import annotations

from dataclasses import dataclass

from setpoint.explain.coefficients import Coefficients
from setpoint.explain.importance import Importances


@dataclass(frozen=True)
class Explanations:
    """What a report says about a model's reasons; None where there is nothing to say.

    Attributes
    ----------
    coefficients : Coefficients or None
        Of a linear model.
    importances : Importances or None
        Of the columns, on the rows of the report.
    """

    coefficients: Coefficients | None = None
    importances: Importances | None = None
