"""Plain values survive JSON to the last bit, and of the same type."""

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from setpoint.errors import ModelFileError
from setpoint.saving.plain import NotPlainError, decode, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.builds(np.float32, st.floats(width=32))
    | st.builds(np.float64, st.floats())
    | st.builds(np.int64, st.integers(-(2**63), 2**63 - 1))
    | st.builds(np.uint8, st.integers(0, 255))
    | st.builds(np.bool_, st.booleans())
    | st.builds(np.str_, st.text(st.characters(exclude_characters="\0")))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.just("$"), inner)
        | st.dictionaries(st.integers(), inner)
    ),
    max_leaves=20,
)


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value), allow_nan=False).encode()))


def same(a, b):
    """Equal, of the same type, with the same bits; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and all(map(same, a, b))
    if isinstance(a, float | np.floating):
        a, b = float(a), float(b)
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    return bool(a == b)


@settings(max_examples=50)
@given(values)
def test_every_plain_value_comes_back(value):
    assert same(there_and_back(value), value)


@settings(max_examples=40)
@given(
    nps.arrays(
        st.sampled_from(["bool", "int8", ">i4", "uint64", "float16", ">f4", "float64", "U3"]),
        st.integers(0, 4),
    )
)
def test_arrays_keep_their_type(array):
    assert same(there_and_back(array), array)


def test_arrays_of_objects_and_of_texts_of_any_length():
    mixed = np.array(["ja", 3, np.int8(4), None, [1, 2]], dtype=object)
    assert same(there_and_back(mixed), mixed)
    texts = np.array(["", "Größe " * 50], dtype=np.dtypes.StringDType())
    assert same(there_and_back(texts), texts)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        len,
        {1, 2},
        b"bytes",
        1j,
        np.longdouble(1),
        np.datetime64("2020-01-01"),
        np.zeros((2, 2)),
        [object()],
        {"a": print},
        np.random.RandomState(0),
    ],
)
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(NotPlainError):
        encode(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$": "pickle", "value": "gASV"},
        {"$": "array", "dtype": "U999999999", "items": ["a"]},
        {"$": "array", "dtype": "V8", "items": []},
        {"$": "scalar", "dtype": "M8[D]", "value": 1},
    ],
)
def test_unknown_kinds_are_refused(value):
    with pytest.raises(ModelFileError, match="unknown"):
        decode(value)
