import copy
import gc
import os
import subprocess
import sys

import pytest
import torch

from setpoint.goals.goal import FPOR, Goal
from setpoint.paper.competitors import Augmented, Lagrangian
from setpoint.training import Lifted, make_problem, solve
from setpoint.training.gpu import Recorded
from setpoint.training.models import build

CUDA = torch.device("cuda")
GOALS = ["max recall s.t. precision >= 0.8", "max precision s.t. recall >= 0.8", "max f1"]
SOLVERS = [
    Lifted(outer_iterations=5, inner_iterations=30),
    Lifted(outer_iterations=5, inner_iterations=30, form="smooth"),
    Lifted.printed(outer_iterations=4, inner_iterations=60),
    Augmented(outer_iterations=5, inner_iterations=30),
    Lagrangian("lagrangian", outer_iterations=4),
    Lagrangian("proxy_lagrangian", "hinge", outer_iterations=4),
]


def problem_of(goal, n=2000, d=8):
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(n, generator=generator) < 0.2
    X = torch.randn(n, d, generator=generator) + 0.8 * y[:, None]
    return make_problem(X.to(CUDA), y.to(CUDA), goal)


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_recorded_training_is_the_training_step_by_step(solver, goal, model, monkeypatch):
    problem = problem_of(goal)
    torch.manual_seed(0)
    module = build(model, 8).to(CUDA)
    recorded = solve(problem, copy.deepcopy(module), solver).history
    monkeypatch.setattr(Recorded, "__call__", lambda self, step: step())
    eager = solve(problem, copy.deepcopy(module), solver).history
    assert recorded.column("loss") == pytest.approx(eager.column("loss"), rel=1e-2, abs=1e-3)
    assert recorded.objective == pytest.approx(eager.objective, abs=0.02)


def test_it_is_replayed_and_recorded_again_after_forget():
    calls, total, number = [], torch.zeros((), device=CUDA), [1.0]

    def add():
        calls.append(1)
        return total.add_(number[0])

    step = Recorded(CUDA, FPOR(0.9))
    for _ in range(10):
        result = step(add)
    assert float(total) == float(result) == 10.0
    assert len(calls) == 3  # two to warm up, one to record
    number[0] = 5.0
    step(add)
    assert float(total) == 11.0
    step.forget()
    step(add)
    assert float(total) == 16.0
    assert len(calls) == 4


def test_steps_that_cannot_be_recorded_are_called():
    total = torch.zeros((), device=CUDA)
    step = Recorded(CUDA, FPOR(0.9))
    for _ in range(10):
        step(lambda: total.add_(1.0 + 0.0 * float(total)))
    assert float(total) == 10.0
    del step
    gc.collect()  # a failed graph must not take the process with it
    torch.randperm(10, device=CUDA)  # nor keep the generator
    torch.manual_seed(0)


def test_random_numbers_are_new_at_every_step_and_a_failure_does_not_repeat_them():
    step = Recorded(CUDA)
    drawn = [step(lambda: torch.rand((), device=CUDA)).item() for _ in range(6)]
    failing = Recorded(CUDA)
    for _ in range(4):
        failing(lambda: torch.rand((), device=CUDA) * float(torch.ones((), device=CUDA)))
    drawn += [torch.rand((), device=CUDA).item() for _ in range(3)]
    assert len(set(drawn)) == len(drawn)


def test_a_run_that_is_over_leaves_no_memory():
    gc.collect()
    gc.disable()
    try:
        used = []
        for _ in range(6):
            run = Lifted(outer_iterations=4, inner_iterations=20)
            solve(problem_of("max f1", n=200_000), build("mlp", 8).to(CUDA), run)
            used.append(torch.cuda.memory_reserved())
        assert used[-1] < 1.05 * used[2]
    finally:
        gc.enable()


def test_a_goal_of_other_metrics_trains_too():
    goal = Goal.parse("max gmean s.t. precision >= 0.5")
    for solver in (Lifted(outer_iterations=3), Lagrangian(outer_iterations=3)):
        point = solve(problem_of(goal), build("linear", 8).to(CUDA), solver).operating_point
        assert point.objective > 0.5


def test_without_torch_s_cache_of_memory_nothing_is_recorded_and_all_goes_on():
    # So a tool that looks for faults in memory wants it; a recording then cannot allocate.
    code = (
        "import torch; from setpoint.training.gpu.recorded import Recorded\n"
        "total = torch.zeros(1, device='cuda')\n"
        "step = Recorded(total.device)\n"
        "for _ in range(5):\n"
        "    step(lambda: total.add_(torch.ones(1, device='cuda')))\n"
        "print(total.item(), step._eager)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["5.0", "True"], done.stderr
