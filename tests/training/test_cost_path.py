"""Cost-weighted linear models."""

import dataclasses
import math
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import overlapping
from sklearn.linear_model import LogisticRegression

from setpoint import Goal, define_metric
from setpoint.training import cost_path, gpu, make_problem
from setpoint.training.cost_path import (
    COST_RIDGES,
    WEIGHTS,
    CostColumn,
    _scores,
    _train,
    columns_for,
    cost_weighted_models,
)
from setpoint.training.models import build
from setpoint.training.working_set import whole

PRECISION, RECALL = "max recall s.t. precision >= 0.8", "max precision s.t. recall >= 0.8"


def objective(theta, column, problem):
    """The objective as the module documents it, in double precision."""
    positive, w = problem.positive, problem.sample_weight.double()
    v = (problem.X.double() @ theta[:-1] + theta[-1]) * torch.where(positive, 1.0, -1.0)
    c = torch.where(positive, column.weight, 1.0)
    loss = torch.relu(1 - v) if column.hinge else torch.nn.functional.softplus(-v)
    ridge = column.ridge / (2 * w.sum()) * (theta[:-1] ** 2).sum()
    return (c * w * loss).sum() / (c * w).sum() + ridge


class Spy:
    """In place of Adam: it notes the gradient and takes no step."""

    def __init__(self, theta):
        self.rates = []

    def step(self, gradient, rate):
        self.gradient = gradient.clone()
        self.rates.append(rate)


@pytest.fixture
def spy(monkeypatch):
    made = []

    def adam(theta):
        made.append(Spy(theta))
        return made[-1]

    monkeypatch.setattr(cost_path, "MatrixAdam", adam)
    return made


def rows_of(problem):
    return whole(problem.positive, problem.sample_weight)


# --- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("weights", [False, True])
def test_the_gradient_is_that_of_the_objective(spy, dtype, weights):
    columns = [CostColumn(True, 0.01, 100.0), CostColumn(True, 30.0, 1.0),
               CostColumn(False, 3.0, 0.01), CostColumn(False, 0.1, 50.0)]  # fmt: skip
    problem = overlapping("max f1", n=80, dtype=dtype, weights=weights)
    torch.manual_seed(0)
    theta = torch.randn(4, 4)
    _train(theta, columns, problem, rows_of(problem), 1, 0.1)
    for column, at, found in zip(columns, theta, spy[0].gradient, strict=True):
        at = at.double().requires_grad_()
        objective(at, column, problem).backward()
        np.testing.assert_allclose(found, at.grad, rtol=1e-4, atol=1e-6)


def test_the_rate_falls_to_zero_on_a_cosine(spy):
    problem = overlapping("max f1", n=20)
    _train(torch.zeros(1, 4), [CostColumn(True, 1.0, 1.0)], problem, rows_of(problem), 8, 0.3)
    assert spy[0].rates == pytest.approx([0.15 * (1 + math.cos(math.pi * i / 8)) for i in range(8)])


def test_the_first_columns_can_have_a_quarter_of_the_rate(spy):
    problem = overlapping("max f1", n=20)
    columns = [CostColumn(True, w, 1.0) for w in (1.0, 10.0, 1.0)]
    _train(torch.zeros(3, 4), columns, problem, rows_of(problem), 5, 0.4, slow=1)
    fast, slow = spy
    assert slow.rates == pytest.approx([rate / 4 for rate in fast.rates])
    assert torch.equal(slow.gradient[0], fast.gradient[1])
    assert len(fast.gradient) == 2


def trained(problem, columns, steps=2000, rate=0.2):
    theta = torch.zeros(len(columns), problem.X.shape[1] + 1)
    _train(theta, columns, problem, rows_of(problem), steps, rate)
    return theta


@pytest.mark.parametrize("weights", [False, True])
def test_logistic_columns_approach_scikit_learn(weights):
    problem = overlapping("max f1", weights=weights)
    columns = [CostColumn(False, 1.0, 1.0), CostColumn(False, 10.0, 1.0), CostColumn(False, 0.1, 9)]
    X, y, w = problem.X.numpy(), problem.positive.numpy(), problem.sample_weight.numpy()
    for column, theta in zip(columns, trained(problem, columns), strict=True):
        # There the loss is a sum: the ridge, of a mean here, is scaled by the mean cost.
        mean_cost = np.average(np.where(y, column.weight, 1.0), weights=w)
        regression = LogisticRegression(
            C=1 / (column.ridge * mean_cost), class_weight={True: column.weight, False: 1.0},
            tol=1e-10, max_iter=500,
        ).fit(X, y, sample_weight=w)  # fmt: skip
        expected = [*regression.coef_[0], *regression.intercept_]
        np.testing.assert_allclose(theta, expected, atol=2e-3)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_a_hinge_ends_near_the_minimum(weight):
    problem = overlapping("max f1", n=100, weights=True)
    column = CostColumn(True, weight, 1.0)
    (theta,) = trained(problem, [column])
    found = objective(theta.double(), column, problem)
    generator = torch.Generator().manual_seed(0)
    for size in (0.01, 0.1, 1.0):  # of a convex function: no lower value nearby, none anywhere
        for _ in range(50):
            other = theta.double() + size * torch.randn(4, generator=generator, dtype=torch.double)
            assert objective(other, column, problem) > found - 1e-4


def test_the_models_do_not_depend_on_each_other():
    problem = overlapping("max f1", n=100)
    columns = [CostColumn(True, 10.0, 1.0), CostColumn(False, 10.0, 1.0)]
    together = trained(problem, columns, steps=50)
    for column, theta in zip(columns, together, strict=True):
        np.testing.assert_allclose(trained(problem, [column], steps=50)[0], theta, atol=1e-4)


def test_more_weight_of_a_positive_raises_the_scores():
    problem = overlapping("max f1")
    for hinge in (False, True):
        low, high = trained(problem, [CostColumn(hinge, w, 1.0) for w in (0.1, 10.0)], steps=500)
        alarms = [((problem.X.float() @ t[:-1] + t[-1]) > 0).sum() for t in (low, high)]
        assert alarms[0] + 50 < alarms[1]


@settings(max_examples=5)
@given(st.integers(-6, 6))
def test_scaling_all_sample_weights_scales_the_ridge_alone(power):
    problem = overlapping("max f1", n=100, weights=True)
    scale = 2.0**power  # exact
    scaled = dataclasses.replace(problem, sample_weight=problem.sample_weight * scale)
    for hinge in (True, False):
        before = trained(problem, [CostColumn(hinge, 3.0, 1.0)], steps=20)
        after = trained(scaled, [CostColumn(hinge, 3.0, scale)], steps=20)
        torch.testing.assert_close(before, after)


# --- which models ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "low", "high"),
    [
        (PRECISION, 0.001, 30),
        ("max recall s.t. fpr <= 0.1", 0.001, 30),
        (RECALL, 1, 1000),
        ("max f1", 0.1, 300),
        ("max f1 s.t. recall >= 0.5, precision >= 0.8", 0.1, 300),  # neither extreme
        ("max f1 s.t. precision >= 0.4", 0.1, 300),  # both extremes, where classes are equal
    ],
)
def test_weights_that_a_goal_may_need(goal, low, high):
    weights = [w for w in WEIGHTS if low <= w <= high * 1.1]
    columns = columns_for([Goal.parse(goal)])
    assert len(set(columns)) == len(columns)
    assert set(columns) == {(h, w, r) for h in (True, False) for w in weights for r in COST_RIDGES}
    assert [c.hinge for c in columns] == sorted((c.hinge for c in columns), reverse=True)
    assert list(dict.fromkeys(c.ridge for c in columns)) == sorted(COST_RIDGES, reverse=True)


def test_several_goals_get_the_weights_of_each():
    goals = [Goal.parse(PRECISION), Goal.parse(RECALL)]
    together = columns_for(goals)
    assert set(together) == set(columns_for(goals[:1])) | set(columns_for(goals[1:]))
    assert {c.weight for c in together} == set(WEIGHTS)


def test_a_coarse_path_has_some_of_the_models_of_the_fine_one():
    for goal in map(Goal.parse, (PRECISION, RECALL, "max f1")):
        fine, coarse = columns_for([goal]), columns_for([goal], fine=False)
        assert set(coarse) < set(fine)
        assert 1.0 in {column.weight for column in coarse}
        assert 0.3 < len(coarse) / len(fine) < 0.7


def test_a_metric_may_divide_by_the_number_of_alarms():
    """It is defined for numpy's numbers, which give NaN where Python's raise ZeroDivisionError."""
    define_metric(
        "cost_path_test_purity",
        lambda tp, fp, P, N: np.where(tp + fp > 0, tp / (tp + fp), 1.0),
    )
    goal = Goal.parse("max recall s.t. cost_path_test_purity >= 0.8")
    assert columns_for([goal]) == columns_for([Goal.parse(PRECISION)])


def test_names_are_distinct():
    columns = columns_for([Goal.parse(PRECISION), Goal.parse(RECALL)])
    assert len({c.name for c in columns}) == len(columns)
    assert CostColumn(True, 0.0032, 100.0).name == "cost-weighted hinge, weight 0.0032, ridge 100"
    logistic = "cost-weighted logistic regression, weight 10, ridge 0.01"
    assert CostColumn(False, 10.0, 0.01).name == logistic


@pytest.mark.parametrize("end", ["", "; restart 1", "; proximity 0.1", "; relaxed"])
@pytest.mark.parametrize("begin", ["", "goal-trained from "])
def test_taking_one_candidate_trains_the_model_it_starts_from(begin, end):
    goals = [Goal.parse("max f1")]
    for column in columns_for(goals):
        assert columns_for(goals, begin + column.name + end) == [column]


@pytest.mark.parametrize(
    "name", ["logistic regression, ridge 1", "goal-trained from ridge 100, balanced; restart 1", ""]
)
def test_other_candidates_need_none(name):
    assert columns_for([Goal.parse("max f1")], name) == []
    problems = [overlapping(PRECISION), overlapping(RECALL)]
    assert cost_weighted_models(problems, build("linear", 3).double(), name) == [[], []]


# --- the best of them -----------------------------------------------------------------------------


@pytest.fixture
def few_steps(monkeypatch):
    for effort in ("_FOR_SELECTION", "_BRIEF", "_THOROUGH"):
        few = getattr(cost_path, effort)._replace(first_steps=25, further_steps=25)
        monkeypatch.setattr(cost_path, effort, few)


def small_path(monkeypatch, rows):
    small = dataclasses.replace(gpu.SIZES["cpu"], path_rows=rows)
    monkeypatch.setitem(gpu.SIZES, "cpu", small)


def module_for(problem, bias=True):
    return torch.nn.Linear(problem.X.shape[1], 1, bias=bias, dtype=problem.X.dtype)


def assert_exact(kinds, problem, bias=True):
    """Every model's point is that of a module with its weights."""
    for model in (model for kind in kinds for model in kind):
        module = module_for(problem, bias)
        assert set(model.weights) == set(module.state_dict())
        module.load_state_dict(model.weights)
        assert model.point == problem.evaluation.operating_point(module)
        assert model.start is None


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_points_are_those_of_the_module(dtype, bias):
    problem = overlapping(PRECISION, dtype=dtype, weights=True)
    ((hinges, logistic),) = cost_weighted_models([problem], module_for(problem, bias))
    assert_exact([hinges, logistic], problem, bias)
    for kind, word in ((hinges, "hinge"), (logistic, "logistic regression")):
        assert len(kind) == cost_path._BRIEF.kept
        assert all(model.name.startswith(f"cost-weighted {word}, weight ") for model in kind)
        ridges = [float(model.name.split("ridge ")[1]) for model in kind]
        assert ridges == sorted(ridges, reverse=True)
    if bias:
        assert all(float(m.weights["bias"]) != 0 for m in hinges + logistic)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("validation", [False, True])
def test_the_best_on_the_validation_rows_or_else_on_all_are_kept(validation):
    problem = overlapping(RECALL)
    if validation:
        rows = overlapping(RECALL, n=150, seed=1)
        problem = dataclasses.replace(problem, validation=rows)
    columns = columns_for([problem.goal], fine=False)
    theta = trained(problem, columns, steps=25, rate=cost_path._RATE)
    on = problem.evaluation
    points = on.points_of(theta[:, :-1].double() @ on.X.T)
    kept = cost_path._best_columns(theta, columns, problem, cost_path._BRIEF)
    assert len(kept) == 8
    for hinge in (True, False):
        own = {i for i, column in enumerate(columns) if column.hinge is hinge}
        worst = min(points[i].sort_key for i in own & set(kept))
        assert all(points[i].sort_key <= worst for i in own - set(kept))


def test_a_goal_keeps_no_model_of_a_weight_that_only_another_goal_needs():
    problem = overlapping(PRECISION)
    good, bad = [1.0, 0.3, 0.3, 0.0], [-1.0, 0.0, 0.0, 0.0]
    columns = [CostColumn(hinge, w, 1.0) for hinge in (True, False) for w in (1.0, 1000.0)]
    theta = torch.tensor([bad, good, bad, good])
    assert cost_path._best_columns(theta, columns, problem, cost_path._BRIEF) == [0, 2]


@pytest.mark.usefixtures("few_steps")
def test_points_are_on_the_validation_rows_and_training_is_not():
    train, validation = overlapping(PRECISION), overlapping(PRECISION, n=150, seed=1)
    other = dataclasses.replace(train, validation=overlapping(PRECISION, n=90, seed=2))
    both = dataclasses.replace(train, validation=validation)
    found, others = (cost_weighted_models([p], module_for(p))[0] for p in (both, other))
    assert_exact(found, both)
    assert_exact(others, other)
    weights = [{m.name: m.weights["weight"] for k in kinds for m in k} for kinds in (found, others)]
    shared = weights[0].keys() & weights[1].keys()
    assert len(shared) >= 4
    for name in shared:
        torch.testing.assert_close(weights[0][name], weights[1][name], atol=1e-3, rtol=1e-3)
    coarse = {c.name for c in columns_for([both.goal], fine=False)}
    assert {m.name for kind in found for m in kind} <= coarse
    fine = next(c.name for c in columns_for([both.goal]) if c.name not in coarse)
    (((taken,),),) = cost_weighted_models([both], module_for(both), fine)
    assert taken.name == fine


@pytest.mark.usefixtures("few_steps")
def test_each_of_several_goals_keeps_what_it_would_keep_alone():
    goals = [PRECISION, RECALL, "max f1"]
    problem = overlapping(PRECISION, weights=True)
    problems = [problem.for_goal(Goal.parse(goal)) for goal in goals]
    together = cost_weighted_models(problems, module_for(problem))
    for own, kinds in zip(problems, together, strict=True):
        assert_exact(kinds, own)
        (alone,) = cost_weighted_models([own], module_for(own))
        assert [[m.name for m in k] for k in kinds] == [[m.name for m in k] for k in alone]
        for one, two in zip(chain.from_iterable(kinds), chain.from_iterable(alone), strict=True):
            torch.testing.assert_close(one.weights, two.weights, atol=1e-3, rtol=1e-3)
            assert one.point.goal == own.goal


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("kind", ["hinge", "logistic regression"])
def test_one_candidate_is_trained_alone_to_the_same_model(kind):
    problem = overlapping(PRECISION)
    (kinds,) = cost_weighted_models([problem], module_for(problem))
    wanted = next(m for k in kinds for m in k if f"{kind}," in m.name)
    take = f"goal-trained from {wanted.name}; relaxed"
    (((taken,),),) = cost_weighted_models([problem], module_for(problem), take)
    assert taken.name == wanted.name
    torch.testing.assert_close(taken.weights, wanted.weights, atol=1e-3, rtol=1e-3)


@pytest.mark.usefixtures("few_steps")
def test_regressions_are_exact_unless_there_are_too_many_features(monkeypatch):
    problem = overlapping(PRECISION, n=500, weights=True)
    found = {}
    for newton in (True, False):
        features = 200 if newton else 1
        small = dataclasses.replace(gpu.SIZES["cpu"], newton_features=features)
        monkeypatch.setitem(gpu.SIZES, "cpu", small)
        (kinds,) = cost_weighted_models([problem], module_for(problem))
        found[newton] = {m.name: m.weights for m in kinds[1]}
    X, y, w = problem.X.numpy(), problem.positive.numpy(), problem.sample_weight.numpy()
    columns = {column.name: column for column in columns_for([problem.goal])}
    assert len(found[True]) == len(found[False]) == 4
    for name, weights in found[True].items():
        column = columns[name]
        mean_cost = np.average(np.where(y, column.weight, 1.0), weights=w)
        regression = LogisticRegression(
            C=1 / (column.ridge * mean_cost), class_weight={True: column.weight, False: 1.0},
            tol=1e-10, max_iter=500,
        ).fit(X, y, sample_weight=w)  # fmt: skip
        np.testing.assert_allclose(weights["weight"], regression.coef_, rtol=2e-2, atol=2e-3)
    for name in found[True].keys() & found[False].keys():  # few steps of Adam come near
        a, b = (found[newton][name]["weight"].flatten() for newton in (True, False))
        assert torch.cosine_similarity(a, b, dim=0) > 0.9


@pytest.mark.usefixtures("few_steps")
def test_a_thorough_search_keeps_more_models_of_more_weights():
    problem = overlapping(PRECISION)
    (brief,), (thorough,) = (
        cost_weighted_models([problem], module_for(problem), thorough=t) for t in (False, True)
    )
    assert [len(kind) for kind in brief] == [4, 4]
    hinges, logistic = thorough
    assert len(logistic) == 8
    # The best and the weakest ridge of every weight.
    needed = {c.weight for c in columns_for([problem.goal])}
    weakest = [m for m in hinges if m.name.endswith("ridge 0.01")]
    assert len(weakest) == len(needed)
    assert len(needed) <= len(hinges) <= 2 * len(needed)
    assert len({m.name for m in hinges}) == len(hinges)
    coarse = {c.name for c in columns_for([problem.goal], fine=False)}
    assert {m.name for kind in brief for m in kind} <= coarse
    assert not {m.name for kind in thorough for m in kind} <= coarse
    assert_exact(thorough, problem)


# --- many rows ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("weights", [False, True])
def test_many_rows_train_on_a_sample_and_points_are_exact(monkeypatch, weights):
    seen = []

    def train(theta, columns, problem, rows, *rest):
        seen.append(rows)
        _train(theta, columns, problem, rows, *rest)

    monkeypatch.setattr(cost_path, "_train", train)
    small_path(monkeypatch, 100)
    problem = overlapping(PRECISION, n=1000, weights=weights)
    torch.manual_seed(0)
    (kinds,) = cost_weighted_models([problem], module_for(problem))
    assert [len(rows.rows) for rows in seen] == [100, 200]
    assert not any(rows.whole for rows in seen)
    assert_exact(kinds, problem)
    # A random direction: recall of about 0.
    assert max(m.point.recall for kind in kinds for m in kind) > 0.1


def test_the_second_sample_is_near_a_threshold(monkeypatch):
    problem = overlapping(PRECISION, n=500)
    theta = torch.tensor([[1.0, 0.0, 0.0, 5.0], [0.0, 2.0, 0.0, -3.0]])  # the bias does not count
    points = problem.points_of(theta[:, :-1].double() @ problem.X.T)
    expected = torch.stack([
        (problem.X[:, 0] - points[0].threshold).abs(),
        (2 * problem.X[:, 1] - points[1].threshold).abs(),
    ]).amin(dim=0)  # fmt: skip
    torch.testing.assert_close(cost_path._distance(theta, problem), expected.float())


# --- rows that are hard to train on ---------------------------------------------------------------


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [2**14, 100])
def test_huge_and_constant_features_give_numbers(monkeypatch, dtype, rows):
    small_path(monkeypatch, rows)
    problem = overlapping(PRECISION, n=300, d=5, dtype=dtype)
    X = problem.X.clone()
    X[:, 1] *= 1e6
    X[:, 2], X[:, 3] = 7.0, 0.0
    problem = dataclasses.replace(problem, X=X)
    (kinds,) = cost_weighted_models([problem], module_for(problem))
    assert len(kinds) == 2
    assert_exact(kinds, problem)
    assert all(w.isfinite().all() for k in kinds for m in k for w in m.weights.values())


def test_scores_that_are_not_numbers_are_zero():
    theta = torch.tensor([[math.nan, 0.0, 1.0], [1.0, 2.0, math.nan]])
    X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    found = _scores(theta, X)
    assert found.tolist() == [[0.0, 0.0], [5.0, 11.0]]
    assert found.dtype == torch.float64
    assert _scores(theta, X.half()).dtype == torch.float32


@pytest.mark.usefixtures("few_steps")
def test_one_row_of_a_class_is_enough():
    X = torch.tensor([[0.0], [1.0], [2.0]])
    problem = make_problem(X, torch.tensor([False, False, True]), PRECISION)
    (kinds,) = cost_weighted_models([problem], module_for(problem))
    assert all(max(model.point.recall for model in kind) == 1.0 for kind in kinds)


def test_a_selection_trains_for_fewer_steps(monkeypatch):
    problem = overlapping(RECALL, n=200)
    validated = dataclasses.replace(problem, validation=overlapping(RECALL, n=100, seed=1))
    steps = []
    monkeypatch.setattr(cost_path, "_train", lambda *given: steps.append(given[4]))
    name = columns_for([problem.goal])[0].name
    for own, take in ((problem, None), (validated, None), (problem, name)):
        cost_weighted_models([own], module_for(problem), take)
    assert steps == [150, 150, 60, 120, 60, 120]
