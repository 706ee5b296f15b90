"""Several logistic regressions on the same rows, at once, by Newton's method.

Regression k minimises

    sum_i c_ki w_i log(1 + exp(-y_i z_i)) + ridge_k/2 |theta_k|^2,    z = X theta_k + b_k

where c_ki depends on the class of row i only. The Hessian costs the square of the number of
features for each row and regression. With many rows it is that of some rows, at the minimum there:
those that the first regression gets wrong or nearly wrong, which hold most of the curvature, and a
sample of the rest. Steps with it and with the gradient of all rows converge linearly, and fast if
these rows represent the others well; the gradients are then computed in single precision. Where
they do not, as with features that are rarely other than zero, the Hessian of all rows is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from setpoint.errors import DivergedError
from setpoint.training.gpu import sizes_for
from setpoint.training.working_set import WorkingSet, near, sample

_MOST_STEPS = 60
_MOST_ON_ALL_ROWS = 20
_CLOSE_ENOUGH = 1e-5  # of the objective: the gain that a further step may leave
_FAR = 1e-4  # of the objective: beyond it, the Hessian of some rows did not lead to the minimum


def logistic_regressions(
    X: Tensor, positive: Tensor, weight: Tensor, costs: Tensor, ridges: Tensor
) -> Tensor:
    """Return the weights and intercepts of k regressions, in double precision, shape (k, d + 1).

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Features.
    positive, weight : Tensor of shape (n,)
        Labels and weights w.
    costs : Tensor of float64, shape (k, 2)
        c of positives and of negatives.
    ridges : Tensor of float64, shape (k,)
        1/C of scikit-learn; not on the intercept.
    """
    sizes = sizes_for(X.device)
    if X.shape[1] > sizes.newton_features:
        return _by_scikit_learn(X, positive, weight, costs, ridges)
    strength = ridges[:, None].repeat(1, X.shape[1] + 1)
    strength[:, -1] = 0.0
    some = _informative_rows(X, positive, weight, strength[:1], costs[:1], sizes.newton_rows)
    few = _Rows(X[some.rows], positive[some.rows], some.weight, costs, torch.float64)
    theta, factors = torch.zeros_like(strength), []
    for k in range(len(theta)):
        # From the last one: neighbours differ little.
        own = slice(k, k + 1)
        start = theta[k - 1 : k] if k else theta[:1]
        theta[own], factor, _ = _newton(few, strength[own], start, own)
        factors.append(factor)
    if some.whole:
        return theta
    every = _Rows(X, positive, weight, costs, torch.float32)
    theta, _, done = _newton(every, strength, theta, slice(None), torch.cat(factors))
    for k in (~done).nonzero().squeeze(1).tolist():
        own = slice(k, k + 1)
        theta[own], *_ = _newton(every, strength[own], theta[own], own)
    return theta


def _informative_rows(
    X: Tensor, positive: Tensor, weight: Tensor, strength: Tensor, costs: Tensor, size: int
) -> WorkingSet:
    """Return the rows that a regression on a sample gets most wrong, and a sample of the others.

    Where one class weighs little, a few rows of the other one hold nearly all the curvature, and a
    random sample misses them.
    """
    drawn = sample(positive, weight, size)
    if drawn.whole:
        return drawn
    few = _Rows(X[drawn.rows], positive[drawn.rows], drawn.weight, costs, torch.float64)
    theta, *_ = _newton(few, strength, torch.zeros_like(strength), slice(None))
    every = _Rows(X, positive, weight, costs, torch.float32)
    return near(positive, weight, every.margins(theta), size)


def _newton(
    rows: _Rows, strength: Tensor, theta: Tensor, own: slice, factor: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the minima of some regressions, the last Cholesky factors, and which converged.

    ``theta`` is where they start. ``factor`` is that of the Hessians; None: it is computed anew in
    every step.
    """
    theta, costs = theta.clone(), rows.costs[own]
    fixed, length, moved = factor is not None, theta.new_ones(len(theta)), True
    value, gradient = rows.loss_and_gradient(theta, strength, costs)
    for _ in range(_MOST_ON_ALL_ROWS if fixed else _MOST_STEPS):
        if moved and not fixed:
            factor = _cholesky(rows.hessians(theta, strength, costs))
        assert factor is not None
        step = torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
        gain = (gradient * step).sum(dim=1)
        close = gain <= _CLOSE_ENOUGH * value
        going = (~close & (length > 1e-6)).nonzero().squeeze(1)
        if not len(going):
            theta -= close[:, None] * step  # the last step is known, and too short to overshoot
            break
        # Far from the minimum a whole step may overshoot.
        further = theta[going] - length[going, None] * step[going]
        tried, slope = rows.loss_and_gradient(further, strength[going], costs[going])
        better = tried <= value[going] - 1e-4 * length[going] * gain[going]
        kept = going[better]
        theta[kept], value[kept], gradient[kept] = further[better], tried[better], slope[better]
        length[going] = torch.where(better, 1.0, length[going] / 4)
        moved = bool(better.any())
    assert factor is not None
    return theta, factor, gain <= _FAR * value


def _cholesky(hessians: Tensor) -> Tensor:
    """Return Cholesky factors, with a larger ridge where a Hessian is not positive definite."""
    if not hessians.isfinite().all():
        raise DivergedError("a logistic regression diverged: features are not finite or too large.")
    one = torch.eye(hessians.shape[-1]).to(hessians)
    size = hessians.diagonal(dim1=1, dim2=2).mean(dim=1)
    more = 0.0
    while True:
        factors: Tensor
        factors, failed = torch.linalg.cholesky_ex(hessians)
        if not failed.any():
            return factors
        more = 10 * more or 1e-12
        hessians = hessians + (more * (size + 1) * (failed > 0))[:, None, None] * one


def _by_scikit_learn(
    X: Tensor, positive: Tensor, weight: Tensor, costs: Tensor, ridges: Tensor
) -> Tensor:
    """Do the same one after the other by L-BFGS, which needs no Hessian."""
    from sklearn.linear_model import LogisticRegression

    half = X.dtype in (torch.float16, torch.bfloat16)
    rows, labels = (X.float() if half else X).cpu().numpy(), positive.cpu().numpy()
    regression = LogisticRegression(warm_start=True, max_iter=200)
    found = []
    for cost, ridge in zip(costs, ridges.tolist(), strict=True):
        regression.C = 1.0 / ridge
        own = (torch.where(positive, cost[0], cost[1]) * weight).cpu().numpy()
        with warnings.catch_warnings():
            # Where classes can be separated a weak ridge does not converge; the model still ranks.
            warnings.simplefilter("ignore")
            regression.fit(rows, labels, sample_weight=own)
        found.append(np.append(regression.coef_, regression.intercept_))
    return torch.from_numpy(np.stack(found)).to(costs)


class _Rows:
    """Sums over rows, block by block."""

    def __init__(
        self, X: Tensor, positive: Tensor, weight: Tensor, costs: Tensor, dtype: torch.dtype
    ) -> None:
        self._X, self._positive, self._weight, self.costs = X, positive, weight, costs
        self._dtype = dtype
        self._size = max(sizes_for(X.device).newton_numbers // (X.shape[1] + 1 + len(costs)), 1)
        self._kept = list(self._computed()) if len(X) <= self._size else None

    def loss_and_gradient(
        self, theta: Tensor, strength: Tensor, costs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the losses, with their ridges, and the gradients of some regressions."""
        gradient = strength * theta
        value = (gradient * theta).sum(dim=1) / 2
        theta, costs = theta.to(self._dtype), costs.to(self._dtype)
        for X, sign, weight in self._blocks():
            u = (theta @ X.T).mul_(-sign)
            share = torch.where(sign > 0, costs[:, :1], costs[:, 1:]).mul_(weight)
            value += (softplus(u) * share).sum(dim=1)
            gradient -= u.sigmoid_().mul_(share).mul_(sign) @ X
        return value, gradient

    def margins(self, theta: Tensor) -> Tensor:
        """Return the logits of one regression, signed by the class."""
        w = theta[0].to(self._dtype)
        return torch.cat([(X @ w).mul_(sign) for X, sign, _ in self._blocks()])

    def hessians(self, theta: Tensor, strength: Tensor, costs: Tensor) -> Tensor:
        """Return the Hessians of some regressions."""
        found = torch.diag_embed(strength)
        theta, costs = theta.to(self._dtype), costs.to(self._dtype)
        for X, sign, weight in self._blocks():
            p = (theta @ X.T).sigmoid_()
            share = torch.where(sign > 0, costs[:, :1], costs[:, 1:]).mul_(weight)
            for hessian, curvature in zip(found, share.mul_(p).mul_(1 - p), strict=True):
                hessian += X.T @ (X * curvature[:, None])
        return found

    def _blocks(self) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        return self._computed() if self._kept is None else self._kept

    def _computed(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield rows with a column of ones, signs and weights."""
        for start in range(0, len(self._X), self._size):
            own = slice(start, start + self._size)
            X = self._X[own].to(self._dtype)
            sign = self._positive[own].to(X) * 2 - 1
            yield torch.cat([X, X.new_ones(len(X), 1)], dim=1), sign, self._weight[own].to(X)
