"""Several columns of labels: a matrix with a column for each target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from setpoint._internal.validation import did_you_mean, label_list, listed
from setpoint.data.label_columns import label_counts, labels_of_counts, positive_rows
from setpoint.data.labels import OBVIOUS, Label, Labels, Mask, likely_positive, same_label
from setpoint.data.values import is_present, without_categories
from setpoint.errors import TargetError

Counts = dict[Label, int]


class Targets(NamedTuple):
    """Several columns of labels.

    Attributes
    ----------
    Y : ndarray of bool, shape (n, L)
        True where a row has the positive label of a column.
    labels : tuple of Labels
        The labels of each column.
    notes : tuple of str
        How positive labels were chosen, unless they were named or are 1 or True.
    """

    Y: Mask
    labels: tuple[Labels, ...]
    notes: tuple[str, ...]


def read_targets(frame: Any, names: Sequence[str], positive: Any = None) -> Targets:
    """Return which rows are positive in each of several label columns.

    Parameters
    ----------
    frame : DataFrame
        The columns of labels, none missing.
    names : sequence of str
        Their names.
    positive : optional
        The positive label of all columns, or several; see :func:`read_target`. If all columns hold
        the same two texts, the one that is likely in all of them together is positive by default. A
        column with one value, other than the positive label, has no positives.

    Examples
    --------
    >>> import pandas as pd
    >>> found = read_targets(pd.DataFrame({"spam": [1, 0], "urgent": [0, 0]}), ["spam", "urgent"])
    >>> found.Y.tolist()
    [[True, False], [False, False]]
    """
    _check_present(frame, names)
    counts = {name: label_counts(frame[name]) for name in names}
    pooled: Counter[Label] = Counter()
    for found in counts.values():
        pooled.update(found)
    named, notes = _named(positive, pooled), []
    if positive is None and len(pooled) == 2 and set(pooled) not in OBVIOUS:
        chosen = likely_positive(pooled, pooled)
        named = [chosen]
        notes.append(
            f"{chosen!r} is taken as the positive label of all {len(names)} targets "
            f"({pooled[chosen] / pooled.total():.1%} of their values); pass --positive (positive=) "
            "to choose the other one."
        )
    labels = [_labels(name, counts[name], pooled, positive, named) for name in names]
    columns = [positive_rows(frame[n], own) for n, own in zip(names, labels, strict=True)]
    Y = np.column_stack(columns)
    if not (Y.any(axis=0) & ~Y.all(axis=0)).any():
        raise TargetError(
            f"each of the targets {listed(names)} holds one class only; at least one target needs "
            "positive and negative rows."
        )
    notes += [each.note for each in labels if each.note]
    return Targets(Y, tuple(labels), tuple(dict.fromkeys(notes)))


def indicators(frame: Any, names: Sequence[str], labels: Sequence[Labels]) -> Mask:
    """Return the matrix of labels of other rows, given the labels of each column."""
    if missing := [name for name in names if name not in frame.columns]:
        raise TargetError(
            f"there is no column {missing[0]!r} with the labels; the table has "
            f"{listed(frame.columns)}.{did_you_mean(missing[0], list(frame.columns))}"
        )
    _check_present(frame, names)
    found = [positive_rows(frame[n], own) for n, own in zip(names, labels, strict=True)]
    return np.column_stack(found)


def _check_present(frame: Any, names: Sequence[str]) -> None:
    """Raise TargetError if some rows lack a label; the message names every such column."""
    found = []
    for name in names:
        missing = ~np.asarray(is_present(without_categories(frame[name])))
        if missing.any():
            count, first = int(missing.sum()), int(missing.argmax()) + 1
            found.append(f"{count:,} in {name!r}, the first in row {first:,}")
    if found:
        shown = "; ".join(found[:4]) + (f"; and {len(found) - 4} more" if len(found) > 4 else "")
        raise TargetError(
            f"labels are missing ({len(frame):,} rows): {shown}. Every row needs all of its "
            f"{len(names)} labels: write the negative label where a row is known not to have one, "
            "and drop rows for which it is not known (--skip-unlabelled)."
        )


def _named(positive: Any, pooled: Counter[Label]) -> list[Any] | None:
    """Return the positive labels that the user names, as a list; None if there are none."""
    if positive is None:
        return None
    if (several := label_list(positive)) is not None:
        return several
    split = isinstance(positive, str) and "," in positive
    if split and not any(same_label(label, positive) for label in pooled):
        return [part.strip() for part in positive.split(",") if part.strip()]
    return [positive]


def _labels(
    name: str, counts: Counts, pooled: Counter[Label], positive: Any, named: list[Any] | None
) -> Labels:
    """Return the labels of a column."""
    if len(counts) == 1:
        return _labels_of_one(name, next(iter(counts)), pooled, named)
    if named is None:
        return labels_of_counts(name, counts)
    occurs = [label for label in counts if any(same_label(label, p) for p in named)]
    if not occurs or len(named) == 1:
        return labels_of_counts(name, counts, named[0] if len(named) == 1 else positive)
    if len(occurs) == len(counts):
        raise TargetError(
            f"all labels of {name!r} are named as positive ({listed(counts)}); leave the column "
            "out, or name fewer."
        )
    return Labels.positives_and_others(named, counts)


def _labels_of_one(
    name: str, only: Label, pooled: Counter[Label], named: list[Any] | None
) -> Labels:
    """Return the labels of a column that holds one value."""
    if named is not None:
        if any(same_label(only, label) for label in named):
            return Labels.positives_and_others(named, [only])
        occurs = [label for label in pooled if any(same_label(label, p) for p in named)]
        if len(named) > 1:
            return Labels.positives_and_others(named, [only])
        return Labels.pair(only, occurs[0] if occurs else named[0])
    if isinstance(only, bool):
        return Labels.pair(False, True)
    for both in OBVIOUS:
        if only in both and not isinstance(only, str):
            return Labels.pair(min(both), 1)
    raise TargetError(
        f"the target {name!r} holds only {only!r}, and it is not clear whether that is the "
        "positive label: name the positive one with --positive (positive=), or leave the column "
        "out."
    )
