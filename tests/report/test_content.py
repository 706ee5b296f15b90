"""Reports raise errors for contents that do not belong together."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from report_rows import of_names, scored
from setpoint import (
    SetpointClassifier,
    SetpointError,
    SetpointThreshold,
    certify,
    choose_threshold,
    load,
)
from setpoint.goals.metrics import format_threshold
from setpoint.report import Baseline, Costs, Report, Rows
from setpoint.report.breakdown import by_segment
from setpoint.report.page import report_of
from setpoint.report.sections import sections
from setpoint.training import Lifted

Y, SCORES = np.array([True, False, True]), np.array([0.9, 0.1, 0.4])


def test_invalid_rows_raise_an_error():
    for y, scores, message in (
        ([], [], "there are no samples"),
        ([True, True], [0.1, 0.2], "there are no negative rows in the test rows"),
        ([False, False], [0.1, 0.2], "there are no positive rows in the test rows"),
        ([True, False], [0.1, np.nan], "1 of 2 scores are NaN, the first at position 1"),
        ([True, False], [0.1], "one entry per sample"),
        ([True, False], ["a", "b"], "scores must be numbers"),
        (["yes", "no"], [0.1, 0.2], "pos_label"),
    ):
        with pytest.raises(SetpointError, match=message):
            Rows(np.array(y), np.array(scores), "the test rows")


def test_labels_become_booleans():
    assert Rows(np.array([0, 1, -1 + 1]), SCORES).y.tolist() == [False, True, False]
    assert Rows(np.array([-1, 1, 1]), SCORES).y.tolist() == [False, True, True]


def test_baselines_must_have_valid_scores_of_the_same_rows():
    report = Report("max f1", Rows(Y, SCORES), 0.5)
    for scores, threshold, message in (
        (np.ones(2), 0.5, r"shape \(2,\), but the report has 3 rows"),
        (np.ones((3, 1)), 0.5, r"shape \(3, 1\)"),
        (np.array([1, np.nan, 2]), 0.5, "1 scores of the baseline 'rules' are NaN"),
        (np.array(["a", "b", "c"]), 0.5, "are not numbers"),
        (np.ones(3), np.nan, "the threshold of the baseline 'rules' is NaN"),
    ):
        for field in ("baseline", "tuned"):
            with pytest.raises(SetpointError, match=message):
                replace(report, **{field: Baseline("rules", scores, threshold)})


def test_a_nan_threshold_and_notes_in_one_string_raise_an_error():
    with pytest.raises(SetpointError, match="the threshold is NaN"):
        Report("max f1", Rows(Y, SCORES), np.nan)
    with pytest.raises(SetpointError, match="tuple of sentences"):
        Report("max f1", Rows(Y, SCORES), 0.5, notes="beware")


def test_a_certificate_for_another_threshold_or_goal_raises_an_error(certified):
    with pytest.raises(SetpointError, match="does not apply to the report's"):
        replace(certified, threshold=certified.threshold + 0.1)
    with pytest.raises(SetpointError, match="the certificate is for the goal"):
        replace(certified, goal="max recall s.t. precision >= 0.7")


def test_costs_must_be_finite_and_not_negative():
    with pytest.raises(SetpointError, match="'alarm' must not be negative"):
        Costs(-1, 2)
    with pytest.raises(SetpointError, match="'miss' must be a finite number"):
        Costs(1, np.inf)


def test_costs_add_up(counted):
    point = counted(7, 5, 3, 85).point
    assert Costs(2, 100, -10).total(point) == 2 * 12 + 100 * 3 - 10 * 7


def test_operating_points_equal_those_of_the_library(rows):
    point = choose_threshold(rows.y, rows.scores, "max f1")
    report = Report("max f1", rows, point.threshold, baseline=Baseline("b", -rows.scores, 0.0))
    assert report.point.counts == point.counts
    assert report.baselines[0][1].tp == (rows.y & (rows.scores < 0)).sum()


def test_positives_have_a_name_that_fits_into_sentences():
    for given, one, many in (
        ({}, "positive", "positives"),
        ({"positive": "fraud", "positives": "frauds"}, "fraud", "frauds"),
        ({"positive": "yes"}, "“yes” case", "“yes” cases"),
    ):
        report = Report("max f1", Rows(Y, SCORES), 0.5, **given)
        assert (report.singular, report.plural) == (one, many)


# --- rows compared with a certificate ------------------------------------------------------------


def later(seed=9, gap=0.5, **more):
    rng = np.random.default_rng(seed)
    y = rng.random(4000) < 0.1
    return Rows(y, rng.normal(size=4000) + gap * y, "later data", **more)


def test_only_unseen_rows_are_compared_with_the_certificate(certified):
    bad = later(unseen=True)
    report = replace(certified, rows=bad)
    assert report.verdict is None
    assert report.checked == certified.certificate.check(bad.y, bad.scores)
    assert report.checked.broken
    assert certified.checked is not None
    assert not certified.checked.broken
    assert replace(certified, rows=later()).checked is None
    assert Report(certified.goal, bad, 1.0).checked is None


def test_a_given_verdict_is_used(certified):
    bad = later()
    verdict = certified.certificate.check(bad.y, bad.scores)
    report = replace(certified, rows=bad, verdict=verdict)
    assert report.checked is verdict
    assert report.later  # whatever `unseen` is: a verdict is about later rows


def test_a_verdict_on_another_certificate_raises_an_error(certified):
    bad = later()
    verdict = certified.certificate.check(bad.y, bad.scores)
    with pytest.raises(SetpointError, match="needs the certificate that it is about"):
        replace(certified, certificate=None, verdict=verdict)
    other = replace(verdict, guarantees=(replace(verdict.guarantees[0], level=0.3),))
    with pytest.raises(SetpointError, match="the verdict is about another certificate"):
        replace(certified, verdict=other)


def test_certificates_that_rows_cannot_be_compared_with(certified):
    by_group = replace(certified.certificate, one_per_group=True)
    assert replace(certified, certificate=by_group).checked is None
    rows = certified.rows
    shifted = certify(rows.y, rows.scores, "max recall s.t. mcc >= 0.3", threshold=1.8)
    shifted = shifted.at_prevalence(0.1)
    assert shifted.certified
    assert Report(shifted.goal, rows, 1.8, certificate=shifted).checked is None


def test_rows_on_which_the_threshold_was_chosen_are_not_unseen():
    with pytest.raises(SetpointError, match="cannot be unseen if the threshold was chosen on them"):
        Rows(Y, SCORES, chose=True, unseen=True)


def test_baselines_are_in_the_order_baseline_and_tuned(rows):
    one, two = Baseline("a half", rows.scores, 0.5), Baseline("tuned", rows.scores, 1.7)
    report = Report("max f1", rows, 2.0, baseline=one, tuned=two)
    assert [(b.name, p.threshold) for b, p in report.baselines] == [("a half", 0.5), ("tuned", 1.7)]
    assert [b.name for b, _ in Report("max f1", rows, 2.0, tuned=two).baselines] == ["tuned"]


# --- reports of fitted classifiers ---------------------------------------------------------------

GOAL = "max recall s.t. precision >= 0.6"


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    y = rng.random(1200) < 0.25
    return rng.normal(size=(1200, 3)) + 1.5 * y[:, None], np.where(y, "sick", "well")


def classifiers(confidence):
    quick = Lifted(outer_iterations=3, inner_iterations=5)
    return [
        SetpointClassifier(
            GOAL, solver=quick, confidence=confidence, pos_label="sick", random_state=0
        ),
        SetpointThreshold(
            LogisticRegression(), GOAL, confidence=confidence, pos_label="sick", random_state=0
        ),
    ]


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("which", [0, 1])
def test_a_report_without_rows_shows_the_classifiers_operating_point_and_certificate(
    patients, confidence, which, tmp_path
):
    X, y = patients
    clf = classifiers(confidence)[which].fit(X[:900], y[:900])
    report = report_of(clf)
    own = clf._chosen_point or clf.operating_point_
    assert report.point.counts == own.counts
    assert report.rows.on == own.on
    assert not report.rows.unseen
    assert report.rows.chose
    assert report.certificate is clf.certificate_
    page = clf.report(tmp_path / "page.html", title="Who is sick", costs=Costs(10, 1000))
    assert "Who is sick" in page.read_text("utf-8")


@pytest.mark.parametrize("which", [0, 1])
def test_new_rows_are_counted_as_predicted(patients, which, tmp_path):
    X, y = patients
    clf = classifiers(None)[which].fit(X[:900], y[:900])
    report = report_of(clf, X[900:], y[900:], positive="patient", positives="patients")
    assert report.rows.unseen
    assert report.point.counts == clf.evaluate(X[900:], y[900:]).counts
    assert report.plural == "patients"
    with pytest.raises(SetpointError, match="both X and y"):
        report_of(clf, X)


def test_a_model_from_a_file_needs_rows(patients, tmp_path):
    X, y = patients
    clf = classifiers(None)[0].fit(X, y)
    clf.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    with pytest.raises(SetpointError, match="give report\\(\\) labelled rows"):
        loaded.report(tmp_path / "page.html")
    loaded.report(tmp_path / "page.html", X, y)


@pytest.mark.parametrize("which", [0, 1])
def test_rows_that_contradict_the_certificate_show_it_first(patients, which, tmp_path):
    X, y = patients
    clf = classifiers(0.9)[which].fit(X[:900], y[:900])
    assert clf.certificate_.certified
    rng = np.random.default_rng(1)
    page = clf.report(tmp_path / "page.html", rng.permutation(X), y).read_text("utf-8")
    assert "✗ certificate contradicted" in page
    assert '<p class="headline">These rows contradict the certificate: precision is 0.' in page
    assert "✓ certified" not in page


def test_a_certificate_by_group_is_compared_if_groups_are_given(patients, tmp_path):
    X, y = patients
    clf = classifiers(0.9)[1].fit(X[:900], y[:900], groups=np.arange(900))
    shuffled = np.random.default_rng(1).permutation(X)
    assert report_of(clf, shuffled, y).checked is None
    report = report_of(clf, shuffled, y, groups=np.arange(len(y)) // 2)
    assert report.checked.broken
    assert sum(report.checked.operating_point.counts[2:]) == len(y) // 2
    uncertified = classifiers(None)[1].fit(X[:900], y[:900])
    assert report_of(uncertified, X, y, groups=np.arange(len(y))).checked is None


@pytest.mark.parametrize("which", [0, 1])
def test_a_classifier_that_is_not_fitted_raises_an_error(which, patients, tmp_path):
    clf = classifiers(None)[which]
    for given in ((), patients):
        with pytest.raises(NotFittedError, match=r"not fitted yet: call fit\(X, y\) before rep"):
            clf.report(tmp_path / "page.html", *given)


# --- classifiers for goals with amounts, segments and periods ------------------------------------


def test_reports_of_classifiers_with_named_columns(tmp_path):
    y, scores = scored(800, 0.3)
    X = scores[:, None]
    named = {"segments": {"region": of_names("ab", 800)}, "amounts": {"amount": np.arange(800.0)}}
    goal = "min cost(fp=5, fn=amount) s.t. precision >= 0.3 for each region"
    for clf in (
        SetpointThreshold(LogisticRegression(), goal, random_state=0),
        SetpointThreshold(LogisticRegression(), goal, decision="expected_value", random_state=0),
        SetpointClassifier(goal, random_state=0),
    ):
        clf.fit(X, y, **named)
        for given in ((), (X, y)):
            columns = named if given else {}
            report = report_of(clf, *given, **columns)
            assert [s.column for s in by_segment(report)] == ["region"]
            assert report.decisions is getattr(clf, "decisions_", None)
            clf.report(tmp_path / "page.html", *given, **columns)
        if isinstance(clf, SetpointThreshold) and clf.decision == "threshold":
            assert report_of(clf).point.counts == clf.operating_point_.counts


def test_thresholds_of_segments_are_shown(tmp_path):
    y, scores = scored(800, 0.3)
    named = {"segments": {"region": of_names("ab", 800)}}
    goal = "max recall s.t. precision >= 0.6 for each region"
    clf = SetpointThreshold(LogisticRegression(), goal, thresholds="per group", random_state=0)
    clf.fit(scores[:, None], y, **named)
    (part,) = sections(report_of(clf, scores[:, None], y, **named))["segments"]
    assert part["head"][-1] == "threshold"
    shown = {row[0]: row[-1] for row in part["rows"]}
    assert shown == {
        name: format_threshold(found) for name, found in clf.segment_thresholds_.thresholds.items()
    }
