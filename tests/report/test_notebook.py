"""Small tables say what the objects say."""

from html.parser import HTMLParser

import numpy as np
import pytest
from setpoint.report.notebook import classifier_html

from setpoint import certify, choose_threshold, evaluate_threshold
from setpoint.report import candidates_html, certificate_html, operating_point_html, verdict_html
from setpoint.training.candidates import Candidate, Candidates


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
    point = certificate.operating_point
    assert point._repr_html_() == operating_point_html(point)


def test_a_promise_that_is_kept_by_raising_no_alarm_gets_no_tick():
    point = evaluate_threshold([0, 1], [0.1, 0.2], 0.5, "max recall s.t. precision >= 0.9")
    assert point.feasible
    assert f"✗ {point.message}" in texts(operating_point_html(point))


class Decides:
    """What both estimators have after a fit."""

    def __init__(self, point, classes, positive, certificate=None):
        self.operating_point_, self.certificate_ = point, certificate
        self.classes_, self.pos_label_ = np.array(classes), positive


@pytest.mark.parametrize(
    ("classes", "positive", "heads"),
    [
        ([0, 1], np.int64(0), ("positive: 0", "negative: 1")),
        ([False, True], np.True_, ("positive: True", "negative: False")),
        (["fine", "fraud"], "fraud", ("positive: fraud", "negative: fine")),
        (["<script>", "x" * 99], "<script>", ("positive: <script>", f"negative: {'x' * 39}…")),
    ],
)
def test_classes_are_called_by_their_labels(rows, classes, positive, heads):
    point = choose_threshold(rows.y, rows.scores, "max f1")
    content = classifier_html(Decides(point, classes, positive))
    said = texts(content)
    # The order of the counts is that of a confusion matrix: the positive class first.
    at = [said.index(text) for text in (heads[0], f"{point.tp:g}", heads[1], f"{point.tn:g}")]
    assert at == sorted(at)
    assert "<script" not in content


def test_a_classifier_shows_its_certificate_if_it_has_one(rows):
    certificate = certify(rows.y, rows.scores, "max f1", threshold=1.8)
    without = Decides(certificate.operating_point, [0, 1], 1)
    with_it = Decides(certificate.operating_point, [0, 1], 1, certificate)
    assert classifier_html(with_it) == classifier_html(without) + certificate_html(certificate)
    assert classifier_html(object()) == ""


def test_a_verdict(certified):
    verdict = certified.compared
    said = texts(verdict_html(verdict))
    assert f"✓ {verdict.message}" in said
    assert "precision" in said
    assert "≥ 0.8" in said
    assert verdict._repr_html_() == verdict_html(verdict)
    bad = certified.certificate.check([0] * 400, [9.0] * 400)
    assert f"✗ {bad.message}" in texts(verdict_html(bad))
    assert "2 looks" in " ".join(
        texts(verdict_html(certified.certificate.check([], [], after=verdict)))
    )


def test_candidates(candidates):
    content = candidates_html(candidates)
    said = texts(content)
    assert {"ordinary", "for the goal", "★ taken"} <= set(said)
    assert candidates._repr_html_() == content
    hostile = Candidates([Candidate("<script>", candidates[0].point, 0)])
    assert "<script" not in candidates_html(hostile)
    assert candidates_html(Candidates()) == "<p>no candidates</p>"
