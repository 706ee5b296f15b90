"""Exact thresholds for goals, and operating points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setpoint._internal.imports import lazy

if TYPE_CHECKING:
    from setpoint.thresholds.operating_point import (
        OperatingPoint,
        choose_threshold,
        evaluate_threshold,
    )
    from setpoint.thresholds.stream import stream_evaluate, stream_threshold

_HOMES = {
    "operating_point": (
        "OperatingPoint",
        "choose_threshold",
        "evaluate_threshold",
    ),
    "stream": (
        "stream_evaluate",
        "stream_threshold",
    ),
}

__all__ = [
    "OperatingPoint",
    "choose_threshold",
    "evaluate_threshold",
    "stream_evaluate",
    "stream_threshold",
]

__getattr__, __dir__ = lazy(globals(), _HOMES)
