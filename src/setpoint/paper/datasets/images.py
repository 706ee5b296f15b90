"""EyePACS and MURA: image files with labels, patients and an official split.

EyePACS (diabetic retinopathy, by Kaggle): photographs of both eyes, graded 0 to 4; positive from
grade 1. Both eyes of a patient are one group.

MURA, version 1.1: radiographs of the upper limbs, normal or abnormal by study. The paper's table
has all 21,935 normal training images and 1,487 abnormal ones: a tenth of the 14,873, which its text
does not mention. Here, too, a tenth of them is drawn, image by image; all official validation
images are test rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.renamed import renamed_parameters
from setpoint.errors import SetpointError
from setpoint.paper.datasets.dataset import Dataset, check_rows
from setpoint.paper.datasets.files import (
    Expected,
    MissingDataError,
    check_counts,
    check_labels,
    corrupt,
    find,
    lines,
    named,
    read_csv,
    read_quantized,
)

Listed = tuple[list[Path], NDArray[np.bool_], NDArray[np.int64]]  # images, labels, patients
_NAMED = 5  # how many missing images a message names


@dataclass(frozen=True, eq=False)
class Images:
    """Image files with labels, from which features are extracted.

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
        The files that were read.
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


def _images(lists: Sequence[Path], listed: Sequence[Listed], how: str, remark: str = "") -> Images:
    """Join the images of the training and the test list; all files must exist."""
    for file, (paths, _, _) in zip(lists, listed, strict=True):
        missing = [path for path in paths if not path.is_file()]
        if missing:
            first = ", ".join(map(str, missing[:_NAMED])) + (", ..." if missing[_NAMED:] else "")
            raise MissingDataError(
                f"{len(missing):,} of the {len(paths):,} images that {file.name} lists are "
                f"missing: {first}. What to do: {how}."
            )
    return Images(
        tuple(path for paths, _, _ in listed for path in paths),
        np.concatenate([y for _, y, _ in listed]),
        np.concatenate([patients for _, _, patients in listed]),
        np.repeat(["train", "test"], [len(y) for _, y, _ in listed]),
        named(*lists) + remark,
    )


# --- EyePACS --------------------------------------------------------------------------------------

EYEPACS_TRAIN = Expected(rows=35_126, positives=9_316)
EYEPACS_TEST = Expected(rows=53_576, positives=14_043)
EYEPACS_SUBSET = Expected(rows=6_742, positives=1_829)
GRADES = (0, 1, 2, 3, 4)
_PAGE = "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data"
_HOW_EYEPACS = (
    f"download trainLabels.csv, train.zip.* and test.zip.* from {_PAGE} (free account), and "
    "retinopathy_solution.csv, the grades of the test pictures, from https://storage.googleapis."
    "com/kaggle-forum-message-attachments/90528/2877/retinopathy_solution.csv; unpack all into a "
    "subfolder eyepacs, so that there are eyepacs/train/10_left.jpeg and eyepacs/test/1_left.jpeg"
)
_HOW_FEATURES = (
    f"download trainLabels.csv and train.zip.* from {_PAGE} (free account), compute features by an "
    "EfficientNet-lite0 trained on ImageNet (1280 numbers), and store them in eyepacs_efflite0.npz "
    "as q (uint8), scale and offset, where X = q * scale + offset, with level and patient"
)
_NAME = re.compile(r"(\d+)_(left|right)")


def load_eyepacs_images() -> Images:
    """Return the photographs with the official split, from the subfolder ``eyepacs``."""
    tables = find(("eyepacs/trainLabels.csv", "eyepacs/retinopathy_solution.csv"), how=_HOW_EYEPACS)
    subsets = zip(tables, ("train", "test"), (EYEPACS_TRAIN, EYEPACS_TEST), strict=True)
    return _images(tables, [_read_grades(*subset) for subset in subsets], _HOW_EYEPACS)


def _read_grades(path: Path, folder: str, expected: Expected) -> Listed:
    """Return the images that a table lists."""
    table = read_csv(path, ("level",), ("image",), _HOW_EYEPACS)
    names, grades = table["image"].tolist(), table["level"]
    matches = [_NAME.fullmatch(name) for name in names]
    for row, match in enumerate(matches, start=1):
        if match is None:
            raise corrupt(
                path,
                f"names the image {names[row - 1]!r} in row {row:,}, not like 10_left",
                _HOW_EYEPACS,
            )
    (most, times), *_ = Counter(names).most_common(1)
    if times > 1:
        raise corrupt(path, f"lists the image {most} {times} times", _HOW_EYEPACS)
    check_labels(path, "level", grades, GRADES, _HOW_EYEPACS)
    y = grades >= 1
    check_counts(path, len(y), int(y.sum()), expected, _HOW_EYEPACS)
    patients = np.array([int(match[1]) for match in matches if match], dtype=np.int64)
    return [path.parent / folder / f"{name}.jpeg" for name in names], y, patients


def load_eyepacs_features() -> Dataset:
    """Return EfficientNet-lite0 features (1280 numbers) of a subset of the training photographs.

    They are read from ``eyepacs_efflite0.npz``. They have no official split; a patient is a group.
    """
    (path,) = find(("eyepacs_efflite0.npz",), how=_HOW_FEATURES)
    arrays = read_quantized(path, ("level", "patient"), _HOW_FEATURES)
    check_labels(path, "level", arrays["level"], GRADES, _HOW_FEATURES)
    y = arrays["level"] >= 1
    check_counts(path, len(y), int(y.sum()), EYEPACS_SUBSET, _HOW_FEATURES)
    groups = arrays["patient"].astype(np.int64)
    return Dataset("eyepacs", arrays["X"], y, groups=groups, source=named(path))


# --- MURA -----------------------------------------------------------------------------------------

MURA_TRAIN = Expected(rows=36_808, positives=14_873)
MURA_VALID = Expected(rows=3_197, positives=1_530)
_HOW_MURA = (
    "download MURA-v1.1 from https://stanfordmlgroup.github.io/competitions/mura (after "
    "agreeing to its terms) and unpack it, so that there are MURA-v1.1/train_image_paths.csv and "
    "the folders MURA-v1.1/train and MURA-v1.1/valid"
)
_PATH = re.compile(
    r"MURA-v1\.1/(?P<part>train|valid)/XR_[A-Z]+/patient(?P<patient>\d+)/"
    r"study\d+_(?P<label>positive|negative)/[^/]+\.png"
)


@renamed_parameters(positive_share="positive_fraction")
def load_mura_images(seed: int = 0, positive_fraction: float | None = 0.1) -> Images:
    """Return the radiographs with the official split, from the folder ``MURA-v1.1``.

    Parameters
    ----------
    seed : int
        Seed of the draw of abnormal training images.
    positive_fraction : float or None
        The fraction of them that is kept; None keeps all.
    """
    fraction = positive_fraction
    if fraction is not None and not 0 < fraction <= 1:
        raise SetpointError(f"positive_fraction must be above 0 and at most 1, not {fraction}.")
    if seed < 0:
        raise SetpointError(f"seed must not be negative, not {seed}.")
    lists = find(
        ("MURA-v1.1/train_image_paths.csv", "MURA-v1.1/valid_image_paths.csv"), how=_HOW_MURA
    )
    paths, y, patients = _read_list(lists[0], "train", MURA_TRAIN)
    rows = _draw(y, fraction, seed)
    drawn = [paths[row] for row in rows], y[rows], patients[rows]
    remark = "" if fraction is None else f"; {fraction:g} of the training positives, seed {seed}"
    return _images(lists, [drawn, _read_list(lists[1], "valid", MURA_VALID)], _HOW_MURA, remark)


def _draw(y: NDArray[np.bool_], fraction: float | None, seed: int) -> NDArray[np.intp]:
    """Return the rows of all negatives and a fraction of the positives, in order."""
    if fraction is None:
        return np.arange(len(y))
    positives = np.flatnonzero(y)
    count = max(1, round(fraction * len(positives)))
    drawn = np.random.default_rng(seed).choice(positives, count, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(~y), drawn]))


def _read_list(path: Path, folder: str, expected: Expected) -> Listed:
    """Return the images of a list with one path per line."""
    found, labels, patients = [], [], []
    for number, line in lines(path, _HOW_MURA):
        match = _PATH.fullmatch(line)
        if match is None or match["part"] != folder:
            raise corrupt(
                path,
                f"has {line[:90]!r} in line {number:,}, where a path like MURA-v1.1/{folder}/"
                "XR_WRIST/patient00006/study1_positive/image1.png is expected",
                _HOW_MURA,
            )
        found.append(path.parent.parent / match[0])
        labels.append(match["label"] == "positive")
        patients.append(int(match["patient"]))
    y = np.array(labels)
    check_counts(path, len(y), int(y.sum()), expected, _HOW_MURA)
    return found, y, np.array(patients, dtype=np.int64)
