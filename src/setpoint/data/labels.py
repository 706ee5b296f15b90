"""Two labels, one of them positive: of arrays, of rows in blocks and of columns.

Which label is positive is chosen by one rule: the label that the user names; else the larger of two
numbers, so 1 or True; else, of two texts, what the source can tell (see :func:`likely_positive`).

Labels of arrays are equal if ``==`` holds. Those of columns, which files and commands spell in
several ways, are equal if :func:`same_label` holds.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from setpoint._internal.validation import listed
from setpoint.data.values import as_text
from setpoint.errors import SetpointError, SourceError

Label = str | int | float | bool
Mask = NDArray[np.bool_]

OBVIOUS: tuple[set[Any], ...] = ({0, 1}, {-1, 1})  # 1 is positive; False and True equal 0 and 1


@dataclass(frozen=True)
class Labels:
    """Two labels, one of them positive.

    Attributes
    ----------
    classes : ndarray of shape (2,)
        The labels. Those of an array are sorted and keep its type.
    positive_index : int
        The place of the positive label.
    note : str
        How the positive label was chosen, unless it was named or obvious.
    """

    classes: NDArray[Any]
    positive_index: int
    note: str = ""

    @classmethod
    def pair(cls, negative: Any, positive: Any, note: str = "") -> Labels:
        """Return two labels of any type; ``negative`` may be None if there is no such label."""
        classes = np.empty(2, dtype=object)
        classes[:] = negative, positive
        return cls(classes, 1, note)

    @classmethod
    def of(cls, y: NDArray[Any], pos_label: Any = None, stacklevel: int = 3) -> Labels:
        """Return the labels of an array; the positive one is ``pos_label``, or else the larger."""
        try:
            classes = np.unique(y)
        except TypeError:
            raise SetpointError(
                "y mixes labels of different types, or some are missing; use one type and drop "
                "the rows without a label."
            ) from None
        if y.dtype.kind == "f" and np.isnan(y).any():
            raise SetpointError("y contains NaN; drop the rows without a label.")
        check_classification_targets(y)
        shown = listed(classes.tolist())
        if len(classes) > 2:
            # The first two sentences are what scikit-learn's checks expect.
            raise SetpointError(
                f"Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}. Its labels are {shown}; choose the important one and pass "
                "y == label."
            )
        if len(classes) < 2:
            raise SetpointError(f"y holds only one class, {shown}; a classifier needs both.")
        if pos_label is None:
            fraction = float(np.mean(y == classes[1]))
            if classes.dtype.kind in "OUST" and fraction > 0.5:
                warnings.warn(
                    f"pos_label is not given, so {listed(classes[1:].tolist())} is the positive "
                    f"class, though it makes up {fraction:.0%} of the rows; pass pos_label to be "
                    "sure.",
                    stacklevel=stacklevel,
                )
            return cls(classes, 1)
        match = np.flatnonzero(classes == pos_label)
        if len(match) != 1:
            raise SetpointError(f"pos_label {pos_label!r} is not in y, whose labels are {shown}.")
        return cls(classes, int(match[0]))

    @classmethod
    def of_blocks(cls, blocks: Iterable[NDArray[Any]], pos_label: Any = None) -> Labels:
        """Return the labels of an array that comes in blocks.

        One of them may be absent if it is known from the other one, as with 0 and 1.
        """
        found: set[Any] = set()
        for block in blocks:
            found |= _labels_in(block)
            if len(found) > 2:
                raise SourceError(
                    f"y holds more than two labels: {listed(_ordered(found))}. Choose the "
                    "important one and pass y == label."
                )
        known = next((both for both in OBVIOUS if found <= both), found)
        positive = likely_positive(known) if pos_label is None else pos_label
        if positive is None:
            raise SourceError(
                f"y holds {listed(_ordered(found))}; pass pos_label to name the positive label."
            )
        if positive not in known:
            raise SourceError(
                f"pos_label {pos_label!r} is not in y, whose labels are {listed(_ordered(found))}."
            )
        return cls.pair(next((label for label in known if label != positive), None), positive)

    @property
    def positive(self) -> Any:
        """The positive label."""
        return self.classes[self.positive_index]

    @property
    def negative(self) -> Any:
        """The negative label."""
        return self.classes[1 - self.positive_index]

    def compare(self, y: NDArray[Any]) -> tuple[Mask, Mask]:
        """Return which labels are positive, and which are one of the two."""
        positive = np.broadcast_to(y == self.positive, y.shape)
        return positive, positive | (y == self.negative)

    def is_positive(self, y: Any) -> Mask:
        """Return which labels are positive; raise SetpointError for unknown ones."""
        y = column_or_1d(y)
        positive, known = self.compare(y)
        if not np.all(known):
            unknown = dict.fromkeys(y[~known].tolist())
            raise SetpointError(
                f"y holds the labels {listed(unknown)}, which were not there when fitting; "
                f"known: {listed(self.classes.tolist())}."
            )
        return np.array(positive)

    def match(self, label: Any) -> bool | None:
        """Return whether a label, in any spelling, is positive; None if it is neither."""
        if same_label(label, self.positive):
            return True
        return False if self.negative is not None and same_label(label, self.negative) else None

    def of_decisions(self, positive: Mask) -> NDArray[Any]:
        """Return the labels of positive and negative decisions."""
        index = np.where(positive, self.positive_index, 1 - self.positive_index)
        return np.asarray(self.classes[index])

    def check_counts(self, positive: Mask) -> None:
        """Raise SetpointError if a class is too small to train on."""
        for is_positive, needed in ((True, 2), (False, 1)):
            count = int((positive == is_positive).sum())
            if count < needed:
                label = listed(self.of_decisions(np.array([is_positive])).tolist())
                raise SetpointError(
                    f"the class {label} has {count} row{'' if count == 1 else 's'} of "
                    f"positive weight; training needs at least {needed}."
                )


def likely_positive(labels: Collection[Any], counts: Mapping[Any, int] | None = None) -> Any:
    """Return which label is positive if none is named; None if that cannot be known.

    It is the larger of two numbers. Of two texts it is the rarer one, which needs ``counts``; if
    both are as frequent, the one that sorts last.
    """
    if len(labels) == 2 and not any(isinstance(label, str | bytes) for label in labels):
        return max(labels)
    if counts is None:
        return None
    first, second = labels
    if counts[first] == counts[second]:
        return max(labels, key=str)
    return first if counts[first] < counts[second] else second


def same_label(label: Any, other: Any) -> bool:
    """Return whether two spellings mean the same label.

    Examples
    --------
    >>> same_label(1, "1"), same_label(True, "true"), same_label(1.0, "1"), same_label("no", "No")
    (True, True, True, False)
    """
    if label == other or as_text(label) == as_text(other):
        return True
    return not _spellings(label).isdisjoint(_spellings(other))


def plain_label(value: Any) -> Label:
    """Return a label as a plain Python value; whole numbers are ints, texts are stripped."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return str(value)


def _spellings(label: Any) -> set[str]:
    """Return the texts that stand for a label."""
    label = plain_label(label)
    if isinstance(label, bool):
        return {str(label).lower(), str(int(label))}
    text = str(label)
    try:
        return {as_text(float(text))}
    except ValueError:
        return {text.lower() if text.lower() in ("true", "false") else text}


def _labels_in(y: NDArray[Any]) -> set[Any]:
    """Return the labels of a block; raise SourceError if some are missing."""
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
