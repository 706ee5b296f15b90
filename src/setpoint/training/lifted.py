"""Algorithm 1: the exact penalty method on the lifted problem, in theta, s and t together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.method.capped_loss import typical_price
from setpoint.method.penalty import ExactPenalty, Form, Scaling
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import TrainedModel
from setpoint.training.gpu import Recorded, adam, lifted_steps, set_rate
from setpoint.training.loop import Progress, check_parameters
from setpoint.training.models import is_linear, logits_of, scores_of
from setpoint.training.ordinary import train_ordinarily
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Lifted:
    """Minimise F(theta, s, t, lambda^(k)) for lambda^(k) = lambda0 * rho^k, k = 0 ... K-1.

    The defaults work on real data of any size. ``Lifted.printed()`` is Algorithm 1 as printed;
    ``Lifted.paper()`` differs from it in the scale of two terms and in the limit of gamma.
    docs/algorithm-1.md explains the differences, with figures.

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
        Adam's learning rate for theta (and t). None: for a linear model 0.03, for any other 2e-3;
        1e-3 and 1e-4 in the scalings ``"paper"`` and ``"mean"``.
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
        any other as it was initialised), or at the module's own weights.
    start_s : {"labels", "random"}
        ``"labels"``: every subproblem starts with s at the labels, so that no sample is given up
        until the regulariser's price of it exceeds what it is worth to the goal. ``"random"``: s
        starts uniform on [0, 1] and continues from subproblem to subproblem. F is concave in s_i,
        so the start of s matters much.
    threshold : {"exact", "fixed", "learned"}
        ``"exact"``: after each subproblem the exact threshold is found and taken as the new
        origin of the logits. ``"fixed"``: t stays 0.5. ``"learned"``: t is a variable.
    form : {"auto", "inequality", "equality", "smooth"}
        How s is tied to the decisions; ``"smooth"`` has no s.
    scaling : {"per_positive", "paper", "mean"}
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
        check_parameters(
            self,
            choices={
                "s_step": ("gradient", "adam"),
                "cosine": ("run", "subproblem"),
                "start": ("logistic", "random", "given"),
                "start_s": ("labels", "random"),
                "threshold": ("exact", "fixed", "learned"),
            },
            positive=("lam0", "lam_max", "lr", "lr_s"),
            not_negative=("outer_iterations", "gamma0", "gamma_max"),
            least={"inner_iterations": 1, "rho": 1},
        )

    @classmethod
    def paper(cls, **changes: Any) -> Lifted:
        """Return Algorithm 1 with the paper's constants, in our reading, ``changes`` aside.

        As :meth:`printed`, but ties and regulariser are means over the rows, and gamma grows with
        lambda without a limit.
        """
        return cls.printed(**{"scaling": "mean", "gamma_max": math.inf, **changes})

    @classmethod
    def printed(cls, **changes: Any) -> Lifted:
        """Return Algorithm 1 with terms and constants as printed, ``changes`` aside."""
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
        """Return a run; raise GoalError if the form is not exact for the goal."""
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
            factors=problem.factors,
            form=solver.form,
            scaling=solver.scaling,
            learn_t=solver.threshold == "learned",
        )
        self._rho = solver.rho or (1.3 if problem.goal.constraints else 1.5)
        usual = (0.03, 2e-3) if solver.scaling == "per_positive" else (1e-3, 1e-4)
        self._lr = solver.lr or usual[0 if is_linear(module) else 1]
        theta = [*module.parameters(), *([self.penalty.t] if self.penalty.t.requires_grad else [])]
        groups: list[dict[str, Any]] = [{"params": theta, "lr": self._lr}]
        if solver.s_step == "adam" and self.penalty.s.requires_grad:
            groups.append({"params": [self.penalty.s], "lr": solver.lr_s})
        self._optimizer = adam(groups, problem.X.device)
        self._steps = steps_for(
            Subproblem(solver, self.penalty, module, problem.X, self._optimizer, self._lr)
        )
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
        self._begin_subproblem(1, self._evaluate())
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Solve the subproblem for lambda^(iteration - 1), approximately."""
        assert self._point is not None
        self._advanced = True
        self._begin_subproblem(iteration, self._point)
        self.module.train()
        self._steps.run(self._origin, iteration)
        return self._progress()

    def _begin_subproblem(self, iteration: int, point: OperatingPoint) -> None:
        """Set lambda, gamma, the origin of the logits, the objective's scale, and s."""
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

    def _progress(self) -> Progress:
        with torch.no_grad():
            logits = scores_of(self.module, self.problem.X) - self._origin
            return Progress(self.penalty.lam, float(self.penalty(logits)))

    def models(self) -> list[TrainedModel]:
        """Return the model at its exact threshold, or at t where t is fixed or learned."""
        point = self._evaluate()
        if self.problem.validation is not None:
            point = self.problem.evaluation.operating_point(self.module, self._threshold())
        started = "ordinary training" if self.solver.start == "logistic" else "the start"
        weights, exact = self.module.state_dict(), self.solver.threshold == "exact"
        if self._advanced:
            return [TrainedModel("goal-trained", point, weights, started, exact)]
        return [TrainedModel(started, point, weights, exact=exact)]

    def _evaluate(self) -> OperatingPoint:
        """Return the operating point on the training rows, and keep it for the next subproblem."""
        self._point = self.problem.operating_point(self.module, self._threshold())
        return self._point

    def _threshold(self) -> float | None:
        if self.solver.threshold == "exact":
            return None
        return float(torch.logit(self.penalty.t.detach()))

    def state_dict(self) -> dict[str, Any]:
        """Return s, t and Adam's moments; the rest follows from the model."""
        return {
            "s": self.penalty.s.detach(),
            "t": self.penalty.t.detach(),
            "optimizer": self._optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        with torch.no_grad():
            self.penalty.s.copy_(state["s"])
            self.penalty.t.copy_(state["t"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._evaluate()


def objective_scale(point: OperatingPoint) -> float:
    """Return the factor that makes the more valuable count worth 1/P in the objective.

    Precision near 0.1, for example, changes by only 0.1/P with a further true positive; without the
    factor the penalty and the regulariser would dominate it. Where rows count by their amounts, the
    count is that of a typical row. Money is in any currency, so its factor has no limits.
    """
    goal, objective, (_, _, P, _) = point.goal, point.goal.objective, point.counts
    own = goal.counts_of(objective, *point.goal_counts)
    with np.errstate(all="ignore"):
        slopes = objective.d_tp(*own), objective.d_fp(*own)
        worth = float(np.max(P * typical_price(goal, objective, slopes, *point.goal_counts[2:])))
    if not objective.is_bounded:
        return 1.0 / worth if worth > 0 else 1.0
    return float(1.0 / min(max(worth, 0.01), 100.0))


class Subproblem(NamedTuple):
    """What the steps of a subproblem work on.

    They move the module's parameters and the penalty's s and t; lambda, gamma and the objective's
    scale are read from the penalty. ``lr`` is the first learning rate.
    """

    solver: Lifted
    penalty: ExactPenalty
    module: nn.Module
    X: Tensor
    optimizer: torch.optim.Adam
    lr: float

    def clock(self, iteration: int) -> tuple[int, int]:
        """Return how many steps of the learning rate's cosine are done, and its length."""
        steps = self.solver.inner_iterations
        if self.solver.cosine == "subproblem":
            return 0, steps
        return (iteration - 1) * steps, self.solver.outer_iterations * steps

    def step_of_s(self) -> Tensor:
        """Return the step size of s_i. One sample is worth 1/P: the gradient of s_i in its unit."""
        return -self.solver.lr_s * self.penalty.P / self.penalty.sample_weight


class Steps(Protocol):
    """A way to take the steps of subproblems."""

    def __init__(self, subproblem: Subproblem) -> None: ...

    def run(self, origin: float, iteration: int) -> None:
        """Take the steps of a subproblem, with logits measured from the origin."""
        ...


def steps_for(subproblem: Subproblem) -> Steps:
    """Return steps in closed form where they suffice, else by autograd.

    The closed form has slopes in the logits and in s, at a given t. On a CPU it computes no value
    of F and takes no Adam steps of s.
    """
    solver, penalty = subproblem.solver, subproblem.penalty
    has_slopes = (
        type(penalty) is ExactPenalty and penalty.form != "smooth" and not penalty.t.requires_grad
    )
    if not has_slopes:
        return AutogradSteps(subproblem)
    if (on_gpu := lifted_steps(subproblem, AutogradSteps)) is not None:
        return on_gpu
    closed = solver.s_step == "gradient" and solver.patience is None
    return ClosedSteps(subproblem) if closed else AutogradSteps(subproblem)


class ClosedSteps:
    """Steps with slopes in closed form: autograd differentiates only the model."""

    def __init__(self, subproblem: Subproblem) -> None:
        self._subproblem, self._step_of_s = subproblem, subproblem.step_of_s()

    def run(self, origin: float, iteration: int) -> None:
        """Take the steps of a subproblem."""
        solver, penalty, module, X, optimizer, lr = self._subproblem
        first, total = self._subproblem.clock(iteration)
        for step in range(first, first + solver.inner_iterations):
            set_rate(optimizer.param_groups[0], lr * (1 + math.cos(math.pi * step / total)) / 2)
            optimizer.zero_grad()
            logits = logits_of(module, X)
            in_z, in_s = penalty.slopes(logits.detach() - origin)
            logits.backward(in_z)  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                penalty.s.addcmul_(self._step_of_s, in_s)
            penalty.project_()


class AutogradSteps:
    """Steps by autograd, for every form of the penalty; on a GPU they are recorded."""

    def __init__(self, subproblem: Subproblem) -> None:
        self._subproblem, self._step_of_s = subproblem, subproblem.step_of_s()
        self._recorded = Recorded(subproblem.X.device, subproblem.penalty.goal)
        self._origin = 0.0

    def run(self, origin: float, iteration: int) -> None:
        """Take steps until F has not decreased for as many as ``patience``."""
        solver, self._origin = self._subproblem.solver, origin
        self._recorded.forget()  # lambda, gamma and the origin have changed
        lowest, since = math.inf, 0
        for step in range(solver.inner_iterations):
            self._set_learning_rates(iteration, step)
            loss = self._recorded(self._step)
            if solver.patience is not None:
                value = float(loss)
                lowest, since = (value, 0) if value < lowest else (lowest, since + 1)
                if since >= solver.patience:
                    break

    def _set_learning_rates(self, iteration: int, step: int) -> None:
        solver = self._subproblem.solver
        elapsed = step / solver.inner_iterations
        if solver.cosine == "run":
            elapsed = (iteration - 1 + elapsed) / solver.outer_iterations
        factor = (1 + math.cos(math.pi * elapsed)) / 2
        groups, rates = self._subproblem.optimizer.param_groups, (self._subproblem.lr, solver.lr_s)
        for group, rate in zip(groups, rates, strict=False):
            set_rate(group, rate * factor)

    def _step(self) -> Tensor:
        solver, penalty, module, X, optimizer, _ = self._subproblem
        optimizer.zero_grad()
        penalty.zero_grad()
        loss: Tensor = penalty(logits_of(module, X) - self._origin)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if solver.s_step == "gradient" and penalty.s.grad is not None:
            with torch.no_grad():
                penalty.s.addcmul_(self._step_of_s, penalty.s.grad)
        penalty.project_()
        return loss.detach()
