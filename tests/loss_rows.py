"""Rows for the tests of losses; tests/conftest.py makes these fixtures available."""

import pytest


@pytest.fixture
def rows_of():
    """Return a function that makes rows of labels and, optionally, weights."""
    import torch

    from setpoint.training import LabelledRows

    def make(positive, weight=None, elapsed=0.0, dtype=torch.float64):
        positive = torch.as_tensor(positive).bool()
        weight = torch.ones(len(positive)) if weight is None else torch.as_tensor(weight)
        weight = weight.to(dtype)
        P, N = float(weight[positive].sum()), float(weight[~positive].sum())
        return LabelledRows(positive, weight / weight.sum(), P, N, elapsed)

    return make


@pytest.fixture
def sample():
    """Logits of 40 rows, a quarter of them positive, and weights that are not integers."""
    import torch

    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(40, generator=generator, dtype=torch.float64)
    positive = torch.arange(40) % 4 == 0
    weight = 0.1 + torch.rand(40, generator=generator, dtype=torch.float64)
    return logits, positive, weight
