"""Numbers that a user gives."""

from __future__ import annotations

from numbers import Real
from typing import Any

from setpoint.errors import SetpointError


def check_number(value: Any, name: str) -> float:
    """Return a number that is not NaN."""
    if not isinstance(value, Real) or value != value:
        raise SetpointError(f"{name} must be a number, not {value!r}.")
    return float(value)


def check_share(value: Any, name: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise SetpointError(f"{name} must lie between 0 and 1, not {value!r}.")
    return float(value)
