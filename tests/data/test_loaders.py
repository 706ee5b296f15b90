"""Rows of data loaders."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

from many_ranks import all_rows
from setpoint.data.loaders import LoaderRows
from setpoint.errors import SourceError


def dataset(n=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, 3, generator=generator)
    return TensorDataset(X, torch.arange(n) % 3 == 0, torch.rand(n, generator=generator))


class Endless(IterableDataset):
    """Rows of which nobody knows the number before they have come."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return ((torch.full((2,), float(i)), i % 2) for i in range(self.n))


@settings(max_examples=40)
@given(n=st.integers(1, 30), batch=st.integers(1, 35), world=st.integers(1, 4))
def test_all_blocks_together_are_exactly_the_rows(n, batch, world):
    world = min(n, world)  # a process without any row is refused
    whole, ranks = dataset(n), []
    for rank in range(world):  # every process gives every R-th row
        mine = DataLoader(torch.utils.data.Subset(whole, range(rank, n, world)), batch)
        ranks.append(list(LoaderRows(mine).blocks(rank, world)))
    rows = all_rows(ranks)
    assert rows["number"].tolist() == list(range(n))
    assert torch.equal(rows["unit"], rows["number"])
    for name, expected in zip(("X", "positive", "weight"), whole.tensors, strict=True):
        assert torch.equal(rows[name], expected.to(rows[name].dtype))
    assert rows["weight"].dtype == torch.float64


def test_a_distributed_sampler():
    samplers = [DistributedSampler(dataset(8), 2, rank, shuffle=False) for rank in range(2)]
    loaders = [DataLoader(dataset(8), 3, sampler=sampler) for sampler in samplers]
    rows = all_rows([list(LoaderRows(x).blocks(rank, 2)) for rank, x in enumerate(loaders)])
    assert torch.equal(rows["X"], dataset(8).tensors[0])


def test_an_iterable_dataset():
    source = LoaderRows(DataLoader(Endless(5), 2), n=5)
    for _ in range(2):
        blocks = list(source.blocks())
        assert [block.number.tolist() for block in blocks] == [[0, 1], [2, 3], [4]]
        assert blocks[1].positive.tolist() == [False, True]
        assert blocks[1].X.tolist() == [[2.0, 2.0], [3.0, 3.0]]


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
def test_arrays_and_labels_of_many_types(dtype, shape):
    y = np.array([0, 1, 0]).astype(dtype).reshape(shape)
    batch = (np.arange(6.0).reshape(3, 2), torch.as_tensor(y), np.array([1, 0, 2]))
    (block,) = LoaderRows([batch]).blocks()
    assert block.X.dtype == torch.float32
    assert block.positive.dtype == torch.bool
    assert block.positive.tolist() == [False, True, False]
    assert block.weight.tolist() == [1.0, 0.0, 2.0]


def test_tensors_stay_as_they_are_and_texts_may_differ_in_length():
    batches = [(torch.zeros(2, k, dtype=torch.int64), torch.tensor([0, 1])) for k in (5, 9)]
    assert [block.X.shape for block in LoaderRows(batches).blocks()] == [(2, 5), (2, 9)]
    assert all(block.X.dtype == torch.int64 for block in LoaderRows(batches).blocks())


def test_an_empty_batch_makes_no_block():
    batches = [(torch.zeros(0, 2), torch.zeros(0)), (torch.zeros(1, 2), torch.ones(1))]
    (block,) = LoaderRows(batches).blocks()
    assert block.number.tolist() == [0]


def generator():
    yield torch.zeros(2, 1), torch.tensor([0, 1])


@pytest.mark.parametrize("once", [generator(), iter([1, 2]), zip([1], [2], strict=True)])
def test_what_can_be_gone_through_only_once_is_refused(once):
    with pytest.raises(SourceError, match="only once.*list of batches, a DataLoader"):
        LoaderRows(once)


def test_what_turns_out_to_be_empty_the_second_time_is_refused():
    class Hidden:
        def __init__(self):
            self.inner = generator()

        def __iter__(self):
            return self.inner

    source = LoaderRows(Hidden())
    assert len(list(source.blocks())) == 1
    with pytest.raises(SourceError, match="no rows. Can it be iterated only once"):
        list(source.blocks())


def test_every_pass_must_give_as_many_rows():
    batches = [(torch.zeros(2, 1), torch.tensor([0, 1]))]
    source = LoaderRows(batches)
    list(source.blocks())
    batches.append(batches[0])
    with pytest.raises(SourceError, match="4 rows in this pass, and 2 were expected"):
        list(source.blocks())
    with pytest.raises(SourceError, match="4 rows in this pass, and 5 were expected"):
        list(LoaderRows(batches, n=5).blocks())
    with pytest.raises(SourceError, match="yields no rows.$"):
        list(LoaderRows([]).blocks())


@pytest.mark.parametrize("loader", [5, torch.nn.Linear(1, 1)])
def test_objects_that_are_not_loaders(loader):
    with pytest.raises(SourceError, match="not an iterable of batches"):
        LoaderRows(loader)


@pytest.mark.parametrize("n", [0, 1.5, "2"])
def test_a_number_of_rows_that_is_none(n):
    with pytest.raises(SourceError, match="n must be a whole number"):
        LoaderRows([], n=n)


X, Y = torch.zeros(2, 3), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"X": X, "y": Y}, r"batch 1 is a dict of 2; a loader yields \(X, y\)"),
        (X, "batch 1 is of type Tensor"),
        ((X,), "batch 1 is a tuple of 1"),
        ((X, Y, Y, Y), "batch 1 is a tuple of 4"),
        (((X, X), Y), "X of batch 1 is a tuple of 2; it must be one tensor"),
        (({"ids": X}, Y), "X of batch 1 is a dict of 1"),
        ((X, [0, 1]), "y of batch 1 is a list of 2"),
        ((X[0], Y), r"X of batch 1 has the shape \(3,\)"),
        ((X, Y[:1]), r"y of batch 1 has the shape \(1,\); X has 2 rows"),
        ((X, torch.stack([Y, Y], 1)), r"y of batch 1 has the shape \(2, 2\)"),
        ((X, Y + 1), r"y\[1\] of batch 1 is 2; labels are"),
        ((X, Y * 0.5), r"y\[1\] of batch 1 is 0.5"),
        ((X, Y * torch.nan), r"y\[0\] of batch 1 is nan"),
        ((X, np.array(["a", "b"])), r"y\[0\] of batch 1 is a"),
        ((X / torch.tensor([1, 1, 0]), Y), r"X\[0, 2\] of batch 1 is nan"),
        ((X, Y, -Y), r"weight\[1\] of batch 1 is -1"),
        ((X, Y, Y[:1]), "weight of batch 1 has the shape"),
        ((np.array([["a"], ["b"]]), Y), "X of batch 1 is of type <U1"),
    ],
)
def test_invalid_batches(batch, message):
    with pytest.raises(SourceError, match=message):
        list(LoaderRows([(X, Y), batch]).blocks())


def test_the_fingerprint_does_not_depend_on_the_order_nor_on_the_rank():
    known = LoaderRows(DataLoader(dataset(), 4)).fingerprint()
    state = torch.get_rng_state()
    shuffled = LoaderRows(DataLoader(dataset(), 7, shuffle=True))
    assert shuffled.fingerprint() == shuffled.fingerprint() == known
    sampler = DistributedSampler(dataset(), 2, 1, shuffle=False)
    assert LoaderRows(DataLoader(dataset(), 4, sampler=sampler)).fingerprint() == known
    assert torch.equal(torch.get_rng_state(), state)
    assert LoaderRows(DataLoader(dataset(seed=1), 4)).fingerprint() != known
    assert LoaderRows(DataLoader(dataset(21), 4)).fingerprint() != known


def test_the_fingerprint_of_what_has_no_items():
    known = LoaderRows(DataLoader(Endless(5), 2)).fingerprint()
    assert LoaderRows(DataLoader(Endless(5), 2)).fingerprint() == known
    assert LoaderRows(DataLoader(Endless(5), 3)).fingerprint() != known
    batches = [(X, Y), (X + 1, Y)]
    lists = [LoaderRows(b).fingerprint() for b in (batches, batches[::-1], batches[:1])]
    assert len({known, *lists}) == 4
    assert LoaderRows(list(batches)).fingerprint() == lists[0]
    with pytest.raises(SourceError, match="no batches"):
        LoaderRows([]).fingerprint()


def test_the_fingerprint_of_rows_that_are_disturbed_by_chance():
    class Disturbed(TensorDataset):
        def __getitem__(self, row):
            X, y = super().__getitem__(row)
            return X + torch.randn(3), y

    class Shuffled(Endless):
        def __iter__(self):
            return ((torch.full((2,), float(i)), i % 2) for i in torch.randperm(self.n))

    for rows in (Disturbed(torch.zeros(5, 3), torch.arange(5) % 2), Shuffled(100)):
        first = LoaderRows(DataLoader(rows, 2)).fingerprint()
        torch.rand(1)
        assert LoaderRows(DataLoader(rows, 2)).fingerprint() == first
