"""Steps on the lifted problem whose slopes are in closed form: autograd sees only the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from setpoint.method.penalty import ExactPenalty
from setpoint.training.gpu.recorded import Recorded, set_rate
from setpoint.training.gpu.steps import computable, metrics_table
from setpoint.training.models import logits_of

if TYPE_CHECKING:
    from setpoint.training.lifted import Lifted


class Training(NamedTuple):
    """What is trained, on what, and how fast.

    Attributes
    ----------
    penalty : ExactPenalty
        Its s is moved; its lambda, gamma and objective_scale are read when steps are run.
    module : nn.Module
        The model.
    X : Tensor
        The rows.
    optimizer : torch.optim.Adam
        Of the model's parameters, as its first group.
    lr, lr_s : float
        First learning rate, and step size for s.
    """

    penalty: ExactPenalty
    module: nn.Module
    X: Tensor
    optimizer: torch.optim.Adam
    lr: float
    lr_s: float


class ClosedSteps:
    """The steps of subproblems."""

    def __init__(self, training: Training) -> None:
        self._training = training
        penalty = training.penalty
        # One sample's worth is 1/P: in that unit the gradient of s_i is of order 1.
        self._step_of_s = -training.lr_s * penalty.P / penalty.sample_weight

    def run(self, origin: float, steps: int, first: int, total: int) -> None:
        """Take steps; ``first`` of the ``total`` steps of the learning rate's cosine are done."""
        penalty, module, X, optimizer, lr, _ = self._training
        for step in range(first, first + steps):
            set_rate(optimizer.param_groups[0], lr * (1 + math.cos(math.pi * step / total)) / 2)
            optimizer.zero_grad()
            logits = logits_of(module, X)
            in_z, in_s = penalty.slopes(logits.detach() - origin)
            logits.backward(in_z)  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                penalty.s.addcmul_(self._step_of_s, in_s)
            penalty.project_()


class ClosedDeviceSteps:
    """The same on a GPU, in the scaling per positive: recorded once, and the host is not asked."""

    def __init__(self, training: Training) -> None:
        from setpoint.training.gpu import lifted_kernels

        self._kernels = lifted_kernels
        self._training = training
        penalty = training.penalty
        weight = penalty.sample_weight
        self._share = (weight / penalty.P).contiguous()
        self._sign = penalty.positive.to(weight) * 2 - 1
        self._slope = torch.zeros_like(weight)
        self._counts = torch.zeros(2, dtype=torch.int64, device=weight.device)
        self._price = weight.new_zeros(2)
        self._metrics = metrics_table(penalty.goal, penalty.P, penalty.N)
        self._table = weight.new_zeros(7 + len(self._metrics), dtype=torch.float64)
        self._t = float(penalty.t)
        self._recorded = Recorded(weight.device)

    def run(self, origin: float, steps: int, first: int, total: int) -> None:
        """Take steps; ``first`` of the ``total`` steps of the learning rate's cosine are done."""
        penalty = self._training.penalty
        scale = penalty.P * penalty.objective_scale
        numbers = [penalty.lam, penalty.gamma, origin, scale, first, total, self._training.lr]
        self._table.copy_(torch.tensor([*numbers, *self._metrics], dtype=torch.float64))
        for i, member in enumerate((self._sign > 0, self._sign < 0)):
            share = (self._share * penalty.s.detach()).double()[member].sum()
            self._counts[i] = (share * self._kernels.ONE).long()
        for _ in range(steps):
            self._recorded(self._step)

    def _step(self) -> Tensor:
        kernels, (penalty, module, X, optimizer, _, lr_s) = self._kernels, self._training
        rate, constraints = optimizer.param_groups[0]["lr"], len(penalty.goal.constraints)
        kernels.slopes_in_counts(
            self._counts, self._table, self._price, rate, penalty.P, constraints
        )
        optimizer.zero_grad()
        logits = logits_of(module, X)
        kernels.slopes_and_s(
            logits.detach(),
            penalty.s.detach(),
            self._sign,
            self._share,
            self._slope,
            self._counts,
            self._table,
            self._price,
            self._t,
            lr_s,
            penalty.form == "equality",
        )
        logits.backward(self._slope)  # type: ignore[no-untyped-call]
        optimizer.step()
        return self._slope


def closed_steps(
    solver: Lifted,
    penalty: ExactPenalty,
    module: nn.Module,
    X: Tensor,
    optimizer: torch.optim.Adam,
    lr: float,
) -> ClosedSteps | ClosedDeviceSteps | None:
    """Return steps that suit the device, or None where autograd must do them.

    They need no more than the slopes: s moves along its own, t is given, and no one asks for F.
    """
    if (
        type(penalty) is not ExactPenalty
        or penalty.form == "smooth"
        or penalty.t.requires_grad
        or solver.s_step != "gradient"
        or solver.patience is not None
    ):
        return None
    training = Training(penalty, module, X, optimizer, lr, solver.lr_s)
    if computable(penalty.goal, penalty.s) and penalty.scaling == "per_positive":
        return ClosedDeviceSteps(training)
    if X.is_cuda:  # fifty operations in a recorded graph are faster than twenty that wait
        return None
    return ClosedSteps(training)
