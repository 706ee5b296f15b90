"""Which rows train, which tune and which test.

The paper's protocol is a plain random split of the rows, 8:2, unless the data come with a test
part. It is not stratified: the 386 and 106 positives that its table has for creditcard would be
394 and 98. Where the same text or patient is in several rows such a split leaks; the honest one
keeps them together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.paper.datasets.dataset import Dataset

Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of rows, in ascending order; no row is in two parts."""

    train: Rows
    validation: Rows | None
    test: Rows


def paper_split(dataset: Dataset, trial: int, three: bool = False) -> Split:
    """Return the paper's split: the official parts, or else 8:2 of the rows at random.

    Parameters
    ----------
    dataset : Dataset
        The split depends on its name and number of rows, and on its parts if it has any.
    trial : int
        The number of the repetition, from 0; each has another split.
    three : bool
        Whether a validation part is wanted: 6:2:2, or a quarter of the official training part.
    """
    return _split(dataset, trial, three, groups=None)


def honest_split(dataset: Dataset, trial: int, three: bool = False) -> Split:
    """Return the same as :func:`paper_split` with the rows of a group kept together.

    Official parts are kept as they are. Without groups it is the paper's split. Groups are taken
    in random order as long as they fit, so that a part never has more than its share of the rows.
    """
    return _split(dataset, trial, three, groups=dataset.groups)


def leaks(dataset: Dataset, split: Split) -> float:
    """Return the share of the test rows whose group is in the training part as well.

    It is 0 where the data set has no groups.

    Examples
    --------
    >>> import numpy as np
    >>> data = Dataset("a", np.zeros((4, 1)), np.array([True, False] * 2), np.array([0, 1, 0, 2]))
    >>> leaks(data, Split(np.array([0, 1]), None, np.array([2, 3])))
    0.5
    """
    if dataset.groups is None or not len(split.test):
        return 0.0
    return float(np.isin(dataset.groups[split.test], dataset.groups[split.train]).mean())


def _split(dataset: Dataset, trial: int, three: bool, groups: NDArray[np.int64] | None) -> Split:
    rng = _generator(dataset.name, trial)
    order = _shuffled(rng, np.arange(len(dataset)), groups)
    if dataset.part is None:
        fifth = -(-len(dataset) // 5)  # rounded up, as the paper's tables have it
        test, rest = _take(order, fifth, groups)
        validation, train = _take(rest, fifth, groups) if three else (None, rest)
    else:
        test = np.flatnonzero(dataset.part == "test")
        rest = order[dataset.part[order] == "train"]
        quarter = -(-len(rest) // 4)
        validation, train = _take(rest, quarter, groups) if three else (None, rest)
    parts = {"training": train, "validation": validation, "test": test}
    for name, rows in parts.items():
        if rows is not None:
            _check_classes(dataset, name, rows)
    return Split(np.sort(train), None if validation is None else np.sort(validation), np.sort(test))


def _generator(name: str, trial: int) -> np.random.Generator:
    """Return a generator that depends on nothing but a name and a number."""
    if isinstance(trial, bool) or not isinstance(trial, int | np.integer) or trial < 0:
        raise SetpointError(f"trial must be a whole number from 0, not {trial!r}.")
    return np.random.default_rng([int(trial), *name.encode()])


def _shuffled(rng: np.random.Generator, rows: Rows, groups: NDArray[np.int64] | None) -> Rows:
    """Return the rows in random order, those of a group one after the other."""
    if groups is None:
        return rng.permutation(rows)
    _, codes = np.unique(groups, return_inverse=True)
    places = rng.permutation(int(codes.max()) + 1)
    return rows[np.argsort(places[codes], kind="stable")]


def _take(order: Rows, count: int, groups: NDArray[np.int64] | None) -> tuple[Rows, Rows]:
    """Return the first rows that fit into a part of this size, and the others."""
    if groups is None:
        return order[:count], order[count:]
    own = groups[order]
    starts = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    taken = np.zeros(len(starts), dtype=bool)
    room = count
    for i, size in enumerate(sizes.tolist()):
        if size <= room:
            taken[i] = True
            room -= size
    mine = np.repeat(taken, sizes)
    return order[mine], order[~mine]


def _check_classes(dataset: Dataset, name: str, rows: Rows) -> None:
    positives = int(dataset.y[rows].sum())
    if positives in (0, len(rows)):
        lacking = "rows" if not len(rows) else "positives" if positives == 0 else "negatives"
        raise SetpointError(
            f"the {name} part of data set {dataset.name!r} has no {lacking}: with "
            f"{dataset.positives:,} positives in {len(dataset):,} rows, or groups so large, try "
            "another trial or more data."
        )
