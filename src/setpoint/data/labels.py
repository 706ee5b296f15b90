"""Two labels, one of them positive: of arrays, of rows in blocks and of columns.

Which label is positive is chosen by one rule, that of :func:`likely_positive`, for arrays and for
tables, in Python and on the command line.

Several labels may be positive, and there may be more than two labels, if the positive ones are
named: the others are negative, also those that are seen later. The two classes are then texts such
as ``"1 or 2"`` and ``"other"``.

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

from setpoint._internal.validation import as_text, either, label_list, listed
from setpoint.errors import SetpointError, SourceError

Label = str | int | float | bool
Mask = NDArray[np.bool_]

OBVIOUS: tuple[set[Any], ...] = ({0, 1}, {-1, 1})  # 1 is positive; False and True equal 0 and 1
AFFIRMATIVE = {  # in any case of letters
    "yes": "no", "y": "n", "true": "false", "t": "f", "positive": "negative", "pos": "neg",
    "1": "0", "+1": "-1",
}  # fmt: skip
_CLEARLY_RARER = 0.4  # of the rows: a label of about half of them is not the rarer one for sure


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
    positive_labels : tuple
        The labels that count as positive, if these were given as a list or there are more than
        two; all others are negative. Empty if ``classes`` are the labels themselves.
    """

    classes: NDArray[Any]
    positive_index: int
    note: str = ""
    positive_labels: tuple[Any, ...] = ()

    @classmethod
    def pair(
        cls,
        negative: Any,
        positive: Any,
        note: str = "",
        positive_labels: tuple[Any, ...] = (),
    ) -> Labels:
        """Return two labels of any type; ``negative`` may be None if there is no such label."""
        classes = np.empty(2, dtype=object)
        classes[:] = negative, positive
        return cls(classes, 1, note, positive_labels)

    @classmethod
    def positives_and_others(cls, positive: Iterable[Any], found: Iterable[Any]) -> Labels:
        """Return two classes: some labels, called e.g. ``"1, 2 or 3"``, and ``"other"``.

        Parameters
        ----------
        positive : iterable
            The labels that count as positive.
        found : iterable
            All labels that occur. If one of them is ``"other"``, the negative class is called
            ``"rest"``.
        """
        positive = tuple(positive)
        name = either(positive)
        taken = {name, *map(as_text, found)}
        other = next(text for text in ("other", "rest", "all others") if text not in taken)
        return cls(np.array([other, name]), 1, positive_labels=positive)

    @classmethod
    def of(cls, y: NDArray[Any], pos_label: Any = None, stacklevel: int = 3) -> Labels:
        """Return the labels of an array; the positive one is ``pos_label``, or the likely one.

        ``pos_label`` may be a list of labels that count as positive.
        """
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
        several = label_list(pos_label)
        if several is not None or (pos_label is not None and len(classes) > 2):
            return cls._of_several(y, classes, several or [pos_label], stacklevel + 1)
        if len(classes) > 2:
            # The first two sentences are what scikit-learn's checks expect.
            raise SetpointError(
                f"Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}. Its labels are {shown}; name the positive one with "
                "pos_label, or several in a list. All others are then negative."
            )
        if len(classes) < 2:
            raise SetpointError(f"y holds only one class, {shown}; a classifier needs both.")
        if pos_label is None:
            return cls._likely(y, classes, stacklevel + 1)
        match = np.flatnonzero(classes == pos_label)
        if len(match) != 1:
            raise SetpointError(f"pos_label {pos_label!r} is not in y, whose labels are {shown}.")
        return cls(classes, int(match[0]))

    @classmethod
    def _likely(cls, y: NDArray[Any], classes: NDArray[Any], stacklevel: int) -> Labels:
        """Return the labels of an array, warning of a positive one that may be a surprise.

        scikit-learn takes the label that sorts last for the positive one.
        """
        first, last = classes.tolist()
        counts = {first: int(np.sum(y == classes[0])), last: int(np.sum(y == classes[1]))}
        positive = likely_positive((first, last), counts)
        other = first if positive == last else last
        fraction = counts[positive] / len(y)
        is_text = isinstance(first, str | bytes) and affirmative((first, last)) is None
        if is_text and (positive == first or fraction > 0.5):
            warnings.warn(
                f"pos_label is not given, so {listed([positive])} is the positive class "
                f"({fraction:.0%} of the rows), not {listed([other])}; pass pos_label to be sure.",
                stacklevel=stacklevel,
            )
        return cls(classes, int(positive == last))

    @classmethod
    def _of_several(
        cls, y: NDArray[Any], classes: NDArray[Any], positive: list[Any], stacklevel: int
    ) -> Labels:
        """Return the named labels of an array as one class, and all others as the other."""
        occurs = [bool(np.any(classes == label)) for label in positive]
        absent = [label for label, there in zip(positive, occurs, strict=True) if not there]
        shown = listed(classes.tolist())
        if len(absent) == len(positive):
            raise SetpointError(
                f"pos_label {listed(positive)} is not in y, whose labels are {shown}."
            )
        labels = cls.positives_and_others(positive, classes.tolist())
        if labels.is_positive(y).all():
            raise SetpointError(
                f"all labels of y ({shown}) are positive; a classifier needs both classes."
            )
        if absent:
            warnings.warn(
                f"pos_label names {listed(absent)}, which is not in y, whose labels are {shown}.",
                stacklevel=stacklevel,
            )
        return labels

    @classmethod
    def of_blocks(cls, blocks: Iterable[NDArray[Any]], pos_label: Any = None) -> Labels:
        """Return the labels of an array that comes in blocks.

        One of them may be absent if it is known from the other one, as with 0 and 1.
        """
        found: set[Any] = set()
        several = label_list(pos_label)
        for block in blocks:
            found |= _labels_in(block)
            if len(found) > 2 and pos_label is None:
                raise SourceError(
                    f"y holds more than two labels: {listed(_ordered(found))}. Name the positive "
                    "one with pos_label, or several in a list; all others are then negative."
                )
        if several is not None or len(found) > 2:
            named = [pos_label] if several is None else several
            if not found.intersection(named):
                raise SourceError(
                    f"pos_label {listed(named)} is not in y, whose labels are "
                    f"{listed(_ordered(found))}."
                )
            return cls.positives_and_others(named, found)
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

    @property
    def pos_label(self) -> Any:
        """The positive label, or a list of those that count as positive."""
        return list(self.positive_labels) if self.positive_labels else self.positive

    def compare(self, y: NDArray[Any]) -> tuple[Mask, Mask]:
        """Return which labels are positive, and which are one of the two.

        If all labels but the positive ones are negative, y may also hold the names of the classes,
        or booleans that are true for positives.
        """
        if not self.positive_labels:
            positive = np.broadcast_to(y == self.positive, y.shape)
            return positive, positive | (y == self.negative)
        if y.dtype == np.bool_:
            return y, np.ones(y.shape, dtype=bool)
        named = (*self.positive_labels, self.positive)
        positive = np.logical_or.reduce([np.broadcast_to(y == p, y.shape) for p in named])
        known = positive | (y == self.negative)
        # A text never equals a number: y is then written differently, not negative.
        texts = all(isinstance(label, str) for label in self.positive_labels)
        of_other_kind = y.dtype.kind in ("biuf" if texts else "UST")
        return positive, known if of_other_kind else known | _is_present(y)

    def is_positive(self, y: Any) -> Mask:
        """Return which labels are positive; raise SetpointError for unknown ones."""
        y = column_or_1d(y)
        positive, known = self.compare(y)
        if not np.all(known):
            unknown = dict.fromkeys(y[~known].tolist())
            if self.positive_labels:
                raise SetpointError(
                    f"y holds {listed(unknown)}; the positive labels are "
                    f"{listed(self.positive_labels)}, and the others must be of their kind, and "
                    "present."
                )
            raise SetpointError(
                f"y holds the labels {listed(unknown)}, which were not there when fitting; "
                f"known: {listed(self.classes.tolist())}."
            )
        return np.array(positive)

    def match(self, label: Any) -> bool | None:
        """Return whether a label, in any spelling, is positive; None if it is neither."""
        if self.positive_labels:
            if label is None or label != label or as_text(label) == "":
                return None
            return any(same_label(label, positive) for positive in self.positive_labels)
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
    """Return which of two labels is positive if none is named; None if that cannot be known.

    1. Of two numbers, the larger one, so 1 or True.
    2. Of "yes" and "no", "true" and "false", "positive" and "negative" and the like, the first.
    3. Of two other texts, which needs ``counts``, the rarer one if it makes up less than 40 % of
       the rows.
    4. Otherwise the one that sorts last, as in scikit-learn.

    Examples
    --------
    >>> likely_positive([0, 1]), likely_positive(["Yes", "no"], {"Yes": 9, "no": 1})
    (1, 'Yes')
    >>> likely_positive(["fraud", "ok"], {"fraud": 1, "ok": 9})
    'fraud'
    >>> likely_positive(["fraud", "ok"], {"fraud": 4, "ok": 5}), likely_positive(["fraud", "ok"])
    ('ok', None)
    """
    if len(labels) == 2 and not any(isinstance(label, str | bytes) for label in labels):
        return max(labels)
    if (found := affirmative(labels)) is not None:
        return found
    if counts is None:
        return None
    first, second = labels
    rarer = min(labels, key=lambda label: counts[label])
    if counts[rarer] < _CLEARLY_RARER * (counts[first] + counts[second]):
        return rarer
    return max(labels, key=str)


def affirmative(labels: Collection[Any]) -> Any:
    """Return which of two texts says "yes" if the other says "no"; None if they are others."""
    words = {label.strip().lower(): label for label in labels if isinstance(label, str)}
    for yes, no in AFFIRMATIVE.items():
        if len(labels) == 2 and set(words) == {yes, no}:
            return words[yes]
    return None


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


def _is_present(y: NDArray[Any]) -> Mask:
    """Return which labels are neither None nor NaN."""
    if y.dtype.kind not in "fO":
        return np.ones(y.shape, dtype=bool)
    return np.asarray((y == y) & (y != None), dtype=bool)  # noqa: E711 (elementwise)


def _ordered(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=repr)
