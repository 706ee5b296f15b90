"""Rows of a data loader."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Sized
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from setpoint._internal.validation import check_whole
from setpoint.data.labels import Labels
from setpoint.data.rows import (
    Block,
    RowSource,
    as_array,
    as_features,
    as_weights,
    bits_of,
    check_features,
)
from setpoint.data.splits import ByChance, SplitRule
from setpoint.errors import SourceError

_POSITION = (
    "Rows are set aside for validation or certification by their position in the pass, so that "
    "here each would be trained on sooner or later."
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class LoaderRows:
    """Labelled rows of a ``torch.utils.data.DataLoader``, or of any iterable of batches.

    A row's number is its position in the pass. A loader that shuffles gives a row another number in
    every pass, so that a split by number would put validation rows into training. Such a loader
    raises an error if some of its rows are set aside for validation or certification: pass the
    validation rows as a loader of their own, or use all rows for both. For the same reason there
    are no groups.

    In a process group each process provides its own rows, as with a ``DistributedSampler``. Row i
    of rank r then has the number i R + r, where R is the number of processes.

    Parameters
    ----------
    loader : iterable
        Can be iterated any number of times, always with the same number of rows, and yields
        ``(X, y)`` or ``(X, y, weight)``. X is a tensor of shape (m, ...), which is passed on
        unchanged, or an array, which becomes float32; y holds booleans or 0 and 1; weights are
        >= 0. A batch is a block.
    n : int, optional
        The number of rows that a pass of this process yields, which is checked. By default that of
        the first pass.

    Examples
    --------
    >>> batches = [(torch.zeros(2, 3), torch.tensor([0, 1])), (torch.ones(1, 3), torch.ones(1))]
    >>> [block.number.tolist() for block in LoaderRows(batches).blocks()]
    [[0, 1], [2]]
    """

    by_process = True  # each process has its own rows

    def __init__(self, loader: Any, *, n: int | None = None) -> None:
        if isinstance(loader, Iterator):
            raise SourceError(
                f"a {type(loader).__name__} can be iterated only once, and training takes "
                "several passes; pass a list of batches, a DataLoader, or an object whose "
                "__iter__ starts from the beginning."
            )
        if not isinstance(loader, Iterable):
            raise SourceError(
                f"a {type(loader).__name__} is not an iterable of batches; wrap a dataset of rows "
                "in a torch.utils.data.DataLoader."
            )
        self.loader = loader
        self._rows: int | None = None if n is None else check_whole(n, "n", error=SourceError)
        self._digest = ""
        self._order: list[int] | None = None  # digests of the batches, where their order matters

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the batches of this process, whose rows are its shard."""
        done = 0
        for place, batch in enumerate(self.loader):
            X, positive, weight = _read(batch, f"batch {place}")
            self._compare(place, X, positive)
            number = torch.arange(done, done + len(positive)) * shards + shard
            done += len(positive)
            if len(positive):
                yield Block(X, positive, weight, number, number)
        self._check(done)

    def keep_order(self) -> None:
        """From now on, raise SourceError for a batch that differs from that of an earlier pass."""
        self._order = []

    def _compare(self, place: int, X: Tensor, positive: Tensor) -> None:
        if self._order is None:
            return
        digest = zlib.crc32(bits_of(positive).data, zlib.crc32(bits_of(X).data))
        if place >= len(self._order):
            self._order.append(digest)
        elif digest != self._order[place]:
            raise SourceError(
                f"batch {place} is another one than in an earlier pass; the loader shuffles its "
                f"rows, or changes them at random. {_POSITION} Use a loader that keeps its order, "
                "or pass validation rows as a loader of their own: validation=LoaderRows(other)."
            )

    def fingerprint(self) -> str:
        """Return a digest of a few properties of the loader.

        It covers the dataset's representation and length, and its first item if it has one, or else
        the first batch; for random ones, torch's generator starts from a fixed seed. It does not
        cover other rows, and differs between processes whose first batches differ.
        """
        if not self._digest:
            dataset = getattr(self.loader, "dataset", self.loader)
            try:
                rows = len(dataset) if isinstance(dataset, Sized) else None
            except TypeError:  # an IterableDataset may define __len__ without having a length
                rows = None
            facts = [type(dataset).__qualname__, rows]
            if dataset is not self.loader:
                facts.append(_ADDRESS.sub("", repr(dataset)))
            digest = hashlib.sha256(repr(facts).encode())
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                X, positive, weight = _read(self._first_batch(dataset), "the first batch")
            digest.update(_digest_of((X, positive, weight)).encode())
            self._digest = digest.hexdigest()
        return self._digest

    def _first_batch(self, dataset: Any) -> Any:
        """Return a first batch that does not depend on the order of the loader."""
        loader = self.loader
        if isinstance(loader, DataLoader) and not isinstance(dataset, IterableDataset):
            item = dataset[0]
            return loader.collate_fn(item if loader.batch_sampler is None else [item])
        for batch in loader:
            return batch
        raise SourceError("the loader yields no batches.")

    def _check(self, rows: int) -> None:
        if rows == 0:
            once = " Can it be iterated only once?" if self._rows else ""
            raise SourceError(f"the loader yields no rows.{once}")
        if self._rows is None:
            self._rows = rows
        if rows != self._rows:
            raise SourceError(
                f"the loader gave {rows:,} rows in this pass, and {self._rows:,} were expected; "
                "every pass must yield the same rows."
            )


def _digest_of(tensors: Iterable[Tensor]) -> str:
    """Return a digest of the types, shapes and bits of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(bits_of(tensor).data)
    return digest.hexdigest()


def _read(batch: Any, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, labels and weights of a batch."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise SourceError(
            f"{name} is {describe(batch)}; a loader yields (X, y) or (X, y, weight). Select and "
            "order the items with the loader's collate_fn."
        )
    X, y, *rest = batch
    if not isinstance(X, Tensor | np.ndarray):
        raise SourceError(
            f"X of {name} is {describe(X)}; it must be one tensor or array. Put several "
            "inputs into one tensor, which the model splits."
        )
    check_features(X, f"X of {name}")
    columns = [column(y, "y", len(X), name)]
    columns += [column(weight, "weight", len(X), name) for weight in rest]

    def where(*index: int) -> str:
        return f"X[{', '.join(map(str, index))}] of {name}"

    features = as_features(X, where)
    positive = truths(columns[0], name)
    if not rest:
        return features, positive, torch.ones(len(X), dtype=torch.float64)
    return features, positive, as_weights(columns[1], lambda row: f"weight[{row}] of {name}")


def column(values: Any, what: str, rows: int, name: str) -> NDArray[Any]:
    """Return one value per row of a batch, given in the shape (rows,) or (rows, 1)."""
    if not isinstance(values, Tensor | np.ndarray):
        raise SourceError(
            f"{what} of {name} is {describe(values)}; it must be a tensor or an array."
        )
    found = as_array(values)
    if found.shape[1:] == (1,):
        found = found[:, 0]
    if found.shape != (rows,):
        raise SourceError(
            f"{what} of {name} has the shape {found.shape}; X has {rows} rows, and each needs one."
        )
    return found


def truths(y: NDArray[Any], name: str) -> Tensor:
    """Return which labels of a batch are positive: booleans, or 0 and 1."""
    positive, known = Labels.pair(0, 1).compare(y)
    if not known.all():
        row = int(known.argmin())
        raise SourceError(
            f"y[{row}] of {name} is {y[row]}; labels are booleans, or 0 and 1. Have the loader "
            "yield y == positive_label."
        )
    return torch.from_numpy(positive.copy())


def describe(value: Any) -> str:
    """Return a short description of a value."""
    kind = type(value).__name__
    if isinstance(value, tuple | list | dict):
        return f"a {kind} of {len(value)}"
    return f"of type {kind}"


_RANDOM = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def check_passes(source: RowSource, validation: RowSource | None, split: SplitRule | None) -> None:
    """Raise SourceError if a loader would mix training and validation rows.

    A split by row number needs a loader that keeps its order. If all rows are used for training,
    or for validation, any order will do as long as every pass has the same rows. At most two first
    batches are read, before training starts.
    """
    # By chance, a row's position in the pass decides; a custom rule may go by its features.
    by_number = isinstance(split, ByChance) and split != ByChance(seed=split.seed)
    if isinstance(source, LoaderRows) and by_number:
        _check_order(source, cast(ByChance, split))
    validating = source if validation is None else validation
    if isinstance(validating, LoaderRows) and _rows_vary(validating.loader):
        raise SourceError(
            "the loader yields other rows in every pass: its sampler draws some of them at random, "
            "or it drops the last ones of a shuffled order. Validation rows must stay the same. "
            "Pass them as a loader that yields all of its rows: "
            "validation=LoaderRows(DataLoader(...))."
        )


def _check_order(source: LoaderRows, split: ByChance) -> None:
    sampler = _sampler(source.loader)
    if isinstance(sampler, _RANDOM):
        found = f"the loader shuffles its rows (its sampler is a {type(sampler).__name__})"
    elif _first_rows_differ(source):
        found = (
            "two passes over the loader begin with different rows; they are shuffled, or changed "
            "at random"
        )
    else:
        source.keep_order()  # the first batch may be the only one that keeps its place
        return
    # Validation rows may come from another loader, but certification and test rows may not.
    remedy = "Use a loader without shuffle (training draws its batches at random in any case)"
    if split == ByChance(split.validation, seed=split.seed):
        remedy += "; or pass validation rows as a loader of their own: validation=LoaderRows(other)"
    raise SourceError(f"{found}. {_POSITION} {remedy}.")


def _sampler(loader: Any) -> Any:
    """Return the sampler that orders a data loader's rows, if known."""
    if not isinstance(loader, DataLoader):
        return None
    inner = getattr(loader.batch_sampler, "sampler", None)
    return loader.sampler if inner is None else inner


def _first_rows_differ(source: LoaderRows) -> bool:
    def first() -> str:
        block = next(source.blocks())
        return _digest_of((block.X, block.positive, block.weight))

    with torch.random.fork_rng(devices=[]):  # the check must not advance the generator
        return first() != first()


def _rows_vary(loader: Any) -> bool:
    """Whether passes have different rows, and not only a different order."""
    sampler = _sampler(loader)
    if isinstance(sampler, WeightedRandomSampler):
        return True
    if not isinstance(sampler, _RANDOM):
        return False
    some = isinstance(sampler, RandomSampler) and (
        sampler.replacement or sampler.num_samples != len(sampler.data_source)
    )
    batches = loader.batch_sampler
    drops = isinstance(batches, BatchSampler) and batches.drop_last
    return bool(some or (drops and len(sampler) % batches.batch_size))
