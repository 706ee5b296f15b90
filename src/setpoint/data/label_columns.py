"""A column of two labels, one of them positive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint._internal.validation import did_you_mean, listed, shown
from setpoint.data.columns import kind_of
from setpoint.data.table_files import Part
from setpoint.data.values import as_text, given, numbers, uncategorised
from setpoint.errors import TargetError

Label = str | int | float | bool

_MOST_SHOWN = 8
_NUMBERS_OF = {True: 1, False: 0}
_PLAIN: tuple[set[Label], ...] = ({0, 1}, {-1, 1})  # and so booleans; 1 is what is looked for


@dataclass(frozen=True)
class Target:
    """Which rows are positive.

    Attributes
    ----------
    y : ndarray of bool
        True where the label is the positive one.
    negative, positive : str, int, float or bool
        The labels.
    note : str
        How the positive label was chosen, where nobody named it and it is not plainly 1 or True;
        else empty.
    """

    y: NDArray[np.bool_]
    negative: Label
    positive: Label
    note: str = ""


def read_target(series: Any, positive: Any = None) -> Target:
    """Return which rows of a label column are positive.

    Parameters
    ----------
    series : Series
        The labels: two different ones, and none missing.
    positive : optional
        The positive label; the text ``"1"`` also stands for the numbers 1 and 1.0 and for True. By
        default it is the larger of two numbers, True, or else the rarer of the two.

    Examples
    --------
    >>> import pandas as pd
    >>> found = read_target(pd.Series(["ok", "fraud", "ok"]))
    >>> found.positive, found.y.tolist()
    ('fraud', [False, True, False])
    """
    name = str(series.name)
    series = uncategorised(series)
    told = given(series)
    if not told.all():
        raise _missing(name, told)
    codes, labels = _coded(series)
    counts = dict(zip(labels, np.bincount(codes).tolist(), strict=True))
    other, chosen, note = choose_labels(name, counts, positive)
    return Target(codes == labels.index(chosen), other, chosen, note)


def label_counts(series: Any) -> dict[Label, int]:
    """Return how often each label of a column occurs; those that are missing do not count."""
    series = uncategorised(series)
    codes, labels = _coded(series[given(series)])
    return dict(zip(labels, np.bincount(codes, minlength=len(labels)).tolist(), strict=True))


def choose_labels(name: str, counts: dict[Label, int], positive: Any) -> tuple[Label, Label, str]:
    """Return the negative and the positive label, and how the latter was chosen, if nobody did.

    Parameters
    ----------
    name : str
        The column.
    counts : dict of label to int
        How often each label occurs.
    positive : optional
        As of :func:`read_target`.
    """
    if len(counts) != 2:
        raise _not_two(name, counts)
    note = ""
    if positive is None:
        chosen = _likely(counts)
        if set(counts) not in _PLAIN:
            share = counts[chosen] / sum(counts.values())
            note = (
                f"{chosen!r} is taken for the positive label of {name!r} ({share:.1%} of the "
                "rows); name the positive label if it is the other one."
            )
    else:
        found = [label for label in counts if same(label, positive)]
        if not found:
            raise TargetError(
                f"the positive label {positive!r} does not occur in {name!r}; "
                f"{_counted(counts)} do.{did_you_mean(positive, list(counts))}"
            )
        chosen = found[0]
    (other,) = (label for label in counts if label != chosen)
    return other, chosen, note


def labels_of(series: Any, negative: Label, positive: Label) -> NDArray[np.bool_]:
    """Return which rows of a later label column are positive; one label alone is enough.

    Labels may be written otherwise than they were: 1, 1.0, True and ``"1"`` are the same.
    """
    name = str(series.name)
    series = uncategorised(series)
    told = given(series)
    if not told.all():
        raise _missing(name, told)
    codes, labels = _coded(series)
    is_positive = np.array([same(label, positive) for label in labels], dtype=bool)
    strangers = [
        label
        for label, found in zip(labels, is_positive, strict=True)
        if not found and not same(label, negative)
    ]
    if strangers:
        raise TargetError(
            f"{name!r} holds {listed(strangers, _MOST_SHOWN)}; the model knows {negative!r} and "
            f"{positive!r}."
        )
    return is_positive[codes]


def same(label: Label, other: Any) -> bool:
    """Whether two spellings mean the same label.

    Examples
    --------
    >>> same(1, "1"), same(True, "true"), same(1.0, "1"), same("no", "No")
    (True, True, True, False)
    """
    if label == other or as_text(label) == as_text(other):
        return True
    return bool(_spellings(label) & _spellings(other))


def scores_of(series: Any) -> NDArray[np.float64]:
    """Return a column of scores as numbers, none of them missing."""
    name = str(series.name)
    values, bad = numbers(uncategorised(series))
    values = np.asarray(values, dtype=np.float64)
    wrong = bad if bad.any() else np.isnan(values)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        which, what = "that", "is missing"
        if bad.any():
            which, what = shown(series.iloc[row]), "is no number"
        raise TargetError(
            f"a score must be a number: in {name!r} {which} of row {row + 1:,} {what} "
            f"({int(wrong.sum()):,} such)."
        )
    return values


def _coded(series: Any) -> tuple[NDArray[np.intp], list[Label]]:
    """Return the different labels, and which of them each row has."""
    pd = need("pandas", "cli", "a table")
    codes, found = pd.factorize(series)
    plain = [_plain(value) for value in found]
    labels = list(dict.fromkeys(plain))
    return np.array([labels.index(label) for label in plain])[codes], labels


def _plain(value: Any) -> Label:
    """Return a label as a plain Python value, texts without blanks around them."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return str(value)


def _spellings(label: Any) -> set[str]:
    """Return in which ways a label may be written as a text."""
    label = _plain(label)
    if isinstance(label, bool):
        return {str(label).lower(), str(_NUMBERS_OF[label])}
    text = str(label)
    try:
        return {as_text(float(text))}
    except ValueError:
        return {text.lower()} if text.lower() in ("true", "false") else {text}


def _likely(counts: dict[Label, int]) -> Label:
    """Return the label that is most likely meant to be positive."""
    first, second = counts
    if all(isinstance(label, (bool, int, float)) for label in counts):
        return max(counts)
    rarer = first if counts[first] < counts[second] else second
    return max(map(str, counts)) if counts[first] == counts[second] else rarer


def _counted(counts: dict[Label, int]) -> str:
    often = sorted(counts.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{label!r} ({count:,})" for label, count in often[:_MOST_SHOWN])
    return shown + (", ..." if len(often) > _MOST_SHOWN else "")


def _missing(name: str, told: NDArray[np.bool_]) -> TargetError:
    row = int(np.flatnonzero(~told)[0])
    return TargetError(
        f"{int((~told).sum()):,} of {len(told):,} labels in {name!r} are missing, the first in row "
        f"{row + 1:,}; drop the rows whose label is not known."
    )


def _not_two(name: str, counts: dict[Label, int]) -> TargetError:
    if len(counts) == 1:
        return TargetError(
            f"the target {name!r} holds only {_counted(counts)}; there must be rows of both kinds."
        )
    return TargetError(
        f"the target {name!r} holds {len(counts):,} different values, and there must be two: "
        f"{_counted(counts)}. If one of them is the important one, make a column that says whether "
        "a row is of it; drop rows that are of neither kind."
    )


_ROWS = 1 << 20


class TableLabels:
    """The two labels of a target column.

    Without a name for the positive one they are 0 and 1, or booleans, and need not be looked for.
    Otherwise the whole column is read once, so that every process knows both.
    """

    def __init__(self, parts: Sequence[Part], target: str, positive: Any) -> None:
        self.target = target
        self.positive: Any = 1 if positive is None else positive
        self.negative: Any = None
        self._named = positive is not None
        if not self._named:
            self.negative = 0
        elif kind_of(parts[0].types[target]) == "boolean":
            self._choose([False, True])
        else:
            self._choose(self._search(parts))

    def is_positive(self, label: Any) -> bool | None:
        """Whether a label is positive; None where it is neither of the two."""
        if same(label, self.positive):
            return True
        return False if self.negative is not None and same(label, self.negative) else None

    @property
    def known(self) -> str:
        """What to say of a label that is neither."""
        if self._named:
            return f"the labels are {self.negative!r} and {self.positive!r}."
        return "labels are 0 and 1, or else name the positive one (positive=...)."

    def _search(self, parts: Sequence[Part]) -> list[Any]:
        """Return all labels; three are enough to know that there are too many."""
        found: list[Any] = []
        for part in parts:
            every = range(len(part.group_rows))
            for _, batch in part.batches(every, [self.target], _ROWS):
                for label in batch.column(0).unique().to_pylist():
                    # Missing labels are refused with their row when it is read.
                    missing = label is None or label != label or str(label).strip() == ""
                    if not missing and not any(same(label, other) for other in found):
                        found.append(label.strip() if isinstance(label, str) else label)
                if len(found) > 2:
                    return found
        return found

    def _choose(self, labels: list[Any]) -> None:
        if len(labels) > 2:
            raise TargetError(
                f"the target {self.target!r} holds more than two different values: "
                f"{listed(labels)}. If one of them is the important one, make a column that says "
                "whether a row is of it; drop rows that are of neither kind."
            )
        match = [label for label in labels if same(label, self.positive)]
        if not match:
            raise TargetError(
                f"the positive label {self.positive!r} does not occur in {self.target!r}; "
                f"{listed(labels)} do.{did_you_mean(self.positive, labels)}"
            )
        self.positive = match[0]
        self.negative = next((label for label in labels if label != match[0]), None)


# DOC of streams._table_labels: Which labels of a column in files are positive.
