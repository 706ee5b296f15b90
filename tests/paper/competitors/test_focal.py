import math

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from setpoint.paper.competitors import Focal
from setpoint.training import CrossEntropy


@pytest.mark.parametrize("alpha", [0.25, 0.9])
def test_without_gamma_it_is_cross_entropy_weighted_by_alpha(alpha, rows_of, sample):
    logits, positive, weight = sample
    by_class = torch.where(positive, alpha, 1 - alpha)
    sums = binary_cross_entropy_with_logits(
        logits, positive.double(), weight * by_class, reduction="sum"
    )
    found = Focal(gamma=0.0, alpha=alpha)(logits, rows_of(positive, weight))
    assert torch.allclose(found, sums / weight.sum(), rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_the_definition_row_by_row(gamma, rows_of, sample):
    """FL(p_t) = -alpha_t (1 - p_t)^gamma log(p_t), with nothing but the math module."""
    logits, positive, weight = sample
    total = 0.0
    for z, y, w in zip(logits.tolist(), positive.tolist(), weight.tolist(), strict=True):
        p = 1 / (1 + math.exp(-z))
        p_t = p if y else 1 - p
        total -= w * (0.3 if y else 0.7) * (1 - p_t) ** gamma * math.log(p_t)
    found = Focal(gamma, alpha=0.3)(logits, rows_of(positive, weight))
    assert float(found) == pytest.approx(total / float(weight.sum()), rel=1e-10)


def test_the_usual_recipe_of_libraries(rows_of, sample):
    """Cross-entropy times (1 - p_t)^gamma times alpha_t, as detection libraries compute it."""
    logits, positive, _ = sample
    y, p = positive.double(), torch.sigmoid(logits)
    p_t = p * y + (1 - p) * (1 - y)
    alpha_t = 0.25 * y + 0.75 * (1 - y)
    ce = binary_cross_entropy_with_logits(logits, y, reduction="none")
    expected = (alpha_t * ce * (1 - p_t) ** 2).mean()
    assert torch.allclose(Focal()(logits, rows_of(positive)), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("p", "times", "within"), [(0.9, 100, 1e-9), (0.968, 1000, 0.03), (0.5, 4, 1e-9)]
)
def test_the_papers_own_examples(p, times, within, rows_of):
    """Section 3.2: with gamma = 2, p_t = 0.9 costs 100 times less than with cross-entropy.

    And p_t ~ 0.968 about 1000 times less, p_t <= 0.5 at most 4 times less.
    """
    rows = rows_of([1, 1])
    logits = torch.full((2,), math.log(p / (1 - p)), dtype=torch.float64)
    ordinary = CrossEntropy()(logits, rows)
    focal = Focal(gamma=2.0, alpha=0.5)(logits, rows) / 0.5
    assert float(ordinary / focal) == pytest.approx(times, rel=within)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_the_slope_is_that_of_the_papers_appendix(gamma, rows_of, sample):
    """Appendix B: dFL/dx = y (1 - p_t)^gamma (gamma p_t log(p_t) + p_t - 1), y = +-1."""
    logits, positive, _ = sample
    logits.requires_grad_()
    Focal(gamma, alpha=0.5)(logits, rows_of(positive)).backward()
    z = logits.detach()
    sign = torch.where(positive, 1.0, -1.0)
    p_t = torch.sigmoid(sign * z)
    slope = sign * (1 - p_t) ** gamma * (gamma * p_t * p_t.log() + p_t - 1)
    assert torch.allclose(logits.grad, 0.5 * slope / len(z), rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("size", [30.0, 200.0, 1e30])
def test_extreme_logits_have_finite_slopes_in_float32(gamma, size, rows_of):
    """(1 - p)^0.5 as a power has an infinite slope where p rounds to 1."""
    logits = torch.tensor([-size, size, -size, size], requires_grad=True)
    loss = Focal(gamma)(logits, rows_of([1, 0, 0, 1], dtype=torch.float32))
    loss.backward()
    assert loss.isfinite()
    # wrong rows pull with their whole weight, right ones (almost) not at all
    expected = torch.tensor([-0.25, 0.75, 0.0, 0.0]) / 4
    assert torch.allclose(logits.grad, expected, atol=1e-6)


@pytest.mark.parametrize(
    "parameters",
    [
        {"gamma": -0.1},
        {"gamma": float("nan")},
        {"gamma": float("inf")},
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": float("nan")},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match="gamma must be >= 0 and alpha between 0 and 1"):
        Focal(**parameters)
