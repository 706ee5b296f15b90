"""Groups of similar scores: their sizes, exact intervals, and the section of the page."""

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binomtest

from setpoint import SetpointError, SetpointThreshold
from setpoint.report import Report, Rows, html
from setpoint.report.calibration import Calibration
from setpoint.report.data import ReportData
from setpoint.report.fractions import interval, intervals


def rows_of(n=2000, rate=0.05, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < rate
    return Rows(y, rng.normal(size=n) + 2 * y, **options)


def test_groups_hold_all_rows_and_are_finest_at_the_top():
    rows = rows_of()
    groups = Calibration.of(rows).groups
    assert sum(g.cases for g in groups) == 2000
    assert sum(g.positives for g in groups) == rows.y.sum()
    size = -(-rows.y.sum() // 4)
    assert [g.cases for g in groups[:6]] == [size] * 4 + [2 * size, 4 * size]
    for above, below in pairwise(groups):
        assert above.least > below.most
    top = groups[0]
    own = np.sort(rows.scores)[::-1][: top.cases]
    assert (top.least, top.most) == (own[-1], own[0])
    found = binomtest(top.positives, top.cases).proportion_ci(0.95)
    assert top.interval == pytest.approx((found.low, found.high))


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(12),
        np.arange(12.0),
        np.r_[np.full(6, -np.inf), np.full(6, np.inf)],
        [1.0] * 11 + [0],
    ],
)
def test_few_rows_and_equal_scores(scores):
    rows = Rows(np.arange(12) % 2 == 1, np.asarray(scores, dtype=float))
    groups = Calibration.of(rows).groups
    assert sum(g.cases for g in groups) == 12
    for above, below in pairwise(groups):
        assert above.least > below.most
    assert "Groups of similar scores" in html(Report("max f1", rows, 0.5))


def test_probabilities_are_compared_with_what_is_observed():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 6, 5000)
    y = rng.random(5000) < p
    groups = Calibration.of(Rows(y, p, probability=p)).groups
    assert sum(g.agrees for g in groups) >= len(groups) - 1
    assert groups[0].predicted == pytest.approx(np.sort(p)[::-1][: groups[0].cases].mean())
    page = html(Report("max f1", Rows(y, p, probability=p), 0.5))
    assert re.search(r"inside the interval in \d+ of \d+ groups", page)
    wrong = Calibration.of(Rows(y, p, probability=p / 4)).groups
    assert not any(g.agrees for g in wrong[:3])
    for bad in (p[1:], p + 1, p * np.nan):
        with pytest.raises(SetpointError, match="one number from 0 to 1"):
            Rows(y, p, probability=bad)


def test_scores_that_are_no_probabilities_are_said_to_be_none():
    page = html(Report("max f1", rows_of(), 0.5))
    assert "they are not probabilities" in page
    assert "inside the interval" not in page


def test_intervals_of_many_are_those_of_each():
    k, n = np.array([0, 1, 5, 5, 400]), np.array([1, 1, 5, 9, 1000])
    low, high = intervals(k, n)
    for i in range(5):
        assert (low[i], high[i]) == pytest.approx(interval(k[i], n[i]))


def test_the_curve_has_a_band_only_on_rows_that_did_not_choose():
    shown = ReportData(Report("max f1", rows_of(unseen=True), 0.5))
    recall, low, high = shown.band
    precision = shown.steps.curve()[1]
    assert ((low <= precision) & (precision <= high)).all()
    assert np.array_equal(recall, shown.steps.curve()[0])
    assert 'class="area"' in html(shown.report)
    assert 'class="area"' not in html(Report("max f1", rows_of(chose=True), 0.5))


def test_which_classifiers_have_probabilities():
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200) > 0
    for model, has in (
        (make_pipeline(StandardScaler(), LogisticRegression()), True),
        (HistGradientBoostingClassifier(max_iter=2), True),
        (RandomForestClassifier(3), True),
        (RidgeClassifier(), False),
    ):
        clf = SetpointThreshold(model, "max f1", cv=0.3, random_state=0).fit(X, y)
        found = clf.probabilities_of(clf.positive_scores(X))
        if has:
            assert found == pytest.approx(clf.predict_proba(X)[:, 1])
        else:
            assert found is None
