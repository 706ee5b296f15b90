"""Two labels of any kind, one of them positive."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from setpoint._internal.validation import listed
from setpoint.errors import SetpointError, SourceError


@dataclass(frozen=True)
class Labels:
    """The sorted labels and which of them is positive."""

    classes: NDArray[Any]
    positive_index: int

    @classmethod
    def of(cls, y: NDArray[Any], pos_label: Any = None, stacklevel: int = 3) -> Labels:
        """Learn the labels; the positive one is ``pos_label``, or else the larger."""
        try:
            classes = np.unique(y)
        except TypeError:
            raise SetpointError(
                "y mixes labels of different types, or misses some; use one type and drop rows "
                "without a label."
            ) from None
        if y.dtype.kind == "f" and np.isnan(y).any():
            raise SetpointError("y contains NaN; drop the rows without a label.")
        check_classification_targets(y)
        if len(classes) > 2:
            # The first two sentences are what scikit-learn's checks expect.
            raise SetpointError(
                f"Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}. Its labels are {_listed(classes)}; choose the important "
                f"one and pass y == label."
            )
        if len(classes) < 2:
            raise SetpointError(
                f"y holds only one class, {_listed(classes)}; a classifier needs both classes."
            )
        if pos_label is None:
            share = float(np.mean(y == classes[1]))
            if classes.dtype.kind in "OUST" and share > 0.5:
                warnings.warn(
                    f"pos_label is not given, so {_listed(classes[1:])} is the positive class, "
                    f"though it makes up {share:.0%} of the rows; pass pos_label to be sure.",
                    stacklevel=stacklevel,
                )
            return cls(classes, 1)
        match = np.flatnonzero(classes == pos_label)
        if len(match) != 1:
            raise SetpointError(
                f"pos_label {pos_label!r} is not in y, whose labels are {_listed(classes)}."
            )
        return cls(classes, int(match[0]))

    @property
    def positive(self) -> Any:
        """The positive label."""
        return self.classes[self.positive_index]

    def is_positive(self, y: Any) -> NDArray[np.bool_]:
        """Return which labels are positive; refuses labels that were not there before."""
        labels = column_or_1d(y)
        known = np.broadcast_to(
            (labels == self.classes[0]) | (labels == self.classes[1]), labels.shape
        )
        if not np.all(known):
            strangers = np.array(list(dict.fromkeys(labels[~known].tolist())), dtype=object)
            raise SetpointError(
                f"y holds the labels {_listed(strangers)}, which were not there when fitting; "
                f"known: {_listed(self.classes)}."
            )
        return np.asarray(labels == self.positive)

    def of_decisions(self, positive: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the labels of positive and negative decisions."""
        index = np.where(positive, self.positive_index, 1 - self.positive_index)
        return np.asarray(self.classes[index])

    def check_counts(self, positive: NDArray[np.bool_]) -> None:
        """Refuse classes that are too small to train on."""
        counts = {True: int(positive.sum()), False: int((~positive).sum())}
        for is_positive, needed in ((True, 2), (False, 1)):
            count = counts[is_positive]
            if count < needed:
                label = self.of_decisions(np.array([is_positive]))
                raise SetpointError(
                    f"the class {_listed(label)} has {count} row{'' if count == 1 else 's'} of "
                    f"positive weight; training needs at least {needed}."
                )


def _listed(labels: NDArray[Any]) -> str:
    shown = ", ".join(repr(label) for label in labels.tolist()[:5])
    return shown + (", ..." if len(labels) > 5 else "")


_PLAIN: tuple[set[Any], ...] = ({0, 1}, {-1, 1})  # and so booleans; 1 is what is looked for


def find_labels(blocks: Iterable[NDArray[Any]], pos_label: Any) -> tuple[Any, Any]:
    """Return the negative and the positive label of y, which comes in blocks.

    Both labels need not be there where it is known which of the two is positive.
    """
    labels: set[Any] = set()
    for block in blocks:
        labels |= _labels_in(block)
        if len(labels) > 2:
            raise SourceError(
                f"y holds more than two labels: {listed(_ordered(labels))}. Choose the important "
                "one and pass y == label."
            )
    plain = next((both for both in _PLAIN if labels <= both), None)
    if pos_label is not None:
        if pos_label not in (plain or labels):
            raise SourceError(
                f"pos_label {pos_label!r} is not in y, whose labels are {listed(_ordered(labels))}."
            )
        return _other(plain or labels, pos_label), pos_label
    if plain:
        return _other(plain, 1), 1
    if len(labels) == 2 and not any(isinstance(label, str | bytes) for label in labels):
        return min(labels), max(labels)
    raise SourceError(
        f"y holds {listed(_ordered(labels))}; pass pos_label to say which label is positive."
    )


def _other(labels: set[Any], positive: Any) -> Any:
    return next((label for label in labels if label != positive), None)


def _labels_in(y: NDArray[Any]) -> set[Any]:
    if y.dtype.kind in "biuf":  # without sorting
        least, most = y.min(), y.max()
        if least != least:
            raise SourceError("y contains NaN; drop the rows without a label.")
        if ((y == least) | (y == most)).all():
            return {least.item(), most.item()}
    found = set(y.tolist())
    if any(label is None or label != label for label in found):
        raise SourceError("y has missing labels; drop the rows without a label.")
    return found


def _ordered(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=repr)


# DOC of streams._array_labels: Which of the labels in an array is the positive one.
