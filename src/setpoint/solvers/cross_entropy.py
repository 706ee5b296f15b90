"""Ordinary training: logistic loss, then an exact threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from setpoint.models import is_linear, logits_of
from setpoint.solvers.base import Progress
from setpoint.solvers.candidates import Contender
from setpoint.solvers.problem import Problem


@dataclass(frozen=True)
class CrossEntropy:
    """Minimise  sum_i w_i softplus(-z~_i) + l2/2 |theta|^2,  z~ the logit signed by the class.

    Parameters
    ----------
    l2 : float
        Strength of the ridge on all parameters but biases; 1/C of scikit-learn.
    balanced : bool
        Whether both classes get the same total weight.
    outer_iterations : int
        How often the operating point is looked at.
    inner_iterations : int
        Steps between two looks: of L-BFGS for a linear model, of Adam for any other, and then
        at least so many that every row is seen.
    lr : float
        Adam's first learning rate, which falls to zero on a cosine.
    batch_size : int
        Rows in a step of Adam, drawn without replacement until all were seen.
    """

    l2: float = 1.0
    balanced: bool = False
    outer_iterations: int = 10
    inner_iterations: int = 50
    lr: float = 3e-3
    batch_size: int = 2048

    def prepare(self, problem: Problem, module: nn.Module) -> CrossEntropyRun:
        """Return a run; any goal will do, since training does not see it."""
        return CrossEntropyRun(self, problem, module)


class CrossEntropyRun:
    """Cross-entropy training at work."""

    def __init__(self, solver: CrossEntropy, problem: Problem, module: nn.Module) -> None:
        self.problem, self.module, self.solver = problem, module, solver
        positive, weight = problem.positive, problem.sample_weight
        if solver.balanced:
            P, N = weight[positive].sum(), weight[~positive].sum()
            weight = weight * (P + N) / 2 / torch.where(positive, P, N)
        self._total = weight.sum()
        self._weight = weight / self._total
        self._sign = torch.where(positive, -1.0, 1.0).to(weight.dtype)
        self._ridged = [p for p in module.parameters() if p.ndim > 1]
        self._optimizer: torch.optim.Optimizer
        if is_linear(module):
            self._optimizer = torch.optim.LBFGS(
                module.parameters(),
                max_iter=solver.inner_iterations,
                tolerance_grad=1e-8,
                tolerance_change=1e-12,
                line_search_fn="strong_wolfe",
            )
            self._schedule = None
        else:
            self._optimizer = torch.optim.Adam(module.parameters(), lr=solver.lr)
            self._batches = math.ceil(len(problem.X) / solver.batch_size)
            self._steps = max(solver.inner_iterations, self._batches)
            self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
                self._optimizer, solver.outer_iterations * self._steps
            )

    def loss(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return the mean loss with its ridge; of some rows, its estimate."""
        z = logits_of(self.module, self.problem.X[rows])
        ridge = sum(((p * p).sum() for p in self._ridged), torch.zeros_like(self._total))
        data = (self._weight[rows] * softplus(self._sign[rows] * z)).sum()
        return data * (len(self._sign) / len(z)) + self.solver.l2 / 2 / self._total * ridge

    def _closure(self, rows: Tensor | slice = slice(None)) -> float:
        self._optimizer.zero_grad()
        loss = self.loss(rows)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def start(self, take: str | None = None) -> Progress:
        """Leave the model as it was initialised."""
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Do ``inner_iterations`` steps."""
        self.module.train()
        if self._schedule is None:
            self._optimizer.step(self._closure)
        else:
            for step in range(self._steps):
                if self._batches == 1:
                    rows: Tensor | slice = slice(None)
                else:
                    if step % self._batches == 0:
                        order = torch.randperm(len(self._sign), device=self._sign.device)
                    rows = order[step % self._batches :: self._batches]
                self._optimizer.step(partial(self._closure, rows))
                self._schedule.step()
        return self._progress()

    def _progress(self) -> Progress:
        with torch.no_grad():
            return Progress(0.0, float(self.loss()))

    def contenders(self) -> list[Contender]:
        """Return the model at its exact threshold."""
        point = self.problem.judge.operating_point(self.module)
        return [Contender("ordinary training", point, self.module.state_dict())]

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state."""
        schedule = None if self._schedule is None else self._schedule.state_dict()
        return {"optimizer": self._optimizer.state_dict(), "schedule": schedule}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._optimizer.load_state_dict(state["optimizer"])
        if self._schedule is not None:
            self._schedule.load_state_dict(state["schedule"])
