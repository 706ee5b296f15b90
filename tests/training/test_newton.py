from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint.training import gpu
from setpoint.training.ordinary import newton_logistic


def fitted(problem, ridge, start=None, weight=None):
    start = torch.zeros(problem.X.shape[1] + 1, dtype=torch.float64) if start is None else start
    weight = problem.sample_weight if weight is None else weight
    return newton_logistic(problem.X, problem.positive, weight, ridge, start).numpy()


@pytest.mark.parametrize("ridge", [1e4, 10.0, 1.0, 1e-3])
@pytest.mark.parametrize("weights", [False, True])
def test_it_is_the_minimum_that_scikit_learn_finds(ridge, weights):
    problem = overlapping("max f1", weights=weights)
    reference = LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    reference.fit(problem.X, problem.positive, problem.sample_weight)
    expected = [*reference.coef_[0], reference.intercept_[0]]
    assert fitted(problem, ridge) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_the_start_does_not_matter_and_rows_may_come_in_parts(monkeypatch):
    problem = overlapping("max f1")
    expected = fitted(problem, 1.0)
    far = torch.tensor([30.0, -20.0, 5.0, 40.0], dtype=torch.float64)
    assert fitted(problem, 1.0, far) == pytest.approx(expected, rel=1e-5)
    few = replace(gpu.SIZES["cpu"], newton_numbers=7 * 4)
    monkeypatch.setitem(gpu.SIZES, "cpu", few)
    assert fitted(problem, 1.0) == pytest.approx(expected, rel=1e-9)


def test_classes_that_can_be_separated_end_at_the_ridges_minimum():
    """There the weakest ridge's minimum is far out, where the Hessian of the loss vanishes."""
    X = torch.tensor([[-2.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])  # and a constant column
    positive = torch.tensor([False, False, True, True])
    theta = newton_logistic(X, positive, torch.ones(4), 1e-6, torch.zeros(3, dtype=torch.float64))
    z = X.double() @ theta[:2] + theta[2]
    pull = torch.sigmoid(z) - positive.double()
    assert theta[0] > 5
    assert theta[1] == 0
    assert (X.double().T @ pull + 1e-6 * theta[:2]).abs().max() < 1e-6
    assert pull.sum().abs() < 1e-6


def test_float32_rows_and_repeated_columns_are_no_obstacle():
    problem = overlapping("max f1", dtype=torch.float32)
    wide = problem.X.repeat(1, 3)
    theta = newton_logistic(
        wide, problem.positive, problem.sample_weight, 3e-3, torch.zeros(10, dtype=torch.float64)
    ).numpy()
    assert np.isfinite(theta).all()
    # The ridge deals a weight out evenly; three thirds of w have a third of its square.
    alone = fitted(problem, 1e-3)
    assert theta[:9].reshape(3, 3).sum(0) == pytest.approx(alone[:3], rel=1e-4)
