"""The report about several labels."""

import re

import numpy as np
import pytest

from setpoint import certify_labels, choose_thresholds
from setpoint.report.labels import LabelsReport, labels_headline
from setpoint.report.labels_page import labels_html
from setpoint.report.page import write_report
from setpoint.thresholds.multilabel import evaluate_thresholds

NAMES = ["spam", "urgent", "law"]


def rows(n=3000, seed=0, rates=(0.3, 0.2, 0.01)):
    rng = np.random.default_rng(seed)
    Y = rng.random((n, len(rates))) < rates
    return Y, rng.normal(size=Y.shape) + 2 * Y


def report(goal="max recall s.t. precision >= 0.8", names=NAMES, confidence=None, **options):
    Y, scores = rows()
    point = choose_thresholds(Y, scores, goal, names=names)
    found = None
    if confidence is not None:
        found = certify_labels(Y, scores, goal, confidence=confidence, names=names)
    return LabelsReport(point, found, **options)


def test_the_worst_label_comes_first():
    content = report("max f1")
    values = [result.point.f1 for result in content.results]
    assert values == sorted(values)
    assert "it is lowest for law" in labels_headline(content).goal


def test_numbers_of_the_page_are_those_of_the_point():
    content = report("max f1")
    page = labels_html(content)
    for name, point in zip(NAMES, content.point.points, strict=True):
        assert name in page
        assert f"{point.f1:.3f}" in page
    assert f"{content.point.macro('f1'):.3f}" in page
    assert f"{content.point.micro('f1'):.3f}" in page


def test_joint_confidence_is_explained():
    page = labels_html(report(confidence=0.9))
    assert "in at least 90 of 100 studies" in page
    assert "96.6667 %" in page  # of each of three labels
    assert "Nothing: no certificate was requested" in labels_html(report())


def test_labels_that_miss_the_goal_are_named():
    content = report("max recall s.t. precision >= 0.8, recall >= 0.9")
    assert content.missed
    assert not content.met
    sentence = labels_headline(content).goal
    assert all(result.name in sentence for result in content.missed)
    assert "should be at least" in sentence
    assert "miss the goal" in labels_html(content)


def test_a_label_without_alarms_misses_the_goal_and_has_no_marker():
    Y, scores = rows()
    point = evaluate_thresholds(
        Y, scores, [1.5, 1.5, 99.0], "max recall s.t. precision >= 0.5", names=NAMES
    )
    content = LabelsReport(point)
    sentence = labels_headline(content).goal
    assert "1 of 3 labels misses the goal: law. No alarm is raised for law" in sentence
    precision, recall = re.findall('<svg id="labels-.*?</svg>', labels_html(content), re.DOTALL)
    assert precision.count('class="mark met"') == 2
    assert ">–</text>" in precision
    assert recall.count('class="mark observed"') == 3


@pytest.mark.filterwarnings("ignore::setpoint.InfeasibleGoalWarning")
def test_a_label_without_positives_is_not_judged():
    Y, scores = rows()
    Y[:, 2] = False
    content = LabelsReport(choose_thresholds(Y, scores, "max f1 s.t. recall >= 0.5", names=NAMES))
    assert content.results[-1].name == "law"
    assert content.results[-1].met is None
    assert content.met
    assert "cannot be judged" in labels_headline(content).goal
    assert "no positives" in labels_html(content)


def test_of_many_labels_the_worst_30_are_drawn():
    Y, scores = rows(600, rates=(0.2,) * 50)
    names = [f"topic {i}" for i in range(50)]
    page = labels_html(LabelsReport(choose_thresholds(Y, scores, "max f1", names=names)))
    assert page.count('class="mark observed"') == 30 + 1  # and the legend
    assert "The other 20 labels" in page
    assert all(name in page for name in names)


def test_names_are_escaped(tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>"
    path = write_report(report("max f1", names=["spam", hostile, "law"]), tmp_path / "r.html")
    page = path.read_text("utf-8")
    assert hostile not in page
    assert "<img" not in page
