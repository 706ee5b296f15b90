"""Monitoring of several guarantees, by the example of review bands."""

import json
import pickle

import numpy as np
import pytest

from certificate_rows import normal
from setpoint import certify, certify_band
from setpoint.errors import SetpointError

GOAL = (
    "min review_rate s.t. precision(alarm) >= 0.8, npv(clear) >= 0.9, clear_rate >= 0.3, "
    "review_rate <= 0.5"
)


@pytest.fixture(scope="module")
def certificate():
    found = certify_band(*normal(0, n=3000), GOAL, low=0.5, high=2.2)
    assert found.certified
    return found


def test_parts_are_plain_verdicts(certificate):
    y, scores = normal(1)
    verdict = certificate.check(y, scores, level=0.04)
    alarm = certify(*normal(0, n=3000), "max recall s.t. precision >= 0.8", threshold=2.2)
    assert verdict.evidence[:1] == alarm.check(y, scores, level=0.01).evidence
    clear = certify(*normal(0, n=3000), "max f1 s.t. npv >= 0.9, alarm_rate <= 0.7", threshold=0.5)
    assert verdict.evidence[1:3] == clear.check(y, scores, level=0.02).evidence
    inside = ((scores > 0.5) & (scores <= 2.2)).sum()
    assert verdict.draws(certificate.guarantees[3]) == (inside, len(y))
    assert {part.alarm_at for part in verdict.parts} == {4 / 0.04}
    assert not verdict.broken
    assert verdict.message.startswith("Consistent with the certificate so far: precision(alarm) is")
    assert "; 1 - clear_rate is" in verdict.message
    assert "; review_rate is" in verdict.message


def test_checks_continue(certificate):
    y, scores = normal(2, n=900)
    first = certificate.check(y[:400], scores[:400])
    second = certificate.check(y[400:], scores[400:], after=first)
    third = certificate.check([], [], after=second)
    assert (first.checks, second.checks, third.checks) == (1, 2, 3)
    assert third.evidence == second.evidence
    for part in second.parts:
        assert sum(part.operating_point.counts[2:]) == 900


def test_a_change_is_found(certificate):
    y, scores = normal(3, n=2000)
    wrong = y & (np.arange(2000) % 2 == 0)  # half of the positives are not
    verdict = certificate.check(wrong, scores)
    assert verdict.broken
    assert [str(c) for c in verdict.contradicted] == ["precision(alarm) >= 0.8"]
    assert verdict.message.startswith("BROKEN: precision(alarm) is")
    later = certificate.check(*normal(4), after=verdict)
    assert later.broken
    moved = certificate.check(y, np.full(2000, 1.0))
    assert {str(c.metric) for c in moved.contradicted} == {"clear_rate", "review_rate"}
    certificate.check(y, scores + 0.1)


def test_false_alarms_are_rare():
    """Reviews at exactly their limit, checked after each batch."""
    goal = "min review_rate s.t. review_rate <= 0.4"
    rng = np.random.default_rng(5)
    certified = certify_band(
        rng.random(4000) < 0.5, rng.random(4000), goal, low=0.4, high=0.7, confidence=0.9
    )
    assert certified.certified
    broken = 0
    for _ in range(300):
        verdict = None
        for _ in range(5):
            y, scores = rng.random(60) < 0.5, rng.random(60) * 0.75  # 0.3 of 0.75 is 0.4
            verdict = certified.check(y, scores, after=verdict, level=0.2)
        broken += verdict.broken
    assert broken / 300 <= 0.2


def test_labels_groups_and_pending_rows(certificate):
    y, scores = normal(6, n=400)
    named = np.where(y, "bad", "good")
    plain = certificate.check(y, scores)
    assert certificate.check(named, scores, pos_label="bad").evidence == plain.evidence
    matured = np.arange(400) < 300
    part = certificate.check(y, scores, matured=matured)
    assert part.pending == 100
    assert "(100 cases are pending)" in part.message
    assert part.evidence == certificate.check(y[:300], scores[:300]).evidence
    grouped = certify_band(*normal(0, n=3000), GOAL, low=0.5, high=2.2, groups=np.arange(3000))
    with pytest.raises(SetpointError, match="one case of each group"):
        grouped.check(y, scores)
    pairs = grouped.check(y, scores, groups=np.arange(400) // 2)
    assert sum(pairs.parts[0].operating_point.counts[2:]) == 200


def test_errors(certificate):
    y, scores = normal(7, n=50)
    verdict = certificate.check(y, scores)
    other = certify_band(*normal(0, n=3000), GOAL, low=0.4, high=2.2)
    for arguments, message in (
        ({"level": 2}, "level must lie"),
        ({"level": 0.01, "after": verdict}, "earlier checks had the level 0.05"),
        ({"pos_label": None, "y": named(y)}, "pass pos_label"),
        ({"scores": scores[:3]}, "one entry per sample"),
    ):
        with pytest.raises(SetpointError, match=message):
            certificate.check(**{"y": y, "scores": scores} | arguments)
    with pytest.raises(SetpointError, match="belongs to another certificate"):
        other.check(y, scores, after=verdict)
    less = certify_band(*normal(0, n=3000), GOAL.split(", clear_rate")[0], low=0.5, high=2.2)
    with pytest.raises(SetpointError, match="belongs to another certificate"):
        less.check(y, scores, after=verdict)
    refused = certify_band(y, scores, GOAL)
    with pytest.raises(SetpointError, match="nothing was certified"):
        refused.check(y, scores)


def named(y):
    return np.where(y, "bad", "good")


def test_text_notebook_and_json(certificate):
    y, scores = normal(8)
    verdict = certificate.check(y, scores)
    assert str(verdict) == verdict.message
    values = verdict.to_dict()
    assert json.loads(json.dumps(values)) == values
    html = verdict._repr_html_()
    for text in ("npv(clear)", "clear_rate", "review_rate", "≤ 0.5", "1 check;"):
        assert text in html
    assert pickle.loads(pickle.dumps(verdict)) == verdict
