"""Which rows train, judge, certify and test."""

import math

import numpy as np
import pytest
import torch

from setpoint import SetpointError
from setpoint.data import ArrayRows, Block, ByChance, ByTime
from setpoint.data.splits import CERTIFYING, JUDGING, TESTING, TRAINING


def block(unit, time=None):
    unit = torch.as_tensor(unit)
    n = len(unit)
    ones = torch.ones(n, dtype=torch.float64)
    return Block(torch.zeros(n, 1), ones > 0, ones, torch.arange(n), unit, time)


def test_shares_come_out():
    part = ByChance(judging=0.25, certifying=0.1, testing=0.05, seed=3)(block(range(40_000)))
    found = part.bincount(minlength=4) / 40_000
    expected = {TRAINING: 0.6, JUDGING: 0.25, CERTIFYING: 0.1, TESTING: 0.05}
    for which, share in expected.items():
        assert found[which] == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 40_000))


@pytest.mark.parametrize(
    ("shares", "parts"),
    [
        ({}, {TRAINING}),
        ({"judging": 0.5}, {TRAINING, JUDGING}),
        ({"certifying": 0.5}, {TRAINING, CERTIFYING}),
        ({"judging": 0.3, "testing": 0.3}, {TRAINING, JUDGING, TESTING}),
    ],
)
def test_parts_that_nobody_asked_for_are_empty(shares, parts):
    parting = ByChance(**shares)
    assert set(parting(block(range(500))).tolist()) == parts
    assert parting.judges == (JUDGING in parts)


def test_groups_stay_together_in_every_block_order():
    rng = np.random.default_rng(0)
    names = np.array([f"patient {i}" for i in rng.integers(0, 50, 900)])
    source = ArrayRows(rng.normal(size=(900, 2)), rng.random(900) < 0.2, groups=names, block_rows=7)
    parting, seen = ByChance(judging=0.4, seed=1), {}
    for shard in (2, 0, 1):
        for rows in source.blocks(shard, 3):
            for number, part in zip(rows.number.tolist(), parting(rows).tolist(), strict=True):
                seen.setdefault(names[number], set()).add(part)
    assert all(len(parts) == 1 for parts in seen.values())
    assert {part for parts in seen.values() for part in parts} == {TRAINING, JUDGING}


def test_another_seed_is_another_split():
    rows = block(range(1000))
    first, again, other = (ByChance(judging=0.5, seed=s)(rows) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert 400 < (first == other).sum() < 600


@pytest.mark.parametrize(
    "shares",
    [
        {"judging": -0.1},
        {"judging": 1.0},
        {"judging": 0.5, "certifying": 0.3, "testing": 0.2},
        {"testing": 7.0},
        {"judging": math.nan},
    ],
    ids=str,
)
def test_bad_shares_are_refused(shares):
    with pytest.raises(SetpointError, match="leave rows to train on"):
        ByChance(**shares)


def test_the_newest_test():
    time = torch.tensor([5.0, 1.0, 2.0, 3.0, 4.0, 2.5], dtype=torch.float64)
    parting = ByTime(since=(2.0, 3.0, 4.0))
    assert parting.judges
    assert parting(block(range(6), time)).tolist() == [
        TESTING, TRAINING, JUDGING, CERTIFYING, TESTING, JUDGING
    ]  # fmt: skip


def test_parts_of_time_that_are_not_wanted():
    time = torch.tensor([1.0, 3.0, 9e18], dtype=torch.float64)
    only_judge = ByTime(since=(2.0, math.inf, math.inf))
    assert only_judge(block(range(3), time)).tolist() == [TRAINING, JUDGING, JUDGING]
    certify = ByTime(since=(2.0, 2.0, math.inf))
    assert not certify.judges
    assert certify(block(range(3), time)).tolist() == [TRAINING, CERTIFYING, CERTIFYING]


def test_times_are_checked():
    with pytest.raises(SetpointError, match="not in order"):
        ByTime(since=(3.0, 2.0, 4.0))
    with pytest.raises(SetpointError, match="know their time"):
        ByTime(since=(1.0, 2.0, 3.0))(block(range(3)))
