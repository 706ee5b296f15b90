"""Steps of Adam on the exact penalty with the lifted variables eliminated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setpoint.goals.goal import Goal
from setpoint.method.capped_loss import capped_loss, capped_slope, prices
from setpoint.training.bundle import make_bundle
from setpoint.training.gpu.recorded import adam, set_rate
from setpoint.training.models import is_linear

Columns = NDArray[np.float64]


class Constants(Protocol):
    """What a solver says of its steps."""

    @property
    def lam0(self) -> float:
        """First lambda."""
        ...

    @property
    def lam_max(self) -> float:
        """Last lambda."""
        ...

    @property
    def gamma(self) -> float:
        """Strength of the regulariser psi."""
        ...

    @property
    def dual_rate(self) -> Any:
        """Step size of the multipliers, a number by now."""
        ...


class Batch(NamedTuple):
    """Rows of a step.

    Attributes
    ----------
    X : Tensor
        Features, as the bundle prepared them.
    sign : Tensor of shape (m,)
        +1 for positives, -1 for negatives.
    signed_share : Tensor of shape (m,)
        sign * weight / P.
    classes : Tensor of shape (2, m)
        1 where a row is positive, and where it is negative.
    """

    X: Tensor
    sign: Tensor
    signed_share: Tensor
    classes: Tensor


class Counts(NamedTuple):
    """What k models do: TP and FP."""

    tp: Columns
    fp: Columns


class Descent:
    """k models that descend together.

    lambda grows geometrically from step to step, and the learning rate falls to zero on a cosine.

    Parameters
    ----------
    constants : Constants
        Of the solver.
    goals : sequence of Goal
        What each model trains for.
    totals : tuple of float
        P and N.
    module : nn.Module
        Whose copies are trained.
    starts : list of dict
        A state dict for each model.
    nearness : list of float
        How strongly each is held near its start.
    lr : float
        Adam's first learning rate.
    steps : int
        Of the whole run.
    """

    def __init__(
        self,
        constants: Constants,
        goals: Sequence[Goal],
        totals: tuple[float, float],
        module: nn.Module,
        starts: list[dict[str, Any]],
        nearness: list[float],
        lr: float,
        steps: int,
    ) -> None:
        self.constants, self.goals, self.lr, self.steps = constants, goals, lr, max(steps, 1)
        self._models_by_goal = list(_runs_of_equals(goals))
        self.P, self.N = totals
        self.bundle = make_bundle(module, starts)
        self.step_count = 0
        self._nearness = list(nearness)
        # A goal with fewer constraints than another leaves the last rows as they are.
        most = max(len(goal.constraints) for goal in goals)
        self.multipliers = np.ones((most, len(starts)))
        groups = [{"params": self.bundle.parameters, "lr": lr}]
        self._optimizer = adam(groups, self.bundle.origins.device)

    @property
    def elapsed(self) -> float:
        """The share of all steps that is done."""
        return self.step_count / self.steps

    @property
    def lam(self) -> float:
        """Lambda as it is now."""
        growth = self.constants.lam_max / self.constants.lam0
        return float(self.constants.lam0 * growth**self.elapsed)

    def batch(self, X: Tensor, sign: Tensor, weight: Tensor) -> Batch:
        """Return rows as a step wants them."""
        like = self.bundle.origins
        classes = torch.stack([sign > 0, sign < 0]).to(like)
        share = (sign * weight / self.P).to(like)
        return Batch(self.bundle.prepare(X), sign.to(like), share, classes)

    def margins(self, batch: Batch) -> Tensor:
        """Return how far each model is on the right side of each row, shape (k, m)."""
        return self.bundle.logits(batch.X).mul_(batch.sign)

    def push(self, batch: Batch, margins: Tensor, counts: Counts) -> None:
        """Set the gradients of the loss on these rows, at the prices of these counts."""
        price = self.prices(counts) @ batch.classes
        slopes = capped_slope(margins, price, self.lam, self.constants.gamma)
        self.bundle.backward(slopes.mul_(batch.signed_share))

    def step(self) -> None:
        """Take a step along the gradients."""
        rate = self.lr * (1 + math.cos(math.pi * self.elapsed)) / 2
        set_rate(self._optimizer.param_groups[0], rate)
        self.along_gradients()
        self.step_count += 1

    def along_gradients(self) -> None:
        """Move the models, at the learning rate as it stands."""
        self.bundle.hold_near(self._nearness)
        self._optimizer.step()

    @property
    def rate(self) -> Tensor:
        """The learning rate, where it is a tensor: on a GPU."""
        rate = self._optimizer.param_groups[0]["lr"]
        assert isinstance(rate, Tensor)
        return rate

    @property
    def gamma(self) -> float:
        """Strength of the regulariser psi."""
        return self.constants.gamma

    def follow(self, counts: Counts) -> None:
        """Let the multipliers follow the violations."""
        for goal, own in self._models_by_goal:
            tp, fp = counts.tp[own], counts.fp[own]
            for j, constraint in enumerate(goal.constraints):
                with np.errstate(all="ignore"):
                    missed = np.nan_to_num(constraint.shortfall(tp, fp, self.P, self.N))
                push = self.constants.dual_rate * np.clip(5 * missed, -1, 1)
                self.multipliers[j, own] *= np.exp(push)
        np.clip(self.multipliers, 1e-3, 1e3, out=self.multipliers)

    def prices(self, counts: Counts) -> Tensor:
        """Return the price of a positive and of a negative, shape (k, 2)."""
        of_each = np.empty((len(self.goals), 2))
        for goal, own in self._models_by_goal:
            held = self.multipliers[: len(goal.constraints), own]
            worth_and_cost = prices(goal, counts.tp[own], counts.fp[own], self.P, self.N, held)
            of_each[own] = np.stack(worth_and_cost, axis=1)
        return torch.from_numpy(of_each).to(self.bundle.origins)

    def losses(self, margins: Tensor, classes: Tensor, share: Tensor, counts: Counts) -> Tensor:
        """Return each model's loss on rows with these margins."""
        losses = capped_loss(margins, self.prices(counts) @ classes, self.lam, self.constants.gamma)
        return losses @ share.to(losses)

    def state_dict(self) -> dict[str, Any]:
        """Return the bundle, Adam's moments and the multipliers."""
        return {
            "nearness": self._nearness,
            "bundle": self.bundle.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "multipliers": torch.from_numpy(self.multipliers),
            "step_count": self.step_count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._nearness = state["nearness"]
        self.bundle.load_state_dict(state["bundle"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.multipliers = state["multipliers"].numpy()
        self.step_count = state["step_count"]


def _runs_of_equals(goals: Sequence[Goal]) -> Iterator[tuple[Goal, slice]]:
    """Yield each goal with the models that have it; equals follow one another."""
    begin = 0
    for goal, own in groupby(goals):
        end = begin + len(list(own))
        yield goal, slice(begin, end)
        begin = end


def usual_rate(module: nn.Module, n_features: int) -> float:
    """Return a learning rate; Adam moves every weight by it, so a logit by as much per feature."""
    return 0.1 * min(1.0, 100 / n_features) if is_linear(module) else 2e-3
