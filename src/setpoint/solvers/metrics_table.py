"""A goal as numbers that a GPU kernel reads."""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from setpoint.goals import Goal
from setpoint.solvers.recorded import only_fractions


def computable(goal: Goal, like: Tensor) -> bool:
    """Whether kernels can work on such tensors for the goal.

    They must be on a GPU, in float32, and the goal's metrics quotients of linear functions.
    """
    return (
        like.is_cuda
        and like.dtype == torch.float32
        and only_fractions(goal)
        and importlib.util.find_spec("triton") is not None
    )


_NUMBERS = 9  # of a metric


def metrics_table(goal: Goal, P: float, N: float, constraints: int | None = None) -> list[float]:
    """Return nine numbers for the objective and for each constraint.

    The metric's sign, the three of its numerator, the three of its denominator, its value where
    that is 0/0, and the constraint's level. A constraint of zeros, which is always kept and has no
    price, makes up for each that the goal has less than ``constraints``.
    """
    numbers: list[float] = []
    for metric, level in ((goal.objective, 0.0), *((c.metric, c.level) for c in goal.constraints)):
        fraction = metric.fraction
        assert fraction is not None
        numbers += [float(metric.sign), *map(float, fraction.numerator(P, N))]
        numbers += [*map(float, fraction.denominator(P, N)), fraction.empty, level]
    missing = 0 if constraints is None else constraints - len(goal.constraints)
    return numbers + [0.0] * (_NUMBERS * missing)
