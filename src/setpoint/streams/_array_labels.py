"""Which of the labels in an array is the positive one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from setpoint.streams.errors import SourceError
from setpoint.tabular.errors import listed

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
