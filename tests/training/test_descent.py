"""Steps on the capped loss."""

import copy
import io
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from setpoint import Goal
from setpoint.training.descent import Counts, Descent, usual_rate

GOAL = Goal.parse("max recall s.t. precision >= 0.8")
CONSTANTS = SimpleNamespace(lam0=2.0, lam_max=200.0, dual_rate=0.1)


def rows(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    sign = torch.where(torch.rand(n, generator=generator) < 0.3, 1.0, -1.0)
    X = torch.randn(n, 3, generator=generator) + sign[:, None]
    weight = 1 + torch.rand(n, generator=generator).double()
    return X, sign, weight


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def starts(module, k=2):
    generator = torch.Generator().manual_seed(3)
    own = module.state_dict()
    return [
        {name: torch.randn(v.shape, generator=generator) for name, v in own.items()}
        for _ in range(k)
    ]


def descent(module=None, goal=GOAL, proximity=(0.0, 0.0), lr=0.05, steps=10, constants=CONSTANTS):
    module = torch.nn.Linear(3, 1) if module is None else module
    begun = starts(module, len(proximity))
    gamma = [0.1, 0.01][: len(proximity)]
    return Descent(goal, constants, (20.0, 40.0), module, begun, list(proximity), gamma, lr, steps)


def counts(k=2, tp=10.0, fp=5.0):
    return Counts(np.full(k, tp), np.full(k, fp))


@pytest.mark.parametrize("module", [torch.nn.Linear(3, 1), mlp()], ids=["linear", "mlp"])
def test_gradients_are_those_of_the_loss(module):
    run = descent(module)
    X, sign, weight = rows()
    batch = run.batch(X, sign, weight)
    run.push(batch, run.margins(batch), counts())
    share = weight / run.P

    def losses():
        return run.losses(run.margins(batch), batch.classes, share, counts()).sum()

    for parameter in run.bundle.parameters:
        flat, slope = parameter.detach().reshape(-1), parameter.grad.reshape(-1)
        for i in range(len(flat)):
            with torch.no_grad():
                around = []
                for step in (1e-3, -2e-3):
                    flat[i] += step
                    around.append(float(losses()))
                flat[i] += 1e-3
            assert float(slope[i]) == pytest.approx((around[0] - around[1]) / 2e-3, abs=0.02)


def test_lambda_grows_and_the_rate_falls_on_a_cosine():
    run = descent(steps=4)
    X, sign, weight = rows()
    seen = []
    for _ in range(4):
        batch = run.batch(X, sign, weight)
        run.push(batch, run.margins(batch), counts())
        lam = run.lam
        run.step()
        seen.append((lam, run._optimizer.param_groups[0]["lr"]))
    assert [lam for lam, _ in seen] == pytest.approx([2 * 100 ** (i / 4) for i in range(4)])
    expected = [0.05 * (1 + math.cos(math.pi * i / 4)) / 2 for i in range(4)]
    assert [lr for _, lr in seen] == pytest.approx(expected)
    assert run.lam == pytest.approx(200.0)
    assert run.elapsed == 1.0
    assert descent(steps=0).lam == 2.0  # no steps, no division by them


def test_steps_lower_the_loss():
    run = descent(steps=200)
    X, sign, weight = rows()
    constant = counts()

    def loss():
        batch = run.batch(X, sign, weight)
        share = weight / run.P
        return run.losses(run.margins(batch), batch.classes, share, constant).max()

    before = loss()
    for _ in range(30):
        batch = run.batch(X, sign, weight)
        run.push(batch, run.margins(batch), constant)
        run.step()
    run.step_count = 0  # at the same lambda
    assert loss() < before


def test_multipliers_follow_violations():
    run = descent()
    both = Counts(np.array([10.0, 10.0]), np.array([30.0, 0.0]))  # precision 0.25 and 1
    for _ in range(3):
        run.update_multipliers(both)
    broken, kept = run.multipliers[0]
    assert broken == pytest.approx(math.exp(0.3))  # by at most the rate in a step
    assert kept == pytest.approx(math.exp(-0.3))
    for _ in range(500):
        run.update_multipliers(both)
    assert run.multipliers[0].tolist() == [1e3, 1e-3]
    nothing = Counts(np.zeros(2), np.zeros(2))  # precision is 0/0
    run.update_multipliers(nothing)
    assert np.isfinite(run.multipliers).all()


def test_a_broken_constraint_makes_false_positives_dear():
    run = descent()
    few, many = counts(fp=1.0), counts(fp=39.0)
    before = run.prices(many)
    for _ in range(60):
        run.update_multipliers(many)
    after = run.prices(many)
    assert after.shape == (2, 2)
    assert (after[:, 1] / after[:, 0] > before[:, 1] / before[:, 0]).all()
    assert (run.prices(few) <= 1).all()
    assert (run.prices(few) >= 0).all()


@pytest.mark.parametrize("module", [torch.nn.Linear(3, 1), mlp()], ids=["linear", "mlp"])
def test_each_model_has_its_own_proximity(module):
    run = descent(module, proximity=(0.0, 1e4), steps=1000, goal=Goal.parse("max f1"))
    X, sign, weight = rows()
    for _ in range(100):
        batch = run.batch(X, sign, weight)
        run.push(batch, run.margins(batch), counts())
        run.step()
    moved = []
    for k, start in enumerate(starts(module)):
        own = run.bundle.weights(k)
        names = [name for name in start if name.endswith("weight")]
        moved.append(max(float((own[n] - start[n]).abs().max()) for n in names))
    assert moved[0] > 0.3
    assert moved[1] < 0.25


@pytest.mark.parametrize("module", [torch.nn.Linear(3, 1), mlp()], ids=["linear", "mlp"])
def test_a_state_goes_through_a_file_and_goes_on(module):
    def advance(run, n):
        X, sign, weight = rows()
        for _ in range(n):
            batch = run.batch(X, sign, weight)
            run.update_multipliers(counts(fp=30.0))
            run.push(batch, run.margins(batch), counts())
            run.step()

    whole, first = (descent(module, proximity=(0.0, 0.5)) for _ in range(2))
    advance(whole, 6)
    advance(first, 3)
    file = io.BytesIO()
    torch.save(copy.deepcopy(first.state_dict()), file)
    file.seek(0)
    second = descent(module)
    second.load_state_dict(torch.load(file, weights_only=True))
    advance(second, 3)
    for a, b in zip(whole.bundle.parameters, second.bundle.parameters, strict=True):
        assert torch.equal(a, b)
    assert second.lam == whole.lam
    assert second.prices(counts()).tolist() == whole.prices(counts()).tolist()


def test_usual_rates():
    assert usual_rate(torch.nn.Linear(50, 1), 50) == 0.1
    assert usual_rate(torch.nn.Linear(1000, 1), 1000) == pytest.approx(0.01)
    assert usual_rate(mlp(), 3) == 2e-3
