import numpy as np
import pytest
import torch
from problems import overlapping

from setpoint import Goal
from setpoint.training import Projected
from setpoint.training.descent import Counts, Descent, WorkingCounts, take_steps
from setpoint.training.linear_steps import take_linear_steps
from setpoint.training.several_goals import SeveralGoalsDescent
from setpoint.training.working_set import near

FLOOR = "max recall s.t. precision >= 0.7"


def descent_of(problem, parts=None, gamma=(0.1, 0.1, 0.1, 0.1), proximity=(0.0, 1.0, 0.0, 0.5)):
    module = torch.nn.Linear(3, 1).double()
    generator = torch.Generator().manual_seed(1)
    starts = [
        {
            "weight": torch.randn(1, 3, generator=generator),
            "bias": torch.randn(1, generator=generator),
        }
        for _ in gamma
    ]
    totals = float(problem.sample_weight[problem.positive].sum())
    rest = float(problem.sample_weight.sum()) - totals
    solver = Projected().settle(problem, module)
    arguments = (solver, (totals, rest), module, starts, proximity, gamma, 0.1, 60)
    return (
        Descent(problem.goal, *arguments)
        if parts is None
        else SeveralGoalsDescent(parts, *arguments)
    )


def after(steps_of, problem, size, *, blocks=(6, 6), **settings):
    torch.manual_seed(0)
    descent = descent_of(problem, **settings)
    for steps in blocks:
        scores = descent.bundle.scores(problem.X)
        above = scores - descent.bundle.origins[:, None]
        weights = (above > 0) * problem.sample_weight
        at = Counts(
            *(weights[:, own].sum(1).numpy() for own in (problem.positive, ~problem.positive))
        )
        chosen = near(problem.positive, problem.sample_weight, above.abs().amin(0), size)
        batch = descent.batch(problem.X[chosen.rows], chosen.sign, chosen.weight)
        steps_of(descent, batch, WorkingCounts(descent, batch, chosen, at), steps)
    return descent


def assert_equal(problem, size=10_000, **settings):
    # After many steps a row at a margin of 0, up to rounding, falls on either side.
    theirs, ours = (
        after(way, problem, size, **settings) for way in (take_steps, take_linear_steps)
    )
    assert ours.step_count == theirs.step_count
    assert torch.allclose(ours.bundle.matrix, theirs.bundle.matrix, atol=2e-3)
    assert torch.allclose(ours.bundle.origins, theirs.bundle.origins, atol=2e-3)
    assert ours.multipliers == pytest.approx(theirs.multipliers, rel=1e-2)
    states = [d.state_dict()["optimizer"]["state"] for d in (ours, theirs)]
    for key in (0, 1):
        assert float(states[0][key]["step"]) == float(states[1][key]["step"])
        for name in ("exp_avg", "exp_avg_sq"):
            a, b = (state[key][name] for state in states)
            assert torch.allclose(a, b, rtol=0.05, atol=2e-3)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("goal", [FLOOR, "max f1", "max mcc", "max gmean s.t. recall >= 0.8"])
def test_steps_are_those_of_the_descent(goal, weights):
    assert_equal(overlapping(goal, n=400, weights=weights))


def test_on_a_working_set_too():
    assert_equal(overlapping(FLOOR, n=2000), size=300)


def test_models_may_have_different_gammas():
    assert_equal(overlapping(FLOOR, n=400), gamma=(0.1, 0.01, 0.1, 0.5))


def test_no_proximity():
    assert_equal(overlapping(FLOOR, n=400), proximity=(0.0, 0.0, 0.0, 0.0))


def test_models_may_have_different_goals():
    goals = [Goal.parse(FLOOR), Goal.parse("max f1")]
    parts = [(goals[0], slice(0, 3)), (goals[1], slice(3, 4))]
    assert_equal(overlapping(FLOOR, n=400), parts=parts)


def test_a_restored_descent_continues():
    problem = overlapping(FLOOR, n=400)
    whole = after(take_linear_steps, problem, 10_000)
    half = after(take_linear_steps, problem, 10_000, blocks=(6,))
    restored = descent_of(problem)
    restored.load_state_dict(half.state_dict())
    scores = restored.bundle.scores(problem.X) - restored.bundle.origins[:, None]
    at = Counts(np.zeros(len(scores)), np.zeros(len(scores)))
    chosen = near(problem.positive, problem.sample_weight, scores.abs().amin(0), 10_000)
    batch = restored.batch(problem.X[chosen.rows], chosen.sign, chosen.weight)
    take_linear_steps(restored, batch, WorkingCounts(restored, batch, chosen, at), 6)
    assert torch.equal(restored.bundle.matrix, whole.bundle.matrix)


def test_a_state_written_before_the_first_step_is_complete_after_it():
    problem = overlapping(FLOOR, n=400)
    descent = descent_of(problem)
    assert descent.state_dict()["optimizer"]["state"] == {}
    scores = descent.bundle.scores(problem.X) - descent.bundle.origins[:, None]
    at = Counts(np.zeros(len(scores)), np.zeros(len(scores)))
    chosen = near(problem.positive, problem.sample_weight, scores.abs().amin(0), 10_000)
    batch = descent.batch(problem.X[chosen.rows], chosen.sign, chosen.weight)
    take_linear_steps(descent, batch, WorkingCounts(descent, batch, chosen, at), 5)
    state = descent.state_dict()["optimizer"]["state"]
    assert [float(state[k]["step"]) for k in (0, 1)] == [5.0, 5.0]
