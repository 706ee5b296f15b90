"""Batches at an even pace."""

from itertools import islice

import pytest
import torch

from setpoint.data.sampling import Sample, paced_batches


def sample(n=400, positives=100, seed=0):
    generator = torch.Generator().manual_seed(seed)
    number = torch.randperm(10 * n, generator=generator)[:n].sort().values
    positive = torch.randperm(n, generator=generator) < positives
    weight = 1 + 9 * torch.rand(n, generator=generator).double()
    logits = torch.randn(n, 1, generator=generator)
    return Sample(logits, positive, weight, number, torch.zeros_like(number), logits)


def importance(rows, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return 0.2 + torch.rand(len(rows), generator=generator).double()


def batches(rows, q, size=80, positives=0.25, key=(0,), steps=50):
    return list(islice(paced_batches(rows, q, size, positives, key), steps))


def times_seen(found, n):
    return torch.cat([batch.rows for batch in found]).bincount(minlength=n)


def test_every_row_comes_as_often_as_its_rate_says():
    rows = sample()
    q = importance(rows)
    found = batches(rows, q, steps=500)
    seen = times_seen(found, len(rows)).double()
    for own, size in ((rows.positive, 20), (~rows.positive, 60)):
        wish = (q * rows.weight)[own]
        rate = (size * wish / wish.sum()).clamp(max=1.0)
        assert (seen[own] - 500 * rate).abs().max() < 1.5  # by chance it would be 20 and more
    # and evenly: in any ten steps as in any others
    parts = torch.stack([times_seen(found[i : i + 10], len(rows)) for i in range(0, 500, 10)])
    assert (parts.max(0).values - parts.min(0).values).max() <= 1


def test_batches_average_to_the_sample():
    rows = sample()
    q = 1 / rows.weight  # equal rates: 20 of 100 positives and 60 of 300 negatives, every 5 steps
    found = batches(rows, q, steps=5)
    assert torch.equal(times_seen(found, len(rows)), torch.ones(len(rows), dtype=torch.int64))
    value = rows.logits[:, 0].double()
    for own in (rows.positive, ~rows.positive):
        total = sum(float((b.weight * value[b.rows])[own[b.rows]].sum()) for b in found) / 5
        # Rates are rounded to a few bits, which makes them no less true
        assert total == pytest.approx(float((rows.weight * value)[own].sum()), rel=1e-4)


def test_uneven_rates_average_to_the_sample_in_the_long_run():
    rows = sample()
    found = batches(rows, importance(rows), steps=2000)
    for own in (rows.positive, ~rows.positive):
        total = sum(float(b.weight[own[b.rows]].sum()) for b in found) / 2000
        assert total == pytest.approx(float(rows.weight[own].sum()), rel=2e-3)


@pytest.mark.parametrize("few", [1, 7, 20])
def test_few_positives_are_in_every_batch(few):
    rows = sample(positives=few)
    for batch in batches(rows, importance(rows), size=80, positives=0.25, steps=7):
        positive = rows.positive[batch.rows]
        assert positive.sum() == few
        assert torch.equal(batch.weight[positive], rows.weight[rows.positive])
        assert abs(int((~positive).sum()) - (80 - few)) < 25  # and the rest are negatives


def test_more_than_there_is_is_all_there_is():
    rows = sample(20, 5)
    for batch in batches(rows, importance(rows), size=10_000, steps=3):
        assert batch.rows.tolist() == list(range(20))
        assert torch.equal(batch.weight, rows.weight)


def test_sizes_are_as_asked_for():
    rows = sample(4000, 1000)
    sizes = [len(batch.rows) for batch in batches(rows, importance(rows), size=400)]
    assert sum(sizes) / len(sizes) == pytest.approx(400, rel=0.02)
    assert max(sizes) < 480


def test_shards_draw_what_one_process_would(monkeypatch):
    rows = sample()
    q = importance(rows)
    whole = batches(rows, q, steps=8)
    sums = {}
    own = [torch.arange(len(rows))[rank::2] for rank in range(2)]
    for role in ("tell", "know"):  # first each process tells its sums, then both know those of both
        for rank, places in enumerate(own):
            part = Sample(*(field[places] for field in vars(rows).values()))

            def add_up(*tensors, role=role, rank=rank):
                if role == "tell":
                    sums[rank] = [t.clone() for t in tensors]
                else:
                    for i, t in enumerate(tensors):
                        t.copy_(sums[0][i] + sums[1][i])

            monkeypatch.setattr("setpoint.data.sampling.all_reduce_sum", add_up)
            found = batches(part, q[places], steps=8)
            if role == "know":
                for batch, all_of_it in zip(found, whole, strict=True):
                    mine = torch.isin(all_of_it.rows, places)
                    assert torch.equal(places[batch.rows], all_of_it.rows[mine])
                    assert torch.equal(batch.weight, all_of_it.weight[mine])


def test_another_key_is_another_order():
    rows = sample()
    first, again, other = (
        batches(rows, importance(rows), key=k, steps=1) for k in [(1,), (1,), (2,)]
    )
    assert torch.equal(first[0].rows, again[0].rows)
    assert not torch.equal(first[0].rows, other[0].rows)
