"""Modules of one's own on streams."""

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from setpoint import GoalError, SetpointError, choose_threshold
from setpoint.data import ArrayRows, ByChance, LoaderRows
from setpoint.training import Stochastic, train
from setpoint.training.models import scores_of

SMALL = Stochastic(
    outer_iterations=2, inner_iterations=5, batch_size=128, rows=600, restarts=0, proximity=(0.0,)
)
GOAL = "max recall s.t. precision >= 0.6"


def images(n=600, seed=0):
    """Return small pictures; positives have a brighter corner."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(n, generator=generator) < 0.2
    X = torch.randn(n, 1, 5, 5, generator=generator)
    X[y, :, :3, :3] += 1.5
    return X, y


def small_cnn():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.BatchNorm2d(2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(18, 1),
    )


def exact(solution, X, y):
    return choose_threshold(y.numpy(), scores_of(solution.module, X).numpy(), GOAL)


@pytest.mark.usefixtures("short_ordinary")
def test_images_of_a_loader_and_validation_rows_of_another():
    (X, y), (X2, y2) = images(), images(seed=1)
    loader = LoaderRows(DataLoader(TensorDataset(X, y), 100))
    judges = LoaderRows(DataLoader(TensorDataset(X2, y2), 70))
    module = small_cnn()
    solution = train(module, loader, GOAL, validation=judges, solver=SMALL)
    assert solution.module is module
    assert not module.training
    point, expected = solution.operating_point, exact(solution, X2, y2)
    assert (point.threshold, point.counts) == (expected.threshold, expected.counts)
    assert point.on == "the validation rows"
    assert point.recall > 0.3
    assert len(solution.history) == 3


class Rows(IterableDataset):
    def __iter__(self):
        return zip(*images(300), strict=True)


@pytest.mark.usefixtures("short_ordinary")
def test_an_iterable_dataset_without_validation_rows():
    solution = train(small_cnn(), LoaderRows(DataLoader(Rows(), 64)), GOAL, solver=SMALL)
    expected = exact(solution, *images(300))
    assert solution.operating_point.counts == expected.counts
    assert solution.operating_point.on == "the training rows"


def test_a_split_sets_validation_rows_apart():
    X, y = images()
    source = ArrayRows(X.flatten(1), y, block_rows=90)
    split = ByChance(validation=0.4, seed=2)
    solution = train(torch.nn.Linear(25, 1), source, GOAL, split=split, solver=SMALL)
    judged = torch.cat([split(block) == 1 for block in source.blocks()])
    expected = exact(solution, X.flatten(1)[judged], y[judged])
    assert solution.operating_point.counts == expected.counts


def test_the_modules_own_weights_as_the_start():
    X, y = images()
    source = ArrayRows(X.flatten(1), y)
    module = torch.nn.Linear(25, 1)
    with torch.no_grad():
        module.weight.copy_(X[y].flatten(1).mean(0, keepdim=True))
    from_there = Stochastic(**{**vars(SMALL), "start": "given", "outer_iterations": 0})
    before = exact(_Trained(module), X.flatten(1), y)
    solution = train(module, source, GOAL, solver=from_there)
    assert solution.operating_point.counts == before.counts
    assert [c.name for c in solution.candidates] == ["the start"]


class _Trained:
    def __init__(self, module):
        self.module = module


def test_seeds():
    X, y = images(300)
    source = ArrayRows(X.flatten(1), y)
    solver = Stochastic(**{**vars(SMALL), "restarts": 1, "rows": 200})
    before = torch.get_rng_state()
    weights = []
    for seed in (3, 3, 4):
        module = torch.nn.Linear(25, 1)
        torch.nn.init.zeros_(module.weight)
        torch.set_rng_state(before)
        solution = train(module, source, GOAL, solver=solver, seed=seed)
        assert torch.equal(torch.get_rng_state(), before)
        weights.append([c.point.counts for c in solution.candidates])
    assert weights[0] == weights[1] != weights[2]


def test_a_callback_may_stop():
    X, y = images(300)
    seen = []

    def callback(record, total):
        seen.append((record.iteration, total))
        return "stop" if record.iteration == 1 else None

    source = ArrayRows(X.flatten(1), y)
    solution = train(torch.nn.Linear(25, 1), source, GOAL, solver=SMALL, callback=callback)
    assert seen == [(0, 2), (1, 2)]
    assert solution.history.interrupted


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Flatten(), "no parameters"),
        (torch.nn.Linear(25, 2), "one logit per row"),
        (torch.nn.Linear(24, 1), "cannot take rows of 25 features"),
        (torch.nn.Linear(25, 1).requires_grad_(False), "any trainable parameter"),
    ],
)
def test_modules_that_cannot_be_trained(module, message):
    X, y = images(300)
    with pytest.raises(SetpointError, match=message):
        train(module, ArrayRows(X.flatten(1), y), GOAL, solver=SMALL)


def test_other_mistakes():
    X, y = images(300)
    with pytest.raises(SetpointError, match=r"cannot take rows of the shape \(1, 5, 5\)"):
        train(torch.nn.Linear(25, 1), ArrayRows(X, y), GOAL, solver=SMALL)
    source = ArrayRows(X.flatten(1), y)
    with pytest.raises(SetpointError, match="recal"):
        train(torch.nn.Linear(25, 1), source, "max recal", solver=SMALL)
    one_class = LoaderRows([(X.flatten(1), np.zeros(300))])
    with pytest.raises(SetpointError, match="no positive training rows"):
        train(torch.nn.Linear(25, 1), one_class, GOAL, solver=SMALL)
    with pytest.raises(SetpointError, match="no positive validation rows"):
        train(torch.nn.Linear(25, 1), source, GOAL, solver=SMALL, validation=one_class)


# --- loaders that shuffle -------------------------------------------------------------------------


class ByHand:
    """A sampler of one's own that shuffles."""

    def __iter__(self):
        return iter(torch.randperm(300).tolist())

    def __len__(self):
        return 300


def flat(**given):
    X, y = images(300)
    return LoaderRows(DataLoader(TensorDataset(X.flatten(1), y), **given))


def batches_by_chance():
    return BatchSampler(RandomSampler(range(300)), 50, drop_last=False)


SHUFFLED = [
    lambda: flat(batch_size=50, shuffle=True),
    lambda: flat(batch_size=50, sampler=SubsetRandomSampler(range(200))),
    lambda: flat(batch_size=50, sampler=WeightedRandomSampler([1.0] * 300, 300)),
    lambda: flat(batch_sampler=batches_by_chance()),
    lambda: flat(batch_size=50, sampler=ByHand()),
    lambda: flat(batch_size=300, sampler=ByHand()),
]


def never(record, total):
    raise AssertionError("a training began")


@pytest.mark.parametrize("rows", SHUFFLED)
@pytest.mark.parametrize("share", ["validation", "certification", "test"])
def test_a_loader_that_shuffles_cannot_set_rows_apart(rows, share):
    module, source, split = torch.nn.Linear(25, 1), rows(), ByChance(**{share: 0.25})
    before = torch.get_rng_state()
    with pytest.raises(SetpointError, match="without shuffle") as caught:
        train(module, source, GOAL, split=split, solver=SMALL, callback=never)
    assert ("validation=" in str(caught.value)) == (share == "validation")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "rows",
    [
        lambda: flat(batch_size=50, sampler=WeightedRandomSampler([1.0] * 300, 300)),
        lambda: flat(batch_size=50, sampler=RandomSampler(range(300), replacement=True)),
        lambda: flat(batch_size=50, sampler=RandomSampler(range(300), num_samples=200)),
        lambda: flat(batch_size=70, shuffle=True, drop_last=True),
    ],
)
def test_validation_rows_must_be_the_same_in_every_pass(rows):
    for given in ({}, {"validation": rows()}, {"split": ByChance()}):
        with pytest.raises(SetpointError, match="other rows in every pass") as caught:
            train(torch.nn.Linear(25, 1), rows(), GOAL, solver=SMALL, callback=never, **given)
        assert "validation=" in str(caught.value)


@pytest.mark.usefixtures("short_ordinary")
@pytest.mark.parametrize(
    "rows",
    [*SHUFFLED[:1], *SHUFFLED[2:3], lambda: flat(batch_size=70, shuffle=True, drop_last=True)],
)
def test_a_loader_that_shuffles_trains_with_a_validation_source(rows):
    X, y = images(300, seed=1)
    judges = LoaderRows(DataLoader(TensorDataset(X.flatten(1), y), 60, shuffle=True))
    for split in (None, ByChance()):
        module = torch.nn.Linear(25, 1)
        solution = train(module, rows(), GOAL, validation=judges, split=split, solver=SMALL, seed=1)
        expected = exact(solution, X.flatten(1), y)
        assert solution.operating_point.counts == expected.counts


@pytest.mark.usefixtures("short_ordinary")
def test_a_loader_that_shuffles_trains_without_validation_rows():
    X, y = images(300)
    solution = train(torch.nn.Linear(25, 1), flat(batch_size=60, shuffle=True), GOAL, solver=SMALL)
    assert solution.operating_point.counts == exact(solution, X.flatten(1), y).counts


@pytest.mark.usefixtures("short_ordinary")
def test_a_loader_that_keeps_its_order_may_set_rows_apart():
    X, y = images(300)
    split = ByChance(validation=0.4, seed=2)
    for rows in (flat(batch_size=60), LoaderRows(DataLoader(Rows(), 64))):
        module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(25, 1))
        solution = train(module, rows, GOAL, split=split, solver=SMALL)
        judged = torch.cat([split(block) == 1 for block in rows.blocks()])
        assert solution.operating_point.counts == exact(solution, X[judged], y[judged]).counts


def test_randomly_augmented_rows_cannot_be_set_apart():
    X, y = images(300)

    class Disturbed(IterableDataset):
        def __iter__(self):
            noise = torch.rand(1)
            return ((x + noise, label) for x, label in zip(X.flatten(1), y, strict=True))

    rows = LoaderRows(DataLoader(Disturbed(), 50))
    with pytest.raises(SetpointError, match="two passes over the loader begin with different rows"):
        train(torch.nn.Linear(25, 1), rows, GOAL, split=ByChance(0.25), solver=SMALL)


class FirstKept:
    """A sampler that keeps the first batch and shuffles the rest."""

    def __iter__(self):
        return iter([*range(50), *(50 + torch.randperm(250)).tolist()])

    def __len__(self):
        return 300


def test_a_loader_that_keeps_its_first_batch_only_cannot_set_rows_apart():
    rows = flat(batch_size=50, sampler=FirstKept())
    with pytest.raises(SetpointError, match="batch 1 is another one than in an earlier pass"):
        train(
            torch.nn.Linear(25, 1), rows, GOAL, split=ByChance(0.25), solver=SMALL, callback=never
        )


@pytest.mark.parametrize(
    ("goal", "named"),
    [
        ("min cost(fp=5, fn=amount)", "'amount'"),
        ("max recall s.t. precision >= 0.9 for each 'the region'", "'the region'"),
        ("max recall s.t. alarms <= 9 per day on average", "the times, for each day"),
    ],
)
def test_goals_that_name_columns_are_refused_at_the_start(goal, named):
    message = rf"\({named}\), which training on a stream does not read; use SetpointClassifier.fit"
    with pytest.raises(GoalError, match=message):
        train(torch.nn.Linear(3, 1), "not even a source", goal)
