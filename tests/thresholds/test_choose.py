import numpy as np
import pytest
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


def test_a_segment_that_does_not_occur():
    rows = [0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4]
    region = {"region": ["n", "n", "s", "s"]}
    goal = "max recall s.t. precision[region=zzz] >= 0.5"
    with pytest.raises(SetpointError, match="there is no region 'zzz' in these rows"):
        choose_threshold(*rows, goal, segments=region)
    # Later rows may lack a segment.
    assert evaluate_threshold(*rows, 0.25, goal, segments=region).recall == 0.5
