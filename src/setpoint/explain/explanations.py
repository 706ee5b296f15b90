"""What a report says about a model's reasons."""

from __future__ import annotations

from dataclasses import dataclass

from setpoint.explain.coefficients import Coefficients


@dataclass(frozen=True)
class Explanations:
    """What a report says about a model's reasons; None where there is nothing to say.

    Attributes
    ----------
    coefficients : Coefficients or None
        Of a linear model.
    """

    coefficients: Coefficients | None = None
