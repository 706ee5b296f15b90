"""What a report says about a model's reasons."""

from __future__ import annotations

from dataclasses import dataclass

from setpoint.explain.coefficients import Coefficients
from setpoint.explain.drift import Drift
from setpoint.explain.importance import Importances
from setpoint.explain.nearest import NearestRows


@dataclass(frozen=True)
class Explanations:
    """What a report says about a model's reasons; None where there is nothing to say.

    Attributes
    ----------
    coefficients : Coefficients or None
        Of a linear model.
    importances : Importances or None
        Of the columns, on the rows of the report.
    nearest : NearestRows or None
        The rows nearest to the threshold.
    drift : Drift or None
        How the columns of the rows differ from training.
    show_values : bool
        Whether a page shows the values of these rows, and the sizes of contributions, which would
        tell the values together with the coefficients.
    """

    coefficients: Coefficients | None = None
    importances: Importances | None = None
    nearest: NearestRows | None = None
    drift: Drift | None = None
    show_values: bool = False
