import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

from setpoint import SetpointError, choose_threshold
from setpoint.estimators.cross_fit import Fold, LabelledRows, cv_splits
from setpoint.goals.goal import Goal


def table(n=200, *, weight=None, groups=None, pos_label=None, X=None, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    own = rng.normal(size=(n, 2)) + 1.5 * y[:, None]
    return LabelledRows.of(own if X is None else X, y.astype(int), weight, groups, pos_label)


def test_labelled_rows_have_labels_weights_and_groups():
    t = LabelledRows.of([[1.0], [2.0], [3.0]], ["b", "a", "b"], [1, 0, 2], ["x", "y", "y"], "a")
    assert t.labels.classes.tolist() == ["a", "b"]
    assert t.positive.tolist() == [False, True, False]
    assert t.weight.tolist() == [1.0, 0.0, 2.0]
    assert t.groups.tolist() == ["x", "y", "y"]
    assert t.rows.tolist() == [0, 2]  # those that have a weight
    assert table(n=5).rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "kind", [np.asarray, np.ndarray.tolist, pd.DataFrame, sparse.csr_array, sparse.coo_array]
)
def test_rows_of_any_type_are_split_alike(kind):
    t = table()
    rows = np.array([3, 5, 8, 13, 21, 34, 55, 89, 144])
    other = table(X=kind(t.X))
    one, two = (x.fit(LogisticRegression(), np.arange(50, 200), {}) for x in (t, other))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-6)
    first, second = (
        x.score(c, rows, "auto").scores for x, c in ((t, one), (other, two))
    )  # fmt: skip
    np.testing.assert_allclose(first, second, rtol=1e-6)
    np.testing.assert_allclose(first, one.decision_function(t.X[rows]), rtol=1e-12)


def test_cross_fitting_is_what_scikit_learn_does():
    t = table()
    cv = StratifiedKFold(4)
    splits = cv_splits(cv, t, t.rows, 0, {})
    folds = t.cross_fit(LogisticRegression(), splits, {}, "auto", None)
    merged = Fold.merged("the one", folds)
    expected = cross_val_predict(LogisticRegression(), t.X, t.y, cv=cv, method="decision_function")
    assert merged.classifier == "the one"
    assert sorted(merged.rows) == list(range(200))
    assert (merged.scores == expected[merged.rows]).all()
    assert [len(fold.rows) for fold in folds] == [50] * 4
    goal = Goal.parse("max f1")
    point = choose_threshold(t.y, expected, goal, on="here")
    assert t.point(merged, goal, "here") == point


def test_a_fold_of_one_class_has_no_threshold():
    t = table()
    goal = Goal.parse("max f1")
    all_rows = Fold(None, t.rows, t.X[:, 0])
    negatives = np.flatnonzero(~t.positive)
    found = t.thresholds([all_rows, Fold(None, negatives, t.X[negatives, 0])], goal)
    assert found.tolist() == [choose_threshold(t.y, t.X[:, 0], goal).threshold]


def test_points_are_weighted():
    weight = np.random.default_rng(1).integers(0, 4, 200).astype(float)
    t = table(weight=weight)
    rows = t.rows
    goal = Goal.parse("max recall s.t. precision >= 0.8")
    found = t.point(Fold(None, rows, t.X[rows, 0]), goal, "here")
    again = np.repeat(np.arange(200), weight.astype(int))
    assert found == choose_threshold(t.y[again], t.X[again, 0], goal, on="here")


def test_rows_and_folds_can_be_pickled():
    t = table(weight=np.ones(200), groups=np.arange(200))
    copy = pickle.loads(pickle.dumps(t))
    assert (copy.X == t.X).all()
    assert (copy.positive == t.positive).all()
    fold = t.score(GaussianNB().fit(t.X, t.y), t.rows, "auto")
    assert (pickle.loads(pickle.dumps(fold)).scores == fold.scores).all()


# --- splits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [None, 2, 7])
@pytest.mark.parametrize("grouped", [False, True])
def test_numbers_are_folds_among_the_rows_given(cv, grouped):
    groups = np.random.default_rng(0).integers(0, 50, 200) if grouped else None
    t = table(groups=groups)
    rows = np.flatnonzero(np.arange(200) % 5 > 0)
    splits = cv_splits(cv, t, rows, 3, {})
    assert len(splits) == (5 if cv is None else cv)
    assert sorted(np.concatenate([held for _, held in splits])) == rows.tolist()
    for train, held in splits:
        assert sorted([*train, *held]) == rows.tolist()
        share, tolerance = t.positive[rows].mean(), 0.2 if grouped else 0.05
        assert t.positive[held].mean() == pytest.approx(share, abs=tolerance)
        if grouped:
            assert not set(groups[train]) & set(groups[held])
    again, other = cv_splits(cv, t, rows, 3, {}), cv_splits(cv, t, rows, 4, {})
    assert (again[0][1] == splits[0][1]).all()
    assert set(other[0][1]) != set(splits[0][1])


@pytest.mark.parametrize("grouped", [False, True])
def test_a_fraction_is_one_split_of_the_rows_given(grouped):
    groups = np.arange(200) // 2 if grouped else None
    t = table(groups=groups)
    rows = np.arange(40, 200)
    ((train, held),) = cv_splits(0.25, t, rows, 0, {})
    assert len(held) == 40
    assert sorted([*train, *held]) == rows.tolist()
    if grouped:
        assert not set(groups[train]) & set(groups[held])


def test_splitters_split_only_the_rows_given():
    t = table(groups=np.arange(200) // 4)
    rows = np.arange(40, 200)
    for splitter in (KFold(4), GroupKFold(4), StratifiedKFold(4, shuffle=True, random_state=0)):
        t = table(groups=np.arange(200) // 4 if isinstance(splitter, GroupKFold) else None)
        found = cv_splits(splitter, t, rows, 0, {})
        groups = None if t.groups is None else t.groups[rows]
        expected = list(splitter.split(t.X[rows], t.y[rows], groups))
        assert len(found) == len(expected) == 4
        for pair, inner in zip(found, expected, strict=True):
            assert [part.tolist() for part in pair] == [rows[part].tolist() for part in inner]


def test_routed_groups_go_to_the_splitter():
    groups = np.arange(200) // 4
    t, rows = table(), np.arange(40, 200)
    found = cv_splits(GroupKFold(4), t, rows, 0, {"groups": groups})
    for train, held in found:
        assert not set(groups[train]) & set(groups[held])
        assert sorted([*train, *held]) == rows.tolist()


def test_pairs_index_all_rows_and_omit_those_not_given():
    t = table()
    rows = np.flatnonzero(np.arange(200) % 2 == 0)
    pairs = [(np.arange(100), np.arange(100, 200)), (np.arange(100, 200), np.arange(100))]
    for given in (pairs, iter(pairs), [[p.tolist() for p in pair] for pair in pairs]):
        found = cv_splits(given, t, rows, 0, {})
        assert [[p.tolist() for p in pair] for pair in found] == [
            [list(range(0, 100, 2)), list(range(100, 200, 2))],
            [list(range(100, 200, 2)), list(range(0, 100, 2))],
        ]


def test_a_rare_class_has_as_many_folds_as_rows():
    y = np.arange(30) < 3
    t = LabelledRows.of(np.arange(30.0)[:, None], y, None, None, None)
    assert len(cv_splits(None, t, t.rows, 0, {})) == 3
    with pytest.raises(SetpointError, match="cv has 4 folds, but the smaller class only 3 rows"):
        cv_splits(4, t, t.rows, 0, {})
    with pytest.raises(SetpointError, match="cv has 2 folds, but the smaller class only 1"):
        cv_splits(None, t, np.arange(2, 30), 0, {})
