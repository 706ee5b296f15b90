"""Whole numbers that are ordered as scores are, so that scores can be counted without a sort.

The bits of a positive float, read as a whole number, rise with it; those of a negative one fall.
With the sign bit of the positive ones set and all bits of the negative ones flipped, the numbers
have the order of the floats. Their upper 16 bits part the scores into 65,536 buckets, each of
them a range of scores, and finer the nearer to 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError

Keys = NDArray[np.unsignedinteger[Any]]
Scores = NDArray[np.floating[Any]]

_SIGNED: dict[str, Any] = {"float16": np.int16, "float32": np.int32, "float64": np.int64}
_FLOAT: dict[str, Any] = {"uint16": np.float16, "uint32": np.float32, "uint64": np.float64}


def to_keys(scores: Scores) -> Keys:
    """Return an unsigned number for each score, as wide as the score and in the same order.

    ``key(a) < key(b)`` exactly where ``a < b``; -0.0 and 0.0 have one key. Infinities are scores
    like others.

    Parameters
    ----------
    scores : ndarray of float16, float32 or float64
        None of them NaN, which has no place in an order.

    Examples
    --------
    >>> import numpy as np
    >>> keys = to_keys(np.array([-np.inf, -1.5, -0.0, 0.0, 1e-45, 2.0], dtype=np.float32))
    >>> bool((np.diff(keys.astype(np.int64)) > 0).all()), bool(keys[2] == keys[3])
    (False, True)
    """
    scores = np.asarray(scores)
    if scores.dtype.name not in _SIGNED:
        raise SetpointError(f"scores must be float16, float32 or float64, not {scores.dtype}.")
    if np.isnan(scores).any():
        raise SetpointError(f"{int(np.isnan(scores).sum())} of {scores.size} scores are NaN.")
    kind = _SIGNED[scores.dtype.name]
    bits = np.asarray(scores + scores.dtype.type(0)).view(kind)  # -0.0 + 0.0 is 0.0
    flip = bits >> (8 * bits.itemsize - 1)  # all bits of negative numbers, none of others
    flip |= np.iinfo(kind).min
    flip ^= bits
    return np.asarray(flip.view(f"uint{8 * flip.itemsize}"))


def from_keys(keys: Keys) -> Scores:
    """Return the scores that have these keys; uint32 gives float32, uint64 gives float64.

    Examples
    --------
    >>> import numpy as np
    >>> from_keys(to_keys(np.array([-2.5, 0.0, np.inf])))
    array([-2.5,  0. ,  inf])
    """
    keys = np.asarray(keys)
    if keys.dtype.name not in _FLOAT:
        raise SetpointError(f"keys must be uint16, uint32 or uint64, not {keys.dtype}.")
    sign = keys.dtype.type(1 << (8 * keys.itemsize - 1))
    bits = np.where(keys >= sign, keys ^ sign, ~keys)
    return np.asarray(bits).view(_FLOAT[keys.dtype.name])


def largest_below(key: int) -> float:
    """Return the largest float32 whose key is smaller: ``score > it`` where the key is reached.

    The number just before the key of 0 would be that of -0.0, which is not below 0; there it is
    the negative float next to 0.
    """
    before = key - 2 if key == 1 << 31 else key - 1
    return float(from_keys(np.array(before, dtype=np.uint32)))
