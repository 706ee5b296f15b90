"""Chance that hangs on a row's number alone."""

import pytest
import torch
from scipy.stats import chisquare

from setpoint.data.sampling import mix, uniform

FAR = [-(2**63), -1, 0, 1, 2**32, 2**63 - 1]  # hashed groups are any numbers


def test_splitmix64_as_its_authors_have_it():
    # The first numbers of the generator with the seed 1234567, from its reference in C
    golden = 0x9E3779B97F4A7C15
    states = [(1234567 + i * golden) % 2**64 for i in range(3)]
    signed = torch.tensor([s - 2**64 * (s >= 2**63) for s in states])
    found = [z % 2**64 for z in mix(signed).tolist()]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_neither_order_nor_company_matters():
    numbers = torch.arange(1000)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    every = uniform(numbers, 3, 4)
    assert torch.equal(uniform(numbers[order], 3, 4), every[order])
    assert torch.equal(torch.cat([uniform(n, 3, 4) for n in numbers.split(7)]), every)


@pytest.mark.parametrize("other", [(1, 3), (1,), (1, 2, 0), (2, 1), (2, 2), ()], ids=str)
def test_another_key_is_another_chance(other):
    numbers = torch.arange(20_000)
    first, second = uniform(numbers, 1, 2), uniform(numbers, *other)
    assert not (first == second).any()
    assert torch.corrcoef(torch.stack([first, second]))[0, 1].abs() < 0.03


@pytest.mark.parametrize("start", FAR)
def test_uniform_whatever_the_numbers(start):
    numbers = torch.tensor(start) + torch.arange(50_000)  # wraps around at the end
    u = uniform(numbers, 7)
    assert u.dtype == torch.float64
    assert ((u > 0) & (u < 1)).all()
    assert len(u.unique()) == len(u)
    assert chisquare(torch.histc(u, 100, 0.0, 1.0)).pvalue > 1e-3
    pairs = (u[:-1] * 10).long() * 10 + (u[1:] * 10).long()  # neighbours know nothing of each other
    assert chisquare(pairs.bincount(minlength=100)).pvalue > 1e-3


def test_the_ends_are_never_reached(monkeypatch):
    for bits in (0, -1):  # the smallest and the largest that there are
        monkeypatch.setattr("setpoint.data.sampling.mix", lambda n, bits=bits: 0 * n + bits)
        (u,) = uniform(torch.tensor([5])).tolist()
        assert 0.0 < u < 1.0
