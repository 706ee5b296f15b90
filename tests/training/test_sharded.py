"""Sums over shards that do not depend on who has which."""

import pytest
import torch

from setpoint.training import sharded
from setpoint.training.bundle import make_bundle
from setpoint.training.sharded import ShardedWork


def bundle(k=2, d=3):
    module = torch.nn.Linear(d, 1)
    return make_bundle(module, [module.state_dict()] * k)


def played(monkeypatch, world, work):
    """Let so many processes do some work one after the other; each tells, then each knows all."""
    messages, results = [], []
    for role in ("tell", "know"):
        for rank in range(world):
            place = iter(range(100))

            def add_up(*tensors, role=role, place=place):
                i = next(place)
                if role == "tell":
                    messages.append((i, [t.clone() for t in tensors]))
                    return
                for j, tensor in enumerate(tensors):
                    tensor.copy_(sum(told[j] for at, told in messages if at == i))

            monkeypatch.setattr(sharded, "all_reduce_sum", add_up)
            monkeypatch.setattr(sharded, "rank_and_world_size", lambda rank=rank: (rank, world))
            found = work()
            if role == "know":
                results.append(found)
    return results


def step(shards=4, n=101):
    """Return sums of numbers that do not add up exactly, and gradients."""
    generator = torch.Generator().manual_seed(0)
    shard = torch.randint(shards, (n,), generator=generator)
    values = torch.randn(n, 2, 2, generator=generator).double() ** 5
    slopes = torch.randn(n, generator=generator) ** 5
    X = torch.randn(n, 3, generator=generator)
    models = bundle()
    work = ShardedWork(models, shards)
    own = work.split(shard)
    total = work.total({s: values[rows].sum(0) for s, rows in own.items()})
    for s, rows in own.items():
        models.logits(X[rows])
        models.backward(slopes[rows].expand(2, -1))
        work.keep_gradients(s)
    work.set_gradients()
    return total, [p.grad.clone() for p in models.parameters], set(own)


@pytest.mark.parametrize("world", [2, 4])
def test_any_number_of_processes_to_the_last_bit(monkeypatch, world):
    total, gradients, every = step()
    results = played(monkeypatch, world, step)
    assert every == set().union(*(own for _, _, own in results)) == set(range(4))
    for their_total, their_gradients, own in results:
        assert len(own) == 4 // world
        assert torch.equal(their_total, total)
        assert all(map(torch.equal, their_gradients, gradients))


def test_sums_are_sums():
    total, gradients, _ = step()
    alone_total, alone_gradients, _ = step(shards=1)
    assert torch.allclose(total, alone_total)
    for a, b in zip(gradients, alone_gradients, strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-4)


def test_the_order_is_that_of_the_shards():
    work = ShardedWork(bundle(k=1), 3)
    huge = torch.full((1, 2), 1e20)
    small = torch.ones(1, 2)
    assert work.total({0: huge, 1: -huge, 2: small}).tolist() == [[1.0, 1.0]]
    assert work.total({2: small, 1: -huge, 0: huge}).tolist() == [[1.0, 1.0]]
    assert work.total({0: huge, 1: small, 2: -huge}).tolist() == [[0.0, 0.0]]


def test_shards_without_rows_count_nothing():
    models = bundle()
    work = ShardedWork(models, 3)
    assert list(work.split(torch.tensor([2, 0, 2]))) == [0, 2]
    assert work.split(torch.tensor([2, 0, 2]))[2].tolist() == [0, 2]
    assert work.split(torch.empty(0, dtype=torch.int64)) == {}
    assert work.total({}).tolist() == [[0.0, 0.0]] * 2
    work.set_gradients()  # a batch may be empty
    assert all((p.grad == 0).all() for p in models.parameters)
    alone = ShardedWork(bundle(), 1)
    assert alone.split(torch.empty(0, dtype=torch.int64)) == {}


def test_one_column_will_do():
    work = ShardedWork(bundle(k=3), 2)
    parts = {s: torch.arange(3.0)[:, None] + s for s in range(2)}
    assert work.total(parts, 1).tolist() == [[1.0], [3.0], [5.0]]


def test_gradients_of_one_step_are_forgotten_in_the_next():
    models = bundle()
    work = ShardedWork(models, 2)
    for _ in range(2):
        models.logits(torch.ones(1, 3))
        models.backward(torch.ones(2, 1))
        work.keep_gradients(1)
        work.set_gradients()
        assert models.matrix.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_half_precision_are_summed_in_a_whole_one(dtype):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    models = make_bundle(module.to(dtype), [module.state_dict()] * 2)
    large = 2 / torch.finfo(dtype).eps  # the next number is large + 2
    assert torch.tensor(large, dtype=dtype) + 1 == large
    work = ShardedWork(models, 9)
    for shard in range(9):
        for parameter in models.parameters:
            parameter.grad = torch.full_like(parameter, 1.0 if shard else large)
        work.keep_gradients(shard)
    work.set_gradients()
    for parameter in models.parameters:
        assert parameter.grad.dtype == parameter.dtype
        assert (parameter.grad == large + 8).all()
