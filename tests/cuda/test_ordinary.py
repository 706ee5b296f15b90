import pytest
import torch

from setpoint.training import LossTraining, make_problem
from setpoint.training.models import build
from setpoint.training.ordinary import ordinary_models


@pytest.mark.usefixtures("without_cost_path")
@pytest.mark.parametrize("weights", [False, True])
def test_the_ordinary_models_of_a_gpu_are_those_of_a_cpu(weights):
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(3000, generator=generator) < 0.1
    X = torch.randn(3000, 20, generator=generator) + 0.5 * y[:, None]
    weight = torch.randint(1, 4, (3000,), generator=generator).float() if weights else None
    here = make_problem(X, y, "max f1", weight)
    there = make_problem(X.cuda(), y.cuda(), "max f1", None if weight is None else weight.cuda())
    on_cpu = ordinary_models(here, build("linear", 20))
    on_gpu = ordinary_models(there, build("linear", 20).cuda())
    for kind, same_kind in zip(on_cpu, on_gpu, strict=True):
        for model, same in zip(kind, same_kind, strict=True):
            assert model.name == same.name
            expected = model.weights["weight"]
            assert torch.allclose(same.weights["weight"].cpu(), expected, rtol=1e-2, atol=1e-4)
            assert same.point.objective == pytest.approx(model.point.objective, abs=2e-3)


@pytest.mark.parametrize("patience", [None, 10])
def test_a_loss_on_all_rows_is_trained_the_same_on_both(patience):
    generator = torch.Generator().manual_seed(0)
    y = torch.rand(3000, generator=generator) < 0.1
    X = torch.randn(3000, 20, generator=generator) + 0.5 * y[:, None]
    solver = LossTraining(outer_iterations=5)
    if patience is not None:
        solver = LossTraining.paper(solver.loss, outer_iterations=5, inner_iterations=100)
    losses = []
    for device in ("cpu", "cuda"):
        module = build("linear", 20).to(device)
        run = solver.prepare(make_problem(X.to(device), y.to(device), "max f1"), module)
        losses.append([run.advance(k).loss for k in range(1, 6)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
