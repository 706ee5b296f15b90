"""Plain values as JSON and back, the same to the last bit and of the same type.

What JSON knows is written as it is: Python writes floats so that reading gives the same number.
Anything else is an object with a ``"$"`` that names its type: floats that are no finite numbers,
tuples, numpy's scalars and one-dimensional arrays.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from setpoint.errors import ModelFileError

_TAG = "$"
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# Booleans, whole numbers, floats of at most 8 bytes, texts, objects.
_DTYPE = re.compile(r"\|b1|[<>|][iu][1248]|[<>]f[248]|[<>]U\d{1,6}|\|O")
_VARIABLE_TEXT = "StringDType"


class NotPlainError(Exception):
    """A value that is not made of numbers, texts and collections of them."""


def encode(value: Any) -> Any:
    """Return what ``json`` can write; raises NotPlainError for what it cannot.

    Examples
    --------
    >>> encode({"a": [1, 0.1, float("inf")], "b": None})
    {'a': [1, 0.1, {'$': 'float', 'value': 'inf'}], 'b': None}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if type(value) is list:
        return [encode(item) for item in value]
    if type(value) is tuple:
        return {_TAG: "tuple", "items": [encode(item) for item in value]}
    if type(value) is dict:
        if all(type(key) is str for key in value) and _TAG not in value:
            return {key: encode(item) for key, item in value.items()}
        pairs = [[encode(key), encode(item)] for key, item in value.items()]
        return {_TAG: "dict", "items": pairs}
    if isinstance(value, np.generic):
        return {_TAG: "scalar", "dtype": _name(value.dtype), "value": encode(value.item())}
    if type(value) is np.ndarray and value.ndim == 1:
        items = [encode(item) for item in value.tolist()]
        if value.dtype.kind == "O":
            items = [encode(item) for item in value]  # tolist() leaves them as they are, too
        return {_TAG: "array", "dtype": _name(value.dtype), "items": items}
    raise NotPlainError(f"{type(value).__module__}.{type(value).__qualname__}")


def decode(value: Any) -> Any:
    """Return the value that ``encode`` was given."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {key: decode(item) for key, item in value.items()}
    if kind == "float":
        return _NOT_FINITE[value["value"]]
    if kind == "tuple":
        return tuple(decode(item) for item in value["items"])
    if kind == "dict":
        return {decode(key): decode(item) for key, item in value["items"]}
    if kind == "scalar":
        return np.array([decode(value["value"])], dtype=_dtype(value["dtype"]))[0]
    if kind == "array":
        return _array([decode(item) for item in value["items"]], _dtype(value["dtype"]))
    raise ModelFileError(f"the model file holds a value of the unknown kind {kind!r}.")


def _array(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = np.empty(len(items), dtype=dtype)
    for index, item in enumerate(items):  # one by one, for a list in an object array stays one
        array[index] = item
    return array


def _name(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "T" and not hasattr(dtype, "na_object"):
        return _VARIABLE_TEXT
    if not _DTYPE.fullmatch(dtype.str):
        raise NotPlainError(f"numpy's {dtype}")
    return dtype.str


def _dtype(name: str) -> np.dtype[Any]:
    if name == _VARIABLE_TEXT:
        return np.dtypes.StringDType()
    if not _DTYPE.fullmatch(name):
        raise ModelFileError(f"the model file holds an array of the unknown type {name!r}.")
    return np.dtype(name)
