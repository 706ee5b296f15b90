"""Training problems in memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import overlapping

from setpoint import Goal
from setpoint.errors import DivergedError
from setpoint.thresholds.halves import Halves
from setpoint.thresholds.histogram import ScoreHistogram
from setpoint.training import make_problem
from setpoint.training import problem as problem_module
from setpoint.training.problem import Penalised


@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.int64, torch.float32),  # numbers of words, say
    ],
)
def test_weights_keep_their_fractions(rows, weights):
    X, positive = torch.ones(3, 2, dtype=rows), torch.tensor([True, False, True])
    given = torch.tensor([0.5, 1.25, 2.0], dtype=torch.float64)
    problem = make_problem(X, positive, "max f1", given)
    assert problem.sample_weight.dtype == weights
    assert problem.sample_weight.tolist() == [0.5, 1.25, 2.0]
    assert make_problem(X, positive, "max f1").sample_weight.tolist() == [1.0, 1.0, 1.0]


# --- thresholds of models that may still break the goal -------------------------------------------


GOAL = Goal.parse("max recall s.t. precision >= 0.9, fpr <= 0.05")


@pytest.mark.parametrize("strength", [0.0, 0.3, 2.0, 50.0])
@given(seed=st.integers(0, 50))
def test_as_by_trying_all_thresholds(strength, seed):
    rng = np.random.default_rng(seed)
    y = rng.random(40) < 0.4
    y[:2] = True, False
    scores = np.round(rng.normal(size=40) + y, 1)  # with ties
    weight = rng.integers(1, 4, 40)
    problem = make_problem(
        torch.zeros(40, 1, dtype=torch.float64), torch.tensor(y), GOAL, torch.tensor(weight)
    )
    point = problem.points_of(torch.tensor(scores)[None], strength)[0]
    P, N = weight[y].sum(), weight[~y].sum()

    def worth(threshold):
        above = scores > threshold
        at = (weight[above & y].sum(), weight[above & ~y].sum(), P, N)
        return GOAL.gain(*at) - strength * GOAL.violation(*at)

    tried = [worth(t) for t in [*np.unique(scores), -np.inf]]
    assert worth(point.threshold) == pytest.approx(max(tried))
    above = scores > point.threshold
    assert point.counts == (weight[above & y].sum(), weight[above & ~y].sum(), P, N)
    assert point.goal is GOAL


def test_from_free_to_strict():
    problem = overlapping(GOAL)
    logits = problem.X[:, 0]
    free, *_, strict = points = [
        problem.points_of(logits[None], s)[0] for s in (0.0, 0.5, 1.0, 3.0, 1e6)
    ]
    assert free.recall == 1.0
    assert strict.rank == problem.point_of(logits).rank
    violations = [p.violation for p in points]
    assert violations == sorted(violations, reverse=True)
    assert violations[0] > violations[-1]


def test_nothing_is_forbidden():
    rule = Penalised(GOAL, 3.0)
    tp, fp = np.array([0.0, 5.0]), np.array([9.0, 0.0])
    assert rule.violation(tp, fp, 10.0, 10.0).tolist() == [0.0, 0.0]
    expected = GOAL.gain(tp, fp, 10.0, 10.0) - 3.0 * GOAL.violation(tp, fp, 10.0, 10.0)
    assert rule.gain(tp, fp, 10.0, 10.0).tolist() == expected.tolist()
    assert rule.is_monotone == GOAL.is_monotone
    other = Goal.parse("max recall s.t. alarm_rate <= 0.3")
    assert Penalised(other, 1.0).is_monotone == other.is_monotone


def test_histograms_take_the_rule_as_well():
    problem = replace(overlapping(GOAL))
    histogram = ScoreHistogram(1)
    histogram.add(problem.X[:, :1].T.float(), problem.positive)
    for strength in (0.0, 1.0, 100.0):
        (cut,) = histogram.best(Penalised(GOAL, strength))
        (exact,) = problem.points_of(problem.X[None, :, 0], strength)
        P, N = exact.counts[2:]
        rule = Penalised(GOAL, strength)
        assert rule.gain(cut.tp, cut.fp, P, N) <= rule.gain(exact.tp, exact.fp, P, N) + 1e-12
        assert rule.gain(cut.tp, cut.fp, P, N) == pytest.approx(
            rule.gain(exact.tp, exact.fp, P, N), abs=0.02 * max(1, strength)
        )


def test_evaluation_is_the_validation_rows_or_else_the_training_rows():
    train, validation = overlapping("max f1"), overlapping("max f1", seed=1)
    assert train.evaluation is train
    problem = replace(train, validation=validation)
    assert problem.evaluation is validation
    with pytest.warns(DeprecationWarning, match="judge is deprecated; it is now evaluation"):
        assert problem.judge is validation


# --- averages over halves -------------------------------------------------------------------------


def labelled(positives, negatives, weight=None):
    n = positives + negatives
    return make_problem(torch.zeros(n, 1), torch.arange(n) < positives, "max f1", weight)


def test_halves_need_two_rows_of_each_class():
    assert labelled(1, 50).halves is None
    assert labelled(50, 1).halves is None
    assert labelled(0, 50).halves is None
    assert isinstance(labelled(2, 2).halves, Halves)


def test_halves_are_made_once():
    problem = overlapping("max f1")
    assert problem.halves is problem.halves


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("weights", [False, True])
def test_the_average_gain_is_that_of_the_module_s_scores(dtype, weights):
    problem = overlapping(GOAL, dtype=dtype, weights=weights)
    module = torch.nn.Linear(3, 1, dtype=dtype)
    state = {"weight": torch.tensor([[1.0, 0.5, -0.25]]), "bias": torch.tensor([3.0])}
    found = problem.average_gain(module, state)
    module.load_state_dict(state)
    with torch.no_grad():
        scores = module(problem.X)[:, 0].float().numpy()
    weight = problem.sample_weight.numpy() if weights else None
    assert found == Halves(problem.positive.numpy(), weight).average(scores, GOAL)
    other = problem.average_gain(module, {**state, "weight": -state["weight"]})
    assert other < found


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [None, 2.0])
@pytest.mark.parametrize("weights", [False, True])
def test_many_rows_are_evaluated_in_threads_to_the_same_points(monkeypatch, penalty, weights):
    problem = overlapping(GOAL, weights=weights)
    logits = problem.X.T.contiguous()
    calls = []

    def in_threads(function, items):
        calls.append(len(items))
        return [function(item) for item in items]

    monkeypatch.setattr(problem_module, "map_in_threads", in_threads)
    expected = problem.points_of(logits, penalty)
    assert calls == []
    monkeypatch.setattr(problem_module, "_ROWS_FOR_THREADS", 300)
    assert problem.points_of(logits, penalty) == expected
    assert calls == [3]
    monkeypatch.undo()
    monkeypatch.setattr(problem_module, "_ROWS_FOR_THREADS", 300)
    torch.set_num_threads(2)
    assert problem.points_of(logits, penalty) == expected
    logits[1, 0] = torch.nan
    with pytest.raises(DivergedError):
        problem.points_of(logits, penalty)
