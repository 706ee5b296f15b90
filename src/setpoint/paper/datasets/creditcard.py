"""Credit-card fraud: 284,807 payments of two days in 2013, 492 of them fraudulent.

The paper's data table has 28 features, its text 30 (with Time and Amount); the default is 28.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from setpoint.errors import SetpointError
from setpoint.paper.datasets.dataset import Dataset
from setpoint.paper.datasets.files import (
    Expected,
    check_counts,
    check_labels,
    check_md5,
    digest,
    find,
    read_csv,
)

PUBLISHED = Expected(rows=284_807, positives=492, md5="e90efcb83d69faf99fcab8b0255024de")
PCA = tuple(f"V{i}" for i in range(1, 29))
_ORIGINAL = (
    "download creditcard.csv from https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud (free "
    "account)"
)
HOW = f"{_ORIGINAL}, or write the same table, https://www.openml.org/d/1597, as creditcard.csv"
_HOW_EXACT = f"{_ORIGINAL} and leave it as it is: a copy saved by another program is rejected"


def load_creditcard(columns: Literal["pca", "all"] = "pca", *, exact: bool = False) -> Dataset:
    """Return the data of ``creditcard.csv``.

    Parameters
    ----------
    columns : "pca" or "all"
        V1 to V28, or these and Time and Amount.
    exact : bool
        Whether the file must be identical to the original. Otherwise other exports of the table
        are accepted if columns, rows and positives agree; ``source`` names which it was.
    """
    if columns not in ("pca", "all"):
        raise SetpointError(f"columns must be 'pca' or 'all', not {columns!r}.")
    (path,) = find(("creditcard.csv",), how=_HOW_EXACT if exact else HOW)
    names = PCA if columns == "pca" else ("Time", *PCA, "Amount")
    md5 = digest(path)
    if exact:
        check_md5(path, md5, PUBLISHED, _HOW_EXACT)
    table = read_csv(path, (*names, "Class"), (), HOW)
    labels = table["Class"]
    check_labels(path, "Class", labels, (0, 1), HOW)
    y = labels == 1
    check_counts(path, len(y), int(y.sum()), PUBLISHED, HOW)
    kind = "the original" if md5 == PUBLISHED.md5 else "another export of the table"
    X = np.column_stack([table[name].astype(np.float32) for name in names])
    return Dataset("creditcard", X, y, source=f"{path.name} (md5 {md5}, {kind})")
