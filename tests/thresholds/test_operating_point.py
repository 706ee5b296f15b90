import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from setpoint import (
    FPOR,
    FROP,
    OFOS,
    Goal,
    Metric,
    SetpointError,
    choose_threshold,
    evaluate_threshold,
)
from setpoint.thresholds.sweep import ClassScores

PEAK = Metric(  # best at an alarm rate of 0.4: the best cut may lie just below a negative
    "peak",
    lambda tp, fp, P, N: 1 - abs((tp + fp) / (P + N) - 0.4),
    lambda tp, fp, P, N: 0.0 * tp,
    lambda tp, fp, P, N: 0.0 * tp,
    monotone=False,
)
GOALS = [
    FPOR(0.9),
    FPOR(0.5),
    FROP(0.8),
    OFOS(),
    Goal.parse("max recall s.t. fpr <= 0.2, precision >= 0.6"),
    Goal.parse("min fpr s.t. recall >= 0.7"),
    Goal.parse("max mcc"),
    Goal.parse("max gmean s.t. npv >= 0.9"),
    Goal.parse("max accuracy s.t. precision >= 0.7, recall >= 0.7, specificity >= 0.7"),
    Goal.parse("max recall s.t. alarm_rate <= 0.3"),  # not monotone: all cuts are computed
    Goal.parse("min alarm_rate s.t. precision >= 0.4"),
    Goal(PEAK),
]


def brute_force(y, scores, weights, goal):
    """Try a threshold below every distinct score, and one above all, in O(n^2)."""
    best = None
    for lowest in [np.inf, *np.unique(scores)]:
        alarm = scores >= lowest
        tp, fp = weights[alarm & y].sum(), weights[alarm & ~y].sum()
        at = (tp, fp, weights[y].sum(), weights[~y].sum())
        key = (-float(goal.violation(*at)), float(goal.gain(*at)), tp, -fp)
        if best is None or key > best:
            best = key
    return best


@st.composite
def rows(draw):
    """Labels, scores and weights; scores with many, few or no ties, or neighbouring floats."""
    n = draw(st.integers(2, 40))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    width = np.finfo(dtype).bits
    element = draw(
        st.sampled_from(
            [
                st.floats(-8, 8, width=width),
                st.integers(0, 4).map(float),
                st.just(0.5),
                # The middle of two neighbours rounds to one of them.
                st.integers(0, 3).map(lambda i: 1 + i * float(np.finfo(dtype).eps)),
            ]
        )
    )
    scores = draw(hnp.arrays(dtype, n, elements=element, fill=st.nothing()))
    y = draw(hnp.arrays(np.bool_, n, fill=st.nothing()))
    y[:2] = True, False
    weights = None
    if draw(st.booleans()):
        # Multiples of 1/4 add up exactly in any order, so that ties are ties for both methods.
        quarters = st.integers(0, 8).map(lambda k: k / 4)
        weights = draw(hnp.arrays(np.float64, n, elements=quarters, fill=st.nothing()))
        weights[:2] = 1.0
    return y, scores, weights


@given(rows(), st.sampled_from(GOALS))
@settings(max_examples=600)
def test_sweep_equals_brute_force(case, goal):
    y, scores, weights = case
    point = choose_threshold(y, scores, goal, sample_weight=weights)
    w = np.ones(len(y)) if weights is None else weights
    violation, gain, tp, fp = brute_force(y, scores, w, goal)
    assert (point.tp, point.fp) == (tp, -fp)
    assert point.violation == -violation
    assert point.objective * goal.objective.sign == gain
    # The threshold itself gives these counts: no tie was split, no rounding moved a score.
    again = evaluate_threshold(y, scores, point.threshold, goal, sample_weight=weights)
    assert (again.tp, again.fp, again.fn, again.tn) == (point.tp, point.fp, point.fn, point.tn)


@given(rows())
def test_class_scores_equal_brute_force(case):
    y, scores, weights = case
    w = np.ones(len(y)) if weights is None else weights
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setpoint.thresholds.sweep._BLOCK", 3)
        positives = ClassScores(scores, weights, y)
        first = np.concatenate(list(positives.distinct()))
    values = np.unique(scores)
    assert positives.total == w[y].sum()
    assert positives.above(values).tolist() == [w[y & (scores > v)].sum() for v in values]
    assert positives.at_or_above(values).tolist() == [w[y & (scores >= v)].sum() for v in values]
    np.testing.assert_array_equal(first, np.unique(np.sort(scores[y]), return_index=True)[1])


@given(
    hnp.arrays(np.float64, st.integers(2, 30), elements=st.floats(allow_nan=False)),
    st.sampled_from(GOALS),
    st.randoms(use_true_random=False),
)
def test_any_scores_but_nan_are_accepted(scores, goal, random):
    """Infinite, subnormal and huge scores: the threshold still gives the reported counts."""
    y = np.array([random.random() < 0.5 for _ in scores])
    y[:2] = True, False
    point = choose_threshold(y, scores, goal)
    again = evaluate_threshold(y, scores, point.threshold, goal)
    assert (again.tp, again.fp) == (point.tp, point.fp)


def test_the_threshold_lies_in_the_middle_of_the_gap():
    point = choose_threshold([0, 1, 1], [0.0, 1.0, 2.0], OFOS())
    assert point.threshold == 0.5


def test_many_blocks_give_the_same_as_one(monkeypatch):
    rng = np.random.default_rng(0)
    y, scores = rng.random(5000) < 0.3, rng.normal(size=5000).round(3)
    whole = [choose_threshold(y, scores, goal) for goal in GOALS]
    monkeypatch.setattr("setpoint.thresholds.sweep._BLOCK", 7)
    assert [choose_threshold(y, scores, goal) for goal in GOALS] == whole


def test_float32_threshold_survives_comparison_in_float32():
    rng = np.random.default_rng(0)
    scores = (1 + rng.integers(0, 50, 300) * np.finfo(np.float32).eps).astype(np.float32)
    y = rng.random(300) < 0.4
    point = choose_threshold(y, scores, OFOS())
    assert np.float32(point.threshold) == point.threshold
    assert (scores > np.float32(point.threshold))[y].sum() == point.tp


def test_ties_go_to_more_true_then_fewer_false_positives():
    # Precision is 1 at the first three cuts: take the one that catches most.
    point = choose_threshold([1, 1, 1, 0], [4, 3, 2, 1], "max precision")
    assert (point.tp, point.fp) == (3, 0)
    # Recall is 1 at the last two: take the one with fewer false alarms.
    point = choose_threshold([1, 0, 0], [3, 2, 1], "max recall")
    assert (point.tp, point.fp) == (1, 0)


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


@pytest.mark.parametrize(
    "y", [[0, 1, 0, 1], [False, True, False, True], [-1, 1, -1, 1], [0.0, 1.0, 0.0, 1.0]]
)
def test_common_labels(y):
    assert choose_threshold(y, [1, 2, 3, 4], "max f1").tp == 2


def test_any_labels_with_pos_label():
    y = np.array(["ham", "spam", "ham", "spam"], dtype=object)
    assert choose_threshold(y, [1, 3, 2, 4], "max f1", pos_label="spam").f1 == 1.0
    with pytest.raises(SetpointError, match="no positive samples"):
        choose_threshold(y, [1, 3, 2, 4], "max f1", pos_label="eggs")
    with pytest.raises(SetpointError, match="'ham', 'spam'; pass pos_label"):
        choose_threshold(y, [1, 3, 2, 4], "max f1")
    with pytest.raises(SetpointError, match="'ham', 'spam'; pass pos_label"):
        choose_threshold(y.astype(str), [1, 3, 2, 4], "max f1")


@pytest.mark.parametrize("kind", [list, tuple, set, np.array])
def test_several_positive_labels(kind):
    y, scores = np.array([0, 1, 2, 3, 0, 2]), np.array([1.0, 2.0, 5.0, 3.0, 4.0, 6.0])
    expected = choose_threshold(np.isin(y, [1, 2]), scores, "max f1")
    assert choose_threshold(y, scores, "max f1", pos_label=kind([1, 2])) == expected
    assert (
        evaluate_threshold(y, scores, expected.threshold, "max f1", pos_label=kind([2, 1]))
        == expected
    )
    assert choose_threshold(y, scores, "max f1", pos_label=2) == choose_threshold(
        y == 2, scores, "max f1"
    )
    with pytest.raises(SetpointError, match="0, 1, 2, 3; pass pos_label.*several in a list"):
        choose_threshold(y, scores, "max f1")
    with pytest.raises(SetpointError, match="pos_label is empty"):
        choose_threshold(y, scores, "max f1", pos_label=[])


@pytest.mark.parametrize(
    ("y", "scores", "weights", "expected"),
    [
        ([0, 1], [0.1, np.nan], None, "1 of 2 scores are NaN, the first at position 1"),
        ([1, 1], [0.1, 0.2], None, "no negative samples; a threshold needs both"),
        ([0, 0], [0.1, 0.2], None, "no positive samples; a threshold needs both"),
        ([], [], None, "no samples"),
        ([0, np.nan], [0.1, 0.2], None, "y holds NaN"),
        ([0, 1], [0.1, 0.2], [1e308, 1e308], "too large"),
        ([0, 1, 1], [0.1, 0.2], None, r"shapes \(3,\) and \(2,\)"),
        ([0, 1], [[0.1, 0.9], [0.2, 0.8]], None, r"proba\[:, 1\]"),
        ([0, 1], ["a", "b"], None, "must be numbers"),
        ([0, 2], [0.1, 0.2], None, "labels 0, 2; pass pos_label"),
        (range(5), range(5), None, "labels 0, 1, 2, 3, 4; pass pos_label"),
        (range(9), range(9), None, "labels 0, 1, 2, 3, 4, ...; pass pos_label"),
        ([0, 1], [0.1, 0.2], [1.0], "sample_weight has the shape"),
        ([0, 1], [0.1, 0.2], [1.0, -1.0], "not negative"),
        ([0, 1], [0.1, 0.2], [1.0, np.nan], "finite"),
        ([0, 1], [0.1, 0.2], [1.0, 0.0], "no positive samples of positive weight"),
    ],
)
def test_invalid_input_raises(y, scores, weights, expected):
    with pytest.raises(SetpointError, match=expected):
        choose_threshold(y, scores, "max f1", sample_weight=weights)


def test_labels_that_are_not_known_are_not_negative():
    for unknown in (np.nan, None):
        with pytest.raises(SetpointError, match="y holds NaN or None"):
            choose_threshold([1, 0, unknown], [3, 2, 1], "max f1", pos_label=1)


def test_thresholds_beyond_the_scores_keep_their_distance():
    nothing = choose_threshold([0, 1, 1], [5.0, 3.0, 1.0], FPOR(0.9))
    assert nothing.empty
    assert nothing.threshold == 6.0
    everything = choose_threshold([0, 1, 1], [5.0, 3.0, 1.0], "max recall")
    assert everything.threshold == 0.0
    # One distinct score has no neighbour to keep half the distance to.
    alone = choose_threshold([0, 1], [2.0, 2.0], "max recall")
    assert 2.0 - 1e-12 < alone.threshold < 2.0


def test_minus_infinity_is_never_above_a_threshold():
    point = choose_threshold([1, 1, 0], [-np.inf, 2.0, 1.0], "max recall")
    assert (point.tp, point.fp, point.fn) == (1, 0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_torch_scores(dtype):
    scores = torch.tensor([1.0, 2.0, 3.0], dtype=dtype, requires_grad=True)
    assert choose_threshold(torch.tensor([0, 1, 1]), scores, "max f1").threshold == 1.5


def test_scores_may_be_a_column():
    assert choose_threshold([0, 1, 1], [[1.0], [2.0], [3.0]], "max f1").threshold == 1.5


def test_extended_precision_is_converted_to_double():
    scores = np.array([1, 2, 3], dtype=np.longdouble) / 3
    point = choose_threshold([0, 1, 1], scores, "max f1")
    assert (scores.astype(float) > point.threshold).sum() == 2


def test_one_class_can_be_evaluated_and_undefined_metrics_are_nan():
    point = evaluate_threshold([0, 0, 0], [0.1, 0.5, 0.9], 0.6, FROP(0.9))
    assert (point.fp, point.tn) == (1, 2)
    assert point.value("fpr") == pytest.approx(1 / 3)
    assert all(np.isnan(point.value(m)) for m in ("recall", "gmean", "mcc", "balanced_accuracy"))
    assert not point.feasible
    assert "there are no positives, so " in point.message
    assert evaluate_threshold(["ok"], [1.0], 0.5, FPOR(0.9), pos_label="bad").fp == 1
    with pytest.raises(SetpointError, match="no positive samples"):
        choose_threshold(["ok"], [1.0], FPOR(0.9), pos_label="bad")


def test_a_threshold_must_be_a_number():
    with pytest.raises(SetpointError, match="threshold is NaN"):
        evaluate_threshold([0, 1], [0.1, 0.2], float("nan"), FPOR(0.9))


def test_str_includes_the_metrics_of_the_goal():
    point = choose_threshold([0, 1, 1], [1, 2, 3], "max recall s.t. fpr <= 0.1")
    assert "fpr=0.000" in str(point)


def test_rows_of_no_weight_do_not_move_the_threshold():
    y, scores = [0, 1, 0], [0.0, 1.0, 0.9]
    point = choose_threshold(y, scores, "max f1", sample_weight=[1, 1, 0])
    assert point.threshold == 0.5


def test_weights_are_repetitions():
    rng = np.random.default_rng(3)
    y, scores = rng.random(60) < 0.3, rng.normal(size=60)
    weights = rng.integers(0, 4, size=60)
    for goal in GOALS:
        weighted = choose_threshold(y, scores, goal, sample_weight=weights)
        repeated = choose_threshold(np.repeat(y, weights), np.repeat(scores, weights), goal)
        assert weighted == repeated


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
