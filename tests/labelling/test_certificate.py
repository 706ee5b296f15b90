"""The certificate of a partly labelled pool: messages and plain values."""

import json

from setpoint import Goal
from setpoint.certificates import ThresholdSet
from setpoint.labelling import PoolCertificate

GOAL = Goal.parse("max recall s.t. precision >= 0.9")


def test_a_certificate_says_what_holds_and_what_is_unknown():
    found = PoolCertificate(GOAL, 0.9, ThresholdSet(((1.5, 2.5),)), 1.5, 120, 9000, 110, 110, 105)
    assert found.certified
    assert found.guarantees == GOAL.constraints
    assert found.message == (
        "Certified at 90 % confidence: precision >= 0.9 at threshold 1.5, with 120 labels of 9,000 "
        "rows. 110 rows are above it; 105 of the 110 with labels are positive. Nothing is known "
        "about recall."
    )
    assert "any of which may be used: 1.5 to 2.49999" in str(found)
    assert all(assumption in str(found) for assumption in found.assumptions)


def test_a_refusal_has_no_threshold_and_no_guarantees():
    found = PoolCertificate(
        GOAL, 0.95, ThresholdSet(), None, 30, 9000, reason="more labels are needed."
    )
    assert not found.certified
    assert found.guarantees == ()
    assert found.message == (
        "Not certified at 95 % confidence with 30 labels of 9,000 rows: more labels are needed."
    )
    fields = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert fields["threshold"] is None
    assert fields["certified_thresholds"] == []
    assert "nothing" in found._repr_html_()


def test_infinite_thresholds_are_no_numbers_of_json():
    found = PoolCertificate(GOAL, 0.9, ThresholdSet(((float("-inf"), 0.0),)), float("-inf"), 5, 5)
    json.dumps(found.to_dict(), allow_nan=False)
