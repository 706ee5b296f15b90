"""Rows that a data loader gives."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sized
from typing import Any

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
from setpoint.data.columns import as_features, as_weights, check_features
from setpoint.data.rows import Block, RowSource
from setpoint.data.splits import ByChance, Parting
from setpoint.errors import SourceError

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class LoaderRows:
    """Labelled rows of a ``torch.utils.data.DataLoader``, or of any iterable of batches.

    A row's number is its place in the pass. A loader that shuffles gives a row another number in
    every pass, and a split by numbers would train on rows that it judges by. It is refused where
    some of its rows are to judge or certify: give the rows that judge as a loader of their own, or
    let all rows judge. For the same reason there are no groups.

    Where several processes share the work, each gives its own rows, as with a
    ``DistributedSampler``. The row at place i of process r then has the number i R + r, R being
    the number of processes.

    Parameters
    ----------
    loader : iterable
        It can be gone through again and again, always gives the same number of rows, and yields
        ``(X, y)`` or ``(X, y, weight)``. X is a tensor of shape (m, ...), which is handed on as it
        is, or an array, which becomes float32; y holds booleans or 0 and 1; weights are >= 0. A
        batch is a block.
    n : int, optional
        How many rows a pass over this process's part has; it is checked. By default that of the
        first pass.

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
                f"a {type(loader).__name__} can be gone through only once, and training takes "
                "several passes; give a list of batches, a DataLoader, or an object whose "
                "__iter__ starts anew."
            )
        if not isinstance(loader, Iterable):
            raise SourceError(
                f"a {type(loader).__name__} is no iterable of batches; a dataset of rows goes "
                "into a torch.utils.data.DataLoader first."
            )
        self.loader = loader
        self._rows: int | None = None if n is None else check_whole(n, "n", error=SourceError)
        self._digest = ""

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the batches of this process, whose rows are a shard."""
        done = 0
        for place, batch in enumerate(self.loader):
            X, positive, weight = _read(batch, f"batch {place}")
            number = torch.arange(done, done + len(positive)) * shards + shard
            done += len(positive)
            if len(positive):
                yield Block(X, positive, weight, number, number)
        self._check(done)

    def fingerprint(self) -> str:
        """Return a digest of a little of what the loader gives.

        It knows the dataset's text and length, and its first item if it has one, or else the first
        batch; where these are made by chance, torch's generator starts from the same seed. It does
        not see other rows, and differs between processes whose first batches do.
        """
        if not self._digest:
            dataset = getattr(self.loader, "dataset", self.loader)
            about = [type(dataset).__qualname__, self._rows_in(dataset)]
            if dataset is not self.loader:
                about.append(_ADDRESS.sub("", repr(dataset)))
            digest = hashlib.sha256(repr(about).encode())
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                X, positive, weight = _read(self._first(dataset), "the first batch")
            digest.update(digest_of((X, positive, weight)).encode())
            self._digest = digest.hexdigest()
        return self._digest

    def _first(self, dataset: Any) -> Any:
        """Return a first batch that does not depend on the order in which the loader goes."""
        loader = self.loader
        if isinstance(loader, DataLoader) and not isinstance(dataset, IterableDataset):
            item = dataset[0]
            return loader.collate_fn(item if loader.batch_sampler is None else [item])
        for batch in loader:
            return batch
        raise SourceError("the loader yields no batches.")

    def _rows_in(self, dataset: Any) -> int | None:
        try:
            return len(dataset) if isinstance(dataset, Sized) else None
        except TypeError:  # an IterableDataset may have a length, or only the name of one
            return None

    def _check(self, rows: int) -> None:
        if rows == 0:
            once = " Can it be gone through only once?" if self._rows else ""
            raise SourceError(f"the loader yields no rows.{once}")
        if self._rows is None:
            self._rows = rows
        if rows != self._rows:
            raise SourceError(
                f"the loader gave {rows:,} rows in this pass, and {self._rows:,} were expected; "
                "every pass must give the same."
            )


def digest_of(parts: Iterable[Tensor]) -> str:
    """Return a digest of the types, shapes and bits of tensors."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
        flat = part.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read(batch: Any, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return features, labels and weights of a batch."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise SourceError(
            f"{name} is {_shown(batch)}; a loader yields (X, y) or (X, y, weight). Choose and "
            "order the parts with the loader's collate_fn."
        )
    X, y, *rest = batch
    if not isinstance(X, Tensor | np.ndarray):
        raise SourceError(
            f"X of {name} is {_shown(X)}; it must be one tensor or array. Put several inputs into "
            "one tensor, and let the model part them."
        )
    check_features(X, f"X of {name}")
    columns = [_column(y, "y", len(X), name)]
    columns += [_column(weight, "weight", len(X), name) for weight in rest]

    def where(*index: int) -> str:
        return f"X[{', '.join(map(str, index))}] of {name}"

    features = as_features(X, where)
    positive = _truths(columns[0], name)
    if not rest:
        return features, positive, torch.ones(len(X), dtype=torch.float64)
    return features, positive, as_weights(columns[1], lambda row: f"weight[{row}] of {name}")


def _column(values: Any, what: str, rows: int, name: str) -> NDArray[Any]:
    if not isinstance(values, Tensor | np.ndarray):
        raise SourceError(f"{what} of {name} is {_shown(values)}; it must be a tensor or an array.")
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    found: NDArray[Any] = values[:, 0] if values.shape[1:] == (1,) else values
    if found.shape != (rows,):
        raise SourceError(
            f"{what} of {name} has the shape {found.shape}; X has {rows} rows, and each needs one."
        )
    return found


def _truths(y: NDArray[Any], name: str) -> Tensor:
    wrong = ~np.isin(y, (0, 1))
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(
            f"y[{row}] of {name} is {y[row]}; labels are booleans, or 0 and 1. Let the loader "
            "yield y == positive_label."
        )
    return torch.from_numpy(y == 1)


def _shown(value: Any) -> str:
    """Return in words what a value is."""
    kind = type(value).__name__
    if isinstance(value, tuple | list | dict):
        return f"a {kind} of {len(value)}"
    return f"of type {kind}"


_BY_CHANCE = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def check_passes(source: RowSource, validation: RowSource | None, parting: Parting | None) -> None:
    """Refuse loaders with which rows that trained would judge, or other rows in every pass.

    A rule that parts rows by their numbers needs a loader that keeps its order. Any order will do
    where all rows train, or judge, if they are the same rows. At most two first batches are read.
    """
    if isinstance(source, LoaderRows) and _goes_by_number(parting):
        _check_order(source, parting)
    judges = source if validation is None else validation
    if isinstance(judges, LoaderRows) and _draws(judges.loader):
        raise SourceError(
            "the loader gives other rows in every pass: its sampler draws some of them by chance, "
            "or it drops the last ones of a new order. Rows that judge must stay the same. "
            "Let the rows of a loader that gives all of its rows judge: "
            "validation=LoaderRows(DataLoader(...))."
        )


def _goes_by_number(parting: Parting | None) -> bool:
    """Whether a row's place in the pass decides; a rule of one's own may go by its features."""
    return isinstance(parting, ByChance) and parting != ByChance(seed=parting.seed)


def _check_order(source: LoaderRows, parting: Parting | None) -> None:
    sampler = _sampler(source.loader)
    if isinstance(sampler, _BY_CHANCE):
        found = f"the loader shuffles its rows (its sampler is a {type(sampler).__name__})"
    elif _first_rows_differ(source):
        found = (
            "two passes over the loader begin with different rows; they are shuffled, or changed "
            "by chance"
        )
    else:
        return
    # Rows of their own may judge, but those that certify or test are set apart in any case.
    only_judging = isinstance(parting, ByChance) and parting == ByChance(
        parting.judging, seed=parting.seed
    )
    apart = (
        "; or let rows in a loader of their own judge: validation=LoaderRows(other)"
        if only_judging
        else ""
    )
    raise SourceError(
        f"{found}. Which rows are kept from training, to judge or to certify, goes by their place "
        "in the pass, and here each would train sooner or later. Use a loader without shuffle "
        f"(training draws its batches by chance in any case){apart}."
    )


def _sampler(loader: Any) -> Any:
    """Return what decides on the order of a data loader's rows, where that is known."""
    if not isinstance(loader, DataLoader):
        return None
    inner = getattr(loader.batch_sampler, "sampler", None)
    return loader.sampler if inner is None else inner


def _first_rows_differ(source: LoaderRows) -> bool:
    with torch.random.fork_rng(devices=[]):  # what comes after is as if nobody had looked
        first, second = (digest_of(_first_block(source)) for _ in range(2))
    return first != second


def _first_block(source: LoaderRows) -> tuple[torch.Tensor, ...]:
    block = next(source.blocks())
    return block.X, block.positive, block.weight


def _draws(loader: Any) -> bool:
    """Whether passes have different rows, and not only another order of them."""
    sampler = _sampler(loader)
    if isinstance(sampler, WeightedRandomSampler):
        return True
    if not isinstance(sampler, _BY_CHANCE):
        return False
    some = isinstance(sampler, RandomSampler) and (
        sampler.replacement or sampler.num_samples != len(sampler.data_source)
    )
    batches = loader.batch_sampler
    drops = isinstance(batches, BatchSampler) and batches.drop_last
    return bool(some or (drops and len(sampler) % batches.batch_size))


# DOC of streams._passes: What must be the same in every pass over a loader, looked at before a training begins.
