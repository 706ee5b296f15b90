from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint.training import gpu, logistic, make_problem
from setpoint.training.logistic import logistic_regressions
from setpoint.training.working_set import sample

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


def small_hessians(monkeypatch, rows):
    few = replace(gpu.SIZES["cpu"], newton_rows=rows, newton_numbers=2**16)
    monkeypatch.setitem(gpu.SIZES, "cpu", few)
    torch.manual_seed(0)


def assert_at_the_minimum(problem, costs, ridges, atol):
    found = logistic_regressions(
        problem.X, problem.positive, problem.sample_weight, double(costs), double(ridges)
    )
    for own, ridge, theta in zip(costs, ridges, found.numpy(), strict=True):
        assert theta == pytest.approx(reference(problem, ridge, own), rel=2e-2, abs=atol)


def test_a_class_that_weighs_little(monkeypatch):
    """A few rows of the other class hold nearly all the curvature; a random sample lacks them."""
    small_hessians(monkeypatch, 400)
    assert_at_the_minimum(rare_positives(), [(0.01, 1.0), (0.001, 1.0)], [1.0, 0.1], 2e-2)


def test_the_rows_that_hold_the_curvature_lead_to_the_minimum_in_fewer_steps(monkeypatch):
    passes = []
    counted = logistic._Rows.loss_and_gradient

    def loss_and_gradient(self, *given):
        passes.append(len(self._X))
        return counted(self, *given)

    monkeypatch.setattr(logistic._Rows, "loss_and_gradient", loss_and_gradient)
    problem = rare_positives()
    costs, ridges = double([(0.001, 1.0)]), double([0.01])

    def passes_over_all_rows():
        small_hessians(monkeypatch, 300)
        passes.clear()
        weight = problem.sample_weight
        logistic_regressions(problem.X, problem.positive, weight, costs, ridges)
        return passes.count(len(problem.X))

    chosen = passes_over_all_rows()
    monkeypatch.setattr(
        logistic, "_informative_rows", lambda X, positive, weight, *_: sample(positive, weight, 300)
    )
    assert 2 * chosen < passes_over_all_rows()


def test_features_that_are_rarely_other_than_zero(monkeypatch):
    """Some rows may lack such a feature; then the Hessian of all rows is used."""
    small_hessians(monkeypatch, 200)
    generator = torch.Generator().manual_seed(0)
    level = (torch.rand(4000, generator=generator) ** 4 * 40).long()
    X = torch.nn.functional.one_hot(level, 40).double()
    chance = torch.rand(40, generator=generator, dtype=torch.double)[level]
    positive = torch.rand(4000, generator=generator) < 0.4 * chance
    problem = make_problem((X - X.mean(0)) / X.std(0).clamp(min=1e-3), positive, "max f1")
    assert_at_the_minimum(problem, [(1.0, 1.0), (0.1, 1.0)], [1.0, 1.0], 2e-2)


def rare_positives(n=6000):
    generator = torch.Generator().manual_seed(1)
    positive = torch.arange(n) < 60
    X = torch.randn(n, 3, generator=generator, dtype=torch.double)
    X = X.sign() * X.abs() ** 1.5  # heavy tails
    X[positive] += 2.0
    return make_problem(X, positive, "max f1")


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
