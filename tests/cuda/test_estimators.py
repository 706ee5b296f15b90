"""Classifiers that are trained on a GPU and decide on the CPU."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from setpoint import Goal, SetpointClassifier, SetpointError, load
from setpoint.data import ArrayRows, ByChance
from setpoint.data.splits import VALIDATION, validation_split
from setpoint.thresholds.caution import Cautious, row_weights_of
from setpoint.thresholds.choose import best_point
from setpoint.training import Lifted, LossTraining, Projected, Stochastic

GOAL = "max recall s.t. precision >= 0.6"
FEW = Stochastic(outer_iterations=4, inner_iterations=30, batch_size=2000, rows=5000)


def table(n=6000, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.15
    z = rng.normal(size=(n, 8))
    z[:, :2] += y[:, None] * [1.6, 0.8]
    return (z * np.geomspace(1e-3, 1e3, 8) + 7.0).astype(dtype), y


def classifier(**given):
    return SetpointClassifier(**{"goal": GOAL, "random_state": 0, "device": "cuda", **given})


def check_serves(clf, X):
    """Check that nothing of a fitted classifier is left on the GPU."""
    assert {v.device.type for v in clf.module_.state_dict().values()} == {"cpu"}
    copy = pickle.loads(pickle.dumps(clf))
    assert (copy.positive_scores(X) == clf.positive_scores(X)).all()
    assert copy.operating_point_ == clf.operating_point_


def best_cautious(y, scores, weight=None):
    """Return the best point by the default's ranking."""
    row_weights = row_weights_of(y, np.ones(len(y)) if weight is None else weight)
    ranking = Cautious(Goal.parse(GOAL), 0.2, row_weights)
    weight = None if weight is None else weight.astype(np.float64)
    return best_point(y, scores, weight, ranking, ranking.goal, "here")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize(
    "solver",
    [Projected(), Lifted(outer_iterations=5), LossTraining(), FEW],
    ids=lambda s: type(s).__name__,
)
def test_a_gpu_reaches_what_a_cpu_reaches(solver, model, weighted, dtype):
    X, y = table(dtype=dtype)
    weight = np.random.default_rng(1).integers(1, 4, len(y)) if weighted else None
    here, there = (
        classifier(solver=solver, model=model, device=device).fit(X, y, sample_weight=weight)
        for device in ("cpu", "cuda")
    )
    check_serves(there, X)
    assert there._chosen_point.feasible
    # What the candidates are compared by; operating_point_ is a noisier estimate.
    reached = [clf.candidates_.winner.point.sort_key[1] for clf in (here, there)]
    assert reached[0] == pytest.approx(reached[1], abs=0.04)
    # The very scores that decide have set the threshold.
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    _, judging = validation_split("auto", y, np.ones(len(y), dtype=bool), None, seed)
    scores = there.positive_scores(X[judging])
    w = None if weight is None else weight[judging]
    best = best_cautious(y[judging], scores, w)
    assert best.counts == there._chosen_point.counts
    alarm = there.predict(X[judging])
    assert (
        there._chosen_point.tp
        == (np.ones(len(judging)) if w is None else w)[alarm & y[judging]].sum()
    )


def test_where_it_was_trained(monkeypatch):
    """As asked, and by itself where that is worth it."""
    seen = []

    class Watched(torch.nn.Linear):
        def forward(self, X):
            seen.append(X.device.type)
            return super().forward(X)

    X, y = table(1000)
    solver = Projected(outer_iterations=2, inner_iterations=3)
    for device, expected in (("cuda:0", "cuda"), ("auto", "cuda"), ("cpu", "cpu")):
        seen.clear()
        model = Watched(8, 1)
        clf = classifier(model=model, solver=solver, device=device).fit(X, y)
        assert seen[0] == expected
        assert seen[-1] == "cpu"
        assert model.weight.device.type == "cpu"
        check = clf.predict(X)
        assert check.any()
    used = []
    monkeypatch.setattr(
        "setpoint.estimators.fitting.use_device",
        lambda device: used.append(device.type) or torch.random.fork_rng(devices=[0]),
    )
    classifier(solver=solver, device="auto").fit(X, y)
    wide = np.tile(X, (1, 600))
    classifier(solver=solver, device="auto").fit(wide, y)
    assert used == ["cpu", "cuda"]


def test_a_refit_and_a_certificate():
    X, y = table(12_000)
    clf = classifier(refit=True, validation=0.3).fit(X, y)
    assert clf.operating_point_.on == "the training rows"
    assert clf.evaluate(X, y).counts == clf.operating_point_.counts
    clf = classifier(confidence=0.9).fit(X, y)
    assert clf.certificate_.certified
    check_serves(clf, X)
    assert clf.evaluate(*table(20_000, seed=3)).precision > 0.58


def test_generators_are_left_as_they_were():
    X, y = table(1000)
    states = [torch.get_rng_state(), torch.cuda.get_rng_state()]
    for model in ("linear", "mlp"):
        classifier(model=model, solver=Lifted(outer_iterations=3)).fit(X, y)
        classifier(model=model, solver=FEW).fit_stream(ArrayRows(X, y))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(torch.cuda.get_rng_state(), states[1])


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_a_stream(model):
    X, y = table(20_000)
    here, there = (
        classifier(model=model, solver=FEW, device=device).fit_stream(ArrayRows(X, y))
        for device in ("cpu", "auto")
    )
    check_serves(there, X)
    objectives = [clf.operating_point_.objective for clf in (here, there)]
    assert objectives[0] == pytest.approx(objectives[1], abs=0.03)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    split = ByChance(0.25, seed=seed)
    part = torch.cat([split(block) for block in ArrayRows(X, y).blocks()]).numpy()
    judged = part == VALIDATION
    best = best_cautious(y[judged], there.positive_scores(X[judged]))
    assert there.operating_point_.counts == best.counts
    assert there.operating_point_.on == "the validation rows"
    assert there.evaluate(X[judged], y[judged]).counts == best.counts


def test_a_stream_with_a_certificate():
    clf = classifier(solver=FEW, confidence=0.9, certification=0.4)
    clf.fit_stream(ArrayRows(*table(20_000)))
    assert clf.certificate_.certified
    assert clf.evaluate(*table(20_000, seed=3)).precision > 0.58


def test_a_saved_model_is_the_same(tmp_path):
    X, y = table(2000)
    clf = classifier(model="mlp", solver=Lifted(outer_iterations=3)).fit(X, y)
    clf.save(tmp_path / "m.zip")
    loaded = load(tmp_path / "m.zip")
    assert (loaded.positive_scores(X) == clf.positive_scores(X)).all()
    assert loaded.device == "cuda"


@pytest.mark.parametrize(
    "solver",
    [Projected(), Lifted(outer_iterations=6), LossTraining(outer_iterations=6), FEW],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_an_interrupted_fit_goes_on(solver, model, tmp_path):
    X, y = table()
    seen = []

    def stop_once(record, total):
        seen.append(record.iteration)
        return "stop" if len(seen) == 3 else None

    clf = classifier(solver=solver, model=model, checkpoint=tmp_path / "run", callback=stop_once)
    for interrupted in (True, False):
        clf.fit(X, y)
        assert clf.history_.interrupted == interrupted
    assert seen == sorted(set(seen))
    through = classifier(solver=solver, model=model).fit(X, y)
    objectives = [c.operating_point_.objective for c in (clf, through)]
    assert objectives[0] == pytest.approx(objectives[1], abs=0.03)


def test_a_module_that_works_only_on_the_cpu_raises():
    class AtHome(torch.nn.Linear):
        def __init__(self):
            super().__init__(8, 1)
            self.shift = [torch.ones(8)]  # which no .to() moves

        def forward(self, X):
            return super().forward(X + self.shift[0])

    X, y = table(1000)
    with pytest.raises(SetpointError, match=r"This was on cuda:0; device='cpu' trains"):
        classifier(model=AtHome()).fit(X, y)


def test_too_little_memory_raises():
    class Greedy(torch.nn.Linear):
        def forward(self, X):
            if len(X) > 2 and X.is_cuda:
                torch.empty(2**50, device=X.device)
            return super().forward(X)

    X, y = table(1000)
    with pytest.raises(SetpointError, match=r"cuda:0 does not have enough memory .* device='cpu'"):
        classifier(model=Greedy(8, 1)).fit(X, y)


IN_A_FRESH_PROCESS = """
import warnings

import torch

from setpoint.training import Projected, make_problem, solve
from setpoint.training.models import build

warnings.simplefilter("error", UserWarning)
torch.manual_seed(0)
y = torch.rand(2000, device="cuda") < 0.2
X = torch.randn(2000, 5, device="cuda") + y[:, None]
problem, module = make_problem(X, y, "max f1"), build("mlp", 5).cuda()
torch.autograd.backward(module(X[:8]), torch.ones_like(module(X[:8])))  # a matrix product first
module.zero_grad()
solve(problem, module, Projected(outer_iterations=2, inner_iterations=5))
print("no warning")
"""


def test_the_first_gradients_of_a_process_do_not_warn():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "no warning\n", done.stderr
