"""Thresholds per segment, compared with all combinations of cuts."""

import itertools
import os

import numpy as np
import pytest

from setpoint import Goal, GoalError, choose_thresholds_by_segment
from tallied_rows import cost, every_cut, precision, recall, rows_of

CASES = int(os.environ.get("SETPOINT_CASES", "50"))


def f1(y, alarm, w):
    return 2 * w[alarm & y].sum() / (w[y].sum() + w[alarm].sum())


def accuracy(y, alarm, w):
    return w[alarm == y].sum() / w.sum()


def balanced(y, alarm, w):
    return (w[alarm & y].sum() / w[y].sum() + w[~alarm & ~y].sum() / w[~y].sum()) / 2


OBJECTIVES = {
    "max recall": lambda y, a, w, m: recall(y, a, w),
    "max precision": lambda y, a, w, m: precision(y, a, w),
    "max f1": lambda y, a, w, m: f1(y, a, w),
    "max accuracy": lambda y, a, w, m: accuracy(y, a, w),
    "max balanced_accuracy": lambda y, a, w, m: balanced(y, a, w),
    "min cost(fp=3, fn=amount)": lambda y, a, w, m: -cost(y, a, w, fp=3.0, fn=m),
    "max recall[amount]": lambda y, a, w, m: recall(y, a, w * m),
}
FLOORS = {"precision >= 0.6": (precision, 0.6), "recall >= 0.5": (recall, 0.5)}


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_best_of_all_combinations(objective, floor):
    metric, level = FLOORS[floor]
    goal = Goal.parse(f"{objective} s.t. {floor} for each region")
    for seed in range(CASES):
        y, scores, weight, amount, region, _ = rows_of(seed)
        names = [
            name for name in np.unique(region) if metric is not recall or y[region == name].any()
        ]
        if len(np.unique(region)) > len(names) or not (amount * weight)[y].sum():
            continue  # recall is undefined in a segment
        found = []
        cuts = [list(every_cut(scores[region == name])) for name in names]
        for chosen in itertools.product(*cuts):
            alarm = np.zeros(len(y), dtype=bool)
            violation = 0.0
            for name, own in zip(names, chosen, strict=True):
                alarm[region == name] = own
                missed = level - metric(y[region == name], own, weight[region == name])
                violation += missed if missed > 1e-9 else 0.0
            found.append((-violation, OBJECTIVES[objective](y, alarm, weight, amount)))
        result = choose_thresholds_by_segment(
            y, scores, goal, segments={"region": region}, sample_weight=weight,
            amounts={"amount": amount},
        )  # fmt: skip
        point = result.operating_point
        best = max(round(v, 9) for v, _ in found)
        value = max(gain for v, gain in found if round(v, 9) == best)
        assert -point.violation == pytest.approx(best, abs=1e-9), seed
        assert point.goal.objective.sign * point.objective == pytest.approx(value, abs=1e-9), seed


def test_a_constraint_on_all_rows_couples_the_segments():
    goal = "max recall s.t. fpr <= 0.3, precision >= 0.5 for each region"
    for seed in range(CASES):
        y, scores, _, _, region, _ = rows_of(seed)
        one = np.ones(len(y))
        names = np.unique(region)
        best = (-np.inf, -np.inf)
        for chosen in itertools.product(*(every_cut(scores[region == name]) for name in names)):
            alarm = np.zeros(len(y), dtype=bool)
            feasible = True
            for name, own in zip(names, chosen, strict=True):
                alarm[region == name] = own
                feasible &= precision(y[region == name], own, one[region == name]) >= 0.5 - 1e-9
            if feasible:
                missed = max((alarm & ~y).sum() / (~y).sum() - 0.3, 0.0)
                best = max(best, (-missed, recall(y, alarm, one)))
        found = choose_thresholds_by_segment(y, scores, goal, segments={"region": region})
        assert found.operating_point.recall == pytest.approx(best[1]), seed


def test_unknown_segments_have_the_threshold_of_all_rows_together():
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.3
    scores = rng.normal(size=400) + y
    region = rng.choice(["a", "b"], 400)
    goal = "max recall s.t. precision >= 0.5 for each region"
    found = choose_thresholds_by_segment(y, scores, goal, segments={"region": region})
    new = found.above(np.array([5.0, -5.0]), np.array(["c", "c"]))
    assert new.tolist() == [5.0 - found.other, -5.0 - found.other]
    assert "any other: threshold" in str(found)


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("max recall s.t. precision >= 0.9", "names none"),
        ("max recall s.t. precision >= 0.9 for each a, recall >= 0.1 for each b", "a and b"),
        ("max recall s.t. precision >= 0.5 for each a, alarms <= 3 per day", "use one threshold"),
        ("max gmean s.t. precision >= 0.5 for each a", "not a quotient of sums"),
        ("max precision[m] s.t. precision >= 0.5 for each a", "count all rows alike"),
        (
            "max recall s.t. precision >= 0.5 for each a, recall[m] >= 0.2",
            r"count all rows alike, and 'recall\[m\] >= 0.2' does not",
        ),
        (
            "min cost(fp=1, fn=m) s.t. precision >= 0.5 for each a, recall >= 0.2",
            r"'recall >= 0.2'., the objective must count all rows alike, and cost.fp=1, fn=m. does",
        ),
    ],
)
def test_goals_that_do_not_separate(goal, message):
    segments = {"a": ["x", "x", "y", "y"], "b": ["x", "y", "x", "y"]}
    with pytest.raises(GoalError, match=message):
        choose_thresholds_by_segment(
            [1, 0, 1, 0], [4, 3, 2, 1], goal, segments=segments,
            amounts={"m": [1, 2, 3, 4]}, times=[0, 1, 2, 3],
        )  # fmt: skip
