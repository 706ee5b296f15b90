"""Rankings of cuts in which constraints must be met with a margin."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from setpoint import Goal, choose_threshold
from setpoint.goals.metrics import metric
from setpoint.thresholds import gpu
from setpoint.thresholds.margin import WithMargin, row_weights_of, standard_error, with_margin
from setpoint.thresholds.narrowing import MANY
from setpoint.thresholds.operating_point import (
    OperatingPoint,
    best_point,
    margin_fields,
    restored_margin,
)
from setpoint.thresholds.stream import stream_threshold
from setpoint.thresholds.sweep import rank_of

FLOOR = Goal.parse("max recall s.t. precision >= 0.8")
GOALS = [
    "max recall s.t. precision >= 0.8",
    "max precision s.t. recall >= 0.7",
    "max recall s.t. fpr <= 0.1, precision >= 0.5",
    "max recall s.t. npv >= 0.9",
    "max f1 s.t. accuracy >= 0.8",
    "max precision s.t. f1 >= 0.5",
    "max recall s.t. mcc >= 0.3",
    "max recall s.t. alarm_rate <= 0.2",
]
RATES = ["precision", "recall", "specificity", "fpr", "fnr", "npv", "accuracy", "jaccard"]
sizes = st.integers(1, 40)
margins = st.floats(0.01, 4.0)


def best(y, scores, ranking, goal, weights=None):
    with np.errstate(all="ignore"):
        return best_point(y, scores, weights, ranking, goal, "here")


def drawn(seed, n=200):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    y[:2] = True, False
    return y, np.round(rng.normal(size=n) + 1.5 * y, 1)


@pytest.mark.parametrize(
    ("name", "counts", "expected"),
    [
        ("precision", (80, 20, 100, 900), np.sqrt(0.8 * 0.2 / 100)),
        ("recall", (80, 20, 100, 900), np.sqrt(0.8 * 0.2 / 100)),
        ("fpr", (80, 90, 100, 900), np.sqrt(0.1 * 0.9 / 900)),
        ("precision", (0, 0, 100, 900), 0.0),
        ("precision", (50, 0, 100, 900), 0.0),
    ],
)
def test_the_standard_error_of_a_fraction_is_binomial(name, counts, expected):
    assert standard_error(metric(name), (1.0, 1.0), *map(np.float64, counts)) == pytest.approx(
        expected
    )


def test_other_metrics_have_the_standard_error_of_simulated_counts():
    rng = np.random.default_rng(0)
    P, N, tp, fp = 400.0, 4000.0, 300.0, 80.0
    for name in ("f1", "gmean", "mcc", "balanced_accuracy", "fbeta(2)"):
        which = metric(name)
        values = which.value(
            rng.binomial(400, 0.75, 20_000), rng.binomial(4000, 0.02, 20_000), P, N
        )
        found = standard_error(which, (1.0, 1.0), tp, fp, P, N)
        assert found == pytest.approx(values.std(), rel=0.05)


def test_rows_of_a_larger_weight_count_as_fewer():
    y = np.array([True] * 10 + [False] * 20)
    weights = np.where(y, 3.0, 0.5)
    assert row_weights_of(y, weights) == (3.0, 0.5)
    assert row_weights_of(y, np.ones(30)) == (1.0, 1.0)
    uneven = np.where(np.arange(30) == 0, 91.0, 1.0)
    of_positives = row_weights_of(y, uneven)[0]
    assert 100 / of_positives == pytest.approx(100**2 / (91**2 + 9))  # little more than one row
    one = standard_error(metric("recall"), (1.0, 1.0), 8.0, 1.0, 10.0, 20.0)
    assert standard_error(metric("recall"), (3.0, 0.5), 24.0, 0.5, 30.0, 10.0) == pytest.approx(one)
    assert row_weights_of(y, np.zeros(30)) == (1.0, 1.0)


@given(st.sampled_from(RATES), st.floats(0.01, 0.99), margins, sizes, sizes, st.data())
def test_a_further_true_positive_never_hurts_and_a_false_one_never_helps(
    name, level, margin, P, N, data
):
    which = metric(name)
    relation = ">=" if which.sign > 0 else "<="
    ranking = WithMargin(Goal.parse(f"max f1 s.t. {name} {relation} {level:.3f}"), margin)
    assert ranking.is_monotone
    tp, fp = data.draw(st.integers(0, P)), data.draw(st.integers(0, N))

    def at(tp, fp):
        with np.errstate(all="ignore"):
            return ranking.violation(np.float64(tp), np.float64(fp), float(P), float(N))

    empty = tp + fp == 0  # it falls short by most, so that a false alarm may help
    if tp < P:
        assert at(tp + 1, fp) <= at(tp, fp) + 1e-9
    if fp < N and not empty:
        assert at(tp, fp + 1) >= at(tp, fp) - 1e-9


@given(st.sampled_from(GOALS), margins, st.integers(0, 10_000))
def test_the_cut_is_the_best_of_all(text, margin, seed):
    """Whatever pruning is used, in memory or in a stream."""
    goal = Goal.parse(text)
    y, scores = drawn(seed, 60)
    ranking = WithMargin(goal, margin)
    found = best(y, scores, ranking, goal)
    P, N = float(y.sum()), float((~y).sum())
    every = [-np.inf, *np.unique(scores)]
    with np.errstate(all="ignore"):
        ranks = [
            rank_of(
                ranking, float((y & (scores > t)).sum()), float((~y & (scores > t)).sum()), P, N
            )
            for t in every
        ]
        own = rank_of(ranking, *found.counts)
    assert own == max(ranks)

    def scan():
        yield y[:20], scores[:20], None
        yield y[20:], scores[20:], None

    streamed = stream_threshold(scan, goal, margin=ranking)
    assert streamed.sort_key == own


@pytest.mark.parametrize("text", GOALS[:5])
def test_many_scores_on_any_device_give_the_same_cut(text):
    goal = Goal.parse(text)
    rng = np.random.default_rng(1)
    y = rng.random(MANY + 5) < 0.2
    scores = rng.normal(size=len(y)) + 2.0 * y
    ranking = WithMargin(goal, 0.5)
    found = best(y, scores, ranking, goal)
    weighted = best(y, scores, ranking, goal, np.ones(len(y)))  # without intervals
    assert (found.threshold, found.counts) == (weighted.threshold, weighted.counts)
    (swept,) = gpu.sweep(torch.from_numpy(y), torch.from_numpy(scores)[None], ranking)
    assert swept == (found.threshold, found.tp, found.fp)


def test_a_kept_margin_exceeds_the_level_by_its_standard_errors():
    y, scores = drawn(0, 4000)
    plain = choose_threshold(y, scores, FLOOR)
    precisions = [plain.precision]
    for margin in (0.5, 1.0, 2.0):
        ranking = WithMargin(FLOOR, margin)
        point = best(y, scores, ranking, FLOOR)
        error = standard_error(metric("precision"), (1.0, 1.0), *point.counts)
        assert point.precision - margin * error >= 0.8
        precisions.append(point.precision)
    assert precisions == sorted(precisions)
    assert precisions[-1] > precisions[0]


def test_without_a_cut_that_keeps_the_margin_the_level_is_kept():
    """8 of 10 alarms are real, and no cut has less doubt; not to raise any alarm has more."""
    y = np.array([False, *[True] * 4, False, *[True] * 4, *[False] * 20])
    scores = -np.arange(30.0)
    found = best(y, scores, WithMargin(FLOOR, 5.0), FLOOR)
    assert found.feasible
    assert (found.tp, found.fp) == (8.0, 2.0)
    assert best(y, scores, FLOOR, FLOOR).counts == found.counts


def test_no_alarms_are_the_last_resort_that_meets_a_floor():
    y, scores = np.array([False, True, False, True]), np.array([4.0, 3.0, 2.0, 1.0])
    for ranking in (FLOOR, WithMargin(FLOOR, 0.5)):
        assert best(y, scores, ranking, FLOOR).empty
    y, scores = np.array([True, False, False, True]), np.array([4.0, 3.0, 2.0, 1.0])
    assert best(y, scores, WithMargin(FLOOR, 0.5), FLOOR).tp == 1


def test_a_level_that_is_missed_counts_as_without_a_margin():
    goal = Goal.parse("max recall s.t. precision >= 0.9, recall >= 0.9")
    for seed in range(20):
        y, scores = drawn(seed, 100)
        plain = choose_threshold(y, scores, goal)
        assert not plain.feasible
        found = best(y, scores, WithMargin(goal, 1.0), goal)
        assert (found.threshold, found.counts) == (plain.threshold, plain.counts)


def test_there_is_no_margin_without_constraints():
    goal = Goal.parse("max f1")
    assert with_margin(goal, 1.0, (1.0, 1.0)) is goal
    assert with_margin(FLOOR, 0.0, (1.0, 1.0)) is FLOOR
    assert with_margin(FLOOR, 1.0, (2.0, 1.0)) == WithMargin(FLOOR, 1.0, (2.0, 1.0))
    assert not WithMargin(FLOOR, 1.0, (2.0, 1.0)).is_monotone


def test_the_margin_orders_points_and_leaves_them_feasible():
    few, many = (
        OperatingPoint(0.0, tp, fp, 100 - tp, 900 - fp, FLOOR) for tp, fp in ((9, 2), (8, 0))
    )
    assert few.sort_key > many.sort_key
    fields = [1.0, 1.0, 1.0]
    one, other = (restored_margin(point, fields) for point in (few, many))
    assert one.feasible
    assert other.sort_key > one.sort_key
    assert margin_fields(one) == fields
    assert margin_fields(few) is None
    assert restored_margin(few, None) is few
    assert one == few
