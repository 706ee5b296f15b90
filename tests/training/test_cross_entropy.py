import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from setpoint import SetpointError
from setpoint.training import CrossEntropy


def test_plain_is_torchs(rows_of, sample):
    logits, positive, _ = sample
    expected = binary_cross_entropy_with_logits(logits, positive.double())
    assert torch.allclose(CrossEntropy()(logits, rows_of(positive)), expected, rtol=1e-12)


def test_weights_are_torchs(rows_of, sample):
    logits, positive, weight = sample
    sums = binary_cross_entropy_with_logits(logits, positive.double(), weight, reduction="sum")
    found = CrossEntropy()(logits, rows_of(positive, weight))
    assert torch.allclose(found, sums / weight.sum(), rtol=1e-12)


@pytest.mark.parametrize("balance", [0.5, 1.0, 2.0])
def test_balance_is_torchs_pos_weight(balance, rows_of, sample):
    """pos_weight is the ratio of both classes' factors; that of negatives is common."""
    logits, positive, _ = sample
    P, N = 10, 30
    expected = (
        binary_cross_entropy_with_logits(
            logits,
            positive.double(),
            pos_weight=torch.tensor((N / P) ** balance, dtype=torch.float64),
        )
        * (20 / N) ** balance
    )
    found = CrossEntropy(balance)(logits, rows_of(positive))
    assert torch.allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("positives", [1, 7, 39])
def test_balanced_classes_have_the_same_total_weight(positives, rows_of):
    """At the logit 0 every row costs log 2, so costs are weights."""
    positive = torch.arange(40) < positives
    rows = rows_of(positive, torch.linspace(0.1, 5.0, 40))
    logits = torch.zeros(40, dtype=torch.float64, requires_grad=True)
    loss = CrossEntropy(1.0)(logits, rows)
    assert float(loss.detach()) == pytest.approx(torch.log(torch.tensor(2.0)).item(), rel=1e-6)
    loss.backward()
    # d/dz softplus(-z) = -1/2 at 0
    assert float(logits.grad[positive].sum()) == pytest.approx(-0.25)
    assert float(logits.grad[~positive].sum()) == pytest.approx(0.25)


def test_logits_of_any_size_are_finite_in_float32(rows_of):
    logits = torch.tensor([-1e30, 1e30, -200.0, 200.0], requires_grad=True)
    loss = CrossEntropy(1.0)(logits, rows_of([1, 0, 0, 1], dtype=torch.float32))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.tolist() == [-0.25, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("balance", [float("nan"), float("inf")])
def test_a_balance_that_is_no_number_is_refused(balance):
    with pytest.raises(SetpointError, match="balance must be a finite number"):
        CrossEntropy(balance)
