"""Which rows train and which judge."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit

from setpoint.errors import SetpointError

Rows = NDArray[np.intp]
_SHARE = 0.25
_FEWEST = 10  # of either class in either part; with fewer, chance would choose
_TRIES = 50  # of splits by group
_UNKNOWN = {
    "validation": "validation {!r} is not 'auto', a share, None or a splitter.",
    "certification": "certification {!r} is not a share or a splitter.",
}


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
    groups = check_groups(groups, positive.shape)
    if validation is None or validation is False:
        return None
    if isinstance(validation, str):
        if validation != "auto":
            raise SetpointError(_UNKNOWN["validation"].format(validation))
        return _automatic(positive, kept, groups, seed)
    if isinstance(validation, Real) and not isinstance(validation, Integral):
        share = float(validation)
        if not 0 < share < 1:
            raise SetpointError(f"validation must be a share between 0 and 1, not {share}.")
        found = _random_split(share, positive, kept, groups, seed)
    else:
        train, judge = given_split(validation, positive, groups, "validation")
        found = train[kept[train]], judge[kept[judge]]
    for rows, part in zip(found, ("training", "validation"), strict=True):
        if not positive[rows].any() or positive[rows].all():
            raise SetpointError(
                f"the {part} part of the validation split lacks one of the classes; with so few "
                "positives or negatives, or groups so large, use validation=None."
            )
    return found


def check_groups(groups: Any, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return one group per row, or None where there are none."""
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.shape != shape:
        raise SetpointError(
            f"groups must hold one entry per row, shape {shape}; it has {found.shape}."
        )
    missing = [g is None or g != g for g in found.tolist()]
    if any(missing):
        raise SetpointError(
            f"groups has {sum(missing)} missing entries, the first at row "
            f"{missing.index(True)}; give such rows groups of their own, or drop them."
        )
    return found


def _automatic(
    positive: NDArray[np.bool_], kept: NDArray[np.bool_], groups: Any, seed: int
) -> tuple[Rows, Rows] | None:
    """Return a split with enough of both classes in both parts, or None where there is none."""
    if min((positive & kept).sum(), (~positive & kept).sum()) * _SHARE < _FEWEST:
        return None
    if groups is not None and len(np.unique(groups[kept])) < 2:
        return None
    found = _random_split(_SHARE, positive, kept, groups, seed)
    fewest = min(min(positive[r].sum(), (~positive[r]).sum()) for r in found)
    return found if fewest >= _FEWEST else None


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
            # Whole groups cannot be stratified exactly: of many splits the best balanced is taken.
            splitter = GroupShuffleSplit(_TRIES, test_size=share, random_state=seed)
            train, judge = min(
                splitter.split(nothing, labels, groups[rows]),
                key=lambda parts: _imbalance(labels, parts[1], share),
            )
    except ValueError as error:
        raise SetpointError(
            f"the rows cannot be split for validation ({error}) Use validation=None, or give more "
            "rows or groups."
        ) from error
    return rows[np.sort(train)], rows[np.sort(judge)]


def _imbalance(labels: NDArray[np.bool_], judge: Rows, share: float) -> float:
    """Return how far the shares of both classes in the validation part are from the one asked."""
    found = [labels[judge].sum() / labels.sum(), (~labels[judge]).sum() / (~labels).sum()]
    return float(sum(abs(np.log(max(f, 1e-9) / share)) for f in found))


def given_split(
    splitter: Any, positive: NDArray[np.bool_], groups: Any, name: str
) -> tuple[Rows, Rows]:
    """Return the one pair of rows that a splitter or an iterable yields.

    ``name`` is that of the parameter, for messages.
    """
    if isinstance(splitter, str):
        raise SetpointError(_UNKNOWN[name].format(splitter))
    if isinstance(splitter, type):
        raise SetpointError(f"{name} is the class {splitter.__name__}; give an instance.")
    if hasattr(splitter, "split"):
        try:
            splits = splitter.split(np.zeros((len(positive), 1)), positive, groups)
            splitter = list(splits)
        except ValueError as error:
            raise SetpointError(f"the rows cannot be split for {name}: {error}") from error
    if not isinstance(splitter, Iterable):
        raise SetpointError(_UNKNOWN[name].format(splitter))
    try:
        splits = [(np.asarray(first), np.asarray(second)) for first, second in splitter]
        (first, second), *others = splits
    except (TypeError, ValueError) as error:
        raise SetpointError(
            f"{name} must yield one pair, e.g. [(training_rows, {name}_rows)], as "
            "sklearn.model_selection.PredefinedSplit does."
        ) from error
    if others:
        raise SetpointError(
            f"{name} yields {len(splits)} splits, and one is used. Give a single split, e.g. "
            "StratifiedShuffleSplit(1) or PredefinedSplit."
        )
    return check_pair(first, second, len(positive), groups, name)


def check_pair(first: Any, second: Any, n: int, groups: Any, name: str) -> tuple[Rows, Rows]:
    """Return two sets of rows that may be given as masks, have none in common and part no group."""
    parts = [np.asarray(p) for p in (first, second)]
    parts = [np.flatnonzero(p) if p.dtype == bool else p for p in parts]
    for part in parts:
        if len(part) and part.dtype.kind not in "iu":
            raise SetpointError(f"{name} must yield indices of rows or masks.")
        if len(part) and not 0 <= part.min() <= part.max() < n:
            raise SetpointError(
                f"{name} names rows {part.min()} to {part.max()}, but there are "
                f"{n}; was the split made for other data?"
            )
        if len(np.unique(part)) < len(part):
            raise SetpointError(f"{name} names rows twice.")
    first, second = (part.astype(np.intp) for part in parts)
    if len(np.intersect1d(first, second)):
        raise SetpointError(f"the training and the {name} part share rows.")
    if groups is not None and len(np.intersect1d(groups[first], groups[second])):
        raise SetpointError(f"the {name} split given parts rows of one group.")
    return first, second
