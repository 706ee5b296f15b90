"""Estimators with goals that name amounts, segments and times."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from setpoint import (
    GoalError,
    SetpointClassifier,
    SetpointError,
    SetpointThreshold,
    choose_threshold,
    fit_goals,
    load,
)
from setpoint.training import Lifted, Stochastic

COST = "min cost(fp=5, fn=amount)"
EACH = "max recall s.t. precision >= 0.6 for each region"
BUDGET = "max recall s.t. alarms <= 8 per day"
N = 1500


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(N) < 0.25
    X = rng.normal(size=(N, 3)) + y[:, None]
    named = {
        "amounts": {"amount": rng.lognormal(2, 1, N)},
        "segments": {"region": rng.choice(["east", "west"], N)},
        "times": np.datetime64("2024-01-01") + rng.integers(0, 30, N),
    }
    return X, y, named


def estimators(goal, **options):
    return [
        SetpointClassifier(goal, random_state=0, **options),
        SetpointThreshold(LogisticRegression(), goal, random_state=0, **options),
    ]


@pytest.mark.parametrize(
    "goal",
    [
        COST,
        EACH,
        BUDGET,
        f"{BUDGET} on average",
        f"{BUDGET} on 90% of days",
        "max recall[amount] s.t. precision >= 0.6",
    ],
)
def test_fit_evaluate_save_and_load(goal, tmp_path):
    X, y, named = data()
    for clf in estimators(goal):
        clf.fit(X, y, **named)
        assert str(clf.goal_) == goal
        point = clf.evaluate(X, y, **named)
        assert str(point.goal) == goal
        alarm = clf.predict(X) == 1
        assert point.tp == (alarm & y).sum()
        clf.save(tmp_path / "m.zip")
        again = load(tmp_path / "m.zip")
        assert again.evaluate(X, y, **named) == point
        assert again.operating_point_ == clf.operating_point_
        assert again.segments_ == clf.segments_


@pytest.mark.parametrize("goal", [COST, EACH, BUDGET])
def test_certified_models_round_trip(goal, tmp_path):
    X, y, named = data()
    X = X + y[:, None]
    caps = {"amount": 1000.0} if goal == COST else None
    for clf in estimators(goal, confidence=0.8, caps=caps):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(X, y, **named)
        clf.save(tmp_path / "m.zip")
        assert load(tmp_path / "m.zip").certificate_ == clf.certificate_
        if goal == BUDGET:  # whole days certify, and not one row of each
            assert not clf.certificate_.one_per_group
            assert clf.certificate_.operating_point.tp > 9


def test_a_fixed_seed_gives_the_same_model():
    X, y, named = data()
    first, second = (
        SetpointClassifier(COST, random_state=3).fit(X, y, **named).operating_point_
        for _ in range(2)
    )
    assert first == second


def test_training_for_a_cost_is_at_least_as_good_as_tuning_on_the_training_rows():
    rng = np.random.default_rng(1)
    y = rng.random(N) < 0.3
    large = rng.random(N) < 0.5
    amount = np.where(large, 200.0, 1.0)
    # What separates expensive positives is not what separates the many cheap ones.
    X = rng.normal(size=(N, 2))
    X[:, 0] += 2.5 * (y & large)
    X[:, 1] += 2.5 * (y & ~large)
    named = {"amounts": {"amount": amount}}
    trained = SetpointClassifier(COST, validation=None, random_state=0).fit(X, y, **named)
    scores = LogisticRegression().fit(X, y).decision_function(X)
    tuned = choose_threshold(y, scores, COST, **named)
    assert trained.operating_point_.objective <= tuned.objective


def test_solvers_train_for_costs():
    X, y, named = data()
    short = {"outer_iterations": 5, "inner_iterations": 20}
    for solver in (Lifted(**short), Stochastic(**short), "cross_entropy"):
        clf = SetpointClassifier(COST, solver=solver, random_state=0).fit(X, y, **named)
        nothing = float(named["amounts"]["amount"][y].sum() / N)
        assert clf.evaluate(X, y, **named).objective < 0.8 * nothing


def test_whole_periods_stay_in_one_split():
    X, y, named = data()
    clf = SetpointClassifier(BUDGET, random_state=0).fit(X, y, **named)
    days = dict(clf.operating_point_.goal.found)["per day"]
    assert 5 <= len(days) <= 10  # a quarter of 30, each as a whole
    rows = np.isin(named["times"].astype(str), days)
    assert clf.operating_point_.tp + clf.operating_point_.fn == (rows & y).sum()
    with pytest.raises(SetpointError, match="Leave groups out"):
        clf.fit(X, y, groups=np.arange(N), **named)


def test_small_segments_are_pooled_and_unknown_ones_belong_to_the_pool():
    X, y, named = data()
    region = named["segments"]["region"].astype(object)
    region[:40] = ["a", "b", "c", "d"] * 10
    named = {"segments": {"region": region}}
    clf = SetpointThreshold(LogisticRegression(), EACH, random_state=0)
    with pytest.warns(UserWarning, match="too small"):
        clf.fit(X, y, **named)
    assert clf.segments_ == {"region": ("east", "west")}
    region[:120] = np.tile(["a", "b", "c", "d"], 30)
    clf.fit(X, y, **named)
    assert clf.segments_ == {"region": ("east", "west", "(other)")}
    new = {"segments": {"region": np.where(np.arange(N) < 200, "new", "east")}}
    found = clf.evaluate(X, y, **new)
    assert dict(found.goal.found)["region"] == ("(other)", "east")


@pytest.mark.filterwarnings("ignore::setpoint.errors.UncertifiedWarning")
@pytest.mark.parametrize("make", [SetpointThreshold, SetpointClassifier])
def test_certification_labels_do_not_say_which_segments_are_judged(make):
    """A segment that is judged because it has many positives there would be certified too often."""
    X, y, named = data()
    named = {"segments": {"region": named["segments"]["region"].astype(object)}}
    named["segments"]["region"][1000:1040] = "small"
    training, held_out = np.arange(1000), np.arange(1000, N)
    clf = make(
        *([LogisticRegression()] if make is SetpointThreshold else []), EACH, random_state=0,
        confidence=0.9, certification=[(training, held_out)],
    )  # fmt: skip
    for positives in (0, 30):  # of the small segment
        labels = y.copy()
        labels[1000:1040] = np.arange(40) < positives
        clf.fit(X, labels, **named)
        assert clf.segments_ == {"region": ("east", "west")}


@pytest.mark.filterwarnings("ignore::setpoint.errors.UncertifiedWarning")
def test_prefit_segments_are_judged_by_their_rows():
    X, y, named = data()
    region = named["segments"]["region"].astype(object)
    region[:40] = "small"
    prefit = LogisticRegression().fit(X, y)
    for positives in (0, 5, 30):
        labels = y.copy()
        labels[:40] = np.arange(40) < positives
        clf = SetpointThreshold(prefit, EACH, cv="prefit", confidence=0.9)
        clf.fit(X, labels, segments={"region": region})
        assert clf.segments_ == {"region": ("east", "small", "west")}


def test_prefit_thresholds_per_group_cannot_be_certified():
    X, y, named = data()
    clf = SetpointThreshold(
        LogisticRegression().fit(X, y), EACH, thresholds="per group", cv="prefit", confidence=0.9
    )
    with pytest.raises(SetpointError, match="thresholds chosen on other rows"):
        clf.fit(X, y, **named)


def test_no_segment_is_large_enough():
    X, y, named = data()
    named["segments"]["region"] = np.arange(N) % 500
    with pytest.raises(SetpointError, match="no segment of 'region' has 10 positives"):
        SetpointThreshold(LogisticRegression(), EACH).fit(X, y, **named)


def test_thresholds_per_group():
    X, y, named = data()
    X = X - 2.0 * (named["segments"]["region"] == "west")[:, None]
    one = SetpointThreshold(LogisticRegression(), EACH, random_state=0).fit(X, y, **named)
    each = SetpointThreshold(
        LogisticRegression(), EACH, thresholds="per group", random_state=0
    ).fit(X, y, **named)
    assert each.operating_point_.objective > one.operating_point_.objective
    assert set(each.segment_thresholds_.thresholds) == {"east", "west"}
    with pytest.raises(SetpointError, match="pass segments="):
        each.predict(X)
    frame = pd.DataFrame(X, columns=list("abc"))
    assert (each.predict(X, **{"segments": named["segments"]})).sum() > 0
    with pytest.raises(GoalError, match="for each"):
        SetpointThreshold(LogisticRegression(), thresholds="per group").fit(frame, y)
    with pytest.raises(SetpointError, match="'one' or 'per group'"):
        SetpointThreshold(LogisticRegression(), EACH, thresholds="two").fit(X, y, **named)


def test_decisions_by_expected_value():
    X, y, named = data()
    clf = SetpointThreshold(LogisticRegression(), COST, decision="expected_value", random_state=0)
    clf.fit(X, y, **named)
    amount = named["amounts"]["amount"]
    p = clf.predict_proba(X)[:, 1]
    expected = p * amount > (1 - p) * 5
    assert (clf.predict(X, amounts={"amount": amount}) == expected).all()
    table = clf.decisions_
    assert table["expected value"].objective < table["single threshold"].objective
    assert table.best == "expected value"
    assert "single threshold" in str(table)
    with pytest.raises(SetpointError, match="pass amounts="):
        clf.predict(X)
    with pytest.raises(GoalError, match="need prices"):
        SetpointThreshold(LogisticRegression(), decision="expected_value").fit(X, y)
    with pytest.raises(SetpointError, match="'threshold' or 'expected_value'"):
        SetpointThreshold(LogisticRegression(), COST, decision="best").fit(X, y, **named)


def test_amounts_may_be_columns_of_the_frame_at_predict():
    X, y, named = data()
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["amount"] = named["amounts"]["amount"]
    clf = SetpointThreshold(
        make_pipeline(StandardScaler(), LogisticRegression()), COST, decision="expected_value"
    ).fit(frame, y, amounts=frame)
    assert (clf.predict(frame) == clf.predict(frame, amounts=named["amounts"])).all()


def test_metadata_are_routed_as_a_data_frame():
    """A mapping would not be split by cross-validation; the columns of a data frame are."""
    X, y, named = data()
    with sklearn.config_context(enable_metadata_routing=True):
        for clf in estimators(COST):
            clf.set_fit_request(amounts=True)
            if isinstance(clf, SetpointThreshold):
                clf.set_score_request(amounts=False)  # one threshold decides without them
            params = {"amounts": pd.DataFrame(named["amounts"])}
            found = cross_validate(clf, X, y, cv=2, params=params, return_estimator=True)
            for fitted in found["estimator"]:
                assert 0 < fitted.operating_point_.objective < named["amounts"]["amount"].mean()


def test_two_budgets_keep_whole_weeks_in_the_same_split():
    X, y, named = data()
    goal = f"{BUDGET}, alarms <= 45 per week"
    named["times"] = np.datetime64("2024-01-01") + np.arange(N) % 140
    weeks = (named["times"] - np.datetime64("2024-01-01")).astype(int) // 7
    for clf in estimators(goal, confidence=0.5, certification=0.6):
        clf.fit(X, y, **named)
        found = clf.certificate_
        assert found.certified
        assert [period for period, _ in found.periods_within] == ["day", "week"]
        point = clf.evaluate(X, y, **named)
        alarm = clf.predict(X)
        days = np.unique(named["times"], return_inverse=True)[1]
        assert point.value("alarms per day") == np.bincount(days, alarm).max()
        assert point.value("alarms per week") == np.bincount(weeks, alarm).max()
        rows = dict(found.operating_point.goal.found)
        assert len(rows["per day"]) > 3 * len(rows["per week"])  # not single days of many weeks


def test_weeks_and_months_cannot_both_stay_whole():
    X, y, named = data()
    for clf in estimators("max recall s.t. alarms <= 45 per week, alarms <= 200 per month"):
        with pytest.raises(GoalError, match="months do not consist of whole weeks"):
            clf.fit(X, y, **named)


def test_a_number_of_alarms_without_a_period_is_refused():
    X, y, named = data()
    for clf in estimators("max recall s.t. alarms <= 9"):
        with pytest.raises(GoalError, match="does not say in what time"):
            clf.fit(X, y, **named)


def test_too_many_segments_to_train_for():
    X, y, named = data()
    named["times"] = np.arange(N) // 3
    with pytest.raises(SetpointError, match="at most 127"):
        SetpointClassifier(BUDGET).fit(X, y, **named)
    SetpointThreshold(LogisticRegression(), BUDGET).fit(X, y, **named)


def test_several_goals_are_trained_one_after_another():
    X, y, named = data()
    goals = [COST, "min cost(fp=5, fn=amount) s.t. recall >= 0.8"]
    first, second = fit_goals(SetpointClassifier(random_state=0), goals, X, y, **named)
    assert str(first.goal_) == goals[0]
    assert second.operating_point_.recall >= 0.75


@pytest.mark.parametrize(
    "model",
    [
        SetpointClassifier("max recall s.t. precision >= 0.5 for each region", random_state=0),
        SetpointThreshold(
            LogisticRegression(),
            "max recall s.t. precision >= 0.5 for each region",
            random_state=0,
        ),
    ],
)
def test_the_warning_of_small_segments_is_at_the_line_that_calls_fit(model):
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.4
    X = rng.normal(size=(400, 2)) + 2 * y[:, None]
    region = np.where(np.arange(400) < 6, "islands", "north")
    line = inspect.currentframe().f_lineno
    with pytest.warns(UserWarning, match="too small to be judged") as caught:
        model.fit(X, y, segments={"region": region})
    (found,) = [w for w in caught if "too small" in str(w.message)]
    assert (found.filename, found.lineno) == (__file__, line + 2)


def test_amounts_and_segments_may_be_columns_of_the_table():
    X, y, named = data()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table = table.assign(amount=named["amounts"]["amount"], region=named["segments"]["region"])
    features = make_pipeline(
        FunctionTransformer(lambda t: t[["a", "b", "c"]]), LogisticRegression()
    )
    for goal, options, given in (
        (COST, {"decision": "expected_value"}, {"amounts": named["amounts"]}),
        (EACH, {"thresholds": "per group"}, {"segments": named["segments"]}),
    ):
        own = SetpointThreshold(features, goal, random_state=0, **options)
        expected = own.fit(table, y, **given).predict(table, **given)
        clf = SetpointThreshold(features, goal, random_state=0, **options).fit(table, y)
        assert np.array_equal(clf.predict(table), expected)
        assert clf.score(table, y) == np.mean(expected == y)
        assert clf.evaluate(table, y) == own.evaluate(table, y, **given)
        with pytest.raises(SetpointError, match=r"pass (amounts|segments)="):
            clf.predict(table[["a", "b", "c"]])


def test_scores_of_a_cross_validation_with_amounts():
    X, y, named = data()
    amounts = pd.DataFrame(named["amounts"])
    clf = SetpointThreshold(LogisticRegression(), COST, decision="expected_value", random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        clf.set_fit_request(amounts=True).set_score_request(amounts=True)
        found = cross_validate(clf, X, y, params={"amounts": amounts})["test_score"]
    assert ((found > 0) & (found < 1)).all()


def test_a_region_that_is_too_small_is_not_part_of_the_guarantee():
    X, y, named = data()
    region = named["segments"]["region"].astype(object)
    region[:12] = "islands"
    goal = "max recall s.t. precision >= 0.3 for each region"
    clf = SetpointThreshold(LogisticRegression(), goal, confidence=0.8, random_state=0)
    with pytest.warns(UserWarning, match="too small to be judged"):
        clf.fit(X, y, segments={"region": region})
    assert clf.certificate_.certified
    assert "for each region (east, west)" in str(clf.certificate_)
    assert "nothing is guaranteed for other values of 'region'" in str(clf.certificate_)
    point = clf.evaluate(X, y, segments={"region": region})
    assert point.uncovered == {"region": 12}
    assert "'for each region' do not apply to 12 of 1500 rows" in str(point)


def test_few_whole_periods_make_few_folds():
    X, y, _ = data()
    weeks = np.datetime64("2024-01-01") + np.arange(N) % 28
    goal = "max recall s.t. alarms <= 200 per week"
    clf = SetpointThreshold(LogisticRegression(), goal, random_state=0)
    assert len(clf.fit(X, y, times=weeks).thresholds_) == 4
    with pytest.raises(SetpointError, match=r"cv has 5 folds, but the rows are of 4 groups"):
        clf.set_params(cv=5).fit(X, y, times=weeks)
