"""The augmented Lagrangian on the lifted problem: Algorithm 1's predecessor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from setpoint.method.penalty import ExactPenalty
from setpoint.training.lifted import Lifted, LiftedRun
from setpoint.training.loop import Progress
from setpoint.training.models import scores_of
from setpoint.training.problem import Problem


class AugmentedLagrangian(ExactPenalty):
    """-phi_obj - gamma psi + A(phi_con) + sum_i w_i A(h_i), with a multiplier for each constraint.

    For a constraint c <= 0 with multiplier mu, and for an equation h = 0,

        A(c) = ([mu + lambda c]_+^2 - mu^2) / (2 lambda),      A(h) = mu h + lambda/2 h^2.

    After a subproblem mu <- [mu + lambda c]_+ and mu <- mu + lambda h. The parameters are those of
    :class:`setpoint.method.ExactPenalty`; lambda multiplies squares here.
    """

    of_goal: Tensor
    of_rows: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        weight = self.sample_weight
        self.register_buffer("of_goal", weight.new_zeros(len(self.goal.constraints)))
        self.register_buffer("of_rows", torch.zeros_like(weight))

    def combine(self, phi_obj: Tensor, psi: Tensor, phi_con: Tensor, ties: Tensor) -> Tensor:
        """Return the augmented Lagrangian of its terms."""
        if self.form == "equality":
            missed = self.of_rows * ties + self.lam / 2 * ties.square()
        else:
            missed = self._of_inequalities(self.of_rows, ties)
        return (
            -phi_obj
            - self.gamma * psi
            + self._of_inequalities(self.of_goal, phi_con).sum()
            + (self._unit * self.sample_weight * missed).sum()
        )

    def _of_inequalities(self, multipliers: Tensor, values: Tensor) -> Tensor:
        raised = (multipliers + self.lam * values).relu()
        return (raised.square() - multipliers.square()) / (2 * self.lam)

    @torch.no_grad()
    def raise_multipliers_(self, logits: Tensor) -> None:
        """Let every multiplier follow what its constraint is missed by."""
        _, _, phi_con, ties = self.terms(logits)
        self.of_goal.copy_((self.of_goal + self.lam * phi_con).relu())
        raised = self.of_rows + self.lam * ties
        self.of_rows.copy_(raised if self.form == "equality" else raised.relu())


@dataclass(frozen=True)
class Augmented(Lifted):
    """Minimise the augmented Lagrangian in theta, s and t; then raise the multipliers.

    The parameters are those of :class:`setpoint.training.Lifted`. s goes on from subproblem to
    subproblem, for its multipliers speak of where it is.
    """

    start_s: Literal["labels", "random"] = "random"

    def prepare(self, problem: Problem, module: nn.Module) -> AugmentedRun:
        """Return a run; refuses a form that is not exact for the goal."""
        return AugmentedRun(self, problem, module)


class AugmentedRun(LiftedRun):
    """The augmented Lagrangian at work."""

    penalty: AugmentedLagrangian
    _penalty = AugmentedLagrangian

    def advance(self, iteration: int) -> Progress:
        """Solve the subproblem, approximately; then raise the multipliers."""
        progress = super().advance(iteration)
        self.penalty.raise_multipliers_(scores_of(self.module, self.problem.X) - self._origin)
        return progress

    def state_dict(self) -> dict[str, Any]:
        """Return also the multipliers."""
        penalty = self.penalty
        return {**super().state_dict(), "of_goal": penalty.of_goal, "of_rows": penalty.of_rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        super().load_state_dict(state)
        self.penalty.of_goal.copy_(state["of_goal"])
        self.penalty.of_rows.copy_(state["of_rows"])
