"""Steps on a GPU that never wait for the host, recorded as one graph."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from setpoint.goals.goal import Goal
from setpoint.training.descent import Batch, Descent, WorkingCounts
from setpoint.training.gpu.recorded import Recorded
from setpoint.training.lifted import Subproblem
from setpoint.training.models import logits_of


def take_device_steps(descent: Descent, batch: Batch, counts: WorkingCounts, steps: int) -> None:
    """Do what :func:`setpoint.training.descent.take_steps` does."""
    ProjectedDeviceSteps(descent, batch, counts).run(steps)


class ProjectedDeviceSteps:
    """Steps of the projected solver on one working set.

    The descent's multipliers and clock are copied to the device, and back by :meth:`run`. Its goals
    must have metrics that are quotients.
    """

    def __init__(self, descent: Descent, batch: Batch, counts: WorkingCounts) -> None:
        from setpoint.training.gpu import kernels

        self._kernels = kernels
        self._descent, self._batch = descent, batch
        origins = descent.bundle.origins
        device, k = origins.device, len(origins)
        self._counted = counts.weight.to(origins).contiguous()
        self._constraints = len(descent.multipliers)
        like = origins.double()
        self._right = like.new_zeros(k, 2)
        self._base = like.new_tensor(np.stack([counts.least_tp, counts.most_fp], axis=1))
        self._table = like.new_tensor(_table(descent))
        self._multipliers = like.new_tensor(descent.multipliers)
        self._clock = like.new_full((k,), float(descent.step_count))
        self._price = torch.zeros(k, 2, device=device)
        self._lam = torch.zeros(k, device=device)
        self._gamma = descent.gamma.contiguous()
        self._recorded = Recorded(device)

    def run(self, steps: int) -> None:
        """Take steps."""
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
        kernels.slopes(z, batch.sign, batch.signed_weight, self._price, self._lam, self._gamma)
        descent.bundle.backward(z)
        descent.along_gradients()
        return self._lam


def _table(descent: Descent) -> list[list[float]]:
    """Return the numbers that the prices kernel reads, a row for each model."""
    P, N = descent.P, descent.N
    numbers = [
        descent.lam0,
        math.log(descent.lam_max / descent.lam0),
        float(descent.steps),
        descent.lr,
        descent.dual_rate,
    ]
    most = len(descent.multipliers)
    return [numbers + metrics_table(goal, P, N, most) for goal in descent.goals]


_NUMBERS = 9  # of a metric


def metrics_table(goal: Goal, P: float, N: float, constraints: int | None = None) -> list[float]:
    """Return nine numbers for the objective and for each constraint.

    They are the metric's sign, the three coefficients of its numerator and of its denominator, its
    value where that is 0/0, and the constraint's level. A goal with fewer than ``constraints`` is
    filled up with constraints of zeros, which are always met and have no price.
    """
    numbers: list[float] = []
    for metric, level in ((goal.objective, 0.0), *((c.metric, c.level) for c in goal.constraints)):
        fraction = metric.fraction
        assert fraction is not None
        numbers += [float(metric.sign), *map(float, fraction.numerator(P, N))]
        numbers += [*map(float, fraction.denominator(P, N)), fraction.empty, level]
    missing = 0 if constraints is None else constraints - len(goal.constraints)
    return numbers + [0.0] * (_NUMBERS * missing)


_CHECKED = 200  # steps between two looks at whether patience is exhausted


class LiftedDeviceSteps:
    """Steps of the lifted solver in closed form.

    Patience is checked on the device: a subproblem ends where it would end by autograd. Steps after
    that, until the host looks, change nothing.
    """

    def __init__(self, subproblem: Subproblem) -> None:
        from setpoint.training.gpu import kernels

        self._kernels = kernels
        self._subproblem = subproblem
        solver, penalty = subproblem.solver, subproblem.penalty
        weight, P, N = penalty.sample_weight, penalty.P, penalty.N
        self._weight = (weight / P).contiguous()
        self._sign = penalty.positive.to(weight) * 2 - 1
        self._slope = torch.zeros_like(weight)
        self._counts = torch.zeros(2, dtype=torch.int64, device=weight.device)
        self._price = weight.new_zeros(2)
        self._metrics = metrics_table(penalty.goal, P, N)
        self._table = weight.new_zeros(kernels.TABLE + len(self._metrics), dtype=torch.float64)
        # The weights of constraints, ties and, by class, psi in units of 1/P.
        self._units, self._psi = (1.0, 1.0), (1.0, 1.0)
        if penalty.scaling == "paper":
            self._units, self._psi = (P, P), (1 / (P + N), P / N / (P + N))
        elif penalty.scaling == "mean":
            mean = P / (P + N)
            self._units, self._psi = (P, mean), (mean, mean)
        self._t = float(penalty.t)
        self._value = weight.new_zeros(3, dtype=torch.float64)
        self._parts = weight.new_zeros(kernels.parts_of(len(weight)), dtype=torch.float64)
        self._stopped = weight.new_zeros(())
        if solver.patience is not None:
            # Fused Adam takes no step where this is 1, as after an overflow in mixed precision.
            subproblem.optimizer.found_inf = self._stopped  # type: ignore[attr-defined]
        self._move = weight.new_zeros(2)
        self._recorded = Recorded(weight.device)

    def run(self, origin: float, iteration: int) -> None:
        """Take the steps of a subproblem."""
        solver, penalty = self._subproblem.solver, self._subproblem.penalty
        first, total = self._subproblem.clock(iteration)
        numbers = [
            *(penalty.lam * unit for unit in self._units),
            *(penalty.gamma * psi for psi in self._psi),
            origin,
            penalty.P * penalty.objective_scale,
            first,
            total,
            self._subproblem.lr,
            solver.lr_s,
            solver.patience or 0,
        ]
        self._table.copy_(torch.tensor([*numbers, *self._metrics], dtype=torch.float64))
        self._value.copy_(torch.tensor([math.inf, math.inf, -1.0], dtype=torch.float64))
        self._stopped.zero_()
        for i, member in enumerate((self._sign > 0, self._sign < 0)):
            count = (self._weight * penalty.s.detach()).double()[member].sum()
            self._counts[i] = (count * self._kernels.ONE).long()
        for step in range(1, solver.inner_iterations + 1):
            self._recorded(self._step)
            if solver.patience is not None and step % _CHECKED == 0 and bool(self._stopped):
                break

    def _step(self) -> Tensor:
        kernels, (solver, penalty, module, X, optimizer, _) = self._kernels, self._subproblem
        rate, constraints = optimizer.param_groups[0]["lr"], len(penalty.goal.constraints)
        adam, patience = self._adam(), solver.patience is not None
        kernels.slopes_in_counts(
            self._counts,
            self._table,
            self._price,
            rate,
            self._value,
            self._parts,
            self._stopped,
            adam,
            penalty.P,
            constraints,
            patience,
        )
        optimizer.zero_grad()
        logits = logits_of(module, X)
        kernels.slopes_and_s(
            logits.detach(),
            penalty.s.detach(),
            self._sign,
            self._weight,
            self._slope,
            self._counts,
            self._table,
            self._price,
            self._parts,
            self._stopped,
            adam,
            self._t,
            penalty.form == "equality",
            patience,
        )
        logits.backward(self._slope)  # type: ignore[no-untyped-call]
        optimizer.step()
        return self._slope

    def _adam(self) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """Return Adam's state of s, if Adam moves it; the optimizer holds it, for checkpoints."""
        solver, penalty, _, _, optimizer, _ = self._subproblem
        if solver.s_step != "adam":
            return None
        state, s = optimizer.state[penalty.s], penalty.s.detach()
        if not state:
            state["step"] = s.new_zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(s), torch.zeros_like(s)
        return state["exp_avg"], state["exp_avg_sq"], state["step"], self._move
