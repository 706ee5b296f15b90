"""Steps of linear models on a CPU: those of :mod:`setpoint.training.descent` in few operations.

With u = -v, the margin with its sign changed, and b = sigmoid(u), the capped loss of a row is

    min( lambda * max(b - 1/2, 0) + gamma * softplus(u),   price + gamma * softplus(-u) )

and softplus(u) - softplus(-u) = u. So a row is given up where

    b + r * u >= 1/2 + price / lambda,   r = gamma / lambda,

and the derivative in u, divided by lambda, is

    b * (1 - b) * [u > 0 and kept]  +  r * (b - [given up]).

On a table of usual size an operation takes microseconds, and so does starting it. Therefore rows
are sorted by class, so that a price is one number for each model; a model's weights and its origin
are one row of a matrix; and memory is allocated once, because fresh memory costs more than what is
computed into it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from setpoint.goals.goal import only_fractions
from setpoint.training.adam import MatrixAdam
from setpoint.training.bundle import LinearBundle
from setpoint.training.descent import Batch, Columns, Counts, Descent, WorkingCounts
from setpoint.training.quotient_prices import QuotientPrices

_LEAST = 1e-6  # of price / lambda, so that a row at u = 0 is kept


def take_linear_steps(descent: Descent, batch: Batch, counts: WorkingCounts, steps: int) -> None:
    """Do what :func:`setpoint.training.descent.take_steps` does."""
    LinearSteps(descent, batch, counts).run(steps)


class LinearSteps:
    """Steps on one working set.

    Parameters
    ----------
    descent : Descent
        Linear models on a CPU.
    batch : Batch
        The rows of the working set.
    counts : WorkingCounts
        How they are counted.
    """

    def __init__(self, descent: Descent, batch: Batch, counts: WorkingCounts) -> None:
        assert isinstance(descent.bundle, LinearBundle)
        self._descent, self._counts, self._bundle = descent, counts, descent.bundle
        k = len(self._bundle.matrix)
        positives, negatives = (
            own.nonzero().squeeze(1) for own in (batch.sign > 0, batch.sign < 0)
        )
        order, first = torch.cat([positives, negatives]), len(positives)
        X = batch.X[order]
        sign = -batch.sign[order]
        self._rows = torch.cat([X, X.new_ones(len(X), 1)], dim=1).T * sign  # u = theta @ rows
        self._weighted = (self._rows * batch.signed_weight[order].abs()).T
        counted = counts.weight.to(X)[order]
        self._u, self._b, self._given_up, self._free = X.new_empty(4, k, len(order))
        # What depends on the class.
        classes = slice(first), slice(first, None)
        # With several tallies, each row has its own price.
        self._tallied = None if len(batch.classes) == 2 else batch.classes[:, order]
        if self._tallied is None:
            self._is_right = [(self._b[:, own], counted[own]) for own in classes]
        else:
            self._is_right = [(self._b, own) for own in self._tallied * counted]
        self._of_class = [self._given_up[:, own] for own in classes]
        P, N, rate = descent.P, descent.N, descent.dual_rate
        self._prices = [
            (QuotientPrices(goal, P, N, rate), own)
            for goal, own in descent.parts
            if only_fractions(goal)
        ]
        self._all_fractions = len(self._prices) == len(descent.parts)

    def run(self, steps: int) -> None:
        """Take steps; then set the models and Adam's state."""
        descent, bundle = self._descent, self._bundle
        theta = torch.cat([bundle.matrix, -bundle.origins[:, None]], dim=1)
        states = descent.adam_states()
        first, second = (
            torch.cat([states[0][name], sign * states[1][name][:, None]], dim=1)
            for name, sign in (("exp_avg", -1), ("exp_avg_sq", 1))
        )
        adam = MatrixAdam(theta, first, second, int(states[0]["step"]))
        pull = bundle.strengths(descent.proximity)
        with np.errstate(all="ignore"):
            for _ in range(steps):
                gradient = self._gradient(theta)
                if pull is not None:
                    gradient[:, :-1].addcmul_(pull, theta[:, :-1] - bundle.start)
                adam.step(gradient, descent.next_rate)
                descent.step_count += 1
        bundle.matrix.copy_(theta[:, :-1])
        bundle.origins.copy_(-theta[:, -1])
        for name, sign, moment in (("exp_avg", -1, first), ("exp_avg_sq", 1, second)):
            states[0][name].copy_(moment[:, :-1])
            states[1][name].copy_(sign * moment[:, -1])
        for state in states:
            state["step"] += steps

    def _gradient(self, theta: Tensor) -> Tensor:
        """Return the gradient of the loss in theta; update the multipliers on the way."""
        u, b, given_up = self._u, self._b, self._given_up
        torch.mm(theta, self._rows, out=u)
        torch.lt(u, 0.0, out=b)
        right = torch.stack([own @ counted for own, counted in self._is_right], dim=1)
        price = self._price(right.double().numpy())
        lam = self._descent.lam
        ratio = self._descent.factor / lam
        torch.sigmoid(u, out=b)
        if isinstance(ratio, float):
            torch.add(b, u, alpha=ratio, out=given_up)
        else:
            torch.addcmul(b, u, ratio, out=given_up)
        if self._tallied is not None:
            price = price.to(u) @ self._tallied
            given_up.ge_(price.div_(lam).clamp_(min=_LEAST).add_(0.5))
        else:
            limits = (price / lam).clamp_(min=_LEAST).add_(0.5)
            for own, limit in zip(self._of_class, limits.T[:, :, None], strict=True):
                own.ge_(limit)
        slope = u.gt_(0.0).sub_(given_up)
        slope.mul_(torch.addcmul(b, b, b, value=-1.0, out=self._free))
        b.sub_(given_up)
        if isinstance(ratio, float):
            slope.add_(b, alpha=ratio)
        else:
            slope.addcmul_(b, ratio)
        return torch.mm(slope, self._weighted).mul_(lam)

    def _price(self, right: Columns) -> Tensor:
        """Return the price of a positive and of a negative (k, 2), after the multipliers' step."""
        descent, now = self._descent, self._counts.at(right)
        if not self._all_fractions:
            descent.update_multipliers(now)
            return descent.prices(now)
        price = np.empty((len(right), 2), dtype=np.float32)
        for prices, own in self._prices:
            price[own] = prices(Counts(now.tp[own], now.fp[own]), descent.multipliers[:, own])
        return torch.from_numpy(price)
