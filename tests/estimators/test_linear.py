"""Coefficients of linear models of arrays: the score is their weighted sum."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import logit
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from setpoint import SetpointBand, SetpointClassifier, SetpointError, SetpointThreshold
from setpoint.estimators.linear import linear_score

pytestmark = pytest.mark.filterwarnings("ignore::setpoint.InfeasibleGoalWarning")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal([5, -100, 0.001, 3], [1, 30, 0.0004, 0], (300, 4))
    y = (X[:, 0] - 5) - (X[:, 1] + 100) / 60 + rng.normal(0, 0.7, 300) > 1
    return X, y


def weighted_sum(found, X):
    """Return the score from the public fields alone."""
    columns = {f"x{i}": i for i in range(X.shape[1])}
    return found.intercept + sum(c.coefficient * X[:, columns[c.column]] for c in found)


def test_classifier(rows):
    X, y = rows
    clf = SetpointClassifier("max f1", random_state=0).fit(X, y)
    found = clf.coefficients()
    assert weighted_sum(found, X) == pytest.approx(clf.positive_scores(X), abs=1e-9)
    assert found[0].column == "x0"
    assert found[0].per_deviation == pytest.approx(found[0].coefficient * X[:, 0].std(), rel=0.1)
    constant = next(c for c in found if c.column == "x3")
    assert (constant.coefficient, constant.per_deviation) == (0, 0)
    assert found.of == "score"


def test_the_first_label_may_be_positive_and_features_unscaled(rows):
    X, y = rows
    clf = SetpointClassifier(
        "max f1", random_state=0, pos_label=0, standardize=False, solver="cross_entropy"
    ).fit(X / 100, y)
    found = clf.coefficients()
    assert weighted_sum(found, X / 100) == pytest.approx(clf.positive_scores(X / 100), abs=1e-9)
    assert np.isnan(found[0].per_deviation)
    known = clf.coefficients(X / 100)
    one = next(c for c in known if c.column == "x1")
    assert one.per_deviation == pytest.approx(one.coefficient * X[:, 1].std() / 100)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(with_mean=False), LinearSVC()),
        make_pipeline(StandardScaler(with_std=False), MinMaxScaler(), RidgeClassifier()),
        make_pipeline(RobustScaler(), "passthrough", SGDClassifier(random_state=0)),
        make_pipeline(MaxAbsScaler(), StandardScaler(), LogisticRegression()),
        GridSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}, cv=2),
        make_pipeline(MinMaxScaler(), SetpointClassifier("max f1", random_state=0)),
    ],
    ids=lambda model: str(getattr(model, "steps", [["", model]])[-1][1]),
)
@pytest.mark.parametrize("positive", [True, False])
def test_wrapped(rows, model, positive):
    X, y = rows
    clf = SetpointThreshold(
        model, "max f1", cv=0.3, refit=False, random_state=0, pos_label=positive
    )
    clf.fit(X, y)
    scores = clf.positive_scores(X) - clf.threshold_
    assert weighted_sum(clf.coefficients(), X) == pytest.approx(scores, abs=1e-8)


def test_deviations_survive_several_scalers(rows):
    X, y = rows
    model = make_pipeline(MinMaxScaler(), StandardScaler(), LogisticRegression())
    clf = SetpointThreshold(model, "max f1", cv="prefit").set_params(estimator=model.fit(X, y))
    found = clf.fit(X, y).coefficients()
    for one in found:
        i = int(one.column[1])
        assert one.per_deviation == pytest.approx(one.coefficient * X[:, i].std())
    score = linear_score(clf)
    assert score.means == pytest.approx(X.mean(axis=0))
    moved = score.contributions(X)
    average = float(score.weights @ X.mean(axis=0)) + score.intercept
    assert moved.sum(axis=1) + average == pytest.approx(
        clf.positive_scores(X) - clf.threshold_, abs=1e-9
    )


def test_probabilities_have_log_odds(rows):
    X, y = rows
    model = make_pipeline(StandardScaler(), LogisticRegression())
    clf = SetpointThreshold(model, "max f1", response_method="predict_proba", random_state=0)
    found = clf.fit(X, y).coefficients()
    assert found.of == "log-odds"
    wanted = logit(clf.positive_scores(X)) - logit(clf.threshold_)
    assert weighted_sum(found, X) == pytest.approx(wanted, abs=1e-6)
    assert "log-odds" in str(found)


def test_sparse_weights_and_names(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=["a,b", "<script>", "größe", "x"])
    model = LogisticRegression().fit(frame, y).sparsify()
    assert sparse.issparse(model.coef_)
    clf = SetpointThreshold(model, "max f1", cv="prefit").fit(frame, y)
    assert {c.feature for c in clf.coefficients()} == set(frame)


def test_features_of_an_encoder_have_its_names(rows):
    X, y = rows
    frame = pd.DataFrame({"a": X[:, 0], "where": np.where(X[:, 1] > -90, "far", "near")})
    encoder = make_column_transformer((OneHotEncoder(), ["where"]), (StandardScaler(), ["a"]))
    model = make_pipeline(encoder, LogisticRegression())
    clf = SetpointThreshold(model, "max f1", cv=0.3, random_state=0).fit(frame, y)
    found = clf.coefficients(frame)
    assert {c.feature for c in found} == {
        "onehotencoder__where_far", "onehotencoder__where_near", "standardscaler__a"
    }  # fmt: skip
    features = linear_score(clf).features(frame)
    scores = found.intercept + features @ linear_score(clf).weights
    assert scores == pytest.approx(clf.positive_scores(frame) - clf.threshold_)


def test_polynomials_have_names(rows):
    X, y = rows
    model = make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression())
    clf = SetpointThreshold(model, "max f1", cv=0.3, random_state=0).fit(X, y)
    found = clf.coefficients()
    assert {"x0", "x0 x1", "x1^2"} <= {c.feature for c in found}


def test_review_bands_have_the_score_itself(rows):
    X, y = rows
    goal = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.6"
    clf = SetpointBand(LogisticRegression(), goal, random_state=0).fit(X, y)
    assert weighted_sum(clf.coefficients(), X) == pytest.approx(clf.positive_scores(X))


def test_several_positive_labels(rows):
    X, y = rows
    labels = np.where(y, np.where(X[:, 2] > 0.001, "a", "b"), "c")
    clf = SetpointThreshold(LogisticRegression(), "max f1", pos_label=["a", "b"], random_state=0)
    clf.fit(X, labels)
    scores = clf.positive_scores(X) - clf.threshold_
    assert weighted_sum(clf.coefficients(), X) == pytest.approx(scores)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (HistGradientBoostingClassifier(max_iter=2), "HistGradientBoosting"),
        (make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=2)), "and Hist"),
    ],
)
def test_other_models_have_none(rows, model, what):
    X, y = rows
    clf = SetpointThreshold(model, "max f1", cv=0.3, random_state=0).fit(X, y)
    with pytest.raises(SetpointError, match=f"not of .*{what}.*permutation_importance"):
        clf.coefficients()


def test_networks_have_none(rows, short_ordinary):
    X, y = rows
    clf = SetpointClassifier("max f1", model="mlp", solver="cross_entropy", random_state=0)
    with pytest.raises(SetpointError, match="network"):
        clf.fit(X[:60], y[:60]).coefficients()


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (SetpointClassifier("max f1", random_state=0), "a SetpointClassifier"),
        (make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss")), "StandardScaler and SGD"),
    ],
)
def test_probabilities_of_other_models_have_none(rows, model, what):
    X, y = rows
    clf = SetpointThreshold(model, "max f1", response_method="predict_proba", cv=0.3, refit=False)
    with pytest.raises(
        SetpointError, match=f"logistic regression.* not of {what}.*decision_f"
    ) as e:
        clf.fit(X, y).coefficients()
    assert "network" not in str(e.value)


def test_decisions_with_prices_or_segments_have_none(rows):
    X, y = rows
    amounts = {"amount": np.abs(X[:, 1])}
    clf = SetpointThreshold(
        LogisticRegression(), "min cost(fp=5, fn=amount)", decision="expected_value", random_state=0
    ).fit(X, y, amounts=amounts)
    with pytest.raises(SetpointError, match="prices of each row"):
        clf.coefficients()
    segments = {"place": np.where(X[:, 0] > 5, "a", "b")}
    clf = SetpointThreshold(
        LogisticRegression(), "max recall s.t. precision >= 0.5 for each place",
        thresholds="per group", random_state=0,
    ).fit(X, y, segments=segments)  # fmt: skip
    with pytest.raises(SetpointError, match="threshold of each segment"):
        clf.coefficients()
