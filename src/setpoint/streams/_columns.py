"""Columns of a record batch as numbers.

``where`` says in words which value a row of a column means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from setpoint._extras import need
from setpoint.streams._units import Units, text_units, units_of
from setpoint.streams._values import Where
from setpoint.streams.errors import SourceError
from setpoint.tabular._arrow import plain_type

Kind = Literal["number", "boolean", "text", "time", "other"]

_ROWS = 1_024  # of all columns fit into a processor's cache


def kind_of(arrow_type: Any) -> Kind:
    """Return what a column of a plain type holds."""
    types = need("pyarrow", "cli", "reading tables").types
    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        return "number"
    if types.is_boolean(arrow_type):
        return "boolean"
    if types.is_string(arrow_type):
        return "text"
    if types.is_timestamp(arrow_type):
        return "time"
    return "other"


def given(column: Any, where: Where) -> Any:
    """Return a column in its plain type, and refuse it where values are missing."""
    plain = plain_type(column.type)
    if column.type != plain:
        column = column.cast(plain)
    if column.null_count:
        row = int(_array(column.is_null()).argmax())
        raise SourceError(f"{where(row)} is missing; fill in missing values, or drop such rows.")
    return column


def numbers(column: Any, where: Where) -> NDArray[Any]:
    """Return numbers or booleans, in the type that they have."""
    return _array(given(column, where))


def stacked(columns: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return columns side by side, as float32."""
    rows = len(columns[0])
    found = np.empty((rows, len(columns)), dtype=np.float32)
    with np.errstate(over="ignore"):  # what becomes infinite is refused later
        for start in range(0, rows, _ROWS):
            part = found[start : start + _ROWS]
            for i, column in enumerate(columns):
                part[:, i] = column[start : start + _ROWS]
    return found


def times(column: Any, where: Where) -> NDArray[np.float64]:
    """Return numbers as they are, and moments as microseconds since 1970."""
    column = given(column, where)
    if kind_of(column.type) == "time":
        column = _microseconds(column)
    found = _array(column).astype(np.float64)
    wrong = ~np.isfinite(found)
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {found[row]}; every row needs a time.")
    return found


def groups(column: Any, where: Where) -> Units:
    """Return a number for each group."""
    column = given(column, where)
    kind = kind_of(column.type)
    if kind == "text":
        pa = need("pyarrow", "cli", "reading tables")
        wide = column.cast(pa.large_string())
        _, offsets, data = wide.buffers()
        ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
        return text_units(letters, np.diff(ends))
    return units_of(_array(_microseconds(column) if kind == "time" else column), where)


def labels(
    column: Any, where: Where, is_positive: Callable[[Any], bool | None], known: str
) -> NDArray[np.bool_]:
    """Return which labels are positive.

    ``is_positive`` says None of a label that is neither; ``known`` then tells which there are.
    """
    column = given(column, where)
    coded = column.dictionary_encode()
    codes = _array(coded.indices)
    positive = []
    for code, label in enumerate(coded.dictionary.to_pylist()):
        found = is_positive(label)
        if found is None:
            row = int((codes == code).argmax())
            if label != label or str(label).strip() == "":
                raise SourceError(f"{where(row)} is missing; drop the rows without a label.")
            raise SourceError(f"{where(row)} is {label!r}; {known}")
        positive.append(found)
    return np.asarray(np.array(positive, dtype=bool)[codes])


def _microseconds(column: Any) -> Any:
    pa = need("pyarrow", "cli", "reading tables")
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())


def _array(column: Any) -> NDArray[Any]:
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found
