"""Training over epochs of a data loader."""

from types import SimpleNamespace

import pytest
import torch
from problems import crossed, misled
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from setpoint import GoalError, SetpointError, choose_threshold
from setpoint.data import ArrayRows, ByChance, LoaderRows
from setpoint.errors import CheckpointError, SourceError
from setpoint.streams import Epochs, Stochastic, train

GOAL = "max recall s.t. precision >= 0.7"


def rows(n=240, seed=0):
    problem = misled(GOAL, n=n, seed=seed)
    return problem.X.float(), problem.positive


def loader(n=240, seed=0, batch_size=40, **given):
    return DataLoader(TensorDataset(*rows(n, seed)), batch_size=batch_size, **given)


def small(outputs=1):
    torch.manual_seed(1)
    return nn.Linear(2, outputs)


def exact(module, X, y):
    with torch.no_grad():
        return choose_threshold(y, module(X).squeeze(1), GOAL)


class Counted:
    """A loader that counts its passes."""

    def __init__(self, batches):
        self.batches, self.passes = batches, 0

    def __iter__(self):
        self.passes += 1
        return iter(self.batches)


def test_a_shuffling_loader_trains_for_so_many_passes():
    training = Counted(loader(shuffle=True))
    held_out = loader(seed=1, batch_size=100, shuffle=True)
    module = small()
    solution = train(module, training, GOAL, validation=held_out, epochs=6)
    assert training.passes == 6
    assert solution.module is module
    assert not module.training
    point, expected = solution.operating_point, exact(module, *rows(seed=1))
    assert (point.threshold, point.counts) == (expected.threshold, expected.counts)
    assert point.on == "the validation rows"
    names = [candidate.name for candidate in solution.candidates]
    assert names == ["as given", "cross-entropy", "goal-trained from cross-entropy"]
    assert len(solution.history) == 7
    assert solution.candidates.winner.point.recall > solution.candidates[0].point.recall


def test_given_weights_are_a_candidate_and_kept_if_training_makes_them_worse():
    X, y = rows()
    module = small()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0.0]]))
    before = exact(module, X, y)
    weights = module.weight.clone()

    solution = train(module, loader(), GOAL, epochs=2, warm_up=0, optimizer=uphill)
    assert torch.equal(module.weight, weights)
    assert solution.candidates.winner.name == "as given"
    assert solution.operating_point.counts == before.counts
    assert solution.operating_point.threshold == before.threshold
    assert [c.start for c in solution.candidates] == [None, "as given"]


def uphill(parameters):
    # With this decay a step forgets the weights: what remains is the wrong direction.
    return torch.optim.SGD(parameters, lr=0.1, weight_decay=10.0, maximize=True)


@pytest.mark.parametrize("shuffle", [False, True])
def test_no_epochs_find_the_exact_threshold(shuffle):
    module = small()
    weights = module.weight.clone()
    solution = train(module, loader(shuffle=shuffle), GOAL, epochs=0)
    assert torch.equal(module.weight, weights)
    assert solution.operating_point.counts == exact(module, *rows()).counts
    assert solution.operating_point.on == "the training rows"


def test_training_for_the_goal_beats_cross_entropy_where_capacity_is_limited():
    goal = "max precision s.t. recall >= 0.6"
    problem = crossed(goal)
    given = TensorDataset(problem.X.float(), problem.positive)
    found = {}
    for warm_up in (5, 15):
        batches = DataLoader(given, batch_size=64, shuffle=True)
        torch.manual_seed(0)
        module = nn.Linear(4, 1)
        solution = train(module, batches, goal, epochs=15, warm_up=warm_up, optimizer=fast_adam)
        found[warm_up] = solution.operating_point
    assert all(point.feasible for point in found.values())
    assert found[5].precision > found[15].precision + 0.03


def fast_adam(parameters):
    return torch.optim.Adam(parameters, lr=0.05)


# --- modules and batches --------------------------------------------------------------------------


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(1, 1), nn.Linear(1, 1)

    def forward(self, first, second):
        return self.one(first) + self.two(second)


class Classifier(nn.Module):
    """What a Hugging Face model looks like: named inputs, two logits in an object."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, ids, labels=None):
        assert labels is None
        return SimpleNamespace(loss=None, logits=self.linear(ids))


def batched(make, n=120, size=40):
    X, y = rows(n)
    return [make(X[i : i + size], y[i : i + size]) for i in range(0, n, size)]


@pytest.mark.parametrize(
    ("module", "make"),
    [
        (TwoTowers, lambda X, y: ((X[:, :1], X[:, 1:]), y)),
        (TwoTowers, lambda X, y: {"first": X[:, :1], "second": X[:, 1:], "labels": y.long()}),
        (TwoTowers, lambda X, y: ({"second": X[:, 1:], "first": X[:, :1]}, y.float()[:, None])),
        (Classifier, lambda X, y: {"ids": X, "label": y}),
        (lambda: nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), lambda X, y: (X, y)),
        (lambda: nn.LazyLinear(1), lambda X, y: (X, y)),
    ],
)
def test_modules_of_several_inputs_and_outputs_of_any_form(module, make):
    torch.manual_seed(0)
    solution = train(module(), batched(make), GOAL, epochs=8, optimizer=fast_adam)
    assert solution.operating_point.recall > 0.3
    assert len(solution.candidates) == 3


def test_labels_and_weights_by_name():
    def make(X, y):
        return {"ids": X, "fraud": y, "labels": y * 9, "w": torch.full((len(y),), 2.0)}

    class Extra(Classifier):
        def forward(self, ids, labels):
            return super().forward(ids)

    solution = train(Extra(), batched(make), GOAL, epochs=1, label="fraud", weight="w")
    assert sum(solution.operating_point.counts[2:]) == 240


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Flatten(), "no parameters"),
        (nn.Linear(2, 3), r"returned torch.float32 of the shape \(40, 3\) for 40 rows"),
        (nn.Linear(3, 1), r"cannot take batch 0, an input of the shape \(40, 2\)"),
        (nn.Linear(2, 1).requires_grad_(False), "all of them are frozen"),
        (nn.LSTM(2, 1), "returned a tuple of 2; it must return logits"),
    ],
)
def test_modules_that_cannot_be_trained(module, message):
    with pytest.raises(SetpointError, match=message):
        train(module, loader(), GOAL, epochs=1)


def test_logits_that_do_not_depend_on_the_parameters():
    class Fixed(nn.Linear):
        def forward(self, X):
            return X[:, 0]

    with pytest.raises(SetpointError, match="do not depend on any trainable parameter"):
        train(Fixed(2, 1), loader(), GOAL, epochs=1)


def test_nan_logits_of_the_given_weights():
    module = small()
    torch.nn.init.constant_(module.weight, float("nan"))
    with pytest.raises(SetpointError, match="the model returned NaN for 40 of the rows of batch 0"):
        train(module, loader(), GOAL, epochs=1)


def test_a_divergence_keeps_the_best_model():
    module = small()

    def break_it(parameters):
        return torch.optim.SGD(parameters, lr=float("inf"))

    with pytest.warns(UserWarning, match="training diverged after 0 of 3 iterations"):
        solution = train(module, loader(), GOAL, epochs=3, optimizer=break_it)
    assert solution.history.diverged
    assert solution.candidates.winner.name == "as given"
    assert module.weight.isfinite().all()


# --- modes ----------------------------------------------------------------------------------------


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.frozen, self.linear = nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Linear(2, 1)
        self.seen = []

    def forward(self, X):
        self.seen.append((self.training, self.norm.training, self.frozen.training))
        return self.linear(self.frozen(self.norm(X)))


def test_layers_in_evaluation_mode_stay_so_and_a_whole_module_does_not():
    module = Modes()
    module.frozen.eval()
    train(module, loader(), GOAL, validation=loader(seed=1), epochs=1)
    assert set(module.seen) == {(False, False, False), (True, True, False)}
    assert module.frozen.num_batches_tracked == 0
    module = Modes().eval()
    train(module, loader(), GOAL, validation=loader(seed=1), epochs=1)
    assert set(module.seen) == {(False, False, False), (True, True, True)}


def test_frozen_parameters_stay():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    module[0].requires_grad_(False)
    before, seen = module[0].weight.clone(), trained(module)
    train(module, loader(), GOAL, epochs=2, optimizer=fast_adam, callback=seen)
    assert torch.equal(module[0].weight, before)
    assert not torch.equal(seen.weights[0], seen.weights[-1])


def trained(module):
    """Return a callback that keeps the weights of the second layer after each epoch."""

    def keep(record, total):
        keep.weights.append(module[1].weight.detach().clone())

    keep.weights = []
    return keep


def test_a_single_row_is_left_out_where_batch_norm_could_not_train_on_it():
    module = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    with pytest.warns(UserWarning, match="batch 6 has a single row, which BatchNorm"):
        train(module, loader(241), GOAL, validation=loader(seed=1), epochs=1)
    squeezed = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    train(squeezed, loader(241), GOAL, epochs=1)


# --- optimizers -----------------------------------------------------------------------------------


def test_an_optimizer_with_groups_and_a_scheduler():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    groups = [
        {"params": module[0].parameters(), "lr": 0.0},
        {"params": module[1].parameters(), "lr": 0.1},
    ]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    before, seen = module[0].weight.clone(), trained(module)

    def halving(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, step_size=6, gamma=0.5)

    given = {"optimizer": optimizer, "scheduler": halving, "callback": seen}
    train(module, loader(), GOAL, epochs=3, warm_up=1, **given)
    assert torch.equal(module[0].weight, before)
    assert not torch.equal(seen.weights[0], seen.weights[-1])
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.1 / 2**3)  # 6 batches in an epoch


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (lambda module: torch.optim.SGD([*module.parameters(), torch.ones(1)]), "1 of the 3 par"),
        (lambda module: torch.optim.SGD(small().parameters()), "2 of the 2 parameters"),
        (lambda module: torch.optim.LBFGS(module.parameters()), "LBFGS needs several losses"),
        (lambda module: lambda parameters: 3, "optimizer made a int"),
        (lambda module: "adam", "a function that makes one, not a str"),
    ],
)
def test_optimizers_that_do_not_fit(optimizer, message):
    module = small()
    with pytest.raises(SetpointError, match=message):
        train(module, loader(), GOAL, epochs=1, optimizer=optimizer(module))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": -1}, "epochs must be a whole number of at least 0"),
        ({"epochs": 2.5}, "epochs must be a whole number"),
        ({"epochs": 2, "warm_up": 3}, "warm_up must be a whole number from 0 to 2"),
        ({"scheduler": 3}, "scheduler must be a function"),
        ({"scheduler": lambda optimizer: 3}, "scheduler made a int"),
        ({"split": ByChance(0.3)}, "validation=DataLoader"),
        ({"solver": Epochs(), "epochs": 3}, "epochs: give it to Epochs"),
        ({"solver": Stochastic(), "epochs": 3}, "epochs: only for a loader"),
        ({"validation": ArrayRows(*rows())}, "not row sources"),
    ],
)
def test_other_mistakes(given, message):
    with pytest.raises(SetpointError, match=message):
        train(small(), loader(), GOAL, **given)


def test_goals_that_do_not_suit_a_loader():
    with pytest.raises(GoalError, match="'amount'"):
        train(small(), loader(), "min cost(fp=5, fn=amount)")
    with pytest.raises(GoalError, match="a constraint on a number of rows"):
        train(small(), loader(), "max recall s.t. alarms <= 20")


# --- loaders --------------------------------------------------------------------------------------


class Rows(IterableDataset):
    def __iter__(self):
        return zip(*rows(120), strict=True)


@pytest.mark.parametrize("warm_up", [0, 1])
def test_an_iterable_dataset_without_a_length(warm_up):
    batches = DataLoader(Rows(), batch_size=40)
    solution = train(small(), batches, GOAL, epochs=2, warm_up=warm_up)
    assert sum(solution.operating_point.counts[2:]) == 120


def test_workers():
    batches = DataLoader(TensorDataset(*rows(80)), batch_size=40, shuffle=True, num_workers=1)
    train(small(), batches, GOAL, epochs=1)


def test_loaders_of_one_class():
    X, y = rows()
    none = DataLoader(TensorDataset(X, torch.zeros_like(y)), batch_size=60)
    with pytest.raises(SetpointError, match="no positive training rows"):
        train(small(), none, GOAL, validation=loader(), epochs=1)
    with pytest.raises(SetpointError, match="the validation rows: there are no positive"):
        train(small(), loader(), GOAL, validation=none, epochs=1)


def test_batches_sorted_by_class():
    X, y = rows()
    order = y.long().argsort()
    batches = DataLoader(TensorDataset(X[order], y[order]), batch_size=30)
    assert train(small(), batches, GOAL, epochs=2).operating_point.feasible


def test_loaders_that_can_be_read_only_once():
    with pytest.raises(SourceError, match="only once"):
        train(small(), iter(loader()), GOAL)
    with pytest.raises(SourceError, match="only once"):
        train(small(), loader(), GOAL, validation=iter(loader()))


def test_validation_rows_that_change():
    drawn = loader(seed=1, shuffle=True, drop_last=True, batch_size=70)
    with pytest.raises(SourceError, match="other rows in every pass"):
        train(small(), loader(), GOAL, validation=drawn)
    train(small(), drawn, GOAL, validation=loader(), epochs=1)


def test_a_loader_for_the_stochastic_solver_and_rows_for_epochs():
    quick = Stochastic(outer_iterations=1, inner_iterations=2, batch_size=50, restarts=0)
    for given in (loader(), LoaderRows(loader())):
        names = [c.name for c in train(small(), given, GOAL, solver=quick).candidates]
        assert not any("as given" in name for name in names)  # a linear one starts anew
        solution = train(small(), given, GOAL, solver=Epochs(epochs=1, warm_up=0))
        assert [c.name for c in solution.candidates] == ["as given", "goal-trained from as given"]


# --- seeds and checkpoints ------------------------------------------------------------------------


def test_seeds():
    found = []
    for seed in (3, 3, 4):
        module = small()
        train(module, loader(shuffle=True), GOAL, epochs=3, seed=seed, optimizer=fast_adam)
        found.append(module.weight.detach().clone())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("optimizer", [None, fast_adam])
def test_a_checkpoint_continues_to_the_same_result(tmp_path, optimizer):
    def run(module, **given):
        batches = loader(shuffle=True)
        return train(module, batches, GOAL, epochs=5, warm_up=2, optimizer=optimizer, **given)

    whole, halted = small(), small()
    expected = run(whole)

    def stop(record, total):
        return "stop" if record.iteration == 3 else None

    run(halted, checkpoint=tmp_path / "c", callback=stop)
    halted = small()
    found = run(halted, checkpoint=tmp_path / "c")
    assert torch.equal(whole.weight, halted.weight)
    assert found.candidates == expected.candidates
    assert len(found.history) == 6


def test_a_checkpoint_of_another_training(tmp_path):
    stop = lambda record, total: "stop"  # noqa: E731
    train(small(), loader(), GOAL, epochs=2, checkpoint=tmp_path / "c", callback=stop)
    with pytest.raises(CheckpointError, match="another solver"):
        train(small(), loader(), GOAL, epochs=3, checkpoint=tmp_path / "c")
