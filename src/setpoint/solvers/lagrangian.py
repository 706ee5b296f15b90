"""The Lagrangian game on smoothed rates, in the manner of TFCO (Cotter et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import relu

from setpoint import reformulation
from setpoint.models import logits_of, scores_of
from setpoint.solvers.base import Progress
from setpoint.solvers.candidates import Contender
from setpoint.solvers.problem import Problem


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

    value: float
    slopes: tuple[float, float]
    seen: NDArray[np.float64]


class LagrangianRun:
    """Both players at work."""

    def __init__(self, solver: Lagrangian, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        weight, positive = problem.sample_weight, problem.positive
        self._P, self._N = float(weight[positive].sum()), float(weight[~positive].sum())
        self._optimizer = torch.optim.Adagrad(module.parameters(), lr=solver.lr)
        rate, m = solver.dual_scale * solver.lr, len(problem.goal.constraints)
        self.dual: Ascent | SwapRegret
        self.dual = Ascent(m, rate) if solver.formulation == "lagrangian" else SwapRegret(m, rate)

    def start(self, take: str | None = None) -> Progress:
        """Leave the model as it was initialised."""
        return self._progress()

    def advance(self, iteration: int) -> Progress:
        """Do ``inner_iterations`` steps of both players."""
        self.module.train()
        for _ in range(self.solver.inner_iterations):
            self._optimizer.zero_grad()
            logits = logits_of(self.module, self.problem.X)
            proxies = self._proxies(logits)
            game = self._look(logits, proxies)
            price_tp, price_fp = (proxies.new_full((), slope) for slope in game.slopes)
            prices = torch.where(self.problem.positive, price_tp, price_fp)
            (proxies * prices * self.problem.sample_weight).sum().backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self.dual.follow(game.seen)
        return self._progress()

    @torch.no_grad()
    def _look(self, logits: Tensor, proxies: Tensor) -> Game:
        """Return where the game stands; one transfer from the device."""
        problem = self.problem
        decided = (logits > 0).to(proxies.dtype)
        counts = [
            *reformulation.lifted_counts(proxies, problem.positive, problem.sample_weight),
            *reformulation.lifted_counts(decided, problem.positive, problem.sample_weight),
        ]
        smooth_tp, smooth_fp, tp, fp = torch.stack(counts).double().cpu().numpy()
        smooth, true = (smooth_tp, smooth_fp, self._P, self._N), (tp, fp, self._P, self._N)
        worth, prices = self.dual.weights
        goal = problem.goal
        # A hinge's counts may be negative, where a quotient of them means nothing.
        at = true if self.solver.proxy == "hinge" else smooth
        with np.errstate(all="ignore"):
            objective = goal.objective
            value = -worth * objective.sign * float(objective.value(*at))
            slopes = -worth * objective.sign * np.array([objective.d_tp(*at), objective.d_fp(*at)])
            for price, constraint in zip(prices, goal.constraints, strict=True):
                value += price * float(constraint.cleared(*smooth)) / self._P
                slopes += price / self._P * np.array(constraint.cleared_slopes(*smooth))
            seen = smooth if self.solver.formulation == "lagrangian" else true
            missed = np.array([c.cleared(*seen) / self._P for c in goal.constraints], dtype=float)
        return Game(value, (float(slopes[0]), float(slopes[1])), np.nan_to_num(missed))

    def _proxies(self, logits: Tensor) -> Tensor:
        if self.solver.proxy == "sigmoid":
            return torch.sigmoid(logits)
        return torch.where(self.problem.positive, 1 - relu(1 - logits), relu(1 + logits))

    def _progress(self) -> Progress:
        """Return the largest multiplier and the Lagrangian, as theta sees it."""
        logits = scores_of(self.module, self.problem.X)
        worth, prices = self.dual.weights
        value = self._look(logits, self._proxies(logits)).value
        return Progress(max(prices, default=0.0) / worth, value)

    def contenders(self) -> list[Contender]:
        """Return the model at its threshold."""
        threshold = 0.0 if self.solver.threshold == "fixed" else None
        point = self.problem.judge.operating_point(self.module, threshold)
        return [Contender("the Lagrangian", point, self.module.state_dict())]

    def state_dict(self) -> dict[str, Any]:
        """Return both players' states."""
        return {
            "optimizer": self._optimizer.state_dict(),
            "dual": {k: torch.from_numpy(v) for k, v in self.dual.state.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._optimizer.load_state_dict(state["optimizer"])
        self.dual.state = {k: v.numpy() for k, v in state["dual"].items()}


class Ascent:
    """Multipliers >= 0 that climb by Adagrad, the objective's weight being 1."""

    def __init__(self, m: int, rate: float) -> None:
        self.rate = rate
        self.state: dict[str, NDArray[np.float64]] = {"mu": np.zeros(m), "squares": np.zeros(m)}

    @property
    def weights(self) -> tuple[float, list[float]]:
        """The weights of the objective and of the constraints."""
        return 1.0, self.state["mu"].tolist()

    def follow(self, constraints: NDArray[np.float64]) -> None:
        """Climb."""
        self.state["squares"] = self.state["squares"] + constraints**2
        step = self.rate * constraints / np.sqrt(self.state["squares"] + 1e-20)
        self.state["mu"] = np.maximum(self.state["mu"] + step, 0.0)


class SwapRegret:
    """The stationary distribution of a stochastic matrix over objective and constraints.

    M <- M * exp(rate * (0, c) weights^T), with columns scaled to 1.
    """

    def __init__(self, m: int, rate: float) -> None:
        self.rate = rate
        self.state: dict[str, NDArray[np.float64]] = {"M": np.full((m + 1, m + 1), 1 / (m + 1))}

    @property
    def weights(self) -> tuple[float, list[float]]:
        """The weights of the objective and of the constraints; they add up to 1."""
        M = self.state["M"]
        # The eigenvector of the eigenvalue 1: (M - 1) x = 0 with sum(x) = 1.
        equations = np.vstack([M - np.eye(len(M)), np.ones(len(M))])
        x = np.linalg.lstsq(equations, np.eye(len(M) + 1)[-1], rcond=None)[0]
        x = np.maximum(x, 1e-12) / np.maximum(x, 1e-12).sum()
        return float(x[0]), x[1:].tolist()

    def follow(self, constraints: NDArray[np.float64]) -> None:
        """Update the matrix by what the constraints are missed by."""
        worth, prices = self.weights
        gain = np.outer(np.concatenate([[0.0], constraints]), [worth, *prices])
        M = np.maximum(self.state["M"], 1e-12) * np.exp(np.clip(self.rate * gain, -50, 50))
        self.state["M"] = M / M.sum(axis=0)
