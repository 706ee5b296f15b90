"""A training problem: rows, labels, weights and the goal."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setpoint._internal.devices import start_gradients
from setpoint._internal.renamed import renamed_property
from setpoint._internal.threads import map_in_threads
from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal, only_fractions
from setpoint.goals.linear_fraction import Counts
from setpoint.goals.tallies import PLAIN
from setpoint.thresholds.caution import Cautious, cautious, row_weights_of
from setpoint.thresholds.checks import check_classes
from setpoint.thresholds.choose import best_point, point_at
from setpoint.thresholds.halves import Halves
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import Ranking
from setpoint.thresholds.tallied import TalliedRows
from setpoint.training.gpu import exact_points
from setpoint.training.models import scores_of

_LEAST_PRICE = 1e-3  # of a row, relative to the mean: with no weight at all it would not count
_MOST_TALLIES = 128  # whose counts every step of a training updates
_ROWS_FOR_THREADS = 2**15  # a threshold of so many takes longer than handing it to a thread


@dataclass(frozen=True)
class Problem:
    """What a solver is given.

    Attributes
    ----------
    X : Tensor of shape (n, d)
        Features.
    positive : Tensor of bool, shape (n,)
        Labels.
    sample_weight : Tensor of shape (n,)
        Weights > 0 of the counts.
    goal : Goal
        What to train for.
    validation : Problem or None
        Validation rows, on which iterates are compared. None: the training rows.
    on : str
        What to call these rows in messages.
    caution : float
        What it is worth that constraints hold on other rows, at thresholds on these.
    factors : Tensor of shape (n, tallies) or None
        What a row counts in each of the goal's tallies, relative to its weight; None if the goal
        counts all rows alike.
    """

    X: Tensor
    positive: Tensor
    sample_weight: Tensor
    goal: Goal
    validation: Problem | None = None
    on: str = "the training rows"
    caution: float = 0.0
    factors: Tensor | None = None

    def __post_init__(self) -> None:
        start_gradients(self.X.device)

    @property
    def has_validation(self) -> bool:
        """Whether models are compared on validation rows instead of the training rows."""
        return self.validation is not None

    judged_apart = renamed_property("judged_apart", "has_validation")

    @property
    def evaluation(self) -> Problem:
        """The problem on whose rows models are compared: the validation or the training rows."""
        return self if self.validation is None else self.validation

    judge = renamed_property("judge", "evaluation")

    @property
    def evaluation_goal(self) -> Goal:
        """The goal on those rows; it may be bound to other segments and periods."""
        return self.evaluation.goal

    def for_goal(self, goal: Goal) -> Problem:
        """Return the same rows with another goal, one that counts all rows alike."""
        validation = None if self.validation is None else self.validation.for_goal(goal)
        return replace(self, goal=goal, validation=validation)

    @cached_property
    def ranking(self) -> Goal | Cautious:
        """The ranking of cuts on these rows: the goal, or the goal with caution."""
        positive, weight = self.positive.cpu().numpy(), self.sample_weight.cpu().numpy()
        row_weights = row_weights_of(positive, weight, self._host_factors)
        return cautious(self.goal, self.caution, row_weights)

    @cached_property
    def totals(self) -> tuple[Any, Any]:
        """P and N: numbers, or arrays with an entry for each of the goal's tallies."""
        weight, positive = self.sample_weight, self.positive
        if self.factors is None:
            return float(weight[positive].sum()), float(weight[~positive].sum())
        tallied = (self.factors * weight[:, None]).double()
        P, N = (tallied[own].sum(dim=0).cpu().numpy() for own in (positive, ~positive))
        return P, N

    def row_prices(self) -> Tensor | None:
        """Return what a right decision on each row is worth to the objective, 1 on average.

        None unless rows have prices of their own: the objective is linear in amounts, such as a
        cost. A row on which the right decision costs more than the wrong one has nearly none.
        """
        objective, (P, N) = self.goal.objective, self.totals
        if self.factors is None or objective.is_bounded or objective.fraction is None:
            return None
        nothing = 0.0 * P[:, None]
        with np.errstate(all="ignore"):
            at = self.goal.counts_of(objective, nothing, nothing, P, N)
            slopes = [objective.sign * objective.d_tp(*at), -objective.sign * objective.d_fp(*at)]
        places = [self.goal.tallies.index(tally) for tally in objective.tallies]
        if len(places) == 1:
            return None  # the same for all rows of a class
        factors = self.factors[:, places].double()
        worth, cost = (
            factors @ torch.from_numpy(np.asarray(slope).reshape(len(places))).to(factors)
            for slope in slopes
        )
        price = torch.where(self.positive, worth, cost).clamp_(min=0.0)
        mean = float(price.mean())
        return None if not mean > 0 else (price / mean).clamp_(min=_LEAST_PRICE)

    @cached_property
    def _host_factors(self) -> NDArray[np.floating] | None:
        return None if self.factors is None else np.asarray(self.factors.cpu().numpy())

    @cached_property
    def _tallied(self) -> TalliedRows | None:
        """These rows in the goal's tallies, if there are several."""
        if self._host_factors is None:
            return None
        weights = self.sample_weight.cpu().numpy()
        weight = None if np.all(weights == 1) else weights.astype(np.float64)
        return TalliedRows.of_factors(self.positive.cpu().numpy(), weight, self._host_factors)

    def operating_point(self, module: nn.Module, threshold: float | None = None) -> OperatingPoint:
        """Return the module's operating point at a threshold of its logits; None: the exact one."""
        return self.point_of(scores_of(module, self.X), threshold)

    def point_of(self, logits: Tensor, threshold: float | None = None) -> OperatingPoint:
        """Return the operating point of logits (n,) at a threshold; None: at the exact one."""
        if threshold is None:
            return self.points_of(logits[None])[0]
        scores, y, weight = self._on_host(_at_least_float32(logits))
        if self._tallied is not None:
            counts = self._tallied.counts(scores.astype(np.float64, copy=False) > threshold)
            at = (*counts, *self._tallied.totals())
            return self._ranked(OperatingPoint.of_counts(threshold, *at, self.goal, self.on))
        alarm = scores.astype(np.float64, copy=False) > threshold
        found = point_at(y, alarm, weight, GoalColumns(), self.goal, threshold, self.on)
        return self._ranked(found)

    def points_of(self, logits: Tensor, penalty: float | None = None) -> list[OperatingPoint]:
        """Return the operating point of each model, logits (k, n), at its exact threshold.

        With a ``penalty`` lambda the constraints may be violated: the threshold maximises
        gain - lambda * violation.
        """
        logits = _at_least_float32(logits)
        if not len(logits):
            return []
        ranking = self.ranking if penalty is None else Penalised(self.goal, penalty)
        found = exact_points(self, logits, ranking)
        if found is None and logits.shape[1] < _ROWS_FOR_THREADS:
            found = [self._best_point(own, ranking) for own in logits]
        elif found is None:
            found = map_in_threads(partial(self._best_point, ranking=ranking), logits)
        return [self._ranked(point) for point in found]

    def _ranked(self, point: OperatingPoint) -> OperatingPoint:
        """Return the point, to be compared with others on these rows."""
        own = self.ranking
        return replace(point, ranking=own) if isinstance(own, Cautious) else point

    def _best_point(self, logits: Tensor, ranking: Ranking) -> OperatingPoint:
        scores, y, weight = self._on_host(logits)
        check_classes(bool(y.any()), not y.all(), weighted=weight is not None)
        weight = None if weight is None else weight.astype(np.float64)
        return best_point(y, scores, weight, ranking, self.goal, self.on, self._tallied)

    @cached_property
    def halves(self) -> Halves | None:
        """Random halves of these rows, on which models are compared; None with too few rows.

        Nor are there any for a budget per period, which halves of a period would not use up.
        """
        if self.goal.periods:
            return None
        y, weight = self.positive.cpu().numpy(), self.sample_weight.cpu().numpy()
        if min(y.sum(), len(y) - y.sum()) < 2:
            return None
        return Halves(y, None if np.all(weight == 1) else weight, self._host_factors)

    def average_gain(self, module: nn.Module, weights: dict[str, Any]) -> float:
        """Return the gain of a module with these weights, averaged over the halves.

        The module's own weights are put back, for a run may go on with them.
        """
        assert self.halves is not None
        own = {
            name: value.clone() if isinstance(value, Tensor) else copy.deepcopy(value)
            for name, value in module.state_dict().items()  # deepcopy is slow for tensors
        }
        module.load_state_dict(weights)
        scores = _at_least_float32(scores_of(module, self.X))
        module.load_state_dict(own)
        return self.halves.average(scores.cpu().numpy(), self.ranking)

    def _on_host(self, logits: Tensor) -> tuple[Any, Any, Any]:
        """Return scores, labels and weights (None where all are 1) as arrays."""
        scores = logits.cpu().numpy()
        if np.isnan(scores).any():
            raise DivergedError("the model's scores are not numbers; try a lower learning rate.")
        weights = self.sample_weight.cpu().numpy()
        return scores, self.positive.cpu().numpy(), None if np.all(weights == 1) else weights

    @cached_property
    def is_unweighted_fraction(self) -> bool:
        """Whether all weights are 1, both classes are there, and all metrics are quotients."""
        both = bool(self.positive.any()) and not bool(self.positive.all())
        return both and bool((self.sample_weight == 1).all()) and only_fractions(self.goal)

    def fingerprint(self) -> str:
        """Return a digest of data and goal, which identifies the problem in a checkpoint."""
        return fingerprint_of(self.goal, self._bytes())

    def _bytes(self) -> Iterator[Any]:
        if self.caution:
            yield f"caution {self.caution}".encode()
        parts = (self.X, self.positive, self.sample_weight, self.factors)
        for part in (part for part in parts if part is not None):
            kind = str(part.dtype).removeprefix("torch.")
            yield f"{tuple(part.shape)}{kind}".encode()
            # As bytes: numpy does not know bfloat16.
            yield part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        if self.validation is not None:
            yield self.validation.fingerprint().encode()


def fingerprint_of(goal: Goal, data: Iterable[Any]) -> str:
    """Return a digest of a goal and of bytes."""
    digest = hashlib.sha256(str(goal).encode())
    tp, fp = np.meshgrid(np.arange(4.0), np.arange(6.0))
    for metric in goal.metrics:  # a custom metric may have been redefined under its name
        if metric.tallies == (PLAIN,):
            digest.update(np.asarray(metric.value(tp, fp, 3.0, 5.0), dtype=float).tobytes())
        else:
            digest.update(metric.name.encode())
    for part in data:
        digest.update(part)
    return digest.hexdigest()


def _at_least_float32(logits: Tensor) -> Tensor:
    """Return logits in a precision that numpy knows."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def make_problem(
    X: Tensor,
    positive: Tensor,
    goal: str | Goal,
    sample_weight: Tensor | None = None,
    *,
    validation: Problem | None = None,
    on: str = "the training rows",
    caution: float = 0.0,
    columns: GoalColumns | None = None,
    factors: Tensor | None = None,
) -> Problem:
    """Return a problem, with unit weights where none are given.

    ``columns`` hold what the goal names besides plain counts: amounts, segments and periods. The
    goal is bound to the segments and periods of these rows. For a goal that is bound already,
    ``factors`` (n, tallies) say what the rows count.
    """
    if sample_weight is None:
        sample_weight = torch.ones(len(X), device=X.device)
    # Features may be integers or in half precision; sums of weights must not be.
    dtype = torch.float64 if X.dtype == torch.float64 else torch.float32
    weight = sample_weight.to(dtype)
    goal = Goal.parse(goal)
    if columns is not None:
        goal = columns.bind(goal, positive.cpu().numpy())
    if factors is not None:
        factors = factors.to(X.device, dtype)
    elif not (goal.is_plain and goal.is_bound):
        if columns is None:
            raise SetpointError(f"the goal '{goal}' names columns, which training must be given.")
        if len(goal.tallies) > _MOST_TALLIES:
            raise SetpointError(
                f"the goal '{goal}' speaks of {len(goal.tallies) - 1} segments and periods of the "
                f"rows; training supports at most {_MOST_TALLIES - 1}. Use longer periods or fewer "
                "segments, or SetpointThreshold, which has no such limit."
            )
        factors = torch.from_numpy(columns.factors(goal.tallies).T.copy()).to(X.device, dtype)
    return Problem(X, positive, weight, goal, validation, on, caution, factors)


@dataclass(frozen=True)
class Penalised:
    """A ranking of cuts in which violations cost but are allowed: gain - strength * violation.

    It sets the threshold of a model that may violate the goal while it trains.
    """

    goal: Goal
    strength: float

    @property
    def is_monotone(self) -> bool:
        """Whether the goal is monotone."""
        return self.goal.is_monotone

    def plain(self, counts: Counts) -> Any:
        """Return the counts of all rows alike."""
        return self.goal.plain(counts)

    def gain(self, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return the gain less the penalty."""
        at = (tp, fp, P, N)
        return self.goal.gain(*at) - self.strength * self.goal.violation(*at)

    def violation(self, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return zero: every cut is allowed."""
        return 0.0 * self.goal.violation(tp, fp, P, N)
