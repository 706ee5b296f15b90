"""Plain values, points, histories, candidates and labels survive JSON bit for bit."""

import json
import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from saved_values import points
from setpoint import define_metric
from setpoint.data.labels import Labels
from setpoint.errors import ModelFileError
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import _METRICS
from setpoint.saving import values as v
from setpoint.saving.values import NotPlainError, decode, encode
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History, Record

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
plain_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=3)
        | st.dictionaries(st.text() | st.just("$"), inner)
        | st.dictionaries(st.integers(), inner)
    ),
    max_leaves=20,
)


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


def round_trip(value):
    return decode(through_json(encode(value)))


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
@given(plain_values)
def test_plain_values_survive_json(value):
    assert same(round_trip(value), value)


@settings(max_examples=40)
@given(
    nps.arrays(
        st.sampled_from(["bool", "int8", ">i4", "uint64", "float16", ">f4", "float64", "U3"]),
        st.integers(0, 4),
    )
)
def test_arrays_keep_their_type(array):
    assert same(round_trip(array), array)


def test_arrays_of_objects_and_of_variable_length_strings():
    mixed = np.array(["ja", 3, np.int8(4), None, [1, 2]], dtype=object)
    assert same(round_trip(mixed), mixed)
    texts = np.array(["", "Größe " * 50], dtype=np.dtypes.StringDType())
    assert same(round_trip(texts), texts)


def test_other_values_are_rejected():
    for value in (
        object(), len, {1, b"2"}, b"bytes", 1j, np.longdouble(1), np.datetime64("2020-01-01"),
        np.zeros((2, 2)), [object()], {"a": print}, np.random.RandomState(0),
    ):  # fmt: skip
        with pytest.raises(NotPlainError):
            encode(value)


def test_unknown_kinds_are_rejected():
    for value in (
        {"$": "pickle", "value": "gASV"},
        {"$": "array", "dtype": "U999999999", "items": ["a"]},
        {"$": "array", "dtype": "V8", "items": []},
        {"$": "scalar", "dtype": "M8[D]", "value": 1},
    ):
        with pytest.raises(ModelFileError, match="unknown"):
            decode(value)


@settings(max_examples=40)
@given(points)
def test_points_survive_json(point):
    back = v.point_from_json(through_json(v.point_to_json(point)))
    assert repr(back) == repr(point)  # the same to the last digit
    assert back == point


@settings(max_examples=40)
@given(
    st.lists(
        st.builds(
            Record,
            st.integers(0),
            st.floats(),
            st.floats(),
            st.booleans(),
            st.floats(),
            st.floats(),
            st.floats() | st.floats(width=32).map(np.float32),
            st.dictionaries(st.text(), st.floats()),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_histories_survive_json(records, flag):
    history = History(records, 3, flag, not flag)
    back = v.history_from_json(through_json(v.history_to_json(history)))
    assert repr(back) == repr(history)


@settings(max_examples=40)
@given(st.lists(st.tuples(points, st.none() | st.floats()), max_size=3), st.floats())
def test_candidates_survive_json(found, margin):
    given_ = Candidates(
        [
            Candidate(f"Nr. {i} ü", p, i, None if i else "start", average)
            for i, (p, average) in enumerate(found)
        ],
        margin=margin,
    )
    back = v.candidates_from_json(through_json(v.candidates_to_json(given_)))
    assert repr([c.average for c in back]) == repr([c.average for c in given_])  # NaN too
    plain = [Candidates([replace(c, average=None) for c in cs]) for cs in (back, given_)]
    assert plain[0] == plain[1]
    assert repr(back.margin) == repr(margin)


@settings(max_examples=10)
@given(st.lists(points, max_size=3))
def test_candidates_of_an_earlier_version_have_no_average(found):
    given_ = Candidates([Candidate(f"Nr. {i}", p, i, None, 0.5) for i, p in enumerate(found)])
    stored = through_json(v.candidates_to_json(given_))
    for one in stored["candidates"]:
        del one["average"]
    back = v.candidates_from_json(stored)
    assert list(back) == [replace(c, average=None) for c in given_]


def test_labels_keep_their_types():
    for classes in (
        np.array([0, 1]),
        np.array([-1, 1], dtype=np.int8),
        np.array([False, True]),
        np.array(["", "betrügerisch 💸"]),
        np.array(["nein", "ja"], dtype=object),
        np.array([0.1, np.inf]),
        np.array([0.1, 0.2], dtype=np.float32),
        np.array(["a", "bb"], dtype=np.dtypes.StringDType()),
        np.array([1, 2], dtype=object),
    ):
        back = v.labels_from_json(through_json(v.labels_to_json(Labels(classes, 0))))
        assert back.classes.dtype == classes.dtype
        assert back.classes.tolist() == classes.tolist()
        assert type(back.positive) is type(classes[0])


def test_three_classes_are_rejected():
    stored = v.labels_to_json(Labels(np.array([1, 2, 3]), 0))
    with pytest.raises(ModelFileError, match="two classes"):
        v.labels_from_json(stored)


def test_a_custom_metric_must_be_defined_in_the_same_way():
    name = "profit_in_a_test"
    define_metric(name, lambda tp, fp, P, N: (9 * tp - fp) / (9 * P), bounds=(-1e9, 1.0))
    try:
        point = OperatingPoint(0.5, 8, 2, 2, 90, Goal.parse(f"max {name}"))
        stored = through_json(v.point_to_json(point))
        assert v.point_from_json(stored) == point
        define_metric(name, lambda tp, fp, P, N: (8 * tp - fp) / (8 * P), bounds=(-1e9, 1.0))
        with pytest.raises(ModelFileError, match="defined differently"):
            v.point_from_json(stored)
    finally:
        del _METRICS[name]
    with pytest.raises(ModelFileError, match=r"profit_in_a_test.*define_metric"):
        v.point_from_json(stored)
