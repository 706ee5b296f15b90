"""Certification rows and certificates of both estimators."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, PredefinedSplit, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from setpoint import (
    SetpointClassifier,
    SetpointError,
    SetpointThreshold,
    UncertifiedWarning,
    certify,
    load,
)
from setpoint._internal.validation import one_row_per_group
from setpoint.data.splits import certification_split
from setpoint.training import Lifted

QUICK = Lifted(outer_iterations=2, inner_iterations=3)
PRECISE = "max recall s.t. precision >= 0.8"
GOALS = [
    PRECISE,
    "max precision s.t. recall >= 0.7",  # nested: all rows test
    "max recall s.t. fpr <= 0.2",  # nested from the other side
    "max f1 s.t. precision >= 0.7, recall >= 0.5",
    "max f1",
]
FITS = []


class Recorder(ClassifierMixin, BaseEstimator):
    """Ranks rows by their second column, and knows rows by their first."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seen_, self.scored_ = X[:, 0].astype(int).tolist(), []
        FITS.append(self)
        return self

    def decision_function(self, X):
        self.scored_.append(X[:, 0].astype(int).tolist())
        return X[:, 1]


def cases(n=800, share=0.4, apart=1.6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    return rng.normal(size=(n, 2)) + apart * y[:, None], y.astype(int)


def both(goal=PRECISE, **params):
    """Both estimators, with models that take no time."""
    params = {"confidence": 0.9, "random_state": 0, **params}
    return [
        SetpointThreshold(LogisticRegression(), goal, cv=2, **params),
        SetpointClassifier(goal, solver=QUICK, **params),
    ]


BOTH = pytest.mark.parametrize("which", [0, 1], ids=["threshold", "classifier"])


def seed_of(clf):
    return int(np.random.RandomState(clf.random_state).randint(2**31 - 1))


def rows_of(clf, y, weight=None, groups=None):
    """The rows that a fit saw, and those that it did not."""
    positive = np.asarray(y) == clf.pos_label_
    return certification_split(clf.certification, positive, weight, groups, seed_of(clf))


@BOTH
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("pos_label", [0, 1])
def test_counts_are_those_of_predictions_on_the_certification_rows(which, goal, pos_label):
    X, y = cases()
    clf = both(goal, pos_label=pos_label)[which].fit(X, y)
    certificate, point = clf.certificate_, clf.operating_point_
    assert certificate.certified
    assert certificate.confidence == 0.9
    assert certificate.goal == clf.goal_
    assert certificate.operating_point == point
    assert point.on == "the certification rows"
    assert certificate.threshold == point.threshold
    if which == 0:
        assert clf.threshold_ == certificate.threshold
        assert len(clf.thresholds_) == 2
    else:
        assert certificate.threshold == 0.0  # scores are measured from the threshold
    _, rows = rows_of(clf, y)
    assert len(rows) == 240
    alarm, positive = clf.predict(X[rows]) == pos_label, y[rows] == pos_label
    assert (alarm & positive).sum() == point.tp
    assert (alarm & ~positive).sum() == point.fp
    assert (~alarm & positive).sum() == point.fn
    assert (~alarm & ~positive).sum() == point.tn
    assert (alarm == (clf.positive_scores(X[rows]) > certificate.threshold)).all()
    assert clf.evaluate(X[rows], y[rows], on=point.on) == point


def passes(constraint, y, alarm):
    """The exact binomial test of one constraint, by scipy."""
    tp, fp = (alarm & y).sum(), (alarm & ~y).sum()
    if constraint.metric.name == "precision":
        return binom.sf(tp - 1, tp + fp, constraint.level) <= 0.1 if tp + fp else False
    if constraint.metric.name == "recall":
        return binom.sf(tp - 1, y.sum(), constraint.level) <= 0.1
    assert constraint.metric.name == "fpr"
    return binom.cdf(fp, (~y).sum(), constraint.level) <= 0.1


@BOTH
@pytest.mark.parametrize("goal", GOALS[:4])
def test_every_certified_constraint_passes_its_test(which, goal):
    X, y = cases()
    clf = both(goal)[which].fit(X, y)
    _, rows = rows_of(clf, y)
    alarm, positive = clf.predict(X[rows]) == 1, y[rows] == 1
    assert all(passes(c, positive, alarm) for c in clf.goal_.constraints)


@BOTH
@pytest.mark.parametrize("goal", GOALS[1:3])
def test_the_best_nested_threshold_that_passes_is_chosen(which, goal):
    """Every threshold, one by one, on the certification rows."""
    X, y = cases()
    clf = both(goal)[which].fit(X, y)
    _, rows = rows_of(clf, y)
    scores, positive = clf.positive_scores(X[rows]), y[rows] == 1
    (constraint,) = clf.goal_.constraints
    best = -1.0
    for t in [-np.inf, *np.unique(scores)]:
        alarm = scores > t
        if alarm.any() and passes(constraint, positive, alarm):
            tp = (alarm & positive).sum()
            by = alarm.sum() if "max precision" in goal else positive.sum()
            best = max(best, tp / by)
    assert clf.operating_point_.objective == pytest.approx(best, abs=1e-12)
    assert clf.certificate_.choice == "any"


@BOTH
def test_thresholds_of_other_goals_are_planned_on_other_rows(which):
    X, y = cases()
    clf = both("max recall s.t. f1 >= 0.5")[which].fit(X, y)
    assert clf.certificate_.choice == "planned"
    assert clf.certificate_.tested >= 1
    # the plan does not look at the certifying labels: with others, only the choice within it moves
    _, rows = rows_of(clf, y)
    other = y.copy()
    other[rows] = np.random.default_rng(0).permutation(y[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        again = clone(clf).fit(X, other)
    assert again.certificate_.tested == clf.certificate_.tested
    assert not again.certificate_.certified  # shuffled labels cannot be precise


@BOTH
@pytest.mark.parametrize("goal", ["max f1", "max recall s.t. f1 >= 0.5", PRECISE])
def test_a_certified_model_of_single_precision_is_saved_and_loaded(which, goal, tmp_path):
    """Planned thresholds are single numbers, which must survive a change of precision."""
    X, y = cases()
    clf = both(goal)[which].fit(X.astype(np.float32), y)
    assert clf.certificate_.certified
    assert clf.certificate_.threshold in clf.certificate_.certified_thresholds
    clf.save(tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == clf.certificate_


@BOTH
def test_every_certified_threshold_has_the_decisions_of_one_that_passed(which):
    """Also for scores measured from the threshold, in single precision."""
    X, y = cases()
    clf = both(PRECISE)[which].fit(X.astype(np.float32), y)
    thresholds = clf.certificate_.certified_thresholds
    assert clf.certificate_.certified
    assert clf.certificate_.threshold in thresholds
    _, rows = rows_of(clf, y)
    scores, positive = clf.positive_scores(X[rows].astype(np.float32)), y[rows] == 1
    level = clf.goal_.constraints[0].level
    inside = [t for t in np.unique(scores) if t in thresholds]
    assert len(inside) > 5
    for t in inside:
        alarms = scores > t
        assert (alarms & positive).sum() >= level * alarms.sum()


@BOTH
def test_the_certificate_can_be_monitored(which):
    X, y = cases()
    clf = both(PRECISE)[which].fit(X, y)
    X_new, y_new = cases(n=3000, seed=1)
    verdict = clf.certificate_.check(y_new, clf.positive_scores(X_new))
    assert not verdict.broken
    alarm = clf.predict(X_new) == 1
    assert verdict.operating_point.tp == (alarm & (y_new == 1)).sum()
    assert verdict.operating_point.fp == (alarm & (y_new == 0)).sum()
    shuffled = np.random.default_rng(0).permutation(y_new)
    later = clf.certificate_.check(shuffled, clf.positive_scores(X_new), after=verdict)
    assert later.broken
    assert later.checks == 2
    names = np.where(y == 1, "fraud", "fine")
    texts = clone(clf).set_params(pos_label="fraud").fit(X, names)
    scores = texts.positive_scores(X)
    assert not texts.certificate_.check(names, scores, pos_label="fraud").broken


@BOTH
def test_without_confidence_there_is_no_certificate(which):
    X, y = cases()
    clf = both(PRECISE, confidence=None, certification="is not looked at")[which].fit(X, y)
    assert clf.certificate_ is None
    assert clf.operating_point_.on != "the certification rows"
    again = both(PRECISE)[which].fit(X, y)
    assert again.certificate_ is not None
    assert again.set_params(confidence=None).fit(X, y).certificate_ is None


@BOTH
def test_more_confidence_is_never_cheaper(which):
    X, y = cases()
    reached = [
        both("max precision s.t. recall >= 0.7", confidence=c)[which].fit(X, y).operating_point_
        for c in (0.6, 0.9, 0.99)
    ]
    recalls = [point.recall for point in reached]
    assert recalls == sorted(recalls)
    assert recalls[0] < recalls[-1]


@BOTH
@pytest.mark.parametrize("confidence", [0, 1, 0.0, 1.0, -0.5, 90, True, float("nan"), "0.9", [0.9]])
def test_invalid_confidence(which, confidence):
    X, y = cases(100)
    with pytest.raises(SetpointError, match="confidence must lie between 0 and 1, not"):
        both(confidence=confidence)[which].fit(X, y)


@BOTH
@pytest.mark.parametrize(
    ("certification", "message"),
    [
        (1.5, "certification must be a fraction between 0 and 1, not 1.5"),
        (None, "certification None is not a fraction or a splitter"),
        (KFold(3), "certification yields 3 splits"),
        ([(np.arange(200), np.arange(0))], "certif"),
        ([(np.arange(0), np.arange(200))], "has 0 rows"),  # nothing to train on
    ],
    ids=lambda value: str(value)[:20],
)
def test_invalid_certification_is_found_before_any_fitting(which, certification, message):
    X, y = cases(200)
    clf = both(certification=certification)[which]
    if which == 0:
        FITS.clear()
        clf.set_params(estimator=Recorder())
    with pytest.raises(SetpointError, match=message):
        clf.fit(X, y)
    assert which == 1 or not FITS


@BOTH
def test_different_weights_cannot_certify(which):
    X, y = cases(300)
    weight = np.where(np.arange(300) < 10, 2.0, 1.0)
    clf = both(PRECISE)[which]
    with pytest.raises(SetpointError, match="different weights; leave .* or use confidence=None"):
        clf.fit(X, y, sample_weight=weight)
    assert clf.set_params(confidence=None).fit(X, y, sample_weight=weight).certificate_ is None


@BOTH
def test_equal_weights_count_as_rows(which):
    X, y = cases()
    plain, doubled = both(PRECISE)[which], both(PRECISE)[which]
    plain.fit(X, y)
    doubled.fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert sum(doubled.operating_point_.counts[2:]) == 240
    assert sum(plain.operating_point_.counts[2:]) == 240


@BOTH
@pytest.mark.filterwarnings("ignore::setpoint.UncertifiedWarning")
def test_rows_without_weight_do_not_certify(which):
    X, y = cases()
    weight = (np.arange(len(y)) % 4 > 0).astype(float)
    clf = both(PRECISE)[which].fit(X, y, sample_weight=weight)
    _, rows = rows_of(clf, y, weight=weight)
    assert len(rows) == 180
    assert clf.evaluate(X[rows], y[rows], on="the certification rows") == clf.operating_point_


@BOTH
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("n", "positives"), [(8, 4), (30, 3), (30, 27)])
def test_few_rows_warn_and_do_not_crash(which, goal, n, positives):
    X, _ = cases(n)
    y = (np.arange(n) < positives).astype(int)
    tried = 0
    for seed in range(2):
        clf = both(goal, confidence=0.99, random_state=seed)[which]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertifiedWarning)
            try:
                clf.fit(X, y)
            except SetpointError as error:  # too few are left to train on
                assert "class" in str(error)
                continue
        tried += 1
        assert clf.certificate_ is not None
        assert clf.predict(X).shape == (n,)
        assert clf.certificate_.message
        _, rows = rows_of(clf, y)
        assert clf.evaluate(X[rows], y[rows]).counts == clf.operating_point_.counts
    assert tried


@BOTH
def test_the_warning_points_to_the_line_of_the_caller(which):
    X, y = cases(150, apart=0.2)
    clf = both("max recall s.t. precision >= 0.99")[which]
    with pytest.warns(UncertifiedWarning, match="Not certified at 90 % confidence") as told:
        clf.fit(X, y)
    assert not clf.certificate_.certified
    assert str(told[0].message) == clf.certificate_.message
    assert clf.predict(X).shape == y.shape
    with pytest.raises(SetpointError, match="nothing was certified"):
        clf.certificate_.check(y, clf.positive_scores(X))
    assert told[0].filename == __file__


@BOTH
def test_a_metric_without_an_exact_bound_is_not_certified(which):
    X, y = cases(300)
    for goal in ("max mcc", "max recall s.t. mcc >= 0.1"):
        with pytest.warns(UncertifiedWarning, match="there is no exact bound for mcc"):
            clf = both(goal)[which].fit(X, y)
        assert not clf.certificate_.certified
        assert clf.operating_point_.recall > 0


def test_certified_fits_do_not_warn():
    X, y = cases()
    for clf in both(PRECISE):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert clf.fit(X, y).certificate_.certified


@BOTH
def test_there_is_no_warning_if_the_goal_is_certified(which):
    X, y = cases()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = both()[which].fit(X, y)
    assert clf.certificate_.certified
    with pytest.warns(UncertifiedWarning, match="Not certified"):
        both()[which].fit(X[:, :1] * 0 + np.arange(len(y))[:, None] % 7, y)


# --- what training sees -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cv", "refit"),
    [(3, True), (0.3, True), (0.3, False), (ShuffleSplit(2, random_state=0), True)],
    ids=["folds", "share", "kept", "splitter"],
)
@pytest.mark.parametrize(
    "certification",
    [0.3, PredefinedSplit(np.where(np.arange(400) % 4 == 0, 0, -1))],
    ids=["0.3", "p"],
)
def test_no_classifier_sees_a_certification_row(cv, refit, certification):
    X, y = cases(400)
    FITS.clear()
    clf = SetpointThreshold(
        Recorder(), PRECISE, cv=cv, refit=refit, confidence=0.9, certification=certification,
        random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        clf.fit(np.column_stack([np.arange(400), X]), y)
    seen, certifying = rows_of(clf, y)
    for fit in FITS:
        assert not set(fit.seen_) & set(certifying)
    assert clf.estimator_ is FITS[-1]
    assert clf.estimator_.scored_[-1] == certifying.tolist()
    if refit:
        assert clf.estimator_.seen_ == seen.tolist()
    for fit in FITS:
        scored = fit.scored_[:-1] if fit is clf.estimator_ else fit.scored_
        assert not any(set(rows) & set(certifying) for rows in scored)


def spoil(X, y, rows):
    """Other features and labels for some rows."""
    rng = np.random.default_rng(5)
    X, y = X.copy(), y.copy()
    X[rows] = 100 * rng.normal(size=(len(rows), X.shape[1]))
    y[rows] = 1 - y[rows]
    return X, y


@BOTH
@pytest.mark.parametrize("grouped", [False, True])
def test_models_do_not_depend_on_the_certification_rows(which, grouped):
    X, y = cases(600)
    groups = np.arange(600) // 3 if grouped else None
    clf, other = both(PRECISE)[which], both(PRECISE)[which]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        clf.fit(X, y, groups=groups)
        seen, rows = rows_of(clf, y, groups=groups)
        apart = np.setdiff1d(np.arange(600), seen)  # the other rows of their groups as well
        assert len(apart) == 180
        assert len(rows) == (180 if not grouped else 60)
        other.fit(*spoil(X, y, apart), groups=groups)
    shift = clf.positive_scores(X) - other.positive_scores(X)
    np.testing.assert_allclose(shift, shift[0], atol=1e-12)
    if which == 0:
        assert (clf.estimator_.coef_ == other.estimator_.coef_).all()
        assert clf.thresholds_.tolist() == other.thresholds_.tolist()
    assert clf.operating_point_ != other.operating_point_
    assert sum(clf.operating_point_.counts[2:]) == len(rows)


def test_the_certificate_is_that_of_the_certification_scores():
    """Of the refitted classifier, not of those of the folds."""
    X, y = cases()
    clf = both("max precision s.t. recall >= 0.7")[0].fit(X, y)
    seen, rows = rows_of(clf, y)
    model = LogisticRegression().fit(X[seen], y[seen])
    expected = certify(
        y[rows], model.decision_function(X[rows]), clf.goal, confidence=0.9,
        on="the certification rows",
    )  # fmt: skip
    assert clf.certificate_ == expected


@pytest.mark.parametrize("goal", GOALS)
def test_a_fitted_classifier_is_certified_as_its_scores_are(goal):
    X, y = cases()
    model = GaussianNB().fit(*cases(100, seed=9))
    clf = SetpointThreshold(model, goal, cv="prefit", confidence=0.9, random_state=3).fit(X, y)
    expected = certify(
        y, model.predict_proba(X)[:, 1], goal, confidence=0.9, random_state=seed_of(clf),
        on="the rows given",
    )  # fmt: skip
    assert clf.certificate_ == expected
    assert clf.threshold_ == expected.threshold
    assert clf.estimator_ is model


def test_a_fitted_classifier_is_certified_on_one_row_of_each_group():
    X, y = cases(800)
    groups = np.arange(800) // 4
    model = GaussianNB().fit(*cases(100, seed=9))
    clf = SetpointThreshold(
        model, "max precision s.t. recall >= 0.7", cv="prefit", confidence=0.9, random_state=0
    ).fit(X, y, groups=groups)
    assert sum(clf.operating_point_.counts[2:]) == 200  # nested: all of them test
    rows = one_row_per_group(groups, seed_of(clf))
    assert clf.evaluate(X[rows], y[rows]).counts == clf.operating_point_.counts
    with pytest.raises(SetpointError, match="different weights"):
        clf.fit(X, y, sample_weight=1.0 + y)


def test_data_frames_and_texts_are_certified():
    X, y = cases()
    frame, labels = pd.DataFrame(X, columns=["a", "b"]), pd.Series(np.where(y == 1, "bad", "good"))
    frame.index = labels.index = np.arange(len(y))[::-1] * 7  # an index of no meaning
    for clf in both(PRECISE, pos_label="bad"):
        clf.fit(frame, labels)
        _, rows = rows_of(clf, labels)
        here = frame.iloc[rows], labels.iloc[rows]
        assert clf.evaluate(*here, on="the certification rows") == clf.operating_point_
        assert clf.certificate_.certified


# --- validity -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "runs"), [("tree", 120), ("held-out tree", 120), ("classifier", 25)]
)
def test_noise_is_certified_no_more_often_than_the_confidence_allows(which, runs):
    """Labels are coins: every alarm is right half of the time, and each certificate is false."""
    goal, confidence = "max recall s.t. precision >= 0.52", 0.8
    rng = np.random.default_rng(0)
    false = 0
    for run in range(runs):
        X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
        params = {"goal": goal, "confidence": confidence, "random_state": run}
        tree = DecisionTreeClassifier(max_depth=4, random_state=0)
        clf = {
            "tree": SetpointThreshold(tree, cv=2, **params),
            "held-out tree": SetpointThreshold(tree, cv=0.3, refit=False, **params),
            "classifier": SetpointClassifier(solver=QUICK, validation=None, **params),
        }[which]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UncertifiedWarning)
            false += clf.fit(X, y).certificate_.certified
    assert false <= binom.ppf(0.999, runs, 1 - confidence)
