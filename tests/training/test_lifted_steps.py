"""Steps in closed form come to where autograd's steps come to."""

import pytest
import torch
from problems import overlapping

from setpoint import FPOR, FROP, OFOS
from setpoint.paper.competitors.augmented import Augmented
from setpoint.training import Lifted, lifted
from setpoint.training.lifted import AutogradSteps, ClosedSteps
from setpoint.training.models import build


def advanced(solver, goal, kind="linear"):
    """Return a run after three subproblems."""
    torch.manual_seed(0)
    problem = overlapping(goal, weights=True)
    run = solver.prepare(problem, build(kind, 3).double())
    run.start()
    for iteration in (1, 2, 3):
        run.advance(iteration)
        run.models()
    return run


@pytest.mark.parametrize("cosine", ["run", "subproblem"])
@pytest.mark.parametrize("scaling", ["per_positive", "paper"])
@pytest.mark.parametrize(
    ("goal", "kind"),
    [
        (FPOR(0.7), "linear"),
        (FROP(0.8), "mlp"),
        (OFOS(), "linear"),
        ("max mcc s.t. recall >= 0.6", "linear"),
    ],
    ids=str,
)
def test_the_same_steps(goal, kind, scaling, cosine, monkeypatch):
    solver = Lifted(outer_iterations=5, inner_iterations=20, scaling=scaling, cosine=cosine)
    closed = advanced(solver, goal, kind)
    assert isinstance(closed._steps, ClosedSteps)
    monkeypatch.setattr(lifted, "steps_for", AutogradSteps)
    by_autograd = advanced(solver, goal, kind)
    assert isinstance(by_autograd._steps, AutogradSteps)
    torch.testing.assert_close(closed.penalty.s, by_autograd.penalty.s, rtol=1e-6, atol=1e-8)
    for a, b in zip(closed.module.parameters(), by_autograd.module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "solver",
    [
        Lifted(s_step="adam"),
        Lifted(patience=10),
        Lifted(threshold="learned"),
        Lifted(form="smooth"),
        Augmented(),
    ],
)
def test_what_is_left_to_autograd(solver):
    run = solver.prepare(overlapping(OFOS()), build("linear", 3).double())
    assert isinstance(run._steps, AutogradSteps)
