"""Steps that never wait for the host: on a GPU, all of a look's steps as one recorded graph."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from setpoint.solvers.descent import Batch, Columns, Descent
from setpoint.solvers.metrics_table import computable, metrics_table
from setpoint.solvers.recorded import Recorded


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
        from setpoint.solvers import kernels

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
