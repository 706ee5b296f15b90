import copy
from dataclasses import replace

import pytest
import torch
from problems import overlapping
from torch import nn

from setpoint.training import bundle as bundle_module
from setpoint.training import get_solver, make_problem, solve
from setpoint.training.bundle import (
    LinearBundle,
    ModuleBundle,
    ShardedSums,
    StackedBundle,
    make_bundle,
)
from setpoint.training.models import build, linear, mlp, scores_of

K, N, D = 3, 7, 4
KINDS = {
    "linear": lambda: build("linear", D),
    "linear in float64": lambda: build("linear", D).double(),
    "linear without a bias": lambda: nn.Linear(D, 1, bias=False),
    "mlp": lambda: nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, 1)),
    "mlp in float64": lambda: build("mlp", D).double(),
    "partly frozen": lambda: frozen(nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, 1))),
}


def frozen(module):
    module[0].bias.requires_grad_(False)
    return module


def randomised(module):
    """Return a copy with other weights; a linear one's bias stays zero, for a bundle drops it."""
    other = copy.deepcopy(module)
    with torch.no_grad():
        for name, p in other.named_parameters():
            if not (isinstance(other, nn.Linear) and name == "bias"):
                p.copy_(torch.randn_like(p))
    return other


@pytest.fixture(params=KINDS)
def case(request):
    """A bundle with random origins, its models apart, and rows in their precision."""
    torch.manual_seed(0)
    module = KINDS[request.param]()
    apart = [randomised(module) for _ in range(K)]
    bundle = make_bundle(module, [m.state_dict() for m in apart])
    bundle.origins.copy_(torch.randn(K))
    return bundle, apart, torch.randn(N, D, dtype=next(module.parameters()).dtype)


def gradients(bundle):
    return [p.grad.clone() for p in bundle.parameters]


def move(bundle):
    """Change every parameter, as an optimiser does."""
    with torch.no_grad():
        for p in bundle.parameters:
            p.add_(torch.randn_like(p))


def test_only_linear_models_share_a_matrix():
    linear, net = build("linear", D), KINDS["mlp"]()
    assert isinstance(make_bundle(linear, [linear.state_dict()]), LinearBundle)
    assert isinstance(make_bundle(net, [net.state_dict()]), ModuleBundle)


def test_logits_are_those_of_separate_models_above_the_origins(case):
    bundle, apart, X = case
    logits = bundle.logits(bundle.prepare(X))
    expected = torch.stack([m(X).reshape(-1) for m in apart]) - bundle.origins[:, None]
    assert logits.shape == (K, N)
    assert not logits.requires_grad
    torch.testing.assert_close(logits, expected.detach().to(logits))


def test_scores_do_not_know_the_origins(case):
    bundle, apart, X = case
    scores = bundle.scores(X)
    assert scores.dtype == X.dtype
    torch.testing.assert_close(scores, torch.stack([scores_of(m, X) for m in apart]))


def test_gradients_are_those_of_autograd(case):
    bundle, apart, X = case
    slopes = torch.randn(K, N).to(bundle.origins)
    for _ in range(2):  # a second time, for gradients must not add up
        bundle.logits(bundle.prepare(X))
        bundle.backward(slopes)
    origins = bundle.origins.detach().clone().requires_grad_()
    logits = torch.stack([m(X).reshape(-1) for m in apart]) - origins[:, None]
    (slopes * logits).sum().backward()
    if isinstance(bundle, LinearBundle):
        expected = [torch.cat([m.weight.grad for m in apart]).float()]
    else:
        expected = [p.grad for m in apart for p in m.parameters() if p.requires_grad]
    expected.append(origins.grad)
    for got, wanted in zip(gradients(bundle), expected, strict=True):
        torch.testing.assert_close(got, wanted)


def test_proximity_pulls_each_model_towards_its_start(case):
    bundle, _, X = case
    start = [p.detach().clone() for p in bundle.parameters]
    move(bundle)
    proximity = torch.tensor([0.0, 0.5, 2.0]).to(bundle.origins)
    bundle.logits(bundle.prepare(X))
    bundle.backward(torch.randn(K, N).to(bundle.origins))
    before = gradients(bundle)
    bundle.pull_to_start(proximity.tolist())
    *pulls, of_origins = [a - b for a, b in zip(gradients(bundle), before, strict=True)]
    assert (of_origins == 0).all()  # the threshold is free
    each = len(pulls) // K
    for i, pull in enumerate(pulls):
        strength = proximity[:, None] if isinstance(bundle, LinearBundle) else proximity[i // each]
        torch.testing.assert_close(pull, strength * (bundle.parameters[i] - start[i]).detach())


def test_weights_load_into_a_module_that_scores_alike(case):
    bundle, apart, X = case
    move(bundle)
    for k in range(K):
        module = apart[0]
        module.load_state_dict(bundle.weights(k))
        torch.testing.assert_close(scores_of(module, X), bundle.scores(X)[k])


def test_some_copies_share_weights_and_hold_no_graph():
    """On a GPU a graph that is alive ties the next one to its stream."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, 1))
    X = torch.randn(N, D)
    whole = make_bundle(module, [randomised(module).state_dict() for _ in range(K)], X)
    assert isinstance(whole, StackedBundle)
    whole.logits(X)
    some = whole[1:3]
    assert some.last is None
    assert all(p.grad_fn is None for p in some._parameters.values())
    with torch.no_grad():
        for p in whole.parameters:
            p.add_(torch.randn_like(p))
    torch.testing.assert_close(some.logits(X), whole.logits(X)[1:3])


def test_a_bias_is_left_to_the_threshold():
    module = nn.Linear(D, 1)
    nn.init.constant_(module.bias, 5.0)
    bundle = make_bundle(module, [module.state_dict()])
    assert bundle.weights(0)["bias"] == 0.0
    X = torch.randn(N, D, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(bundle.scores(X)[0], scores_of(module, X) - 5.0)


def test_a_state_can_be_restored(case):
    bundle, apart, X = case
    move(bundle)
    state = copy.deepcopy(bundle.state_dict())
    other = make_bundle(apart[0], [apart[0].state_dict()] * K)
    parameters = list(other.parameters)
    other.load_state_dict(state)
    # An optimiser holds the tensors themselves.
    assert all(a is b for a, b in zip(parameters, other.parameters, strict=True))
    for b in (bundle, other):
        b.step = b.logits(b.prepare(X))
        b.backward(torch.ones(K, N).to(b.origins))
        b.pull_to_start([1.0] * K)
    torch.testing.assert_close(other.step, bundle.step, rtol=0, atol=0)
    for a, b in zip(gradients(other), gradients(bundle), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_bundle_leaves_the_starts_and_the_module_as_they_were(case):
    _, apart, _ = case
    starts = [m.state_dict() for m in apart]
    before = copy.deepcopy(starts)
    move(make_bundle(apart[0], starts))
    for start, was in zip(starts, before, strict=True):
        for name, value in was.items():
            assert (start[name] == value).all()


def test_scores_are_asked_in_evaluation_mode_and_training_goes_on_after():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(D, 20), nn.Dropout(0.5), nn.Linear(20, 1))
    bundle = make_bundle(module.eval(), [module.state_dict()] * K)
    X = torch.randn(N, D)
    scores = bundle.scores(X)
    assert (scores == bundle.scores(X)).all()
    assert (bundle.logits(X) != bundle.logits(X)).any()  # dropout is at work
    torch.testing.assert_close(scores[0], scores_of(module, X))


class InHalf(nn.Module):
    """A network that computes in bfloat16, by autocast or because its weights are."""

    def __init__(self, weights):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
        self.dtype = torch.bfloat16 if weights else torch.float32
        self.net.to(self.dtype)

    def forward(self, X):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(X.to(self.dtype))


@pytest.mark.usefixtures("short_ordinary")
@pytest.mark.parametrize("weights", [False, True], ids=["autocast", "weights"])
@pytest.mark.parametrize("solver", ["projected", "lifted", "stochastic"])
def test_half_precision_trains_and_has_an_exact_threshold(solver, weights):
    goal = "max recall s.t. precision >= 0.6"
    problem = overlapping(goal, n=1000, dtype=torch.float32)
    torch.manual_seed(0)
    few = replace(get_solver(solver), outer_iterations=2, inner_iterations=20)
    solution = solve(problem, InHalf(weights), few, seed=0)
    scores = scores_of(solution.module, problem.X)
    assert scores.dtype == torch.float32
    assert solution.operating_point.feasible
    assert solution.operating_point == problem.point_of(scores)


@pytest.mark.usefixtures("short_ordinary")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("solver", ["projected", "lifted", "stochastic"])
def test_rows_may_be_in_half_precision(solver, kind, dtype, tmp_path):
    """Sums of weights are not: beyond 65,504 there is nothing but infinity in float16."""
    here = overlapping("max recall s.t. precision >= 0.6", n=1000, dtype=torch.float32)
    weight = torch.full((1000,), 700.0)
    problem = make_problem(here.X.to(dtype), here.positive, here.goal, weight)
    assert problem.sample_weight.dtype == torch.float32
    few = replace(get_solver(solver), outer_iterations=2, inner_iterations=20)
    torch.manual_seed(0)
    module = (linear(3) if kind == "linear" else mlp(3, width=8)).to(dtype)
    point = solve(problem, module, few, seed=0, checkpoint=tmp_path / "run.pt").operating_point
    assert point.feasible
    assert point.tp + point.fn == 700.0 * int(here.positive.sum())
    assert point == problem.point_of(scores_of(module, problem.X))


# --- sums over shards that do not depend on who has which -----------------------------------------


def bundle(k=2, d=3):
    module = torch.nn.Linear(d, 1)
    return make_bundle(module, [module.state_dict()] * k)


def played(monkeypatch, world, work):
    """Let so many processes do some work one after the other; each tells, then each knows all."""
    messages, results = [], []
    for role in ("tell", "know"):
        for rank in range(world):
            place = iter(range(100))

            def add_up(*tensors, role=role, place=place):
                i = next(place)
                if role == "tell":
                    messages.append((i, [t.clone() for t in tensors]))
                    return
                for j, tensor in enumerate(tensors):
                    tensor.copy_(sum(told[j] for at, told in messages if at == i))

            monkeypatch.setattr(bundle_module, "all_reduce_sum", add_up)
            monkeypatch.setattr(
                bundle_module, "rank_and_world_size", lambda rank=rank: (rank, world)
            )
            found = work()
            if role == "know":
                results.append(found)
    return results


def step(shards=4, n=101):
    """Return sums of numbers that do not add up exactly, and gradients."""
    generator = torch.Generator().manual_seed(0)
    shard = torch.randint(shards, (n,), generator=generator)
    values = torch.randn(n, 2, 2, generator=generator).double() ** 5
    slopes = torch.randn(n, generator=generator) ** 5
    X = torch.randn(n, 3, generator=generator)
    models = bundle()
    work = ShardedSums(models, shards)
    own = work.split(shard)
    total = work.total({s: values[rows].sum(0) for s, rows in own.items()})
    for s, rows in own.items():
        models.logits(X[rows])
        models.backward(slopes[rows].expand(2, -1))
        work.keep_gradients(s)
    work.set_gradients()
    return total, [p.grad.clone() for p in models.parameters], set(own)


@pytest.mark.parametrize("world", [2, 4])
def test_any_number_of_processes_to_the_last_bit(monkeypatch, world):
    total, gradients, every = step()
    results = played(monkeypatch, world, step)
    assert every == set().union(*(own for _, _, own in results)) == set(range(4))
    for their_total, their_gradients, own in results:
        assert len(own) == 4 // world
        assert torch.equal(their_total, total)
        assert all(map(torch.equal, their_gradients, gradients))


def test_sums_are_sums():
    total, gradients, _ = step()
    alone_total, alone_gradients, _ = step(shards=1)
    assert torch.allclose(total, alone_total)
    for a, b in zip(gradients, alone_gradients, strict=True):
        assert a.shape == b.shape
        assert torch.allclose(a, b, rtol=1e-4)


def test_the_order_is_that_of_the_shards():
    work = ShardedSums(bundle(k=1), 3)
    huge = torch.full((1, 2), 1e20)
    small = torch.ones(1, 2)
    assert work.total({0: huge, 1: -huge, 2: small}).tolist() == [[1.0, 1.0]]
    assert work.total({2: small, 1: -huge, 0: huge}).tolist() == [[1.0, 1.0]]
    assert work.total({0: huge, 1: small, 2: -huge}).tolist() == [[0.0, 0.0]]


def test_shards_without_rows_count_nothing():
    models = bundle()
    work = ShardedSums(models, 3)
    assert list(work.split(torch.tensor([2, 0, 2]))) == [0, 2]
    assert work.split(torch.tensor([2, 0, 2]))[2].tolist() == [0, 2]
    assert work.split(torch.empty(0, dtype=torch.int64)) == {}
    assert work.total({}).tolist() == [[0.0, 0.0]] * 2
    work.set_gradients()  # a batch may be empty
    assert all((p.grad == 0).all() for p in models.parameters)
    alone = ShardedSums(bundle(), 1)
    assert alone.split(torch.empty(0, dtype=torch.int64)) == {}


def test_sums_of_one_column():
    work = ShardedSums(bundle(k=3), 2)
    parts = {s: torch.arange(3.0)[:, None] + s for s in range(2)}
    assert work.total(parts, 1).tolist() == [[1.0], [3.0], [5.0]]


def test_gradients_of_one_step_are_forgotten_in_the_next():
    models = bundle()
    work = ShardedSums(models, 2)
    for _ in range(2):
        models.logits(torch.ones(1, 3))
        models.backward(torch.ones(2, 1))
        work.keep_gradients(1)
        work.set_gradients()
        assert models.matrix.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_gradients_of_half_precision_are_summed_in_a_whole_one(dtype):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    models = make_bundle(module.to(dtype), [module.state_dict()] * 2)
    large = 2 / torch.finfo(dtype).eps  # the next number is large + 2
    assert torch.tensor(large, dtype=dtype) + 1 == large
    work = ShardedSums(models, 9)
    for shard in range(9):
        for parameter in models.parameters:
            parameter.grad = torch.full_like(parameter, 1.0 if shard else large)
        work.keep_gradients(shard)
    work.set_gradients()
    for parameter in models.parameters:
        assert parameter.grad.dtype == parameter.dtype
        assert (parameter.grad == large + 8).all()
