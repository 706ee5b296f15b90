"""The end of a training: exact line searches settle the best linear models of a bundle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.operating_point import OperatingPoint
from setpoint.solvers.bundle import LinearBundle
from setpoint.solvers.candidates import standing
from setpoint.solvers.line_search import explore, polish
from setpoint.solvers.problem import Problem

_RANDOM_DIRECTIONS = 16
_FEWEST_ROUNDS, _MOST_ROUNDS = 10, 30


def search_lines(
    problem: Problem,
    bundle: LinearBundle,
    points: Sequence[OperatingPoint],
    alive: Sequence[int],
    effort: int,
    seed: int,
) -> bool:
    """Improve the best models in place, and return whether the effort allowed it.

    Parameters
    ----------
    problem : Problem
        Whose rows judge.
    bundle : LinearBundle
        The models.
    points : sequence of OperatingPoint
        What each of them does.
    alive : sequence of int
        Those that train for this problem's goal and have not diverged.
    effort : int
        How many changed decisions may be considered.
    seed : int
        Of the directions.
    """
    n, d = problem.X.shape
    rounds = effort // (n * (d + _RANDOM_DIRECTIONS + 1))  # one considers so many
    ranks = [standing(p) for p in points]
    models = min(len(alive), rounds // _FEWEST_ROUNDS)
    if models == 0:
        return False
    X = problem.X.double().cpu().numpy()
    labels = problem.positive.cpu().numpy(), problem.sample_weight.double().cpu().numpy()
    each = min(rounds // models, _MOST_ROUNDS)
    rng = np.random.default_rng(seed)
    for k in sorted(alive, key=ranks.__getitem__, reverse=True)[:models]:
        w, threshold = _in_double(bundle, k), points[k].threshold
        found = polish(w, threshold, X, *labels, problem.goal, rng, each, _RANDOM_DIRECTIONS)
        ranks[k] = _take_over(problem, bundle, k, found)
    best = max(alive, key=ranks.__getitem__)
    left = rounds - models * each
    w = _in_double(bundle, best)
    found = explore(w, X, *labels, problem.goal, rng, left, _RANDOM_DIRECTIONS)
    _take_over(problem, bundle, best, found)
    return True


def _in_double(bundle: LinearBundle, k: int) -> NDArray[np.float64]:
    return np.asarray(bundle.matrix[k].double().cpu().numpy())


def _take_over(
    problem: Problem, bundle: LinearBundle, k: int, found: NDArray[np.float64]
) -> tuple[float, ...]:
    """Give model k these weights if they are as good when rounded; return how good it is."""
    matrix = bundle.matrix
    rounded = torch.from_numpy(found).to(matrix)
    old, new = (
        standing(problem.point_of(problem.X @ w.to(problem.X))) for w in (matrix[k], rounded)
    )
    if new >= old:
        matrix[k] = rounded
    return max(old, new)
