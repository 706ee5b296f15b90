"""The kernels of the lifted solver reach what autograd's steps reach."""

import copy
from dataclasses import replace

import pytest
import torch
from problems import overlapping

from setpoint.training import Lifted, lifted, make_problem
from setpoint.training.gpu.steps import LiftedDeviceSteps
from setpoint.training.lifted import AutogradSteps
from setpoint.training.models import build

GOALS = [
    "max recall s.t. precision >= 0.9",
    "max precision s.t. recall >= 0.8",
    "max f1",
    "max recall s.t. fpr <= 0.05, precision >= 0.5",
    "min alarm_rate s.t. recall >= 0.7",
]
PAPER = Lifted.printed(start="given", outer_iterations=4, inner_iterations=10, patience=None)
OURS = Lifted(start="given", outer_iterations=4, inner_iterations=10)


def problem(goal):
    here = overlapping(goal, n=3000, d=5, dtype=torch.float32, weights=True)
    return make_problem(here.X.cuda(), here.positive.cuda(), goal, here.sample_weight.cuda())


def prepared(solver, goal, kind="linear"):
    torch.manual_seed(0)
    run = solver.prepare(problem(goal), build(kind, 5).cuda())
    run.start()
    return run


def advanced(solver, goal, kind="linear", advances=2):
    run = prepared(solver, goal, kind)
    for iteration in range(1, advances + 1):
        run.advance(iteration)
        run.models()
    return run


def compare(there, here, atol=1e-3):
    assert (there.penalty.s - here.penalty.s).abs().mean() < 1e-3
    for a, b in zip(there.module.parameters(), here.module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=atol)


@pytest.mark.parametrize("form", ["auto", "equality"])
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scaling": "paper"},
        {"scaling": "mean"},
        {"s_step": "adam", "lr_s": 0.01},
        {"cosine": "subproblem"},
    ],
    ids=str,
)
def test_the_same_steps(changes, goal, kind, form, monkeypatch):
    solver = replace(OURS, form=form, **changes)
    there = advanced(solver, goal, kind)
    assert isinstance(there._steps, LiftedDeviceSteps)
    monkeypatch.setattr(lifted, "steps_for", AutogradSteps)
    compare(there, advanced(solver, goal, kind))


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("patience", [None, 10])
def test_the_same_steps_with_the_papers_constants(goal, patience, monkeypatch):
    solver = replace(PAPER, patience=patience)
    there = advanced(solver, goal)
    assert isinstance(there._steps, LiftedDeviceSteps)
    monkeypatch.setattr(lifted, "steps_for", AutogradSteps)
    compare(there, advanced(solver, goal))


def test_adam_continues_in_the_next_subproblem():
    run = advanced(PAPER, GOALS[0], advances=3)
    for parameter in (run.penalty.s, *run.module.parameters()):
        assert float(run._optimizer.state[parameter]["step"]) == 30.0


@pytest.mark.parametrize("scaling", ["paper", "per_positive", "mean"])
@pytest.mark.parametrize("form", ["inequality", "equality"])
@pytest.mark.parametrize("goal", GOALS[:4])
def test_the_value_of_F(goal, form, scaling):
    """After a run of one step the kernels hold F of its start, in parts."""
    solver = replace(PAPER, inner_iterations=1, patience=5, form=form, scaling=scaling)
    run = prepared(solver, goal)
    run._begin_subproblem(1, run._point)
    with torch.no_grad():
        expected = float(run.penalty(run.module(run.problem.X)))
    run._steps.run(0.0, 1)
    value = float(run._steps._value[0] + run._steps._parts.sum())
    assert value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("s_step", ["adam", "gradient"])
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_patience_ends_at_the_same_step(patience, s_step, monkeypatch):
    """With steps this large F soon rises."""
    solver = replace(PAPER, inner_iterations=1000, patience=patience, lr=1.0, s_step=s_step)
    there = advanced(solver, GOALS[0], advances=1)
    monkeypatch.setattr(lifted, "steps_for", AutogradSteps)
    here = advanced(solver, GOALS[0], advances=1)
    taken = [float(run._optimizer.state[run.module.weight]["step"].cpu()) for run in (there, here)]
    assert taken[0] == taken[1] < 1000
    compare(there, here, atol=1e-2)


def test_nothing_changes_after_the_end():
    """Patience ends the subproblem long before the host looks, after 200 steps."""
    solver = replace(PAPER, inner_iterations=400, patience=1, lr=1.0)
    run = prepared(solver, GOALS[0])
    run.advance(1)
    assert float(run._steps._stopped) == 1.0
    held = [p.detach().clone() for p in (run.penalty.s, *run.module.parameters())]
    moments = {name: value.clone() for name, value in run._optimizer.state[run.penalty.s].items()}
    for _ in range(3):
        run._steps._step()
    for before, now in zip(held, (run.penalty.s, *run.module.parameters()), strict=True):
        assert torch.equal(before, now)
    for name, value in run._optimizer.state[run.penalty.s].items():
        assert torch.equal(moments[name], value)


def test_the_state_of_s_belongs_to_a_checkpoint():
    run = advanced(PAPER, GOALS[0])
    state = copy.deepcopy(run.state_dict())
    weights = {name: value.clone() for name, value in run.module.state_dict().items()}
    again = prepared(PAPER, GOALS[0])
    again.module.load_state_dict(weights)
    again.load_state_dict(state)
    run.advance(3)
    again.advance(3)
    assert torch.equal(run.penalty.s, again.penalty.s)
    assert torch.equal(run.module.weight, again.module.weight)


@pytest.mark.parametrize("solver", [OURS, replace(PAPER, patience=10)], ids=["ours", "paper"])
def test_the_same_result_again(solver):
    a, b = (advanced(solver, GOALS[0], advances=4) for _ in range(2))
    assert torch.equal(a.penalty.s, b.penalty.s)
    assert torch.equal(a.module.weight, b.module.weight)


@pytest.mark.parametrize(
    ("solver", "goal"),
    [
        (replace(OURS, form="equality"), "max gmean"),
        (replace(PAPER, threshold="learned"), GOALS[0]),
        (replace(PAPER, form="smooth"), GOALS[0]),
    ],
)
def test_what_needs_autograd(solver, goal):
    assert isinstance(advanced(solver, goal)._steps, AutogradSteps)
