"""Goals that name amounts, segments and periods, on a GPU: by the steps of the host's way."""

import numpy as np
import pytest
import torch
from problems import TALLIED, tallied

from setpoint import ExactPenalty, Goal, SetpointClassifier
from setpoint.estimators.fitting import moved
from setpoint.thresholds.histogram import ScoreHistogram
from setpoint.training import Lifted, Projected, Stochastic
from setpoint.training.gpu import computable, exact_points
from setpoint.training.lifted import AutogradSteps
from setpoint.training.models import build

QUICK = Projected(outer_iterations=3, inner_iterations=20, restarts=0, line_search=0)
FEW = Stochastic(outer_iterations=3, inner_iterations=20, batch_size=500, rows=2000, restarts=0)


def kind(solver):
    return type(solver).__name__


def on_both(goal, **given):
    here = tallied(goal, n=2000, dtype=torch.float32, **given)
    return here, moved(here, torch.device("cuda"))


@pytest.mark.parametrize("goal", TALLIED)
def test_no_shortcut_is_taken(goal):
    _, there = on_both(goal)
    assert there.factors.is_cuda
    assert not computable(there.goal, there.X)
    logits = torch.randn(2, len(there.X), device="cuda")
    assert exact_points(there, logits, there.goal) is None
    run = Lifted().prepare(there, build("linear", 3).cuda())
    assert isinstance(run._steps, AutogradSteps)
    assert run._steps._recorded._eager


def test_constraints_relative_to_their_level_are_computed_on_the_host():
    like = torch.zeros(1, device="cuda")
    assert computable(Goal.parse("min cost(fp=5, fn=100) s.t. recall >= 0.5"), like)
    assert not computable(Goal.parse("max recall s.t. cost(fp=5, fn=100) <= 4"), like)


@pytest.mark.parametrize("goal", TALLIED)
def test_points_are_those_of_the_cpu(goal):
    here, there = on_both(goal, weights=True)
    logits = torch.randn(3, len(here.X)) + 2.0 * here.positive
    for ours, theirs in zip(here.points_of(logits), there.points_of(logits.cuda()), strict=True):
        assert ours == theirs
    for ours, theirs in zip(here.totals, there.totals, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    ours, theirs = here.row_prices(), there.row_prices()
    assert (ours is None) == (theirs is None)
    if ours is not None:
        torch.testing.assert_close(theirs.cpu(), ours, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("goal", TALLIED)
def test_the_penalty_and_its_slopes_are_those_of_the_cpu(goal):
    here, there = on_both(goal, weights=True)
    generator = torch.Generator().manual_seed(0)
    s = torch.rand(len(here.X), generator=generator)
    z = 2 * torch.randn(len(here.X), generator=generator)
    values, slopes = [], []
    for problem in (here, there):
        penalty = ExactPenalty(
            problem.goal, problem.positive, problem.sample_weight, factors=problem.factors, lam=3.0
        )
        with torch.no_grad():
            penalty.s.copy_(s)
        logits = z.clone().to(problem.X.device).requires_grad_()
        penalty(logits).backward()
        values.append(float(penalty(logits).detach()))
        slopes.append([g.cpu() for g in (logits.grad, penalty.s.grad)])
        closed = [g.cpu() for g in penalty.slopes(logits.detach())]
        for ours, theirs in zip(closed, slopes[-1], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)
    assert values[0] == pytest.approx(values[1], rel=1e-4)
    for ours, theirs in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("goal", [TALLIED[0], TALLIED[3]])
def test_histograms_are_those_of_the_cpu(goal):
    here, _ = on_both(goal)
    scores = torch.randn(2, len(here.X)) + here.positive
    found = []
    for device in ("cpu", "cuda"):
        histogram = ScoreHistogram(2, len(here.goal.tallies))
        columns = [x.to(device) for x in (scores, here.positive, here.sample_weight, here.factors)]
        histogram.add(*columns)
        histogram.all_reduce()
        found.append(histogram.best(here.goal))
    for ours, theirs in zip(*found, strict=True):
        assert ours.threshold == theirs.threshold
        np.testing.assert_allclose(ours.tp, theirs.tp, rtol=1e-9)


@pytest.mark.parametrize(
    ("goal", "model"), [*((goal, "linear") for goal in TALLIED), (TALLIED[0], "mlp")]
)
@pytest.mark.parametrize("solver", [QUICK, Lifted(outer_iterations=5), FEW], ids=kind)
def test_a_gpu_reaches_what_a_cpu_reaches(solver, model, goal):
    rng = np.random.default_rng(0)
    n = 1500
    y = rng.random(n) < 0.2
    X = (rng.normal(size=(n, 4)) + y[:, None]).astype(np.float32)
    named = {
        "amounts": {"amount": rng.lognormal(3, 1, n)},
        "segments": {"region": rng.choice(["north", "south", "east"], n, p=[0.6, 0.3, 0.1])},
        "times": rng.integers(0, 20, n),
    }
    here, there = (
        SetpointClassifier(
            goal, model=model, solver=solver, validation=None, random_state=0, device=device
        ).fit(X, y, **named)
        for device in ("cpu", "cuda")
    )
    assert {v.device.type for v in there.module_.state_dict().values()} == {"cpu"}
    assert there.operating_point_.feasible == here.operating_point_.feasible
    reached = [clf.operating_point_.objective for clf in (here, there)]
    assert reached[0] == pytest.approx(reached[1], rel=0.1, abs=0.05)
