"""Leakage checks: signs that a table reveals what will not be known of new cases.

They are signs, not proofs: a legitimate column may predict very well, and equal rows may be
different cases. Someone who knows the data must decide.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from setpoint._internal.imports import OptionalModule
from setpoint._internal.renamed import renamed_parameters
from setpoint._internal.validation import listed
from setpoint.data.splits import Rows, Split
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema

pd = OptionalModule("pandas", "cli", "a table")

_OF_EACH_CLASS = 10_000  # the most rows checked
_FEWEST = 10  # of each class; with fewer, a column may predict the label by chance
_SUSPICIOUS = 0.99  # area under the ROC curve of one column alone
_FOLDS = 3
_COARSE = 0.5  # equal rows are expected if so few of the training rows are distinct
_NOTED_DUPLICATES = 0.005  # fraction of the rows of a split
_FEWEST_IDS = 100
_LONG = 8  # digits; amounts seldom have that many, and all the same number of them
_EVEN = 1.63  # of the Kolmogorov-Smirnov test, exceeded by 1 in 100 columns of even numbers
_ID_NAME = re.compile(  # customer_id, customerId, ID, key, index
    r"(?i:(?:^|[\W_])(?:id|ids|uid|uuid|guid|key|index|idx|rowid|row|nr|no))$|[a-z](?:Id|ID|Key)$"
)
# Columns in which pandas writes the row numbers of a table.
_PANDAS_INDEX = re.compile(r"|Unnamed: ?\d+(\.\d+)*|__index_level_\d+__")


@dataclass(frozen=True)
class LeakageWarning:
    """A sign of leakage.

    Attributes
    ----------
    kind : {"label", "predictor", "missing", "duplicates", "identifier"}
        The kind of sign.
    column : str or None
        The column, if it is one.
    message : str
        What was found and what to do.
    """

    kind: Literal["label", "predictor", "missing", "duplicates", "identifier"]
    column: str | None
    message: str


@renamed_parameters(parts="split", judged="threshold_rows")
def find_leakage(
    rows: Any,
    y: NDArray[np.bool_],
    schema: Schema,
    split: Split,
    threshold_rows: tuple[Rows, Rows] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> list[LeakageWarning]:
    """Find columns that reveal the label, identifiers, and rows that occur in several splits.

    Parameters
    ----------
    rows : DataFrame
        All rows, as ``schema.check`` returned them.
    y : ndarray of bool
        Which of them are positive.
    schema : Schema
        The columns.
    split : Split
        The training and the test rows.
    threshold_rows : pair of ndarray of int, optional
        The training rows that a model is fitted on, and those that certify it or set its threshold;
        by default that split is random.
    groups : ndarray of int, optional
        The group of each row; rows of one group are in the same split.
    """
    found = column_leakage(rows, y, schema)
    identifiers = [sign.column for sign in found if sign.kind == "identifier"]
    return [*found, *_duplicates(rows, y, split, threshold_rows, groups, identifiers)]


def column_leakage(rows: Any, y: NDArray[np.bool_], schema: Schema) -> list[LeakageWarning]:
    """Find columns that reveal the label, and identifiers."""
    return [found for column in schema.columns for found in _of_column(rows, y, column)]


def _of_column(rows: Any, y: NDArray[np.bool_], column: Column) -> Iterator[LeakageWarning]:
    if column.kind == "text":  # a text may well determine the label
        return
    values = rows[column.name]
    codes, levels = _codes(values)
    one_value_per_label = all(len(np.unique(codes[labels])) == 1 for labels in (y, ~y))
    if len(levels) == 2 and one_value_per_label and min(y.sum(), (~y).sum()) > 1:
        yield LeakageWarning(
            "label",
            column.name,
            f"The column {column.name!r} is the label under another name: it has two values, one "
            "for each label. Drop it.",
        )
        return
    if _numbers_rows(values, column):
        yield LeakageWarning(
            "identifier",
            column.name,
            f"The column {column.name!r} holds row numbers that pandas wrote. Only the order of "
            "the rows can be learnt from it; drop it.",
        )
    elif _is_identifier(values, codes, column):
        yield LeakageWarning(
            "identifier",
            column.name,
            f"The column {column.name!r} looks like an identifier: every row has a different "
            "value. Only the order of the rows can be learnt from it; drop it.",
        )
    chosen = _sample(y)
    if chosen is None:
        return
    auc = _auc_alone(values.iloc[chosen], codes[chosen], y[chosen], column)
    if auc < _SUSPICIOUS:
        return
    absent = (values == "" if column.kind == "category" else values.isna()).to_numpy(dtype=bool)
    by_absence = roc_auc_score(y[chosen], absent[chosen])
    if max(by_absence, 1 - by_absence) >= _SUSPICIOUS:
        yield LeakageWarning(
            "missing",
            column.name,
            f"Whether {column.name!r} is missing reveals the label (area under the ROC curve "
            f"{max(by_absence, 1 - by_absence):.3f}). If it is filled in only after the fact, drop "
            "it.",
        )
    else:
        yield LeakageWarning(
            "predictor",
            column.name,
            f"The column {column.name!r} alone reveals the label (area under the ROC curve "
            f"{auc:.3f}). If it is not yet known when a new case must be decided, drop it.",
        )


def _codes(values: Any) -> tuple[NDArray[np.intp], Any]:
    """Return codes of the distinct values; missing is a value too."""
    codes, levels = pd.factorize(values, use_na_sentinel=False)
    return np.asarray(codes), levels


def _sample(y: NDArray[np.bool_]) -> NDArray[np.intp] | None:
    """Return random rows of both classes, or None if there are too few."""
    rng = np.random.default_rng(0)
    chosen = []
    for labels in (y, ~y):
        rows = np.flatnonzero(labels)
        if len(rows) < _FEWEST:
            return None
        if len(rows) > _OF_EACH_CLASS:
            rows = rng.choice(rows, _OF_EACH_CLASS, replace=False)
        chosen.append(rows)
    return np.sort(np.concatenate(chosen))


def _auc_alone(values: Any, codes: NDArray[np.intp], y: NDArray[np.bool_], column: Column) -> float:
    """Return the cross-validated area under the ROC curve of one column alone.

    If even the rates of its own values on these rows rank them poorly, as no other function of the
    column can rank them better, that area is returned: it takes no cross-validation.
    """
    hits, seen = np.bincount(codes, weights=y), np.bincount(codes)
    best = float(roc_auc_score(y, (hits / np.maximum(seen, 1))[codes]))
    if best < _SUSPICIOUS:
        return best
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    scores = np.zeros(len(y))
    ranks = None
    if column.kind in ("number", "date"):
        ranks = values.rank(method="dense").to_numpy(dtype=np.float64)[:, None]
    for train, rest in folds.split(codes, y):
        if ranks is not None:
            tree = DecisionTreeClassifier(max_depth=5, min_samples_leaf=3, random_state=0)
            tree.fit(ranks[train], y[train])
            scores[rest] = tree.predict_proba(ranks[rest])[:, 1]
            continue
        # The fraction of positives of each level; a new level gets the overall fraction.
        seen = np.bincount(codes[train], minlength=codes.max() + 1)
        hits = np.bincount(codes[train], weights=y[train], minlength=codes.max() + 1)
        rate = np.divide(hits, seen, out=np.full(len(seen), y[train].mean()), where=seen > 0)
        scores[rest] = rate[codes[rest]]
    return float(roc_auc_score(y, scores))


def _is_identifier(values: Any, codes: NDArray[np.intp], column: Column) -> bool:
    n = len(codes)
    if n < _FEWEST_IDS or codes.max() + 1 < n:
        return False
    if column.kind == "category":
        return not column.note  # numbers in an unusual format have a note already
    if column.kind != "number":
        return False
    numbers = values.to_numpy(dtype=np.float64)
    if not _are_whole(numbers):
        return False
    steps = np.diff(numbers)
    if np.ptp(numbers) < 2 * n or (steps > 0).all() or (steps < 0).all():
        return True
    # Amounts may all differ too, but few are large; drawn numbers are spread evenly.
    place = (np.sort(numbers) - numbers.min()) / np.ptp(numbers)
    even = np.abs(place - (np.arange(n) + 0.5) / n).max() < _EVEN / np.sqrt(n)
    least, most = np.abs(numbers).min(), np.abs(numbers).max()
    long = least >= 10 ** (_LONG - 1) and len(f"{least:.0f}") == len(f"{most:.0f}")
    return bool(even or long or _ID_NAME.search(column.name))


def _are_whole(numbers: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(numbers).all() and (numbers == np.round(numbers)).all())


def _numbers_rows(values: Any, column: Column) -> bool:
    """Whether a column is the index of a pandas data frame."""
    if _PANDAS_INDEX.fullmatch(column.name) is None or column.kind != "number":
        return False
    return _are_whole(values.to_numpy(dtype=np.float64))


def _duplicates(
    rows: Any,
    y: NDArray[np.bool_],
    split: Split,
    threshold_rows: tuple[Rows, Rows] | None,
    groups: NDArray[np.intp] | None,
    identifiers: Collection[str | None],
) -> Iterator[LeakageWarning]:
    """Find rows that test or set the threshold and also occur among those trained on.

    Identifiers are left out: they differ in copies of a row too.
    """
    rows = rows.drop(columns=[name for name in identifiers if name is not None])
    if not len(rows.columns):
        return
    hashes = pd.util.hash_pandas_object(rows, index=False).to_numpy()
    if len(np.unique(hashes[split.train])) < _COARSE * len(split.train):
        return
    found = [_shared_between(hashes, y, *split, "test rows are among the training rows")]
    if threshold_rows is not None:
        what = "rows that set the threshold are among those trained on"
        found.append(_shared_between(hashes, y, *threshold_rows, what))
    else:
        found.append(_repeated(hashes, split.train, groups))
    message = "; ".join(filter(None, found))
    if message and identifiers:
        message += f" (compared without {listed(identifiers)})"
    if message:
        yield LeakageWarning(
            "duplicates",
            None,
            f"{message}. If they are the same cases, results and certificates are too optimistic; "
            "drop duplicates, or name a column of groups.",
        )


def _shared_between(
    hashes: NDArray[np.uint64], y: NDArray[np.bool_], train: Rows, rest: Rows, what: str
) -> str:
    """Return how many of some rows are among others too, if they are many."""
    repeated = rest[np.isin(hashes[rest], hashes[train])]
    if len(repeated) < max(1.0, _NOTED_DUPLICATES * len(rest)):
        return ""
    same = [np.isin(hashes[repeated], hashes[train[y[train] == label]]) for label in (False, True)]
    agree = int(np.where(y[repeated], same[1], same[0]).sum())
    return f"{len(repeated):,} of {len(rest):,} {what} too, {agree:,} of them with the same label"


def _repeated(hashes: NDArray[np.uint64], train: Rows, groups: NDArray[np.intp] | None) -> str:
    """Return how many training rows occur more than once, in different groups if there are any."""
    train_hashes = hashes[train]
    if groups is not None:  # one of each group, whose rows stay together
        _, first = np.unique(np.stack([train_hashes, groups[train].astype(np.uint64)]), axis=1,
                             return_index=True)  # fmt: skip
        train_hashes = train_hashes[first]
    _, codes, counts = np.unique(train_hashes, return_inverse=True, return_counts=True)
    count = int((counts[codes] > 1).sum())
    if count < max(1.0, _NOTED_DUPLICATES * len(train)):
        return ""
    return (
        f"{count:,} of {len(train):,} training rows occur more than once, so that the threshold "
        "is set on copies of rows that were trained on"
    )
