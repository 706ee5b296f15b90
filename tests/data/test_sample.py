"""Priority samples: without bias, and the same in whatever pieces the rows come."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint.data import sampling as module
from setpoint.data.rows import Block
from setpoint.data.sampling import PrioritySample


def rows(n=600, seed=0, share=0.2):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=generator)
    positive = torch.rand(n, generator=generator) < share
    weight = torch.rand(n, generator=generator).double() * 3
    importance = torch.rand(n, generator=generator).double() ** 2 + 0.02
    return Block(X, positive, weight, torch.arange(n), torch.arange(n)), importance


def drawn(block, importance, positives=30, negatives=60, key=(1,), pieces=None):
    """Return a sample; pieces are the places of the rows in each block."""
    sample = PrioritySample(positives, negatives, key)
    for places in [torch.arange(len(block))] if pieces is None else pieces:
        own = block.rows(places)
        sample.add(own, own.X, importance[places])
    return sample.finish()


def assert_same(first, second):
    for name, value in vars(first).items():
        assert torch.equal(value, getattr(second, name)), name


def test_sums_are_unbiased_whatever_the_importances():
    block, importance = rows()
    # Of both classes, of a part that importances neglect, and of another quantity than the weight
    neglected = importance < 0.1
    parts = [block.positive, ~block.positive, neglected, block.X[:, 0] > 0]
    quantity = block.X[:, 1].double() + 2
    truth = np.array([float((block.weight * quantity)[p].sum()) for p in parts])
    found = []
    for key in range(300):
        sample = drawn(block, importance, key=(key, 5))
        at = sample.number
        found.append([float((sample.weight * quantity[at])[p[at]].sum()) for p in parts])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(mean - truth) < 4 * error).all()
    assert (error < 0.06 * truth).all()  # or the test would see nothing


@settings(max_examples=25)
@given(data=st.data(), n=st.integers(0, 120), sizes=st.tuples(*[st.integers(1, 40)] * 2))
def test_any_pieces_in_any_order_give_the_same_sample(data, n, sizes):
    block, importance = rows(n)
    order = torch.tensor(data.draw(st.permutations(range(n))), dtype=torch.int64)
    pieces = order.split(data.draw(st.integers(1, 50))) if n else [order]
    assert_same(drawn(block, importance, *sizes), drawn(block, importance, *sizes, pieces=pieces))


def test_many_pieces_are_settled_on_the_way():
    block, importance = rows(9000)
    order = torch.randperm(9000, generator=torch.Generator().manual_seed(0))
    sample = drawn(block, importance, pieces=order.split(100))
    assert_same(drawn(block, importance), sample)
    assert len(sample) == 90


def test_what_several_processes_hold_makes_one_sample(monkeypatch):
    block, importance = rows()
    shards = [torch.arange(600)[shard::3] for shard in range(3)]
    offers = []

    def note(ranks):  # of each class
        offers.append(ranks)
        return [ranks]

    monkeypatch.setattr(module, "all_gather", note)
    for places in shards:
        drawn(block, importance, pieces=[places])
    of_class = [offers[0::2], offers[1::2]]
    calls = iter(of_class * 3)
    monkeypatch.setattr(module, "all_gather", lambda ranks: next(calls))
    parts = [drawn(block, importance, pieces=[places]) for places in shards]
    alone = drawn_alone(monkeypatch, block, importance)
    monkeypatch.setattr(module, "all_gather", lambda own: parts)
    assert_same(alone, module.whole(parts[0]))


def drawn_alone(monkeypatch, block, importance):
    monkeypatch.setattr(module, "all_gather", lambda value: [value])
    return drawn(block, importance)


def test_the_most_important_are_certain_and_stand_for_themselves():
    block, importance = rows()
    importance = importance.clone()
    importance[::50] = 1e6
    sample = drawn(block, importance, 40, 70)
    certain = torch.isin(sample.number, torch.arange(0, 600, 50))
    assert certain.sum() == 12
    assert torch.equal(sample.weight[certain], block.weight[::50])


def test_sizes_and_order():
    block, importance = rows()
    sample = drawn(block, importance)
    assert sample.positive.sum() == 30
    assert len(sample) == 90
    assert (sample.number.diff() > 0).all()
    assert torch.equal(sample.X, block.X[sample.number])
    assert torch.equal(sample.logits, block.X[sample.number])
    assert torch.equal(sample.positive, block.positive[sample.number])


def test_fewer_rows_than_asked_for_are_all_kept_as_they_are():
    block, importance = rows(50)
    for positives, negatives in ((1000, 1000), (int(block.positive.sum()), 1000)):
        sample = drawn(block, importance, positives, negatives)
        assert torch.equal(sample.number, block.number)
        assert torch.equal(sample.weight, block.weight)


def test_rows_without_importance_are_never_kept():
    block, importance = rows(80)
    importance = importance.clone()
    importance[::2] = 0.0
    sample = drawn(block, importance, 1000, 1000)
    assert torch.equal(sample.number, block.number[1::2])
    assert sample.weight.isfinite().all()


def test_the_shard_is_kept_and_another_key_is_another_sample():
    block, importance = rows()
    sample = PrioritySample(5, 5, (0,))
    for shard, places in ((3, torch.arange(300)), (1, torch.arange(300, 600))):
        own = block.rows(places)
        own = Block(own.X, own.positive, own.weight, own.number, own.unit, shard=shard)
        sample.add(own, own.X, importance[places])
    found = sample.finish()
    assert found.shard.tolist() == [3 if n < 300 else 1 for n in found.number.tolist()]
    assert not torch.equal(drawn(block, importance, key=(0,)).number, found.number)
    assert not torch.equal(
        drawn(block, importance, key=(0,)).number, drawn(block, importance, key=(1,)).number
    )
