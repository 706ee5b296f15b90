"""Algorithm 1: the exact penalty method on the lifted problem, in theta, s and t together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from setpoint.method.penalty import ExactPenalty, Form, Scaling
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Contender
from setpoint.training.gpu.recorded import Recorded, adam, set_rate
from setpoint.training.lifted_steps import closed_steps
from setpoint.training.loop import Progress
from setpoint.training.models import is_linear, logits_of, scores_of
from setpoint.training.ordinary import train_ordinarily
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Lifted:
    """Minimise F(theta, s, t, lambda^(k)) for lambda^(k) = lambda0 * rho^k, k = 0 ... K-1.

    The fields' defaults are the preset that works on real data of any size; ``Lifted.paper()``
    is Algorithm 1 as printed. docs/algorithm-1.md says what differs and why, with figures.

    Parameters
    ----------
    lam0, lam_max, rho : float
        First and largest penalty parameter, and its growth. ``rho=None``: 1.5 for goals without
        constraints, 1.3 for others.
    gamma0, gamma_max : float
        First and largest strength of the regulariser psi; it grows with lambda.
    outer_iterations, inner_iterations : int
        Subproblems, and steps in each.
    patience : int or None
        A subproblem ends when F has not decreased for so many steps.
    lr : float or None
        Adam's learning rate for theta (and t). None: for a linear model 0.03, in the paper's
        scaling 1e-3; for any other 2e-3 and 1e-4.
    lr_s : float
        Step size for s: Adam's learning rate, or that of the projected gradient.
    s_step : {"gradient", "adam"}
        How s moves. ``"gradient"``: by lr_s times what one sample is worth, so that s settles
        where its price and its worth are equal. ``"adam"``: as in the paper, by about lr_s at
        every step, whatever the gradient's size.
    cosine : {"run", "subproblem"}
        Whether Adam's learning rates fall to zero on one cosine over the whole run or, as in
        the paper, on one within each subproblem.
    start : {"logistic", "random", "given"}
        Where theta starts: after ordinary training, at random (a linear model by torch's rule,
        any other as it was initialised), or at the weights that the module brings.
    start_s : {"labels", "random"}
        ``"labels"``: every subproblem starts with s at the labels, so that every sample is
        fought for until the regulariser's price of the fight exceeds what the sample is worth
        to the goal. ``"random"``: s starts uniform on [0, 1] and goes on from subproblem to
        subproblem. F is concave in s_i, so where s starts decides much.
    threshold : {"exact", "fixed", "learned"}
        ``"exact"``: after each subproblem the exact threshold is found and taken as the new
        origin of the logits. ``"fixed"``: t stays 0.5. ``"learned"``: t is a variable.
    form : {"auto", "inequality", "equality", "smooth"}
        How s is tied to the decisions; ``"smooth"`` does without s.
    scaling : {"per_positive", "paper"}
        See :class:`setpoint.method.ExactPenalty`. ``"per_positive"`` also measures the objective
        in units of its largest derivative times P.
    """

    lam0: float = 1.0
    lam_max: float = 1e6
    rho: float | None = None
    gamma0: float = 0.5
    gamma_max: float = 10.0
    outer_iterations: int = 50
    inner_iterations: int = 40
    patience: int | None = None
    lr: float | None = None
    lr_s: float = 0.1
    s_step: Literal["gradient", "adam"] = "gradient"
    cosine: Literal["run", "subproblem"] = "run"
    start: Literal["logistic", "random", "given"] = "logistic"
    start_s: Literal["labels", "random"] = "labels"
    threshold: Literal["exact", "fixed", "learned"] = "exact"
    form: Form = "auto"
    scaling: Scaling = "per_positive"

    def __post_init__(self) -> None:
        choices = {
            "s_step": ("gradient", "adam"),
            "cosine": ("run", "subproblem"),
            "start": ("logistic", "random", "given"),
            "start_s": ("labels", "random"),
            "threshold": ("exact", "fixed", "learned"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is one of {known}, not {getattr(self, name)!r}.")
        if self.outer_iterations < 0 or self.inner_iterations < 1:
            raise ValueError("outer_iterations must be >= 0 and inner_iterations >= 1.")
        for name in ("lam0", "lam_max", "lr", "lr_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}.")
        if self.gamma0 < 0 or self.gamma_max < 0 or (self.rho is not None and self.rho < 1):
            raise ValueError("gamma0 and gamma_max must be >= 0 and rho >= 1.")

    @classmethod
    def paper(cls, **changes: Any) -> Lifted:
        """Return Algorithm 1 with the paper's constants, ``changes`` aside."""
        constants: dict[str, Any] = {
            "inner_iterations": 30_000,
            "patience": 10,
            "s_step": "adam",
            "cosine": "subproblem",
            "start": "random",
            "start_s": "random",
            "threshold": "fixed",
            "scaling": "paper",
        }
        return cls(**{**constants, **changes})

    def prepare(self, problem: Problem, module: nn.Module) -> LiftedRun:
        """Return a run; refuses a form that is not exact for the goal."""
        return LiftedRun(self, problem, module)


class LiftedRun:
    """Algorithm 1 at work."""

    _penalty: type[ExactPenalty] = ExactPenalty

    def __init__(self, solver: Lifted, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        self.penalty = self._penalty(
            problem.goal,
            problem.positive,
            problem.sample_weight,
            form=solver.form,
            scaling=solver.scaling,
            learn_t=solver.threshold == "learned",
        )
        self._rho = solver.rho or (1.3 if problem.goal.constraints else 1.5)
        usual = (1e-3, 1e-4) if solver.scaling == "paper" else (0.03, 2e-3)
        self._lr = solver.lr or usual[0 if is_linear(module) else 1]
        theta = [*module.parameters(), *([self.penalty.t] if self.penalty.t.requires_grad else [])]
        groups: list[dict[str, Any]] = [{"params": theta, "lr": self._lr}]
        if solver.s_step == "adam" and self.penalty.s.requires_grad:
            groups.append({"params": [self.penalty.s], "lr": solver.lr_s})
        self._optimizer = adam(groups, problem.X.device)
        self._step = Recorded(problem.X.device, problem.goal)
        self._closed = closed_steps(
            solver, self.penalty, module, problem.X, self._optimizer, self._lr
        )
        # One sample's worth is 1/P: in that unit the gradient of s_i is of order 1.
        self._step_of_s = -solver.lr_s * self.penalty.P / problem.sample_weight
        self._origin = 0.0  # the logit that counts as score 0.5
        self._point: OperatingPoint | None = None
        self._advanced = False

    def start(self, take: str | None = None) -> Progress:
        """Train ordinarily, or start at random; set s."""
        if self.solver.start == "logistic":
            train_ordinarily(self.problem, self.module)
        elif self.solver.start == "random" and isinstance(self.module, nn.Linear):
            self.module.reset_parameters()  # our linear model is initialised at zero
        if self.solver.start_s == "random":
            with torch.no_grad():
                self.penalty.s.uniform_(0.0, 1.0)
        self._begin_subproblem(1, self._look())
        return self._progress()

    def _progress(self) -> Progress:
        with torch.no_grad():
            logits = scores_of(self.module, self.problem.X) - self._origin
            return Progress(self.penalty.lam, float(self.penalty(logits)))

    def advance(self, iteration: int) -> Progress:
        """Solve the subproblem for lambda^(iteration - 1), approximately."""
        solver = self.solver
        assert self._point is not None
        self._advanced = True
        self._begin_subproblem(iteration, self._point)
        self.module.train()
        if self._closed is not None:
            steps, whole = solver.inner_iterations, solver.cosine == "run"
            first = (iteration - 1) * steps if whole else 0
            total = solver.outer_iterations * steps if whole else steps
            self._closed.run(self._origin, steps, first, total)
            return self._progress()
        lowest, since = math.inf, 0
        for step in range(solver.inner_iterations):
            self._set_learning_rates(iteration, step)
            loss = self._step(self._descend)
            if solver.patience is not None:
                value = float(loss)
                lowest, since = (value, 0) if value < lowest else (lowest, since + 1)
                if since >= solver.patience:
                    break
        return self._progress()

    def _descend(self) -> torch.Tensor:
        penalty = self.penalty
        self._optimizer.zero_grad()
        penalty.zero_grad()
        loss: torch.Tensor = penalty(logits_of(self.module, self.problem.X) - self._origin)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        if self.solver.s_step == "gradient" and penalty.s.grad is not None:
            with torch.no_grad():
                penalty.s.addcmul_(self._step_of_s, penalty.s.grad)
        penalty.project_()
        return loss.detach()

    def _begin_subproblem(self, iteration: int, point: OperatingPoint) -> None:
        solver, penalty = self.solver, self.penalty
        growth = self._rho ** (iteration - 1)
        penalty.lam = min(solver.lam0 * growth, solver.lam_max)
        penalty.gamma = min(solver.gamma0 * growth, solver.gamma_max)
        if solver.threshold == "exact":
            self._origin = point.threshold
        if solver.scaling == "per_positive":
            penalty.objective_scale = objective_scale(point)
        if solver.start_s == "labels":
            with torch.no_grad():
                penalty.s.copy_(penalty.positive)
        self._step.forget()

    def _set_learning_rates(self, iteration: int, step: int) -> None:
        elapsed = step / self.solver.inner_iterations
        if self.solver.cosine == "run":
            elapsed = (iteration - 1 + elapsed) / self.solver.outer_iterations
        factor = (1 + math.cos(math.pi * elapsed)) / 2
        rates = (self._lr, self.solver.lr_s)
        for group, rate in zip(self._optimizer.param_groups, rates, strict=False):
            set_rate(group, rate * factor)

    def contenders(self) -> list[Contender]:
        """Return the model at its exact threshold, or at t where t is fixed or learned."""
        point = self._look()
        if self.problem.validation is not None:
            point = self.problem.judge.operating_point(self.module, self._threshold())
        started = "ordinary training" if self.solver.start == "logistic" else "the start"
        weights = self.module.state_dict()
        if self._advanced:
            return [Contender("goal-trained", point, weights, started)]
        return [Contender(started, point, weights)]

    def _threshold(self) -> float | None:
        if self.solver.threshold == "exact":
            return None
        return float(torch.logit(self.penalty.t.detach()))

    def _look(self) -> OperatingPoint:
        """Return, and remember for the next subproblem, where training stands."""
        self._point = self.problem.operating_point(self.module, self._threshold())
        return self._point

    def state_dict(self) -> dict[str, Any]:
        """Return s, t and Adam's moments; the rest follows from the model."""
        return {
            "s": self.penalty.s.detach(),
            "t": self.penalty.t.detach(),
            "optimizer": self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        with torch.no_grad():
            self.penalty.s.copy_(state["s"])
            self.penalty.t.copy_(state["t"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._look()


def objective_scale(point: OperatingPoint) -> float:
    """Return the factor that makes the more valuable count worth 1/P in the objective.

    Precision near 0.1, say, changes by only 0.1/P with a further true positive; without the
    factor the penalty and the regulariser would drown it.
    """
    objective, counts = point.goal.objective, point.counts
    with np.errstate(all="ignore"):
        worth = counts[2] * max(abs(objective.d_tp(*counts)), abs(objective.d_fp(*counts)))
    return float(1.0 / min(max(worth, 0.01), 100.0))
