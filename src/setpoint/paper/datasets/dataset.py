"""A data set in memory, and its splits into training, validation and test rows.

The paper splits rows at random, 8:2, unless the data come with test rows. Its split is not
stratified: its table has 386 and 106 positives for creditcard, where stratification would give 394
and 98. If one text or patient has several rows, such a split leaks; the honest split keeps the rows
of a group together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.files import AtomicFile
from setpoint.errors import SetpointError
from setpoint.paper.datasets.files import CorruptDataError, MissingDataError, read_arrays

Rows = NDArray[np.intp]
PARTS = ("train", "test")
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and labels of a binary problem, validated.

    Attributes
    ----------
    name : str
        A short name; splits depend on it.
    X : ndarray of float32, shape (n, d)
        The features, all finite.
    y : ndarray of bool, shape (n,)
        Which rows are positive; both classes are present.
    groups : ndarray of int64, shape (n,), or None
        Rows of one group, e.g. of one patient, belong in the same split.
    part : ndarray of str, shape (n,), or None
        The official split: ``"train"`` or ``"test"``.
    source : str
        The files that were read, and their digests.
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.bool_]
    groups: NDArray[np.int64] | None = None
    part: NDArray[np.str_] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        try:
            with np.errstate(over="ignore"):  # an overflow to infinity is reported below
                object.__setattr__(self, "X", np.asarray(self.X, dtype=np.float32))
        except (TypeError, ValueError) as error:
            raise self._error(f"X must be numeric ({error})") from error
        if self.X.ndim != 2 or not self.X.shape[1]:
            raise self._error(f"X must be a matrix with columns, not of shape {self.X.shape}")
        check_rows(self.name, len(self.X), self.y, self.groups, self.part)
        if self.groups is not None:
            object.__setattr__(self, "groups", self.groups.astype(np.int64, copy=False))
        finite = np.isfinite(self.X)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise self._error(
                f"X has {int((~finite).sum()):,} values that are not finite, the first in row "
                f"{row}, column {column}"
            )

    def _error(self, what: str) -> SetpointError:
        return SetpointError(f"data set {self.name!r}: {what}.")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def positives(self) -> int:
        """The number of positive rows."""
        return int(self.y.sum())

    def __str__(self) -> str:
        grouped = "" if self.groups is None else f", {len(np.unique(self.groups)):,} groups"
        return (
            f"{self.name}: {len(self):,} rows, {self.positives:,} positives, "
            f"{self.X.shape[1]} features{grouped}"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the data set to one compressed npz file, atomically."""
        path = Path(path)
        # None is written as an empty array, so that a lost array is noticed.
        content: dict[str, Any] = {
            "format": np.int64(_FORMAT),
            "name": np.str_(self.name),
            "source": np.str_(self.source),
            "X": self.X,
            "y": self.y,
            "groups": np.array([], np.int64) if self.groups is None else self.groups,
            "part": np.array([], np.str_) if self.part is None else self.part,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path) as file:
            np.savez_compressed(file, **content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Dataset:
        """Read a file written by :meth:`save`; nothing in it is executed."""
        path = Path(path)
        how = "delete it and save the data set again"
        if not path.is_file():
            raise MissingDataError(f"{path} does not exist; write it with Dataset.save.")
        names = ("format", "name", "source", "X", "y", "groups", "part")
        found = read_arrays(path, names, how)
        if not np.array_equal(found.get("format", 0), _FORMAT) or len(found) < len(names):
            raise CorruptDataError(f"{path} was not written by this version of setpoint; {how}.")
        texts = {name: str(found[name]) for name in names[1:3]}
        arrays = {name: found[name] for name in names[3:5]}
        arrays |= {name: found[name] for name in names[5:] if found[name].size}
        try:
            return cls(**texts, **arrays)  # type: ignore[arg-type]
        except SetpointError as error:
            raise CorruptDataError(f"{path} does not hold a data set: {error} {how}.") from error


def check_rows(
    name: str,
    n: int,
    y: NDArray[np.bool_],
    groups: NDArray[np.int64] | None,
    part: NDArray[np.str_] | None,
) -> None:
    """Raise SetpointError unless labels, groups and parts have one value per row."""
    for what, values, kind in (("y", y, "b"), ("groups", groups, "i"), ("part", part, "U")):
        if values is None and what != "y":
            continue
        if not isinstance(values, np.ndarray) or values.shape != (n,) or values.dtype.kind != kind:
            kinds = {"b": "booleans", "i": "integers", "U": "strings"}
            raise SetpointError(
                f"data set {name!r}: {what} must be {n} {kinds[kind]}, one per row."
            )
    if not y.any() or y.all():
        only = "no positives" if n and not y.any() else "no negatives" if n else "no rows"
        raise SetpointError(f"data set {name!r} has {only}; both classes are needed.")
    if part is not None and not np.isin(part, PARTS).all():
        raise SetpointError(f"data set {name!r}: part must be 'train' or 'test' in every row.")


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint row numbers, each in ascending order."""

    train: Rows
    validation: Rows | None
    test: Rows


def paper_split(dataset: Dataset, trial: int, three: bool = False) -> Split:
    """Return the paper's split: the official one, or else 8:2 of the rows at random.

    Parameters
    ----------
    dataset : Dataset
        The split depends on its name, its number of rows and its official split, if any.
    trial : int
        The number of the repetition, from 0; each has a different split.
    three : bool
        Whether to set validation rows apart: 6:2:2, or a quarter of the official training rows.
    """
    return _split(dataset, trial, three, groups=None)


def honest_split(dataset: Dataset, trial: int, three: bool = False) -> Split:
    """Return the same as :func:`paper_split`, but keep the rows of each group together.

    An official split is kept as it is. Without groups this is the paper's split. Groups are taken
    in random order as long as they fit, so that no subset exceeds its fraction of the rows.
    """
    return _split(dataset, trial, three, groups=dataset.groups)


def leaks(dataset: Dataset, split: Split) -> float:
    """Return the fraction of test rows whose group also has training rows; 0 without groups.

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
        fifth = -(-len(dataset) // 5)  # rounded up, as in the paper's tables
        test, rest = _take(order, fifth, groups)
        validation, train = _take(rest, fifth, groups) if three else (None, rest)
    else:
        test = np.flatnonzero(dataset.part == "test")
        rest = order[dataset.part[order] == "train"]
        quarter = -(-len(rest) // 4)
        validation, train = _take(rest, quarter, groups) if three else (None, rest)
    for name, rows in {"training": train, "validation": validation, "test": test}.items():
        if rows is not None:
            _check_classes(dataset, name, rows)
    return Split(np.sort(train), None if validation is None else np.sort(validation), np.sort(test))


def _generator(name: str, trial: int) -> np.random.Generator:
    """Return a generator that depends only on a name and a number."""
    if isinstance(trial, bool) or not isinstance(trial, int | np.integer) or trial < 0:
        raise SetpointError(f"trial must be a non-negative integer, not {trial!r}.")
    return np.random.default_rng([int(trial), *name.encode()])


def _shuffled(rng: np.random.Generator, rows: Rows, groups: NDArray[np.int64] | None) -> Rows:
    """Return the rows in random order, those of a group next to each other."""
    if groups is None:
        return rng.permutation(rows)
    _, codes = np.unique(groups, return_inverse=True)
    places = rng.permutation(int(codes.max()) + 1)
    return rows[np.argsort(places[codes], kind="stable")]


def _take(order: Rows, count: int, groups: NDArray[np.int64] | None) -> tuple[Rows, Rows]:
    """Return the first rows that fit into a subset of this size, and the others."""
    if groups is None:
        return order[:count], order[count:]
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    taken = np.zeros(len(starts), dtype=bool)
    left = count
    for i, size in enumerate(sizes.tolist()):
        if size <= left:
            taken[i] = True
            left -= size
    rows = np.repeat(taken, sizes)
    return order[rows], order[~rows]


def _check_classes(dataset: Dataset, name: str, rows: Rows) -> None:
    positives = int(dataset.y[rows].sum())
    if positives in (0, len(rows)):
        lacking = "rows" if not len(rows) else "positives" if positives == 0 else "negatives"
        raise SetpointError(
            f"the {name} split of data set {dataset.name!r} has no {lacking}: there are only "
            f"{dataset.positives:,} positives in {len(dataset):,} rows, or its groups are too "
            "large. Try another trial or more data."
        )
