"""Adam for a single matrix, in few operations.

torch's own optimizers take longer to prepare a step than a small matrix needs for it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class MatrixAdam:
    """Adam with torch's usual constants.

    Parameters
    ----------
    theta : Tensor
        The matrix, which is changed in place.
    first, second : Tensor, optional
        The moments so far, after ``steps`` steps; changed in place as well.
    """

    def __init__(
        self,
        theta: Tensor,
        first: Tensor | None = None,
        second: Tensor | None = None,
        steps: int = 0,
    ) -> None:
        self._theta, self._steps = theta, steps
        self.first = torch.zeros_like(theta) if first is None else first
        self.second = torch.zeros_like(theta) if second is None else second
        self._size = torch.empty_like(theta)

    def step(self, gradient: Tensor, rate: float) -> None:
        """Take a step."""
        self._steps += 1
        corrections = [1 - beta**self._steps for beta in _BETAS]
        self.first.lerp_(gradient, 1 - _BETAS[0])
        self.second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        size = torch.sqrt(self.second, out=self._size)
        size.div_(math.sqrt(corrections[1])).add_(_EPSILON)
        length = min(rate / corrections[0], torch.finfo(size.dtype).max)  # torch rejects more
        self._theta.addcdiv_(self.first, size, value=-length)
