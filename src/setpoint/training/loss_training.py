"""Training with a loss that ignores the goal, followed by a threshold for the goal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from setpoint._internal.renamed import renamed_parameters
from setpoint.errors import SetpointError
from setpoint.training.candidates import TrainedModel
from setpoint.training.gpu import Recorded
from setpoint.training.loop import Progress, check_parameters
from setpoint.training.models import is_linear, logits_of
from setpoint.training.problem import Problem


@renamed_parameters(share="weight")
@dataclass(frozen=True)
class LabelledRows:
    """The rows of one step.

    Attributes
    ----------
    positive : Tensor of bool, shape (k,)
        Their labels.
    weight : Tensor of shape (k,)
        The rows' weights, divided by the sum over all rows; in a batch, scaled so that they add up
        to 1 on average.
    P, N : float
        The sums of weights of positives and of negatives, over all rows.
    elapsed : float
        The fraction of the training that is done. A loss that changes with it has a method
        ``phase(elapsed)``, an integer, and changes only where that does.
    """

    positive: Tensor
    weight: Tensor
    P: float
    N: float
    elapsed: float = 0.0

    def margins(self, logits: Tensor) -> Tensor:
        """Return z~, the logits signed by the class: > 0 where right."""
        return torch.where(self.positive, logits, -logits)

    def by_class(self, of_positives: float, of_negatives: float) -> Tensor:
        """Return one of two numbers for each row, by its class."""
        # In the precision of the weights: torch.where turns two floats into float32.
        number = partial(self.weight.new_full, ())
        return torch.where(self.positive, number(of_positives), number(of_negatives))


class Loss(Protocol):
    """A frozen set of parameters; ``repr`` shows all of them."""

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the value to minimise; for a batch, its estimate."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """Minimise  sum_i c_i w_i softplus(-z~_i),  c_i = ((P + N) / 2 / its class's sum)^balance.

    Parameters
    ----------
    balance : float
        0: plain logistic loss. 1: both classes get the same total weight (WCE).
    """

    balance: float = 0.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.balance):
            raise SetpointError(f"balance must be a finite number, not {self.balance}.")

    def __call__(self, logits: Tensor, rows: LabelledRows) -> Tensor:
        """Return the weighted mean."""
        weight = rows.weight
        if self.balance:
            half = (rows.P + rows.N) / 2
            weight = weight * rows.by_class(
                (half / rows.P) ** self.balance, (half / rows.N) ** self.balance
            )
        return (weight * softplus(-rows.margins(logits))).sum()


_HISTORY = 10  # of L-BFGS: torch's 100 spends more on its history than on the rows


@dataclass(frozen=True)
class LossTraining:
    """Minimise  loss + l2/2 |theta|^2 / (sum of weights).

    With cross-entropy that is ordinary training, and l2 is 1/C of scikit-learn.

    Parameters
    ----------
    loss : Loss
        One of :mod:`setpoint.paper.competitors`, or any frozen dataclass like them.
    l2 : float
        Strength of the ridge on all parameters but biases.
    outer_iterations : int
        Evaluations of the operating point.
    inner_iterations : int
        Steps between two evaluations; of Adam on batches, at least an epoch.
    optimizer : {"auto", "adam"}
        ``"auto"``: L-BFGS for a linear model, Adam for any other.
    lr : float
        Adam's first learning rate, which falls to zero on a cosine over the whole training.
    batch_size : int or None
        Rows in a step of Adam, drawn without replacement in each epoch. None: all.
    patience : int or None
        Training ends when the loss on all rows has not decreased for so many steps. A loss with a
        method ``phase(elapsed)`` is compared within a phase only, and only the phase ends: training
        continues at the first step of the next one.
    threshold : {"exact", "fixed"}
        Whether iterates are evaluated at their exact threshold or at the logit 0.
    """

    loss: Loss = CrossEntropy()
    l2: float = 1.0
    outer_iterations: int = 10
    inner_iterations: int = 50
    optimizer: Literal["auto", "adam"] = "auto"
    lr: float = 3e-3
    batch_size: int | None = 2048
    patience: int | None = None
    threshold: Literal["exact", "fixed"] = "exact"

    def __post_init__(self) -> None:
        check_parameters(
            self,
            choices={"optimizer": ("auto", "adam"), "threshold": ("exact", "fixed")},
            positive=("lr",),
            not_negative=("outer_iterations", "l2"),
            least={"inner_iterations": 1, "batch_size": 1, "patience": 1},
        )
        if self.patience is not None and (self.batch_size or self.optimizer == "auto"):
            raise SetpointError("patience needs all rows: set optimizer='adam', batch_size=None.")

    @classmethod
    def paper(cls, loss: Loss, **changes: Any) -> LossTraining:
        """Return the training of the paper's competitors, ``changes`` aside.

        Adam on all rows, at most 30,000 steps, ended by 10 steps without a decrease.
        """
        constants: dict[str, Any] = {
            "l2": 0.0,
            "outer_iterations": 30,
            "inner_iterations": 1000,
            "optimizer": "adam",
            "lr": 1e-3,
            "batch_size": None,
            "patience": 10,
            "threshold": "fixed",
        }
        return cls(loss, **{**constants, **changes})

    def prepare(self, problem: Problem, module: nn.Module) -> LossRun:
        """Return a run. Supports every goal."""
        return LossRun(self, problem, module)


class LossRun:
    """A loss that is being minimised."""

    def __init__(self, solver: LossTraining, problem: Problem, module: nn.Module) -> None:
        self.problem, self.module, self.solver = problem, module, solver
        positive, weight = problem.positive, problem.sample_weight
        self._P, self._N = float(weight[positive].sum()), float(weight[~positive].sum())
        self._total_weight = weight.sum()
        self._weight = weight / self._total_weight
        self._ridged = [p for p in module.parameters() if p.ndim > 1]
        self._step, self._elapsed = 0, 0.0
        self._phase, self._lowest, self._since = 0, math.inf, 0
        self._optimizer: torch.optim.Optimizer
        if solver.optimizer == "auto" and is_linear(module):
            self._optimizer = torch.optim.LBFGS(
                module.parameters(),
                max_iter=solver.inner_iterations,
                history_size=_HISTORY,
                tolerance_grad=1e-8,
                tolerance_change=1e-12,
                line_search_fn="strong_wolfe",
            )
            self._batches, self._steps = 1, 1
        else:
            self._optimizer = torch.optim.Adam(module.parameters(), lr=solver.lr, fused=True)
            self._batches = math.ceil(len(problem.X) / (solver.batch_size or len(problem.X)))
            self._steps = max(solver.inner_iterations, self._batches)
        self._total = solver.outer_iterations * self._steps
        self._on_all_rows = Recorded(problem.X.device)

    def loss(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return the loss with its ridge; for some rows, its estimate."""
        z = logits_of(self.module, self.problem.X[rows])
        weight = self._weight[rows] * (len(self._weight) / len(z))
        seen = LabelledRows(self.problem.positive[rows], weight, self._P, self._N, self._elapsed)
        loss = self.solver.loss(z, seen)
        if self.solver.l2:
            ridge = sum(((p * p).sum() for p in self._ridged), torch.zeros_like(self._total_weight))
            loss = loss + self.solver.l2 / 2 / self._total_weight * ridge
        return loss

    def _closure(self, rows: Tensor | slice = slice(None)) -> Tensor:
        self._optimizer.zero_grad()
        loss = self.loss(rows)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def start(self, take: str | None = None) -> Progress:
        """Leave the model as it was initialised."""
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Do ``inner_iterations`` steps."""
        self.module.train()
        for k in range(self._steps):
            if self.solver.patience is not None and self._since >= self.solver.patience:
                self._step = self._next_phase()
            if self._step == self._total:
                break
            self._begin_step()
            closure: Callable[[], Any] = partial(self._on_all_rows, self._closure)
            if self._batches > 1:
                if k % self._batches == 0:
                    order = torch.randperm(len(self._weight), device=self._weight.device)
                closure = partial(self._closure, order[k % self._batches :: self._batches])
            loss = self._optimizer.step(closure)
            self._step += 1
            if self.solver.patience is not None:
                value = float(loss)
                lower = value < self._lowest
                self._lowest, self._since = (value, 0) if lower else (self._lowest, self._since + 1)
        return self._progress()

    def _begin_step(self) -> None:
        """Set what depends on the fraction of the training that is done; reset the patience."""
        self._elapsed = self._step / self._total
        phase = self._phase_at(self._elapsed)
        if phase != self._phase:
            self._phase, self._lowest, self._since = phase, math.inf, 0
            self._on_all_rows.forget()
        if isinstance(self._optimizer, torch.optim.Adam):
            for group in self._optimizer.param_groups:
                group["lr"] = self.solver.lr * (1 + math.cos(math.pi * self._elapsed)) / 2

    def _phase_at(self, elapsed: float) -> int:
        phase_of = getattr(self.solver.loss, "phase", None)
        return 0 if phase_of is None else int(phase_of(elapsed))

    def _next_phase(self) -> int:
        """Return the first step of the loss's next phase, or the end of training."""
        for step in range(self._step, self._total):
            if self._phase_at(step / self._total) != self._phase:
                return step
        return self._total

    def _progress(self) -> Progress:
        with torch.no_grad():
            return Progress(0.0, float(self.loss()))

    def models(self) -> list[TrainedModel]:
        """Return the model at its threshold."""
        threshold = 0.0 if self.solver.threshold == "fixed" else None
        point = self.problem.evaluation.operating_point(self.module, threshold)
        weights = self.module.state_dict()
        return [TrainedModel("ordinary training", point, weights, exact=threshold is None)]

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state, the step, and the state of the patience."""
        return {
            "optimizer": self._optimizer.state_dict(),
            "step": self._step,
            "elapsed": self._elapsed,
            "lowest": float(self._lowest),
            "since": self._since,
            "phase": self._phase,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._step, self._elapsed = state["step"], state["elapsed"]
        self._lowest, self._since, self._phase = state["lowest"], state["since"], state["phase"]
