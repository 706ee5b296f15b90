import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from setpoint.paper.competitors import SigmoidF1
from setpoint.training import LabelledRows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [-2.0, 0.0, 0.7, 3.0])
def test_a_high_temperature_is_f1_at_the_threshold(offset, weighted, rows_of, sample):
    logits, positive, weight = sample
    weight = weight if weighted else torch.ones(40, dtype=torch.float64)
    assert (logits + offset).abs().min() > 1e-3  # no row on the threshold
    expected = f1_score(positive, logits.numpy() > -offset, sample_weight=weight.numpy())
    found = SigmoidF1(temperature=1e6, offset=offset)(logits, rows_of(positive, weight))
    assert float(found) == pytest.approx(1 - expected, abs=1e-12)


def test_the_definition_row_by_row(rows_of, sample):
    """Counts of sigmoids, with the false negatives counted for themselves."""
    logits, positive, weight = sample
    tp = fp = fn = 0.0
    for z, y, w in zip(logits.tolist(), positive.tolist(), weight.tolist(), strict=True):
        decided = 1 / (1 + np.exp(-2.5 * (z - 0.3)))
        tp += w * decided * y
        fp += w * decided * (not y)
        fn += w * (1 - decided) * y
    found = SigmoidF1(temperature=2.5, offset=-0.3)(logits, rows_of(positive, weight))
    assert float(found) == pytest.approx(1 - 2 * tp / (2 * tp + fp + fn), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 5.0, -200.0, -1e30])
def test_a_batch_without_positives_is_finite(size, dtype):
    """Even where all alarms round to 0: the quotient is then 0/0."""
    rows = LabelledRows(torch.zeros(4, dtype=torch.bool), torch.full((4,), 0.25, dtype=dtype), 3, 9)
    logits = torch.full((4,), size, dtype=dtype, requires_grad=True)
    loss = SigmoidF1()(logits, rows)
    loss.backward()
    assert float(loss.detach()) == 1.0
    assert logits.grad.tolist() == [0.0] * 4


def test_bounds(rows_of, sample):
    logits, positive, _ = sample
    sure = torch.where(positive, 200.0, -200.0)
    assert float(SigmoidF1()(sure, rows_of(positive, dtype=torch.float32))) == pytest.approx(0.0)
    assert float(SigmoidF1()(-sure, rows_of(positive, dtype=torch.float32))) == 1.0
    assert 0 < float(SigmoidF1()(logits, rows_of(positive))) < 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"offset": float("nan")},
        {"offset": float("inf")},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be"):
        SigmoidF1(**parameters)
