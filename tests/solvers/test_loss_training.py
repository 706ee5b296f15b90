import numpy as np
import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint.losses import CrossEntropy
from setpoint.models import build
from setpoint.solvers import LossTraining, solve


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("l2", [10.0, 0.1])
@pytest.mark.parametrize("weights", [False, True])
def test_a_linear_model_is_logistic_regression(l2, balanced, weights):
    problem = overlapping("max f1", weights=weights)
    module = build("linear", 3).double()
    run = LossTraining(CrossEntropy(float(balanced)), l2).prepare(problem, module)
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
    solution = solve(problem, build("mlp", 3).double(), LossTraining())
    assert solution.history[-1].loss < solution.history[0].loss
    assert solution.operating_point.objective > solution.history[0].objective


def test_the_recorded_loss_is_that_of_the_iterate():
    problem = overlapping("max f1")
    solution = solve(problem, build("linear", 3).double(), LossTraining(outer_iterations=2))
    first, second, third = solution.history.column("loss")
    assert second < first - 0.1
    assert third == pytest.approx(second)


def test_large_data_are_seen_in_batches():
    problem = overlapping("max f1", n=1000)
    torch.manual_seed(0)
    module = build("mlp", 3).double()
    run = LossTraining(batch_size=100, inner_iterations=1, outer_iterations=2).prepare(
        problem, module
    )
    seen = []
    plain = run.loss
    run.loss = lambda rows=slice(None): (seen.append(rows), plain(rows))[1]
    run.start()
    run.advance(1)
    batches = [rows for rows in seen if not isinstance(rows, slice)]
    assert sorted(torch.cat(batches).tolist()) == list(range(1000))  # each row once


def test_the_loss_of_batches_is_that_of_all_rows_on_average():
    problem = overlapping("max f1", n=60, weights=True)
    run = LossTraining().prepare(problem, build("mlp", 3).double())
    with torch.no_grad():
        parts = [run.loss(torch.arange(i, 60, 3)) for i in range(3)]
        assert torch.stack(parts).mean() == pytest.approx(float(run.loss()))
