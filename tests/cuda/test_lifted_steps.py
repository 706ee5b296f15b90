"""The kernels of the lifted solver reach what autograd's steps reach."""

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


def problem(goal):
    here = overlapping(goal, n=3000, d=5, dtype=torch.float32, weights=True)
    return make_problem(here.X.cuda(), here.positive.cuda(), goal, here.sample_weight.cuda())


def advanced(goal, kind, form="auto", advances=2):
    torch.manual_seed(0)
    solver = Lifted(start="given", outer_iterations=4, inner_iterations=10, form=form)
    run = solver.prepare(problem(goal), build(kind, 5).cuda())
    run.start()
    for iteration in range(1, advances + 1):
        run.advance(iteration)
        run.models()
    return run


@pytest.mark.parametrize("form", ["auto", "equality"])
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_the_same_steps(goal, kind, form, monkeypatch):
    there = advanced(goal, kind, form)
    assert isinstance(there._steps, LiftedDeviceSteps)
    monkeypatch.setattr(lifted, "steps_for", AutogradSteps)
    here = advanced(goal, kind, form)
    assert (there.penalty.s - here.penalty.s).abs().mean() < 1e-3
    for a, b in zip(there.module.parameters(), here.module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


def test_the_same_result_again():
    a, b = advanced(GOALS[0], "linear", advances=4), advanced(GOALS[0], "linear", advances=4)
    assert torch.equal(a.penalty.s, b.penalty.s)
    assert torch.equal(a.module.weight, b.module.weight)


def test_a_custom_metric_needs_autograd():
    assert isinstance(advanced("max gmean", "linear", "equality")._steps, AutogradSteps)
