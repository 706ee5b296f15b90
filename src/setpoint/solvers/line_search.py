"""Exact line search on the counts of a linear model.

Along w + tau * u the decision on row i, (w + tau * u).x_i > t, changes at one tau at most, so one
sort of these gives the counts on every interval between them, and with it the best tau for any
goal. This is the threshold sweep in any direction of the weights; no gradient and no surrogate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setpoint.goals import Goal

Floats = NDArray[np.float64]


def best_steps(
    margins: Floats,
    directions: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
) -> tuple[Floats, Floats]:
    """Return for each direction the best step and what it gives.

    Parameters
    ----------
    margins : ndarray of shape (n,)
        Scores above the threshold.
    directions : ndarray of shape (n, m)
        How the scores change with a unit step in each of m directions.
    positive, weight : ndarray of shape (n,)
        Labels and weights.
    goal : Goal
        What is best.

    Returns
    -------
    steps : ndarray of shape (m,)
        The middle of the best interval.
    ranks : ndarray of shape (m, 4)
        -violation, gain, TP and -FP there: the greater, the better, from left to right.
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
    edges = np.concatenate([np.full((1, m), -np.inf), at, np.full((1, m), np.inf)])
    with np.errstate(all="ignore"):
        violation, gain = goal.violation(tp, fp, P, N), goal.gain(tp, fp, P, N)
    keys = np.stack([-violation, gain, tp, -fp], axis=-1)
    keys[edges[1:] <= edges[:-1]] = -np.inf  # no tau lies between equal changes
    steps, ranks = np.empty(m), np.empty((m, 4))
    for k in range(m):
        best = np.lexsort(keys[:, k, ::-1].T)[-1]
        steps[k], ranks[k] = _middle(edges[best, k], edges[best + 1, k]), keys[best, k]
    return steps, ranks


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

    The directions of a round are the axes, random ones, and that in which all scores rise, which
    is the threshold's. Steps that change nothing for better or worse are taken too: they lead
    along a plateau.
    """
    n, d = X.shape
    scale = np.abs(X).mean(axis=0) + 1e-12
    best: tuple[float, ...] | None = None
    for _ in range(rounds):
        U = np.column_stack([np.eye(d) / scale, rng.normal(size=(d, directions)) / scale[:, None]])
        steps, ranks = best_steps(
            X @ w - threshold, np.column_stack([X @ U, np.ones(n)]), positive, weight, goal
        )
        k = max(range(len(steps)), key=lambda k: tuple(ranks[k]))
        if best is not None and tuple(ranks[k]) < best:
            continue
        best = tuple(ranks[k])
        if k < U.shape[1]:
            w = w + steps[k] * U[:, k]
        else:
            threshold -= steps[k]
    return w
