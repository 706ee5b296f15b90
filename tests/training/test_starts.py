"""Which models are trained side by side."""

from types import SimpleNamespace

import pytest
import torch

from setpoint import Goal
from setpoint.training import Projected, Stochastic, TrainedModel
from setpoint.training.ordinary import start_of, variants_from

F1, FLOOR = Goal.parse("max f1"), Goal.parse("max recall s.t. precision >= 0.7")


def contender(name="logistic regression, ridge 10", d=400):
    generator = torch.Generator().manual_seed(1)
    weights = {"weight": torch.randn(1, d, generator=generator), "bias": torch.ones(1)}
    return TrainedModel(name, None, weights)


def settings(**given):
    usual = {"proximity": (0.0, 0.1, 1.0), "restarts": 2, "spread": 1.0, "relaxed": True}
    return SimpleNamespace(**{**usual, **given})


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


@pytest.mark.parametrize(
    ("module", "goal", "given", "expected"),
    [
        (torch.nn.Linear(400, 1), F1, {}, 5),  # nothing to relax
        (torch.nn.Linear(400, 1), FLOOR, {"relaxed": False}, 5),
        (torch.nn.Sequential(torch.nn.Linear(400, 1)), FLOOR, {}, 4),  # no restarts
        (torch.nn.Linear(400, 1), F1, {"restarts": None, "proximity": (0.0,)}, 1),
    ],
)
def test_what_is_left_out(module, goal, given, expected):
    start = contender()
    assert len(variants_from(settings(**given), module, goal, [start], [start])) == expected


@pytest.mark.parametrize("solver", [Stochastic(), Projected()])
def test_solvers_say_what_is_needed(solver):
    start = contender()
    assert variants_from(solver, torch.nn.Linear(400, 1), FLOOR, [start], [start])


def test_restarts_are_disturbed_more_and_more():
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
