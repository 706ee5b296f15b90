"""Small problems for the solvers' tests."""

import numpy as np
import torch

from setpoint.training import make_problem


def overlapping(goal, n=300, d=3, share=0.2, seed=0, dtype=torch.float64, weights=False):
    """Two Gaussians a little more than one deviation apart: no threshold is perfect."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    X = rng.normal(size=(n, d)) + 1.2 * y[:, None] * np.array([1.0] + [0.3] * (d - 1))
    w = torch.tensor(rng.integers(1, 4, n)) if weights else None
    return make_problem(torch.tensor(X, dtype=dtype), torch.tensor(y), goal, w)


def misled(goal, n=400, seed=0):
    """A linear problem where a quarter of the positives is hopeless and misleads cross-entropy."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.25
    X = rng.normal(size=(n, 2)) * 0.5
    X[y, 0] += 1.5
    X[y & (rng.random(n) < 0.25), 0] -= 4.0
    return make_problem(torch.tensor(X), torch.tensor(y), goal)


def two_kinds(goal, n=600, seed=0):
    """Half of the positives lie apart on one axis, half far out on another among the negatives."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.2
    X = rng.normal(size=(n, 2)) * [1.0, 3.0]
    apart = y & (rng.random(n) < 0.5)
    X[apart] = rng.normal(size=(apart.sum(), 2)) * [0.6, 1.0] + [2.6, 0.0]
    X[y & ~apart] += [-1.5, 5.0]
    return make_problem(torch.tensor(X), torch.tensor(y), goal)
