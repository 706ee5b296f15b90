"""Batches of loaders as calls of a module."""

from collections import UserDict

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from setpoint import SetpointError
from setpoint.data.loader_batches import LoaderBatches
from setpoint.errors import SourceError

CPU = torch.device("cpu")
X, Y = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 1, 0])


class Inputs(nn.Module):
    """Returns what it was called with."""

    def forward(self, *args, **kwargs):
        return args, kwargs


def first(batch, **names):
    return next(iter(LoaderBatches([batch], **names)))


@pytest.mark.parametrize(
    ("batch", "args", "names"),
    [
        ((X, Y), 1, []),
        ([X, Y], 1, []),
        ((X, Y, torch.ones(4)), 1, []),
        (((X, X), Y), 2, []),
        (([X, X, X], Y), 3, []),
        (({"a": X, "b": X}, Y), 0, ["a", "b"]),
        ({"a": X, "labels": Y}, 0, ["a"]),
        (UserDict({"a": X, "b": X, "label": Y}), 0, ["a", "b"]),
    ],
)
def test_inputs_are_passed_as_they_come(batch, args, names):
    found = first(batch)
    positional, named = found.output(Inputs(), CPU)
    assert len(positional) == args
    assert list(named) == names
    assert all(torch.equal(each, X) for each in (*positional, *named.values()))
    assert found.positive.tolist() == [False, True, True, False]
    assert found.weight.tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "y", [Y.bool(), Y.int(), Y.float(), Y[:, None], Y.float()[:, None], Y.numpy(), Y.tolist()]
)
def test_labels_of_any_type(y):
    assert first((X, y)).positive.tolist() == [False, True, True, False]


def test_keys_of_labels_and_weights():
    batch = {"a": X, "fraud": Y, "w": torch.arange(4), "labels": X}
    found = first(batch, label="fraud", weight="w")
    assert list(found.inputs) == ["a", "labels"]
    assert found.weight.tolist() == [0, 1, 2, 3]
    assert first((X, Y, torch.arange(4))).weight.tolist() == [0, 1, 2, 3]


def test_arrays_become_tensors_of_the_usual_type():
    found = first(((np.ones((4, 2)), np.ones((4, 1), dtype=np.int64)), Y))
    (one, two), _ = found.output(Inputs(), CPU)
    assert (one.dtype, two.dtype) == (torch.float32, torch.int64)


def test_inputs_are_moved_to_the_device():
    (x,), _ = first((X, Y)).output(Inputs(), torch.device("meta"))
    assert x.device.type == "meta"


@pytest.mark.parametrize(
    ("batch", "names", "message"),
    [
        (X, {}, "batch 0 is of type Tensor; a loader yields"),
        ((X, X, X, Y), {}, r"a tuple of 4; .* several inputs as \(\(x1, x2\), y\)"),
        ((X,), {}, "a tuple of 1"),
        ({"a": X, "y": Y}, {}, "a dict without 'labels' or 'label'; its keys are 'a', 'y'"),
        ({"a": X, "y": Y}, {"label": "z"}, "a dict without 'z'"),
        ({"a": X, "label": Y}, {"weight": "w"}, "a dict without 'w'"),
        ({"label": Y}, {}, "labels and no inputs"),
        ((X, Y[:3]), {}, r"y of batch 0 has the shape \(3,\); X has 4 rows"),
        ((X, torch.tensor([0, 1, 2, 0])), {}, r"y\[2\] of batch 0 is 2; labels are booleans"),
        (((X, X), torch.zeros(4, 2)), {}, r"y of batch 0 has the shape \(4, 2\)"),
        ((X, Y, -torch.ones(4)), {}, r"weight\[0\] of batch 0 is -1.0"),
        (("some text", Y), {}, "x of batch 0 is of type str"),
        (((), Y), {}, "x of batch 0 is a tuple of 0"),
    ],
)
def test_batches_that_cannot_be_read(batch, names, message):
    with pytest.raises(SourceError, match=message):
        first(batch, **names)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (((X, X), Y), r"2 inputs \(4, 2\).*the first batch an input of the shape \(4, 2\)"),
        ((X.double(), Y), "of torch.float64, and the first batch"),
        ((X[..., None], Y), r"the shape \(4, 2, 1\)"),
        (({"a": X}, Y), r"the inputs a \(4, 2\)"),
    ],
)
def test_all_batches_have_the_inputs_of_the_first(other, message):
    with pytest.raises(SourceError, match=f"batch 1 .*{message}"):
        list(LoaderBatches([(X, Y), other]))


def test_lengths_may_differ_as_those_of_padded_texts_do():
    assert len(list(LoaderBatches([(X, Y), (X[:, :1], Y)]))) == 2


def test_a_module_that_does_not_fit_is_told_the_batch():
    batches = list(LoaderBatches([(X, Y), (X[:, :1], Y)]))
    layer = nn.Linear(2, 1)
    assert batches[0].output(layer, CPU).shape == (4, 1)
    with pytest.raises(SetpointError, match=r"cannot take batch 1, an input of the shape \(4, 1\)"):
        batches[1].output(layer, CPU)
    with pytest.raises(SetpointError, match=r"the inputs ids \(4, 2\).*unexpected keyword"):
        first({"ids": X, "labels": Y}).output(layer, CPU)


def test_loaders_that_can_be_read_only_once():
    with pytest.raises(SourceError, match="can be iterated only once"):
        LoaderBatches(iter([(X, Y)]))

    class Once:
        def __init__(self):
            self._all = iter([(X, Y)])

        def __iter__(self):
            return self._all

    batches = LoaderBatches(Once())
    assert len(list(batches)) == 1
    with pytest.raises(SourceError, match=r"yields no rows. Can it be iterated only once\?"):
        list(batches)
    with pytest.raises(SourceError, match="the loader of the validation rows yields no rows.$"):
        list(LoaderBatches([], on="the validation rows"))


@pytest.mark.parametrize("loader", [TensorDataset(X, Y).tensors[0], 3, {"a": X}, np.ones(3)])
def test_what_is_no_loader(loader):
    with pytest.raises(SourceError, match="not an iterable of batches"):
        LoaderBatches(loader)


class Rows(IterableDataset):
    def __iter__(self):
        return zip(X, Y, strict=True)


def test_the_number_of_steps_is_known_or_none():
    assert LoaderBatches(DataLoader(TensorDataset(X, Y), batch_size=3)).steps() == 2
    rows = LoaderBatches(DataLoader(Rows(), batch_size=3))
    assert rows.steps() is None
    assert [len(batch) for batch in rows] == [3, 1]
