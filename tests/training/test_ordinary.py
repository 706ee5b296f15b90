import copy
from dataclasses import replace
from itertools import chain

import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint.training import LossTraining, Ordinary, solve
from setpoint.training.models import build
from setpoint.training.ordinary import RIDGES, ordinary_models, train_ordinarily
from setpoint.training.problem import make_problem


def test_a_linear_module_gets_logistic_regressions_the_simplest_first():
    problem = overlapping("max f1")
    plain, balanced = ordinary_models(problem, build("linear", 3).double())
    assert len(plain) == len(balanced) == len(RIDGES)
    sizes = [float(m.weights["weight"].norm()) for m in plain]
    assert sizes == sorted(sizes)
    assert not any("balanced" in m.name for m in plain)
    assert all(m.name.endswith(", balanced") for m in balanced)
    reference = LogisticRegression(C=1 / RIDGES[3], tol=1e-10, max_iter=10_000)
    reference.fit(problem.X.numpy(), problem.positive.numpy())
    assert plain[3].weights["weight"].numpy() == pytest.approx(reference.coef_, rel=1e-2)


def test_points_are_those_of_the_module_with_the_weights():
    problem, module = overlapping("max f1", weights=True), torch.nn.Linear(3, 1, bias=False)
    module = module.double()
    for model in ordinary_models(problem, module)[1][::3]:
        module.load_state_dict(model.weights)
        assert problem.operating_point(module) == model.point


def test_the_judge_is_the_validation_part(short_ordinary):
    judge = overlapping("max f1", seed=1)
    train = overlapping("max f1")
    problem = make_problem(train.X, train.positive, "max f1", validation=judge)
    module = build("linear", 3).double()
    for model in ordinary_models(problem, module)[0][:3]:
        module.load_state_dict(model.weights)
        assert judge.operating_point(module).objective == model.point.objective
    torch.manual_seed(0)
    (mlps,) = ordinary_models(problem, build("mlp", 3).double())
    assert {m.point.fn + m.point.tp for m in mlps} == {int(judge.positive.sum())}


def test_a_module_is_trained_with_two_ridges_and_seen_at_several_moments():
    problem = overlapping("max f1", n=120)
    torch.manual_seed(0)
    module = build("mlp", 3).double()
    initial = {k: v.clone() for k, v in module.state_dict().items()}
    (models,) = ordinary_models(problem, module)
    assert [m.name for m in models[:2]] == ["as given", "ordinary, ridge 100, 1 of 10"]
    assert len(models) == 21
    module.load_state_dict(initial)
    run = LossTraining(l2=100.0).prepare(problem, module)
    for k in range(1, 11):
        run.advance(k)
        assert run.models()[0].point == models[k].point


def test_a_module_that_is_given_trained_is_a_candidate():
    problem = overlapping("max f1")
    module = torch.nn.Sequential(torch.nn.Linear(3, 1)).double()
    torch.nn.init.constant_(module[0].weight, 1.0)
    point = problem.operating_point(module)
    assert ordinary_models(problem, module)[0][0].point == point


def test_the_warm_start_is_the_best_of_its_candidates():
    problem = overlapping("max precision s.t. recall >= 0.9")
    module = build("linear", 3).double()
    best = max(m.point.rank for kind in ordinary_models(problem, module) for m in kind)
    train_ordinarily(problem, module)
    assert problem.operating_point(module).rank == best


def test_separable_classes_do_no_harm():
    X = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    problem = make_problem(X, torch.tensor([False, False, True, True]), "max f1")
    assert ordinary_models(problem, build("linear", 1).double())[0][-1].point.f1 == 1.0


# --- as a solver ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_as_a_solver_it_keeps_the_best_of_its_models_by_the_rows_that_judge(model, short_ordinary):
    goal = "max recall s.t. precision >= 0.7"
    judge = overlapping(goal, seed=1)
    problem = replace(overlapping(goal), validation=judge)
    torch.manual_seed(0)
    module = build(model, 3).double()
    solution = solve(problem, copy.deepcopy(module), Ordinary())
    torch.manual_seed(0)
    models = list(chain.from_iterable(ordinary_models(problem, module)))
    assert [c.name for c in solution.candidates] == [m.name for m in models]
    assert solution.operating_point.rank == max(m.point.rank for m in models)
    assert solution.history.best_iteration == 0
    assert not solution.history.interrupted
    found = judge.operating_point(solution.module)
    assert found.rank == solution.operating_point.rank
