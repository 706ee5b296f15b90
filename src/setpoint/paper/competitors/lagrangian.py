"""The Lagrangian game on smoothed rates, in the manner of TFCO (Cotter et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from setpoint.goals.goal import only_fractions
from setpoint.training.candidates import TrainedModel
from setpoint.training.gpu import Recorded
from setpoint.training.loop import Progress
from setpoint.training.models import logits_of, scores_of
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Lagrangian:
    """Play  min over theta, max over mu  of  -phi_obj + sum_j mu_j phi_con_j / P.

    theta sees rates in which a smooth proxy stands for the decision, and moves by Adagrad. What
    mu sees is the difference between the two formulations:

    - ``"lagrangian"``: the same proxies; mu >= 0 moves by Adagrad too.
    - ``"proxy_lagrangian"``: the true counts. (1, mu) is then the stationary distribution of a
      stochastic matrix, scaled, and the matrix is updated multiplicatively, so that mu has low swap
      regret (their Algorithm 2).

    Parameters
    ----------
    formulation : {"proxy_lagrangian", "lagrangian"}
        See above.
    proxy : {"sigmoid", "hinge"}
        What stands for 1{z > 0}: sigmoid(z), or hinges that bound it, from below on positives and
        from above on negatives. Bounds may leave [0, 1], where a quotient of counts means nothing:
        the hinge takes the objective's slopes at the true counts.
    lr : float
        Adagrad's learning rate of theta.
    dual_scale : float
        The multipliers' learning rate in units of that.
    outer_iterations, inner_iterations : int
        Looks at the operating point, and steps between two of them.
    threshold : {"exact", "fixed"}
        Whether iterates are judged at their exact threshold or at the logit 0.
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
                raise ValueError(f"{name} is one of {known}, not {getattr(self, name)!r}.")
        if not self.lr > 0 or not self.dual_scale > 0:
            raise ValueError("lr and dual_scale must be positive.")
        if self.outer_iterations < 0 or self.inner_iterations < 1:
            raise ValueError("outer_iterations must be >= 0 and inner_iterations >= 1.")

    def prepare(self, problem: Problem, module: nn.Module) -> LagrangianRun:
        """Return a run; any goal will do."""
        return LagrangianRun(self, problem, module)


class Game(NamedTuple):
    """The Lagrangian, its slopes in the proxies' TP and FP, and what the dual player sees."""

    value: Tensor
    slopes: Tensor
    seen: Tensor


class LagrangianRun:
    """Both players at work."""

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
        """Leave the model as it was initialised."""
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Do ``inner_iterations`` steps of both players."""
        self.module.train()
        for _ in range(self.solver.inner_iterations):
            self._step(self._play)
        return self._progress()

    def _play(self) -> Tensor:
        self._optimizer.zero_grad()
        logits = logits_of(self.module, self.problem.X)
        proxies = self._proxies(logits)
        game = self._look(logits, proxies)
        price_tp, price_fp = game.slopes.to(proxies.dtype)
        prices = torch.where(self.problem.positive, price_tp, price_fp)
        (proxies * prices * self.problem.sample_weight).sum().backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.dual.follow(game.seen)
        return game.value

    @torch.no_grad()
    def _look(self, logits: Tensor, proxies: Tensor) -> Game:
        """Return where the game stands, without waiting for the device."""
        goal = self.problem.goal
        decided = (logits > 0).to(proxies.dtype)
        counts: Any = (torch.stack([proxies, decided]) @ self._classes).double()
        if not self._fractions:
            counts = counts.cpu().numpy()
        smooth, true = ((tp, fp, self._P, self._N) for tp, fp in counts)
        worth, prices = self.dual.weights
        # A hinge's counts may be negative, where a quotient of them means nothing.
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
        return torch.as_tensor(value, dtype=torch.float64, device=self.dual.device)

    def _vector(self, values: list[Any]) -> Tensor:
        if not values:
            return torch.zeros(0, dtype=torch.float64, device=self.dual.device)
        return torch.stack([self._tensor(value) for value in values])

    def _proxies(self, logits: Tensor) -> Tensor:
        if self.solver.proxy == "sigmoid":
            return torch.sigmoid(logits)
        return torch.where(self.problem.positive, 1 - relu(1 - logits), relu(1 + logits))

    def _progress(self) -> Progress:
        """Return the largest multiplier and the Lagrangian, as theta sees it."""
        logits = scores_of(self.module, self.problem.X)
        worth, prices = self.dual.weights
        value = self._look(logits, self._proxies(logits)).value
        largest = float(prices.max() / worth) if len(prices) else 0.0
        return Progress(largest, float(value))

    def models(self) -> list[TrainedModel]:
        """Return the model at its threshold."""
        threshold = 0.0 if self.solver.threshold == "fixed" else None
        point = self.problem.judge.operating_point(self.module, threshold)
        return [TrainedModel("the Lagrangian", point, self.module.state_dict())]

    def state_dict(self) -> dict[str, Any]:
        """Return both players' states."""
        return {"optimizer": self._optimizer.state_dict(), "dual": self.dual.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._optimizer.load_state_dict(state["optimizer"])
        for name, value in state["dual"].items():
            self.dual.state[name].copy_(value)


class Ascent:
    """Multipliers >= 0 that climb by Adagrad, the objective's weight being 1."""

    def __init__(self, m: int, rate: float, device: torch.device | None = None) -> None:
        self.rate = rate
        self.state = {
            name: torch.zeros(m, dtype=torch.float64, device=device) for name in ("mu", "squares")
        }

    @property
    def device(self) -> torch.device:
        """Where it plays."""
        return self.state["mu"].device

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """The weights of the objective and of the constraints."""
        mu = self.state["mu"]
        return mu.new_ones(()), mu

    def follow(self, constraints: Tensor) -> None:
        """Climb."""
        mu, squares = self.state["mu"], self.state["squares"]
        squares.addcmul_(constraints, constraints)
        mu.addcdiv_(constraints, (squares + 1e-20).sqrt(), value=self.rate).clamp_(min=0.0)


class SwapRegret:
    """The stationary distribution of a stochastic matrix over objective and constraints.

    M <- M * exp(rate * (0, c) weights^T), with columns scaled to 1.
    """

    def __init__(self, m: int, rate: float, device: torch.device | None = None) -> None:
        self.rate = rate
        even = torch.full((m + 1, m + 1), 1 / (m + 1), dtype=torch.float64, device=device)
        self.state = {"M": even}

    @property
    def device(self) -> torch.device:
        """Where it plays."""
        return self.state["M"].device

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """The weights of the objective and of the constraints; they add up to 1."""
        x = stationary(self.state["M"])
        x = (x / x.sum()).clamp(min=1e-12)
        x = x / x.sum()
        return x[0], x[1:]

    def follow(self, constraints: Tensor) -> None:
        """Update the matrix by what the constraints are missed by."""
        M = self.state["M"]
        worth, prices = self.weights
        gain = torch.outer(
            torch.cat([constraints.new_zeros(1), constraints]), torch.cat([worth[None], prices])
        )
        raised = M.clamp(min=1e-12) * (self.rate * gain).clamp(-50, 50).exp()
        M.copy_(raised / raised.sum(dim=0))


def stationary(M: Tensor) -> Tensor:
    """Return x > 0 with M x = x and x_0 = 1, of a matrix with positive columns that add up to 1.

    Grassmann, Taksar and Heyman's elimination: it subtracts nothing, so that no state is too rare
    for it, and asks for no factorisation, which would wait for the device.
    """
    leave = M.T.clone()  # from a row's state to a column's
    n = len(leave)
    for k in range(n - 1, 0, -1):
        leave[:k, k] /= leave[k, :k].sum()
        if k > 1:
            leave[:k, :k] += torch.outer(leave[:k, k], leave[k, :k])
    x = [M.new_ones(())]
    for k in range(1, n):
        x.append(torch.stack(x) @ leave[:k, k])
    return torch.stack(x)
