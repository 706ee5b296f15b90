"""Texts and images with their labels, before features are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpoint.datasets._files import MissingDataError
from setpoint.datasets.dataset import check_rows

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
