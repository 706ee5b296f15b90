import copy
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint import Goal
from setpoint.training import (
    Ordinary,
    Projected,
    Stochastic,
    TrainedModel,
    solve,
)
from setpoint.training.models import build
from setpoint.training.ordinary import (
    RIDGES,
    ordinary_models,
    start_of,
    train_ordinarily,
    variants_from,
)
from setpoint.training.problem import make_problem


def test_a_linear_module_gets_logistic_regressions_the_simplest_first():
    problem = overlapping("max f1")
    plain, balanced, *weighted = ordinary_models(problem, build("linear", 3).double())
    assert all(m.name.startswith("cost-weighted") for kind in weighted for m in kind)
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


def test_validation_rows_choose_the_ordinary_model(short_ordinary):
    validation = overlapping("max f1", seed=1)
    train = overlapping("max f1")
    problem = make_problem(train.X, train.positive, "max f1", validation=validation)
    module = build("linear", 3).double()
    for model in ordinary_models(problem, module)[0][:3]:
        module.load_state_dict(model.weights)
        assert validation.operating_point(module).objective == model.point.objective
    torch.manual_seed(0)
    mlps = chain(*ordinary_models(problem, build("mlp", 3).double()))
    assert {m.point.fn + m.point.tp for m in mlps} == {int(validation.positive.sum())}


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


def test_separable_classes_are_fitted():
    X = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    problem = make_problem(X, torch.tensor([False, False, True, True]), "max f1")
    assert ordinary_models(problem, build("linear", 1).double())[0][-1].point.f1 == 1.0


# --- as a solver ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_as_a_solver_it_keeps_the_best_of_its_models(model, short_ordinary):
    goal = "max recall s.t. precision >= 0.7"
    validation = overlapping(goal, seed=1)
    problem = replace(overlapping(goal), validation=validation)
    torch.manual_seed(0)
    module = build(model, 3).double()
    solution = solve(problem, copy.deepcopy(module), Ordinary())
    torch.manual_seed(0)
    models = list(chain.from_iterable(ordinary_models(problem, module)))
    assert [c.name for c in solution.candidates] == [m.name for m in models]
    assert solution.operating_point.rank == max(m.point.rank for m in models)
    assert solution.history.best_iteration == 0
    assert not solution.history.interrupted
    found = validation.operating_point(solution.module)
    assert found.rank == solution.operating_point.rank


# --- which models are trained side by side --------------------------------------------------------


F1, FLOOR = Goal.parse("max f1"), Goal.parse("max recall s.t. precision >= 0.7")


def contender(name="logistic regression, ridge 10", d=400):
    generator = torch.Generator().manual_seed(1)
    weights = {"weight": torch.randn(1, d, generator=generator), "bias": torch.ones(1)}
    return TrainedModel(name, None, weights)


def settings(**given):
    usual = {"proximity": (0.0, 0.1, 1.0), "restarts": 2, "spread": 1.0, "relaxed": True}
    return SimpleNamespace(**{**usual, "gammas": (0.2,), **given})


def test_the_simplest_come_first():
    start, other = contender(), contender("logistic regression, ridge 1, balanced")
    columns = variants_from(settings(), torch.nn.Linear(400, 1), FLOOR, [start, other], [other])
    assert [c.name for c in columns] == [
        "goal-trained from ridge 10; proximity 1",
        "goal-trained from ridge 10; proximity 0.1",
        "goal-trained from ridge 10",
        "goal-trained from ridge 10; relaxed",
        "goal-trained from ridge 1, balanced; proximity 1",
        "goal-trained from ridge 1, balanced; proximity 0.1",
        "goal-trained from ridge 1, balanced",
        "goal-trained from ridge 1, balanced; relaxed",
        "goal-trained from ridge 1, balanced; restart 1",
        "goal-trained from ridge 1, balanced; restart 2",
    ]
    assert [c.relaxed for c in columns] == ([False] * 3 + [True]) * 2 + [False] * 2
    assert [c.restart for c in columns] == [0] * 8 + [1, 2]
    assert [c.proximity for c in columns] == [1.0, 0.1, 0.0, 0.0] * 2 + [0.0, 0.0]
    assert len({c.name for c in columns}) == len(columns)


def test_a_further_gamma_is_a_further_model_without_proximity():
    start = contender()
    solver = settings(gammas=(0.1, 0.01), proximity=(1.0,), restarts=0, relaxed=False)
    held, weaker = variants_from(solver, torch.nn.Linear(400, 1), F1, [start], [start])
    assert (held.gamma, held.proximity) == (0.1, 1.0)
    assert (weaker.gamma, weaker.proximity) == (0.01, 0.0)
    assert weaker.name == "goal-trained from ridge 10; gamma 0.01"


@pytest.mark.parametrize(
    ("module", "goal", "given", "expected"),
    [
        (torch.nn.Linear(400, 1), F1, {}, 5),  # nothing to relax
        (torch.nn.Linear(400, 1), FLOOR, {"relaxed": False}, 5),
        (torch.nn.Sequential(torch.nn.Linear(400, 1)), FLOOR, {}, 4),  # no restarts
        (torch.nn.Linear(400, 1), F1, {"restarts": None, "proximity": (0.0,)}, 1),
        (torch.nn.Linear(400, 1), F1, {"gammas": (0.1, 0.01, 0.0)}, 7),
    ],
)
def test_which_variants_are_left_out(module, goal, given, expected):
    start = contender()
    assert len(variants_from(settings(**given), module, goal, [start], [start])) == expected


@pytest.mark.parametrize("solver", [Stochastic(), Projected(gamma=0.1)])
def test_both_solvers_have_variants(solver):
    start = contender()
    assert variants_from(solver, torch.nn.Linear(400, 1), FLOOR, [start], [start])


def test_restarts_are_perturbed_more_and_more():
    start, solver = contender(), settings()
    columns = variants_from(solver, torch.nn.Linear(400, 1), F1, [start], [start])
    w = start.weights["weight"]
    starts = [start_of(c, solver, seed=5) for c in columns]
    assert all(s is start.weights for s in starts[:3])
    sizes = [float((s["weight"] - w).norm() / w.norm()) for s in starts[3:]]
    assert sizes == pytest.approx([0.5, 1.0], rel=0.1)
    for s in starts[3:]:
        assert torch.equal(s["bias"], start.weights["bias"])
        assert s["weight"].dtype == w.dtype
    assert torch.equal(w, contender().weights["weight"])  # the start itself is left alone


def test_a_restart_is_the_same_whatever_else_is_trained():
    start = contender()
    column = variants_from(settings(), torch.nn.Linear(400, 1), F1, [start], [start])[-1]
    (alone,) = variants_from(settings(), torch.nn.Linear(400, 1), F1, [], [start])[1:]
    first, second = (start_of(c, settings(), 5)["weight"] for c in (column, alone))
    assert torch.equal(first, second)
    assert not torch.equal(first, start_of(column, settings(), 6)["weight"])
