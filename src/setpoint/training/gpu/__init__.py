"""How training adapts to its device: sizes, and steps that stay on a GPU.

Solvers ask this module once and do not look at the device themselves. Each function below returns
the GPU's way of doing something, or None where the way of the CPU is to be taken.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from setpoint.goals.goal import Goal, only_fractions
from setpoint.thresholds.gpu import sweep
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import Ranking
from setpoint.training.gpu.recorded import Recorded

if TYPE_CHECKING:
    from setpoint.training.descent import Batch, Descent, WorkingCounts
    from setpoint.training.lifted import Steps, Subproblem
    from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Sizes:
    """Sizes that suit a device.

    Attributes
    ----------
    block_rows : int
        Rows that are evaluated at a time. A GPU has much memory and prefers few large blocks.
    working_sets : int
        By how much the working set may grow when several goals are trained at once.
    newton_features : int
        Logistic regression takes Newton's method for at most so many features; the Hessian costs
        the square of their number per row.
    newton_rows : int
        Rows that represent all rows in that Hessian.
    newton_numbers : int
        Numbers, in double precision, of a block of that method.
    shards : int
        Parts in which a step on a stream is computed.
    path_rows : int
        Rows on which cost-weighted models take their first steps.
    """

    block_rows: int
    working_sets: int
    newton_features: int
    newton_rows: int
    newton_numbers: int
    shards: int
    path_rows: int


SIZES = {
    "cpu": Sizes(2**16, 2, 200, 2**14, 2**18, 4, 2**14),
    "cuda": Sizes(2**20, 4, 4096, 2**16, 2**27, 1, 2**16),
}


def sizes_for(device: torch.device | str) -> Sizes:
    """Return the sizes that suit a device."""
    return SIZES.get(torch.device(device).type, SIZES["cpu"])


def adam(groups: list[dict[str, Any]], device: torch.device) -> torch.optim.Adam:
    """Return an Adam that can be recorded: on a GPU its learning rates are tensors."""
    if device.type != "cuda":
        return torch.optim.Adam(groups, fused=True)
    groups = [{**group, "lr": torch.tensor(group["lr"], device=device)} for group in groups]
    return torch.optim.Adam(groups, fused=True, capturable=True)


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of one of an optimizer's groups."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def exact_points(problem: Problem, logits: Tensor, ranking: Ranking) -> list[OperatingPoint] | None:
    """Return the best operating points of models with these logits (k, n), found on the GPU.

    The logits must be finite, the rows unweighted, and the metrics quotients.
    """
    if not (logits.is_cuda and problem.is_unweighted_fraction and bool(logits.isfinite().all())):
        return None
    P, n = float(problem.positive.sum()), len(problem.positive)
    return [
        OperatingPoint(at, tp, fp, P - tp, n - P - fp, problem.goal, problem.on)
        for at, tp, fp in sweep(problem.positive, logits, ranking)
    ]


def computable(goal: Goal, like: Tensor) -> bool:
    """Return whether kernels can compute with such tensors for the goal.

    The tensors must be on a GPU in float32, and the goal's metrics quotients of linear functions of
    plain counts. Constraints on metrics without bounds, whose shortfall is relative, are computed
    on the host.
    """
    return (
        like.is_cuda
        and like.dtype == torch.float32
        and only_fractions(goal)
        and all(constraint.metric.is_bounded for constraint in goal.constraints)
        and importlib.util.find_spec("triton") is not None
    )


def projected_steps(
    descent: Descent,
) -> Callable[[Descent, Batch, WorkingCounts, int], None] | None:
    """Return how the projected solver takes its steps without waiting for the host."""
    if not all(computable(goal, descent.bundle.origins) for goal in set(descent.goals)):
        return None
    from setpoint.training.gpu.steps import take_device_steps

    return take_device_steps


def lifted_steps(subproblem: Subproblem, by_autograd: type[Steps]) -> Steps | None:
    """Return how the lifted solver takes steps whose slopes have a closed form.

    Without kernels, fifty operations of autograd in a recorded graph are faster on a GPU than
    twenty in closed form that wait for the host.
    """
    penalty = subproblem.penalty
    if not subproblem.X.is_cuda:
        return None
    if not computable(penalty.goal, penalty.s):
        return by_autograd(subproblem)
    from setpoint.training.gpu.steps import LiftedDeviceSteps

    return LiftedDeviceSteps(subproblem)


__all__ = [
    "Recorded",
    "Sizes",
    "adam",
    "computable",
    "exact_points",
    "lifted_steps",
    "projected_steps",
    "set_rate",
    "sizes_for",
]
