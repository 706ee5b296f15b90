import copy
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from problems import overlapping
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import binary_cross_entropy_with_logits

from setpoint import SetpointError
from setpoint.paper.competitors import LDAM, Focal
from setpoint.training import CrossEntropy, LossTraining, solve
from setpoint.training.models import build


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("l2", [10.0, 0.1])
@pytest.mark.parametrize("weights", [False, True])
def test_a_linear_model_is_logistic_regression(l2, balanced, weights):
    problem = overlapping("max f1", weights=weights)
    module = build("linear", 3).double()
    run = LossTraining(CrossEntropy(float(balanced)), l2).prepare(problem, module)
    for k in range(1, 4):
        run.advance(k)
    w = problem.sample_weight.numpy()
    y = problem.positive.numpy()
    if balanced:  # scikit-learn balances by row counts; ours by weights
        w = w * w.sum() / 2 / np.where(y, w[y].sum(), w[~y].sum())
    reference = LogisticRegression(C=1 / l2, tol=1e-10, max_iter=10_000)
    reference.fit(problem.X.numpy(), y, sample_weight=w)
    np.testing.assert_allclose(
        module.weight.detach().numpy(), reference.coef_, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(module.bias.detach().numpy(), reference.intercept_, rtol=1e-4)


def test_an_mlp_learns():
    problem = overlapping("max f1")
    torch.manual_seed(0)
    solution = solve(problem, build("mlp", 3).double(), LossTraining())
    assert solution.history[-1].loss < solution.history[0].loss
    assert solution.operating_point.objective > solution.history[0].objective


def test_the_recorded_loss_is_that_of_the_iterate():
    problem = overlapping("max f1")
    solution = solve(problem, build("linear", 3).double(), LossTraining(outer_iterations=2))
    first, second, third = solution.history.column("loss")
    assert second < first - 0.1
    assert third == pytest.approx(second)


def test_large_data_are_seen_in_batches():
    problem = overlapping("max f1", n=1000)
    torch.manual_seed(0)
    module = build("mlp", 3).double()
    run = LossTraining(batch_size=100, inner_iterations=1, outer_iterations=2).prepare(
        problem, module
    )
    seen = []
    plain = run.loss
    run.loss = lambda rows=slice(None): (seen.append(rows), plain(rows))[1]
    run.start()
    run.advance(1)
    batches = [rows for rows in seen if not isinstance(rows, slice)]
    assert sorted(torch.cat(batches).tolist()) == list(range(1000))  # each row once


def test_the_loss_of_batches_is_that_of_all_rows_on_average():
    problem = overlapping("max f1", n=60, weights=True)
    run = LossTraining().prepare(problem, build("mlp", 3).double())
    with torch.no_grad():
        parts = [run.loss(torch.arange(i, 60, 3)) for i in range(3)]
        assert torch.stack(parts).mean() == pytest.approx(float(run.loss()))


@dataclass(frozen=True)
class Scripted:
    """A loss whose values are given, step by step; the last one stays."""

    values: tuple[float, ...]
    seen: list[float] = field(default_factory=list, repr=False)

    def __call__(self, logits, rows):
        at = len(self.seen)
        if torch.is_grad_enabled():  # a step, not an evaluation
            self.seen.append(rows.elapsed)
        slope = logits.sum() - logits.sum().detach()
        return slope + self.values[min(at, len(self.values) - 1)]


NINE_MORE = (3.0,) * 9


@pytest.mark.parametrize("inner_iterations", [1, 4, 1000])
@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ((5.0, 4.0, 3.0), 3 + 10),
        ((5.0, 4.0, 3.0, 3.5, 7.0), 3 + 10),  # going up and down without a new low
        ((3.0, *NINE_MORE, 2.9), 1 + 9 + 1 + 10),  # a new low in the last moment
        ((1.0, 2.0, *(2.0 - k / 20 for k in range(20))), 1 + 10),  # falling, never below the first
        ((3.0, float("nan")), 1 + 10),
    ],
)
def test_patience_ends_training_after_10_steps_without_a_decrease(values, steps, inner_iterations):
    problem = overlapping("max f1", n=30)
    module = build("linear", 3).double()
    loss = Scripted(values)
    solver = LossTraining.paper(loss, inner_iterations=inner_iterations)
    run = solver.prepare(problem, module)
    run.start()
    for k in range(1, 31):
        weights = module.weight.clone()
        before = len(loss.seen)
        run.advance(k)
        assert (len(loss.seen) == before) == torch.equal(module.weight, weights)
    assert len(loss.seen) == min(steps, 30 * inner_iterations)


def test_patience_is_resumed(tmp_path):
    """Stopped after 8 steps, 5 of them without a decrease: 5 more, not 10 more."""

    def train(loss, **kwargs):
        solver = LossTraining.paper(loss, inner_iterations=4)
        return solve(overlapping("max f1", n=30), build("linear", 3).double(), solver, **kwargs)

    file = tmp_path / "run.ckpt"
    loss = Scripted((5.0, 4.0, 3.0))
    train(loss, checkpoint=file, callback=lambda r, _: "stop" if r.iteration == 2 else None)
    assert len(loss.seen) == 8
    train(loss, checkpoint=file)
    assert len(loss.seen) == 13


def test_patience_does_not_compare_losses_of_different_phases(tmp_path):
    """LDAM's re-weighting lifts its value for good; training goes on, and so from a checkpoint."""

    def train(**kwargs):
        torch.manual_seed(0)
        solver = LossTraining.paper(LDAM(), outer_iterations=10, inner_iterations=60, lr=1e-4)
        module = build("mlp", 3).double()
        problem = overlapping("max f1", n=200, share=0.1)
        return solve(problem, module, solver, **kwargs).history.column("loss")

    straight = train()
    lifted = straight[8], straight[9], straight[10]
    assert lifted[0] < lifted[2] < lifted[1]
    file = tmp_path / "run.ckpt"
    for stop in (8, 9):  # the second one goes on from the first one's
        train(
            checkpoint=file,
            callback=lambda r, _, stop=stop: "stop" if r.iteration == stop else None,
        )
    assert train(checkpoint=file).tolist() == straight.tolist()


@dataclass(frozen=True)
class InPhases(Scripted):
    """The same, with a phase that begins at each of these shares of the training."""

    starts: tuple[float, ...] = ()

    def phase(self, elapsed):
        return sum(elapsed >= start for start in self.starts)


@pytest.mark.parametrize("inner_iterations", [7, 10, 50])
def test_patience_within_a_phase_leads_to_the_next_one(inner_iterations):
    """A loss that never falls: ten steps of patience (and the first) in each of three phases."""
    total = 20 * inner_iterations
    loss = InPhases((1.0,), starts=(0.5, 0.8))
    run = LossTraining.paper(
        loss, outer_iterations=20, inner_iterations=inner_iterations
    ).prepare(overlapping("max f1", n=30), build("linear", 3).double())  # fmt: skip
    rates = []
    step = run._optimizer.step
    run._optimizer.step = lambda closure: (
        rates.append(run._optimizer.param_groups[0]["lr"]),
        step(closure),
    )[1]
    for k in range(1, 21):
        run.advance(k)
    expected = [
        (math.ceil(start * total) + n) / total for start in (0.0, 0.5, 0.8) for n in range(11)
    ]
    assert loss.seen == pytest.approx(expected)
    # The learning rate is where a training that had not been cut short would have it.
    assert rates == pytest.approx([5e-4 * (1 + math.cos(math.pi * e)) for e in expected])


def test_the_last_phase_ends_with_the_training_where_patience_does_not():
    """After the jump no more steps are left than that phase's share of all."""
    falling = InPhases((1.0,) * 11 + tuple(-float(k) for k in range(1000)), starts=(0.8,))
    run = LossTraining.paper(falling, outer_iterations=10, inner_iterations=50).prepare(
        overlapping("max f1", n=30), build("linear", 3).double()
    )
    for k in range(1, 11):
        run.advance(k)
    assert len(falling.seen) == 11 + 100
    assert falling.seen[11] == 0.8
    assert falling.seen[-1] == 499 / 500


@pytest.mark.parametrize("start", [1.0, math.nextafter(1.0, 0)])
def test_a_phase_without_a_step_of_its_own_is_none(start):
    loss = InPhases((1.0,), starts=(start,))
    run = LossTraining.paper(loss, outer_iterations=3, inner_iterations=20).prepare(
        overlapping("max f1", n=30), build("linear", 3).double()
    )
    for k in range(1, 4):
        run.advance(k)
    assert len(loss.seen) == 11


@pytest.mark.parametrize("stop", [2, 3, 4, 5, 9])
def test_a_jump_to_the_next_phase_survives_a_checkpoint(stop, tmp_path):
    """Before the jump, just after it, in the last phase and after its end."""

    def train(**kwargs):
        torch.manual_seed(0)
        solver = LossTraining.paper(LDAM(), outer_iterations=10, inner_iterations=30, lr=0.01)
        problem = overlapping("max f1", n=200, share=0.1)
        return solve(problem, build("linear", 3).double(), solver, **kwargs).history.column("loss")

    straight = train()
    assert straight[3] > straight[2]  # re-weighting lifts the loss, long before 80 % of 10
    assert straight[4] > straight[5] == straight[-1]  # and patience ends that phase as well
    file = tmp_path / "run.ckpt"
    train(checkpoint=file, callback=lambda r, _: "stop" if r.iteration == stop else None)
    assert train(checkpoint=file).tolist() == straight.tolist()


def test_the_papers_training():
    paper = LossTraining.paper(Focal())
    assert (paper.loss, paper.l2, paper.lr) == (Focal(), 0.0, 1e-3)
    assert paper.outer_iterations * paper.inner_iterations == 30_000
    assert (paper.patience, paper.batch_size, paper.optimizer) == (10, None, "adam")
    assert paper.threshold == "fixed"
    assert LossTraining.paper(Focal(), lr=0.1, patience=None).lr == 0.1


def test_the_papers_training_is_plain_adam_on_all_rows():
    """Against Adam and the cosine written out, bit for bit but for the order of sums."""
    problem = overlapping("max f1", n=80)
    torch.manual_seed(0)
    module = build("mlp", 3).double()
    twin = copy.deepcopy(module)
    solver = LossTraining.paper(CrossEntropy(), outer_iterations=4, inner_iterations=5, lr=0.01)
    run = solver.prepare(problem, module)
    for k in range(1, 5):
        run.advance(k)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in twin.parameters()]
    y = problem.positive.double()
    for step in range(20):
        z = twin(problem.X)[:, 0]
        slopes = torch.autograd.grad(
            torch.nn.functional.binary_cross_entropy_with_logits(z, y), list(twin.parameters())
        )
        rate = 0.01 * (1 + math.cos(math.pi * step / 20)) / 2
        with torch.no_grad():
            for p, g, (m, v) in zip(twin.parameters(), slopes, moments, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                m_hat, v_hat = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
                p -= rate * m_hat / (v_hat.sqrt() + 1e-8)
    for mine, other in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("batch_size", [None, 25])
def test_the_learning_rate_falls_to_zero_on_a_cosine(batch_size):
    solver = LossTraining(
        optimizer="adam", lr=0.2, outer_iterations=8, inner_iterations=5, batch_size=batch_size
    )
    run = solver.prepare(overlapping("max f1", n=100), build("linear", 3).double())
    for k in range(1, 9):
        run.advance(k)
        (group,) = run._optimizer.param_groups
        last = (5 * k - 1) / 40  # the share that was done before the last step
        assert group["lr"] == pytest.approx(0.1 * (1 + math.cos(math.pi * last)), abs=1e-12)
    assert group["lr"] < 0.001


@pytest.mark.parametrize(("batch_size", "steps"), [(None, 5), (10, 6)])
def test_a_loss_is_told_how_much_of_the_training_is_done(batch_size, steps):
    """At the start of the step; so 1 is never reached. 60 rows in batches of 10 take 6 steps."""
    loss = Scripted((1.0,))
    solver = LossTraining(
        loss, optimizer="adam", outer_iterations=4, inner_iterations=5, batch_size=batch_size
    )
    run = solver.prepare(overlapping("max f1", n=60), build("linear", 3).double())
    for k in range(1, 5):
        run.advance(k)
    assert loss.seen == pytest.approx([k / (4 * steps) for k in range(4 * steps)])


@pytest.mark.parametrize("outer_iterations", [5, 10, 30, 50])
@pytest.mark.parametrize("optimizer", ["auto", "adam"])
def test_ldam_begins_to_reweight_at_four_fifths(optimizer, outer_iterations):
    problem = overlapping("max f1", n=60)
    solver = LossTraining(
        LDAM(scale=1.0), optimizer=optimizer, outer_iterations=outer_iterations, inner_iterations=1
    )
    run = solver.prepare(problem, build("linear", 3).double())
    for k in range(1, outer_iterations + 1):
        run.advance(k)
        with torch.no_grad():
            late = run.loss()
            run._elapsed = 0.0
            early = run.loss()
        assert (late != early) == (k > 0.8 * outer_iterations)


@pytest.mark.parametrize("threshold", ["fixed", "exact"])
def test_iterates_are_evaluated_at_the_logit_0_or_at_their_exact_threshold(threshold):
    problem = overlapping("max f1")
    module = build("linear", 3).double()
    solver = LossTraining(outer_iterations=3, threshold=threshold)
    point = solve(problem, module, solver).operating_point
    z = module(problem.X)[:, 0].detach()
    if threshold == "fixed":
        assert point.threshold == 0.0
        assert point.tp == int((problem.positive & (z > 0)).sum())
        assert point.fp == int((~problem.positive & (z > 0)).sum())
    else:
        assert point == problem.point_of(z)
        assert point.objective > problem.point_of(z, 0.0).objective


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"optimizer": "sgd"}, "optimizer is one of"),
        ({"threshold": 0.5}, "threshold is one of"),
        ({"patience": 10}, "set optimizer='adam', batch_size=None"),
        ({"patience": 10, "optimizer": "adam"}, "set optimizer='adam', batch_size=None"),
        ({"patience": 0, "optimizer": "adam", "batch_size": None}, "patience must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"batch_size": -5}, "batch_size must be"),
        ({"l2": -1.0}, "l2 must be"),
        ({"l2": float("nan")}, "l2 must be"),
        ({"lr": 0.0}, "lr must be"),
        ({"lr": float("nan")}, "lr must be"),
        ({"outer_iterations": -1}, "outer_iterations must be"),
        ({"inner_iterations": 0}, "inner_iterations must be >= 1"),
    ],
    ids=str,
)
def test_bad_parameters_raise(parameters, expected):
    with pytest.raises(SetpointError, match=expected):
        LossTraining(**parameters)


# --- cross-entropy, plain or weighted by class ----------------------------------------------------


def test_plain_is_torchs(rows_of, sample):
    logits, positive, _ = sample
    expected = binary_cross_entropy_with_logits(logits, positive.double())
    assert torch.allclose(CrossEntropy()(logits, rows_of(positive)), expected, rtol=1e-12)


def test_weights_are_torchs(rows_of, sample):
    logits, positive, weight = sample
    sums = binary_cross_entropy_with_logits(logits, positive.double(), weight, reduction="sum")
    found = CrossEntropy()(logits, rows_of(positive, weight))
    assert torch.allclose(found, sums / weight.sum(), rtol=1e-12)


@pytest.mark.parametrize("balance", [0.5, 1.0, 2.0])
def test_balance_is_torchs_pos_weight(balance, rows_of, sample):
    """pos_weight is the ratio of both classes' factors; that of negatives is common."""
    logits, positive, _ = sample
    P, N = 10, 30
    expected = (
        binary_cross_entropy_with_logits(
            logits,
            positive.double(),
            pos_weight=torch.tensor((N / P) ** balance, dtype=torch.float64),
        )
        * (20 / N) ** balance
    )
    found = CrossEntropy(balance)(logits, rows_of(positive))
    assert torch.allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("positives", [1, 7, 39])
def test_balanced_classes_have_the_same_total_weight(positives, rows_of):
    """At the logit 0 every row costs log 2, so costs are weights."""
    positive = torch.arange(40) < positives
    rows = rows_of(positive, torch.linspace(0.1, 5.0, 40))
    logits = torch.zeros(40, dtype=torch.float64, requires_grad=True)
    loss = CrossEntropy(1.0)(logits, rows)
    assert float(loss.detach()) == pytest.approx(torch.log(torch.tensor(2.0)).item(), rel=1e-6)
    loss.backward()
    # d/dz softplus(-z) = -1/2 at 0
    assert float(logits.grad[positive].sum()) == pytest.approx(-0.25)
    assert float(logits.grad[~positive].sum()) == pytest.approx(0.25)


def test_logits_of_any_size_are_finite_in_float32(rows_of):
    logits = torch.tensor([-1e30, 1e30, -200.0, 200.0], requires_grad=True)
    loss = CrossEntropy(1.0)(logits, rows_of([1, 0, 0, 1], dtype=torch.float32))
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.tolist() == [-0.25, 0.25, 0.0, 0.0]


@pytest.mark.parametrize("balance", [float("nan"), float("inf")])
def test_a_balance_that_is_not_finite_raises(balance):
    with pytest.raises(SetpointError, match="balance must be a finite number"):
        CrossEntropy(balance)
