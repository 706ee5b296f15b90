import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import binary_cross_entropy_with_logits

from setpoint.paper.competitors import Tilted
from setpoint.training import CrossEntropy, LabelledRows


def cross_entropies(logits, positive):
    return binary_cross_entropy_with_logits(logits, positive.double(), reduction="none")


@pytest.mark.parametrize("t", [-3.0, 0.5, 2.0])
def test_the_definition_row_by_row(t, rows_of, sample):
    logits, positive, weight = sample
    q = (weight / weight.sum()).tolist()
    losses = cross_entropies(logits, positive).tolist()
    expected = math.log(math.fsum(a * math.exp(t * x) for a, x in zip(q, losses, strict=True))) / t
    found = Tilted(t)(logits, rows_of(positive, weight))
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_no_tilt_is_the_mean(rows_of, sample):
    logits, positive, weight = sample
    rows = rows_of(positive, weight)
    assert Tilted(0.0)(logits, rows) == CrossEntropy()(logits, rows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("t", [1e-2, 1e-4, 1e-7, 1e-12, 1e-18, 1e-300, -1e-4, -1e-12])
def test_a_small_tilt_is_the_mean_and_half_the_variance(t, dtype, rows_of, sample):
    """log(E exp(tL)) / t = E L + t/2 Var L + O(t^2), in whatever precision there is."""
    logits, positive, weight = sample
    losses = cross_entropies(logits, positive)
    q = weight / weight.sum()
    mean = float((q * losses).sum())
    variance = float((q * (losses - mean) ** 2).sum())
    third = float((q * (losses - mean).abs() ** 3).sum())
    found = Tilted(t)(logits.to(dtype), rows_of(positive, weight, dtype=dtype))
    rounding = 10 * torch.finfo(dtype).eps * float(losses.max())
    assert abs(float(found) - (mean + t / 2 * variance)) <= t * t * third + rounding


@pytest.mark.parametrize(("t", "extreme"), [(300.0, max), (-3000.0, min)])
def test_large_tilts_come_close_to_the_extremes(t, extreme, rows_of, sample):
    """Within log(n) / |t| of it, on the inner side."""
    logits, positive, _ = sample
    end = extreme(cross_entropies(logits, positive).tolist())
    found = float(Tilted(t)(logits, rows_of(positive)))
    assert abs(found - end) <= math.log(40) / abs(t) + 1e-12
    assert (found - end) * t <= 1e-12


@given(
    logits=st.lists(st.floats(-60, 60), min_size=2, max_size=8),
    tilts=st.lists(st.floats(-100, 100), min_size=2, max_size=2),
    seed=st.integers(0, 99),
)
def test_more_tilt_is_never_less(logits, tilts, seed):
    """And every tilted mean lies between the least and the largest loss."""
    rng = np.random.default_rng(seed)
    positive = torch.tensor(rng.random(len(logits)) < 0.5)
    share = torch.tensor(rng.dirichlet(np.ones(len(logits)))).clamp_min(1e-12)
    rows = LabelledRows(positive, share / share.sum(), 1.0, 1.0)
    z = torch.tensor(logits, dtype=torch.float64)
    losses = cross_entropies(z, positive)
    low, high = (float(Tilted(t)(z, rows)) for t in sorted(tilts))
    rounding = 1e-8 + 1e-13 * float(losses.max())  # torch's softplus is linear from 20 on
    assert low <= high + rounding
    assert losses.min() - rounding <= low
    assert high <= losses.max() + rounding


@pytest.mark.parametrize("t", [-2.0, 1e-9, 0.0, 1.0, 40.0])
def test_slopes_are_those_of_the_rows_by_their_softmax(t, rows_of, sample):
    """Lemma 1 of the original: row i counts q_i exp(t L_i) / sum_j q_j exp(t L_j)."""
    logits, positive, weight = sample
    q = weight / weight.sum()
    pull = torch.softmax(t * cross_entropies(logits, positive) + q.log(), dim=0)
    expected = pull * (torch.sigmoid(logits) - positive.double())
    z = logits.clone().requires_grad_()
    Tilted(t)(z, rows_of(positive, weight)).backward()
    assert torch.allclose(z.grad, expected, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("t", [-1.0, 0.0, 1e-9, 3.0])
def test_classes_can_be_tilted_instead_of_rows(t, rows_of, sample):
    logits, positive, weight = sample
    losses = cross_entropies(logits, positive)
    means = [np.average(losses[k], weights=weight[k]) for k in (positive, ~positive)]
    expected = (
        sum(means) / 2
        if abs(t) < 1e-6
        else math.log((math.exp(t * means[0]) + math.exp(t * means[1])) / 2) / t
    )
    found = Tilted(t, by_class=True)(logits, rows_of(positive, weight))
    assert float(found) == pytest.approx(expected, rel=1e-7)


def test_by_class_the_worse_class_decides_however_rare(rows_of):
    """One positive of a thousand rows that is wrong: rows barely see it, classes do."""
    positive = torch.arange(1000) == 0
    logits = torch.full((1000,), -5.0, dtype=torch.float64)
    assert Tilted(1.0, by_class=True)(logits, rows_of(positive)) > 4
    assert Tilted(0.0)(logits, rows_of(positive)) < 0.02


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("t", [100.0, -100.0, 1e30])
def test_no_overflow(t, dtype, by_class, rows_of):
    logits = torch.tensor([-50.0, 50.0, -50.0, 50.0], dtype=dtype, requires_grad=True)
    loss = Tilted(t, by_class)(logits, rows_of([1, 0, 0, 1], dtype=dtype))
    loss.backward()
    # half of either class costs 50, half nothing; the mean of a class is 25
    expected = 25.0 if by_class else 50.0 if t > 0 else 0.0
    assert float(loss.detach()) == pytest.approx(expected, abs=math.log(2) / abs(t) + 1e-5)
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("t", [1e-9, 2.0, -2.0])
def test_a_batch_without_one_class_is_finite(t, rows_of):
    rows = LabelledRows(torch.zeros(3, dtype=torch.bool), torch.full((3,), 0.4), 2.0, 10.0)
    for by_class in (False, True):
        logits = torch.tensor([-3.0, 0.0, 3.0], requires_grad=True)
        loss = Tilted(t, by_class)(logits, rows)
        loss.backward()
        assert loss.isfinite()
        assert logits.grad.isfinite().all()


@pytest.mark.parametrize("t", [float("nan"), float("inf"), -float("inf")])
def test_bad_parameters_are_refused(t):
    with pytest.raises(ValueError, match="t must be a finite number"):
        Tilted(t)
