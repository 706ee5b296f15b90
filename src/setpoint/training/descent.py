"""Steps of Adam on the capped loss: the exact penalty with the lifted variables eliminated.

In every step, for each of k models,

1. TP and FP are counted at the current decisions,
2. the multipliers of the goal's constraints follow their violations,
3. counts and multipliers give the price of a positive and of a negative,
4. the slope of the capped loss at these prices goes back through the model, and Adam steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setpoint.goals.goal import Goal
from setpoint.method.capped_loss import capped_loss, capped_slope, prices
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.at_once import split_moments, stack_moments
from setpoint.training.bundle import LinearBundle, StackedBundle, make_bundle
from setpoint.training.gpu import adam, set_rate
from setpoint.training.models import is_linear
from setpoint.training.working_set import WorkingSet

if TYPE_CHECKING:
    from setpoint.training.projected import Projected
    from setpoint.training.stochastic import Stochastic

Columns = NDArray[np.float64]

SENSITIVITY = 5.0  # a constraint missed by 1/5 or more moves its multiplier by the full step
MULTIPLIER_LIMITS = 1e-3, 1e3  # beyond them a constraint counts for nothing, or for everything


class Batch(NamedTuple):
    """Rows of a step.

    Attributes
    ----------
    X : Tensor
        Features, as the bundle prepared them.
    sign : Tensor of shape (m,)
        +1 for positives, -1 for negatives.
    signed_weight : Tensor of shape (m,)
        sign * weight / P.
    classes : Tensor of shape (2, m)
        1 where a row is positive, and where it is negative. With t tallies, shape (2 t, m): what
        it counts in each of them if it is positive, then if it is negative.
    """

    X: Tensor
    sign: Tensor
    signed_weight: Tensor
    classes: Tensor


class Counts(NamedTuple):
    """TP and FP of k models, shape (k,); with t tallies, shape (t, k)."""

    tp: Columns
    fp: Columns

    @classmethod
    def of_points(cls, points: Sequence[OperatingPoint]) -> Counts:
        """Return the counts of operating points, one for each model."""
        tp, fp = ([point.goal_counts[i] for point in points] for i in (0, 1))
        return cls(np.array(tp, dtype=np.float64).T, np.array(fp, dtype=np.float64).T)


def classes_of(positive: Tensor, like: Tensor, factors: Tensor | None = None) -> Tensor:
    """Return the ``classes`` of a batch for rows with these labels and factors."""
    classes = torch.stack([positive, ~positive]).to(like)
    if factors is None:
        return classes
    return (classes[:, None, :] * factors.T.to(like)).flatten(0, 1)


def multiplier_step(
    multipliers: Columns, goal: Goal, counts: Counts, P: Any, N: Any, dual_rate: float
) -> None:
    """Raise the multipliers (constraints, k) of violated constraints, lower the others, in place.

        mu_j <- mu_j exp(dual_rate * clip(SENSITIVITY * shortfall_j, -1, 1))

    ``_prices_kernel`` in ``gpu/kernels.py`` has the same rule for steps on a GPU; change both.
    """
    for multiplier, constraint in zip(multipliers, goal.constraints, strict=True):
        with np.errstate(all="ignore"):
            missed = np.nan_to_num(goal.shortfall_of(constraint, *counts, P, N))
        multiplier *= np.exp(dual_rate * np.clip(SENSITIVITY * missed, -1, 1))
    np.clip(multipliers, *MULTIPLIER_LIMITS, out=multipliers)


class Descent:
    """k models that descend together for one goal.

    lambda grows geometrically from step to step, and the learning rate falls to zero on a cosine.

    Parameters
    ----------
    goal : Goal
        What the models train for.
    solver : Projected or Stochastic
        With a number as its ``dual_rate``.
    totals : tuple
        P and N, arrays for a goal of several tallies.
    module : nn.Module
        Whose copies are trained.
    starts : list of dict
        A state dict for each model.
    proximity : list of float
        How strongly each model is regularised towards its start.
    gamma : list of float
        Strength of each model's regulariser psi.
    lr : float
        Adam's first learning rate.
    steps : int
        Of the whole run.
    rows : Tensor, optional
        A few rows; see :func:`setpoint.training.bundle.make_bundle`.
    """

    def __init__(
        self,
        goal: Goal,
        solver: Projected | Stochastic,
        totals: tuple[Any, Any],
        module: nn.Module,
        starts: list[dict[str, Any]],
        proximity: Sequence[float],
        gamma: Sequence[float],
        lr: float,
        steps: int,
        rows: Tensor | None = None,
    ) -> None:
        self.goal, self.solver, self.lr, self.steps = goal, solver, lr, max(steps, 1)
        assert solver.dual_rate is not None
        assert solver.lam0 is not None
        assert solver.lam_max is not None
        self.dual_rate = solver.dual_rate
        self.lam0, self.lam_max = solver.lam0, solver.lam_max
        self.P, self.N = totals
        self.bundle = make_bundle(module, starts, rows)
        self.step_count = 0
        self.multipliers = np.ones((len(goal.constraints), len(starts)))
        self.proximity = list(proximity)
        self._set_gamma(list(gamma))
        self._adam_states: list[dict[str, Any]] = []
        if not self.steps_without_optimizer:
            self._optimizer = self._new_optimizer()  # now: a graph of steps cannot record it

    @property
    def steps_without_optimizer(self) -> bool:
        """Whether :mod:`setpoint.training.linear_steps` takes the steps: linear ones on a CPU."""
        return isinstance(self.bundle, LinearBundle) and not self.bundle.origins.is_cuda

    @cached_property
    def _optimizer(self) -> torch.optim.Adam:
        # On first use: for an optimizer torch imports its compiler, which takes a second.
        return self._new_optimizer()

    def _new_optimizer(self) -> torch.optim.Adam:
        groups = [{"params": self.bundle.parameters, "lr": self.lr}]
        return adam(groups, self.bundle.origins.device)

    @property
    def parts(self) -> Sequence[tuple[Goal, slice]]:
        """The goals and the models of each, which follow one another in the bundle."""
        return [(self.goal, slice(0, len(self.bundle.origins)))]

    @property
    def goals(self) -> list[Goal]:
        """The goal of each model."""
        return [goal for goal, own in self.parts for _ in range(own.start, own.stop)]

    def _set_gamma(self, gamma: list[float]) -> None:
        self._gamma = gamma
        self.gamma = self.bundle.origins.new_tensor(gamma)[:, None]  # shape (k, 1)
        same = len(set(gamma)) == 1
        self.factor: Tensor | float = gamma[0] if same else self.gamma  # a number is faster

    @property
    def elapsed(self) -> float:
        """The fraction of all steps that is done."""
        return self.step_count / self.steps

    @property
    def lam(self) -> float:
        """The current lambda."""
        return float(self.lam0 * (self.lam_max / self.lam0) ** self.elapsed)

    @property
    def next_rate(self) -> float:
        """The learning rate of the next step."""
        return self.lr * (1 + math.cos(math.pi * self.elapsed)) / 2

    def adam_states(self) -> list[dict[str, Any]]:
        """Return Adam's state of each of the bundle's parameters, as torch names its parts."""
        if not self._adam_states:
            self._adam_states = [
                {"step": torch.zeros(()), "exp_avg": zero, "exp_avg_sq": zero.clone()}
                for zero in map(torch.zeros_like, self.bundle.parameters)
            ]
        return self._adam_states

    def batch(
        self, X: Tensor, sign: Tensor, weight: Tensor, factors: Tensor | None = None
    ) -> Batch:
        """Return rows in the form that a step needs.

        ``factors`` is what they count in each of several tallies, shape (m, tallies).
        """
        like = self.bundle.origins
        classes = classes_of(sign > 0, like, factors)
        signed = (sign * weight / float(self.goal.plain(self.P))).to(like)
        return Batch(self.bundle.prepare(X), sign.to(like), signed, classes)

    def margins(self, batch: Batch) -> Tensor:
        """Return v = sign * logit, shape (k, m): positive where a decision is right."""
        return self.bundle.logits(batch.X).mul_(batch.sign)

    def update_multipliers(self, counts: Counts) -> None:
        """Update the multipliers of all models at these counts; see :func:`multiplier_step`."""
        multiplier_step(self.multipliers, self.goal, counts, self.P, self.N, self.dual_rate)

    def prices(self, counts: Counts) -> Tensor:
        """Return the price of a positive and of a negative for each model, shape (k, 2).

        With t tallies, the shape is (k, 2 t): the prices of positives in each, then of negatives.
        """
        return self._tensor(prices(self.goal, *counts, self.P, self.N, self.multipliers))

    def _tensor(self, worth_and_cost: tuple[Columns, Columns]) -> Tensor:
        if worth_and_cost[0].ndim == 2:
            return torch.from_numpy(np.concatenate(worth_and_cost).T).to(self.bundle.origins)
        return torch.from_numpy(np.stack(worth_and_cost, axis=1)).to(self.bundle.origins)

    def row_prices(self, counts: Counts, classes: Tensor) -> Tensor:
        """Return the price of each row for each model, shape (k, m)."""
        found = self.prices(counts) @ classes
        # The sum over tallies may be negative where a right decision costs more than a wrong one.
        return found if self.goal.is_plain else found.clamp_(min=0.0)

    def push(self, batch: Batch, margins: Tensor, counts: Counts) -> None:
        """Set the gradients of the loss on these rows, at the prices of these counts."""
        price = self.row_prices(counts, batch.classes)
        slopes = capped_slope(margins, price, self.lam, self.factor)
        self.bundle.backward(slopes.mul_(batch.signed_weight))

    def step(self) -> None:
        """Take a step along the gradients."""
        set_rate(self._optimizer.param_groups[0], self.next_rate)
        self.along_gradients()
        self.step_count += 1

    def along_gradients(self) -> None:
        """Move the models at the current learning rate."""
        self.bundle.pull_to_start(self.proximity)
        self._optimizer.step()

    @property
    def rate(self) -> Tensor:
        """The learning rate where it is a tensor: on a GPU."""
        rate = self._optimizer.param_groups[0]["lr"]
        assert isinstance(rate, Tensor)
        return rate

    def losses(self, margins: Tensor, classes: Tensor, weight: Tensor, counts: Counts) -> Tensor:
        """Return each model's loss on rows with these margins; ``weight`` is in units of P."""
        losses = capped_loss(margins, self.row_prices(counts, classes), self.lam, self.factor)
        return losses @ weight.to(losses)

    def state_dict(self) -> dict[str, Any]:
        """Return the bundle, Adam's moments and the multipliers."""
        if self._adam_states:
            self._optimizer.state.update(
                zip(self.bundle.parameters, self._adam_states, strict=True)
            )
        optimizer = self._optimizer.state_dict()
        if isinstance(self.bundle, StackedBundle):
            optimizer = split_moments(optimizer, len(self.bundle.origins))
        return {
            "nearness": self.proximity,  # its name in the files of earlier versions
            "gamma": self._gamma,
            "bundle": self.bundle.state_dict(),
            "optimizer": optimizer,
            "multipliers": torch.from_numpy(self.multipliers),
            "step_count": self.step_count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self.proximity = state["nearness"]
        self._set_gamma(state["gamma"])
        self.bundle.load_state_dict(state["bundle"])
        optimizer = state["optimizer"]
        if isinstance(self.bundle, StackedBundle):
            optimizer = stack_moments(optimizer, len(self.bundle.origins))
        self._optimizer.load_state_dict(optimizer)
        if self.steps_without_optimizer:
            states = [self._optimizer.state[p] for p in self.bundle.parameters]
            self._adam_states = states if all(states) else []  # before the first step: none
        self.multipliers = state["multipliers"].numpy()
        self.step_count = state["step_count"]


class WorkingCounts:
    """TP and FP on all rows during steps on a working set.

    Decisions on rows outside of it are taken as fixed, so that

        TP = least_tp + right positives,   FP = most_fp - right negatives

    where the right ones are those of the working set that are counted.

    Parameters
    ----------
    descent : Descent
        The models.
    batch : Batch
        The rows of the working set.
    chosen : WorkingSet
        The working set.
    at : Counts
        On all rows, before the first step.
    """

    def __init__(self, descent: Descent, batch: Batch, chosen: WorkingSet, at: Counts) -> None:
        self.weight = chosen.counted
        self._counted = (batch.classes * chosen.counted.to(batch.classes)).T.contiguous()
        if chosen.whole:
            N = np.asarray(descent.N)
            self.least_tp = np.zeros_like(at.tp)
            self.most_fp = self.least_tp + (N[:, None] if N.ndim else N)
        else:
            tp, tn = _by_class(self._right(descent.margins(batch)))
            self.least_tp, self.most_fp = at.tp - tp, at.fp + tn

    def __call__(self, margins: Tensor) -> Counts:
        """Return the counts at these margins."""
        return self.at(self._right(margins))

    def at(self, right: Columns) -> Counts:
        """Return the counts where this weight of positives and of negatives (k, 2) is right.

        With t tallies, the shape is (k, 2 t).
        """
        tp, tn = _by_class(right)
        return Counts(self.least_tp + tp, self.most_fp - tn)

    def _right(self, margins: Tensor) -> Columns:
        """Return the weight of the positives and of the negatives that each model has right."""
        right = margins.sign().relu_() @ self._counted
        return np.asarray(right.double().cpu().numpy())


def _by_class(right: Columns) -> tuple[Columns, Columns]:
    """Return the weights of right positives and of right negatives, shape (k,) or (tallies, k)."""
    if right.shape[1] == 2:
        return right[:, 0], right[:, 1]
    tallies = right.shape[1] // 2
    return right[:, :tallies].T, right[:, tallies:].T


def take_steps(descent: Descent, batch: Batch, counts: WorkingCounts, steps: int) -> None:
    """Take steps on a working set."""
    for _ in range(steps):
        margins = descent.margins(batch)
        now = counts(margins)
        descent.update_multipliers(now)
        descent.push(batch, margins, now)
        descent.step()


def usual_rate(module: nn.Module, n_features: int, linear: float = 0.1) -> float:
    """Return a learning rate; Adam moves every weight by it, so a logit by as much per feature."""
    return linear * min(1.0, 100 / n_features) if is_linear(module) else 2e-3
