"""Points, certificates, histories, candidates and labels survive JSON."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setpoint import define_metric
from setpoint.certificates import Bound, Certificate, certify
from setpoint.certificates.certificate import ShiftedCertificate
from setpoint.data.labels import Labels
from setpoint.errors import ModelFileError
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import _METRICS, metric
from setpoint.saving import values as v
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History, Record

goals = st.sampled_from(
    ["max recall s.t. precision >= 0.9", "max fbeta(0.1)", "min fpr s.t. recall >= 0.1, mcc >= 0"]
).map(Goal.parse)
counts = st.floats(0, 1e300) | st.integers(0, 10**30) | st.sampled_from([0.0, 0.1, 2.0**53 + 1])
points = st.builds(
    OperatingPoint, st.floats(allow_nan=False), counts, counts, counts, counts, goals, st.text()
)
labels = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False)
    | st.integers(-9, 9).map(np.int64)
    | st.booleans().map(np.bool_)
    | st.just(np.str_("größer"))
)
maybe = st.none() | st.floats()
bounds = st.builds(
    Bound,
    st.sampled_from(["recall", "fbeta(3)", "alarm_rate"]).map(metric),
    maybe,
    st.floats(),
    maybe,
    st.sampled_from(["exact", "estimate"]),
    st.none() | st.integers(0),
    st.none() | st.integers(0),
    maybe,
)


def through_json(value):
    return json.loads(json.dumps(value, allow_nan=False))


@settings(max_examples=40)
@given(points)
def test_points(point):
    back = v.point_from_json(through_json(v.point_to_json(point)))
    assert repr(back) == repr(point)  # the same to the last digit
    assert back == point


@settings(max_examples=40)
@given(
    st.sampled_from([Certificate, ShiftedCertificate]),
    points,
    st.lists(bounds).map(tuple),
    st.floats(),
    st.none() | st.integers(0),
    labels,
)
def test_certificates(kind, point, bounds, number, tested, label):
    certificate = kind(
        point.goal, number, 0.9, True, point, bounds, "planned", tested, None, True, label
    )
    back = v.certificate_from_json(through_json(v.certificate_to_json(certificate)))
    assert repr(back) == repr(certificate)
    assert type(back) is kind
    assert type(back.pos_label) is type(label)


def test_a_real_certificate_says_the_same():
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    scores = y + rng.standard_normal(2000)
    certificate = certify(y, scores, "max recall s.t. precision >= 0.6", confidence=0.9)
    for one in (certificate, certificate.at_prevalence(0.1)):
        back = v.certificate_from_json(through_json(v.certificate_to_json(one)))
        assert back == one
        assert str(back) == str(one)
        assert back.to_dict() == one.to_dict()
    assert certificate.certified


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
def test_histories(records, flag):
    history = History(records, 3, flag, not flag)
    back = v.history_from_json(through_json(v.history_to_json(history)))
    assert repr(back) == repr(history)


@settings(max_examples=40)
@given(st.lists(points, max_size=3), st.floats())
def test_candidates(found, margin):
    given_ = Candidates(
        [Candidate(f"Nr. {i} ü", p, i, None if i else "start") for i, p in enumerate(found)],
        margin=margin,
    )
    back = v.candidates_from_json(through_json(v.candidates_to_json(given_)))
    assert back == given_
    assert repr(back.margin) == repr(margin)


@pytest.mark.parametrize(
    "classes",
    [
        np.array([0, 1]),
        np.array([-1, 1], dtype=np.int8),
        np.array([False, True]),
        np.array(["", "betrügerisch 💸"]),
        np.array(["nein", "ja"], dtype=object),
        np.array([0.1, np.inf]),
        np.array([0.1, 0.2], dtype=np.float32),
        np.array(["a", "bb"], dtype=np.dtypes.StringDType()),
        np.array([1, 2], dtype=object),
    ],
    ids=repr,
)
def test_labels_keep_their_types(classes):
    back = v.labels_from_json(through_json(v.labels_to_json(Labels(classes, 0))))
    assert back.classes.dtype == classes.dtype
    assert back.classes.tolist() == classes.tolist()
    assert type(back.positive) is type(classes[0])


def test_three_classes_are_refused():
    stored = v.labels_to_json(Labels(np.array([1, 2, 3]), 0))
    with pytest.raises(ModelFileError, match="two classes"):
        v.labels_from_json(stored)


def test_a_metric_of_ones_own_must_be_defined_in_the_same_way():
    name = "profit_in_a_test"
    define_metric(name, lambda tp, fp, P, N: (9 * tp - fp) / (9 * P), bounds=(-1e9, 1.0))
    try:
        point = OperatingPoint(0.5, 8, 2, 2, 90, Goal.parse(f"max {name}"))
        stored = through_json(v.point_to_json(point))
        assert v.point_from_json(stored) == point
        define_metric(name, lambda tp, fp, P, N: (8 * tp - fp) / (8 * P), bounds=(-1e9, 1.0))
        with pytest.raises(ModelFileError, match="defined in another way"):
            v.point_from_json(stored)
    finally:
        del _METRICS[name]
    with pytest.raises(ModelFileError, match=r"profit_in_a_test.*define_metric"):
        v.point_from_json(stored)
