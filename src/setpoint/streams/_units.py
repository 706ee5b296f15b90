"""Groups as 64-bit numbers that are the same on every machine and in every pass.

Whole numbers, booleans and dates stay the numbers that they are. Texts are hashed: two different
ones get the same number with a probability below 2^-50, and then merely stay together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.streams._values import Where
from setpoint.streams.chance import mix
from setpoint.streams.errors import SourceError

Units = NDArray[np.int64]
_ROWS = 4_096  # at a time, lest long texts need much memory


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
    for first in range(0, len(lengths), _ROWS):
        some = slice(first, first + _ROWS)
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
