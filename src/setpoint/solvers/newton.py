"""Logistic regression by Newton's method, for rows that lie on a GPU or are very many."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import softplus

MOST_FEATURES = 4096  # the Hessian of more would not pay
_MOST_STEPS = 60
_CLOSE_ENOUGH = 1e-10  # of the objective: what a further step could gain
_MOST_NUMBERS = {"cuda": 2**27, "cpu": 2**18}  # of a block, in double precision


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
    rows = _Rows(X, positive, weight)
    strength = torch.full_like(start, ridge)
    strength[-1] = 0.0
    theta = start.clone()
    value = rows.loss(theta) + _ridge(theta, strength)
    for _ in range(_MOST_STEPS):
        gradient, hessian = rows.slopes(theta)
        gradient += strength * theta
        hessian += torch.diag(strength)
        step = _solve(hessian, gradient)
        gain = float(gradient @ step)
        if not gain > _CLOSE_ENOUGH * value:
            break
        # Far from the minimum a whole step may overshoot.
        length = 1.0
        while True:
            further = theta - length * step
            tried = rows.loss(further) + _ridge(further, strength)
            if tried <= value - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        if not tried < value:
            break
        theta, value = further, tried
    return theta


def _ridge(theta: Tensor, strength: Tensor) -> float:
    return float((strength * theta * theta).sum() / 2)


class _Rows:
    """Rows that are gone through in blocks; nothing is kept of them."""

    def __init__(self, X: Tensor, positive: Tensor, weight: Tensor) -> None:
        self._X, self._positive, self._weight = X, positive, weight
        self._size = max(_MOST_NUMBERS[X.device.type] // (X.shape[1] + 1), 1)

    def loss(self, theta: Tensor) -> float:
        """Return the sum of the losses."""
        total = theta.new_zeros(())
        for X, positive, weight in self._blocks():
            z = X @ theta
            total += weight @ softplus(torch.where(positive, -z, z))
        return float(total)

    def slopes(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return its gradient and its Hessian."""
        gradient, hessian = torch.zeros_like(theta), theta.new_zeros(len(theta), len(theta))
        for X, positive, weight in self._blocks():
            p = torch.sigmoid(X @ theta)
            gradient += (weight * (p - positive.to(p))) @ X
            hessian += X.T @ (X * (weight * p * (1 - p))[:, None])
        return gradient, hessian

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield rows with a column of ones, labels and weights, in double precision."""
        for start in range(0, len(self._X), self._size):
            own = slice(start, start + self._size)
            X = self._X[own].double()
            yield (
                torch.cat([X, X.new_ones(len(X), 1)], dim=1),
                self._positive[own],
                self._weight[own].double(),
            )


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
