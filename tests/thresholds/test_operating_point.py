import json

import numpy as np
import pytest

from setpoint import (
    FPOR,
    choose_threshold,
    evaluate_threshold,
)


def test_infeasible_goal_gives_the_closest_point_and_a_sentence():
    # precision and recall >= 0.9 at once are out of reach; 3 of 4 and 3 of 3 is the closest.
    goal = "max f1 s.t. precision >= 0.9, recall >= 0.9"
    point = choose_threshold([1, 1, 0, 1, 0, 0], [6, 5, 4, 3, 2, 1], goal)
    assert not point.feasible
    assert (point.tp, point.fp) == (3, 1)
    assert point.violation == pytest.approx(0.15)
    assert "is not met: precision is 0.750 instead of >= 0.9; there f1 is 0.857" in point.message


def test_the_message_reports_whether_the_goal_is_met():
    met = choose_threshold([0, 0, 1, 1], [1, 2, 3, 4], FPOR(0.9), on="June")
    assert met.message == f"On June the goal '{FPOR(0.9)}' is met: recall is 1.000."
    missed = choose_threshold([0, 1], [2, 1], "max f1 s.t. f1 >= 0.9")
    assert (missed.tp, missed.fp, missed.empty) == (1, 1, False)
    assert missed.message.endswith("is not met: f1 is 0.667 instead of >= 0.9.")


def test_predicting_nothing_meets_a_precision_floor_and_is_reported():
    point = choose_threshold([0, 1], [2.0, 1.0], FPOR(0.9))
    assert point.feasible
    assert point.empty
    assert point.precision == 1.0
    assert point.recall == 0.0
    assert "is met only because nothing is predicted positive: recall is 0.000" in point.message


def test_values_counts_text_and_json_of_an_operating_point():
    point = choose_threshold([0, 0, 1, 1], [1, 2, 3, 4], "max f1", on="June")
    assert point.value("fbeta(2)") == 1.0
    assert (point.tp, point.fp, point.fn, point.tn) == (2, 0, 0, 2)
    assert "On June f1 is 1.000 (goal: 'max f1')." in str(point)
    document = json.loads(json.dumps(point.to_dict()))
    assert document["threshold"] == 2.5
    assert document["goal"] == "max f1"
    assert document["feasible"] is True


def test_str_includes_the_metrics_of_the_goal():
    point = choose_threshold([0, 1, 1], [1, 2, 3], "max recall s.t. fpr <= 0.1")
    assert "fpr=0.000" in str(point)


def test_the_standard_error_is_that_of_repeated_draws():
    rng = np.random.default_rng(0)
    y = np.arange(600) < 120
    scores = rng.normal(size=600) + 1.2 * y
    for goal in ("max recall", "max precision", "max f1", "min fpr", "max mcc"):
        point = evaluate_threshold(y, scores, 0.8, goal)
        drawn = []
        for _ in range(400):
            rows = np.concatenate([rng.integers(0, 120, 120), rng.integers(120, 600, 480)])
            drawn.append(evaluate_threshold(y[rows], scores[rows], 0.8, goal).objective)
        assert point.standard_error == pytest.approx(np.std(drawn), rel=0.15)


def test_the_standard_error_is_never_zero_where_something_could_change():
    assert (
        evaluate_threshold([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], 0.5, "max recall").standard_error
        > 0.1
    )


# --- money, alarms and many segments as text -----------------------------------------------------


def test_messages_write_money_and_alarms_sensibly():
    y, scores = np.repeat([True, False], [4, 6]), np.arange(10.0)
    point = evaluate_threshold(y, scores, -1.0, "min cost(fp=1.5, fn=3)")
    assert (
        point.message
        == "On the data given cost(fp=1.5, fn=3) is 0.90 per row (goal: 'min cost(fp=1.5, fn=3)')."
    )
    assert "cost(fp=1.5, fn=3)=0.90" in str(point)
    point = evaluate_threshold(
        y, scores, -1.0, "max recall s.t. alarms <= 2 per day", times=np.arange(10) % 2
    )
    assert "is not met: 5 alarms on the busiest day instead of <= 2; there" in point.message
    assert "alarms per day=5" in str(point)
    assert ["alarms per day", "5", "≤ 2"] in point._summary().tables[1]


def test_of_many_segments_the_worst_are_listed():
    rng = np.random.default_rng(0)
    y, scores = rng.random(4000) < 0.3, rng.random(4000)
    shop = np.array([f"s{i}" for i in rng.integers(0, 20, 4000)])
    goal = "max recall s.t. precision >= 0.3 for each shop"
    point = evaluate_threshold(y, scores, 0.5, goal, segments={"shop": shop})
    metrics, omitted = point.listed_metrics()
    assert omitted == 16
    listed = [point.value(m.name) for m in metrics if m.tallies[0].segment]
    every = sorted(point.value(c.metric.name) for c in point.goal.constraints)
    assert sorted(listed) == every[:4]
    assert str(point).endswith("  … 16 more")
    assert point._summary().tables[1][-1] == ["… 16 more", "", ""]
    worst = min(point.goal.constraints, key=lambda c: point.value(c.metric.name))
    assert f"is not met: {worst.metric} is {every[0]:.3f}" in point.message
    few = evaluate_threshold(y, scores, 0.5, goal, segments={"shop": shop < "s12"})
    assert few.listed_metrics()[1] == 0
