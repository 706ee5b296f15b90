"""Competitors that see the goal: two Lagrangian methods.

- :class:`Lagrangian`: a game on smoothed rates, as in TFCO (Cotter et al. 2019).
- :class:`Augmented`: the augmented Lagrangian on the lifted problem, the predecessor of the exact
  penalty of Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from setpoint.errors import SetpointError
from setpoint.goals.goal import only_fractions
from setpoint.method.penalty import ExactPenalty
from setpoint.training.candidates import TrainedModel
from setpoint.training.gpu import Recorded
from setpoint.training.lifted import Lifted, LiftedRun
from setpoint.training.loop import Progress
from setpoint.training.models import logits_of, scores_of
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Lagrangian:
    """Solve  min over theta, max over mu  of  -phi_obj + sum_j mu_j phi_con_j / P  (TFCO).

    theta follows gradients of rates in which a smooth proxy replaces the decision, by Adagrad. The
    two formulations differ in what mu follows:

    - ``"lagrangian"``: the same proxies; mu >= 0 is updated by Adagrad too.
    - ``"proxy_lagrangian"``: the true counts. (1, mu) is then the stationary distribution of a
      stochastic matrix, scaled, and the matrix is updated multiplicatively, so that mu has low swap
      regret (Algorithm 2 of Cotter et al. 2019).

    Parameters
    ----------
    formulation : {"proxy_lagrangian", "lagrangian"}
        See above.
    proxy : {"sigmoid", "hinge"}
        The proxy of 1{z > 0}: sigmoid(z), or hinges that bound it, from below on positives and
        from above on negatives. Hinges may leave [0, 1], where a quotient of counts is meaningless;
        they take the derivatives of the objective at the true counts.
    lr : float
        Learning rate of theta.
    dual_scale : float
        Learning rate of the multipliers relative to ``lr``.
    outer_iterations, inner_iterations : int
        Number of evaluations of the operating point, and steps between two of them.
    threshold : {"exact", "fixed"}
        Whether iterates are evaluated at their exact threshold or at the logit 0.
    """

    formulation: Literal["proxy_lagrangian", "lagrangian"] = "proxy_lagrangian"
    proxy: Literal["sigmoid", "hinge"] = "sigmoid"
    lr: float = 0.1
    dual_scale: float = 1.0
    outer_iterations: int = 20
    inner_iterations: int = 50
    threshold: Literal["exact", "fixed"] = "exact"

    def __post_init__(self) -> None:
        choices = {
            "formulation": ("proxy_lagrangian", "lagrangian"),
            "proxy": ("sigmoid", "hinge"),
            "threshold": ("exact", "fixed"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SetpointError(f"{name} must be one of {known}, not {getattr(self, name)!r}.")
        if not self.lr > 0 or not self.dual_scale > 0:
            raise SetpointError("lr and dual_scale must be positive.")
        if self.outer_iterations < 0 or self.inner_iterations < 1:
            raise SetpointError("outer_iterations must be >= 0 and inner_iterations >= 1.")

    def prepare(self, problem: Problem, module: nn.Module) -> LagrangianRun:
        """Start a run. Supports every goal."""
        return LagrangianRun(self, problem, module)


class Game(NamedTuple):
    """The Lagrangian, its derivatives in TP and FP of the proxies, and the dual's constraints."""

    value: Tensor
    slopes: Tensor
    seen: Tensor


class LagrangianRun:
    """The two players: theta descends, the multipliers ascend."""

    def __init__(self, solver: Lagrangian, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        weight, positive = problem.sample_weight, problem.positive
        self._P, self._N = float(weight[positive].sum()), float(weight[~positive].sum())
        # Products with these two columns are TP and FP.
        self._classes = torch.stack([weight * positive, weight * ~positive], dim=1)
        self._optimizer = torch.optim.Adagrad(module.parameters(), lr=solver.lr)
        rate, m = solver.dual_scale * solver.lr, len(problem.goal.constraints)
        player = Ascent if solver.formulation == "lagrangian" else SwapRegret
        self.dual: Ascent | SwapRegret = player(m, rate, weight.device)
        self._fractions = only_fractions(problem.goal)
        self._step = Recorded(weight.device, problem.goal)

    def start(self, take: str | None = None) -> Progress:
        """Start from the initial model."""
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Take ``inner_iterations`` steps of both players."""
        self.module.train()
        for _ in range(self.solver.inner_iterations):
            self._step(self._play)
        return self._progress()

    def _play(self) -> Tensor:
        self._optimizer.zero_grad()
        logits = logits_of(self.module, self.problem.X)
        proxies = self._proxies(logits)
        game = self._evaluate(logits, proxies)
        price_tp, price_fp = game.slopes.to(proxies.dtype)
        prices = torch.where(self.problem.positive, price_tp, price_fp)
        (proxies * prices * self.problem.sample_weight).sum().backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.dual.follow(game.seen)
        return game.value

    @torch.no_grad()
    def _evaluate(self, logits: Tensor, proxies: Tensor) -> Game:
        """Return the value of the game without synchronising with the device."""
        goal = self.problem.goal
        decided = (logits > 0).to(proxies.dtype)
        counts: Any = (torch.stack([proxies, decided]) @ self._classes).double()
        if not self._fractions:
            counts = counts.cpu().numpy()
        smooth, true = ((tp, fp, self._P, self._N) for tp, fp in counts)
        worth, prices = self.dual.weights
        # The counts of hinges may be negative, where a quotient is meaningless.
        at = true if self.solver.proxy == "hinge" else smooth
        with np.errstate(all="ignore"):
            objective = goal.objective
            value = -worth * objective.sign * objective.value(*at)
            slopes = [-worth * objective.sign * d(*at) for d in (objective.d_tp, objective.d_fp)]
            for price, constraint in zip(prices, goal.constraints, strict=True):
                value = value + price * constraint.cleared(*smooth) / self._P
                of_constraint = constraint.cleared_slopes(*smooth)
                slopes = [
                    slope + price / self._P * own
                    for slope, own in zip(slopes, of_constraint, strict=True)
                ]
            seen = smooth if self.solver.formulation == "lagrangian" else true
            missed = [c.cleared(*seen) / self._P for c in goal.constraints]
        return Game(self._tensor(value), self._vector(slopes), self._vector(missed).nan_to_num())

    def _tensor(self, value: Any) -> Tensor:
        return torch.as_tensor(value, dtype=torch.float64, device=self._classes.device)

    def _vector(self, values: list[Any]) -> Tensor:
        if not values:
            return torch.zeros(0, dtype=torch.float64, device=self._classes.device)
        return torch.stack([self._tensor(value) for value in values])

    def _proxies(self, logits: Tensor) -> Tensor:
        if self.solver.proxy == "sigmoid":
            return torch.sigmoid(logits)
        return torch.where(self.problem.positive, 1 - relu(1 - logits), relu(1 + logits))

    def _progress(self) -> Progress:
        """Return the largest multiplier and the Lagrangian with proxies."""
        logits = scores_of(self.module, self.problem.X)
        worth, prices = self.dual.weights
        value = self._evaluate(logits, self._proxies(logits)).value
        largest = float(prices.max() / worth) if len(prices) else 0.0
        return Progress(largest, float(value))

    def models(self) -> list[TrainedModel]:
        """Return the model at its threshold."""
        threshold = 0.0 if self.solver.threshold == "fixed" else None
        point = self.problem.evaluation.operating_point(self.module, threshold)
        weights = self.module.state_dict()
        return [TrainedModel("the Lagrangian", point, weights, exact=threshold is None)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of both players."""
        return {"optimizer": self._optimizer.state_dict(), "dual": self.dual.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._optimizer.load_state_dict(state["optimizer"])
        for name, value in state["dual"].items():
            self.dual.state[name].copy_(value)


class Ascent:
    """Multipliers >= 0 that ascend by Adagrad; the weight of the objective is 1."""

    def __init__(self, m: int, rate: float, device: torch.device | None = None) -> None:
        self.rate = rate
        self.state = {
            name: torch.zeros(m, dtype=torch.float64, device=device) for name in ("mu", "squares")
        }

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """The weights of the objective and of the constraints."""
        mu = self.state["mu"]
        return mu.new_ones(()), mu

    def follow(self, constraints: Tensor) -> None:
        """Take one step of ascent."""
        mu, squares = self.state["mu"], self.state["squares"]
        squares.addcmul_(constraints, constraints)
        mu.addcdiv_(constraints, (squares + 1e-20).sqrt(), value=self.rate).clamp_(min=0.0)


class SwapRegret:
    """The stationary distribution of a stochastic matrix over objective and constraints.

    M <- M * exp(rate * (0, c) weights^T), with columns scaled to sum 1.
    """

    def __init__(self, m: int, rate: float, device: torch.device | None = None) -> None:
        self.rate = rate
        even = torch.full((m + 1, m + 1), 1 / (m + 1), dtype=torch.float64, device=device)
        self.state = {"M": even}

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """The weights of the objective and of the constraints, which sum to 1."""
        x = stationary(self.state["M"])
        x = (x / x.sum()).clamp(min=1e-12)
        x = x / x.sum()
        return x[0], x[1:]

    def follow(self, constraints: Tensor) -> None:
        """Update the matrix by the violations of the constraints."""
        M = self.state["M"]
        worth, prices = self.weights
        gain = torch.outer(
            torch.cat([constraints.new_zeros(1), constraints]), torch.cat([worth[None], prices])
        )
        raised = M.clamp(min=1e-12) * (self.rate * gain).clamp(-50, 50).exp()
        M.copy_(raised / raised.sum(dim=0))


def stationary(M: Tensor) -> Tensor:
    """Return x > 0 with M x = x and x_0 = 1, for a matrix with positive columns of sum 1.

    The elimination of Grassmann, Taksar and Heyman: without subtractions, it stays accurate for
    rare states; without a factorisation, it does not synchronise with the device.
    """
    leave = M.T.clone()  # from the state of the row to that of the column
    n = len(leave)
    for k in range(n - 1, 0, -1):
        leave[:k, k] /= leave[k, :k].sum()
        if k > 1:
            leave[:k, :k] += torch.outer(leave[:k, k], leave[k, :k])
    x = [M.new_ones(())]
    for k in range(1, n):
        x.append(torch.stack(x) @ leave[:k, k])
    return torch.stack(x)


class AugmentedLagrangian(ExactPenalty):
    """-phi_obj - gamma psi + A(phi_con) + sum_i w_i A(h_i), with a multiplier for each constraint.

    For a constraint c <= 0 with multiplier mu, and for an equation h = 0,

        A(c) = ([mu + lambda c]_+^2 - mu^2) / (2 lambda),      A(h) = mu h + lambda/2 h^2.

    After a subproblem mu <- [mu + lambda c]_+ and mu <- mu + lambda h. The parameters are those of
    :class:`setpoint.method.ExactPenalty`; here lambda multiplies squares.
    """

    of_goal: Tensor
    of_rows: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        weight = self.sample_weight
        self.register_buffer("of_goal", weight.new_zeros(len(self.goal.constraints)))
        self.register_buffer("of_rows", torch.zeros_like(weight))

    def combine(self, phi_obj: Tensor, psi: Tensor, phi_con: Tensor, ties: Tensor) -> Tensor:
        """Return the augmented Lagrangian, given its terms."""
        if self.form == "equality":
            missed = self.of_rows * ties + self.lam / 2 * ties.square()
        else:
            missed = self._of_inequalities(self.of_rows, ties)
        return (
            -phi_obj
            - self.gamma * psi
            + self._of_inequalities(self.of_goal, phi_con).sum()
            + (self._tie * self.sample_weight * missed).sum()
        )

    def _of_inequalities(self, multipliers: Tensor, values: Tensor) -> Tensor:
        raised = (multipliers + self.lam * values).relu()
        return (raised.square() - multipliers.square()) / (2 * self.lam)

    @torch.no_grad()
    def raise_multipliers_(self, logits: Tensor) -> None:
        """Update every multiplier by the violation of its constraint."""
        _, _, phi_con, ties = self.terms(logits)
        self.of_goal.copy_((self.of_goal + self.lam * phi_con).relu())
        raised = self.of_rows + self.lam * ties
        self.of_rows.copy_(raised if self.form == "equality" else raised.relu())


@dataclass(frozen=True)
class Augmented(Lifted):
    """Minimise the augmented Lagrangian in theta, s and t; then raise the multipliers.

    The parameters are those of :class:`setpoint.training.Lifted`. s continues from subproblem to
    subproblem, because its multipliers belong to its present values.
    """

    start_s: Literal["labels", "random"] = "random"

    def prepare(self, problem: Problem, module: nn.Module) -> AugmentedRun:
        """Start a run; raise SetpointError if the form is not exact for the goal."""
        return AugmentedRun(self, problem, module)


class AugmentedRun(LiftedRun):
    """A run of the augmented Lagrangian."""

    penalty: AugmentedLagrangian
    _penalty = AugmentedLagrangian

    def advance(self, iteration: int) -> Progress:
        """Solve the subproblem approximately, then raise the multipliers."""
        progress = super().advance(iteration)
        self.penalty.raise_multipliers_(scores_of(self.module, self.problem.X) - self._origin)
        return progress

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the multipliers."""
        penalty = self.penalty
        return {**super().state_dict(), "of_goal": penalty.of_goal, "of_rows": penalty.of_rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        super().load_state_dict(state)
        self.penalty.of_goal.copy_(state["of_goal"])
        self.penalty.of_rows.copy_(state["of_rows"])
