"""The data sets of the experiments: real, prepared for another machine, or stand-ins."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.paper import datasets
from setpoint.paper.datasets.dataset import Dataset, Images, Texts
from setpoint.paper.datasets.files import CorruptDataError, MissingDataError, read_arrays

BERT = "google-bert/bert-base-uncased"
DINO = "facebook/dinov2-giant"
STAND_IN = "a generated stand-in"  # the source of such data begins with this


def _with_bert() -> Dataset:
    from setpoint.paper.features.text import TextEncoder

    texts: Texts = datasets.load_ade_texts()
    X = _extracted(texts.texts, TextEncoder.from_pretrained(BERT, max_tokens=128))
    return Dataset("ade-bert", X, texts.y, texts.groups, None, f"{texts.source}; {BERT}")


def _with_dino(name: str, load: Callable[[], Images]) -> Dataset:
    from setpoint.paper.features.images import ImageEncoder

    images = load()
    X = _extracted(images.paths, ImageEncoder.from_pretrained(DINO, size=224))
    return Dataset(name, X, images.y, images.groups, images.part, f"{images.source}; {DINO}")


def _extracted(items: Sequence[Any], encoder: Any) -> NDArray[np.float32]:
    from setpoint.paper.features.cache import default_folder
    from setpoint.paper.features.extract import extract

    return extract(items, encoder, cache=default_folder())


LOADERS: dict[str, Callable[[], Dataset]] = {
    "creditcard": lambda: datasets.load_creditcard(exact=True),
    "ade": lambda: datasets.load("ade"),
    "eyepacs": lambda: datasets.load("eyepacs"),
    "ade-bert": _with_bert,
    "eyepacs-dinov2": lambda: _with_dino("eyepacs-dinov2", datasets.load_eyepacs_images),
    "mura-dinov2": lambda: _with_dino("mura-dinov2", datasets.load_mura_images),
}
"""With the features that lie ready, and with the paper's own, extracted on first use."""

MODELS: dict[str, Literal["linear", "mlp"]] = {"creditcard": "mlp"}
"""What is trained on a data set, where it is not linear."""


def paper_name(name: str) -> str:
    """Return what the paper's tables call the data set."""
    return name.split("-")[0]


def obtain(name: str, folder: Path, *, stand_ins: bool) -> Dataset:
    """Return a data set, and leave it prepared in ``folder`` for workers and other machines.

    Where the official files are missing, a data set that lies prepared is taken. One that is
    damaged is as good as none.
    """
    if name not in LOADERS:
        raise SetpointError(f"unknown data set {name!r}; known: {', '.join(LOADERS)}.")
    path = prepared(name, folder)
    try:
        held = Dataset.load(path)
        damage = ""
    except (CorruptDataError, MissingDataError) as error:
        held = None
        damage = f" And what lies prepared cannot be used: {error}" if path.exists() else ""
    if stand_ins:
        dataset = stand_in(name)
    else:
        try:
            dataset = LOADERS[name]()
        except MissingDataError as error:
            if held is None or held.source.startswith(STAND_IN):
                raise MissingDataError(f"{error}{_instead(name)}{damage}") from error
            return held
    if held is None or held.source != dataset.source:
        dataset.save(path)
    return dataset


def _instead(name: str) -> str:
    others = [other for other in LOADERS if other.startswith(f"{name}-")]
    return f" Or take {others[0]}: its features are extracted on first use." if others else ""


def prepared(name: str, folder: Path) -> Path:
    """Return where a data set lies prepared."""
    return folder / f"{name}.npz"


def sources(folder: Path) -> dict[str, str]:
    """Return what the data sets that lie prepared were made from."""
    found = {}
    for name in LOADERS:
        with suppress(SetpointError, OSError, KeyError):
            found[name] = str(read_arrays(prepared(name, folder), ("source",), "")["source"])
    return found


def stand_in(name: str, rows: int = 240, features: int = 5) -> Dataset:
    """Return a small generated data set under a real one's name, to try the machinery on.

    A third of the rows comes in pairs that belong together. The figures mean nothing.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    y = rng.random(rows) < 0.25
    X = rng.normal(size=(rows, features)) + 1.2 * y[:, None] * rng.random(features)
    groups = np.arange(rows)
    pairs = rows // 6
    groups[:pairs] = groups[pairs : 2 * pairs]
    X[:pairs], y[:pairs] = X[pairs : 2 * pairs], y[pairs : 2 * pairs]
    return Dataset(name, X.astype(np.float32), y, groups, None, f"{STAND_IN} for {name}")
