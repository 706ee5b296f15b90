"""The toy example of the paper's Section "Critical issues of approximation-based methods".

P(y=1) = 0.2, x | y=1 ~ U[-0.5, 2], x | y=0 ~ U[-2, 0.5], 500 points, classifier 1{x > t}.
"""

import numpy as np
import pytest
import torch

from setpoint import choose_threshold
from setpoint.goals.metrics import metric
from setpoint.method.reformulation import lifted_counts, sigmoid_surrogate


@pytest.fixture(scope="module")
def toy():
    return draw(0)


def draw(seed):
    rng = np.random.default_rng(seed)
    y = rng.random(500) < 0.2
    x = np.where(y, rng.uniform(-0.5, 2, 500), rng.uniform(-2, 0.5, 500))
    return torch.tensor(x), torch.tensor(y)


T_GRID = np.linspace(-2, 2, 401)


def curve(toy, name, temperature=None):
    """The metric against t: true, or with a sigmoid of that temperature for the indicator."""
    x, y = toy
    P, N = float(y.sum()), float((~y).sum())
    values = []
    for t in T_GRID:
        s = (x > t).double() if temperature is None else sigmoid_surrogate(x, t, temperature)
        values.append(float(metric(name).value(*lifted_counts(s, y), P, N)))
    return np.array(values)


@pytest.mark.parametrize("name", ["precision", "recall", "f1"])
def test_discrepancy_is_large_and_shrinks_with_temperature(toy, name):
    true = curve(toy, name)
    gaps = [np.abs(curve(toy, name, T) - true).max() for T in (1, 2, 10)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[1] > 0.15


def test_a_precision_floor_of_09_becomes_infeasible(toy):
    """With T = 2 no t reaches precision 0.8, while the true precision reaches 1."""
    assert curve(toy, "precision", 2).max() < 0.8
    assert curve(toy, "precision").max() == 1.0


def test_a_precision_floor_of_06_becomes_far_too_tight(toy):
    """With T = 2 every t whose surrogate precision is >= 0.6 has a true precision far above."""
    allowed = curve(toy, "precision", 2) >= 0.6
    truly_allowed = curve(toy, "precision") >= 0.6
    assert 0 < allowed.sum() < truly_allowed.sum()
    assert curve(toy, "precision")[allowed].min() > 0.9


def test_the_surrogates_best_f1_threshold_is_not_the_best():
    """The loss in true F1 at the surrogate's best t, averaged over 12 draws."""
    lost = {1: [], 2: [], 10: []}
    for seed in range(12):
        x, y = sample = draw(seed)
        true = curve(sample, "f1")
        best = choose_threshold(y.numpy(), x.numpy(), "max f1").f1
        assert best >= true.max()
        for T, losses in lost.items():
            losses.append(best - true[curve(sample, "f1", T).argmax()])
    mean = {T: np.mean(losses) for T, losses in lost.items()}
    assert mean[1] > 0.08
    assert mean[2] > 0.04
    assert mean[10] < mean[2] < mean[1]


def test_tight_surrogates_have_vanishing_gradients(toy):
    """With T = 10 the derivative is below 1e-3 of its peak on most of the line."""
    t = torch.linspace(-2, 2, 401, dtype=torch.float64, requires_grad=True)

    def vanished_fraction(temperature):
        (gradient,) = torch.autograd.grad(
            sigmoid_surrogate(torch.zeros_like(t), t, temperature).sum(), t
        )
        size = gradient.abs()
        return float((size < 1e-3 * size.max()).double().mean())

    assert vanished_fraction(1) == 0.0
    assert vanished_fraction(10) > 0.5
