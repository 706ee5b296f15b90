"""Linear models over a path of class weights and ridges, to which setpoint is compared.

With a for the weight of a negative and b for that of a positive, a model minimises

    sum_i c_i loss(v_i) + ridge/2 |theta|^2,    c_i = b if row i is positive, else a,

where v_i is the logit signed by the class. The loss is logistic or the hinge max(0, 1 - v). Nothing
here uses setpoint's own training.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
Pair = tuple[float, float]  # weights of a negative and of a positive

WEIGHTS: tuple[Pair, ...] = tuple((1.0, float(10**e)) for e in np.arange(-3, 3.25, 0.5))
_NEWTON_FEATURES = 200  # the Hessian costs the square of that per row
_STEPS = 2000
_RATES = (0.05, 0.2)
_BLOCK = 8192  # rows whose margins stay in the cache


def balanced(y: NDArray[np.bool_]) -> Pair:
    """Return the weights of scikit-learn's ``class_weight="balanced"``."""
    return len(y) / 2 / float(np.sum(~y)), len(y) / 2 / float(np.sum(y))


def logistic_path(
    X: Floats,
    y: NDArray[np.bool_],
    weights: Sequence[Pair],
    ridges: Sequence[float],
    tolerance: float = 1e-5,
) -> Iterator[Floats]:
    """Yield the coefficients of logistic regressions, each from the one with the next larger ridge.

    scikit-learn's tolerance is for the gradient of the mean loss. Where one class weighs little,
    that gradient is small from the beginning, so ``tolerance`` is relative to the share of that
    class. With many features and a weak ridge the training objective rises until the end: on
    eyepacs, recall at precision 0.9 with three of the weights is 0.914 at 1e-3 and 1 at 1e-5.
    """
    solver = "newton-cholesky" if X.shape[1] <= _NEWTON_FEATURES else "lbfgs"
    for a, b in weights:
        totals = a * np.sum(~y), b * np.sum(y)
        regression = LogisticRegression(
            solver=solver, class_weight={False: a, True: b}, warm_start=True, max_iter=3000,
            tol=tolerance * min(totals) / sum(totals),
        )  # fmt: skip
        for ridge in sorted(ridges, reverse=True):
            regression.C = 1 / ridge
            with warnings.catch_warnings():
                # Separable classes and a weak ridge: the model still ranks.
                warnings.simplefilter("ignore")
                regression.fit(X, y)
            yield regression.coef_[0].copy()


def hinge_path(
    X: Floats, y: NDArray[np.bool_], weights: Sequence[Pair], ridges: Sequence[float]
) -> Iterator[Floats]:
    """Yield the coefficients of hinge models, trained at once by Adam from each learning rate."""
    # The gradient is a sum over rows inside the margin, by class: class weights multiply the sums.
    blocks = [list(_signed(X, y, label)) for label in (False, True)]
    totals = np.array([np.sum(~y), np.sum(y)], dtype=np.float64)
    columns = [(a, b, ridge) for a, b in weights for ridge in ridges]
    table = np.array(columns)
    scale = table[:, :2] @ totals  # the mean loss suits one learning rate for all columns
    share = (table[:, :2] / scale[:, None]).astype(np.float32)
    ridge = np.repeat((table[:, 2] / scale)[:, None], X.shape[1] + 1, axis=1).astype(np.float32)
    ridge[:, -1] = 0.0
    for rate in _RATES:
        yield from _adam(blocks, share, ridge, rate)[:, :-1].astype(np.float64)


def _signed(X: Floats, y: NDArray[np.bool_], label: bool) -> Iterator[NDArray[np.float32]]:
    """Yield the rows of a class with a column of ones, times the sign of the class, in blocks."""
    own = X[y == label]
    rows = np.concatenate([own, np.ones((len(own), 1))], axis=1).astype(np.float32)
    rows *= 1 if label else -1
    for start in range(0, len(rows), _BLOCK):
        yield rows[start : start + _BLOCK]


def _adam(
    blocks: Sequence[Sequence[NDArray[np.float32]]],
    share: NDArray[np.float32],
    ridge: NDArray[np.float32],
    rate: float,
) -> NDArray[np.float32]:
    """Return the models after full-batch steps, with a learning rate that falls on a cosine."""
    theta = np.zeros_like(ridge)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, _STEPS + 1):
        gradient = ridge * theta
        for k, rows_of_class in enumerate(blocks):
            inside = np.zeros_like(theta)
            for rows in rows_of_class:
                margins = rows @ theta.T
                inside += (margins < 1).astype(np.float32).T @ rows
            gradient -= share[:, k : k + 1] * inside
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        size = rate * (1 + np.cos(np.pi * (step - 1) / _STEPS)) / 2
        estimate = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        theta -= np.float32(size / (1 - 0.9**step)) * first / estimate
    return theta
