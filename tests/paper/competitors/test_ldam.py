import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from setpoint.paper.competitors import LDAM
from setpoint.training import CrossEntropy


@pytest.mark.parametrize(("P", "N"), [(10, 160), (160, 10), (1, 284_315), (0.5, 8.0)])
def test_margins_are_in_proportion_to_the_fourth_root(P, N):
    of_positives, of_negatives = LDAM(max_margin=0.4).margins(P, N)
    assert max(of_positives, of_negatives) == pytest.approx(0.4)
    assert of_positives / of_negatives == pytest.approx((N / P) ** 0.25)
    assert (of_positives > of_negatives) == (P < N)


def test_margins_by_hand():
    """16 times as many negatives: half the margin."""
    assert LDAM().margins(10, 160) == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_it_is_the_two_class_softmax_with_the_margin_off_the_true_class(scale, rows_of, sample):
    """However the difference z is shared between the two logits of the original."""
    logits, positive, _ = sample
    loss = LDAM(scale=scale)
    margin = torch.tensor([0.5 * (30 / 10) ** -0.25, 0.5], dtype=torch.float64)  # N = 30, P = 10
    target = positive.long()
    for negatives_logit in (torch.zeros_like(logits), torch.cos(7 * logits)):
        both = torch.stack([negatives_logit, negatives_logit + logits], dim=1)
        both[torch.arange(40), target] -= margin[target]
        expected = cross_entropy(scale * both, target)
        assert torch.allclose(loss(logits, rows_of(positive)), expected, rtol=1e-9)


def test_without_margin_and_scale_it_is_cross_entropy(rows_of, sample):
    logits, positive, weight = sample
    rows = rows_of(positive, weight)
    found = LDAM(max_margin=0.0, scale=1.0)(logits, rows)
    assert torch.allclose(found, CrossEntropy()(logits, rows), rtol=1e-12)


@pytest.mark.parametrize("beta", [0.5, 0.99, 0.9999])
@pytest.mark.parametrize(("P", "N"), [(1, 2), (10, 1000), (800, 50)])
def test_weights_are_the_inverse_effective_numbers(beta, P, N):
    """(1 - beta) / (1 - beta^n), scaled to the sum 2, in exact rational arithmetic."""
    b = Fraction(beta)
    p, n = ((1 - b) / (1 - b**count) for count in (P, N))
    expected = float(2 * p / (p + n)), float(2 * n / (p + n))
    assert LDAM(beta=beta).weights(P, N) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("P", "N"), [(1, 3), (0.25, 0.75), (1e-9, 3e-9)])
def test_beta_next_to_1_weighs_by_the_inverse_count(P, N):
    """The effective number tends to n; 1 - beta^n written out would be 0 or a single bit."""
    assert LDAM(beta=float(np.nextafter(1, 0))).weights(P, N) == pytest.approx((1.5, 0.5))


def test_a_small_beta_weighs_both_classes_alike():
    assert LDAM(beta=1e-300).weights(3, 10_000) == pytest.approx((1.0, 1.0))
    assert LDAM(beta=0.9).weights(1e6, 1e12) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("elapsed", [0.0, 0.5, math.nextafter(0.8, 0), 0.8, 0.99])
def test_reweighting_is_deferred(elapsed, rows_of, sample):
    logits, positive, _ = sample
    loss = LDAM(beta=0.9)
    early = loss(logits, rows_of(positive))
    found = loss(logits, rows_of(positive, elapsed=elapsed))
    if elapsed < 0.8:
        assert found == early
        return
    parts = [
        float(loss(torch.where(positive == kind, logits, 1e3 * (2 * positive - 1)),
                   rows_of(positive)))
        for kind in (True, False)
    ]  # fmt: skip
    effective = [(1 - 0.9) / (1 - 0.9**n) for n in (10, 30)]
    expected = sum(2 * c / sum(effective) * part for c, part in zip(effective, parts, strict=True))
    assert float(found) == pytest.approx(expected, rel=1e-9)
    assert float(found) != pytest.approx(float(early), rel=1e-3)


def test_reweight_from_1_is_never(rows_of, sample):
    logits, positive, _ = sample
    loss = LDAM(reweight_from=1.0)
    late = loss(logits, rows_of(positive, elapsed=math.nextafter(1, 0)))
    assert late == loss(logits, rows_of(positive))


def test_extreme_logits_have_finite_slopes_in_float32(rows_of):
    logits = torch.tensor([-200.0, 200.0, -1e30, 1e30], requires_grad=True)
    loss = LDAM()(logits, rows_of([1, 0, 0, 1], elapsed=0.9, dtype=torch.float32))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.tolist() == pytest.approx([-30 / 4, 30 / 4, 0.0, 0.0])


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_margin": -0.1},
        {"max_margin": float("nan")},
        {"max_margin": float("inf")},
        {"scale": 0.0},
        {"scale": float("nan")},
        {"scale": float("inf")},
        {"beta": 0.0},
        {"beta": 1.0},
        {"reweight_from": -0.1},
        {"reweight_from": 1.1},
        {"reweight_from": float("nan")},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=f"{next(iter(parameters))} (must be|>|between)"):
        LDAM(**parameters)
