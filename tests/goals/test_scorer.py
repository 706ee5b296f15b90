"""``Goal.scorer``: decisions of classifiers as one number, in scikit-learn's searches."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setpoint import Goal, SetpointError, SetpointThreshold, evaluate_threshold
from setpoint.goals.scorer import GoalScore

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=400) > 0.8).astype(int)
FLOOR = Goal.parse("max recall s.t. precision >= 0.8")


class At(ClassifierMixin, BaseEstimator):
    """An alarm where the first column is above a threshold."""

    def __init__(self, threshold=0.0, labels=(0, 1)):
        self.threshold, self.labels = threshold, labels

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array(sorted(self.labels))
        return self

    def predict(self, X):
        return np.array(self.labels)[(X[:, 0] > self.threshold).astype(int)]


def at(threshold, goal=FLOOR, sample_weight=None):
    model = At(threshold).fit(X, Y)
    return goal.scorer()(model, X, Y, sample_weight=sample_weight)


def test_feasible_decisions_score_their_objective():
    point = evaluate_threshold(Y, X[:, 0], 1.5, FLOOR)
    assert point.feasible
    assert at(1.5) == pytest.approx(point.recall)
    cost = Goal.parse("min cost(fp=5, fn=100)")
    assert at(0.5, cost) == pytest.approx(-evaluate_threshold(Y, X[:, 0], 0.5, cost).objective)


@pytest.mark.parametrize(
    "text",
    ["max recall s.t. precision >= 0.8", "min fpr s.t. precision >= 0.8", "max mcc s.t. precision"
     " >= 0.8", "min cost(fp=5, fn=100) s.t. precision >= 0.8", "max profit(tp=9, fp=-1) s.t. "
     "precision >= 0.8"],
)  # fmt: skip
def test_infeasible_decisions_rank_below_feasible_ones_by_violation(text):
    goal = Goal.parse(text)
    cuts = np.quantile(X[:, 0], np.linspace(0, 0.995, 60))
    points = [evaluate_threshold(Y, X[:, 0], cut, goal) for cut in cuts]
    scores = np.array([at(cut, goal) for cut in cuts])
    feasible = np.array([point.feasible for point in points])
    assert 0 < feasible.sum() < len(cuts)
    assert scores[~feasible].max() < scores[feasible].min()
    violations = np.array([point.violation for point in points])[~feasible]
    assert (np.diff(scores[~feasible][np.argsort(violations)]) <= 1e-12).all()


def test_without_alarms_precision_is_no_success():
    goal = Goal.parse("max precision")
    assert at(1e9, goal) == 0
    assert at(0.5, goal) > 0
    assert at(1e9) == 0  # the floor holds by convention, and recall is 0


def test_searches_use_it():
    goal = Goal.parse("max f1")
    assert cross_val_score(At(0.5), X, Y, scoring=goal.scorer()) == pytest.approx(
        cross_val_score(At(0.5), X, Y, scoring="f1")
    )
    found = GridSearchCV(At(), {"threshold": [-1.0, 0.5, 1.2, 9.0]}, scoring=FLOOR.scorer())
    scores = found.fit(X, Y).cv_results_["mean_test_score"]
    assert found.best_params_["threshold"] == 1.2
    assert scores[0] < scores[1] < scores[2]
    assert scores[0] < scores[3] < scores[2]
    tuned = SetpointThreshold(make_pipeline(StandardScaler(), LogisticRegression()), goal, cv=0.3)
    grid = {"estimator__logisticregression__C": [0.01, 1.0]}
    assert GridSearchCV(tuned, grid, scoring=goal.scorer(), cv=2).fit(X, Y).best_score_ > 0.5


def test_labels_of_any_kind():
    names = np.where(Y == 1, "fraud", "ok")
    model = At(1.0, ("ok", "fraud")).fit(X, names)
    assert FLOOR.scorer(pos_label="fraud")(model, X, names) == pytest.approx(at(1.0))
    with pytest.raises(SetpointError, match="pass pos_label"):
        FLOOR.scorer()(model, X, names)
    signs = 2 * Y - 1
    assert FLOOR.scorer()(At(1.0, (-1, 1)).fit(X, signs), X, signs) == pytest.approx(at(1.0))
    booleans = At(1.0, (False, True)).fit(X, Y)
    assert FLOOR.scorer(pos_label=1)(booleans, X, Y) == pytest.approx(at(1.0))
    three = np.where(Y == 1, RNG.integers(1, 3, 400), 0)
    several = SetpointThreshold(LogisticRegression(), "max f1", pos_label=[1, 2], cv=0.3)
    several.fit(X, three)
    score = Goal.parse("max f1").scorer(pos_label=[1, 2])(several, X, three)
    assert score == pytest.approx(several.evaluate(X, three).f1)


def test_weights_and_columns_are_routed():
    weight = RNG.integers(1, 5, 400)
    point = evaluate_threshold(Y, X[:, 0], 1.5, FLOOR, sample_weight=weight)
    assert at(1.5, sample_weight=weight) == pytest.approx(point.recall)
    with pytest.raises(SetpointError, match="sample_weight has the shape"):
        at(1.5, sample_weight=weight[1:])
    amount = RNG.exponential(size=400) * 100
    goal = Goal.parse("min cost(fp=5, fn=amount) s.t. recall[amount] >= 0.2")
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = goal.scorer().set_score_request(amounts=True, sample_weight=True)
        given = {"amounts": pd.DataFrame({"amount": amount}), "sample_weight": weight}
        model = At(0.5).set_fit_request(sample_weight=False)
        (score, _) = cross_val_score(model, X, Y, scoring=scorer, cv=[(range(9), range(400))] * 2,
                                     params=given)  # fmt: skip
    point = evaluate_threshold(
        Y, X[:, 0], 0.5, goal, sample_weight=weight, amounts={"amount": amount}
    )
    assert point.feasible
    assert score == pytest.approx(-point.objective)


def test_segments_are_bound_to_the_rows():
    goal = Goal.parse("max recall s.t. precision >= 0.9 for each region")
    region = np.where(np.arange(400) % 2, "north", "south")
    point = evaluate_threshold(Y, X[:, 0], 0.5, goal, segments={"region": region})
    score = GoalScore(goal)(Y, X[:, 0] > 0.5, segments={"region": region})
    assert score == pytest.approx(-point.violation)
    assert point.violation > 0


def test_rows_that_cannot_be_judged_are_an_error():
    with pytest.raises(SetpointError, match="stratified"):
        FLOOR.scorer()(At(0.0).fit(X, Y), X, np.zeros(400))
    assert pickle.loads(pickle.dumps(FLOOR.scorer()))(At(1.5).fit(X, Y), X, Y) == at(1.5)
