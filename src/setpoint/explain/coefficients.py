r"""The coefficients of a linear model in original units.

With :math:`e(x)` for the value that a feature counts as,

.. math:: \text{score} = \text{intercept} + \sum_j \text{coefficient}_j \, e_j(x),

and a score above 0 is an alarm. Most features count as they are. Numbers of tables are squashed,
so that outliers do not dominate: for a centre m and a limit L,

.. math:: e(x) = m + \frac{x - m}{\sqrt{1 + ((x - m) / L)^2}}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from setpoint._internal.listing import Ranking
from setpoint.errors import SetpointError
from setpoint.thresholds.operating_point import jsonable

OTHER_VALUE = "(any other)"
MISSING_VALUE = "(missing)"


@dataclass(frozen=True)
class Coefficient:
    """By how much one feature changes the score of a linear model.

    Attributes
    ----------
    column : str
        The column of the table, or the feature of an array.
    part : str
        Which of the column's features it is, e.g. ``"= far"`` for a category or ``"year"`` for a
        date; empty if the column itself is the feature.
    coefficient : float
        The change of the score for one unit more; of a category, against its reference value.
    per_deviation : float
        The change of the score for one standard deviation more, as in the training rows; NaN if
        the deviation is unknown.
    value : str or None
        The category that it is for: the feature is 1 for rows with this value, otherwise 0.
    against : str or None
        The reference value of the category, whose coefficient is 0.
    centre, limit : float
        Numbers are squashed: see above. An infinite limit leaves them as they are; with 0 all
        count as the centre, since the column was constant in training.
    missing : float or None
        The value that a missing one counts as; None if the model takes no missing values, or has
        a feature for them.
    """

    column: str
    part: str
    coefficient: float
    per_deviation: float
    value: str | None = None
    against: str | None = None
    centre: float = 0.0
    limit: float = math.inf
    missing: float | None = None

    @property
    def feature(self) -> str:
        """The feature as text."""
        return f"{self.column} {self.part}".rstrip() if self.part else self.column

    def counts_as(self, x: float) -> float:
        """Return the value that a number counts as."""
        if math.isnan(x):
            return math.nan if self.missing is None else self.missing
        if math.isinf(x) and math.isfinite(self.limit):
            return self.centre + math.copysign(self.limit, x)
        if self.limit == 0:
            return self.centre
        distance = x - self.centre
        return self.centre + distance / math.hypot(1.0, distance / self.limit)


class Coefficients(Ranking[Coefficient]):
    """The coefficients of a linear model, the most influential feature first.

    ``print`` shows a table; a score above 0 is an alarm.

    Parameters
    ----------
    found : iterable of Coefficient
        In any order.
    intercept : float
        The score of a row whose features all count as 0, relative to the threshold.
    of : str
        What is explained: ``"score"``, or ``"log-odds"`` if the threshold applies to
        probabilities; both are relative to the threshold.
    """

    _contents = "features, the most influential first"

    def __init__(self, found: Iterable[Coefficient], intercept: float, of: str = "score") -> None:
        def influence(one: Coefficient) -> tuple[bool, float, float]:
            unknown = math.isnan(one.per_deviation)
            return (
                unknown, 0.0 if unknown else -abs(one.per_deviation), -abs(one.coefficient)
            )  # fmt: skip

        self._found = tuple(sorted(found, key=influence))
        self.intercept = float(intercept)
        self.of = of

    @property
    def meaning(self) -> str:
        """What the numbers mean, in a sentence or two."""
        what = "score" if self.of == "score" else "log-odds of the model's probability"
        text = (
            f"The {what} of a row, relative to the threshold, is the intercept "
            f"{_number(self.intercept, 4)} plus each coefficient times the feature; above 0 is an "
            "alarm."
        )
        if any(math.isfinite(c.limit) for c in self):
            text += " Numbers far from the median count less: no more than the limit away from it."
        return text

    def table(self, most: int | None = None) -> list[list[str]]:
        """Return the coefficients as rows of text, the header first; ``most``: only so many."""
        limits = any(math.isfinite(c.limit) for c in self)
        head = ["feature", "coefficient", "per deviation", *(["median", "limit"] * limits)]
        rows = [head]
        for one in self[: len(self) if most is None else most]:
            against = "" if one.against is None else f" (against {one.against})"
            row = [one.feature + against, _number(one.coefficient), _number(one.per_deviation)]
            if limits:
                squashed = math.isfinite(one.limit)
                tiny = abs(one.centre) < 1e-9 * one.limit  # rounding errors of sines
                centre = 0.0 if tiny else one.centre
                row += [_plain(centre), f"± {_plain(one.limit)}"] if squashed else ["", ""]
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; numbers that are not finite become None."""
        names = (
            "feature", "column", "coefficient", "per_deviation", "value", "against", "centre",
            "limit", "missing",
        )  # fmt: skip
        return {
            "of": self.of,
            "intercept": jsonable(self.intercept),
            "coefficients": [
                {name: jsonable(getattr(one, name)) for name in names} for one in self
            ],
        }


def coefficients_or_none(model: Any, *rows: Any) -> Coefficients | None:
    """Return the coefficients of a fitted model, None if it is not linear."""
    try:
        found: Coefficients = model.coefficients(*rows)
    except SetpointError:
        return None
    return found


def _number(value: float, digits: int = 3) -> str:
    """Write a change of the score, with its sign."""
    if math.isnan(value):
        return "–"
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else ("∞" if value > 0 else "−∞")
    return f"{value:+.{digits}g}".replace("-", "−")


def _plain(value: float) -> str:
    """Write a number of a column with four digits."""
    return f"{value:.4g}".replace("-", "−")
