"""The exact threshold found on the device is the one that the host finds, to the last bit."""

import pytest
import torch
from problems import overlapping

from setpoint.training import make_problem
from setpoint.training.gpu import exact_points

GOALS = ["max recall s.t. precision >= 0.9", "max f1", "min alarm_rate s.t. recall >= 0.7"]


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("digits", [1, 6])
def test_as_on_the_host(goal, digits):
    here = overlapping(goal, n=20_000, dtype=torch.float32)
    logits = (here.X @ torch.tensor([1.0, 0.3, 0.2])).round(decimals=digits)
    there = make_problem(here.X.cuda(), here.positive.cuda(), goal)
    assert exact_points(there, logits.cuda()[None], there.goal) is not None
    assert there.point_of(logits.cuda()) == here.point_of(logits)
    several = torch.stack([logits, -logits, logits.abs()])
    assert there.points_of(several.cuda()) == here.points_of(several)
    assert there.points_of(several.cuda(), 3.0) == here.points_of(several, 3.0)


@pytest.mark.parametrize("broken", ["weights", "infinite", "goal"])
def test_sweeps_on_the_host(broken):
    goal = "max gmean" if broken == "goal" else "max f1"
    here = overlapping(goal, dtype=torch.float32, weights=broken == "weights")
    logits = here.X[:, 0].clone()
    if broken == "infinite":
        logits[0] = torch.inf
    there = make_problem(here.X.cuda(), here.positive.cuda(), goal, here.sample_weight.cuda())
    assert exact_points(there, logits.cuda()[None], there.goal) is None
    assert there.point_of(logits.cuda()) == here.point_of(logits)
