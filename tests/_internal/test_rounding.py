"""Numbers of few bits, on which sums in any order agree."""

import pytest
import torch

from setpoint._internal.processes import coarse


def test_sums_in_any_order_agree():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1001, generator=generator).double() ** 8
    orders = [torch.randperm(1001, generator=generator) for _ in range(20)]
    sums = torch.stack([torch.cumsum(x[order], 0)[-1] for order in orders])
    assert len(sums.unique()) > 1  # or there is nothing to round
    assert len(coarse(sums).unique()) == 1


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e12, 1e300])
def test_sixteen_bits_are_kept(scale):
    x = scale * (1 + torch.rand(1000, generator=torch.Generator().manual_seed(1)).double())
    assert ((coarse(x) - x).abs() <= x * 2.0**-16).all()
    assert len(coarse(x).unique()) > 900
    assert torch.equal(coarse(coarse(x)), coarse(x))
    assert torch.equal(coarse(-x), -coarse(x))


def test_small_whole_numbers_and_zero_stay():
    x = torch.arange(2**16).double()
    assert torch.equal(coarse(x), x)
