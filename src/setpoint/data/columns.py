"""Columns of record batches as numbers: features, labels, weights, groups and times.

Each function takes ``where``, which describes the value in a given row of the column, for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint._internal.imports import OptionalModule
from setpoint.data.file_formats import storage_kind, to_canonical_type
from setpoint.data.labels import Label, Labels
from setpoint.data.rows import Block, Where, as_weights
from setpoint.data.sampling import mix
from setpoint.data.table_reader import Piece
from setpoint.errors import SetpointError, SourceError

pa = OptionalModule("pyarrow", "cli", "reading tables")

Units = NDArray[np.int64]

_ROWS = 1_024  # of all columns fit into a processor's cache
_HASHED_ROWS = 4_096  # at a time, since long texts need much memory
_USABLE = {
    "weight": ("number", "boolean"),
    "group": ("number", "boolean", "text", "time"),
    "time": ("number", "time"),
}


@dataclass(frozen=True)
class Roles:
    """The columns that hold labels, groups, times and weights, and the two labels.

    Checkpoints of streamed tables hold a digest of ``repr``.
    """

    target: str
    group: str | None = None
    time: str | None = None
    negative: Label | None = False
    positive: Label = True
    weight: str | None = field(default=None, repr=False)
    label_note: str = field(default="", repr=False)  # which labels are expected, for errors

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        names = (self.target, self.weight, self.group, self.time)
        return list(dict.fromkeys(name for name in names if name is not None))

    def check(self, types: Mapping[str, Any], error: type[SetpointError]) -> None:
        """Raise an error if a column's Arrow type does not suit its role."""
        for role, usable in _USABLE.items():
            name = getattr(self, role)
            if name is not None and storage_kind(types[name]) not in usable:
                raise error(
                    f"{name!r} cannot be the {role}: it is of type {types[name]}, and must be one "
                    f"of these: {', '.join(usable)}."
                )

    def times(self, piece: Piece) -> Tensor | None:
        """Return the time of each row as a number."""
        return None if self.time is None else torch.from_numpy(piece.read(self.time, times))

    def block(self, piece: Piece, X: Tensor | None = None) -> Block:
        """Return labelled rows with these features, by default none."""
        known = self.label_note or f"the labels are {self.negative!r} and {self.positive!r}."
        match = Labels.pair(self.negative, self.positive).match
        weight = torch.ones(len(piece), dtype=torch.float64)
        if self.weight is not None:
            weight = as_weights(piece.read(self.weight, numbers), partial(piece.where, self.weight))
        number = torch.arange(piece.number, piece.number + len(piece))
        return Block(
            torch.empty(len(piece), 0) if X is None else X,
            torch.from_numpy(piece.read(self.target, labels, match, known)),
            weight,
            number,
            number if self.group is None else torch.from_numpy(piece.read(self.group, groups)),
            self.times(piece),
        )


def numbers(column: Any, where: Where) -> NDArray[Any]:
    """Return numbers or booleans, in their own type."""
    return _array(_present(column, where))


def stacked(columns: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Return columns side by side, as float32."""
    rows = len(columns[0])
    found = np.empty((rows, len(columns)), dtype=np.float32)
    with np.errstate(over="ignore"):  # infinite values raise an error later
        for start in range(0, rows, _ROWS):
            part = found[start : start + _ROWS]
            for i, column in enumerate(columns):
                part[:, i] = column[start : start + _ROWS]
    return found


def times(column: Any, where: Where) -> NDArray[np.float64]:
    """Return numbers as they are, and times as microseconds since 1970."""
    column = _present(column, where)
    if storage_kind(column.type) == "time":
        column = _microseconds(column)
    found = _array(column).astype(np.float64)
    wrong = ~np.isfinite(found)
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {found[row]}; every row needs a time.")
    return found


def groups(column: Any, where: Where) -> Units:
    """Return an integer for each row that identifies its group."""
    column = _present(column, where)
    kind = storage_kind(column.type)
    if kind == "text":
        wide = column.cast(pa.large_string())
        _, offsets, data = wide.buffers()
        ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
        letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
        return _text_units(letters, np.diff(ends))
    return units_of(_array(_microseconds(column) if kind == "time" else column), where)


def labels(
    column: Any, where: Where, is_positive: Callable[[Any], bool | None], known: str
) -> NDArray[np.bool_]:
    """Return which labels are positive.

    ``is_positive`` returns None for a label that is neither; ``known`` then describes those that
    are expected.
    """
    coded = _present(column, where).dictionary_encode()
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


def units_of(values: NDArray[Any], where: Where) -> Units:
    """Return an integer for each row that identifies its group, on every machine and in every pass.

    Integers, booleans and dates keep their values. Texts are hashed: two different ones get the
    same integer with a probability below 2^-50, and then merely stay in the same split.

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
        _check_groups(np.isnat(values), where)
        return values.astype(np.int64)
    if kind == "f":
        _check_groups(np.isnan(values), where)
        wrong = ~((values == np.floor(values)) & (np.abs(values) < 2.0**63))
        if wrong.any():
            row = int(wrong.argmax())
            raise SourceError(f"{where(row)} is {values[row]}; groups are texts or integers.")
        return values.astype(np.int64)
    if kind in "biu":
        return values.astype(np.int64)
    listed = values.tolist()
    _check_groups(np.array([v is None or v != v for v in listed], dtype=bool), where)
    if all(isinstance(v, str) for v in listed):
        listed = [v.encode("utf-8", "surrogatepass") for v in listed]
    if all(isinstance(v, bytes) for v in listed):
        lengths = np.fromiter(map(len, listed), dtype=np.int64, count=len(listed))
        return _text_units(np.frombuffer(b"".join(listed), dtype=np.uint8), lengths)
    try:
        if all(isinstance(v, int | np.integer) for v in listed):
            return np.array(listed, dtype=np.int64)
    except OverflowError:
        pass
    raise SourceError(
        f"{where(0)} is {listed[0]!r}; groups are texts or integers below 2^63, all of one type."
    )


def _text_units(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Units:
    """Return a hash of each text; ``data`` holds their bytes, one text after the other."""
    ends = np.cumsum(lengths)
    found = np.empty(len(lengths), dtype=np.int64)
    for first in range(0, len(lengths), _HASHED_ROWS):
        some = slice(first, first + _HASHED_ROWS)
        begin, end = ends[some][0] - lengths[first], ends[some][-1]
        found[some] = _hashed(data[begin:end], lengths[some])
    return found


def _hashed(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Units:
    """Return sums of bytes, each times a pseudorandom odd factor."""
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    factors = mix(torch.arange(int(lengths.max(initial=0)))).numpy() | 1
    terms = (data.astype(np.int64) + 1) * factors[place]  # integers wrap around
    found = np.zeros(len(lengths), dtype=np.int64)
    some = lengths > 0
    if some.any():
        found[some] = np.add.reduceat(terms, starts[some])
    return found


def _present(column: Any, where: Where) -> Any:
    """Return a column in its canonical type; raise SourceError if values are missing."""
    column = to_canonical_type(column)
    if column.null_count:
        row = int(_array(column.is_null()).argmax())
        raise SourceError(f"{where(row)} is missing; fill in missing values, or drop such rows.")
    return column


def _check_groups(missing: NDArray[np.bool_], where: Where) -> None:
    if missing.any():
        raise SourceError(
            f"{where(int(missing.argmax()))} is missing; assign rows without a group to groups of "
            "their own, or drop them."
        )


def _microseconds(column: Any) -> Any:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())


def _array(column: Any) -> NDArray[Any]:
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found
