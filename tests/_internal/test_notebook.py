"""Notebooks show small tables with the objects' own texts, all escaped."""

from html.parser import HTMLParser

import numpy as np
import pytest

from setpoint import certify, choose_threshold, evaluate_threshold
from setpoint.training.candidates import Candidate, Candidates


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.1
    return y, np.round(rng.normal(size=3000) + 3 * y, 2)


@pytest.fixture(scope="module")
def certificate(rows):
    return certify(*rows, "max recall s.t. precision >= 0.8", threshold=2.2)


def texts(shown):
    """Return the texts of an object in a notebook."""
    found = []
    parser = HTMLParser()
    parser.handle_data = found.append
    parser.feed(shown._repr_html_())
    return found


def test_an_operating_point(rows):
    point = choose_threshold(*rows, "max recall s.t. precision >= 0.9")
    found = texts(point)
    assert f"✓ {point.message}" in found
    for count in (point.tp, point.fp, point.fn, point.tn):
        assert f"{count:g}" in found
    assert "≥ 0.9" in found


def test_texts_are_escaped_and_undefined_metrics_are_dashes(rows):
    weights = np.full(len(rows[0]), 0.5)
    point = choose_threshold(*rows, "max f1", sample_weight=weights, on="<b>mine</b>")
    assert "<b>mine" not in point._repr_html_()
    assert any("<b>mine</b>" in text for text in texts(point))
    assert "–" in texts(evaluate_threshold([0, 0], [0.1, 0.9], 0.5, "max recall"))


@pytest.mark.parametrize("goal", ["max recall s.t. precision >= 0.8", "max f1", "max gmean"])
def test_a_certificate(rows, goal):
    certificate = certify(*rows, goal, threshold=1.8)
    found = texts(certificate)
    assert any(certificate.message in text for text in found)
    assert all(assumption in found for assumption in certificate.assumptions)
    assert "color:#" not in certificate._repr_html_()  # the notebook's own, light or dark


def test_a_goal_met_without_alarms_gets_no_tick():
    point = evaluate_threshold([0, 1], [0.1, 0.2], 0.5, "max recall s.t. precision >= 0.9")
    assert point.feasible
    assert f"✗ {point.message}" in texts(point)


def test_a_verdict(rows, certificate):
    verdict = certificate.check(*rows)
    found = texts(verdict)
    assert f"✓ {verdict.message}" in found
    assert "precision" in found
    assert "≥ 0.8" in found
    bad = certificate.check([0] * 400, [9.0] * 400)
    assert f"✗ {bad.message}" in texts(bad)
    assert "2 checks" in " ".join(texts(certificate.check([], [], after=verdict)))


def test_candidates(rows):
    point = choose_threshold(*rows, "max f1", on="validation data")
    candidates = Candidates([Candidate("ordinary", point, 0), Candidate("for the goal", point, 3)])
    assert {"ordinary", "for the goal", "★ chosen"} <= set(texts(candidates))
    hostile = Candidates([Candidate("<script>", point, 0)])
    assert "<script" not in hostile._repr_html_()
    assert "✗ no candidates" in texts(Candidates())


@pytest.mark.parametrize("kind", ["operating_point", "certificate", "verdict", "candidates"])
def test_former_functions_still_work_with_a_warning(rows, certificate, kind):
    import setpoint.report

    shown = {
        "operating_point": certificate.operating_point,
        "certificate": certificate,
        "verdict": certificate.check(*rows),
        "candidates": Candidates([Candidate("ordinary", certificate.operating_point, 0)]),
    }[kind]
    with pytest.warns(DeprecationWarning, match=f"{kind}_html.x. is deprecated; use x._repr_html_"):
        function = getattr(setpoint.report, f"{kind}_html")
    assert function(shown) == shown._repr_html_()
