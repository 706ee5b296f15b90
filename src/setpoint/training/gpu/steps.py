"""Steps that never wait for the host: on a GPU, all of a look's steps as one recorded graph."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import torch
from torch import Tensor

from setpoint.goals.goal import Goal, only_fractions
from setpoint.training.descent import Batch, Columns, Descent
from setpoint.training.gpu.recorded import Recorded


def on_device(descent: Descent) -> bool:
    """Whether a look's steps can stay on the device."""
    return all(computable(goal, descent.bundle.origins) for goal in set(descent.goals))


class DeviceSteps:
    """The steps of one look on a working set.

    Parameters
    ----------
    descent : Descent
        What descends, for goals of quotients only; its multipliers and clock are taken along and
        brought back by :meth:`run`.
    batch : Batch
        The rows.
    counted : Tensor of shape (m,)
        The weight with which each row enters the counts.
    least_tp, most_fp : ndarray of shape (k,)
        TP without the counted rows that are right; FP if none of them were.
    """

    def __init__(
        self,
        descent: Descent,
        batch: Batch,
        counted: Tensor,
        least_tp: Columns,
        most_fp: Columns,
    ) -> None:
        from setpoint.training.gpu import kernels

        self._kernels = kernels
        self._descent, self._batch = descent, batch
        origins = descent.bundle.origins
        device, k = origins.device, len(origins)
        self._counted = counted.to(origins).contiguous()
        self._constraints = len(descent.multipliers)
        like = origins.double()
        self._right = like.new_zeros(k, 2)
        self._base = like.new_tensor(np.stack([least_tp, most_fp], axis=1))
        self._table = like.new_tensor(_table(descent))
        self._multipliers = like.new_tensor(descent.multipliers)
        self._clock = like.new_full((k,), float(descent.step_count))
        self._price = torch.zeros(k, 2, device=device)
        self._lam = torch.zeros(k, device=device)
        self._recorded = Recorded(device)

    def run(self, steps: int) -> None:
        """Take so many steps."""
        for _ in range(steps):
            self._recorded(self._step)
        self._descent.step_count += steps
        self._descent.multipliers = self._multipliers.cpu().numpy()

    def _step(self) -> Tensor:
        descent, batch, kernels = self._descent, self._batch, self._kernels
        z = descent.bundle.logits(batch.X)
        kernels.margins_and_counts(z, batch.sign, self._counted, self._right)
        kernels.prices(
            self._right,
            self._base,
            self._table,
            self._multipliers,
            self._price,
            self._clock,
            self._lam,
            descent.rate,
            self._constraints,
        )
        kernels.slopes(z, batch.sign, batch.signed_share, self._price, self._lam, descent.gamma)
        descent.bundle.backward(z)
        descent.along_gradients()
        return self._lam


def _table(descent: Descent) -> list[list[float]]:
    """Return the numbers that the kernel of the prices reads, a row for each model."""
    constants, P, N = descent.constants, descent.P, descent.N
    numbers = [
        constants.lam0,
        math.log(constants.lam_max / constants.lam0),
        float(descent.steps),
        descent.lr,
        constants.dual_rate,
    ]
    most = len(descent.multipliers)
    return [numbers + metrics_table(goal, P, N, most) for goal in descent.goals]


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


# DOC of solvers.metrics_table: A goal as numbers that a GPU kernel reads.
