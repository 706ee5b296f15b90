"""Copies of a module that are computed at once train as copies that are called in turn."""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from setpoint import Goal
from setpoint.training import Projected, at_once
from setpoint.training.bundle import ModuleBundle, StackedBundle, make_bundle
from setpoint.training.descent import Counts, Descent
from setpoint.training.models import mlp, scores_of

K, N, D = 3, 11, 4


class Scaled(nn.Module):
    """A network with buffers, a scalar parameter and a parameter without a use."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([2.0]))
        self.register_buffer("count", torch.tensor(3))
        self.net = nn.Sequential(nn.Linear(D, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 1))
        self.factor = nn.Parameter(torch.tensor(1.5))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, X):
        return self.factor * self.net(X * self.scale).squeeze() + self.count


class Tied(nn.Module):
    """A network with a matrix that two layers share."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 1)
        self.second.weight = self.first.weight

    def forward(self, X):
        return self.last(self.second(self.first(X).tanh()).tanh())


def frozen():
    module = mlp(D, 5)
    module[0].bias.requires_grad_(False)
    return module


KINDS = {
    "mlp": lambda: mlp(D, 5),
    "float64": lambda: mlp(D, 5).double(),
    "partly frozen": frozen,
    "buffers": Scaled,
    "tied": Tied,
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, D)), nn.Conv1d(1, 3, 2), nn.Flatten(), nn.Tanh(), nn.Linear(9, 1)
    ),
}
ORDERS = {"at once": (2**60, 1, 2**30), "in blocks of rows": (0, 1, 4)}


@pytest.fixture(params=ORDERS)
def order(request, monkeypatch):
    """Compute small networks at once, or in turn in blocks of four rows."""
    most, size, rows = ORDERS[request.param]
    monkeypatch.setattr(at_once, "_MOST_ON_CPU", most)
    monkeypatch.setattr(at_once, "_BLOCK", size)
    monkeypatch.setattr(at_once, "_BLOCK_ROWS", rows)


def starts_of(module, k=K):
    """Return state dicts that differ in every parameter and, where they are real, buffers."""
    real = {n: v for n, v in module.state_dict().items() if v.is_floating_point()}
    return [
        {**module.state_dict(), **{n: v + 0.3 * torch.randn_like(v) for n, v in real.items()}}
        for _ in range(k)
    ]


def both(module, rows, k=K):
    """Return copies computed at once and the same copies in turn, with the same origins."""
    starts = starts_of(module, k)
    pair = make_bundle(module, starts, rows), make_bundle(module, starts)
    assert [type(bundle) for bundle in pair] == [StackedBundle, ModuleBundle]
    origins = torch.randn(k)
    for bundle in pair:
        bundle.origins.copy_(origins)
    return pair


@pytest.fixture(params=KINDS)
def case(request):
    torch.manual_seed(0)
    module = KINDS[request.param]()
    X = torch.randn(N, D, dtype=next(module.parameters()).dtype)
    return *both(module, X[:8]), X


def trained(bundle, X, steps=5, proximity=(0.0, 0.5, 2.0)):
    """Return the bundle after steps of Adam on a loss that bends."""
    optimizer = torch.optim.Adam(bundle.parameters, lr=0.01)
    for _ in range(steps):
        bundle.backward(bundle.logits(X).tanh())
        bundle.pull_to_start(proximity)
        optimizer.step()
    return bundle


def assert_same_weights(a, b, k=K, **tolerance):
    for i in range(k):
        torch.testing.assert_close(a.weights(i), b.weights(i), **tolerance)
    torch.testing.assert_close(a.origins, b.origins, **tolerance)


def gradients_by_parameter(bundle, k=K):
    """Return the gradients of copies in turn, stacked."""
    *own, origins = [p.grad for p in bundle.parameters]
    each = [own[i :: len(own) // k] for i in range(len(own) // k)]
    return [None if g[0] is None else torch.stack(g) for g in each] + [origins]


@pytest.mark.usefixtures("order")
def test_logits_and_gradients(case):
    stacked, in_turn, X = case
    torch.testing.assert_close(stacked.logits(X), in_turn.logits(X))
    assert not stacked.logits(X).requires_grad
    slopes = torch.randn(K, N).to(X)
    for bundle in (stacked, in_turn):
        for _ in range(2):  # gradients must not add up
            bundle.logits(X)
            bundle.backward(slopes)
    for p, expected in zip(stacked.parameters, gradients_by_parameter(in_turn), strict=True):
        assert (p.grad is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(p.grad, expected)


@pytest.mark.usefixtures("order")
def test_steps_of_adam_with_proximity(case):
    stacked, in_turn, X = case
    before = stacked.weights(0)
    assert_same_weights(trained(stacked, X), trained(in_turn, X))
    assert any((before[n] != v).any() for n, v in stacked.weights(0).items())
    torch.testing.assert_close(stacked.scores(X), in_turn.scores(X))


@given(
    st.integers(2, 5),
    st.integers(1, 20),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from([nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_any_network(k, n, widths, activation, bias, seed):
    torch.manual_seed(seed)
    sizes = [D, *widths]
    layers = [
        layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b, bias=bias), activation())
    ]
    module = nn.Sequential(*layers, nn.Linear(sizes[-1], 1)).double()
    X = torch.randn(n, D).double()
    stacked, in_turn = both(module, X[:8], k)
    assert at_once.pays(stacked._parameters, X)
    slopes = torch.randn(k, n).double()
    for bundle in (stacked, in_turn):
        bundle.step = bundle.logits(X)
        bundle.backward(slopes)
    torch.testing.assert_close(stacked.step, in_turn.step)
    expected = gradients_by_parameter(in_turn, k)
    torch.testing.assert_close([p.grad for p in stacked.parameters], expected)


@pytest.mark.usefixtures("order")
def test_slices_share_weights_and_origins(case):
    stacked, in_turn, X = case
    part = stacked[1:]
    trained(stacked, X)
    trained(in_turn, X)
    torch.testing.assert_close(part.logits(X), in_turn.logits(X)[1:])
    torch.testing.assert_close(part.scores(X), in_turn.scores(X)[1:])
    torch.testing.assert_close(part.weights(0), in_turn.weights(1))
    part.origins.add_(1.0)
    torch.testing.assert_close(stacked.origins, in_turn.origins + torch.tensor([0, 1, 1]).to(X))


def test_weights_are_in_memory_of_their_own(case):
    stacked, _, X = case
    kept = stacked.weights(1)
    values = copy.deepcopy(kept)
    trained(stacked, X)
    torch.testing.assert_close(kept, values, rtol=0, atol=0)
    for value in kept.values():
        assert value.untyped_storage().nbytes() == value.numel() * value.element_size()


def test_buffers_are_those_of_the_copies():
    torch.manual_seed(0)
    stacked, in_turn = both(Scaled(), torch.randn(8, D))
    assert torch.cat(in_turn.buffers).tolist() == torch.cat([*stacked.buffers[0]]).tolist()
    stacked.buffers[0].fill_(7.0)  # as an average over processes would
    X = torch.randn(N, D)
    for i in range(K):
        assert stacked.weights(i)["scale"] == 7.0
    module = Scaled()
    module.load_state_dict(stacked.weights(1))
    torch.testing.assert_close(stacked.scores(X)[1], scores_of(module, X))
    torch.testing.assert_close(stacked.logits(X)[1] + stacked.origins[1], module(X).detach())


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [0, 1], ids=["at once", "in turn"])
@pytest.mark.parametrize("restored", [0, 1], ids=["at once", "in turn"])
def test_one_state_for_both(case, saved, restored):
    *pair, X = case
    begun = trained(pair[saved], X)
    module = begun._modules[0]
    starts = [module.state_dict()] * K
    other = make_bundle(module, starts, None if restored else X[:8])
    parameters = list(other.parameters)
    other.load_state_dict(copy.deepcopy(begun.state_dict()))
    assert all(a is b for a, b in zip(parameters, other.parameters, strict=True))
    assert_same_weights(other, begun, rtol=0, atol=0)
    assert_same_weights(trained(other, X), trained(begun, X))  # with where they started


def descent(module, starts, rows):
    solver = Projected(dual_rate=0.03, lam0=1.0, lam_max=1000.0)
    goal = Goal.parse("max recall s.t. precision >= 0.8")
    gamma = [0.1, 0.1, 0.01]
    return Descent(goal, solver, (5.0, 6.0), module, starts, [0.0, 0.1, 1.0], gamma, 0.01, 20, rows)


def advance(run, X, steps=3):
    sign = torch.where(torch.arange(N) < 5, 1.0, -1.0)
    batch = run.batch(X, sign, torch.ones(N))
    for _ in range(steps):
        counts = Counts(torch.full((K,), 3.0).numpy(), torch.full((K,), 2.0).numpy())
        run.push(batch, run.margins(batch), counts)
        run.step()
    return run


@pytest.mark.parametrize("kind", ["mlp", "partly frozen", "buffers"])
@pytest.mark.parametrize("saved", [True, False], ids=["at once", "in turn"])
@pytest.mark.parametrize("restored", [True, False], ids=["at once", "in turn"])
def test_moments_are_restored_too(kind, saved, restored):
    """The state of copies in turn is that of files written before copies were stacked."""
    torch.manual_seed(0)
    module, X = KINDS[kind](), torch.randn(N, D)
    starts = starts_of(module)
    rows = {True: X[:8], False: None}
    begun = advance(descent(module, starts, rows[saved]), X)
    state = copy.deepcopy(begun.state_dict())
    other = descent(module, [module.state_dict()] * K, rows[restored])
    other.load_state_dict(state)
    exact = {"rtol": 0, "atol": 0} if saved == restored else {}
    assert_same_weights(advance(begun, X).bundle, advance(other, X).bundle, **exact)
    assert len(state["optimizer"]["param_groups"][0]["params"]) == 1 + K * sum(
        p.requires_grad for p in module.parameters()
    )


# --- modules that are called in turn --------------------------------------------------------------


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(D, 5)


class Branches(Wrapped):
    def forward(self, X):
        z = self.net(X)
        return z if z[0] > z.detach().mean() else 2 * z


class Noisy(Wrapped):
    def forward(self, X):
        return self.net(X) + 0.01 * torch.randn(len(X), 1)


class Counting(Wrapped):
    calls = 0

    def forward(self, X):
        self.calls += 1
        return self.net(X)


class Centred(Wrapped):
    def forward(self, X):
        return self.net(X - X.mean(0))


class SharedLayer(Tied):
    def __init__(self):
        super().__init__()
        self.second = self.first


class Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round(decimals=3)

    @staticmethod
    def backward(ctx, slope):
        return slope


class Rounded(Wrapped):
    def forward(self, X):
        return Rounding.apply(self.net(X))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.last = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 1)

    def forward(self, X):
        return self.last(self.cells(X[..., None])[0][:, -1])


def with_hook(register):
    module = mlp(D, 5)
    register(module)
    return module


def double(*arguments):
    return 2 * arguments[-1]


IN_TURN = {
    "BatchNorm": lambda: nn.Sequential(nn.Linear(D, 5), nn.BatchNorm1d(5), nn.Linear(5, 1)),
    "Dropout": lambda: nn.Sequential(nn.Linear(D, 9), nn.Dropout(0.5), nn.Linear(9, 1)),
    "branches": Branches,
    "random numbers": Noisy,
    "counts its calls": Counting,
    "rows influence one another": Centred,
    "a layer with two names": SharedLayer,
    "function without a rule": Rounded,
    "no batched operation": Recurrent,
    "hook": lambda: with_hook(lambda m: m[1].register_forward_hook(double)),
    "backward hook": lambda: with_hook(lambda m: m[1].register_full_backward_hook(lambda *_: None)),
    "hook of a parameter": lambda: with_hook(lambda m: m[0].weight.register_hook(double)),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("kind", IN_TURN)
def test_other_modules_are_called_in_turn(kind):
    torch.manual_seed(0)
    module, X = IN_TURN[kind](), torch.randn(N, D)
    starts = starts_of(module)
    before, numbers = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    tried, in_turn = make_bundle(module, starts, X[:8]), make_bundle(module, starts)
    # The trial leaves nothing behind.
    assert torch.equal(torch.get_rng_state(), numbers)
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)
    assert getattr(module, "calls", 0) == 0
    assert type(tried) is ModuleBundle
    for bundle in (tried, in_turn):
        torch.manual_seed(1)
        trained(bundle, X)
    assert_same_weights(tried, in_turn, rtol=0, atol=0)


def test_one_model_is_called_as_it_is():
    module = mlp(D, 5)
    assert type(make_bundle(module, [module.state_dict()], torch.randn(8, D))) is ModuleBundle


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_computed_at_once(dtype):
    torch.manual_seed(0)
    module, X = mlp(D, 5).to(dtype), torch.randn(N, D).to(dtype)
    stacked, in_turn = both(module, X[:8])
    assert stacked.origins.dtype == torch.float32
    logits = stacked.logits(X)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, in_turn.logits(X), rtol=0.05, atol=0.05)
