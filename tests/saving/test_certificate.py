"""Certificates survive JSON; inconsistent ones are rejected, even if all checksums match."""

import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from saved_models import forge
from saved_values import labels, points
from setpoint import SetpointClassifier, SetpointThreshold, load
from setpoint.certificates import Bound, Certificate, certify
from setpoint.certificates.certificate import ShiftedCertificate
from setpoint.errors import ModelFileError, UncertifiedWarning
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import metric
from setpoint.model_files import save
from setpoint.saving.certificate import _parsed, certificate_from_json, certificate_to_json
from setpoint.saving.values import encode

NAN = {"$": "float", "value": "nan"}
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
@given(
    st.sampled_from([Certificate, ShiftedCertificate]),
    points,
    st.lists(bounds).map(tuple),
    st.floats(),
    st.none() | st.integers(0),
    labels,
)
def test_certificates_survive_json(kind, point, bounds, number, tested, label):
    certificate = kind(
        point.goal, number, 0.9, True, point, bounds, "planned", tested, None, True, label
    )
    back = _parsed(through_json(certificate_to_json(certificate)))
    assert repr(back) == repr(certificate)
    assert type(back) is kind
    assert type(back.pos_label) is type(label)


def test_a_computed_certificate_survives_json():
    rng = np.random.default_rng(0)
    y = rng.random(2000) < 0.3
    scores = y + rng.standard_normal(2000)
    certificate = certify(y, scores, "max recall s.t. precision >= 0.6", confidence=0.9)
    for one in (certificate, certificate.at_prevalence(0.1)):
        back = certificate_from_json(through_json(certificate_to_json(one)), one.goal)
        assert back == one
        assert str(back) == str(one)
        assert back.to_dict() == one.to_dict()
    assert certificate.certified


def test_shares_of_periods_survive_json():
    rng = np.random.default_rng(0)
    y, scores, times = rng.random(2000) < 0.3, rng.standard_normal(2000), np.arange(2000) // 20
    goal = "max recall s.t. alarms <= 9 per day, alarms <= 50 per week"
    one = certify(y, scores, goal, times=times)
    values = through_json(certificate_to_json(one))
    back = certificate_from_json(values, Goal.parse(goal))
    assert back == one
    assert [period for period, _ in back.periods_within] == ["day", "week"]
    # An earlier version wrote None, or one pair.
    goal = "max recall s.t. alarms <= 9 per day"
    for own, within in ((goal, ("day", 0.9)), ("max f1 s.t. precision >= 0.1", None)):
        values = certificate_to_json(certify(y, scores, own, times=times))
        back = certificate_from_json(
            through_json({**values, "periods_within": encode(within)}), Goal.parse(own)
        )
        assert back.periods_within == (() if within is None else (within,))
    for wrong in (("day", 2.0), (("day", "0.9"),), (("fortnight", 0.9),), (("day",),), 3):
        values = certificate_to_json(certify(y, scores, goal, times=times))
        with pytest.raises(ModelFileError, match="certificate"):
            certificate_from_json(
                through_json({**values, "periods_within": encode(wrong)}), Goal.parse(goal)
            )


@pytest.fixture(scope="module", params=["classifier", "threshold"])
def certified(request, rows):
    X, y = rows
    X, y = np.concatenate([X] * 3), np.concatenate([y] * 3)  # enough to certify
    options = {"confidence": 0.8, "random_state": 0}
    goal = "max recall s.t. precision >= 0.4, fpr <= 0.6"
    if request.param == "threshold":
        model = SetpointThreshold(LogisticRegression(), goal, **options).fit(X, y)
    else:
        model = SetpointClassifier(goal, solver="cross_entropy", **options).fit(X, y)
    assert model.certificate_.certified
    return model


@pytest.fixture
def folder(certified, tmp_path):
    save(certified, tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == certified.certificate_
    return tmp_path / "model"


# Paths of fields in a certificate, and invalid values for them.
INVALID = [
    (["bounds"], []),
    (["bounds"], None),
    (["bounds", 0, "metric"], "recall"),
    (["bounds", 0, "level"], 0.1),
    (["bounds", 0, "bound"], None),
    (["bounds", 0, "bound"], 0.1),
    (["bounds", 1, "bound"], 0.9),
    (["bounds", 1, "bound"], NAN),
    (["bounds", 1, "bound"], "low"),
    (["bounds", 1, "value"], "low"),
    (["bounds", 1, "value"], None),
    (["bounds", 0, "kind"], "estimate"),
    (["bounds", 0, "kind"], "sure"),
    (["bounds", 0, "p_value"], "none"),
    (["bounds", 0, "trials"], "many"),
    *((["confidence"], value) for value in ("high", 1.0, 0, NAN, None, True)),
    (["certified"], "yes"),
    (["certified"], None),
    (["threshold"], "low"),
    (["threshold"], NAN),
    (["choice"], "mine"),
    (["tested"], "few"),
    (["tested"], 0),
    (["more_positives"], "some"),
    (["one_per_group"], None),
    (["prevalence"], 7),
    (["goal"], "max recall s.t. precision >= 0.9, fpr <= 0.6"),
]


def is_rejected(folder, original, change):
    """Return whether a model whose certificate was changed is not loaded because of it."""
    (folder / "model.json").write_bytes(original)
    forge(folder, lambda model: change(model["certificate"]))
    try:
        load(folder)
    except ModelFileError as error:
        return "the certificate of the model" in str(error)
    return False


def test_invalid_certificates_are_rejected(folder):
    original = (folder / "model.json").read_bytes()

    def set_field(path, value, certificate):
        *outer, last = path
        for key in outer:
            certificate = certificate[key]
        certificate[last] = value

    changes = {repr(field): partial(set_field, *field) for field in INVALID} | {
        "no last bound": lambda c: c["bounds"].pop(),
        "no first bound": lambda c: c["bounds"].pop(0),
        "another order": lambda c: c["bounds"].reverse(),
        "another goal": lambda c: c["operating_point"].update(
            goal="max f1", objective=0.5, violation=0.0
        ),
        "no confidence": lambda c: c.pop("confidence"),
    }
    accepted = [name for name, change in changes.items()
                if not is_rejected(folder, original, change)]  # fmt: skip
    assert accepted == []


def test_a_certificate_of_an_objective(rows, tmp_path):
    model = SetpointThreshold(LogisticRegression(), "max recall", confidence=0.8, random_state=0)
    model.fit(*rows)
    assert model.certificate_.certified
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == model.certificate_
    forge(tmp_path / "model", lambda m: m["certificate"]["bounds"][0].update(bound=None))
    with pytest.raises(ModelFileError, match="certificate"):
        load(tmp_path / "model")


def test_an_uncertified_model_needs_no_bounds(rows, tmp_path):
    goal = "max recall s.t. precision >= 0.999, mcc >= 0.1"
    model = SetpointThreshold(LogisticRegression(), goal, confidence=0.99, random_state=0)
    with pytest.warns(UncertifiedWarning):
        model.fit(*rows)
    assert not model.certificate_.certified
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == model.certificate_
    # It must not be called certified.
    forge(tmp_path / "model", lambda m: m["certificate"].update(certified=True))
    with pytest.raises(ModelFileError, match="certificate"):
        load(tmp_path / "model")
