import copy
from itertools import chain

import pytest
import torch

from setpoint.errors import SetpointError
from setpoint.training import CrossEntropy, LossTraining, make_problem, network_path
from setpoint.training.models import build
from setpoint.training.network_path import NetworkColumn, cross_entropy_models

PRECISION, RECALL = "max recall s.t. precision >= 0.8", "max precision s.t. recall >= 0.8"


def overlapping(goal, n=120, weights=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 0.3
    X = torch.randn(n, 3, generator=generator, dtype=torch.float64) + y[:, None]
    weight = torch.rand(n, generator=generator, dtype=torch.float64) + 0.5 if weights else None
    return make_problem(X, y, goal, weight)


def small_mlp():
    torch.manual_seed(0)
    return build("mlp", 3).double()


def with_norm():
    torch.manual_seed(0)
    layers = (torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    return torch.nn.Sequential(*layers).double()


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(network_path, "_EVALUATIONS", 2)
    monkeypatch.setattr(network_path, "_LEAST_STEPS", 4)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("make", [small_mlp, with_norm])
def test_a_copy_is_trained_as_if_alone(make, weights, monkeypatch):
    """All rows are one batch, so that their order plays no role but for rounding."""
    columns = [NetworkColumn(0.0, 50.0), NetworkColumn(0.5, 1.0), NetworkColumn(1.0, 0.0)]
    monkeypatch.setattr(network_path, "_COLUMNS", columns)
    problem, module = overlapping("max f1", weights=weights), make()
    ((plain, weighted),) = cross_entropy_models([problem], module)
    ends = [plain[-1], *weighted[-2:]]
    for column, found in zip(columns, ends, strict=True):
        alone = copy.deepcopy(module)
        run = LossTraining(
            CrossEntropy(column.balance), column.ridge, 2, 4, "adam", batch_size=None
        ).prepare(problem, alone)
        run.advance(1)
        run.advance(2)
        for name, value in alone.named_parameters():
            torch.testing.assert_close(found.weights[name], value.detach(), rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("few_steps")
def test_models_by_kind_with_their_own_points():
    problem, module = overlapping(PRECISION), small_mlp()
    before = copy.deepcopy(module.state_dict())
    ((plain, weighted),) = cross_entropy_models([problem], module)
    assert [m.name for m in plain] == [
        "as given",
        "ordinary, ridge 100, 1 of 2",
        "ordinary, ridge 1, 1 of 2",
        "ordinary, ridge 100, 2 of 2",
        "ordinary, ridge 1, 2 of 2",
    ]
    assert [m.name for m in weighted] == [
        f"ordinary, balance 0.5, ridge 1, {i} of 2" for i in (1, 2)
    ]
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    for model in plain + weighted:
        module.load_state_dict(model.weights)
        assert problem.operating_point(module) == model.point


@pytest.mark.usefixtures("few_steps")
def test_several_goals_share_the_training():
    problem = overlapping(PRECISION)
    other = problem.for_goal(overlapping(RECALL).goal)
    one, two = cross_entropy_models([problem, other], small_mlp())
    for a, b in zip(chain(*one), chain(*two), strict=True):
        assert a.name == b.name
        assert a.point.goal == problem.goal
        assert b.point.goal == other.goal
        assert all(torch.equal(a.weights[k], b.weights[k]) for k in a.weights)


@pytest.mark.usefixtures("few_steps")
def test_only_the_wanted_copy_is_trained():
    problem = overlapping(PRECISION)
    wanted = "goal-trained from ordinary, balance 0.5, ridge 1, 2 of 2; relaxed"
    torch.manual_seed(1)
    ((given,), weighted), *_ = cross_entropy_models([problem], small_mlp(), wanted)
    assert given.name == "as given"
    assert [m.name for m in weighted] == [
        f"ordinary, balance 0.5, ridge 1, {i} of 2" for i in (1, 2)
    ]


def test_a_thorough_training_fits_the_training_rows_more_closely(monkeypatch):
    monkeypatch.setattr(network_path, "_EVALUATIONS", 2)
    problem = overlapping("max f1")
    best = {}
    for thorough in (False, True):
        torch.manual_seed(0)
        (kinds,) = cross_entropy_models([problem], small_mlp(), thorough=thorough)
        best[thorough] = max(m.point.f1 for kind in kinds for m in kind)
    assert best[True] > best[False]


@pytest.mark.usefixtures("few_steps")
def test_diverged_copies_are_left_out(monkeypatch):
    monkeypatch.setattr(network_path, "_RATE", 1e200)
    (kinds,) = cross_entropy_models([overlapping("max f1")], small_mlp())
    assert [m.name for kind in kinds for m in kind] == ["as given"]


@pytest.mark.usefixtures("few_steps")
def test_batches_do_not_depend_on_what_is_left_over(monkeypatch):
    monkeypatch.setattr(network_path, "_BATCH", 50)  # three batches of 40 of 121 rows
    problem = overlapping("max f1", n=121)
    ((plain, weighted),) = cross_entropy_models([problem], small_mlp())
    assert all(torch.isfinite(w).all() for m in plain + weighted for w in m.weights.values())


def test_one_class_is_an_error():
    X = torch.randn(20, 3, dtype=torch.float64)
    problem = make_problem(X, torch.ones(20, dtype=torch.bool), "max f1")
    with pytest.raises(SetpointError, match="no negative"):
        cross_entropy_models([problem], small_mlp())
