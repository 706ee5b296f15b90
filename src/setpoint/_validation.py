"""Which rows train and which judge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedShuffleSplit

from setpoint.errors import SetpointError

Rows = NDArray[np.intp]
_SHARE = 0.25
_FEWEST = 10  # of either class in the validation part; with fewer, chance would choose


def split(
    validation: Any,
    positive: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    groups: Any,
    seed: int,
) -> tuple[Rows, Rows] | None:
    """Return training and validation rows, or None where all rows do both.

    Parameters
    ----------
    validation : "auto", float, None, cross-validation splitter or iterable
        See :class:`setpoint.SetpointClassifier`.
    positive : ndarray of bool
        The labels.
    kept : ndarray of bool
        Which rows have a weight; the others are in neither part.
    groups : array-like or None
        Rows of one group stay together.
    seed : int
        Of a random split.
    """
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != positive.shape:
            raise SetpointError(
                f"groups must hold one entry per row, shape {positive.shape}; it has "
                f"{groups.shape}."
            )
    if validation is None or validation is False:
        return None
    if isinstance(validation, str):
        if validation != "auto":
            raise SetpointError(
                f"validation {validation!r} is not 'auto', a share, None or a splitter."
            )
        rarer = min((positive & kept).sum(), (~positive & kept).sum())
        if rarer * _SHARE < _FEWEST:
            return None
        found = _random_split(_SHARE, positive, kept, groups, seed)
        # A few large groups may leave too little on either side; then nothing is held out.
        return found if all(_has_both(positive[rows]) for rows in found) else None
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise SetpointError(f"validation must be a share between 0 and 1, not {validation}.")
        found = _random_split(validation, positive, kept, groups, seed)
    else:
        train, judge = _first_split(validation, positive, groups)
        found = train[kept[train]], judge[kept[judge]]
    for rows, part in zip(found, ("training", "validation"), strict=True):
        if not _has_both(positive[rows]):
            raise SetpointError(
                f"the {part} part of the validation split lacks one of the classes; with so few "
                "positives or negatives use validation=None."
            )
    return found


def _has_both(positive: NDArray[np.bool_]) -> bool:
    return bool(positive.any() and not positive.all())


def _random_split(
    share: float,
    positive: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    groups: Any,
    seed: int,
) -> tuple[Rows, Rows]:
    rows = np.flatnonzero(kept)
    nothing, labels = np.zeros((len(rows), 1)), positive[rows]
    try:
        if groups is None:
            splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
            train, judge = next(splitter.split(nothing, labels))
        else:
            folds = max(2, round(1 / share))
            splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
            train, judge = next(splitter.split(nothing, labels, groups[rows]))
    except ValueError as error:
        raise SetpointError(
            f"the rows cannot be split for validation ({error}) Use validation=None, or give more "
            "rows or groups."
        ) from error
    return rows[np.sort(train)], rows[np.sort(judge)]


def _first_split(validation: Any, positive: NDArray[np.bool_], groups: Any) -> tuple[Rows, Rows]:
    if hasattr(validation, "split"):
        validation = validation.split(np.zeros((len(positive), 1)), positive, groups)
    if not isinstance(validation, Iterable):
        raise SetpointError(
            f"validation {validation!r} is not 'auto', a share, None or a splitter."
        )
    try:
        splits = [(np.asarray(train), np.asarray(judge)) for train, judge in validation]
        (train, judge), *others = splits
    except (TypeError, ValueError) as error:
        raise SetpointError(
            "validation must yield one pair (training rows, validation rows), as "
            "sklearn.model_selection.PredefinedSplit does."
        ) from error
    if others:
        raise SetpointError(
            f"validation yields {len(splits)} splits; one is used to choose among candidates. Give "
            "a single split, e.g. StratifiedShuffleSplit(1) or PredefinedSplit."
        )
    train, judge = (np.flatnonzero(part) if part.dtype == bool else part for part in (train, judge))
    for part in (train, judge):
        if part.dtype.kind not in "iu" or (
            len(part) and not 0 <= part.min() <= part.max() < len(positive)
        ):
            raise SetpointError("validation must yield indices of rows.")
    if len(np.intersect1d(train, judge)):
        raise SetpointError("the training and the validation part share rows.")
    return train.astype(np.intp), judge.astype(np.intp)
