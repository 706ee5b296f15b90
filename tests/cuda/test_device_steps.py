"""Steps that stay on the device reach what steps with prices from the host reach."""

import numpy as np
import pytest
import torch

from setpoint import Goal
from setpoint.training import Projected, make_problem, projected, solve, solve_goals
from setpoint.training.descent import take_steps
from setpoint.training.gpu.steps import take_device_steps
from setpoint.training.models import build
from setpoint.training.several_goals import SeveralGoalsRun

GOALS = [
    "max recall s.t. precision >= 0.9",
    "max precision s.t. recall >= 0.8",
    "max f1",
    "max recall s.t. fpr <= 0.05, precision >= 0.5",
    "min alarm_rate s.t. recall >= 0.7",
]


def problem(goal, n=3000, d=5):
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.2
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, 0] += 1.5 * y
    weight = torch.tensor(rng.integers(1, 4, n), device="cuda")
    X, y = torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda")
    return make_problem(X, y, goal, weight)


def advanced(goal, kind, **changes):
    """Return a run after two outer iterations of ten steps."""
    torch.manual_seed(0)
    given = problem(goal)
    solver = Projected(
        start="given", outer_iterations=4, inner_iterations=10, line_search=0, **changes
    )
    run = solver.prepare(given, build(kind, 5).cuda())
    run.start()
    for iteration in (1, 2):
        run.advance(iteration)
    return run


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_the_same_steps(goal, kind, monkeypatch):
    there = advanced(goal, kind)
    assert there._take_steps is take_device_steps
    monkeypatch.setattr(projected, "projected_steps", lambda _: None)
    here = advanced(goal, kind)
    assert there._descent.step_count == here._descent.step_count == 20
    np.testing.assert_allclose(
        there._descent.multipliers, here._descent.multipliers, rtol=1e-3, atol=1e-6
    )
    for a, b in zip(there._bundle.parameters, here._bundle.parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_custom_metric_is_computed_on_the_host():
    run = advanced("max gmean", "linear")
    assert run._take_steps is take_steps


def test_a_whole_training_on_the_device():
    goal = "max recall s.t. precision >= 0.8"
    solution = solve(problem(goal), build("linear", 5).cuda(), Projected())
    assert solution.operating_point.feasible
    assert solution.operating_point.objective >= solution.history[0].objective


def advanced_for_all(kind):
    """Return a run for all goals at once, after two outer iterations."""
    torch.manual_seed(0)
    solver = Projected(start="given", outer_iterations=4, inner_iterations=10, line_search=0)
    run = SeveralGoalsRun(solver, [problem(goal) for goal in GOALS], build(kind, 5).cuda())
    run.start()
    for iteration in (1, 2):
        run.advance(iteration)
    return run


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_each_model_has_a_goal_of_its_own(kind, monkeypatch):
    there = advanced_for_all(kind)
    assert there._take_steps is take_device_steps
    assert there._descent.multipliers.shape[0] == 2  # two constraints at most
    monkeypatch.setattr(projected, "projected_steps", lambda _: None)
    here = advanced_for_all(kind)
    np.testing.assert_allclose(
        there._descent.multipliers, here._descent.multipliers, rtol=1e-3, atol=1e-6
    )
    for a, b in zip(there._bundle.parameters, here._bundle.parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_a_goal_without_kernels_moves_all_steps_to_the_host():
    problems = [problem("max f1"), problem("max gmean")]
    run = SeveralGoalsRun(Projected(start="given"), problems, build("linear", 5).cuda())
    run.start()
    assert run._take_steps is take_steps


def test_several_goals_get_the_models_that_they_get_alone():
    goals = [Goal.parse(goal) for goal in GOALS]
    solver = Projected(outer_iterations=5, line_search=0)
    found = solve_goals(problem("max f1"), goals, build("linear", 5).cuda(), solver)
    for goal, one in zip(goals, found, strict=True):
        own = solve(problem(goal), build("linear", 5).cuda(), solver).operating_point
        assert one.operating_point.violation == own.violation == 0
        assert one.operating_point.objective == pytest.approx(own.objective, abs=0.01)
