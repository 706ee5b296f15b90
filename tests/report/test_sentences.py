"""Sentences are correct in every case, and never more favourable than the numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from setpoint import Constraint, Goal, certify, define_metric
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import BUILT_IN, metric
from setpoint.report import Report, Rows, headline
from setpoint.report.content import Terms
from setpoint.report.fractions import between, fraction, interval
from setpoint.report.goal_wording import goal_in_words, meaning
from setpoint.report.sentences import headline_parts

FRAUDS = Terms("fraud", "frauds")


def test_expected_results(counted):
    for counts, sentence in (
        ((164, 18, 36, 9782),
         "At this threshold, expect to catch 82 of 100 frauds; 9 of 10 alarms are real."),
        ((0, 0, 150, 850),
         "At this threshold, there are no alarms: none of the 150 frauds is caught."),
        ((0, 0, 1, 9), "At this threshold, there are no alarms: the only fraud is missed."),
        ((0, 4, 150, 850),
         "At this threshold, none of the 150 frauds is caught, and all 4 alarms are false."),
        ((0, 1, 1, 850),
         "At this threshold, the only fraud is missed, and the only alarm is false."),
        ((3, 2, 4, 91), "At this threshold, 3 of the 7 frauds were caught; "
         "3 of the 5 alarms were real."),
        ((1, 2, 6, 91), "At this threshold, 1 of the 7 frauds was caught; "
         "1 of the 3 alarms was real."),
        ((1, 0, 0, 99), "At this threshold, the only fraud was caught; the only alarm was real."),
        ((200, 50, 0, 9750), "At this threshold, all 200 frauds were caught; 8 of 10 alarms were "
         "real."),
        ((150, 0, 50, 9800), "At this threshold, expect to catch 75 of 100 frauds; all 150 alarms "
         "were real."),
        ((1999, 9000, 1, 10000), "At this threshold, expect to catch more than 999 of 1,000 "
         "frauds; 18 of 100 alarms are real."),
        ((2, 9000, 19998, 10000), "At this threshold, expect to catch fewer than 1 of 1,000 "
         "frauds; fewer than 1 of 1,000 alarms is real."),
    ):  # fmt: skip
        assert headline_parts(counted(*counts)).expected == sentence


def test_other_metrics_of_the_goal_are_described(counted):
    for goal, end in (
        ("max recall s.t. fpr <= 0.01", "; 2 of 1,000 other cases raise a false alarm."),
        ("max recall s.t. specificity >= 0.9, fpr <= 0.1",
         "; 2 of 1,000 other cases raise a false alarm."),
        ("max recall s.t. alarm_rate <= 0.05", "; 2 of 100 cases raise an alarm."),
        ("max f1", "; F1 is 0.859."),
        ("max fbeta(2)", "; fbeta(2) is 0.835."),
        ("max precision s.t. recall >= 0.5", "9 of 10 alarms are real."),
        ("min fnr s.t. precision >= 0.5", "9 of 10 alarms are real."),
    ):  # fmt: skip
        text = headline_parts(counted(164, 18, 36, 9782, goal=goal)).expected
        assert text.endswith(end), goal
        assert text.count("false alarm") <= 1


def test_custom_metrics_are_described(counted):
    define_metric("half_report", lambda tp, fp, P, N: tp / (2 * P), bounds=(0, 1))
    assert "half_report is 0.410" in headline(counted(164, 18, 36, 9782, goal="max half_report"))


def test_a_missed_goal_is_reported_with_enough_digits(counted):
    text = headline_parts(
        counted(7998, 2000, 2, 9000, goal="max recall s.t. precision >= 0.8")
    ).goal
    assert text == (
        "The goal is not met on these rows: precision is 0.79996 and should be at least 0.8."
    )
    two = counted(10, 90, 90, 9, goal="max f1 s.t. recall >= 0.5, fpr <= 0.5")
    assert "recall is 0.100 and should be at least 0.5; fpr is 0.909 and should be at most 0.5" in (
        headline_parts(two).goal
    )


def test_a_goal_met_without_alarms_is_reported_as_such(counted):
    assert headline_parts(counted(0, 0, 10, 90)).goal == (
        "The goal is met only because there are no alarms."
    )


def test_a_certificate_is_reported(certified):
    text = headline(certified)
    assert "Certified at 90 % confidence: precision >= 0.8. Based on" in text
    assert "Nothing is certified" not in text
    assert text.endswith("(95 % confidence each).")  # nothing was chosen on these rows


def test_what_is_missing_for_a_certificate_is_reported():
    rng = np.random.default_rng(5)
    y = np.arange(300) < 30
    scores = rng.normal(size=300) + 2.5 * y
    goal = "max recall s.t. precision >= 0.8"
    certificate = certify(y, scores, goal, threshold=2.2, confidence=0.95)
    assert not certificate.certified
    assert certificate.more_positives
    text = headline(Report(goal, Rows(y, scores), 2.2, certificate=certificate))
    assert f"about {certificate.more_positives} more labelled positives" in text
    assert "Not certified at 95 % confidence" in text
    assert "On the certification rows" not in text


def test_certificates_of_goals_without_constraints(rows):
    for goal, expected in (
        ("max f1", "Certified at 90 % confidence: f1 >= "),
        ("max gmean", "Not certified at 90 % confidence: there is no exact bound for gmean."),
    ):
        certificate = certify(rows.y, rows.scores, goal, threshold=1.5)
        assert expected in headline(Report(goal, rows, 1.5, certificate=certificate))


def test_a_certificate_for_another_prevalence_is_reported_as_such(certified):
    shifted = certified.certificate.at_prevalence(0.02)
    assert "where 2 % of the cases are positive" in headline(
        replace(certified, certificate=shifted)
    )


def test_a_missing_certificate_is_reported(counted):
    text = headline(counted(164, 18, 36, 9782))
    assert (
        "The goal is met on these rows. Nothing is certified: results on new data may differ."
        in text
    )
    assert "expect to catch 82 of 100" in text


def test_the_basis_gives_the_number_of_rows_and_intervals(counted):
    text = headline_parts(counted(3, 2, 4, 91)).basis
    assert "Based on the test rows: 100 rows, including 7 frauds." in text
    assert "between 9 and 82 of 100 frauds are caught" in text  # exact: 0.0990 to 0.8159
    assert "between 14 and 95 of 100 alarms are real" in text
    assert text.endswith("each; less if the model or threshold was chosen on these rows).")
    one = headline_parts(counted(0, 0, 1, 9)).basis
    assert "Based on the test rows: 10 rows, including 1 fraud." in one
    assert "alarms are real" not in one


# --- a certificate and the rows ------------------------------------------------------------------


def with_certificate(counted, *counts, **more):
    """Return a report on unseen rows, with "precision >= 0.8" certified on others."""
    rng = np.random.default_rng(1)
    y = rng.random(4000) < 0.1
    scores = rng.normal(size=4000) + 4 * y
    certificate = certify(y, scores, "max recall s.t. precision >= 0.8", threshold=2.5)
    assert certificate.certified
    report = counted(*counts)
    rows = replace(report.rows, scores=report.rows.scores + 2.0, unseen=True)
    return replace(report, rows=rows, threshold=2.5, certificate=certificate, **more)


def test_a_contradicted_certificate_comes_first(counted):
    text = headline(with_certificate(counted, 100, 100, 20, 9780))
    assert text.startswith(
        "These rows contradict the certificate: precision is 0.500, but at least 0.8 was "
        "certified. At this threshold, "
    )
    assert "The certificate was issued at 90 % confidence. Certify again on recent data" in text
    assert "Certified at" not in text
    assert "The goal is not met" not in text  # the first sentence reports it


def test_several_checks_are_reported_together(counted):
    report = with_certificate(counted, 100, 100, 20, 9780)
    held, rows = report.certificate, report.rows
    twice = held.check(rows.y, rows.scores, after=held.check(rows.y, rows.scores))
    assert headline(replace(report, verdict=twice)).startswith(
        "The cases since certification contradict the certificate: precision is 0.500"
    )
    good = np.ones(9000, dtype=bool), np.full(9000, 9.0)
    text = headline(replace(report, verdict=held.check(*good, after=twice)))
    assert text.startswith("The cases since certification contradict the certificate: ")
    assert "precision is 0.979 now, but" in text
    assert "an earlier check contradicted at least 0.8" in text


def test_a_missed_goal_despite_a_certificate_is_explained(counted):
    for counts, reason in (
        ((28, 12, 20, 940), "40 alarms are too few to contradict it (p = 0.0875 as the only"),
        ((0, 1, 20, 940), "1 alarm is too few to contradict it (p = 0.2 as the only planned"),
        (
            (65, 25, 20, 940),
            "90 alarms are too few to contradict it in a check that may be "
            "repeated; as the only planned check they do (p = 0.0474).",
        ),
    ):
        text = headline(with_certificate(counted, *counts))
        assert "The goal is not met on these rows: precision is " in text
        assert "Certified at 90 % confidence: precision >= 0.8. The certificate still " in text
        assert "although these rows miss the goal: it is about new cases in the long run" in text
        assert f"and {reason}" in text


def test_the_metric_determines_which_cases_are_too_few(rows):
    for goal, cases in (
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
        assert f"20 {cases} to contradict it" in headline(report)


def test_rows_are_not_compared_with_a_certificate_by_group(counted):
    report = with_certificate(counted, 100, 100, 20, 9780)
    by_group = replace(report.certificate, one_per_group=True)
    text = headline(replace(report, certificate=by_group))
    assert "not compared with the certificate: it is about one case of each group." in text
    groups = np.arange(len(report.rows))
    verdict = by_group.check(report.rows.y, report.rows.scores, groups=groups)
    text = headline(replace(report, certificate=by_group, verdict=verdict))
    assert text.startswith("These rows contradict the certificate: ")


def test_a_goal_missed_on_rows_that_are_not_known_to_be_unseen(counted):
    report = with_certificate(counted, 100, 100, 20, 9780)
    text = headline(replace(report, rows=replace(report.rows, unseen=False)))
    assert "It is based on the certification rows only." in text


# --- rows on which the threshold was chosen ------------------------------------------------------


def test_rows_on_which_the_threshold_was_chosen_give_no_expectation(counted):
    report = counted(164, 18, 36, 9782)
    text = headline(replace(report, rows=replace(report.rows, chose=True)))
    assert text.startswith("At this threshold, 82 of 100 frauds were caught; 9 of 10 alarms were ")
    assert (
        "The threshold was chosen on these rows, so results on new rows are likely to be worse."
        in text
    )
    assert "long run" not in text
    assert text.endswith("Based on the test rows: 10,000 rows, including 200 frauds.")


def test_a_certificate_allows_for_the_choice(certified):
    rows = replace(certified.rows, unseen=False, chose=True)
    text = headline(replace(certified, rows=rows))
    assert "likely to be worse; the certificate allows for this." in text


# --- fractions, goals and metrics in words -------------------------------------------------------


def test_fractions_in_words():
    for k, n, text, plural in (
        (82, 100, "82 of 100 alarms", True),
        (900, 1000, "9 of 10 alarms", True),
        (8960, 10000, "9 of 10 alarms", True),
        (8800, 10000, "88 of 100 alarms", True),
        (3, 7, "3 of the 7 alarms", True),
        (1, 7, "1 of the 7 alarms", False),
        (7, 7, "all 7 alarms", True),
        (0, 7, "none of the 7 alarms", False),
        (1, 1, "the only alarm", False),
        (0, 1, "not one alarm", False),
        (1, 100, "1 of 100 alarms", False),
        (3, 1000, "3 of 1,000 alarms", True),
        (1, 100_000, "fewer than 1 of 1,000 alarms", False),
        (99_999, 100_000, "more than 999 of 1,000 alarms", True),
        (997, 1000, "997 of 1,000 alarms", True),
        (120_000, 120_000, "all 120,000 alarms", True),
    ):
        assert fraction(k, n, "alarm", "alarms") == (text, plural)


@given(st.integers(1, 10**6), st.data())
def test_a_rounded_fraction_is_close_and_never_all_or_none(n, data):
    k = data.draw(st.integers(0, n))
    text = fraction(k, n, "alarm", "alarms").text
    assert text.startswith("all ") == (k == n > 1)
    assert text.startswith(("none ", "not one ")) == (k == 0)
    if found := re.fullmatch(r"([\d,]+) of ([\d,]+) alarms", text):
        said, base = (int(x.replace(",", "")) for x in found.groups())
        assert 0 < said < base
        assert abs(said / base - k / n) <= 0.5 / base + 1e-12
        assert abs(said / base - k / n) <= 0.005 + 1e-12


@given(st.integers(1, 5000), st.data())
def test_intervals_equal_scipys_and_are_rounded_outwards(n, data):
    k = data.draw(st.integers(0, n))
    exact = binomtest(k, n).proportion_ci(0.95, method="exact")
    assert interval(k, n) == pytest.approx((exact.low, exact.high), abs=1e-9)
    least, most, base = (int(x.replace(",", "")) for x in re.findall(r"[\d,]+", between(k, n)))
    assert least / base <= exact.low + 1e-9
    assert most / base >= exact.high - 1e-9


def test_rounding_does_not_hide_whether_a_level_is_met():
    for value, required, text in (
        (0.8999, "precision >= 0.9", "0.8999"),  # not 0.900, which would be enough
        (0.9, "precision >= 0.9", "0.900"),
        (0.89996, "precision >= 0.9", "0.89996"),
        (0.0104, "fpr <= 0.01", "0.0104"),
        (0.0099, "fpr <= 0.01", "0.010"),
        (0.91234, "precision >= 0.9", "0.912"),
        (0.95036, "precision >= 0.9503", "0.9504"),  # 0.950 would not be
        (np.nan, "precision >= 0.9", "–"),
    ):
        name, _, level = required.split()
        assert format_metric(value, Constraint(metric(name), float(level))) == text


def test_goals_in_words():
    goal = Goal.parse("max recall s.t. precision >= 0.9, fpr <= 0.005")
    assert goal_in_words(goal, FRAUDS) == (
        "Catch as many frauds as possible, provided that at least 90 of 100 alarms are "
        "real and at most 5 of 1,000 other cases raise a false alarm."
    )
    assert goal_in_words(Goal.parse("max fbeta(2)"), FRAUDS).startswith("Make fbeta(2) as high")
    assert goal_in_words(Goal.parse("max mcc s.t. f1 >= 0.3"), FRAUDS).endswith(
        "F1 is at least 0.3."
    )


def test_every_built_in_metric_is_explained():
    for name in BUILT_IN:
        assert meaning(metric(name), FRAUDS) != "a custom metric"
    assert "2 times" in meaning(metric("fbeta(2)"), FRAUDS)
