"""Logistic regression by Newton's method, for rows that lie on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

MOST_FEATURES = 4096  # the Hessian of more would not pay
_MOST_STEPS = 60
_CLOSE_ENOUGH = 1e-10  # of the objective: what a further step could gain
_MOST_NUMBERS = 2**27  # of the rows that are multiplied at a time, 1 GiB


def newton_logistic(
    X: Tensor, positive: Tensor, weight: Tensor, ridge: float, start: Tensor
) -> Tensor:
    """Minimise  sum_i w_i log(1 + exp(-y_i z_i)) + ridge/2 |theta|^2,  z = X theta + b.

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Features; the work is done in double precision.
    positive, weight : Tensor of shape (n,)
        Labels and weights.
    ridge : float
        Its strength, 1/C of scikit-learn; not on b.
    start : Tensor of float64, shape (d + 1,)
        Where to start: theta, then b.

    Returns
    -------
    Tensor of float64, shape (d + 1,)
    """
    weight = weight.double()
    sign = torch.where(positive, 1.0, -1.0).to(weight)
    strength = torch.full_like(start, ridge)
    strength[-1] = 0.0
    theta = start.clone()
    z = _logits(X, theta)
    value = _objective(z, sign, weight, theta, strength)
    for _ in range(_MOST_STEPS):
        p = torch.sigmoid(z)
        pull = weight * (p - positive.to(p))
        gradient = strength * theta
        hessian = torch.diag(strength)
        _add_rows(X, pull, weight * p * (1 - p), gradient, hessian)
        step = _solve(hessian, gradient)
        gain = float(gradient @ step)
        if not gain > _CLOSE_ENOUGH * value:
            break
        # Far from the minimum a whole step may overshoot.
        length = 1.0
        along = _logits(X, step)
        while True:
            tried = _objective(z - length * along, sign, weight, theta - length * step, strength)
            if tried <= value - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        if not tried < value:
            break
        theta, z, value = theta - length * step, z - length * along, tried
    return theta


def _parts(X: Tensor) -> list[slice]:
    rows = max(_MOST_NUMBERS // (X.shape[1] + 1), 1)
    return [slice(i, i + rows) for i in range(0, len(X), rows)]


def _with_ones(X: Tensor) -> Tensor:
    return torch.cat([X.double(), X.new_ones(len(X), 1, dtype=torch.float64)], dim=1)


def _logits(X: Tensor, theta: Tensor) -> Tensor:
    return torch.cat([_with_ones(X[part]) @ theta for part in _parts(X)])


def _objective(z: Tensor, sign: Tensor, weight: Tensor, theta: Tensor, strength: Tensor) -> float:
    return float(weight @ softplus(-sign * z) + (strength * theta * theta).sum() / 2)


def _add_rows(
    X: Tensor, pull: Tensor, curvature: Tensor, gradient: Tensor, hessian: Tensor
) -> None:
    for part in _parts(X):
        rows = _with_ones(X[part])
        gradient += pull[part] @ rows
        hessian += rows.T @ (rows * curvature[part, None])


def _solve(hessian: Tensor, gradient: Tensor) -> Tensor:
    """Return H^-1 g; what keeps H from being positive definite is a little more of a ridge."""
    more = 0.0
    size = float(hessian.diagonal().mean())
    while True:
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if not failed:
            return torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        more = max(10 * more, 1e-12 * size, 1e-12)
        hessian = hessian + more * torch.eye(len(hessian)).to(hessian)
