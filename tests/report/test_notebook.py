"""Small tables say what the objects say."""

from html.parser import HTMLParser

import numpy as np
import pytest

from setpoint import certify, choose_threshold, evaluate_threshold
from setpoint.report import certificate_html, operating_point_html


def texts(content):
    found = []
    parser = HTMLParser()
    parser.handle_data = found.append
    parser.feed(content)
    return found


def test_an_operating_point(rows):
    point = choose_threshold(rows.y, rows.scores, "max recall s.t. precision >= 0.9")
    said = texts(operating_point_html(point))
    assert f"✓ {point.message}" in said
    for count in (point.tp, point.fp, point.fn, point.tn):
        assert f"{count:g}" in said
    assert "≥ 0.9" in said


def test_weights_and_a_missing_class_and_hostile_names(rows):
    weighted = choose_threshold(
        rows.y, rows.scores, "max f1", sample_weight=np.full(len(rows), 0.5), on="<b>mine</b>"
    )
    content = operating_point_html(weighted)
    assert "<b>mine" not in content
    assert any("<b>mine</b>" in text for text in texts(content))
    alone = evaluate_threshold([0, 0], [0.1, 0.9], 0.5, "max recall")
    assert "–" in texts(operating_point_html(alone))


@pytest.mark.parametrize("goal", ["max recall s.t. precision >= 0.8", "max f1", "max gmean"])
def test_a_certificate(rows, goal):
    certificate = certify(rows.y, rows.scores, goal, threshold=1.8)
    content = certificate_html(certificate)
    said = texts(content)
    assert any(certificate.message in text for text in said)
    assert all(assumption in said for assumption in certificate.assumptions)
    assert "color:#" not in content  # the notebook's own, light or dark


def test_a_notebook_finds_the_table_by_itself():
    certificate = certify([0, 1] * 200, list(range(400)), "max recall s.t. precision >= 0.4")
    assert certificate._repr_html_() == certificate_html(certificate)
