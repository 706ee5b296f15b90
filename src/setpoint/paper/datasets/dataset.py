"""Features and labels of a data set, checked, with the rows that must stay together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.files import AtomicFile
from setpoint.errors import SetpointError
from setpoint.paper.datasets.files import CorruptDataError, MissingDataError, read_arrays

PARTS = ("train", "test")
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Dataset:
    """A binary problem.

    Attributes
    ----------
    name : str
        Its short name; splits depend on it.
    X : ndarray of float32, shape (n, d)
        The features, all finite.
    y : ndarray of bool, shape (n,)
        Which rows are positive; there are both kinds.
    groups : ndarray of int64, shape (n,), or None
        Rows of one group must not be parted: the same text, the same patient.
    part : ndarray of str, shape (n,), or None
        The official split: ``"train"`` or ``"test"``.
    source : str
        What was read: files and their digests, for the record.
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.bool_]
    groups: NDArray[np.int64] | None = None
    part: NDArray[np.str_] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        try:
            with np.errstate(over="ignore"):  # what is too large for float32 is refused below
                object.__setattr__(self, "X", np.asarray(self.X, dtype=np.float32))
        except (TypeError, ValueError) as error:
            raise self._error(f"X must be numbers ({error})") from error
        if self.X.ndim != 2 or not self.X.shape[1]:
            raise self._error(f"X must have rows and columns, not the shape {self.X.shape}")
        check_rows(self.name, len(self.X), self.y, self.groups, self.part)
        if self.groups is not None:
            object.__setattr__(self, "groups", self.groups.astype(np.int64, copy=False))
        finite = np.isfinite(self.X)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise self._error(
                f"X has {int((~finite).sum()):,} entries that are not finite, the first in row "
                f"{row}, column {column}"
            )

    def _error(self, what: str) -> SetpointError:
        return SetpointError(f"data set {self.name!r}: {what}.")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def positives(self) -> int:
        """How many rows are positive."""
        return int(self.y.sum())

    def __str__(self) -> str:
        grouped = "" if self.groups is None else f", {len(np.unique(self.groups)):,} groups"
        return (
            f"{self.name}: {len(self):,} rows, {self.positives:,} positives, "
            f"{self.X.shape[1]} features{grouped}"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all to one compressed npz file, which is replaced in one step."""
        path = Path(path)
        # None is written too, as an empty array, so that an array lost by damage is missed.
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
        """Return what :meth:`save` wrote; nothing in the file is executed."""
        path = Path(path)
        how = "delete it, and save the data set again"
        if not path.is_file():
            raise MissingDataError(f"{path} is not there; write it with Dataset.save.")
        names = ("format", "name", "source", "X", "y", "groups", "part")
        held = read_arrays(path, names, how)
        if not np.array_equal(held.get("format", 0), _FORMAT) or len(held) < len(names):
            raise CorruptDataError(f"{path} was not written by this version of setpoint; {how}.")
        texts = {name: str(held[name]) for name in names[1:3]}
        arrays = {name: held[name] for name in names[3:5]}
        arrays |= {name: held[name] for name in names[5:] if held[name].size}
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
    """Refuse labels, groups and parts that are not one per row, or of one class only."""
    for what, values, kind in (("y", y, "b"), ("groups", groups, "i"), ("part", part, "U")):
        if values is None and what != "y":
            continue
        if not isinstance(values, np.ndarray) or values.shape != (n,) or values.dtype.kind != kind:
            kinds = {"b": "booleans", "i": "integers", "U": "strings"}
            raise SetpointError(f"data set {name!r}: {what} must be {n} {kinds[kind]}, one a row.")
    if not y.any() or y.all():
        only = "no positives" if n and not y.any() else "no negatives" if n else "no rows"
        raise SetpointError(f"data set {name!r} has {only}; both classes are needed.")
    if part is not None and not np.isin(part, PARTS).all():
        raise SetpointError(f"data set {name!r}: part must be 'train' or 'test' in every row.")


_NAMED = 5  # missing images that a message names


@dataclass(frozen=True, eq=False)
class Texts:
    """Sentences and whether they are positive.

    Attributes
    ----------
    texts : tuple of str
        One per row; a text may occur in several rows.
    y : ndarray of bool
        The labels.
    groups : ndarray of int64
        The same number for the same text, counted from 0 as they first occur.
    articles : ndarray of int64 or None
        The PubMed number of the article that a text is from, where the files tell.
    source : str
        What was read.
    """

    texts: tuple[str, ...]
    y: NDArray[np.bool_]
    groups: NDArray[np.int64]
    articles: NDArray[np.int64] | None
    source: str

    def __post_init__(self) -> None:
        check_rows("texts", len(self.texts), self.y, self.groups, None)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, eq=False)
class Images:
    """Image files and whether they are positive.

    Attributes
    ----------
    paths : tuple of Path
        One per row; the files exist.
    y : ndarray of bool
        The labels.
    groups : ndarray of int64
        The patient.
    part : ndarray of str
        The official split: ``"train"`` or ``"test"``.
    source : str
        What was read.
    """

    paths: tuple[Path, ...]
    y: NDArray[np.bool_]
    groups: NDArray[np.int64]
    part: NDArray[np.str_]
    source: str

    def __post_init__(self) -> None:
        check_rows("images", len(self.paths), self.y, self.groups, self.part)

    def __len__(self) -> int:
        return len(self.paths)


def number_texts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each text, the same for the same text, as they first occur."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64)


def check_images(paths: Sequence[Path], listed_in: str, how: str) -> None:
    """Refuse a list of images of which some are not there; their number and the first are told."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        first = ", ".join(map(str, missing[:_NAMED])) + (", ..." if missing[_NAMED:] else "")
        raise MissingDataError(
            f"{len(missing):,} of the {len(paths):,} images that {listed_in} lists are missing: "
            f"{first}. What to do: {how}."
        )


# DOC of datasets.raw: Texts and images with their labels, before features are made of them.
