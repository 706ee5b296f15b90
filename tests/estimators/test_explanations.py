"""Permutation importance and nearest rows of arrays, frames and sparse matrices."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from setpoint import SetpointBand, SetpointError, SetpointThreshold

pytestmark = pytest.mark.filterwarnings("ignore::setpoint.InfeasibleGoalWarning")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    return X, X[:, 1] + rng.normal(0, 0.5, 600) > 1


def order(found):
    return [one.columns for one in found]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, pd.DataFrame, np.ndarray.tolist])
def test_any_kind_of_rows(rows, make):
    X, y = rows
    clf = SetpointThreshold(LogisticRegression(), "max recall s.t. precision >= 0.7", cv=0.3,
                            random_state=0).fit(make(X[:400]), y[:400])  # fmt: skip
    if make is pd.DataFrame:
        clf.fit(make(X[:400]).rename(columns=str), y[:400])
        found = clf.permutation_importance(make(X[400:]).rename(columns=str), y[400:])
        assert order(found)[0] == ("1",)
    else:
        found = clf.permutation_importance(make(X[400:]), y[400:])
        assert order(found)[0] == ("x1",)
    assert found.metrics == ("recall", "precision")
    assert len(found) == 3


def test_rows_are_called_those_given_unless_told_otherwise(rows):
    X, y = rows
    clf = SetpointThreshold(LogisticRegression(), "max f1", cv=0.3, random_state=0).fit(X, y)
    assert "on the rows given (600 rows" in str(clf.permutation_importance(X, y))
    assert "on the new rows (600 rows" in str(clf.permutation_importance(X, y, on="the new rows"))


def test_columns_of_mixed_kinds_keep_their_types(rows):
    X, y = rows
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2].round().astype(int)})
    frame["kind"] = pd.Categorical(np.where(X[:, 1] > 1, "high", "low"))
    frame.index = frame.index[::-1]
    trees = HistGradientBoostingClassifier(max_iter=5, categorical_features=["kind"])
    clf = SetpointThreshold(trees, "max f1", cv=0.3, random_state=0).fit(frame[:400], y[:400])
    found = clf.permutation_importance(
        frame[400:], y[400:], columns=["c"], together=[["b", "kind"]], max_rows=100
    )
    assert order(found) == [("b", "kind"), ("c",)]
    assert (found.rows, found.of_rows) == (100, 200)
    assert found[0].drops[0] > 0.1


def test_weights_count_as_copies(rows):
    X, y = rows
    clf = SetpointThreshold(LogisticRegression(), random_state=0).fit(X[:300], y[:300])
    weight = np.where(X[300:, 2] > 0, 2.0, 0.0)
    found = clf.permutation_importance(X[300:], y[300:], weight, repeats=3)
    kept = X[300:, 2] > 0
    assert found.point.tp == 2 * clf.evaluate(X[300:][kept], y[300:][kept]).tp
    assert found.rows == kept.sum()


def test_bands_prices_and_segments(rows):
    X, y = rows
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.6"
    band = SetpointBand(LogisticRegression(), goal, random_state=0).fit(X, y)
    assert order(band.permutation_importance(X, y))[0] == ("x1",)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        amount=np.abs(X[:, 0]), place=np.where(X[:, 2] > 0, 1.0, 2.0)
    )
    clf = SetpointThreshold(
        LogisticRegression(), "min cost(fp=1, fn=amount) s.t. recall >= 0.1 for each place",
        random_state=0,
    ).fit(frame, y)  # fmt: skip
    found = clf.permutation_importance(frame, y, max_rows=300)
    assert order(found)[0] == ("b",)
    assert found.metrics[1] == "recall for each place"


def test_mistakes(rows):
    X, y = rows
    clf = SetpointThreshold(LogisticRegression(), random_state=0).fit(X, y)
    with pytest.raises(SetpointError, match="no positive rows"):
        clf.permutation_importance(X[~y], y[~y])
    with pytest.raises(SetpointError, match="max_rows"):
        clf.permutation_importance(X, y, max_rows=1)
    with pytest.raises(SetpointError, match="no column 'y'"):
        clf.permutation_importance(X, y, columns=["y"])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, pd.DataFrame])
def test_contributions_and_the_average_add_up_to_the_score(rows, make):
    X, y = rows
    make_rows = (
        (lambda X: pd.DataFrame(X, columns=["a", "b", "c"])) if make is pd.DataFrame else make
    )
    model = make_pipeline(StandardScaler(with_mean=False), LogisticRegression())
    clf = SetpointThreshold(model, "max f1", cv=0.3, random_state=0).fit(make_rows(X), y)
    found = clf.nearest_rows(make_rows(X), y, each_side=3, values=True)
    scores = clf.positive_scores(make_rows(X)) - clf.threshold_
    assert [row.is_alarm for row in found] == [True] * 3 + [False] * 3
    for row in found:
        assert row.score == scores[row.number - 1]
        assert found.average + sum(row.contributions.values()) == pytest.approx(row.score)
        assert row.label == str(y[row.number - 1])
        name, value = next(iter(row.values.items()))
        place = ["a", "b", "c"].index(name) if make is pd.DataFrame else int(name[1])
        assert float(value) == pytest.approx(X[row.number - 1, place])
    assert found[2].score == min(scores[scores > 0])
    assert clf.nearest_rows(make_rows(X))[0].label is None


def test_nearest_rows_of_other_models(rows):
    X, y = rows
    trees = HistGradientBoostingClassifier(max_iter=3)
    clf = SetpointThreshold(trees, "max f1", cv=0.3, random_state=0).fit(X, y)
    found = clf.nearest_rows(X, y, each_side=1, values=True)
    assert found.average is None
    assert found[0].contributions == found[0].values == {}
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.6"
    band = SetpointBand(LogisticRegression(), goal, random_state=0).fit(X, y)
    with pytest.raises(SetpointError, match="review band has two thresholds"):
        band.nearest_rows(X)


def test_probabilities_are_moved_in_log_odds(rows):
    X, y = rows
    clf = SetpointThreshold(
        LogisticRegression(), "max f1", response_method="predict_proba", random_state=0
    ).fit(X, y)
    found = clf.nearest_rows(X, each_side=1)
    assert found.of == "log-odds"
    assert "moved the log-odds" in str(found)


def test_features_that_are_made_of_columns_show_no_values(rows):
    X, y = rows
    model = make_pipeline(PolynomialFeatures(2), LogisticRegression())
    clf = SetpointThreshold(model, "max f1", cv=0.3, random_state=0).fit(X, y)
    row = clf.nearest_rows(X, each_side=1, values=True)[0]
    assert "x0 x1" in row.contributions
    assert row.values == {}
