"""The exact penalty on mini-batches."""

import copy
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mini_batch_processes import work_together
from problems import misled
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from forked import as_torchrun_tells, run_together
from setpoint import Goal, GoalError, MiniBatchPenalty, SetpointError, choose_threshold
from setpoint.errors import DivergedError
from setpoint.method.capped_loss import prices
from setpoint.training import Projected, solve
from setpoint.training.descent import Counts, multiplier_step

GOAL = "max recall s.t. precision >= 0.9"


def rows(n=200, rate=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < rate
    return 2.0 * y + torch.randn(n, generator=generator).double() - 0.5, y


def test_a_batch_of_all_rows_has_the_eliminated_penalty_of_all_rows():
    """The loss, the multipliers and the threshold, computed anew from their equations."""
    z, y = rows()
    penalty = MiniBatchPenalty(GOAL, lam=7.0, gamma=0.3, dual_rate=0.2)
    loss = penalty(z.requires_grad_(), y)
    point = choose_threshold(y, z.detach(), GOAL)
    assert penalty.threshold == point.threshold
    P, N = float(y.sum()), float((~y).sum())
    assert penalty.counts == (point.tp, point.fp, P, N)
    multipliers, counts = np.ones((1, 1)), Counts(np.array([point.tp]), np.array([point.fp]))
    multiplier_step(multipliers, penalty.goal, counts, P, N, 0.2)
    assert penalty.multipliers == multipliers[0]
    worth, cost = prices(penalty.goal, *counts, P, N, multipliers)
    total = 0.0
    for score, positive in zip(z.detach(), y, strict=True):
        v = (score - point.threshold) * (1 if positive else -1)
        keep = 7.0 * max(0.5 - float(v.sigmoid()), 0.0) + 0.3 * float(softplus(-v))
        give_up = float((worth if positive else cost)[0]) + 0.3 * float(softplus(v))
        total += min(keep, give_up)
    assert float(loss.detach()) == pytest.approx(total / len(y), rel=1e-6)


def test_the_mean_over_batches_is_the_loss_of_all_rows():
    z, y = rows()
    penalty = MiniBatchPenalty(GOAL)
    penalty(z, y)
    penalty.eval()
    parts = [penalty(z[own], y[own]) for own in torch.arange(200).split(50)]
    assert float(torch.stack(parts).mean()) == pytest.approx(float(penalty(z, y)))


def test_weights_count_as_repeated_rows():
    z, y = rows()
    weight = torch.randint(0, 3, (200,), generator=torch.Generator().manual_seed(0))
    one, other = MiniBatchPenalty(GOAL), MiniBatchPenalty(GOAL)
    weighted = one(z, y, weight)
    repeated = other(z.repeat_interleave(weight), y.repeat_interleave(weight))
    assert one.threshold == other.threshold
    assert one.counts == other.counts
    assert float(weighted) == pytest.approx(float(repeated))


def train(problem, loss_of, epochs=12, batch=64, seed=0):
    torch.manual_seed(seed)
    X, y = problem.X.float(), problem.positive
    model = nn.Linear(X.shape[1], 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    steps = epochs * -(-len(X) // batch)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss_of = loss_of(steps)
    for epoch in range(epochs):
        for own in torch.randperm(len(X)).split(batch):
            optimizer.zero_grad()
            loss_of(epoch, model(X[own]), y[own]).backward()
            optimizer.step()
            falling.step()
    return choose_threshold(y, model(X).detach(), problem.goal)


def cross_entropy(steps):
    return lambda epoch, z, y: binary_cross_entropy_with_logits(z.squeeze(1), y.float())


def for_goal(goal, warm_up=4):
    def loss_of(steps):
        penalty, ordinary = MiniBatchPenalty(goal, steps=int(0.7 * steps)), cross_entropy(steps)

        def loss(epoch, z, y):
            if epoch >= warm_up:
                return penalty(z, y)
            penalty.observe(z, y)
            return ordinary(epoch, z, y)

        return loss

    return loss_of


@pytest.mark.parametrize(
    "goal", ["max recall s.t. precision >= 0.9", "max precision s.t. recall >= 0.6"]
)
def test_a_model_of_little_capacity_comes_near_the_full_batch_solver(goal):
    problem = misled(goal, n=600)
    plain = train(problem, cross_entropy)
    trained = train(problem, for_goal(goal))
    best = solve(problem, nn.Linear(2, 1, dtype=torch.float64), Projected()).operating_point
    assert trained.feasible
    assert trained.objective > plain.objective + 0.5 * (best.objective - plain.objective)
    assert best.objective > plain.objective + 0.02


def test_multipliers_rise_while_the_goal_is_missed_and_fall_while_it_is_exceeded():
    z, y = rows()
    penalty = MiniBatchPenalty("max precision s.t. recall >= 0.5", positives=40, refresh=None)
    penalty(z, y)
    penalty(z, y)  # the window is full: the threshold stays
    at = penalty.multipliers[0]
    for _ in range(5):
        penalty(z - 9.0, y)
    raised = penalty.multipliers[0]
    assert raised > at
    for _ in range(15):
        penalty(z + 9.0, y)
    assert penalty.multipliers[0] < raised


def test_nothing_is_learnt_without_gradients_or_in_evaluation_mode():
    z, y = rows()
    penalty = MiniBatchPenalty(GOAL, steps=10)
    penalty(z, y)
    before = copy.deepcopy(penalty.state_dict()["_extra_state"])
    with torch.no_grad():
        penalty(z + 1, y)
    penalty.eval()
    loss = penalty((z + 1).requires_grad_(), y)
    assert loss.requires_grad
    assert_same(before, penalty.state_dict()["_extra_state"])


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[key]), key
        else:
            assert value == other[key], key


def test_lambda_rises_over_the_steps_and_stays():
    z, y = rows()
    penalty = MiniBatchPenalty(GOAL, steps=4, lam=1.0, lam_max=16.0)
    seen = []
    for _ in range(6):
        seen.append(penalty.lam)
        penalty(z, y)
    assert seen == pytest.approx([1, 2, 4, 8, 16, 16])


def test_a_state_dict_continues_to_the_same_losses():
    z, y = rows(600)
    one = MiniBatchPenalty(GOAL, steps=50, positives=40)
    batches = list(torch.arange(600).split(30))
    for own in batches[:10]:
        one(z[own], y[own])
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other = MiniBatchPenalty(GOAL, steps=50, positives=40)
    other.load_state_dict(torch.load(file, weights_only=True))
    for own in batches[10:]:
        assert float(one(z[own], y[own])) == float(other(z[own], y[own]))
    assert_same(one.state_dict()["_extra_state"], other.state_dict()["_extra_state"])
    with pytest.raises(SetpointError, match="a penalty for 'max recall"):
        MiniBatchPenalty("max f1").load_state_dict(one.state_dict())


def test_the_window_holds_the_latest_rows_with_so_many_positives():
    z, y = rows(600)
    penalty = MiniBatchPenalty(GOAL, positives=20)
    for own in torch.arange(600).split(30):
        penalty(z[own], y[own])
    kept = penalty.state_dict()["_extra_state"]["window"]
    assert kept[1].sum() == 20
    assert torch.equal(kept[0], z[-kept.shape[1] :])
    big = MiniBatchPenalty(GOAL, positives=20)
    big(z, y)
    assert big.state_dict()["_extra_state"]["window"].shape == (3, 600)


def test_batches_without_positives_before_and_after_the_first_one():
    penalty = MiniBatchPenalty(GOAL)
    z = torch.zeros(4, requires_grad=True)
    loss = penalty(z, torch.zeros(4))
    assert float(loss.detach()) == pytest.approx(np.log(2))  # cross-entropy
    penalty(z, torch.tensor([0, 1, 0, 1]))
    loss = penalty(z, torch.zeros(4))
    loss.backward()
    assert z.grad.isfinite().all()
    assert float(penalty(z[:0].detach(), torch.zeros(0))) == 0.0


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.bfloat16])
def test_labels_of_any_type_and_outputs_of_any_form(dtype):
    z, y = rows(50)
    z = z.float()
    expected = float(MiniBatchPenalty(GOAL)(z, y))
    two = torch.stack([torch.ones(50), z + 1], dim=1)
    for output in (z, z[:, None], two, SimpleNamespace(logits=z), {"logits": two}):
        for labels in (y.to(dtype), y.to(dtype)[:, None]):
            assert float(MiniBatchPenalty(GOAL)(output, labels)) == pytest.approx(
                expected, rel=1e-5
            )


def test_half_precision_is_computed_in_float32():
    z, y = rows(50)
    penalty = MiniBatchPenalty(GOAL).to(torch.bfloat16)  # as trainers do with the whole module
    assert penalty(z.bfloat16(), y).dtype == torch.float32
    assert penalty.counts[2] == y.sum()


@pytest.mark.parametrize(
    ("logits", "y", "message"),
    [
        (torch.zeros(4), torch.tensor([0, 1, 2, 0]), r"y\[2\] is 2; labels are booleans"),
        (torch.zeros(4), torch.tensor([0.0, float("nan"), 1, 0]), r"y\[1\] is nan"),
        (torch.zeros(4), torch.zeros(4, 2), r"y must have one entry per row.*\(4, 2\)"),
        (torch.zeros(4, 3), torch.zeros(4), r"of the shape \(4, 3\) for 4 rows"),
        (torch.zeros(5), torch.zeros(4), r"of the shape \(5,\) for 4 rows"),
        (torch.zeros(4, dtype=torch.int64), torch.zeros(4), "int64"),
        ((torch.zeros(4),), torch.zeros(4), "a tuple of 1; it must return logits"),
        (torch.tensor([0.0, float("nan")]), torch.tensor([0, 1]), "1 of 2 logits are NaN"),
    ],
)
def test_batches_that_cannot_be_read(logits, y, message):
    with pytest.raises(SetpointError, match=message):
        MiniBatchPenalty(GOAL)(logits, y)


def test_weights_must_fit():
    z, y = rows(4)
    for weight in (torch.ones(3), -torch.ones(4), torch.full((4,), float("nan"))):
        with pytest.raises(SetpointError, match="4 finite numbers >= 0"):
            MiniBatchPenalty(GOAL)(z, y, weight)


def test_nan_is_a_divergence():
    with pytest.raises(DivergedError, match="lower learning rate"):
        MiniBatchPenalty(GOAL)(torch.full((2,), float("nan")), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lam": 0.0}, "lam must be positive"),
        ({"gamma": float("inf")}, "gamma must be positive"),
        ({"refresh": -1.0}, "refresh must be positive"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"positives": 0}, "positives must be a whole number"),
        ({"steps": 3, "lam_max": 1.0}, "lam_max must be at least lam"),
    ],
)
def test_parameters_out_of_range(given, message):
    with pytest.raises(SetpointError, match=message):
        MiniBatchPenalty(GOAL, **given)


def test_goals_of_columns_are_refused_and_numbers_of_rows_need_their_size():
    with pytest.raises(GoalError, match="'amount'"):
        MiniBatchPenalty("min cost(fp=5, fn=amount)")
    with pytest.raises(SetpointError, match=r"rows=len\(dataset\)"):
        MiniBatchPenalty("max recall s.t. alarms <= 20")
    z, y = rows()
    penalty = MiniBatchPenalty("max recall s.t. alarms <= 20", rows=1000)
    penalty(z, y)
    assert penalty.counts[2:] == (5 * float(y.sum()), 5 * float((~y).sum()))


def test_processes_share_their_windows_and_train_one_model(tmp_path):
    """Two processes with half of each batch have the same state as one with all of it."""
    every = [(where, tmp_path) for where in as_torchrun_tells(2)]
    assert run_together(work_together, every) == [0, 0]
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    assert torch.equal(found[0]["weight"], found[1]["weight"])
    assert found[0]["counts"] == found[1]["counts"]
    assert sum(found[0]["counts"][2:]) == 8 * (3 + 5)
    found = [each["state"] for each in found]
    assert_same(*found)
    z, y = rows(64)
    alone = MiniBatchPenalty(Goal.parse(GOAL))
    for first in range(0, 64, 16):
        alone(z[first : first + 16], y[first : first + 16])
    expected = alone.state_dict()["_extra_state"]
    assert found[0]["threshold"] == expected["threshold"]
    assert torch.equal(found[0]["window"], expected["window"])
