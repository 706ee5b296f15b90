"""Training problems in memory."""

import pytest
import torch

from setpoint.training import make_problem


@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.int64, torch.float32),  # numbers of words, say
    ],
)
def test_weights_keep_their_fractions(rows, weights):
    X, positive = torch.ones(3, 2, dtype=rows), torch.tensor([True, False, True])
    given = torch.tensor([0.5, 1.25, 2.0], dtype=torch.float64)
    problem = make_problem(X, positive, "max f1", given)
    assert problem.sample_weight.dtype == weights
    assert problem.sample_weight.tolist() == [0.5, 1.25, 2.0]
    assert make_problem(X, positive, "max f1").sample_weight.tolist() == [1.0, 1.0, 1.0]
