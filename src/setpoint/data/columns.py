"""Columns of a record batch as numbers.

``where`` says in words which value a row of a column means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint._internal.imports import need
from setpoint.data.sampling import mix
from setpoint.data.table_files import plain_type
from setpoint.errors import SourceError

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


Units = NDArray[np.int64]
_HASHED_ROWS = 4_096  # at a time, lest long texts need much memory


def units_of(values: NDArray[Any], where: Where) -> Units:
    """Return a number for each group; ``where`` says in words which value a row means.

    Examples
    --------
    >>> import numpy as np
    >>> texts = units_of(np.array(["b", "a", "b"]), str)
    >>> bool(texts[0] == texts[2] != texts[1])
    True
    >>> units_of(np.array([3, 7], dtype=np.int8), str)
    array([3, 7])
    """
    kind = values.dtype.kind
    if kind in "mM":
        _check_given(np.isnat(values), where)
        return values.astype(np.int64)
    if kind == "f":
        return _whole(values, where)
    if kind in "biu":
        return values.astype(np.int64)
    listed = values.tolist()
    _check_given(np.array([v is None or v != v for v in listed], dtype=bool), where)
    if all(isinstance(v, str) for v in listed):
        return _texts([v.encode("utf-8", "surrogatepass") for v in listed])
    if all(isinstance(v, bytes) for v in listed):
        return _texts(listed)
    try:
        if all(isinstance(v, int | np.integer) for v in listed):
            return np.array(listed, dtype=np.int64)
    except OverflowError:
        pass
    raise SourceError(
        f"{where(0)} is {listed[0]!r}; groups are texts or whole numbers below 2^63, all of one "
        "type."
    )


def text_units(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Units:
    """Return a number for each text; ``data`` are their bytes, one text after the other."""
    ends = np.cumsum(lengths)
    found = np.empty(len(lengths), dtype=np.int64)
    for first in range(0, len(lengths), _HASHED_ROWS):
        some = slice(first, first + _HASHED_ROWS)
        own = lengths[some]
        begin, end = ends[some][0] - own[0], ends[some][-1]
        found[some] = _hashed(data[begin:end], own)
    return found


def _hashed(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Units:
    """Return sums of bytes, each times an odd number that looks like chance."""
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    factors = mix(torch.arange(int(lengths.max(initial=0)))).numpy() | 1
    terms = (data.astype(np.int64) + 1) * factors[place]  # integers wrap around
    found = np.zeros(len(lengths), dtype=np.int64)
    some = lengths > 0
    if some.any():
        found[some] = np.add.reduceat(terms, starts[some])
    return found


def _texts(encoded: list[bytes]) -> Units:
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return text_units(np.frombuffer(b"".join(encoded), dtype=np.uint8), lengths)


def _whole(values: NDArray[Any], where: Where) -> Units:
    _check_given(np.isnan(values), where)
    wrong = ~((values == np.floor(values)) & (np.abs(values) < 2.0**63))
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {values[row]}; groups are texts or whole numbers.")
    return values.astype(np.int64)


def _check_given(missing: NDArray[np.bool_], where: Where) -> None:
    if missing.any():
        raise SourceError(
            f"{where(int(missing.argmax()))} is missing; give rows without a group groups of "
            "their own, or drop them."
        )


Where = Callable[..., str]


def check_features(X: Any, name: str) -> None:
    """Refuse what is no array or tensor of numbers with a row for each first index."""
    if not (X.dtype.kind in "biuf" if isinstance(X, np.ndarray) else not X.is_complex()):
        raise SourceError(f"{name} is of type {X.dtype}; features are numbers. Encode them first.")
    if X.ndim < 2 or 0 in X.shape[1:]:
        raise SourceError(
            f"{name} has the shape {tuple(X.shape)}; it must have a row of features "
            "for each label, (n, d) or (n, ...). Use X.reshape(-1, 1) for a single feature."
        )


def as_features(X: NDArray[Any] | Tensor, where: Where, *, copy: bool = False) -> Tensor:
    """Return what a model takes: a tensor as it is, numbers of an array as float32."""
    if isinstance(X, Tensor):
        found = X.detach()
    else:
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            array = np.ascontiguousarray(X, dtype=np.float32)
        if (copy or not array.flags.writeable) and np.may_share_memory(array, X):
            array = array.copy()
        found = torch.from_numpy(array)
    check_finite(found, where)
    return found


def check_finite(X: Tensor, where: Where) -> None:
    """Refuse NaN and infinities; ``where`` gets the index of the first."""
    if not X.is_floating_point():
        return
    # A sum is several times faster than a look at each value, and needs no memory.
    total = X.sum(dtype=torch.float32 if X.dtype.itemsize < 4 else None)
    if math.isfinite(total.item()):
        return
    wrong = (~torch.isfinite(X)).nonzero()
    if len(wrong):
        index = wrong[0].tolist()
        raise SourceError(
            f"{where(*index)} is {X[tuple(index)].item()}; fill in or drop missing and infinite "
            f"values, and scale what is too large for {str(X.dtype).removeprefix('torch.')}."
        )


def as_weights(weight: NDArray[Any], where: Where) -> Tensor:
    """Return weights as float64; ``where`` gets the row of the first that is none."""
    if weight.dtype.kind not in "biuf":
        raise SourceError(f"{where(0)} is {weight[:1].tolist()[0]!r}; a weight is a number.")
    found = np.array(weight, dtype=np.float64)
    wrong = ~((found >= 0) & (found < np.inf))
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {found[row]}; a weight is a finite number >= 0.")
    return torch.from_numpy(found)


# DOC of streams._units: Groups as 64-bit numbers that are the same on every machine and in every pass.
#
# Whole numbers, booleans and dates stay the numbers that they are. Texts are hashed: two different
# ones get the same number with a probability below 2^-50, and then merely stay together.
#

# DOC of streams._values: Features and weights of one block: converted, and looked at.
#
# Every check takes ``where``, which says in words which value an index means.
#
