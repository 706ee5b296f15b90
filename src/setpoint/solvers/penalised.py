"""The threshold of a model that may still break the goal: violations cost, but are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from setpoint._sweep import ClassScores, best_cut
from setpoint.goals import Goal
from setpoint.metrics import Counts
from setpoint.operating_point import OperatingPoint, threshold_below
from setpoint.solvers.problem import Problem


@dataclass(frozen=True)
class Penalised:
    """The goal as a sweep sees it, with  gain - strength * violation  in place of both."""

    goal: Goal
    strength: float

    @property
    def is_monotone(self) -> bool:
        """As the goal is."""
        return self.goal.is_monotone

    def gain(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the gain less the penalty."""
        at = (tp, fp, P, N)
        return self.goal.gain(*at) - self.strength * self.goal.violation(*at)

    def violation(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return zero: nothing is forbidden."""
        return 0.0 * self.goal.violation(tp, fp, P, N)


def penalised_point(problem: Problem, logits: Tensor, strength: float) -> OperatingPoint:
    """Return what logits do at the threshold that is best by this rule."""
    ranking = Penalised(problem.goal, strength)
    if problem.swept_on_device(logits):
        return problem.swept(logits[None], ranking)[0]
    scores, y = logits.cpu().numpy(), problem.positive.cpu().numpy()
    weight = problem.sample_weight.double().cpu().numpy()
    given = None if (weight == 1).all() else weight
    above, below = (ClassScores(scores, given, own) for own in (y, ~y))
    cut = best_cut(above, below, ranking)
    return OperatingPoint(
        threshold_below(cut.lowest_positive, above.sorted, below.sorted),
        cut.tp,
        cut.fp,
        above.total - cut.tp,
        below.total - cut.fp,
        problem.goal,
        problem.on,
    )
