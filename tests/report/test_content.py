"""Reports refuse what they could not tell the truth about."""

from dataclasses import replace

import numpy as np
import pytest

from setpoint import SetpointError, choose_threshold
from setpoint.report import Baseline, Costs, Report, Rows

Y, SCORES = np.array([True, False, True]), np.array([0.9, 0.1, 0.4])


@pytest.mark.parametrize(
    ("y", "scores", "says"),
    [
        ([], [], "there are no samples"),
        ([True, True], [0.1, 0.2], "there are no negative rows in the test data"),
        ([False, False], [0.1, 0.2], "there are no positive rows in the test data"),
        ([True, False], [0.1, np.nan], "1 of 2 scores are NaN, the first at position 1"),
        ([True, False], [0.1], "one entry per sample"),
        ([True, False], ["a", "b"], "scores must be numbers"),
        (["yes", "no"], [0.1, 0.2], "pos_label"),
    ],
)
def test_rows_of_which_nothing_can_be_said_are_refused(y, scores, says):
    with pytest.raises(SetpointError, match=says):
        Rows(np.array(y), np.array(scores), "the test data")


def test_labels_of_other_kinds_become_booleans():
    assert Rows(np.array([0, 1, -1 + 1]), SCORES).y.tolist() == [False, True, False]
    assert Rows(np.array([-1, 1, 1]), SCORES).y.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("scores", "threshold", "says"),
    [
        (np.ones(2), 0.5, r"shape \(2,\), but the report is about 3 rows"),
        (np.ones((3, 1)), 0.5, r"shape \(3, 1\)"),
        (np.array([1, np.nan, 2]), 0.5, "1 scores of the baseline 'rules' are NaN"),
        (np.array(["a", "b", "c"]), 0.5, "no numbers"),
        (np.ones(3), np.nan, "the threshold of the baseline 'rules' is NaN"),
    ],
)
def test_a_baseline_must_have_scored_the_same_rows(scores, threshold, says):
    with pytest.raises(SetpointError, match=says):
        Report("max f1", Rows(Y, SCORES), 0.5, baseline=Baseline("rules", scores, threshold))


def test_a_threshold_that_is_no_number_and_notes_that_are_one_text_are_refused():
    with pytest.raises(SetpointError, match="the threshold is NaN"):
        Report("max f1", Rows(Y, SCORES), np.nan)
    with pytest.raises(SetpointError, match="tuple of sentences"):
        Report("max f1", Rows(Y, SCORES), 0.5, notes="beware")


def test_a_certificate_for_something_else_is_refused(certified):
    with pytest.raises(SetpointError, match="it promises nothing there"):
        replace(certified, threshold=certified.threshold + 0.1)
    with pytest.raises(SetpointError, match="the certificate is for the goal"):
        replace(certified, goal="max recall s.t. precision >= 0.7")


@pytest.mark.parametrize(
    ("costs", "says"),
    [((-1, 2), "'alarm' must not be negative"), ((1, np.inf), "'miss' must be a finite number")],
)
def test_costs_must_be_amounts(costs, says):
    with pytest.raises(SetpointError, match=says):
        Costs(*costs)


def test_costs_add_up(counted):
    point = counted(7, 5, 3, 85).point
    assert Costs(2, 100, -10).total(point) == 2 * 12 + 100 * 3 - 10 * 7


def test_points_of_model_and_baseline_are_those_of_the_library(rows):
    point = choose_threshold(rows.y, rows.scores, "max f1")
    report = Report("max f1", rows, point.threshold, baseline=Baseline("b", -rows.scores, 0.0))
    assert report.point.counts == point.counts
    assert report.baseline_point.tp == (rows.y & (rows.scores < 0)).sum()


@pytest.mark.parametrize(
    ("given", "one", "many"),
    [
        ({}, "positive", "positives"),
        ({"positive": "fraud", "positives": "frauds"}, "fraud", "frauds"),
        ({"positive": "yes"}, "“yes” case", "“yes” cases"),
        ({"positive": "1"}, "“1” case", "“1” cases"),
    ],
)
def test_positives_have_a_name_that_fits_into_sentences(given, one, many):
    report = Report("max f1", Rows(Y, SCORES), 0.5, **given)
    assert (report.one, report.many) == (one, many)
