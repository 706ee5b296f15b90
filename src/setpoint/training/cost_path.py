"""Cost-weighted linear models: ordinary training over a path of class weights, for two losses.

Each model minimises

    sum_i c_i w_i loss(v_i) / sum_i c_i w_i  +  ridge / (2 sum_i w_i) |theta|^2

where v_i is the logit signed by the class, c_i is the weight of a positive for positives and 1 for
negatives, and the loss is logistic, log(1 + exp(-v)), or the hinge, max(0, 1 - v). A strict goal is
met by a model that weighs one class far more than the other; where goal training starts decides
how good such a model it finds.

The models train at once, as the rows of one matrix, by Adam: first on a sample of the rows. Those
that then serve the goal best continue, on the rows near their thresholds or on all rows. Where few
steps must suffice, logistic regressions are fitted by Newton's method instead, unless there are too
many features for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.goals.goal import Goal
from setpoint.goals.metrics import format_number
from setpoint.training.adam import MatrixAdam
from setpoint.training.candidates import TrainedModel, best_of
from setpoint.training.gpu import sizes_for
from setpoint.training.logistic import logistic_regressions
from setpoint.training.models import linear_state
from setpoint.training.problem import Problem
from setpoint.training.working_set import WorkingSet, near, sample

WEIGHTS = tuple(float(f"{10**e:.2g}") for e in np.arange(-3, 3.25, 0.5))  # of a positive
COST_RIDGES = (100.0, 10.0, 1.0, 0.01)
_RATE = 0.2  # Adam's first learning rate; a row's margin must be able to pass 1 in few steps


class _Effort(NamedTuple):
    """How long the models train by Adam.

    First all of them, on a sample; then the best ``kept`` of each loss, on ``samples`` times the
    rows of a sample. Of the hinges, ``every_weight`` keeps the best and the weakest ridge of every
    weight instead, and each trains at two learning rates.
    """

    first_steps: int
    kept: int
    every_weight: bool
    further_steps: int
    further_rate: float
    samples: int


_FOR_SELECTION = _Effort(60, 4, False, 120, _RATE / 2, 2)  # where validation rows select a model
_BRIEF = _Effort(150, 4, False, 150, _RATE / 2, 2)
_MOST_NUMBERS = 2**27  # of the rows on which the best continue
# A hinge at a strict floor improves for thousands of steps, and which weight wins shows late.
_THOROUGH = _Effort(300, 8, True, 2000, _RATE, 16)


class CostColumn(NamedTuple):
    """One model of the path: its loss, the weight of a positive, and its ridge."""

    hinge: bool
    weight: float
    ridge: float

    @property
    def name(self) -> str:
        """How the model is called among the candidates."""
        loss = "hinge" if self.hinge else "logistic regression"
        weight = format_number(self.weight)
        return f"cost-weighted {loss}, weight {weight}, ridge {format_number(self.ridge)}"


def columns_for(
    goals: Sequence[Goal], take: str | None = None, *, fine: bool = True
) -> list[CostColumn]:
    """Return the models of the path, hinges first.

    Not ``fine``: every second weight, no ridge 10, and no regression of weight 1: the plain ones
    are candidates anyway.

    ``take`` names a candidate: return only the model that it is or started from, if any.
    """
    steps = WEIGHTS if fine else WEIGHTS[::2]
    ridges = [ridge for ridge in COST_RIDGES if fine or ridge != 10.0]
    weights = sorted({w for goal in goals for w in steps if _may_need(goal, w)})
    every = [CostColumn(True, w, r) for r in ridges for w in weights]
    every += [CostColumn(False, w, r) for r in ridges for w in weights if fine or w != 1.0]
    if take is None:
        return every
    named = [column for column in every if column.name in take]
    return sorted(named, key=lambda column: len(column.name))[-1:]  # ridge 1 is in ridge 100


def _may_need(goal: Goal, weight: float) -> bool:
    """Return whether a goal may need this weight of a positive.

    If its constraints hold for a model that calls every row positive, and not for one that calls
    none positive, they limit misses and need a high weight; in the opposite case, a low one.
    """
    one, zero = np.ones(len(goal.tallies)), np.zeros(len(goal.tallies))
    if goal.is_plain:
        one, zero = one[0], zero[0]
    with np.errstate(all="ignore"):
        all_alarms = goal.violation(one, one, one, one) == 0
        no_alarms = goal.violation(zero, zero, one, one) == 0
    if all_alarms == no_alarms:
        return 0.05 < weight < 500
    return weight > 0.5 if all_alarms else weight < 50


def cost_weighted_models(
    problems: Sequence[Problem],
    module: nn.Module,
    take: str | None = None,
    *,
    thorough: bool = False,
) -> list[list[list[TrainedModel]]]:
    """Return each problem's best cost-weighted models, by loss, the strongest ridge first.

    Parameters
    ----------
    problems : sequence of Problem
        They differ in their goals only.
    module : nn.Module
        A linear module, which is overwritten.
    take : str, optional
        The only candidate that is wanted.
    thorough : bool
        Whether the training objective is worth many steps, on many rows and for many weights. A
        selection on validation rows needs a good start more than the very best one.
    """
    problem = problems[0]
    effort = _THOROUGH if thorough else _BRIEF
    if not thorough and (problem.has_validation or take is not None):  # taken: as selected
        effort = _FOR_SELECTION
    columns = columns_for([p.goal for p in problems], take, fine=thorough or take is not None)
    if not columns:
        return [[] for _ in problems]
    sizes = sizes_for(problem.X.device)
    theta = problem.X.new_zeros(len(columns), problem.X.shape[1] + 1, dtype=torch.float32)
    by_adam = len(columns)
    if not thorough and problem.X.shape[1] <= sizes.newton_features:
        by_adam = sum(column.hinge for column in columns)
        theta[by_adam:] = _regressions(columns[by_adam:], problem)
    rows = sample(problem.positive, problem.sample_weight, sizes.path_rows)
    _train(theta[:by_adam], columns[:by_adam], problem, rows, effort.first_steps, _RATE)
    kept = [_best_columns(theta, columns, own, effort) for own in problems]
    every = sorted(set().union(*kept))
    further = [i for i in every if i < by_adam]
    size = min(effort.samples * sizes.path_rows, max(_MOST_NUMBERS // theta.shape[1], 2))
    rows = near(problem.positive, problem.sample_weight, _distance(theta[further], problem), size)
    slowly = [i for i in further if effort.every_weight and columns[i].hinge]
    places = slowly + further
    trained = theta[places]
    own = [columns[i] for i in places]
    _train(trained, own, problem, rows, effort.further_steps, effort.further_rate, len(slowly))
    fitted = [i for i in every if i >= by_adam]
    trained, own = torch.cat([trained, theta[fitted]]), own + [columns[i] for i in fitted]
    return [
        _evaluated(trained, own, {columns[i] for i in k}, problem, module)
        for problem, k in zip(problems, kept, strict=True)
    ]


def _regressions(columns: Sequence[CostColumn], problem: Problem) -> Tensor:
    """Return the logistic regressions of these columns, by Newton's method."""
    if not columns:
        return problem.X.new_zeros(0, problem.X.shape[1] + 1, dtype=torch.float32)
    positive, weight = problem.positive, problem.sample_weight.double()
    # Each starts from the one before, so neighbours should be similar.
    order = sorted(range(len(columns)), key=lambda i: (columns[i].weight, -columns[i].ridge))
    costs = weight.new_tensor([[columns[i].weight, 1.0] for i in order])
    totals = torch.stack([weight[positive].sum(), weight[~positive].sum()])
    # There the loss is a sum: the ridge, of a mean here, is scaled by the mean cost.
    ridges = weight.new_tensor([columns[i].ridge for i in order]) * (costs @ totals) / totals.sum()
    found = logistic_regressions(problem.X, positive, weight, costs, ridges)
    fitted = torch.empty_like(found)
    fitted[order] = found
    return fitted.float()


def _evaluated(
    theta: Tensor,
    columns: Sequence[CostColumn],
    chosen: set[CostColumn],
    problem: Problem,
    module: nn.Module,
) -> list[list[TrainedModel]]:
    """Return the chosen models by loss; a loss without any is left out."""
    kinds: list[dict[CostColumn, TrainedModel]] = [{}, {}]
    for column, own in zip(columns, theta, strict=True):
        if column not in chosen:
            continue
        weights = linear_state(module, own[:-1], own[-1:])
        module.load_state_dict(weights)
        found = TrainedModel(column.name, problem.evaluation.operating_point(module), weights)
        kind = kinds[not column.hinge]
        kind[column] = best_of([kind.get(column, found), found])  # of two learning rates
    return [list(kind.values()) for kind in kinds if kind]


def _distance(theta: Tensor, problem: Problem) -> Tensor:
    """Return each row's distance from the nearest threshold of any model."""
    distance = problem.X.new_full((len(problem.X),), torch.inf, dtype=torch.float32)
    for own in theta:
        scores = _scores(own[None], problem.X)
        scores -= problem.points_of(scores)[0].threshold
        torch.minimum(distance, scores[0].abs_().float(), out=distance)
    return distance


@torch.no_grad()
def _train(
    theta: Tensor,
    columns: Sequence[CostColumn],
    problem: Problem,
    rows: WorkingSet,
    steps: int,
    rate: float,
    slow: int = 0,
) -> None:
    """Take steps of Adam in place, on a learning rate that falls to zero on a cosine.

    Hinges are the first columns; the first ``slow`` ones have a quarter of the rate.
    """
    if not columns:
        return
    sign, weight = rows.sign.float(), rows.weight.float()
    X = (problem.X if rows.whole else problem.X[rows.rows]).float()
    signed = torch.cat([X, torch.ones_like(X[:, :1])], dim=1).T * sign  # v = theta @ signed
    hinges = sum(column.hinge for column in columns)
    costs = weight.new_tensor([[column.weight] for column in columns])
    share = torch.where(sign > 0, costs, 1.0) * weight
    share = share.div_(-share.sum(dim=1, keepdim=True))  # of a row in the loss, negated
    ridge = theta.new_tensor([[column.ridge] for column in columns]) / weight.sum()
    ridge = ridge.repeat(1, theta.shape[1])
    ridge[:, -1] = 0.0
    parts = [(slice(slow, None), rate)]
    if slow:
        parts.append((slice(slow), rate / 4))
    optimizers = [(MatrixAdam(theta[own]), own, first) for own, first in parts]
    slopes, gradient = torch.empty_like(share), torch.empty_like(theta)
    for step in range(steps):
        torch.mm(theta, signed, out=slopes)
        slopes[:hinges].lt_(1.0)
        slopes[hinges:].neg_().sigmoid_()
        torch.addmm(ridge * theta, slopes.mul_(share), signed.T, out=gradient)
        decay = (1 + math.cos(math.pi * step / steps)) / 2
        for optimizer, own, first in optimizers:
            optimizer.step(gradient[own], first * decay)


def _best_columns(
    theta: Tensor, columns: Sequence[CostColumn], problem: Problem, effort: _Effort
) -> list[int]:
    """Return the indices of the best models of each loss, in their order.

    The validation rows decide. Without any, all training rows do: in a sample, a negative that
    represents many would decide on a strict floor.
    """
    on = problem.evaluation
    points = [on.points_of(_scores(own[None], on.X))[0] for own in theta]
    kept: list[int] = []
    for hinge in (True, False):
        own = [
            i
            for i, column in enumerate(columns)
            if column.hinge is hinge and _may_need(problem.goal, column.weight)
        ]
        own.sort(key=lambda i: points[i].sort_key, reverse=True)
        if hinge and effort.every_weight:
            best = {columns[i].weight: i for i in reversed(own)}
            weakest = [i for i in own if columns[i].ridge == COST_RIDGES[-1]]
            kept += {*best.values(), *weakest}
        else:
            kept += own[: effort.kept]
    return sorted(kept)


def _scores(theta: Tensor, X: Tensor) -> Tensor:
    """Return logits without the bias, which the threshold replaces; zero where they diverged."""
    dtype = torch.float64 if X.dtype == torch.float64 else torch.float32
    return (theta[:, :-1].to(dtype) @ X.to(dtype).T).nan_to_num_(nan=0.0)
