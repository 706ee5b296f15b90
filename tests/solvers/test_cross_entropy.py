import numpy as np
import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint.models import build
from setpoint.solvers import CrossEntropy, solve
from setpoint.solvers.cross_entropy import train_ordinarily


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("l2", [10.0, 0.1])
@pytest.mark.parametrize("weights", [False, True])
def test_a_linear_model_is_logistic_regression(l2, balanced, weights):
    problem = overlapping("max f1", weights=weights)
    module = build("linear", 3).double()
    run = CrossEntropy(l2, balanced).prepare(problem, module)
    for k in range(1, 4):
        run.advance(k)
    w = problem.sample_weight.numpy()
    y = problem.positive.numpy()
    if balanced:  # scikit-learn balances by row counts; ours by weights
        w = w * w.sum() / 2 / np.where(y, w[y].sum(), w[~y].sum())
    reference = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=10_000)
    reference.fit(problem.X.numpy(), y, sample_weight=w)
    np.testing.assert_allclose(
        module.weight.detach().numpy(), reference.coef_, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(module.bias.detach().numpy(), reference.intercept_, rtol=1e-4)


def test_an_mlp_learns():
    problem = overlapping("max f1")
    torch.manual_seed(0)
    solution = solve(problem, build("mlp", 3).double(), CrossEntropy())
    assert solution.history[-1].loss < solution.history[0].loss
    assert solution.operating_point.objective > solution.history[0].objective


def test_the_recorded_loss_is_that_of_the_iterate():
    problem = overlapping("max f1")
    solution = solve(problem, build("linear", 3).double(), CrossEntropy(outer_iterations=2))
    first, second, third = solution.history.column("loss")
    assert second < first - 0.1
    assert third == pytest.approx(second)


def test_the_warm_start_is_the_best_of_its_candidates():
    problem = overlapping("max precision s.t. recall >= 0.9")
    module = build("linear", 3).double()
    train_ordinarily(problem, module)
    for balanced in (False, True):
        other = build("linear", 3).double()
        CrossEntropy(1.0, balanced).prepare(problem, other).advance(1)
        assert problem.operating_point(module).rank >= problem.operating_point(other).rank
