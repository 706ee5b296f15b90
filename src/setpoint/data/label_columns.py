"""Columns of labels: of data frames, and of Parquet and Arrow files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint._internal.validation import did_you_mean, label_list, listed, quoted
from setpoint.data.file_formats import RowGroupFile, storage_kind
from setpoint.data.labels import (
    OBVIOUS,
    Label,
    Labels,
    Mask,
    likely_positive,
    plain_label,
    same_label,
)
from setpoint.data.values import check_present, is_present, numbers, without_categories
from setpoint.errors import TargetError

_SKIP = "drop the rows without a label, on the command line with --skip-unlabelled."
_MOST_SHOWN = 8
_MOST_LABELS = 1_000  # of a column in files
_BATCH_ROWS = 1 << 20
_NAME_ONE = (
    "Name the positive one, or several, with --positive 1,2 (positive=[1, 2]); all others are then "
    "negative."
)


class Target(NamedTuple):
    """A column of labels.

    Attributes
    ----------
    y : ndarray of bool
        True where the label is the positive one.
    negative, positive : str, int, float or bool
        The labels.
    note : str
        How the positive label was chosen, unless it was named or is 1 or True.
    positive_labels : tuple
        See :class:`Labels`.
    """

    y: Mask
    negative: Label
    positive: Label
    note: str = ""
    positive_labels: tuple[Label, ...] = ()


def read_target(series: Any, positive: Any = None) -> Target:
    """Return which rows of a label column are positive.

    Parameters
    ----------
    series : Series
        The labels, none missing: two different ones, or more if ``positive`` is given.
    positive : optional
        The positive label; the text ``"1"`` also stands for the numbers 1 and 1.0 and for True. By
        default it is that of ``setpoint.data.labels.likely_positive``. Several labels, as a
        list or as the text ``"1,2"``, are positive together; a label that contains a comma comes
        before such a list. All other labels are negative.

    Examples
    --------
    >>> import pandas as pd
    >>> found = read_target(pd.Series(["ok", "fraud", "ok"]))
    >>> found.positive, found.y.tolist()
    ('fraud', [False, True, False])
    """
    codes, found = _encode(series)
    counts = dict(zip(found, np.bincount(codes).tolist(), strict=True))
    labels = labels_of_counts(str(series.name), counts, positive)
    positive_labels = labels.positive_labels or (labels.positive,)
    y = np.isin(codes, [found.index(label) for label in positive_labels])
    return Target(y, labels.negative, labels.positive, labels.note, labels.positive_labels)


def labelled_rows(frame: Any, targets: Sequence[str]) -> tuple[Any, str]:
    """Return the rows of a table that have all labels, and a sentence on how many have not.

    Rows are numbered anew; a target that is not a column is left to later checks.
    """
    labelled = np.ones(len(frame), dtype=bool)
    for name in targets:
        if name in frame.columns:
            labelled &= is_present(without_categories(frame[name]))
    if labelled.all():
        return frame, ""
    skipped, shown = int((~labelled).sum()), listed(targets)
    if skipped == len(frame):
        raise TargetError(f"no row has a label in {shown}; nothing is left to use.")
    note = f"{skipped:,} of {len(frame):,} rows have no label in {shown} and are skipped."
    return frame[labelled].reset_index(drop=True), note


def positive_rows(series: Any, labels: Labels) -> Mask:
    """Return which rows of a label column are positive, given the labels; one alone is enough.

    Spellings may differ: 1, 1.0, True and ``"1"`` are the same.
    """
    codes, found = _encode(series)
    matches = [labels.match(label) for label in found]
    unknown = [label for label, match in zip(found, matches, strict=True) if match is None]
    if unknown:
        raise TargetError(
            f"{str(series.name)!r} holds {listed(unknown, _MOST_SHOWN)}; the model knows "
            f"{labels.negative!r} and {labels.positive!r}."
        )
    return np.array(matches, dtype=bool)[codes]


def label_counts(series: Any) -> dict[Label, int]:
    """Return how often each label of a column occurs; none may be missing."""
    codes, labels = _encode(series)
    return dict(zip(labels, np.bincount(codes, minlength=len(labels)).tolist(), strict=True))


def labels_of_counts(name: str, counts: Mapping[Label, int], positive: Any = None) -> Labels:
    """Return the labels of a column, given how often each occurs.

    ``positive`` is as in :func:`read_target`; ``name`` is that of the column.
    """
    if len(counts) == 1:
        raise TargetError(
            f"the target {name!r} holds only {_list_counts(counts)}; it needs both classes."
        )
    if positive is None and len(counts) != 2:
        raise TargetError(
            f"the target {name!r} has {len(counts):,} distinct values, but must have two: "
            f"{_list_counts(counts)}. {_NAME_ONE}"
        )
    note = ""
    if positive is None:
        chosen = likely_positive(counts, counts)
        if set(counts) not in OBVIOUS:
            fraction = counts[chosen] / sum(counts.values())
            note = (
                f"{chosen!r} is taken as the positive label of {name!r} ({fraction:.1%} of the "
                "rows); pass --positive (positive=) to choose the other one."
            )
    else:
        named, several = _find_labels(name, list(counts), positive, _list_counts(counts))
        if several or len(counts) > 2:
            if len(named) == len(counts):
                raise TargetError(
                    f"all labels of {name!r} are named as positive ({_list_counts(counts)}); it "
                    "needs both classes."
                )
            return Labels.positives_and_others(named, counts)
        (chosen,) = named
    (other,) = (label for label in counts if label != chosen)
    return Labels.pair(other, chosen, note)


def labels_in_files(files: Sequence[RowGroupFile], target: str, positive: Any = None) -> Labels:
    """Return the labels of a column in files.

    Without a positive label they are 0 and 1, or booleans, and no file is read. With one, the whole
    column is read, so that every process knows all labels; one of two may be absent.
    """
    if positive is None:
        return Labels.pair(
            0, 1, "labels are 0 and 1, or else name the positive one (positive=...)."
        )
    if storage_kind(files[0].types[target]) == "boolean":
        found: list[Any] = [False, True]
    else:
        found = _distinct_labels(files, target)
    named, several = _find_labels(target, found, positive, listed(found))
    if several or len(found) > 2:
        return Labels.positives_and_others(named, found)
    (chosen,) = named
    return Labels.pair(next((label for label in found if label != chosen), None), chosen)


def scores_of(series: Any) -> NDArray[np.float64]:
    """Return a column of scores as numbers, none of them missing."""
    values, bad = numbers(without_categories(series))
    values = np.asarray(values, dtype=np.float64)
    wrong = bad if bad.any() else np.isnan(values)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        found = f"{quoted(series.iloc[row])} is not a number" if bad.any() else "it is missing"
        raise TargetError(
            f"a score must be a number: in row {row + 1:,} of {str(series.name)!r} {found} "
            f"({int(wrong.sum()):,} such)."
        )
    return values


def _encode(series: Any) -> tuple[NDArray[np.intp], list[Label]]:
    """Return the index of each row's label, and the labels; none may be missing."""
    pd = need("pandas", "cli", "a table")
    series = without_categories(series)
    check_present(series, "labels", TargetError, _SKIP)
    codes, found = pd.factorize(series)
    label_of = [plain_label(value) for value in found]
    labels = list(dict.fromkeys(label_of))
    return np.array([labels.index(label) for label in label_of], dtype=np.intp)[codes], labels


def _distinct_labels(files: Sequence[RowGroupFile], target: str) -> list[Any]:
    """Return all labels of a column in files."""
    found: list[Any] = []
    spelled: set[Any] = set()
    for file in files:
        for _, batch in file.batches(range(len(file.group_rows)), [target], _BATCH_ROWS):
            for label in batch.column(0).unique().to_pylist():
                if label in spelled:
                    continue
                spelled.add(label)
                # A missing label raises an error, with its row, when the row is read.
                missing = label is None or label != label or str(label).strip() == ""
                if not missing and not any(same_label(label, other) for other in found):
                    found.append(label.strip() if isinstance(label, str) else label)
                if len(found) > _MOST_LABELS:
                    raise TargetError(
                        f"the target {target!r} holds more than {_MOST_LABELS:,} different values, "
                        f"e.g. {listed(found)}; it must be a column of classes."
                    )
    return found


def _find_labels(
    name: str, labels: Sequence[Label], positive: Any, described: str
) -> tuple[list[Label], bool]:
    """Return the labels that the user names, and whether it is a list of them."""
    several = label_list(positive)
    listed_text = isinstance(positive, str) and "," in positive
    if listed_text and not any(same_label(label, positive) for label in labels):
        several = [part.strip() for part in positive.split(",") if part.strip()] or None
    if several is None:
        return [_find_label(name, labels, positive, described)], False
    found = [_find_label(name, labels, one, described) for one in several]
    return list(dict.fromkeys(found)), True


def _find_label(name: str, labels: Sequence[Label], positive: Any, described: str) -> Label:
    """Return the label that the user names; raise TargetError if it does not occur."""
    for label in labels:
        if same_label(label, positive):
            return label
    raise TargetError(
        f"the positive label {positive!r} does not occur in {name!r}; {described} do."
        f"{did_you_mean(positive, labels)}"
    )


def _list_counts(counts: Mapping[Label, int]) -> str:
    often = sorted(counts.items(), key=lambda pair: -pair[1])
    text = ", ".join(f"{label!r} ({count:,})" for label, count in often[:_MOST_SHOWN])
    return text + (", ..." if len(often) > _MOST_SHOWN else "")
