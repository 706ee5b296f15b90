"""Features as SQL: numbers, and functions of a column that has few values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from setpoint.export.sql.dialects import Dialect
from setpoint.export.sql.statement import Sql

Key = str | float

_OVERFLOW = 2.0**128 - 2.0**103  # from here on, a 32-bit float is infinite


@dataclass(frozen=True)
class Numeric:
    """A number.

    Attributes
    ----------
    value : Sql
        A helper column, NULL if missing.
    single : bool
        Whether the model rounds it to a 32-bit float.
    largest : float
        Larger sizes become this one.
    """

    value: Sql
    single: bool = False
    largest: float = math.inf


@dataclass(frozen=True)
class Discrete:
    """A function of a helper column.

    Attributes
    ----------
    source : Sql
        The column.
    values : mapping
        The feature by the column's value.
    default : float
        The feature for all other values; NaN if it is then missing.
    null : float or None
        The feature where the column is NULL; None if it never is.
    """

    source: Sql
    values: Mapping[Key, float] = field(default_factory=dict)
    default: float = math.nan
    null: float | None = None


Feature = Numeric | Discrete


class Branch(NamedTuple):
    """The condition of a CASE: whether it leads left, or else right. None: all rows go left."""

    condition: str | None
    left: bool


def branch_at(feature: Numeric, threshold: float, missing_left: bool, dialect: Dialect) -> Branch:
    """Return the branch of a split: left if the number is at most the threshold."""
    name = feature.value.text
    cut = threshold
    if feature.single:
        # A number x becomes the 32-bit float x32, and x32 <= threshold where x <= cut.
        low, high = (float(np.float32(sign * feature.largest)) for sign in (-1, 1))
        cut = math.inf if threshold >= high else largest_below(threshold)
        cut = -math.inf if threshold < low else cut
    if cut == math.inf:
        return Branch(None, True) if missing_left else Branch(f"{name} IS NOT NULL", True)
    if cut == -math.inf and feature.single:
        return Branch(f"{name} IS NULL", True) if missing_left else Branch(None, False)
    # NULL is not above and not below anything, so it goes the other way.
    compared = ">" if missing_left else "<="
    return Branch(f"{name} {compared} {dialect.number(cut)}", not missing_left)


def largest_below(threshold: float) -> float:
    """Return the largest 64-bit float that is at most a threshold when rounded to 32 bits.

    Examples
    --------
    >>> cut = largest_below(0.1)
    >>> float(np.float32(cut)) <= 0.1 < float(np.float32(np.nextafter(cut, 1)))
    True
    """
    with np.errstate(over="ignore"):
        below = np.float32(threshold)
        if float(below) > threshold:
            below = np.nextafter(below, np.float32(-np.inf))
        above = np.nextafter(below, np.float32(np.inf))
    if np.isinf(below):  # only -infinity is at most such a threshold
        return -_OVERFLOW
    upper = float(above) if np.isfinite(above) else 2.0**128
    middle = (float(below) + upper) / 2
    # Exactly in the middle, rounding goes to the neighbour whose last bit is 0.
    even = below.view(np.uint32) % 2 == 0
    return middle if even else float(np.nextafter(middle, -np.inf))


def branch_of(feature: Discrete, goes_left: Callable[[float], bool], dialect: Dialect) -> Branch:
    """Return the branch of a split, which may send any value of the feature left."""
    otherwise = goes_left(feature.default)
    keys = [key for key, value in feature.values.items() if goes_left(value) is not otherwise]
    null = feature.null is not None and goes_left(feature.null) is not otherwise
    name = feature.source.text
    conditions = []
    if keys:
        shown = [dialect.literal(key) for key in keys]
        conditions.append(
            f"{name} = {shown[0]}" if len(keys) == 1 else f"{name} IN ({', '.join(shown)})"
        )
    if null:
        conditions.append(f"{name} IS NULL")
    return Branch(" OR ".join(conditions) or None, not otherwise if conditions else otherwise)
