"""Chance that depends on a row's number alone, samples, sampling weights and batches."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from setpoint.data import sampling
from setpoint.data.rows import Block
from setpoint.data.sampling import PrioritySample, Sample, SamplingWeights, mix, uniform
from setpoint.thresholds.histogram import ScoreHistogram

# --- chance -------------------------------------------------------------------------------------

FAR = [-(2**63), -1, 0, 1, 2**32, 2**63 - 1]  # hashed groups are any numbers


def test_splitmix64_agrees_with_its_reference():
    # The first numbers of the generator with the seed 1234567, from its reference in C
    golden = 0x9E3779B97F4A7C15
    states = [(1234567 + i * golden) % 2**64 for i in range(3)]
    signed = torch.tensor([s - 2**64 * (s >= 2**63) for s in states])
    found = [z % 2**64 for z in mix(signed).tolist()]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_numbers_depend_on_neither_order_nor_blocks():
    numbers = torch.arange(1000)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    every = uniform(numbers, 3, 4)
    assert torch.equal(uniform(numbers[order], 3, 4), every[order])
    assert torch.equal(torch.cat([uniform(n, 3, 4) for n in numbers.split(7)]), every)


@pytest.mark.parametrize("other", [(1, 3), (1,), (1, 2, 0), (2, 1), (2, 2), ()], ids=str)
def test_another_key_gives_independent_numbers(other):
    numbers = torch.arange(20_000)
    first, second = uniform(numbers, 1, 2), uniform(numbers, *other)
    assert not (first == second).any()
    assert torch.corrcoef(torch.stack([first, second]))[0, 1].abs() < 0.03


@pytest.mark.parametrize("start", FAR)
def test_uniform_for_any_numbers(start):
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


# --- priority samples ---------------------------------------------------------------------------


def rows(n=600, seed=0, fraction=0.2):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 2, generator=generator)
    positive = torch.rand(n, generator=generator) < fraction
    weight = torch.rand(n, generator=generator).double() * 3
    q = torch.rand(n, generator=generator).double() ** 2 + 0.02
    return Block(X, positive, weight, torch.arange(n), torch.arange(n)), q


def drawn(block, q, positives=30, negatives=60, key=(1,), pieces=None):
    """Return a sample; pieces are the places of the rows in each block."""
    sample = PrioritySample(positives, negatives, key)
    for places in [torch.arange(len(block))] if pieces is None else pieces:
        own = block.rows(places)
        sample.add(own, own.X, q[places])
    return sample.finish()


def assert_same(first, second):
    for name, value in vars(first).items():
        other = getattr(second, name)
        assert other is None if value is None else torch.equal(value, other), name


def test_rows_keep_their_factors(monkeypatch):
    block, q = rows()
    factors = torch.stack([torch.ones(len(block)), block.X[:, 0] ** 2], dim=1).double()
    sample = drawn(replace(block, factors=factors), q)
    assert torch.equal(sample.factors, factors[sample.number])
    assert drawn(block, q).factors is None
    # And so do those of several processes, brought together.
    halves = [drawn(replace(block, factors=factors).rows(own), q[own]) for own in (
        torch.arange(300), torch.arange(300, 600)
    )]  # fmt: skip
    monkeypatch.setattr(sampling, "all_gather", lambda value: halves)
    both = sampling.gather_sample(halves[0])
    assert torch.equal(both.factors, factors[both.number])


def test_sums_are_unbiased_for_any_sampling_weights():
    block, q = rows()
    # Of both classes, of rows with small sampling weights, and of another quantity than the weight
    neglected = q < 0.1
    parts = [block.positive, ~block.positive, neglected, block.X[:, 0] > 0]
    quantity = block.X[:, 1].double() + 2
    truth = np.array([float((block.weight * quantity)[p].sum()) for p in parts])
    found = []
    for key in range(300):
        sample = drawn(block, q, key=(key, 5))
        at = sample.number
        found.append([float((sample.weight * quantity[at])[p[at]].sum()) for p in parts])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(mean - truth) < 4 * error).all()
    assert (error < 0.06 * truth).all()  # or the test would see nothing


@settings(max_examples=25)
@given(data=st.data(), n=st.integers(0, 120), sizes=st.tuples(*[st.integers(1, 40)] * 2))
def test_any_pieces_in_any_order_give_the_same_sample(data, n, sizes):
    block, q = rows(n)
    order = torch.tensor(data.draw(st.permutations(range(n))), dtype=torch.int64)
    pieces = order.split(data.draw(st.integers(1, 50))) if n else [order]
    assert_same(drawn(block, q, *sizes), drawn(block, q, *sizes, pieces=pieces))


def test_many_blocks():
    block, q = rows(9000)
    order = torch.randperm(9000, generator=torch.Generator().manual_seed(0))
    sample = drawn(block, q, pieces=order.split(100))
    assert_same(drawn(block, q), sample)
    assert len(sample) == 90


def test_several_processes_draw_the_sample_of_one(monkeypatch):
    block, q = rows()
    shards = [torch.arange(600)[shard::3] for shard in range(3)]
    offers = []

    def note(ranks):  # of each class
        offers.append(ranks)
        return [ranks]

    monkeypatch.setattr(sampling, "all_gather", note)
    for places in shards:
        drawn(block, q, pieces=[places])
    of_class = [offers[0::2], offers[1::2]]
    calls = iter(of_class * 3)
    monkeypatch.setattr(sampling, "all_gather", lambda ranks: next(calls))
    parts = [drawn(block, q, pieces=[places]) for places in shards]
    alone = drawn_alone(monkeypatch, block, q)
    monkeypatch.setattr(sampling, "all_gather", lambda own: parts)
    assert_same(alone, sampling.gather_sample(parts[0]))


def drawn_alone(monkeypatch, block, q):
    monkeypatch.setattr(sampling, "all_gather", lambda value: [value])
    return drawn(block, q)


def test_rows_of_large_sampling_weight_are_certain_and_keep_their_weight():
    block, q = rows()
    q = q.clone()
    q[::50] = 1e6
    sample = drawn(block, q, 40, 70)
    certain = torch.isin(sample.number, torch.arange(0, 600, 50))
    assert certain.sum() == 12
    assert torch.equal(sample.weight[certain], block.weight[::50])


def test_sizes_and_order():
    block, q = rows()
    sample = drawn(block, q)
    assert sample.positive.sum() == 30
    assert len(sample) == 90
    assert (sample.number.diff() > 0).all()
    assert torch.equal(sample.X, block.X[sample.number])
    assert torch.equal(sample.logits, block.X[sample.number])
    assert torch.equal(sample.positive, block.positive[sample.number])


def test_a_few_rows_are_all_in_the_sample_unchanged():
    block, q = rows(50)
    for positives, negatives in ((1000, 1000), (int(block.positive.sum()), 1000)):
        sample = drawn(block, q, positives, negatives)
        assert torch.equal(sample.number, block.number)
        assert torch.equal(sample.weight, block.weight)


def test_rows_of_sampling_weight_0_are_never_drawn():
    block, q = rows(80)
    q = q.clone()
    q[::2] = 0.0
    sample = drawn(block, q, 1000, 1000)
    assert torch.equal(sample.number, block.number[1::2])
    assert sample.weight.isfinite().all()


def test_rows_keep_their_shard_and_another_key_gives_another_sample():
    block, q = rows()
    sample = PrioritySample(5, 5, (0,))
    for shard, places in ((3, torch.arange(300)), (1, torch.arange(300, 600))):
        own = block.rows(places)
        own = Block(own.X, own.positive, own.weight, own.number, own.unit, shard=shard)
        sample.add(own, own.X, q[places])
    found = sample.finish()
    assert found.shard.tolist() == [3 if n < 300 else 1 for n in found.number.tolist()]
    assert not torch.equal(drawn(block, q, key=(0,)).number, found.number)
    assert not torch.equal(drawn(block, q, key=(0,)).number, drawn(block, q, key=(1,)).number)


# --- sampling weights ---------------------------------------------------------------------------


def seen(scales=(1.0, 100.0), n=5000, weight=None):
    """Return logits of models of very different scales, their labels and their histogram."""
    generator = torch.Generator().manual_seed(0)
    positive = torch.rand(n, generator=generator) < 0.1
    z = torch.randn(n, generator=generator) - 2 + 3 * positive
    logits = torch.stack([scale * z for scale in scales])
    histogram = ScoreHistogram(len(scales))
    histogram.add(logits, positive, weight)
    return logits, positive, histogram


def test_sampling_weights_of_a_class_sum_to_one():
    logits, positive, histogram = seen()
    q = SamplingWeights.of(histogram, 0.1).of_rows(logits, positive)
    assert q.dtype == torch.float64
    for own in (positive, ~positive):
        assert q[own].sum() == pytest.approx(1.0, rel=0.01)
        assert q[own].min() >= 0.5 / own.sum() * 0.999  # none is left out


def test_a_weight_counts_as_that_many_rows():
    weight = torch.arange(5000).double() % 4
    logits, positive, histogram = seen(weight=weight)
    q = SamplingWeights.of(histogram, 0.1).of_rows(logits, positive) * weight
    assert q[positive].sum() == pytest.approx(1.0, rel=0.01)
    assert q[~positive].sum() == pytest.approx(1.0, rel=0.01)


def test_rows_near_the_threshold_have_larger_weights():
    logits, positive, histogram = seen((1.0,))
    weights = SamplingWeights.of(histogram, 0.1)
    for own in (positive, ~positive):
        q = weights.of_rows(logits[:, own], positive[own])
        order = logits[0, own].abs().argsort()
        assert (q[order].diff() <= 0).all()
        assert q[order][0] > 10 * q[order][-1]


def test_the_scale_of_a_model_does_not_matter():
    logits, positive, histogram = seen((1.0,))
    stretched, _, wide = seen((2.0**10,))
    first = SamplingWeights.of(histogram, 0.1).of_rows(logits, positive)
    second = SamplingWeights.of(wide, 0.1).of_rows(stretched, positive)
    assert (first / second - 1).abs().max() < 1e-3


def test_a_smaller_fraction_favours_nearer_rows():
    logits, positive, histogram = seen((1.0,))
    few, many = (
        SamplingWeights.of(histogram, fraction).of_rows(logits, positive)
        for fraction in (0.01, 1.0)
    )
    nearest = (logits[0].abs() < 0.05) & ~positive
    assert few[nearest].sum() > 2 * many[nearest].sum()


def test_every_model_counts():
    generator = torch.Generator().manual_seed(1)
    positive = torch.rand(4000, generator=generator) < 0.3
    logits = 5 * torch.randn(2, 4000, generator=generator)
    histogram = ScoreHistogram(2)
    histogram.add(logits, positive)
    q = SamplingWeights.of(histogram, 0.05).of_rows(logits, positive)
    near = logits.abs() < 0.1
    for k in range(2):
        assert q[near[k]].mean() > 5 * q[~near.any(dim=0)].mean()


@pytest.mark.parametrize("value", [0.0, 3e38, float("inf"), 1e-40])
def test_extreme_scores(value):
    """All rows on the threshold, or beyond all numbers."""
    positive = torch.arange(100) % 2 == 0
    logits = torch.where(positive, value, -value)[None].float()
    histogram = ScoreHistogram(1)
    histogram.add(logits, positive)
    q = SamplingWeights.of(histogram, 0.1).of_rows(logits, positive)
    assert q.isfinite().all()
    assert (q > 0).all()


# --- batches ------------------------------------------------------------------------------------


def a_sample(n=400, positives=100, seed=0):
    generator = torch.Generator().manual_seed(seed)
    number = torch.randperm(10 * n, generator=generator)[:n].sort().values
    positive = torch.randperm(n, generator=generator) < positives
    weight = 1 + 9 * torch.rand(n, generator=generator).double()
    logits = torch.randn(n, 1, generator=generator)
    return Sample(logits, positive, weight, number, torch.zeros_like(number), logits)


def weights_of(rows, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return 0.2 + torch.rand(len(rows), generator=generator).double()


def drawn_batches(rows, q, size=80, positives=0.25, key=(0,), steps=50):
    return list(islice(sampling.batches(rows, q, size, positives, key), steps))


def times_seen(found, n):
    return torch.cat([batch.rows for batch in found]).bincount(minlength=n)


def test_every_row_comes_at_its_rate():
    rows = a_sample()
    q = weights_of(rows)
    found = drawn_batches(rows, q, steps=500)
    seen = times_seen(found, len(rows)).double()
    for own, size in ((rows.positive, 20), (~rows.positive, 60)):
        wish = (q * rows.weight)[own]
        rate = (size * wish / wish.sum()).clamp(max=1.0)
        assert (seen[own] - 500 * rate).abs().max() < 1.5  # by chance it would be 20 and more
    # and evenly: in any ten steps as in any others
    parts = torch.stack([times_seen(found[i : i + 10], len(rows)) for i in range(0, 500, 10)])
    assert (parts.max(0).values - parts.min(0).values).max() <= 1


def test_batches_average_to_the_sample():
    rows = a_sample()
    q = 1 / rows.weight  # equal rates: 20 of 100 positives and 60 of 300 negatives, every 5 steps
    found = drawn_batches(rows, q, steps=5)
    assert torch.equal(times_seen(found, len(rows)), torch.ones(len(rows), dtype=torch.int64))
    value = rows.logits[:, 0].double()
    for own in (rows.positive, ~rows.positive):
        total = sum(float((b.weight * value[b.rows])[own[b.rows]].sum()) for b in found) / 5
        # Rates are rounded to a few bits, which makes them no less true
        assert total == pytest.approx(float((rows.weight * value)[own].sum()), rel=1e-4)


def test_uneven_rates_average_to_the_sample_in_the_long_run():
    rows = a_sample()
    found = drawn_batches(rows, weights_of(rows), steps=2000)
    for own in (rows.positive, ~rows.positive):
        total = sum(float(b.weight[own[b.rows]].sum()) for b in found) / 2000
        assert total == pytest.approx(float(rows.weight[own].sum()), rel=2e-3)


@pytest.mark.parametrize("few", [1, 7, 20])
def test_few_positives_are_in_every_batch(few):
    rows = a_sample(positives=few)
    for batch in drawn_batches(rows, weights_of(rows), size=80, positives=0.25, steps=7):
        positive = rows.positive[batch.rows]
        assert positive.sum() == few
        assert torch.equal(batch.weight[positive], rows.weight[rows.positive])
        assert abs(int((~positive).sum()) - (80 - few)) < 25  # and the rest are negatives


def test_a_batch_larger_than_the_sample_holds_all_rows():
    rows = a_sample(20, 5)
    for batch in drawn_batches(rows, weights_of(rows), size=10_000, steps=3):
        assert batch.rows.tolist() == list(range(20))
        assert torch.equal(batch.weight, rows.weight)


def test_batch_sizes():
    rows = a_sample(4000, 1000)
    sizes = [len(batch.rows) for batch in drawn_batches(rows, weights_of(rows), size=400)]
    assert sum(sizes) / len(sizes) == pytest.approx(400, rel=0.02)
    assert max(sizes) < 480


def test_several_processes_draw_the_batches_of_one(monkeypatch):
    rows = a_sample()
    q = weights_of(rows)
    whole = drawn_batches(rows, q, steps=8)
    sums = {}
    own = [torch.arange(len(rows))[rank::2] for rank in range(2)]
    for role in ("tell", "know"):  # first each process tells its sums, then both know those of both
        for rank, places in enumerate(own):
            part = Sample(*(f[places] for f in vars(rows).values() if f is not None))

            def add_up(*tensors, role=role, rank=rank):
                if role == "tell":
                    sums[rank] = [t.clone() for t in tensors]
                else:
                    for i, t in enumerate(tensors):
                        t.copy_(sums[0][i] + sums[1][i])

            monkeypatch.setattr("setpoint.data.sampling.all_reduce_sum", add_up)
            found = drawn_batches(part, q[places], steps=8)
            if role == "know":
                for batch, all_of_it in zip(found, whole, strict=True):
                    mine = torch.isin(all_of_it.rows, places)
                    assert torch.equal(places[batch.rows], all_of_it.rows[mine])
                    assert torch.equal(batch.weight, all_of_it.weight[mine])


def test_another_key_is_another_order():
    rows = a_sample()
    first, again, other = (
        drawn_batches(rows, weights_of(rows), key=k, steps=1) for k in [(1,), (1,), (2,)]
    )
    assert torch.equal(first[0].rows, again[0].rows)
    assert not torch.equal(first[0].rows, other[0].rows)


def test_rows_that_count_more_have_larger_sampling_weights():
    """A row's amount relative to the mean of 5, and its segment of a quarter of the rows."""
    weights = SamplingWeights(torch.ones(2, 1), torch.ones(2, 1), (2.0, 6.0))
    logits, positive = torch.tensor([[0.5, 0.5, 0.5]]), torch.tensor([False] * 3)
    plain = weights.of_rows(logits, positive)
    tallied = replace(weights, means=torch.tensor([1.0, 5.0, 0.25]))
    factors = torch.tensor([[1.0, 5.0, 0.0], [1.0, 50.0, 0.0], [1.0, 5.0, 1.0]])
    found = tallied.of_rows(logits, positive, factors) / plain
    assert found.tolist() == pytest.approx([2 / 3, 11 / 3, 2.0])
    assert torch.equal(tallied.of_rows(logits, positive), plain)


def test_means_of_tallies_are_those_of_the_rows():
    histogram = ScoreHistogram(1, 3)
    counts = torch.tensor([[1.0, 5.0, 0.0], [1.0, 15.0, 0.0], [2.0, 40.0, 0.0]])
    positive = torch.tensor([True, False, False])
    histogram.add(torch.tensor([[0.3, -0.2, 0.1]]), positive, counts[:, 0], counts)
    assert SamplingWeights.of(histogram, 0.1).means.tolist() == [1.0, 15.0, 1.0]
