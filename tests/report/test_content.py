"""Reports refuse what they could not tell the truth about."""

from dataclasses import replace

import numpy as np
import pytest

from setpoint import SetpointError, certify, choose_threshold
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
    assert report.rivals[0][1].tp == (rows.y & (rows.scores < 0)).sum()


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


# --- what rows say about a promise ---------------------------------------------------------------


def later(seed=9, gap=0.5, **more):
    rng = np.random.default_rng(seed)
    y = rng.random(4000) < 0.1
    return Rows(y, rng.normal(size=4000) + gap * y, "later data", **more)


def test_unseen_rows_are_compared_with_the_promise_and_others_are_not(certified):
    bad = later(unseen=True)
    report = replace(certified, rows=bad)
    assert report.verdict is None
    assert report.compared == certified.certificate.check(bad.y, bad.scores)
    assert report.compared.broken
    assert certified.compared is not None
    assert not certified.compared.broken
    assert replace(certified, rows=later()).compared is None
    assert Report(certified.goal, bad, 1.0).compared is None


def test_a_verdict_that_is_handed_over_stands(certified):
    bad = later()
    verdict = certified.certificate.check(bad.y, bad.scores)
    report = replace(certified, rows=bad, verdict=verdict)
    assert report.compared is verdict
    assert report.later  # whatever `unseen` says: a verdict is on later rows


def test_a_verdict_on_something_else_is_refused(certified):
    bad = later()
    verdict = certified.certificate.check(bad.y, bad.scores)
    with pytest.raises(SetpointError, match="needs the certificate that it is about"):
        replace(certified, certificate=None, verdict=verdict)
    other = replace(verdict, promises=(replace(verdict.promises[0], level=0.3),))
    with pytest.raises(SetpointError, match="the verdict is on other promises"):
        replace(certified, verdict=other)


def test_promises_that_rows_cannot_be_compared_with(certified):
    by_group = replace(certified.certificate, one_per_group=True)
    assert replace(certified, certificate=by_group).compared is None
    rows = certified.rows
    shifted = certify(rows.y, rows.scores, "max recall s.t. mcc >= 0.3", threshold=1.8)
    shifted = shifted.at_prevalence(0.1)
    assert shifted.certified
    assert Report(shifted.goal, rows, 1.8, certificate=shifted).compared is None


def test_rows_that_chose_the_threshold_are_not_unseen():
    with pytest.raises(SetpointError, match="cannot have chosen the threshold and be unseen"):
        Rows(Y, SCORES, chose=True, unseen=True)


def test_a_tuned_rival_must_have_scored_the_same_rows():
    with pytest.raises(SetpointError, match="baseline 'tuned' has scores of the shape"):
        Report("max f1", Rows(Y, SCORES), 0.5, tuned=Baseline("tuned", np.ones(2), 0.1))


def test_rivals_are_baseline_and_tuned_in_this_order(rows):
    one, two = Baseline("a half", rows.scores, 0.5), Baseline("tuned", rows.scores, 1.7)
    report = Report("max f1", rows, 2.0, baseline=one, tuned=two)
    assert [(r.name, p.threshold) for r, p in report.rivals] == [("a half", 0.5), ("tuned", 1.7)]
    assert [r.name for r, _ in Report("max f1", rows, 2.0, tuned=two).rivals] == ["tuned"]
