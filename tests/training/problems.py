"""Small problems for the solvers' tests."""

import numpy as np
import torch

from setpoint import Goal
from setpoint.goals.columns import GoalColumns
from setpoint.training import make_problem

TALLIED = [
    "min cost(fp=5, fn=amount)",
    "min cost(tp=5, fp=5, fn=amount) s.t. recall >= 0.6",
    "max recall[amount] s.t. precision >= 0.5",
    "max recall s.t. precision >= 0.5 for each region",
    "max recall s.t. cost(fp=5, fn=amount) <= 3",
    "max recall s.t. alarms <= 6 per day",
]


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


def crossed(goal, n=1000, seed=0):
    """Half of the positives are easy, half pull the other way, to where many negatives are."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.15
    X = rng.normal(size=(n, 4))
    easy = y & (rng.random(n) < 0.5)
    X[easy, 0] += 3.0
    X[y & ~easy, :2] += [-1.0, 1.0]
    X[~y & (rng.random(n) < 0.1), 1] += 5.0
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


def columns_of(goal, n, seed=0, days=10):
    """Return amounts with heavy tails, three regions of different sizes, and days."""
    rng = np.random.default_rng(seed)
    return GoalColumns.of(
        Goal.parse(goal),
        n,
        amounts={"amount": rng.lognormal(3, 1, n)},
        segments={"region": rng.choice(["north", "south", "east"], n, p=[0.6, 0.3, 0.1])},
        times=rng.integers(0, days, n),
    )


def tallied(goal, n=400, seed=0, dtype=torch.float64, weights=False, days=10):
    """The overlapping Gaussians, with the columns that a goal names."""
    plain = overlapping("max f1", n=n, seed=seed, dtype=dtype, weights=weights)
    columns = columns_of(goal, n, seed, days)
    return make_problem(plain.X, plain.positive, goal, plain.sample_weight, columns=columns)
