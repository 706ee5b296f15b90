"""Exact line search on the counts of a linear model.

Along w + tau * u the decision on row i, (w + tau * u).x_i > t, changes at one tau at most, so one
sort of these gives the counts on every interval between them, and with it the best tau for any
goal. This is the threshold sweep in any direction of the weights; no gradient and no surrogate.
At the end of a training such searches improve the best linear models of a bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint, choose_threshold
from setpoint.thresholds.sweep import sort_keys
from setpoint.training.bundle import LinearBundle
from setpoint.training.problem import Problem

Floats = NDArray[np.float64]
_ROUNDS_OF_A_TRY = 10
_PERTURBATIONS = (0.1, 2.0)  # relative to the weights


def best_steps(
    margins: Floats,
    directions: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
) -> tuple[Floats, Floats]:
    """Return for each direction the best step and its sort key.

    Parameters
    ----------
    margins : ndarray of shape (n,)
        Scores above the threshold.
    directions : ndarray of shape (n, m)
        How the scores change with a unit step in each of m directions.
    positive, weight : ndarray of shape (n,)
        Labels and weights.
    goal : Goal
        What to improve.

    Returns
    -------
    steps : ndarray of shape (m,)
        The middle of the best interval.
    ranks : ndarray of shape (m, 4)
        Its sort keys: -violation, gain, TP and -FP.
    """
    m = directions.shape[1]
    P, N = float(weight[positive].sum()), float(weight[~positive].sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        change = -margins[:, None] / directions
    still = directions == 0
    change[still] = np.inf
    order = np.argsort(change, axis=0)
    at = np.take_along_axis(change, order, axis=0)
    # Far to the left, tau = -inf, rows with a falling score are positive; each change flips one.
    falling = (directions < 0) | (still & (margins > 0)[:, None])
    flips = np.where(still, 0.0, np.where(directions > 0, 1.0, -1.0)) * weight[:, None]
    flips = np.take_along_axis(flips, order, axis=0)
    of_positive = positive[order]
    tp, fp = (
        np.concatenate([start[None], start + np.cumsum(np.where(own, flips, 0.0), axis=0)])
        for start, own in (
            ((weight * positive) @ falling, of_positive),
            ((weight * ~positive) @ falling, ~of_positive),
        )
    )
    tp, fp = _snapped(tp, P), _snapped(fp, N)
    edges = np.concatenate([np.full((1, m), -np.inf), at, np.full((1, m), np.inf)])
    keys = _ranks(tp, fp, P, N, goal)
    keys[edges[1:] <= edges[:-1]] = -np.inf  # there is no tau between equal changes
    steps, ranks = np.empty(m), np.empty((m, 4))
    for k in range(m):
        best = np.lexsort(keys[:, k, ::-1].T)[-1]
        steps[k], ranks[k] = _middle(edges[best, k], edges[best + 1, k]), keys[best, k]
    return steps, ranks


def _snapped(counts: Floats, total: float) -> Floats:
    """Undo the rounding of sums of weights at 0 and the total, where metrics are special cases."""
    counts = np.where(counts < 1e-12 * total, 0.0, counts)
    return np.where(counts > (1 - 1e-12) * total, total, counts)


def _ranks(tp: Any, fp: Any, P: float, N: float, goal: Goal) -> Floats:
    """Return the sort keys along a last axis."""
    with np.errstate(all="ignore"):
        return np.stack(sort_keys(goal, tp, fp, P, N), axis=-1)


def _middle(low: float, high: float) -> float:
    if np.isfinite(low) and np.isfinite(high):
        return low / 2 + high / 2
    if np.isfinite(low):
        return low + max(1.0, abs(low))
    return high - max(1.0, abs(high)) if np.isfinite(high) else 0.0


def polish(
    w: Floats,
    threshold: float,
    X: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
    rng: np.random.Generator,
    rounds: int,
    directions: int,
) -> Floats:
    """Return weights that are at least as good: the best of some directions, again and again.

    The directions of a round are the axes, random ones, and the threshold's, in which all scores
    rise. Of equally good steps one is drawn at random. Steps that neither gain nor lose are taken
    too: they lead along a plateau.
    """
    n, d = X.shape
    P, N = float(weight[positive].sum()), float(weight[~positive].sum())

    def reached(w: Floats, threshold: float) -> tuple[float, ...]:
        alarm = X @ w > threshold
        tp, fp = weight[alarm & positive].sum(), weight[alarm & ~positive].sum()
        return tuple(_ranks(tp, fp, P, N, goal))

    scale = np.abs(X).mean(axis=0) + 1e-12
    best = reached(w, threshold)
    for _ in range(rounds):
        U = np.column_stack([np.eye(d), rng.normal(size=(d, directions))]) / scale[:, None]
        steps, ranks = best_steps(
            X @ w - threshold, np.column_stack([X @ U, np.ones(n)]), positive, weight, goal
        )
        k = max(rng.permutation(len(steps)), key=lambda k: tuple(ranks[k]))
        new_w, new_threshold = w, threshold
        if k < U.shape[1]:
            new_w = w + steps[k] * U[:, k]
        else:
            new_threshold = threshold - steps[k]
        # Rounding can separate changes that coincide: only what is really reached counts.
        if (rank := reached(new_w, new_threshold)) >= best:
            w, threshold, best = new_w, new_threshold, rank
    return w


def explore(
    w: Floats,
    X: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
    rng: np.random.Generator,
    rounds: int,
    directions: int,
) -> Floats:
    """Return weights that are at least as good, by perturbing the best ones and polishing again.

    Line searches end where no single direction gains. A perturbation, small or large, leads to
    another such end; the best one is kept and perturbed again until the rounds are used up.
    """

    def best_threshold(w: Floats) -> OperatingPoint:
        return choose_threshold(positive, X @ w, goal, sample_weight=weight)

    best, length = best_threshold(w).sort_key, float(np.linalg.norm(w))
    for _ in range(rounds // _ROUNDS_OF_A_TRY):
        size = np.exp(rng.uniform(*np.log(_PERTURBATIONS))) * length / len(w) ** 0.5
        new = w + size * rng.normal(size=len(w))
        threshold = best_threshold(new).threshold
        new = polish(new, threshold, X, positive, weight, goal, rng, _ROUNDS_OF_A_TRY, directions)
        new *= length / max(float(np.linalg.norm(new)), 1e-300)  # only its direction matters
        if (rank := best_threshold(new).sort_key) >= best:
            w, best = new, rank
    return w


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
    """Improve the best models in place; return whether the effort allowed it.

    Parameters
    ----------
    problem : Problem
        The training rows.
    bundle : LinearBundle
        The models.
    points : sequence of OperatingPoint
        Of each model.
    alive : sequence of int
        The models that have not diverged.
    effort : int
        How many changed decisions may be considered.
    seed : int
        Of the directions.
    """
    n, d = problem.X.shape
    rounds = effort // (n * (d + _RANDOM_DIRECTIONS + 1))  # of so many decisions each
    ranks = [p.sort_key for p in points]
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
    """Set model k to these weights if they are as good when rounded; return its sort key."""
    matrix = bundle.matrix
    rounded = torch.from_numpy(found).to(matrix)
    old, new = (
        problem.point_of(problem.X @ w.to(problem.X)).sort_key for w in (matrix[k], rounded)
    )
    if new >= old:
        matrix[k] = rounded
    return max(old, new)
