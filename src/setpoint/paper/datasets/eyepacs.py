"""Diabetic retinopathy: photographs of both eyes, graded 0 to 4 (EyePACS, by Kaggle).

A picture is positive from grade 1. Both eyes of a patient are one group.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpoint.paper.datasets.dataset import Dataset, Images, check_images
from setpoint.paper.datasets.files import (
    Expected,
    check_counts,
    check_labels,
    corrupt,
    find,
    named,
    read_csv,
    read_quantized,
)

PUBLISHED_TRAIN = Expected(rows=35_126, positives=9_316)
PUBLISHED_TEST = Expected(rows=53_576, positives=14_043)
SUBSET = Expected(rows=6_742, positives=1_829)
GRADES = (0, 1, 2, 3, 4)
_PAGE = "https://www.kaggle.com/competitions/diabetic-retinopathy-detection/data"
HOW = (
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
    """Return the pictures with the official parts, from the subfolder ``eyepacs``."""
    return _load_images(PUBLISHED_TRAIN, PUBLISHED_TEST)


def _load_images(train: Expected, test: Expected) -> Images:
    tables = find(("eyepacs/trainLabels.csv", "eyepacs/retinopathy_solution.csv"), how=HOW)
    paths: list[Path] = []
    labels, patients, parts = [], [], []
    for table, part, expected in zip(tables, ("train", "test"), (train, test), strict=True):
        names, y, groups = _read_grades(table, expected)
        listed = [table.parent / part / f"{name}.jpeg" for name in names]
        check_images(listed, table.name, HOW)
        paths += listed
        labels.append(y)
        patients.append(groups)
        parts.append(np.full(len(y), part))
    return Images(
        tuple(paths),
        np.concatenate(labels),
        np.concatenate(patients),
        np.concatenate(parts),
        named(*tables),
    )


def _read_grades(
    path: Path, expected: Expected
) -> tuple[list[str], NDArray[np.bool_], NDArray[np.int64]]:
    """Return names, labels and patients of the pictures that a table lists."""
    table = read_csv(path, ("level",), ("image",), HOW)
    names, grades = table["image"].tolist(), table["level"]
    matches = [_NAME.fullmatch(name) for name in names]
    for row, match in enumerate(matches, start=1):
        if match is None:
            raise corrupt(
                path, f"names the image {names[row - 1]!r} in row {row:,}, not like 10_left", HOW
            )
    (most, times), *_ = Counter(names).most_common(1)
    if times > 1:
        raise corrupt(path, f"lists the image {most} {times} times", HOW)
    check_labels(path, "level", grades, GRADES, HOW)
    y = grades >= 1
    check_counts(path, len(y), int(y.sum()), expected, HOW)
    return names, y, np.array([int(match[1]) for match in matches if match], dtype=np.int64)


def load_eyepacs_features() -> Dataset:
    """Return EfficientNet-lite0 features (1280 numbers) of a part of the training pictures.

    They are read from ``eyepacs_efflite0.npz``. There is no official split within them; the
    patient is the group.
    """
    return _load_features(SUBSET)


def _load_features(expected: Expected) -> Dataset:
    (path,) = find(("eyepacs_efflite0.npz",), how=_HOW_FEATURES)
    held = read_quantized(path, ("level", "patient"), _HOW_FEATURES)
    check_labels(path, "level", held["level"], GRADES, _HOW_FEATURES)
    y = held["level"] >= 1
    check_counts(path, len(y), int(y.sum()), expected, _HOW_FEATURES)
    groups = held["patient"].astype(np.int64)
    return Dataset("eyepacs", held["X"], y, groups=groups, source=named(path))
