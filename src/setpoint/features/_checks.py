"""Whole numbers that a user gives."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from setpoint.errors import SetpointError


def check_whole(value: Any, name: str, least: int = 1, most: float = float("inf")) -> int:
    """Return a whole number from ``least`` to ``most``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:
        limits = f"at least {least}" if most == float("inf") else f"from {least} to {most}"
        raise SetpointError(f"{name} must be a whole number, {limits}, not {value!r}.")
    return int(value)
