"""The paper's data sets by name, read from the official files in the folders of ``SETPOINT_DATA``.

Each loader verifies its files; if one is missing, the error names it and where to get it. The
comparison obtains its data sets from here: real, saved on another machine, or generated.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.paper.datasets.ade import Texts, load_ade_features, load_ade_texts
from setpoint.paper.datasets.creditcard import load_creditcard
from setpoint.paper.datasets.dataset import Dataset, Split, honest_split, leaks, paper_split
from setpoint.paper.datasets.files import CorruptDataError, MissingDataError, read_arrays
from setpoint.paper.datasets.images import (
    Images,
    load_eyepacs_features,
    load_eyepacs_images,
    load_mura_images,
)

Loader = Callable[[], Dataset]

DATASETS: dict[str, Loader] = {
    "creditcard": load_creditcard,
    "ade": load_ade_features,
    "eyepacs": load_eyepacs_features,
}


def load(name: str) -> Dataset:
    """Return a data set with features, by its name in ``DATASETS``."""
    if name not in DATASETS:
        raise SetpointError(
            f"there is no data set {name!r} with features; known: {', '.join(DATASETS)}. For "
            "texts and images, see load_ade_texts, load_eyepacs_images and load_mura_images."
        )
    return DATASETS[name]()


# --- the data sets of the comparison -------------------------------------------------------------

BERT = "google-bert/bert-base-uncased"
DINO = "facebook/dinov2-giant"
STAND_IN = "a generated stand-in"  # the source of such data begins with this


def _with_bert() -> Dataset:
    from setpoint.paper.features import TextEncoder

    texts = load_ade_texts()
    X = _extracted(texts.texts, TextEncoder.from_pretrained(BERT, max_tokens=128))
    return Dataset("ade-bert", X, texts.y, texts.groups, None, f"{texts.source}; {BERT}")


def _with_dino(name: str, load: Callable[[], Images]) -> Dataset:
    from setpoint.paper.features import ImageEncoder

    images = load()
    X = _extracted(images.paths, ImageEncoder.from_pretrained(DINO, size=224))
    return Dataset(name, X, images.y, images.groups, images.part, f"{images.source}; {DINO}")


def _extracted(items: Sequence[Any], encoder: Any) -> NDArray[np.float32]:
    from setpoint.paper.features.cache import default_folder
    from setpoint.paper.features.extract import extract

    return extract(items, encoder, cache=default_folder())


LOADERS: dict[str, Loader] = {
    "creditcard": lambda: load_creditcard(exact=True),
    "ade": lambda: load("ade"),
    "eyepacs": lambda: load("eyepacs"),
    "ade-bert": _with_bert,
    "eyepacs-dinov2": lambda: _with_dino("eyepacs-dinov2", load_eyepacs_images),
    "mura-dinov2": lambda: _with_dino("mura-dinov2", load_mura_images),
}
"""Three data sets with precomputed features; three with the paper's, extracted on first use."""


def paper_name(name: str) -> str:
    """Return the name of the data set in the paper's tables."""
    return name.split("-")[0]


def obtain(name: str, folder: Path, *, stand_ins: bool) -> Dataset:
    """Return a data set, and save it in ``folder`` for workers and other machines.

    If the official files are missing, the saved data set is used, unless it is damaged.
    """
    if name not in LOADERS:
        raise SetpointError(f"unknown data set {name!r}; known: {', '.join(LOADERS)}.")
    path = prepared(name, folder)
    saved, damage = None, ""
    try:
        saved = Dataset.load(path)
    except (CorruptDataError, MissingDataError) as error:
        if path.exists():
            damage = f" The saved data set cannot be used either: {error}"
    if stand_ins:
        dataset = stand_in(name)
    else:
        try:
            dataset = LOADERS[name]()
        except MissingDataError as error:
            if saved is None or saved.source.startswith(STAND_IN):
                others = [other for other in LOADERS if other.startswith(f"{name}-")]
                instead = f" Or use {others[0]}, whose features are extracted." if others else ""
                raise MissingDataError(f"{error}{instead}{damage}") from error
            return saved
    if saved is None or saved.source != dataset.source:
        dataset.save(path)
    return dataset


def prepared(name: str, folder: Path) -> Path:
    """Return the file of a saved data set."""
    return folder / f"{name}.npz"


def sources(folder: Path) -> dict[str, str]:
    """Return the sources of the saved data sets by name."""
    found = {}
    for name in LOADERS:
        with suppress(SetpointError, OSError, KeyError):
            found[name] = str(read_arrays(prepared(name, folder), ("source",), "")["source"])
    return found


def stand_in(name: str, rows: int = 240, features: int = 5) -> Dataset:
    """Return a small generated data set to test the pipeline; its results are meaningless.

    A third of the rows are pairs of one group.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    y = rng.random(rows) < 0.25
    X = rng.normal(size=(rows, features)) + 1.2 * y[:, None] * rng.random(features)
    groups = np.arange(rows)
    pairs = rows // 6
    groups[:pairs] = groups[pairs : 2 * pairs]
    X[:pairs], y[:pairs] = X[pairs : 2 * pairs], y[pairs : 2 * pairs]
    return Dataset(name, X.astype(np.float32), y, groups, None, f"{STAND_IN} for {name}")


__all__ = [
    "DATASETS",
    "CorruptDataError",
    "Dataset",
    "Images",
    "Loader",
    "MissingDataError",
    "Split",
    "Texts",
    "honest_split",
    "leaks",
    "load",
    "load_ade_features",
    "load_ade_texts",
    "load_creditcard",
    "load_eyepacs_features",
    "load_eyepacs_images",
    "load_mura_images",
    "paper_split",
]
