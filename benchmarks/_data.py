"""Real data for the benchmarks, from the folders in SETPOINT_DATA, and their splits.

Splits are 50 % training, 25 % validation and 25 % test rows. Half of the rows (or groups) of every
data set are set apart. The test rows of all splits are drawn from them, and no constant and no rule
of this project was chosen by a test result on them. Rows set apart that are not test rows of a
split are training or validation rows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
_SEED = 12345


class Data(NamedTuple):
    """Features, labels and, if rows are grouped, groups."""

    X: NDArray[np.float64]
    y: NDArray[np.bool_]
    groups: NDArray[np.int64] | None = None


def path(file: str) -> Path:
    """Return the path of a file, or exit with a message that says what is missing."""
    # SETPOINT_DATA may name several folders, as PATH does.
    folders = os.environ.get("SETPOINT_DATA", "data").split(os.pathsep)
    for folder in folders:
        if (found := Path(folder) / file).exists():
            return found
    sys.exit(
        f"{file} is not in {', '.join(folders)}. Set SETPOINT_DATA to the folder of the data sets "
        f"in benchmarks/README.md, or to several folders separated by {os.pathsep!r}."
    )


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return features and labels of ``<SETPOINT_DATA>/<name>.npz``."""
    with np.load(path(f"{name}.npz")) as file:
        return file["X"].astype(np.float64), file["y"].astype(bool)


def load_grouped(name: str) -> Data:
    """Return a data set by name, with groups if its rows are grouped."""
    if name == "creditcard":
        table = np.loadtxt(path("creditcard.csv"), delimiter=",", skiprows=1, converters=_unquoted)
        return Data(table[:, :-1], table[:, -1] == 1)
    if name == "bank_marketing_full":
        return Data(*_bank_marketing())
    if name == "ade_v2":
        import pandas as pd

        # One row per distinct text, grouped by article.
        texts = pd.read_parquet(path("ade_v2.parquet")).drop_duplicates("text_id")
        texts = texts.sort_values("text_id")
        with np.load(path("ade_v2_mpnet.npz")) as file:
            X = _dequantised(file)[texts.text_id.to_numpy()]
        return Data(X, texts.label.to_numpy() == 1, pd.factorize(texts.pmid)[0])
    if name == "eyepacs":
        with np.load(path("eyepacs_efflite0.npz")) as file:
            patients = np.unique(file["patient"], return_inverse=True)[1]
            return Data(_dequantised(file), file["level"] >= 1, patients)
    return Data(*load(name))


def _bank_marketing() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    import pandas as pd

    # The duration of a call is known only together with its outcome.
    table = pd.read_parquet(path("bank_marketing_full.parquet")).drop(columns="duration")
    label = table.pop("label").to_numpy() == 1
    return pd.get_dummies(table).to_numpy(dtype=np.float64), label


def _dequantised(file: np.lib.npyio.NpzFile) -> NDArray[np.float64]:
    return np.asarray(file["q"] * file["scale"].astype(np.float64) + file["offset"])


def _unquoted(text: str) -> float:
    return float(text.strip('"'))


def set_apart(y: NDArray[np.bool_], groups: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """Return a mask of the rows that are set apart for tests."""
    groups = np.arange(len(y)) if groups is None else groups
    known = np.unique(groups)
    shuffled = np.random.default_rng(_SEED).permutation(known)
    return np.isin(groups, shuffled[: len(known) // 2])


def split(
    y: NDArray[np.bool_], groups: NDArray[np.int64] | None, seed: int
) -> tuple[Rows, Rows, Rows]:
    """Return training, validation and test rows, stratified by whether a group has positives."""
    for_tests = set_apart(y, groups)
    groups = np.arange(len(y)) if groups is None else groups
    rng = np.random.default_rng(seed)
    known, member = np.unique(groups, return_inverse=True)
    has_positive = np.bincount(member, weights=y) > 0
    testable_group = np.bincount(member, weights=for_tests) > 0
    part = np.zeros(len(known), dtype=int)
    for kind in (False, True):
        testable = rng.permutation(np.flatnonzero(testable_group & (has_positive == kind)))
        test = testable[: len(testable) // 2]
        part[test] = 2
        others = rng.permutation(np.flatnonzero((part != 2) & (has_positive == kind)))
        part[others[: len(others) // 3]] = 1
    return tuple(np.flatnonzero(part[member] == k) for k in range(3))  # type: ignore[return-value]
