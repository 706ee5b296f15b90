"""The paper's equivalence theorems, by enumeration on tiny problems.

For every (theta, t) of a family and every s on a grid, feasibility and value of the lifted forms
are computed by the functions of ``setpoint.method.reformulation`` and compared with the original
problem, which only depends on the decisions.
"""

import itertools

import numpy as np
import pytest
import torch

from setpoint import FPOR, FROP, OFOS, Goal
from setpoint.goals.goal import TOLERANCE
from setpoint.method.reformulation import H, eta, lifted_counts, phi_con, phi_obj

GOALS = [
    FPOR(0.6),
    FROP(0.6),
    OFOS(),
    Goal.parse("max balanced_accuracy s.t. fpr <= 0.4"),
    Goal.parse("max gmean s.t. precision >= 0.5, npv >= 0.6"),
]
S_VALUES = torch.tensor([0.0, 0.25, 0.75, 1.0], dtype=torch.float64)


def scores_1d(rng, n):
    """Scores of the family f(x) = sigmoid(theta * x), theta in {-1, 1}, on distinct points."""
    x = rng.permutation(n) - n / 2 + 0.25
    return [1 / (1 + np.exp(-theta * x)) for theta in (-1.0, 1.0)]


def scores_2d(rng, n):
    """Scores of 12 directions in the plane."""
    x = rng.normal(size=(n, 2))
    angles = np.arange(12) * np.pi / 6
    return [1 / (1 + np.exp(-x @ np.array([np.cos(w), np.sin(w)]))) for w in angles]


def thresholds(a):
    """One threshold in every gap of the scores, non-singular by construction."""
    edges = np.concatenate([[0.0], np.sort(a), [1.0]])
    return (edges[1:] + edges[:-1]) / 2


def problems():
    rng = np.random.default_rng(0)
    for family, n in ((scores_1d, 6), (scores_2d, 5)):
        for _ in range(3):
            positive = np.zeros(n, dtype=bool)
            positive[rng.choice(n, size=int(rng.integers(1, n)), replace=False)] = True
            yield torch.tensor(positive), [torch.tensor(a) for a in family(rng, n)]


def all_s(n):
    return torch.tensor(list(itertools.product(S_VALUES.tolist(), repeat=n)), dtype=torch.float64)


def lifted(goal, s, positive):
    """phi_obj(s) and whether phi_con(s) <= 0, for each row of s."""
    P, N = float(positive.sum()), float((~positive).sum())
    known = {}  # many rows have the same counts
    value, met = [], []
    for tp, fp in zip(*torch.func.vmap(lifted_counts, (0, None))(s, positive), strict=True):
        at = (float(tp), float(fp))
        if at not in known:
            conditions = phi_con(goal, tp, fp, P, N) <= TOLERANCE
            known[at] = float(phi_obj(goal, tp, fp, P, N)), bool(conditions.all())
        value.append(known[at][0])
        met.append(known[at][1])
    return torch.tensor(value), torch.tensor(met)


def original(goal, a, t, positive):
    """Objective and feasibility of the decisions a > t, from counts alone."""
    alarm = a > t
    tp, fp = float((alarm & positive).sum()), float((alarm & ~positive).sum())
    at = (tp, fp, float(positive.sum()), float((~positive).sum()))
    return float(goal.gain(*at)), bool(goal.violation(*at) == 0)


def points():
    for positive, family in problems():
        for a in family:
            for t in thresholds(a.numpy()):
                yield positive, a, float(t)


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_feasible_points_of_one_form_are_feasible_for_the_other(goal):
    """Theorem "equivalence in feasibility": (theta, t) is feasible iff some s is, for both forms.

    In the inequality form the value at the decisions is the largest of all feasible s.
    """
    seen = set()
    for positive, family in problems():
        s = all_s(len(positive))
        value, metric_ok = lifted(goal, s, positive)
        for a in family:
            for t in thresholds(a.numpy()):
                original_value, original_feasible = original(goal, a, t, positive)
                for ties_ok in (
                    (eta(a, s, t, positive) <= 0).all(1),  # inequality form
                    (H(a, s, t) == 0).all(1),  # equality form
                ):
                    feasible = metric_ok & ties_ok
                    assert bool(feasible.any()) == original_feasible
                    if original_feasible:
                        assert float(value[feasible].max()) == pytest.approx(original_value)
                # In particular the decisions themselves satisfy the ties of both forms.
                decisions = (a > t).double()
                assert (eta(a, decisions, t, positive) <= 0).all()
                assert (H(a, decisions, t) == 0).all()
                seen.add(original_feasible)
    assert seen == ({True, False} if goal.constraints else {True})  # both kinds of points occur


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_optimal_values_are_equal(goal):
    """Theorem "equivalence in global solution": the optimal values of all forms agree."""
    for positive, family in problems():
        s = all_s(len(positive))
        value, metric_ok = lifted(goal, s, positive)
        best = {"original": [], "inequality": [], "equality": []}
        for a in family:
            for t in thresholds(a.numpy()):
                inequality = metric_ok & (eta(a, s, t, positive) <= 0).all(1)
                best["inequality"] += value[inequality].tolist()
                best["equality"] += value[metric_ok & (H(a, s, t) == 0).all(1)].tolist()
                at, feasible = original(goal, a, t, positive)
                best["original"] += [at] if feasible else []
        assert best["original"]
        assert max(best["inequality"]) == pytest.approx(max(best["original"]))
        assert max(best["equality"]) == pytest.approx(max(best["original"]))


def test_the_inequality_form_is_wrong_for_a_goal_that_is_not_monotone():
    """Why a capacity needs the equality form: s may be 0 at an alarm and lower the rate."""
    goal = Goal.parse("max precision s.t. alarm_rate <= 0.25")
    positive = torch.tensor([True, True, False, False])
    a, t = torch.tensor([0.9, 0.8, 0.2, 0.1], dtype=torch.float64), 0.5
    s = all_s(4)
    _, metric_ok = lifted(goal, s, positive)
    assert not original(goal, a, t, positive)[1]  # two alarms of four
    assert (metric_ok & (eta(a, s, t, positive) <= 0).all(1)).any()
    assert not (metric_ok & (H(a, s, t) == 0).all(1)).any()
