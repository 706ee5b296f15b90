"""The paper's data sets, read from the official files in the folders ``SETPOINT_DATA`` names.

Each loader checks what it reads, and says which file to get from where when one is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from setpoint.errors import SetpointError
from setpoint.paper.datasets.ade import load_ade_features, load_ade_texts
from setpoint.paper.datasets.creditcard import load_creditcard
from setpoint.paper.datasets.dataset import Dataset, Images, Texts
from setpoint.paper.datasets.eyepacs import load_eyepacs_features, load_eyepacs_images
from setpoint.paper.datasets.files import CorruptDataError, MissingDataError
from setpoint.paper.datasets.mura import load_mura_images
from setpoint.paper.datasets.splits import Split, honest_split, leaks, paper_split

Loader = Callable[[], Dataset]

DATASETS: dict[str, Loader] = {
    "creditcard": load_creditcard,
    "ade": load_ade_features,
    "eyepacs": load_eyepacs_features,
}


def load(name: str) -> Dataset:
    """Return a data set that comes with features, by its name in ``DATASETS``."""
    if name not in DATASETS:
        raise SetpointError(
            f"there is no data set {name!r} with features; there are {', '.join(DATASETS)}. For "
            "texts and images see load_ade_texts, load_eyepacs_images and load_mura_images."
        )
    return DATASETS[name]()


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
