"""What must be the same in every pass over a loader, looked at before a training begins."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from setpoint.streams.block import RowSource
from setpoint.streams.errors import SourceError
from setpoint.streams.loaders import LoaderRows, digest_of
from setpoint.streams.parts import ByChance, Parting

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
