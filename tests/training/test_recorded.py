import torch

from setpoint.goals.goal import FPOR, Goal, only_fractions
from setpoint.training.gpu import Recorded, adam, set_rate

CPU = torch.device("cpu")


def test_on_a_cpu_the_step_is_simply_called():
    total = torch.zeros(())
    step = Recorded(CPU, FPOR(0.9))
    for number in range(1, 6):
        assert step(lambda: total.add_(1.0)) is total
        assert float(total) == number
        step.forget()


def test_which_goals_can_be_recorded():
    assert only_fractions(FPOR(0.9))
    assert only_fractions(Goal.parse("max f1"))
    assert not only_fractions(Goal.parse("max gmean"))
    assert not only_fractions(Goal.parse("max recall s.t. mcc >= 0.3"))


def test_rates_are_set_as_numbers_or_in_place():
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = adam([{"params": [weight], "lr": 0.1}], CPU)
    (group,) = optimizer.param_groups
    set_rate(group, 0.05)
    assert group["lr"] == 0.05
    held = group["lr"] = torch.tensor(0.1)
    set_rate(group, 0.25)
    assert group["lr"] is held
    assert float(held) == 0.25
