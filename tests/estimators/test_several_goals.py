"""One classifier for each of several goals."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from setpoint import (
    FPOR,
    InfeasibleGoalWarning,
    SetpointClassifier,
    SetpointError,
    SetpointThreshold,
    UncertifiedWarning,
    fit_goals,
)
from setpoint.training import Projected

GOALS = ["max recall s.t. precision >= 0.6", "max f1", "max recall s.t. precision >= 0.8"]


def rows(n=900, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.8 * y
    return X, np.where(y, "sick", "well")


TEMPLATE = SetpointClassifier(pos_label="sick", random_state=0)


def test_each_is_as_if_it_had_been_fitted_alone():
    X, y = rows()
    fitted = fit_goals(TEMPLATE, GOALS, X, y)
    for goal, one in zip(GOALS, fitted, strict=True):
        own = clone(TEMPLATE).set_params(goal=goal).fit(X, y)
        assert str(one.goal_) == str(one.goal) == goal
        assert one.operating_point_.on == own.operating_point_.on
        assert not one.operating_point_.empty
        together, alone = one.candidates_.winner.average, own.candidates_.winner.average
        assert together == pytest.approx(alone, abs=0.08)
        np.testing.assert_array_equal(
            one.standardizer_.transform(X), own.standardizer_.transform(X)
        )
        assert set(one.predict(X)) == {"sick", "well"}
    with pytest.raises(NotFittedError):
        TEMPLATE.predict(X)


def test_points_are_exact_on_the_rows_that_set_the_threshold():
    X, y = rows(300)
    few = Projected(outer_iterations=2, inner_iterations=10)
    template = clone(TEMPLATE).set_params(validation=None, solver=few)
    fitted = fit_goals(template, GOALS, X, y)
    for one in fitted:
        point = one.evaluate(X, y)
        assert (point.tp, point.fp) == (one.operating_point_.tp, one.operating_point_.fp)
        assert point.feasible
    assert fitted[0].operating_point_.objective >= fitted[2].operating_point_.objective


def test_names_of_columns_and_weights():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    for one in fit_goals(TEMPLATE, GOALS, frame, y, sample_weight=weight):
        assert one.feature_names_in_.tolist() == ["a", "b", "c"]
        assert one.n_features_in_ == 3
        one.predict(frame)
        total = one.operating_point_
        assert total.tp + total.fp + total.fn + total.tn <= weight.sum()


def test_each_has_a_certificate_of_its_own_goal():
    X, y = rows(3000)
    asked = clone(TEMPLATE).set_params(confidence=0.9)
    goals = [FPOR(0.5), FPOR(0.6)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit_goals(asked, goals, X, y)
    for goal, one in zip(goals, fitted, strict=True):
        assert one.certificate_.certified
        assert one.certificate_.operating_point.goal == goal
        assert one.operating_point_.on == "the certification rows"


def test_warnings_point_to_the_line_of_the_caller():
    X, y = rows(300)
    noise = np.random.default_rng(1).normal(size=X.shape)
    with pytest.warns(InfeasibleGoalWarning) as caught:
        fit_goals(TEMPLATE, ["max f1", "max f1 s.t. precision >= 0.99, recall >= 0.9"], noise, y)
    assert {w.filename for w in caught} == {__file__}
    with pytest.warns(UncertifiedWarning) as caught:
        fit_goals(clone(TEMPLATE).set_params(confidence=0.99), [FPOR(0.99)] * 2, noise, y)
    assert {w.filename for w in caught} == {__file__}
    assert len(caught) == 2


def test_groups_stay_in_one_split():
    X, y = rows()
    groups = np.arange(len(y)) // 3
    fitted = fit_goals(TEMPLATE, GOALS[:2], X, y, groups=groups)
    alone = clone(TEMPLATE).set_params(goal=GOALS[0]).fit(X, y, groups=groups)
    sizes = {p.tp + p.fp + p.fn + p.tn for p in (f.operating_point_ for f in (*fitted, alone))}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("changes", "goals", "message"),
    [
        ({}, "max f1", "goals must be a list of goals, not 'max f1'"),
        ({}, FPOR(0.5), "goals must be a list of goals, not 'max recall"),
        ({}, None, "goals must be a list of goals, not 'None'"),
        ({}, [], "no goals"),
        ({}, ["max f1", "max sense"], "sense"),
        ({"refit": True}, GOALS, "refit is for one goal"),
        ({"checkpoint": "a.pt"}, GOALS, "checkpoint is for one goal"),
        ({"solver": "lifted"}, GOALS, "Lifted trains for one goal"),
    ],
)
def test_invalid_goals_and_parameters(changes, goals, message):
    X, y = rows(100)
    with pytest.raises(SetpointError, match=message):
        fit_goals(clone(TEMPLATE).set_params(**changes), goals, X, y)


@pytest.mark.parametrize("other", [SetpointThreshold(LogisticRegression()), LogisticRegression()])
def test_other_classifiers(other):
    X, y = rows(100)
    with pytest.raises(SetpointError, match=f"not a {type(other).__name__}"):
        fit_goals(other, GOALS, X, y)


class Watcher:
    """A callback with a state and something that cannot be copied."""

    def __init__(self):
        self.seen, self.out = [], sys.stderr

    def __call__(self, record, total):
        self.seen.append((record.iteration, total))


def test_callbacks_are_not_copied_and_splits_may_come_from_a_generator():
    X, y = rows(300)
    watcher, order = Watcher(), np.random.default_rng(0).permutation(300)
    given = SetpointClassifier(
        solver=Projected(outer_iterations=2, inner_iterations=5),
        pos_label="sick",
        validation=(pair for pair in [(order[:200], order[200:])]),
        callback=watcher,
        random_state=0,
    )
    fitted = fit_goals(given, GOALS[:2], X, y)
    assert watcher.seen == [(i, 2) for i in (0, 0, 1, 1, 2, 2)]
    for one in fitted:
        point = one.operating_point_
        assert point.tp + point.fp + point.fn + point.tn == 100


def test_the_seed_decides_and_without_one_fits_differ():
    X, y = rows(150)
    few = Projected(outer_iterations=1, inner_iterations=5, restarts=2)

    def thresholds(random_state):
        classifier = SetpointClassifier(
            solver=few, pos_label="sick", validation=0.3, random_state=random_state
        )
        fitted = fit_goals(classifier, GOALS[:2], X, y)
        return [one.history_.column("loss").tolist() for one in fitted]

    assert thresholds(3) == thresholds(3) != thresholds(4)
    torch.manual_seed(0)
    first = thresholds(None)
    torch.manual_seed(1)
    assert first != thresholds(None)
