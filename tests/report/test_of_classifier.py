import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from setpoint import SetpointClassifier, SetpointError, SetpointThreshold
from setpoint.report import Costs
from setpoint.report.page import report_of
from setpoint.training import Lifted

GOAL = "max recall s.t. precision >= 0.6"


@pytest.fixture(scope="module")
def rows():
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
def test_the_page_shows_the_classifiers_own_point_and_promise(rows, confidence, which, tmp_path):
    X, y = rows
    clf = classifiers(confidence)[which].fit(X[:900], y[:900])
    report = report_of(clf)
    own = clf.operating_point_
    assert report.point.counts == own.counts
    assert not report.rows.unseen
    assert report.rows.chose
    assert report.certificate is clf.certificate_
    page = clf.report(tmp_path / "page.html", title="Who is sick", costs=Costs(10, 1000))
    assert "Who is sick" in page.read_text("utf-8")


@pytest.mark.parametrize("which", [0, 1])
def test_new_rows_are_counted_as_predicted(rows, which, tmp_path):
    X, y = rows
    clf = classifiers(None)[which].fit(X[:900], y[:900])
    report = report_of(clf, X[900:], y[900:], positive="patient", positives="patients")
    assert report.rows.unseen
    assert report.point.counts == clf.evaluate(X[900:], y[900:]).counts
    assert report.many == "patients"
    with pytest.raises(SetpointError, match="both X and y"):
        report_of(clf, X)


def test_a_model_from_a_file_asks_for_rows(rows, tmp_path):
    from setpoint import load

    X, y = rows
    clf = classifiers(None)[0].fit(X, y)
    clf.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    with pytest.raises(SetpointError, match="give report\\(\\) labelled rows"):
        loaded.report(tmp_path / "page.html")
    loaded.report(tmp_path / "page.html", X, y)


@pytest.mark.parametrize("which", [0, 1])
def test_rows_that_break_the_promise_show_it_first(rows, which, tmp_path):
    X, y = rows
    clf = classifiers(0.9)[which].fit(X[:900], y[:900])
    assert clf.certificate_.certified
    rng = np.random.default_rng(1)
    page = clf.report(tmp_path / "page.html", rng.permutation(X), y).read_text("utf-8")
    assert "✗ promise broken on these rows" in page
    assert '<p class="headline">The promise is broken on these rows: precision is 0.' in page
    assert "✓ certified" not in page


def test_a_promise_by_group_is_compared_where_groups_are_given(rows, tmp_path):
    X, y = rows
    clf = classifiers(0.9)[1].fit(X[:900], y[:900], groups=np.arange(900))
    shuffled = np.random.default_rng(1).permutation(X)
    assert report_of(clf, shuffled, y).compared is None
    report = report_of(clf, shuffled, y, groups=np.arange(len(y)) // 2)
    assert report.compared.broken
    assert sum(report.compared.operating_point.counts[2:]) == len(y) // 2
    uncertified = classifiers(None)[1].fit(X[:900], y[:900])
    assert report_of(uncertified, X, y, groups=np.arange(len(y))).compared is None


@pytest.mark.parametrize("which", [0, 1])
def test_a_classifier_that_is_not_fitted_says_what_to_do(which, rows, tmp_path):
    clf = classifiers(None)[which]
    for given in ((), rows):
        with pytest.raises(NotFittedError, match=r"not fitted yet: call fit\(X, y\) before rep"):
            clf.report(tmp_path / "page.html", *given)
