"""Radiographs of the upper limbs, normal or abnormal by study (MURA, version 1.1).

The paper's table has all 21,935 normal training images and 1,487 abnormal ones: a tenth of the
14,873, which its text does not say. Here, too, a tenth of them is drawn, image by image; the
official validation images, all of them, are the test part.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.paper.datasets.dataset import Images, check_images
from setpoint.paper.datasets.files import Expected, check_counts, corrupt, find, lines, named

PUBLISHED_TRAIN = Expected(rows=36_808, positives=14_873)
PUBLISHED_VALID = Expected(rows=3_197, positives=1_530)
HOW = (
    "download MURA-v1.1 from https://stanfordmlgroup.github.io/competitions/mura (after "
    "agreeing to its terms) and unpack it, so that there are MURA-v1.1/train_image_paths.csv and "
    "the folders MURA-v1.1/train and MURA-v1.1/valid"
)
_PATH = re.compile(
    r"MURA-v1\.1/(?P<part>train|valid)/XR_[A-Z]+/patient(?P<patient>\d+)/"
    r"study\d+_(?P<label>positive|negative)/[^/]+\.png"
)


def load_mura_images(seed: int = 0, positive_share: float | None = 0.1) -> Images:
    """Return the radiographs with the official parts, from the folder ``MURA-v1.1``.

    Parameters
    ----------
    seed : int
        Of the draw of abnormal training images.
    positive_share : float or None
        The share of them that is kept; None keeps all.
    """
    return _load(seed, positive_share, PUBLISHED_TRAIN, PUBLISHED_VALID)


def _load(seed: int, share: float | None, train: Expected, valid: Expected) -> Images:
    if share is not None and not 0 < share <= 1:
        raise SetpointError(f"positive_share must be above 0 and at most 1, not {share}.")
    if seed < 0:
        raise SetpointError(f"seed must not be negative, not {seed}.")
    lists = find(("MURA-v1.1/train_image_paths.csv", "MURA-v1.1/valid_image_paths.csv"), how=HOW)
    paths: list[Path] = []
    labels, patients, parts = [], [], []
    for file, part, expected in zip(lists, ("train", "test"), (train, valid), strict=True):
        listed, y, groups = _read_list(file, "train" if part == "train" else "valid", expected)
        kept = _thin(y, share, seed) if part == "train" else np.arange(len(y))
        listed = [listed[i] for i in kept]
        check_images(listed, file.name, HOW)
        paths += listed
        labels.append(y[kept])
        patients.append(groups[kept])
        parts.append(np.full(len(kept), part))
    drawn = "" if share is None else f"; {share:g} of the training positives, seed {seed}"
    return Images(
        tuple(paths),
        np.concatenate(labels),
        np.concatenate(patients),
        np.concatenate(parts),
        named(*lists) + drawn,
    )


def _thin(y: NDArray[np.bool_], share: float | None, seed: int) -> NDArray[np.intp]:
    """Return all negatives and a share of the positives, in their order."""
    if share is None:
        return np.arange(len(y))
    positives = np.flatnonzero(y)
    count = max(1, round(share * len(positives)))
    drawn = np.random.default_rng(seed).choice(positives, count, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(~y), drawn]))


def _read_list(
    path: Path, part: str, expected: Expected
) -> tuple[list[Path], NDArray[np.bool_], NDArray[np.int64]]:
    """Return images, labels and patients of a list with one path per line."""
    found, labels, patients = [], [], []
    for number, line in lines(path, HOW):
        match = _PATH.fullmatch(line)
        if match is None or match["part"] != part:
            raise corrupt(
                path,
                f"has {line[:90]!r} in line {number:,}, where a path like MURA-v1.1/{part}/"
                "XR_WRIST/patient00006/study1_positive/image1.png is expected",
                HOW,
            )
        found.append(path.parent.parent / match[0])
        labels.append(match["label"] == "positive")
        patients.append(int(match["patient"]))
    y = np.array(labels)
    check_counts(path, len(y), int(y.sum()), expected, HOW)
    return found, y, np.array(patients, dtype=np.int64)
