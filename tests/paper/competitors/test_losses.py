"""What every loss must do, alone and in training."""

from itertools import combinations

import pytest
import torch
from problems import overlapping

from setpoint.paper.competitors import LDAM, Focal, SigmoidF1, Tilted
from setpoint.training import CrossEntropy, LossTraining, make_problem, solve
from setpoint.training.models import build

DECOMPOSABLE = [
    CrossEntropy(),
    CrossEntropy(1.0),
    Focal(),
    Focal(0.5, 0.9),
    LDAM(),
    LDAM(reweight_from=0.0),
    Tilted(0.0),
    Tilted(0.0, by_class=True),
]
LOSSES = [*DECOMPOSABLE, Tilted(), Tilted(-2.0), Tilted(1e-9), Tilted(3.0, by_class=True),
          SigmoidF1(), SigmoidF1(3.0, 0.5)]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slopes_are_right(loss, rows_of, sample):
    logits, positive, weight = sample
    rows = rows_of(positive, weight)
    z = (logits / 3).requires_grad_()  # LDAM multiplies by 30; torch's softplus has a step at 20
    assert torch.autograd.gradcheck(lambda x: loss(x, rows), (z,), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_better_logit_is_never_worse_and_order_does_not_matter(loss, rows_of, sample):
    logits, positive, weight = sample
    turned = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    here = loss(logits, rows_of(positive, weight))
    assert torch.allclose(here, loss(logits[turned], rows_of(positive[turned], weight[turned])))
    for row in (0, 1):  # a positive and a negative
        better = logits.clone()
        better[row] += 0.5 if positive[row] else -0.5
        if loss == Tilted(-2.0):  # it may give up a row
            continue
        assert loss(better, rows_of(positive, weight)) < here


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_weight_of_2_is_the_row_twice(loss):
    weighted = overlapping("max f1", n=60, weights=True)
    times = weighted.sample_weight.long()
    assert set(times.tolist()) == {1, 2, 3}
    repeated = make_problem(
        weighted.X.repeat_interleave(times, 0),
        weighted.positive.repeat_interleave(times),
        weighted.goal,
    )
    torch.manual_seed(0)
    module = build("mlp", 3).double()
    found = [LossTraining(loss).prepare(p, module).loss() for p in (weighted, repeated)]
    assert torch.allclose(*found, rtol=1e-12)
    for value in found:
        value.backward()


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("loss", DECOMPOSABLE, ids=repr)
def test_batches_are_unbiased(loss, weights):
    """Over all batches of 5 of 9 rows, some of them without positives, the mean is the whole."""
    whole = overlapping("max f1", n=9, share=0.3, weights=weights)
    assert 0 < whole.positive.sum() < 5
    torch.manual_seed(0)
    run = LossTraining(loss).prepare(whole, build("mlp", 3).double())
    with torch.no_grad():
        parts = [run.loss(torch.tensor(rows)) for rows in combinations(range(9), 5)]
        assert torch.allclose(torch.stack(parts).mean(), run.loss(), rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_training_lowers_it_in_the_problems_precision(loss, dtype):
    problem = overlapping("max f1", n=200, dtype=dtype)
    torch.manual_seed(0)
    module = build("mlp", 3).to(dtype)
    solver = LossTraining(loss, l2=0.0, outer_iterations=2, inner_iterations=20)
    run = solver.prepare(problem, module)
    assert run.loss().dtype == dtype
    with torch.no_grad():
        run._elapsed = 0.9
        before = float(run.loss())
    solution = solve(problem, module, solver)
    assert solution.history[-1].loss < before or solution.history[-1].loss < 1e-3
    assert all(p.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_parameters_are_all_in_the_name_and_frozen(loss):
    """Checkpoints know a solver by its repr."""
    assert eval(repr(loss)) == loss
    assert hash(loss) == hash(eval(repr(loss)))
    with pytest.raises(AttributeError):
        loss.gamma = 1.0
