import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import make_scorer, precision_score, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from setpoint import (
    FPOR,
    GoalError,
    InfeasibleGoalWarning,
    SetpointClassifier,
    SetpointError,
    SetpointThreshold,
    choose_threshold,
)

LOGISTIC = LogisticRegression()
FITS = []  # the recorders that were fitted, in order


class Recorder(ClassifierMixin, BaseEstimator):
    """Ranks rows by their second column; knows rows by their first, and keeps what it was given."""

    def fit(self, X, y, sample_weight=None, marks=None):
        self.classes_ = np.unique(y)
        self.seen_ = X[:, 0].astype(int).tolist()
        self.labels_, self.weights_, self.marks_ = y, sample_weight, marks
        self.scored_ = []
        FITS.append(self)
        return self

    def decision_function(self, X):
        self.scored_.append(X[:, 0].astype(int).tolist())
        return X[:, 1]


class Scores(ClassifierMixin, BaseEstimator):
    """Its scores are what a function makes of the rows."""

    def __init__(self, scores=None):
        self.scores = scores

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return self.scores(X)


@pytest.fixture
def fits():
    FITS.clear()
    return FITS


@pytest.fixture(scope="module")
def overlapping():
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.25
    return rng.normal(size=(400, 3)) + 1.3 * y[:, None], y.astype(int)


@pytest.fixture(scope="module")
def numbered(overlapping):
    """The same with the number of the row as the first column."""
    X, y = overlapping
    return np.column_stack([np.arange(len(y)), X]), y


def folds(n=3, seed=0):
    return StratifiedKFold(n, shuffle=True, random_state=seed)


def fitted(clf):
    """What fit has learnt, as it is."""
    return {name: value for name, value in vars(clf).items() if name.endswith("_")}


def weights_are_refused(estimator):
    """The checks that cannot pass: a certificate takes no weights that differ."""
    if estimator.confidence is None:
        return {}
    names = ("weights_not_overwritten", "weight_equivalence_on_dense_data")
    names += ("weight_equivalence_on_sparse_data",)
    return {f"check_sample_{name}": "weights that differ are refused" for name in names}


@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks provoke warnings on purpose
@parametrize_with_checks(
    [
        SetpointThreshold(LogisticRegression(), random_state=0),
        SetpointThreshold(GaussianNB(), cv=0.3, random_state=0),
        SetpointThreshold(DecisionTreeClassifier(max_depth=3, random_state=0), confidence=0.9),
    ],
    expected_failed_checks=weights_are_refused,
)
def test_scikit_learn_compatibility(estimator, check):
    check(estimator)


# --- the threshold ------------------------------------------------------------------------------


@pytest.mark.parametrize("pos_label", [0, 1])
@pytest.mark.parametrize(
    ("classifier", "method"),
    [
        (LOGISTIC, "decision_function"),
        (LinearSVC(), "decision_function"),
        (make_pipeline(StandardScaler(), LinearSVC()), "decision_function"),
        (HistGradientBoostingClassifier(max_iter=5), "decision_function"),
        (GaussianNB(), "predict_proba"),
        (RandomForestClassifier(5, random_state=0), "predict_proba"),
        (CalibratedClassifierCV(GaussianNB(), cv=2), "predict_proba"),
    ],
)
def test_the_threshold_is_the_exact_one_of_cross_fitted_scores(
    overlapping, classifier, method, pos_label
):
    X, y = overlapping
    scores = cross_val_predict(classifier, X, y, cv=folds(), method=method)
    if method == "predict_proba":
        scores = scores[:, pos_label]
    elif pos_label == 0:
        scores = -scores
    goal = "max recall s.t. precision >= 0.6"
    expected = choose_threshold(y, scores, goal, pos_label=pos_label, on="the cross-fitted rows")
    clf = SetpointThreshold(classifier, goal, cv=folds(), pos_label=pos_label).fit(X, y)
    assert clf.operating_point_ == expected
    assert clf.threshold_ == expected.threshold
    alone = [
        choose_threshold(y[rows], scores[rows], goal, pos_label=pos_label).threshold
        for _, rows in folds().split(X, y)
    ]
    assert clf.thresholds_.tolist() == alone
    # the decisions are those of the classifier trained on all rows
    whole = getattr(clone(classifier).fit(X, y), method)(X)
    whole = whole[:, pos_label] if method == "predict_proba" else (-whole, whole)[pos_label]
    assert (clf.positive_scores(X) == whole).all()
    assert ((clf.predict(X) == pos_label) == (whole > expected.threshold)).all()
    assert clf.evaluate(X, y).tp == (y[whole > expected.threshold] == pos_label).sum()


def rates(y, alarm):
    """Precision, which is 1 without alarms, and recall."""
    tp = (alarm & (y == 1)).sum()
    return tp / alarm.sum() if alarm.any() else 1.0, tp / (y == 1).sum()


def harmonic(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision * recall else 0.0


@pytest.mark.parametrize(
    ("goal", "objective", "feasible"),
    [
        ("max f1", harmonic, lambda p, r: True),
        ("max recall s.t. precision >= 0.7", lambda p, r: r, lambda p, r: p >= 0.7),
        ("max precision s.t. recall >= 0.8", lambda p, r: p, lambda p, r: r >= 0.8),
        ("max f1 s.t. precision >= 0.5, recall >= 0.5", harmonic, lambda p, r: min(p, r) >= 0.5),
    ],
)
@pytest.mark.parametrize("classifier", [LOGISTIC, DecisionTreeClassifier(max_depth=3)])
def test_no_cut_is_better(overlapping, classifier, goal, objective, feasible):
    """All cuts of the held-out scores, one by one."""
    X, y = overlapping
    cv = [(np.arange(200), np.arange(200, 400))]
    clf = SetpointThreshold(classifier, goal, cv=cv, refit=False).fit(X, y)
    X, y = X[200:], y[200:]
    scores = clf.positive_scores(X)
    cuts = [rates(y, scores > t) for t in [-np.inf, *np.unique(scores)]]
    best = max(objective(*cut) for cut in cuts if feasible(*cut))
    assert clf.operating_point_.objective == pytest.approx(best, abs=1e-12)
    decided = rates(y, clf.predict(X) == 1)
    assert feasible(*decided)
    assert objective(*decided) == pytest.approx(best, abs=1e-12)
    assert clf.operating_point_.on == "the held-out rows"
    assert clf.certificate_ is None


@pytest.mark.parametrize(
    ("classifier", "method"),
    [
        (LogisticRegression(C=0.1), "decision_function"),
        (LogisticRegression(C=0.1), "predict_proba"),
        (LinearSVC(), "decision_function"),
        (GaussianNB(), "predict_proba"),
    ],
)
def test_the_order_of_the_labels_does_not_matter(overlapping, classifier, method):
    X, y = overlapping
    first, last = np.where(y == 1, "alarm", "quiet"), np.where(y == 1, "storm", "quiet")
    params = {"goal": FPOR(0.7), "response_method": method, "random_state": 0}
    one = SetpointThreshold(classifier, pos_label="alarm", **params).fit(X, first)
    other = SetpointThreshold(classifier, pos_label="storm", **params).fit(X, last)
    assert one.classes_.tolist() == ["alarm", "quiet"]
    assert one.pos_label_ == "alarm"
    assert ((one.predict(X) == "alarm") == (other.predict(X) == "storm")).all()
    assert one.operating_point_.counts == other.operating_point_.counts
    assert one.threshold_ == pytest.approx(other.threshold_, abs=1e-6)
    np.testing.assert_allclose(one.positive_scores(X), other.positive_scores(X), atol=1e-6)
    assert one.evaluate(X, first).counts == other.evaluate(X, last).counts


def test_the_larger_label_is_positive_by_default(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(LOGISTIC, "max recall s.t. precision >= 0.7", random_state=0)
    by_default, larger = clone(clf).fit(X, y), clone(clf).set_params(pos_label=1).fit(X, y)
    smaller = clone(clf).set_params(pos_label=0).fit(X, y)
    assert by_default.pos_label_ == larger.pos_label_ == 1
    assert by_default.operating_point_ == larger.operating_point_
    assert smaller.pos_label_ == 0
    assert smaller.operating_point_.tp + smaller.operating_point_.fn == (y == 0).sum()
    assert precision_score(y, smaller.predict(X), pos_label=0) > 0.65
    with pytest.raises(SetpointError, match=r"pos_label 7 is not in y, whose labels are 0, 1"):
        clone(clf).set_params(pos_label=7).fit(X, y)


def test_a_positive_text_that_may_be_a_surprise_warns_at_the_line_of_the_caller(overlapping):
    X, y = overlapping
    labels = np.where(y == 1, "fraud", "ok")
    with pytest.warns(UserWarning, match="'fraud' is the positive class .*, not 'ok'") as told:
        assert SetpointThreshold(LOGISTIC, cv=2).fit(X, labels).pos_label_ == "fraud"
    assert told[0].filename == __file__


def test_responses_can_be_chosen(overlapping):
    X, y = overlapping
    both = {
        method: SetpointThreshold(LOGISTIC, cv=folds(), response_method=method).fit(X, y)
        for method in ("auto", "decision_function", "predict_proba")
    }
    assert both["auto"].threshold_ == both["decision_function"].threshold_
    assert 0 < both["predict_proba"].threshold_ < 1
    assert (both["auto"].predict(X) == both["predict_proba"].predict(X)).all()
    own = both["predict_proba"].estimator_.predict_proba(X)[:, 1]
    assert (both["predict_proba"].positive_scores(X) == own).all()


@pytest.mark.parametrize(
    ("classifier", "method", "message"),
    [
        (LinearSVC(), "predict_proba", "LinearSVC has no predict_proba"),
        (GaussianNB(), "decision_function", "GaussianNB has no decision_function"),
        (GaussianNB(), "predict", "response_method is one of .*'auto'.* not 'predict'"),
        (LinearRegression(), "auto", "neither decision_function nor predict_proba"),
    ],
)
def test_missing_response_methods(overlapping, classifier, method, message):
    X, y = overlapping
    with pytest.raises(SetpointError, match=message):
        SetpointThreshold(classifier, cv=2, response_method=method).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
@pytest.mark.parametrize("pos_label", [0, 1])
def test_decisions_agree_with_the_counts_in_every_precision(overlapping, dtype, pos_label):
    X, y = overlapping
    clf = SetpointThreshold(
        Scores(lambda X: (4 * X[:, 0]).astype(dtype)).fit(X, y), cv="prefit", pos_label=pos_label
    ).fit(X, y)
    alarm, positive = clf.predict(X) == pos_label, y == pos_label
    assert (alarm & positive).sum() == clf.operating_point_.tp
    assert (alarm & ~positive).sum() == clf.operating_point_.fp


def test_scores_that_are_nan(overlapping):
    X, y = overlapping
    nan = Scores(lambda X: np.where(np.arange(len(X)) < 2, np.nan, X[:, 0]))
    with pytest.raises(SetpointError, match="2 scores of Scores are NaN"):
        SetpointThreshold(nan, cv=folds()).fit(X, y)
    infinite = Scores(lambda X: np.where(X[:, 0] > 1, np.inf, -np.inf))
    clf = SetpointThreshold(infinite, cv=folds()).fit(X, y)
    assert ((clf.predict(X) == 1) == (X[:, 0] > 1)).all()


def test_one_column_of_scores_is_enough(overlapping):
    X, y = overlapping
    flat, column = (
        SetpointThreshold(Scores(score), cv=folds()).fit(X, y)
        for score in (lambda X: X[:, 0], lambda X: X[:, :1])
    )
    assert flat.operating_point_ == column.operating_point_
    assert (flat.predict(X) == column.predict(X)).all()


# --- what X may be ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(overlapping):
    X, y = overlapping
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = pd.Categorical(np.where(X[:, 0] > 1, "x", np.where(X[:, 1] > 0, "y", "z")))
    return frame, pd.Series(np.where(y == 1, "fraud", "fine"))


@pytest.mark.parametrize(
    "classifier",
    [
        make_pipeline(
            make_column_transformer(
                (OneHotEncoder(), ["kind"]), (StandardScaler(), ["a", "b", "c"])
            ),
            LogisticRegression(),
        ),
        HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype"),
    ],
    ids=["pipeline", "trees"],
)
def test_data_frames_with_categories_reach_the_classifier(shop, classifier):
    frame, labels = shop
    clf = SetpointThreshold(classifier, FPOR(0.7), pos_label="fraud", cv=folds())
    clf.fit(frame, labels)
    scores = cross_val_predict(classifier, frame, labels, cv=folds(), method="decision_function")
    # "fine" < "fraud": the larger label is the positive one
    assert clf.threshold_ == choose_threshold(labels == "fraud", scores, FPOR(0.7)).threshold
    assert set(clf.predict(frame)) == {"fraud", "fine"}
    assert clf.feature_names_in_.tolist() == ["a", "b", "c", "kind"]
    assert clf.n_features_in_ == 4
    clf.set_params(confidence=0.9, random_state=0).fit(frame.iloc[::-1], labels.iloc[::-1])
    assert sum(clf.certificate_.operating_point.counts[2:]) == 120


def test_other_columns_raise_the_error_of_the_classifier(shop):
    frame, labels = shop
    clf = SetpointThreshold(LOGISTIC, cv=2).fit(frame[["a", "b"]], labels)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a"]])


def test_feature_names_are_those_of_the_last_fit(shop):
    frame, labels = shop
    clf = SetpointThreshold(LOGISTIC, cv=2).fit(frame[["a", "b"]], labels)
    clf.fit(frame[["a", "b", "c"]].to_numpy(), labels)
    assert clf.n_features_in_ == 3
    assert not hasattr(clf, "feature_names_in_")


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_sparse_rows_give_the_same(overlapping, kind, confidence):
    X, y = overlapping
    clf = SetpointThreshold(
        LOGISTIC, "max precision s.t. recall >= 0.5", confidence=confidence, random_state=0
    )
    dense, thin = clone(clf).fit(X, y), clone(clf).fit(kind(X), y)
    assert (dense.predict(X) == thin.predict(kind(X))).all()
    assert thin.threshold_ == pytest.approx(dense.threshold_, abs=1e-4)


def test_lists(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(LOGISTIC, cv=folds())
    assert clone(clf).fit(X.tolist(), y.tolist()).threshold_ == clf.fit(X, y).threshold_


def test_a_column_of_labels_is_taken_with_scikit_learns_warning(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(LOGISTIC, cv=folds())
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        column = clone(clf).fit(X, y[:, None])
    assert column.threshold_ == clf.fit(X, y).threshold_


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(400), "only one class, 0.0; a classifier needs both"),
        (np.arange(400) % 3, "Only binary classification.*0, 1, 2.*pos_label"),
        (np.where(np.arange(400) < 3, np.nan, np.arange(400) % 2), "NaN"),
        (np.where(np.arange(400) < 3, None, np.arange(400) % 2), "some are missing.*drop the rows"),
        (pd.Series(["a", None] * 200), "some are missing.*drop the rows"),
        (None, "y"),
        (np.arange(399) % 2, "inconsistent numbers"),
        (np.linspace(0, 1, 400), "[Cc]ontinuous|Unknown label type"),
    ],
    ids=["one", "three", "nan", "none", "missing text", "no y", "short", "continuous"],
)
@pytest.mark.parametrize("prefit", [True, False])
def test_invalid_labels(overlapping, y, message, prefit):
    X, good = overlapping
    clf = SetpointThreshold(clone(LOGISTIC).fit(X, good), cv="prefit" if prefit else None)
    with pytest.raises(ValueError, match=message):
        clf.fit(X, y)


def test_an_invalid_goal_is_found_before_any_fitting(numbered, fits):
    X, y = numbered
    with pytest.raises(GoalError, match="did you mean recall"):
        SetpointThreshold(Recorder(), "max recal").fit(X, y)
    assert not fits


# --- where scores come from ---------------------------------------------------------------------


@pytest.mark.parametrize(("cv", "count"), [(None, 5), (3, 3), (np.int64(4), 4)])
def test_folds_are_stratified_and_cover_all_rows_once(numbered, fits, cv, count):
    X, y = numbered
    clf = SetpointThreshold(Recorder(), cv=cv, random_state=0).fit(X, y)
    *parts, whole = fits
    assert clf.estimator_ is whole
    assert sorted(whole.seen_) == list(range(len(y)))
    assert len(parts) == count == len(clf.thresholds_)
    held = [part.scored_[0] for part in parts]
    assert sorted(np.concatenate(held)) == list(range(len(y)))
    for part, rows in zip(parts, held, strict=True):
        assert set(part.seen_) == set(range(len(y))) - set(rows)
        assert (part.labels_ == y[part.seen_]).all()
        assert y[rows].sum() == pytest.approx(y.sum() / count, abs=1)
    assert sum(clf.operating_point_.counts[2:]) == len(y)


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("cv", [0.25, np.float32(0.25)])
def test_a_fraction_is_one_stratified_split(numbered, fits, cv, refit):
    X, y = numbered
    clf = SetpointThreshold(Recorder(), cv=cv, refit=refit, random_state=0).fit(X, y)
    assert len(fits) == (2 if refit else 1)
    (held,) = fits[0].scored_
    assert len(held) == 100
    assert y[held].sum() == pytest.approx(y.sum() / 4, abs=1)
    assert sorted(held + fits[0].seen_) == list(range(len(y)))
    point = choose_threshold(y[held], X[held, 1], "max f1", on="the held-out rows")
    assert clf.operating_point_ == point
    assert clf.estimator_ is fits[-1]
    assert clf.thresholds_.tolist() == [point.threshold]


def test_splitters_and_iterables_choose_the_rows(numbered, fits):
    X, y = numbered
    fold = np.where(np.arange(len(y)) % 4 == 0, 0, -1)
    pair = np.flatnonzero(fold == -1), np.flatnonzero(fold == 0)
    for cv in (PredefinedSplit(fold), [pair], iter([pair]), [[p.tolist() for p in pair]]):
        fits.clear()
        clf = SetpointThreshold(Recorder(), cv=cv, refit=False).fit(X, y)
        assert fits[0].seen_ == pair[0].tolist()
        assert fits[0].scored_ == [pair[1].tolist()]
        expected = choose_threshold(y[pair[1]], X[pair[1], 1], "max f1").threshold
        assert clf.threshold_ == expected
    fits.clear()
    SetpointThreshold(Recorder(), cv=[pair, pair[::-1]]).fit(X, y)
    assert [f.seen_ for f in fits[:2]] == [p.tolist() for p in pair]


def test_pairs_of_masks(numbered, fits):
    """As they do for validation and certification."""
    X, y = numbered
    held = np.arange(len(y)) % 4 == 0
    SetpointThreshold(Recorder(), cv=[(~held, held)], refit=False).fit(X, y)
    assert fits[0].seen_ == np.flatnonzero(~held).tolist()
    assert fits[0].scored_ == [np.flatnonzero(held).tolist()]


def test_rows_without_a_fold_only_train(numbered, fits):
    X, y = numbered
    cv = [(np.arange(100, 400), np.arange(50)), (np.r_[0:50, 100:400], np.arange(50, 100))]
    clf = SetpointThreshold(Recorder(), cv=cv).fit(X, y)
    assert sum(clf.operating_point_.counts[2:]) == 100
    assert sorted(fits[-1].seen_) == list(range(400))


def test_folds_of_one_class_have_no_threshold_of_their_own(overlapping):
    X, y = overlapping[0][:40], overlapping[1][:40]
    clf = SetpointThreshold(GaussianNB(), cv=LeaveOneOut()).fit(X, y)
    assert clf.thresholds_.shape == (0,)
    scores = cross_val_predict(GaussianNB(), X, y, cv=LeaveOneOut(), method="predict_proba")
    assert clf.threshold_ == choose_threshold(y, scores[:, 1], "max f1").threshold


def test_a_fitted_classifier_is_neither_copied_nor_fitted_again(numbered, fits):
    X, y = numbered
    recorder = Recorder().fit(X[:10], y[:10])
    clf = SetpointThreshold(recorder, FPOR(0.7), cv="prefit", refit=False).fit(X, y)
    assert clf.estimator_ is recorder
    assert len(fits) == 1
    assert recorder.seen_ == list(range(10))
    expected = choose_threshold(y, X[:, 1], FPOR(0.7), on="the rows given")
    assert clf.operating_point_ == expected
    assert clf.thresholds_.tolist() == [expected.threshold]


@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.parametrize("classifier", [LOGISTIC, make_pipeline(StandardScaler(), LOGISTIC)])
def test_prefit_needs_a_fitted_classifier(overlapping, classifier, confidence):
    X, y = overlapping
    with pytest.raises(NotFittedError):
        SetpointThreshold(clone(classifier), cv="prefit", confidence=confidence).fit(X, y)


@pytest.mark.parametrize(
    ("known", "labels", "pos_label"),
    [
        (["a", "b"], [0, 1], 1),
        ([1, 2], [0, 1], 0),
        ([1, 2], [0, 1], 1),  # the positive label is known, the other is not
        ([0, 1, 2], [0, 1], 1),
        (["x", "z"], ["x", "y"], "x"),
    ],
)
def test_a_classifier_of_other_classes(overlapping, known, labels, pos_label):
    X, y = overlapping
    classifier = GaussianNB().fit(X, np.array(known)[np.arange(len(y)) % len(known)])
    clf = SetpointThreshold(classifier, cv="prefit", pos_label=pos_label)
    with pytest.raises(SetpointError, match=r"knows the classes .* the labels are"):
        clf.fit(X, np.array(labels)[y])


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "at least 2 folds, not 1"),
        (0, "at least 2 folds"),
        (-3, "at least 2 folds"),
        (True, "cv"),
        (0.0, "fraction between 0 and 1"),
        (1.0, "fraction between 0 and 1"),
        (float("nan"), "fraction between 0 and 1"),
        (300, "300 folds, but the smaller class only .* rows; use fewer folds"),
        ("prefitt", "'prefitt' is not a number, a splitter, pairs of rows or 'prefit'"),
        (object(), "is not a number, a splitter"),
        (KFold, "KFold"),
        ([], "cv"),
        ([1, 2], "cv.*pair"),
        ((np.arange(300), np.arange(300, 400)), "cv.*pair"),
        ([(np.arange(300), np.arange(300, 500))], "there are 400"),
        ([([0.5], [1.5])], "indices of rows"),
        ([(np.arange(300), np.arange(200, 400))], "overlap"),
        ([(np.arange(300), np.arange(0))], "cv|class"),
        (KFold(401), "cannot be split by cv"),
        (GroupKFold(2), "cannot be split by cv.*groups"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_invalid_splits_are_found_before_any_fitting(numbered, fits, cv, message):
    X, y = numbered
    with pytest.raises(SetpointError, match=message):
        SetpointThreshold(Recorder(), cv=cv).fit(X, y)
    assert not fits


def test_by_default_a_rare_class_has_fewer_folds(numbered, fits):
    X, _ = numbered
    y = (np.arange(400) % 100 == 0).astype(int)  # four positives
    SetpointThreshold(Recorder()).fit(X, y)
    assert len(fits) == 4 + 1
    with pytest.raises(SetpointError, match="5 folds, but the smaller class only 4 rows"):
        SetpointThreshold(Recorder(), cv=5).fit(X, y)
    with pytest.raises(SetpointError, match="class True has 1 row .* at least 2"):
        SetpointThreshold(Recorder()).fit(X, np.arange(400) == 7)


def test_without_a_refit_there_must_be_one_split(numbered, fits):
    X, y = numbered
    for cv, count in ((None, 5), (3, 3), (KFold(2), 2)):
        with pytest.raises(SetpointError, match=f"refit=False needs one split.* has {count}"):
            SetpointThreshold(Recorder(), cv=cv, refit=False).fit(X, y)
    assert not fits


def test_predefined_splits_are_understood_or_refused_where_rows_are_left_out(numbered, fits):
    """Such a splitter numbers all rows, also those that certify or have no weight."""
    X, y = numbered
    fold = np.where(np.arange(len(y)) % 4 == 0, 0, -1)
    weight = (np.arange(len(y)) >= 30).astype(float)
    clf = SetpointThreshold(Recorder(), FPOR(0.4), cv=PredefinedSplit(fold), random_state=0)
    for confidence, given in ((0.9, {}), (None, {"sample_weight": weight})):
        fits.clear()
        try:
            clf.set_params(confidence=confidence).fit(X, y, **given)
        except SetpointError:
            continue
        assert (fold[fits[0].seen_] == -1).all()
        assert (fold[fits[0].scored_[0]] == 0).all()


# --- groups -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [None, 3, 0.3, GroupKFold(3)], ids=str)
@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.filterwarnings("ignore::setpoint.UncertifiedWarning")
def test_groups_stay_in_one_split(numbered, fits, cv, confidence):
    X, y = numbered
    groups = np.random.default_rng(1).integers(0, 40, len(y)).astype(str)
    clf = SetpointThreshold(Recorder(), FPOR(0.4), cv=cv, confidence=confidence, random_state=0)
    clf.fit(X, y, groups=groups)
    *parts, whole = fits
    for part in parts:
        assert not set(groups[part.seen_]) & set(groups[part.scored_[0]])
    if confidence is not None:
        (certifying,) = whole.scored_
        assert sum(clf.operating_point_.counts[2:]) == len(certifying)
        assert len(set(groups[certifying])) == len(certifying) == 12  # one row of each group
        assert not set(groups[certifying]) & set(groups[whole.seen_])
        assert set(groups[certifying]) | set(groups[whole.seen_]) == set(groups)
        for part in parts:
            assert set(part.seen_ + part.scored_[0]) <= set(whole.seen_)


def test_splits_that_separate_groups(numbered, fits):
    X, y = numbered
    groups = np.arange(len(y)) // 2
    for cv in ([(np.arange(201), np.arange(201, 400))], KFold(3, shuffle=True, random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # KFold says that it ignores groups
            with pytest.raises(SetpointError, match="one group on both sides"):
                SetpointThreshold(Recorder(), cv=cv).fit(X, y, groups=groups)
    assert not fits


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(399), "one entry per row"),
        (np.where(np.arange(400) == 7, np.nan, 1.0), "1 missing entries, the first at row 7"),
        (np.zeros(400), "cv has 2 folds, but the rows are of 1 group"),
    ],
)
def test_invalid_groups(numbered, fits, groups, message):
    X, y = numbered
    with pytest.raises(SetpointError, match=message):
        SetpointThreshold(Recorder()).fit(X, y, groups=groups)
    assert not fits


def test_a_fold_that_would_train_on_one_class(overlapping):
    """All positives are of one group: some fold cannot have any to train on."""
    X, y = overlapping
    groups = np.where(y == 1, -1, np.arange(len(y)))
    for classifier in (LOGISTIC, GaussianNB()):
        with pytest.raises(ValueError, match="class"):
            SetpointThreshold(classifier).fit(X, y, groups=groups)


# --- weights and other parameters of fit ----------------------------------------------------------


def test_weights_are_repetitions(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    clf = SetpointThreshold(clone(LOGISTIC).fit(X, y), FPOR(0.7), cv="prefit")
    weighted = clf.fit(X, y, sample_weight=weights).operating_point_
    repeated = clf.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).operating_point_
    assert weighted == repeated
    assert weighted != clf.fit(X, y).operating_point_


def test_weights_reach_the_classifier_and_the_counts(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).integers(1, 6, len(y)).astype(float)
    scores = cross_val_predict(
        LOGISTIC, X, y, cv=folds(), method="decision_function", params={"sample_weight": weights}
    )
    expected = choose_threshold(
        y, scores, "max f1", sample_weight=weights, on="the cross-fitted rows"
    )
    clf = SetpointThreshold(LOGISTIC, cv=folds()).fit(X, y, sample_weight=weights)
    assert clf.operating_point_ == expected
    alone = [
        choose_threshold(y[r], scores[r], "max f1", sample_weight=weights[r]).threshold
        for _, r in folds().split(X, y)
    ]
    assert clf.thresholds_.tolist() == alone
    whole = clone(LOGISTIC).fit(X, y, sample_weight=weights)
    assert (clf.decision_function(X) == whole.decision_function(X)).all()


def test_a_classifier_that_takes_no_weights_is_fitted_without(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).integers(1, 6, len(y)).astype(float)
    nearest = KNeighborsClassifier(9)
    scores = cross_val_predict(nearest, X, y, cv=folds(), method="predict_proba")[:, 1]
    clf = SetpointThreshold(nearest, cv=folds()).fit(X, y, sample_weight=weights)
    expected = choose_threshold(y, scores, "max f1", sample_weight=weights)
    assert clf.threshold_ == expected.threshold
    assert clf.operating_point_.counts == expected.counts


@pytest.mark.parametrize("cv", [None, 3, 0.3, folds(), "prefit"], ids=lambda cv: str(cv)[:12])
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_rows_without_weight_are_ignored(overlapping, cv, confidence):
    X, y = overlapping
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0)
    kept = weight > 0
    classifier = clone(LOGISTIC).fit(X, y) if cv == "prefit" else LOGISTIC
    clf = SetpointThreshold(
        classifier, "max precision s.t. recall >= 0.5", cv=cv, confidence=confidence,
        random_state=0,
    )  # fmt: skip
    spoilt = np.where(kept[:, None], X, 1e6 * X)
    with_them = clone(clf) if cv != "prefit" else clf
    with_them.fit(spoilt, np.where(kept, y, 1 - y), sample_weight=weight)
    found = with_them.operating_point_, with_them.predict(X), with_them.certificate_
    without = (clone(clf) if cv != "prefit" else clf).fit(X[kept], y[kept])
    assert found[0] == without.operating_point_
    assert (found[1] == without.predict(X)).all()
    assert found[2] == without.certificate_


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-1.0, "[Nn]egative"),
        (np.nan, "NaN"),
        (0.0, "non-zero|positive weight"),
    ],
)
def test_invalid_weights(overlapping, weight, message):
    X, y = overlapping
    for clf in (
        SetpointThreshold(LOGISTIC),
        SetpointThreshold(clone(LOGISTIC).fit(X, y), cv="prefit"),
    ):
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y, sample_weight=np.full(len(y), weight))
        with pytest.raises(ValueError, match="sample_weight"):
            clf.fit(X, y, sample_weight=np.ones(5))


def test_weights_must_leave_both_classes(overlapping):
    X, y = overlapping
    with pytest.raises(SetpointError, match="class 1 has 0 rows of positive weight"):
        SetpointThreshold(LOGISTIC).fit(X, y, sample_weight=1.0 - y)
    with pytest.raises(SetpointError, match="no positive samples"):
        SetpointThreshold(clone(LOGISTIC).fit(X, y), cv="prefit").fit(X, y, sample_weight=1.0 - y)


def test_fit_parameters_are_split_with_the_rows(numbered, fits):
    X, y = numbered
    marks = np.arange(len(y)) * 10
    SetpointThreshold(Recorder(), cv=3).fit(X, y, marks=marks)
    for fit in fits:
        assert (np.asarray(fit.marks_) == 10 * np.array(fit.seen_)).all()
        assert fit.weights_ is None
    fits.clear()
    SetpointThreshold(Recorder(), cv=3).fit(X, y, marks="the same for all")
    assert [fit.marks_ for fit in fits] == ["the same for all"] * 4


def test_the_parameters_of_a_pipelines_step_are_passed(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).integers(1, 6, len(y)).astype(float)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    given = {"logisticregression__sample_weight": weights}
    clf = SetpointThreshold(pipeline, cv=folds()).fit(X, y, **given)
    own = clone(pipeline).fit(X, y, **given)
    assert (clf.decision_function(X) == own.decision_function(X)).all()
    with pytest.raises(TypeError, match="unknown"):
        SetpointThreshold(LOGISTIC, cv=2).fit(X, y, unknown=1)


# --- metadata routing ---------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_metadata_go_where_they_are_requested(numbered, fits):
    X, y = numbered
    groups = np.arange(len(y)) // 8
    weights = 1.0 + np.arange(len(y)) % 3
    recorder = Recorder().set_fit_request(sample_weight=True, marks=True)
    clf = SetpointThreshold(recorder, cv=GroupKFold(4))
    clf.fit(X, y, sample_weight=weights, groups=groups, marks=groups)
    assert len(fits) == 5
    for fit in fits:
        assert (fit.weights_ == weights[fit.seen_]).all()
        assert (fit.marks_ == groups[fit.seen_]).all()
    for fit in fits[:-1]:
        assert not set(groups[fit.seen_]) & set(groups[fit.scored_[0]])
    expected = choose_threshold(y, X[:, 1], "max f1", sample_weight=weights)
    assert clf.operating_point_.counts == expected.counts


@pytest.mark.usefixtures("routing")
def test_weights_that_are_not_requested_still_count(numbered, fits):
    X, y = numbered
    weights = 1.0 + np.arange(len(y)) % 3
    clf = SetpointThreshold(Recorder().set_fit_request(sample_weight=False), cv=3)
    clf.fit(X, y, sample_weight=weights)
    assert all(fit.weights_ is None for fit in fits)
    assert sum(clf.operating_point_.counts[2:]) == weights.sum()
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        SetpointThreshold(Recorder(), cv=3).fit(X, y, sample_weight=weights)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("confidence", [None, 0.9])
@pytest.mark.filterwarnings("ignore::setpoint.UncertifiedWarning")
def test_routed_groups_stay_in_one_split(numbered, fits, confidence):
    X, y = numbered
    groups = np.arange(len(y)) // 8
    for cv in (None, 3, 0.3, GroupKFold(3)):
        fits.clear()
        SetpointThreshold(Recorder(), cv=cv, confidence=confidence).fit(X, y, groups=groups)
        for fit in fits:
            assert not any(set(groups[fit.seen_]) & set(groups[rows]) for rows in fit.scored_)


@pytest.mark.usefixtures("routing")
def test_metadata_reach_it_through_cross_validation(numbered, fits):
    X, y = numbered
    weights = 1.0 + np.arange(len(y)) % 3
    inner = Recorder().set_fit_request(sample_weight=True)
    clf = SetpointThreshold(inner, cv=2).set_fit_request(sample_weight=True)
    clf.set_score_request(sample_weight=False)
    cross_validate(clf, X, y, cv=folds(2), params={"sample_weight": weights})
    assert len(fits) == 6
    assert all((fit.weights_ == weights[fit.seen_]).all() for fit in fits)


@pytest.mark.usefixtures("routing")
def test_prefit_and_pairs_of_rows_work_with_routing(overlapping):
    X, y = overlapping
    classifier = clone(LOGISTIC).fit(X, y)
    clf = SetpointThreshold(classifier, cv="prefit").fit(X, y)
    assert (
        clf.threshold_ == choose_threshold(y, classifier.decision_function(X), "max f1").threshold
    )
    pair = np.arange(200), np.arange(200, 400)
    assert SetpointThreshold(LOGISTIC, cv=[pair]).fit(X, y).operating_point_.tp > 0


# --- as an estimator of scikit-learn --------------------------------------------------------------


def test_parameters_nest_and_clone(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(LogisticRegression(C=3.0), FPOR(0.7), cv=3, random_state=0)
    params = clf.get_params()
    assert params["estimator__C"] == 3.0
    assert {"goal", "cv", "refit", "confidence", "certification", "response_method"} < set(params)
    clf.set_params(estimator__C=0.01, goal="max f1").fit(X, y)
    assert clf.estimator_.C == 0.01
    assert not hasattr(clf.estimator, "coef_")  # the one given is not fitted
    copy = clone(clf)
    assert copy.estimator.C == 0.01
    assert not hasattr(copy, "threshold_")
    assert copy.fit(X, y).threshold_ == clf.threshold_


def test_a_grid_search_goes_through_it(overlapping):
    X, y = overlapping
    search = GridSearchCV(
        SetpointThreshold(LOGISTIC, cv=2, random_state=0),
        {"estimator__C": [1e-4, 1.0], "goal": ["max f1", FPOR(0.8)]},
        scoring=make_scorer(recall_score),
        cv=folds(2),
    ).fit(X, y)
    assert search.best_params_["goal"] == "max f1"
    assert search.best_score_ > 0.5
    assert search.best_estimator_.goal_.objective.name == "f1"
    by_hand = [
        recall_score(y[rows], clone(search.best_estimator_).fit(X[t], y[t]).predict(X[rows]))
        for t, rows in folds(2).split(X, y)
    ]
    assert search.best_score_ == pytest.approx(np.mean(by_hand))


def test_pickle_keeps_decisions(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(
        LOGISTIC, "max recall s.t. precision >= 0.5", confidence=0.8, random_state=0
    ).fit(X, np.where(y == 1, "b", "a"))
    copy = pickle.loads(pickle.dumps(clf))
    assert (copy.predict(X) == clf.predict(X)).all()
    assert copy.operating_point_ == clf.operating_point_
    assert copy.certificate_ == clf.certificate_


def test_only_the_classifiers_own_methods_are_there(overlapping):
    X, y = overlapping
    for classifier, there, missing in (
        (LinearSVC(), "decision_function", "predict_proba"),
        (GaussianNB(), "predict_proba", "decision_function"),
    ):
        clf = SetpointThreshold(classifier, cv=2)
        assert hasattr(clf, there)
        assert not hasattr(clf, missing)
        with pytest.raises(NotFittedError):
            getattr(clf, there)(X)
        clf.fit(X, y)
        assert hasattr(clf, there)
        assert not hasattr(clf, missing)
        with pytest.raises(AttributeError, match=missing):
            getattr(clf, missing)
        own = getattr(clone(classifier).fit(X, y), there)(X)
        assert (getattr(clf, there)(X) == own).all()
    clf = SetpointThreshold(LOGISTIC)
    assert hasattr(clf, "predict_proba")
    assert hasattr(clf, "decision_function")


def test_not_fitted(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(clone(LOGISTIC).fit(X, y))  # the classifier is, the threshold is not
    for ask in (clf.predict, clf.positive_scores, clf.predict_proba, clf.decision_function):
        with pytest.raises(NotFittedError):
            ask(X)
    for ask in (clf.evaluate, clf.score):
        with pytest.raises(NotFittedError):
            ask(X, y)


@pytest.mark.parametrize("confidence", [None, 0.8])
def test_a_failed_fit_leaves_the_earlier_one_as_it_was(shop, confidence):
    frame, labels = shop
    X, y = frame[["a", "b", "c"]], labels
    clf = SetpointThreshold(LOGISTIC, FPOR(0.5), confidence=confidence, pos_label="fraud")
    clf.set_params(random_state=0).fit(X, y)
    before, decided = fitted(clf), clf.predict(X)
    assert {"estimator_", "threshold_", "thresholds_", "certificate_", "classes_"} < set(before)
    spoilt = [
        ({"estimator": Scores(lambda X: np.full(len(X), np.nan))}, {}, "NaN"),
        ({"estimator": GaussianNB(), "response_method": "decision_function"}, {}, "has no"),
        ({"goal": "max nothing"}, {}, "nothing"),
        ({"pos_label": "other"}, {}, "is not in y"),
        ({"cv": 300}, {}, "fewer folds"),
        ({}, {"sample_weight": -np.ones(len(y))}, "[Nn]egative"),
        ({}, {"groups": np.zeros(len(y))}, "split|group"),
    ]
    original = clf.get_params(deep=False)
    for params, given, message in spoilt:
        clf.set_params(**original).set_params(**params)
        with pytest.raises(ValueError, match=message):
            clf.fit(X, y, **given)
        after = fitted(clf)
        assert after.keys() == before.keys()
        assert all(after[name] is before[name] for name in before)
        clf.set_params(**original)
        assert (clf.predict(X) == decided).all()


@pytest.mark.parametrize("confidence", [None, 0.8])
def test_the_same_seed_gives_the_same(overlapping, confidence):
    X, y = overlapping
    clf = SetpointThreshold(
        RandomForestClassifier(3, random_state=0), FPOR(0.5), confidence=confidence
    )
    one, two = (clone(clf).set_params(random_state=7).fit(X, y) for _ in range(2))
    assert one.operating_point_ == two.operating_point_
    assert one.thresholds_.tolist() == two.thresholds_.tolist()
    assert one.certificate_ == two.certificate_
    again = clone(clf).set_params(random_state=np.random.RandomState(7)).fit(X, y)
    assert again.operating_point_ == one.operating_point_
    others = [clone(clf).set_params(random_state=seed).fit(X, y) for seed in (8, 9)]
    assert any(other.operating_point_ != one.operating_point_ for other in others)


def test_several_jobs_give_the_same(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(LOGISTIC, cv=folds())
    weights = 1.0 + np.arange(len(y)) % 2
    one = clone(clf).fit(X, y, sample_weight=weights)
    with joblib.parallel_config(backend="threading"):  # processes would have to import torch
        two = clone(clf).set_params(n_jobs=2).fit(X, y, sample_weight=weights)
    assert one.operating_point_ == two.operating_point_
    assert one.thresholds_.tolist() == two.thresholds_.tolist()
    assert (one.predict(X) == two.predict(X)).all()


# --- what cannot be had -------------------------------------------------------------------------


def test_an_infeasible_goal_is_reported_not_hidden():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.random(300) < 0.3
    clf = SetpointThreshold(LOGISTIC, "max f1 s.t. precision >= 0.9, recall >= 0.9")
    with pytest.warns(InfeasibleGoalWarning, match="On the cross-fitted rows .*is not met") as told:
        clf.fit(X, y)
    assert not clf.operating_point_.feasible
    assert told[0].filename == __file__
    assert clf.predict(X).shape == y.shape


def test_predicting_nothing_is_reported():
    X = np.linspace(-1, 1, 60)[:, None]
    y = np.where(np.abs(X[:, 0]) < 0.3, 1, 0)  # negatives at both ends
    clf = SetpointThreshold(LOGISTIC, "max recall s.t. precision >= 0.95", cv=folds())
    with pytest.warns(InfeasibleGoalWarning, match="nothing is predicted positive"):
        clf.fit(X, y)
    assert clf.operating_point_.empty


def test_unknown_labels_cannot_be_evaluated(overlapping):
    X, y = overlapping
    clf = SetpointThreshold(LOGISTIC, cv=2).fit(X, np.where(y == 1, "fraud", "fine"))
    with pytest.raises(SetpointError, match=r"labels 'FRAUD', which were not there.*'fine'"):
        clf.evaluate(X, np.where(y == 1, "FRAUD", "fine"))


def test_evaluation_counts_what_predictions_do(overlapping):
    X, y = overlapping
    labels = np.where(y == 1, "a", "b")
    clf = SetpointThreshold(LOGISTIC, FPOR(0.7), pos_label="a", cv=folds()).fit(X, labels)
    weights = 1.0 + np.arange(len(y)) % 3
    point = clf.evaluate(X, labels, sample_weight=weights, on="all of it")
    alarm = clf.predict(X) == "a"
    assert point.tp == weights[alarm & (y == 1)].sum()
    assert point.fp == weights[alarm & (y == 0)].sum()
    assert point.on == "all of it"
    assert point.goal == clf.goal_
    assert clf.evaluate(X[y == 0], labels[y == 0]).fp == (alarm & (y == 0)).sum()


def nullable_rows():
    """Return numbers and booleans with missing values, as NaN and as nullable columns, and y."""
    rng = np.random.default_rng(0)
    plain = pd.DataFrame(rng.normal(size=(300, 3)).round(1), columns=["a", "b", "c"])
    y = plain["a"] + plain["b"] + rng.normal(size=300) > 1
    plain["b"] = (plain["b"] * 10).round()
    plain["c"] = (plain["c"] > 0).astype(float)
    plain.loc[::7, ["b", "c"]] = np.nan
    return plain, plain.astype({"a": "Float64", "b": "Int64", "c": "boolean"}), y


def test_nullable_columns_are_the_same_as_floats():
    plain, nullable, y = nullable_rows()
    for model in (make_pipeline(SimpleImputer(), LOGISTIC), HistGradientBoostingClassifier()):
        clf, other = (SetpointThreshold(model, random_state=0) for _ in range(2))
        clf.fit(nullable, y)
        other.fit(plain, y)
        assert np.array_equal(clf.positive_scores(nullable), other.positive_scores(plain))
        assert clf.predict(nullable).tolist() == other.predict(plain).tolist()


@pytest.mark.parametrize("model", [SetpointThreshold(LOGISTIC), SetpointClassifier()])
def test_missing_nullable_values_are_refused_by_fit_and_predict(model):
    _, nullable, y = nullable_rows()
    clf = clone(model)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        clf.fit(nullable, y)
    clf.fit(nullable.fillna({"b": 0, "c": False}), y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        clf.predict(nullable)
