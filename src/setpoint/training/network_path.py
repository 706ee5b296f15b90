"""Cost-weighted cross-entropy for modules that are not linear: several copies, trained at once.

Each copy minimises

    sum_i c_i w_i log(1 + exp(-v_i)) / sum_i w_i  +  ridge / (2 sum_i w_i) |theta|^2

where v_i is the logit signed by the class, c_i = ((P + N) / 2 / the sum of its class)^balance, and
the ridge does not include biases. All copies see the same batches; see
:mod:`setpoint.training.at_once`. They differ in where they end: goal training starts from the
best of them, and cost-weighted ones are rivals of their own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from setpoint.goals.metrics import format_number
from setpoint.training.bundle import FEW, ModuleBundle, make_bundle
from setpoint.training.candidates import TrainedModel
from setpoint.training.gpu import Recorded, adam, set_rate
from setpoint.training.problem import Problem

NETWORK_RIDGES = (100.0, 1.0)
_BATCH = 2048
_RATE = 3e-3  # Adam's first learning rate, which falls to zero on a cosine
_LEAST_STEPS = 50  # between two evaluations; at least an epoch
_EVALUATIONS = 10


class NetworkColumn(NamedTuple):
    """One copy of the path: how far classes are balanced, and its ridge."""

    balance: float
    ridge: float

    @property
    def name(self) -> str:
        """How its models are called among the candidates, but for the iteration."""
        balance = f"balance {format_number(self.balance)}, " if self.balance else ""
        return f"ordinary, {balance}ridge {format_number(self.ridge)}, "


_COLUMNS = [*(NetworkColumn(0.0, ridge) for ridge in NETWORK_RIDGES), NetworkColumn(0.5, 1.0)]
_LONG_COLUMNS = [NetworkColumn(0.0, 1.0), *(NetworkColumn(b, 0.0) for b in (0.0, 0.5, 1.0))]
_LONGER = 5  # times as many epochs, where the training objective is worth it


def cross_entropy_models(
    problems: Sequence[Problem],
    module: nn.Module,
    take: str | None = None,
    *,
    thorough: bool = False,
) -> list[list[list[TrainedModel]]]:
    """Return each problem's models by kind: plain, beginning with the given module, and weighted.

    Every copy is returned as it is after each tenth of its training, the strongest ridge first. The
    parameters are those of :func:`setpoint.training.cost_path.cost_weighted_models`, for a module
    that is not linear and is left as it is.
    """
    columns = _LONG_COLUMNS if thorough else _COLUMNS
    if take is not None:
        columns = [column for column in columns if column.name in take] or columns
    given = copy.deepcopy(module.state_dict())
    kinds: list[list[list[TrainedModel]]] = [
        [[TrainedModel("as given", problem.evaluation.operating_point(module), given)], []]
        for problem in problems
    ]
    training = _Training(problems[0], module, columns, _LONGER if thorough else 1)
    for i in range(1, _EVALUATIONS + 1):
        training.advance()
        scores = training.bundle.scores(problems[0].evaluation.X)
        diverged = scores.isnan().any(dim=1).tolist()
        states = [copy.deepcopy(training.bundle.weights(k)) for k in range(len(columns))]
        for own, problem in zip(kinds, problems, strict=True):
            points = problem.evaluation.points_of(scores.nan_to_num(nan=0.0))
            for k, column in enumerate(columns):
                name = f"{column.name}{i} of {_EVALUATIONS}"
                if not diverged[k]:
                    own[column.balance > 0].append(TrainedModel(name, points[k], states[k]))
    return [[kind for kind in own if kind] for own in kinds]


class _Training:
    """Copies of a module on shared batches."""

    def __init__(
        self, problem: Problem, module: nn.Module, columns: Sequence[NetworkColumn], longer: int
    ) -> None:
        X, positive, weight = problem.X, problem.positive, problem.sample_weight
        start = copy.deepcopy(module.state_dict())
        bundle = make_bundle(module, [start] * len(columns), X[:FEW])
        assert isinstance(bundle, ModuleBundle)
        self.bundle, self._X = bundle, X
        P, N = float(weight[positive].sum()), float(weight[~positive].sum())
        like = bundle.origins
        costs = [
            [((P + N) / 2 / of_class) ** column.balance for of_class in (P, N)]
            for column in columns
        ]
        by_class = like.new_tensor(costs).T[:, :, None]  # (2, copies, 1)
        share = (weight / weight.sum() * len(X)).to(like)
        # The slope of the loss in a logit is -share * sigmoid(-v) * sign, divided by the rows.
        self._share = torch.where(positive, by_class[0], by_class[1]) * share
        self._sign = torch.where(positive, 1.0, -1.0).to(like)
        self._ridges = [column.ridge / (P + N) for column in columns]
        self._batches = math.ceil(len(X) / _BATCH)
        self._steps = longer * max(_LEAST_STEPS, self._batches)
        self._step = 0
        groups: list[dict[str, Any]] = [{"params": bundle.parameters[:-1], "lr": _RATE}]
        self._optimizer = adam(groups, like.device)
        size = len(X) // self._batches
        # A recorded step reads its rows from the same memory every time.
        self._rows = torch.zeros(size, dtype=torch.int64, device=X.device)
        self._recorded = Recorded(X.device)

    def advance(self) -> None:
        """Train for a tenth of the steps."""
        n, size, device = len(self._X), len(self._rows), self._X.device
        total = _EVALUATIONS * self._steps
        for k in range(self._steps):
            if k % self._batches == 0:
                order = torch.randperm(n, device=device)
            first = k % self._batches * size
            self._rows.copy_(order[first : first + size])
            decay = (1 + math.cos(math.pi * self._step / total)) / 2
            set_rate(self._optimizer.param_groups[0], _RATE * decay)
            self._recorded(self._one_step)
            self._step += 1

    def _one_step(self) -> Tensor:
        sign, bundle = self._sign[self._rows], self.bundle
        logits = bundle.logits(bundle.prepare(self._X[self._rows]))
        slopes = torch.sigmoid(-logits * sign) * self._share[:, self._rows]
        bundle.backward(slopes.mul_(sign).mul_(-1 / len(sign)))
        bundle.add_ridge(self._ridges)
        self._optimizer.step()
        return slopes
