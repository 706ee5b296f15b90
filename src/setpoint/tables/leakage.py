"""Signs that a table tells what will not be known of new cases.

They are signs and no proofs: an honest column may predict very well, and equal rows may be
different cases. A person should look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from setpoint._internal.imports import need
from setpoint.data.splits import Rows, Split
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema

_OF_EACH_CLASS = 10_000  # the most rows looked at
_FEWEST = 10  # of each class; with fewer, a column tells the label by chance
_TELLING = 0.99  # area under the ROC curve of one column alone
_FOLDS = 3
_COARSE = 0.5  # equal rows are no surprise where so few of the training rows are distinct
_NOTED_DUPLICATES = 0.005  # share of the rows of a part
_FEWEST_IDS = 100


@dataclass(frozen=True)
class Smell:
    """One such sign.

    Attributes
    ----------
    kind : {"label", "predictor", "missing", "duplicates", "identifier"}
        What it is.
    column : str or None
        Where.
    message : str
        What was seen and what to do, in plain words.
    """

    kind: Literal["label", "predictor", "missing", "duplicates", "identifier"]
    column: str | None
    message: str


def find_smells(
    rows: Any,
    y: NDArray[np.bool_],
    schema: Schema,
    parts: Split,
    judged: tuple[Rows, Rows] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> list[Smell]:
    """Look for columns that give the label away, identifiers, and rows that are in several parts.

    Parameters
    ----------
    rows : DataFrame
        What ``schema.check`` returned, for all rows.
    y : ndarray of bool
        Which of them are positive.
    schema : Schema
        The columns.
    parts : Split
        Which rows train and which test.
    judged : pair of ndarray of int, optional
        Which training rows a model is fitted on, and which certify it or set its threshold; by
        default chance decides that.
    groups : ndarray of int, optional
        The group of each row; rows of one group are in one part.
    """
    return [
        *(smell for column in schema.columns for smell in _of_column(rows, y, column)),
        *_duplicates(rows, y, parts, judged, groups),
    ]


def _of_column(rows: Any, y: NDArray[np.bool_], column: Column) -> Iterator[Smell]:
    if column.kind == "text":  # a text may well tell everything
        return
    values = rows[column.name]
    codes, levels = _coded(values)
    one_each = all(len(np.unique(codes[labels])) == 1 for labels in (y, ~y))
    if len(levels) == 2 and one_each and min(y.sum(), (~y).sum()) > 1:
        yield Smell(
            "label",
            column.name,
            f"The column {column.name!r} is the label by another name: it has two values, one for "
            "each label. Drop it.",
        )
        return
    if _is_identifier(values, codes, column):
        yield Smell(
            "identifier",
            column.name,
            f"The column {column.name!r} looks like an identifier: every row has a value of its "
            "own. Nothing can be learnt from it but the order of the rows; drop it.",
        )
    chosen = _sample(y)
    if chosen is None:
        return
    auc = _alone(values.iloc[chosen], codes[chosen], y[chosen], column)
    if auc < _TELLING:
        return
    absent = (values == "" if column.kind == "category" else values.isna()).to_numpy(dtype=bool)
    by_absence = roc_auc_score(y[chosen], absent[chosen])
    if max(by_absence, 1 - by_absence) >= _TELLING:
        yield Smell(
            "missing",
            column.name,
            f"Whether {column.name!r} is missing tells the label (area under the ROC curve "
            f"{max(by_absence, 1 - by_absence):.3f}). Is it filled in only after the fact? Then "
            "drop it.",
        )
    else:
        yield Smell(
            "predictor",
            column.name,
            f"The column {column.name!r} alone tells the label (area under the ROC curve "
            f"{auc:.3f}). Is it known when a new case must be decided? If not, drop it.",
        )


def _coded(values: Any) -> tuple[NDArray[np.intp], Any]:
    """Return numbers of the distinct values, a missing one being a value too."""
    pd = need("pandas", "cli", "a table")
    codes, levels = pd.factorize(values, use_na_sentinel=False)
    return np.asarray(codes), levels


def _sample(y: NDArray[np.bool_]) -> NDArray[np.intp] | None:
    """Return rows with enough of both classes, drawn by chance, or None."""
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


def _alone(values: Any, codes: NDArray[np.intp], y: NDArray[np.bool_], column: Column) -> float:
    """Return how well one column tells the label of rows that it was not learnt from."""
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
        # The share of positives of each level; one that is new tells nothing.
        seen = np.bincount(codes[train], minlength=codes.max() + 1)
        hits = np.bincount(codes[train], weights=y[train], minlength=codes.max() + 1)
        share = np.divide(hits, seen, out=np.full(len(seen), y[train].mean()), where=seen > 0)
        scores[rest] = share[codes[rest]]
    return float(roc_auc_score(y, scores))


def _is_identifier(values: Any, codes: NDArray[np.intp], column: Column) -> bool:
    n = len(codes)
    if n < _FEWEST_IDS or codes.max() + 1 < n:
        return False
    if column.kind == "category":
        return not column.note  # numbers in a strange dress have a note of their own
    if column.kind != "number":
        return False
    numbers = values.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any():
        return False
    steps = np.diff(numbers)
    dense = np.ptp(numbers) < 2 * n
    return bool(dense or (steps > 0).all() or (steps < 0).all())


def _duplicates(
    rows: Any,
    y: NDArray[np.bool_],
    parts: Split,
    judged: tuple[Rows, Rows] | None,
    groups: NDArray[np.intp] | None,
) -> Iterator[Smell]:
    """Look for rows that test or set the threshold and are among those trained on too."""
    hashes = need("pandas", "cli", "a table").util.hash_pandas_object(rows, index=False).to_numpy()
    if len(np.unique(hashes[parts.train])) < _COARSE * len(parts.train):
        return
    found = [_again(hashes, y, *parts, "test rows are among the training rows")]
    if judged is not None:
        what = "rows that set the threshold are among those trained on"
        found.append(_again(hashes, y, *judged, what))
    else:
        found.append(_twins(hashes, parts.train, groups))
    told = "; ".join(filter(None, found))
    if told:
        yield Smell(
            "duplicates",
            None,
            f"{told}. If they are the same cases, what is measured or promised on them is too "
            "good; drop duplicates, or name a column of groups.",
        )


def _again(
    hashes: NDArray[np.uint64], y: NDArray[np.bool_], train: Rows, rest: Rows, what: str
) -> str:
    """Return how many of some rows are among others too, where they are many."""
    again = rest[np.isin(hashes[rest], hashes[train])]
    if len(again) < max(1.0, _NOTED_DUPLICATES * len(rest)):
        return ""
    same = [np.isin(hashes[again], hashes[train[y[train] == label]]) for label in (False, True)]
    agree = int(np.where(y[again], same[1], same[0]).sum())
    return f"{len(again):,} of {len(rest):,} {what} too, {agree:,} of them with the same label"


def _twins(hashes: NDArray[np.uint64], train: Rows, groups: NDArray[np.intp] | None) -> str:
    """Return how many training rows are there again, in another group where there are groups."""
    own = hashes[train]
    if groups is not None:  # one of each group, for a group is never parted
        _, first = np.unique(np.stack([own, groups[train].astype(np.uint64)]), axis=1,
                             return_index=True)  # fmt: skip
        own = own[first]
    _, codes, counts = np.unique(own, return_inverse=True, return_counts=True)
    count = int((counts[codes] > 1).sum())
    if count < max(1.0, _NOTED_DUPLICATES * len(train)):
        return ""
    return (
        f"{count:,} of {len(train):,} training rows are there more than once, so that the "
        "threshold is set on rows whose twins were trained on"
    )
