from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint.training import gpu
from setpoint.training.logistic import logistic_regressions

PLAIN = (1.0, 1.0)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def fitted(problem, ridges, costs=PLAIN):
    X, positive, weight = problem.X, problem.positive, problem.sample_weight
    every = double([costs] * len(ridges))
    return logistic_regressions(X, positive, weight, every, double(ridges)).numpy()


def reference(problem, ridge, costs=PLAIN):
    weight = problem.sample_weight * torch.where(problem.positive, *costs)
    found = LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    found.fit(problem.X, problem.positive, weight)
    return [*found.coef_[0], found.intercept_[0]]


@pytest.mark.parametrize("costs", [PLAIN, (5.0, 0.5)])
@pytest.mark.parametrize("weights", [False, True])
def test_they_are_the_minima_that_scikit_learn_finds(costs, weights):
    problem = overlapping("max f1", weights=weights)
    ridges = [1e4, 10.0, 1.0, 1e-3]
    for ridge, found in zip(ridges, fitted(problem, ridges, costs), strict=True):
        assert found == pytest.approx(reference(problem, ridge, costs), rel=1e-4, abs=1e-6)


def test_each_regression_has_its_own_costs():
    problem = overlapping("max f1")
    costs, ridges = [PLAIN, (3.0, 1.0), (1.0, 3.0)], [1.0, 1.0, 1.0]
    found = logistic_regressions(
        problem.X, problem.positive, problem.sample_weight, double(costs), double(ridges)
    )
    for own, theta in zip(costs, found.numpy(), strict=True):
        assert theta == pytest.approx(reference(problem, 1.0, own), rel=1e-4)


@pytest.mark.parametrize("weights", [False, True])
def test_with_the_hessian_of_a_sample_they_are_the_minima_on_all_rows(monkeypatch, weights):
    problem = overlapping("max f1", n=3000, weights=weights)
    few = replace(gpu.SIZES["cpu"], newton_rows=600, newton_numbers=700 * 4)
    monkeypatch.setitem(gpu.SIZES, "cpu", few)
    torch.manual_seed(0)
    for ridge, found in zip([100.0, 1.0], fitted(problem, [100.0, 1.0]), strict=True):
        assert found == pytest.approx(reference(problem, ridge), rel=5e-3, abs=1e-3)


def test_the_block_size_does_not_matter(monkeypatch):
    problem = overlapping("max f1")
    expected = fitted(problem, [1.0])
    monkeypatch.setitem(gpu.SIZES, "cpu", replace(gpu.SIZES["cpu"], newton_numbers=7 * 4))
    assert fitted(problem, [1.0]) == pytest.approx(expected, rel=1e-9)


def test_with_many_features_scikit_learn_fits_without_a_hessian(monkeypatch):
    problem = overlapping("max f1")
    expected = fitted(problem, [10.0, 1.0], (2.0, 1.0))
    monkeypatch.setitem(gpu.SIZES, "cpu", replace(gpu.SIZES["cpu"], newton_features=2))
    assert fitted(problem, [10.0, 1.0], (2.0, 1.0)) == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_classes_that_can_be_separated_end_at_the_ridges_minimum():
    """There the weakest ridge's minimum is far out, where the Hessian of the loss vanishes."""
    X = torch.tensor([[-2.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]])  # and a constant column
    positive = torch.tensor([False, False, True, True])
    (theta,) = logistic_regressions(X, positive, torch.ones(4), double([PLAIN]), double([1e-6]))
    z = X.double() @ theta[:2] + theta[2]
    pull = torch.sigmoid(z) - positive.double()
    assert theta[0] > 5
    assert theta[1] == 0
    assert (X.double().T @ pull + 1e-6 * theta[:2]).abs().max() < 1e-6
    assert pull.sum().abs() < 1e-6


def test_float32_rows_and_repeated_columns():
    problem = overlapping("max f1", dtype=torch.float32)
    wide = replace(problem, X=problem.X.repeat(1, 3))
    (theta,) = fitted(wide, [3e-3])
    assert np.isfinite(theta).all()
    # The ridge deals a weight out evenly; three thirds of w have a third of its square.
    (alone,) = fitted(problem, [1e-3])
    assert theta[:9].reshape(3, 3).sum(0) == pytest.approx(alone[:3], rel=1e-4)
