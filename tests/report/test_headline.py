"""The headline is right in every case."""

from dataclasses import replace

import numpy as np
import pytest

from setpoint import certify, define_metric
from setpoint.report import Report, Rows, headline
from setpoint.report.headline import sentences


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ((164, 18, 36, 9782),
         "At this threshold expect to catch 82 of 100 frauds; 9 of 10 alarms are real."),
        ((0, 0, 150, 850),
         "At this threshold there are no alarms: none of the 150 frauds is caught."),
        ((0, 0, 1, 9), "At this threshold there are no alarms: the only fraud is missed."),
        ((0, 4, 150, 850),
         "At this threshold none of the 150 frauds is caught, and all 4 alarms are false."),
        ((0, 1, 1, 850),
         "At this threshold the only fraud is missed, and the only alarm is false."),
        ((3, 2, 4, 91), "At this threshold 3 of the 7 frauds were caught; "
         "3 of the 5 alarms were real."),
        ((1, 2, 6, 91), "At this threshold 1 of the 7 frauds was caught; "
         "1 of the 3 alarms was real."),
        ((1, 0, 0, 99), "At this threshold the only fraud was caught; the only alarm was real."),
        ((200, 50, 0, 9750), "At this threshold all 200 frauds were caught; 8 of 10 alarms were "
         "real."),
        ((150, 0, 50, 9800), "At this threshold expect to catch 75 of 100 frauds; all 150 alarms "
         "were real."),
        ((1999, 9000, 1, 10000), "At this threshold expect to catch more than 999 of 1,000 frauds; "
         "18 of 100 alarms are real."),
        ((2, 9000, 19998, 10000), "At this threshold expect to catch fewer than 1 of 1,000 frauds; "
         "fewer than 1 of 1,000 alarms is real."),
    ],
)  # fmt: skip
def test_what_to_expect(counted, counts, says):
    assert sentences(counted(*counts)).expected == says


@pytest.mark.parametrize(
    ("goal", "says"),
    [
        ("max recall s.t. fpr <= 0.01", "; 2 of 1,000 other cases raise a false alarm."),
        ("max recall s.t. specificity >= 0.9, fpr <= 0.1",
         "; 2 of 1,000 other cases raise a false alarm."),
        ("max recall s.t. alarm_rate <= 0.05", "; 2 of 100 cases raise an alarm."),
        ("max f1", "; F1 is 0.859."),
        ("max fbeta(2)", "; fbeta(2) is 0.835."),
        ("max precision s.t. recall >= 0.5", "9 of 10 alarms are real."),
        ("min fnr s.t. precision >= 0.5", "9 of 10 alarms are real."),
    ],
)  # fmt: skip
def test_other_metrics_of_the_goal_are_told(counted, goal, says):
    text = sentences(counted(164, 18, 36, 9782, goal=goal)).expected
    assert text.endswith(says)
    assert text.count("false alarm") <= 1


def test_metrics_of_a_users_own_are_told(counted):
    define_metric("half_report", lambda tp, fp, P, N: tp / (2 * P), bounds=(0, 1))
    assert "half_report is 0.410" in headline(counted(164, 18, 36, 9782, goal="max half_report"))


def test_a_missed_goal_is_called_missed_with_enough_digits(counted):
    text = sentences(counted(7998, 2000, 2, 9000, goal="max recall s.t. precision >= 0.8")).goal
    assert text == (
        "The goal is not met on these rows: precision is 0.79996 and should be at least 0.8."
    )
    two = counted(10, 90, 90, 9, goal="max f1 s.t. recall >= 0.5, fpr <= 0.5")
    assert "recall is 0.100 and should be at least 0.5; fpr is 0.909 and should be at most 0.5" in (
        sentences(two).goal
    )


def test_a_goal_met_by_silence_is_not_praised(counted):
    assert sentences(counted(0, 0, 10, 90)).goal == (
        "The goal is met only in that there are no alarms."
    )


def test_what_is_certified_is_told(certified):
    text = headline(certified)
    assert "Certified at 90 % confidence: precision >= 0.8. This rests on" in text
    assert "Nothing is certified" not in text
    assert text.endswith("(95 % confidence each).")  # rows that nothing was chosen on


def test_what_is_missing_for_a_certificate_is_told():
    rng = np.random.default_rng(5)
    y = np.arange(300) < 30
    scores = rng.normal(size=300) + 2.5 * y
    goal = "max recall s.t. precision >= 0.8"
    certificate = certify(y, scores, goal, threshold=2.2, confidence=0.95)
    assert not certificate.certified
    assert certificate.more_positives
    text = headline(Report(goal, Rows(y, scores), 2.2, certificate=certificate))
    assert f"{certificate.more_positives} or so more labelled positives" in text
    assert "Not certified at 95 % confidence" in text
    assert "On the certifying data" not in text


@pytest.mark.parametrize("goal", ["max f1", "max gmean"])
def test_certificates_of_goals_without_constraints(rows, goal):
    certificate = certify(rows.y, rows.scores, goal, threshold=1.5)
    text = headline(Report(goal, rows, 1.5, certificate=certificate))
    expected = "Certified at 90 % confidence: f1 >= " if goal == "max f1" else "Not certified: "
    assert expected in text


def test_a_certificate_for_another_prevalence_says_so(certified):
    shifted = certified.certificate.at_prevalence(0.02)
    assert "where 2 % of the cases are positive" in headline(
        replace(certified, certificate=shifted)
    )


def test_without_a_certificate_nothing_is_promised(counted):
    text = headline(counted(164, 18, 36, 9782))
    assert "The goal is met on these rows. Nothing is certified" in text
    assert "expect to catch 82 of 100" in text


def test_it_says_on_how_much_it_rests_and_how_sure_that_is(counted):
    text = sentences(counted(3, 2, 4, 91)).basis
    assert "100 rows of the test data, 7 frauds among them" in text
    assert "between 9 and 82 of 100 frauds are caught" in text  # exact: 0.0990 to 0.8159
    assert "between 14 and 95 of 100 alarms are real" in text
    assert text.endswith("each; less, if model or threshold were chosen on these rows).")
    one = sentences(counted(0, 0, 1, 9)).basis
    assert "10 rows of the test data, 1 fraud among them." in one
    assert "alarms are real" not in one


# --- a promise and the rows ----------------------------------------------------------------------


def promised(counted, *counts, **more):
    """Return a report on unseen rows with the promise "precision >= 0.8" of others."""
    rng = np.random.default_rng(1)
    y = rng.random(4000) < 0.1
    scores = rng.normal(size=4000) + 4 * y
    certificate = certify(y, scores, "max recall s.t. precision >= 0.8", threshold=2.5)
    assert certificate.certified
    report = counted(*counts)
    rows = replace(report.rows, scores=report.rows.scores + 2.0, unseen=True)
    return replace(report, rows=rows, threshold=2.5, certificate=certificate, **more)


def test_a_broken_promise_is_the_first_thing_that_is_said(counted):
    text = headline(promised(counted, 100, 100, 20, 9780))
    assert text.startswith(
        "The promise is broken on these rows: precision is 0.500 and was promised to be at least "
        "0.8. At this threshold "
    )
    assert "The promise was certified at 90 % confidence. Certify anew on recent data" in text
    assert "Certified at" not in text
    assert "The goal is not met" not in text  # said already


def test_a_broken_promise_by_several_looks_speaks_of_all_of_them(counted):
    report = promised(counted, 100, 100, 20, 9780)
    held, rows = report.certificate, report.rows
    twice = held.check(rows.y, rows.scores, after=held.check(rows.y, rows.scores))
    assert headline(replace(report, verdict=twice)).startswith(
        "The promise is broken by the cases since the certificate: precision is 0.500"
    )
    good = np.ones(9000, dtype=bool), np.full(9000, 9.0)
    text = headline(replace(report, verdict=held.check(*good, after=twice)))
    assert text.startswith("The promise is broken by the cases since the certificate: ")
    assert "precision is 0.979" in text
    assert "an earlier look contradicted at least 0.8" in text


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ((28, 12, 20, 940), "40 alarms are too few to contradict it."),
        ((0, 1, 20, 940), "1 alarm is too few to contradict it."),
    ],
)
def test_a_missed_goal_and_a_certificate_at_once_are_explained(counted, counts, says):
    text = headline(promised(counted, *counts))
    assert "The goal is not met on these rows: precision is " in text
    assert f"Certified at 90 % confidence: precision >= 0.8. It stands all the same: {says}" in text


def test_what_is_too_few_is_called_by_its_name(rows):
    for goal, says in (
        ("max precision s.t. recall >= 0.9", "frauds are too few"),
        ("max recall s.t. fpr <= 0.1", "other cases are too few"),
    ):
        certificate = certify(rows.y, rows.scores, goal)
        assert certificate.certified
        y = np.repeat([True, False], 20)
        scores = np.where(np.arange(40) % 5 == 0, 1 - y, y) * 9.0
        report = Report(
            goal, Rows(y, scores, unseen=True), certificate.threshold, certificate=certificate,
            positive="fraud", positives="frauds",
        )  # fmt: skip
        assert f"20 {says} to contradict it" in headline(report)


def test_a_promise_by_group_says_that_rows_were_not_compared(counted):
    report = promised(counted, 100, 100, 20, 9780)
    by_group = replace(report.certificate, one_per_group=True)
    text = headline(replace(report, certificate=by_group))
    assert "not compared with it, for it is about one case of each group" in text
    groups = np.arange(len(report.rows))
    verdict = by_group.check(report.rows.y, report.rows.scores, groups=groups)
    text = headline(replace(report, certificate=by_group, verdict=verdict))
    assert text.startswith("The promise is broken on these rows: ")


def test_a_goal_missed_on_rows_that_may_have_certified(counted):
    report = promised(counted, 100, 100, 20, 9780)
    text = headline(replace(report, rows=replace(report.rows, unseen=False)))
    assert "It rests on the certifying rows alone." in text


# --- rows that chose the threshold ---------------------------------------------------------------


def test_rows_that_chose_the_threshold_are_no_expectation(counted):
    report = counted(164, 18, 36, 9782)
    text = headline(replace(report, rows=replace(report.rows, chose=True)))
    assert text.startswith("At this threshold 82 of 100 frauds were caught; 9 of 10 alarms were ")
    assert (
        "The threshold was chosen on these rows, so these counts look better than those of new "
        "rows will." in text
    )
    assert "long run" not in text
    assert text.endswith("10,000 rows of the test data, 200 frauds among them.")


def test_a_promise_allows_for_the_choice(certified):
    rows = replace(certified.rows, unseen=False, chose=True)
    assert "new rows will; the promise allows for that." in headline(replace(certified, rows=rows))
