import os
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest
import torch
from problems import overlapping

from setpoint import CheckpointError, SetpointError, define_metric
from setpoint.paper.competitors import LDAM, Augmented, Focal, Lagrangian, Resampled, SigmoidF1
from setpoint.training import Lifted, LossTraining, Projected, TrainedModel, get_solver, solve
from setpoint.training import loop as loop_module
from setpoint.training.loop import Progress, average_for, torch_set_up_for
from setpoint.training.models import build, scores_of
from setpoint.training.stream_problem import stream_of

pytestmark = pytest.mark.usefixtures("short_ordinary")  # this is about the loop

SOLVERS = {
    "projected": Projected(outer_iterations=6, inner_iterations=5, line_search=100_000),
    "lifted": Lifted(outer_iterations=6, inner_iterations=5),
    "paper": Lifted.paper(outer_iterations=6, inner_iterations=20, threshold="learned"),
    "equality": Lifted(outer_iterations=6, inner_iterations=5, form="equality"),
    "smooth": Lifted.paper(
        outer_iterations=6, inner_iterations=5, form="smooth", threshold="learned", lr=0.1
    ),
    "augmented": Augmented(outer_iterations=6, inner_iterations=5, start="random"),
    "augmented_equality": Augmented.paper(
        outer_iterations=6, inner_iterations=20, form="equality", lr=0.01
    ),
    "lagrangian": Lagrangian("lagrangian", outer_iterations=6, inner_iterations=5),
    "proxy_lagrangian": Lagrangian(proxy="hinge", outer_iterations=6, inner_iterations=5),
    "cross_entropy": LossTraining(outer_iterations=6, inner_iterations=5),
    "batches": LossTraining(
        SigmoidF1(), optimizer="adam", batch_size=70, outer_iterations=6, inner_iterations=5
    ),
    "patience": LossTraining.paper(Focal(), outer_iterations=6, inner_iterations=6, lr=0.1),
    "deferred": LossTraining(
        LDAM(scale=3.0, reweight_from=0.6), outer_iterations=6, inner_iterations=5
    ),
    "oversampled": Resampled("over", LossTraining(outer_iterations=6, inner_iterations=5)),
    "undersampled": Resampled(
        "under", Lifted(outer_iterations=6, inner_iterations=5, start="random")
    ),
}


def stop_at_2(record, total):
    return "stop" if record.iteration == 2 else None


def with_dropout(n_features):
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, 8),
        torch.nn.BatchNorm1d(8),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(8, 1),
    )


def train(solver, model="linear", **kwargs):
    problem = overlapping("max recall s.t. precision >= 0.7")
    torch.manual_seed(1)
    module = build(model, 3).double()
    return problem, solve(problem, module, solver, **kwargs)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_best_iterate_is_returned_and_recorded(name):
    problem, solution = train(SOLVERS[name])
    history, point = solution.history, solution.operating_point
    assert len(history) == 7
    assert not history.interrupted
    ranks = [(-r.violation, r.objective) for r in history]
    assert point.rank == max(ranks)
    assert ranks.index(max(ranks)) == history.best_iteration
    again = problem.operating_point(solution.module, point.threshold)
    assert again == point


def test_the_start_counts_as_an_iterate():
    _, solution = train(Lifted(outer_iterations=0))
    assert len(solution.history) == 1
    assert solution.operating_point.objective == solution.history.objective[0]


@cache
def straight(name, model):
    """Train from the beginning to the end; several tests look at the result."""
    return train(SOLVERS[name], model, seed=3)[1]


@pytest.mark.parametrize("model", ["linear", with_dropout], ids=["linear", "dropout"])
@pytest.mark.parametrize("name", SOLVERS)
def test_same_seed_same_result(name, model):
    _, second = train(SOLVERS[name], model, seed=3)
    assert_same(straight(name, model), second)


def test_the_global_generator_is_left_alone():
    problem, module = overlapping("max f1"), build("linear", 3).double()
    before = torch.get_rng_state()
    for seed in (0, None):
        solve(problem, module, Lifted.paper(outer_iterations=1, inner_iterations=20), seed=seed)
        assert torch.equal(torch.get_rng_state(), before)


def assert_same(first, second):
    assert first.operating_point == second.operating_point
    assert first.history.records == second.history.records
    assert first.history.best_iteration == second.history.best_iteration
    for key, value in first.module.state_dict().items():
        assert torch.equal(value, second.module.state_dict()[key])


@pytest.mark.parametrize("model", ["linear", with_dropout], ids=["linear", "dropout"])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_stopped_run_resumes_bit_for_bit(name, model, tmp_path):
    file = tmp_path / "sub" / "run.ckpt"

    def stop_at_3(record, total):
        return "stop" if record.iteration == 3 else None

    _, stopped = train(SOLVERS[name], model, seed=3, checkpoint=file, callback=stop_at_3)
    assert stopped.history.interrupted
    assert len(stopped.history) == 4
    _, resumed = train(SOLVERS[name], model, seed=3, checkpoint=file)
    assert not resumed.history.interrupted
    assert_same(straight(name, model), resumed)


def test_a_finished_run_is_not_repeated(tmp_path):
    file = tmp_path / "run.ckpt"
    _, first = train(SOLVERS["lifted"], checkpoint=file)
    calls = []
    _, second = train(SOLVERS["lifted"], checkpoint=file, callback=lambda *a: calls.append(a))
    assert_same(first, second)
    assert calls == []


def test_ctrl_c_keeps_the_best_iterate(tmp_path):
    def interrupt(record, total):
        if record.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted after 2 of 6 iterations"):
        problem, solution = train(SOLVERS["lifted"], callback=interrupt)
    assert solution.history.interrupted
    assert len(solution.history) == 3
    point = solution.operating_point
    assert problem.operating_point(solution.module, point.threshold) == point


def test_ctrl_c_in_the_middle_of_a_step_keeps_the_best_iterate():
    """The model is half-way through a step; what is returned is the last whole iterate."""

    class Interrupted(Lifted):
        def prepare(self, problem, module):
            run = super().prepare(problem, module)
            advance = run.advance

            def broken(iteration):
                if iteration == 3:
                    with torch.no_grad():
                        module.weight.fill_(float("nan"))
                    raise KeyboardInterrupt
                return advance(iteration)

            run.advance = broken
            return run

    with pytest.warns(UserWarning, match="interrupted after 2 of"):
        problem, solution = train(Interrupted(outer_iterations=6, inner_iterations=5))
    assert torch.isfinite(solution.module.weight).all()
    point = solution.operating_point
    assert problem.operating_point(solution.module, point.threshold) == point


def test_callback_sees_every_record_in_metric_units():
    seen = []
    _, solution = train(SOLVERS["lifted"], callback=lambda record, total: seen.append(record))
    assert seen == solution.history.records
    assert [r.iteration for r in seen] == list(range(7))
    assert all(0 <= r.metrics["precision"] <= 1 for r in seen)


def test_any_solver_of_that_shape_can_use_the_loop():
    """A solver of six lines: it moves the bias, and the loop keeps the best iterate."""

    class Shift:
        outer_iterations = 4

        def prepare(self, problem, module):
            return ShiftRun(problem, module)

    class ShiftRun:
        def __init__(self, problem, module):
            self.problem, self.module = problem, module

        def start(self, take=None):
            with torch.no_grad():
                self.module.weight.fill_(1.0)
            return Progress(0.0, 0.0)

        def advance(self, iteration):
            with torch.no_grad():
                self.module.bias -= 0.5
            return Progress(0.0, 0.0)

        def models(self):
            point = self.problem.evaluation.operating_point(self.module, 0.0)
            return [TrainedModel("shifted", point, self.module.state_dict())]

        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    problem = overlapping("max f1")
    solution = solve(problem, build("linear", 3).double(), Shift())
    assert solution.operating_point.objective == solution.history.objective.max()
    ShiftRun.contenders = ShiftRun.models  # its name in earlier versions
    with pytest.warns(DeprecationWarning, match=r"ShiftRun.contenders is deprecated"):
        again = solve(problem, build("linear", 3).double(), Shift())
    assert again.history == solution.history


def test_solvers_that_need_all_rows_reject_a_stream():
    problem = stream_of(overlapping("max f1"))
    with pytest.raises(SetpointError, match="Projected needs all rows in memory"):
        solve(problem, build("linear", 3).double(), Projected())


@pytest.mark.parametrize("damage", ["truncate", "text", "empty"])
def test_a_damaged_checkpoint_raises(damage, tmp_path):
    file = tmp_path / "run.ckpt"
    train(SOLVERS["lifted"], checkpoint=file)
    content = file.read_bytes()
    file.write_bytes({"truncate": content[:-200], "text": b"hello", "empty": b""}[damage])
    with pytest.raises(CheckpointError, match=r"run\.ckpt cannot be read; delete it"):
        train(SOLVERS["lifted"], checkpoint=file)


def test_a_checkpoint_never_runs_code(tmp_path):
    """A pickle that would create a file on load is refused before it can."""

    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "exploded"), "w")

    file = tmp_path / "run.ckpt"
    torch.save({"format": 1, "bomb": Bomb()}, file)
    with pytest.raises(CheckpointError, match="cannot be read"):
        train(SOLVERS["lifted"], checkpoint=file)
    assert not (tmp_path / "exploded").exists()


def unfinished(file, **kwargs):
    train(SOLVERS["lifted"], checkpoint=file, callback=stop_at_2, **kwargs)


def test_an_unfinished_run_of_something_else_raises(tmp_path):
    file = tmp_path / "run.ckpt"
    unfinished(file)
    with pytest.raises(CheckpointError, match="unfinished run of another model"):
        train(SOLVERS["lifted"], "mlp", checkpoint=file)
    with pytest.raises(CheckpointError, match="another solver"):
        train(SOLVERS["equality"], checkpoint=file)
    with pytest.raises(CheckpointError, match="another seed"):
        train(SOLVERS["lifted"], seed=1, checkpoint=file)
    other = overlapping("max recall s.t. precision >= 0.7", seed=1)
    with pytest.raises(CheckpointError, match="another problem"):
        solve(other, build("linear", 3).double(), SOLVERS["lifted"], checkpoint=file)


def test_a_run_on_a_gpu_cannot_go_on_here(tmp_path):
    file = tmp_path / "run.ckpt"
    unfinished(file)
    torch.save({**torch.load(file, weights_only=True), "device": "cuda"}, file)
    with pytest.raises(CheckpointError, match="unfinished run of another device"):
        train(SOLVERS["lifted"], checkpoint=file)


def test_a_metric_of_the_same_name_is_another_problem(tmp_path):
    file = tmp_path / "run.ckpt"

    def fit(price, **kwargs):
        define_metric("worth", lambda tp, fp, P, N: tp / P - price * fp / N, bounds=(-price, 1.0))
        return solve(
            overlapping("max worth"), build("linear", 3).double(), SOLVERS["lifted"],
            checkpoint=file, **kwargs,
        )  # fmt: skip

    fit(1.0, callback=stop_at_2)
    with pytest.raises(CheckpointError, match="another problem"):
        fit(30.0)


def test_a_finished_run_of_something_else_is_overwritten(tmp_path):
    file = tmp_path / "run.ckpt"
    train(SOLVERS["lifted"], seed=0, checkpoint=file)
    _, over = train(SOLVERS["equality"], seed=0, checkpoint=file)
    _, plain = train(SOLVERS["equality"], seed=0)
    assert_same(over, plain)


def test_a_run_from_other_weights_is_another_run(tmp_path):
    file = tmp_path / "run.ckpt"

    def from_weight(value):
        def factory(n_features):
            module = torch.nn.Linear(n_features, 1)
            torch.nn.init.constant_(module.weight, value)
            return module

        return train(Lifted(start="given", outer_iterations=0), factory, checkpoint=file)[1].module

    assert (from_weight(1.0).weight > 0).all()
    assert (from_weight(-1.0).weight < 0).all()


def test_a_diverged_run_does_not_block_its_checkpoint(tmp_path):
    file = tmp_path / "run.ckpt"
    with pytest.warns(UserWarning, match="diverged"):
        train(LossTraining(lr=1e200, outer_iterations=3), "mlp", checkpoint=file)
    _, solution = train(LossTraining(outer_iterations=1), "mlp", checkpoint=file)
    assert len(solution.history) == 2


def test_without_a_seed_a_finished_run_is_run_again(tmp_path):
    file = tmp_path / "run.ckpt"
    calls = []
    for _ in range(2):
        train(SOLVERS["lifted"], seed=None, checkpoint=file, callback=lambda *a: calls.append(a))
    assert len(calls) == 14


def test_without_a_seed_a_run_resumes_all_the_same(tmp_path):
    file = tmp_path / "run.ckpt"
    unfinished(file, seed=None)
    _, resumed = train(SOLVERS["lifted"], seed=None, checkpoint=file)
    assert len(resumed.history) == 7


def test_ctrl_c_at_the_start_keeps_the_start():
    def interrupt(record, total):
        raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted after 0 of 6"):
        _, solution = train(SOLVERS["lifted"], callback=interrupt)
    assert len(solution.history) == 1


def test_ctrl_c_before_there_is_anything_to_keep_goes_through(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("setpoint.training.lifted.train_ordinarily", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train(SOLVERS["lifted"])


def test_a_model_that_diverges_is_not_returned():
    class Exploding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 1)

        def forward(self, X):
            z = self.inner(X)
            return torch.exp(z**3) - torch.exp(-(z**3))

    with pytest.warns(UserWarning, match="training diverged after"):
        _, solution = train(
            Lifted(start="given", lr=50.0, outer_iterations=6), lambda d: Exploding()
        )
    assert all(torch.isfinite(p).all() for p in solution.module.parameters())


def test_a_failed_write_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    file = tmp_path / "run.ckpt"
    train(SOLVERS["lifted"], checkpoint=file, callback=stop_at_2)
    before = file.read_bytes()

    def full_disk(content, target):
        target.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        train(SOLVERS["lifted"], checkpoint=file)
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


def test_leftovers_of_a_killed_write_are_removed(tmp_path):
    file = tmp_path / "run.ckpt"
    mine = [f"run.ckpt.{n}.part" for n in ("0123abcd", "ffffffff")]
    others = [
        "run.ckpt.part", "run.ckpt.part2.part", "my-run.ckpt.0123abcd.part",
        "run_ckpt.0123abcd.part", "run.ckpt.0123abcd", "run.ckpt.0123ABCD.part",
    ]  # fmt: skip
    for name in mine + others:
        (tmp_path / name).write_text("half")
    (tmp_path / "run.ckpt.01234567.part").mkdir()
    train(SOLVERS["lifted"], checkpoint=file)
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"run.ckpt", "run.ckpt.01234567.part", *others}


def test_a_checkpoint_s_temporary_file_is_one_that_is_removed(tmp_path, monkeypatch):
    file = tmp_path / "run[1].ckpt"  # no pattern

    def killed(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr(os, "unlink", lambda *_, **__: None)  # kill -9 leaves all as it is
        with pytest.raises(SystemExit):
            train(SOLVERS["lifted"], checkpoint=file)
    (left,) = tmp_path.iterdir()
    assert left.name.endswith(".part")
    train(SOLVERS["lifted"], checkpoint=file)
    assert list(tmp_path.iterdir()) == [file]


def test_a_checkpoint_is_on_the_disk_before_it_takes_the_place_of_the_last(tmp_path, monkeypatch):
    did = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: [did.append(os.fstat(fd).st_size), fsync(fd)])
    monkeypatch.setattr(
        os, "replace", lambda a, b: [did.append((os.stat(a).st_size, b)), replace(a, b)]
    )
    file = tmp_path / "run.ckpt"
    train(Lifted(start="given", outer_iterations=0), checkpoint=file)
    size = file.stat().st_size
    assert did[:2] == [size, (size, file)]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_who_may_read_a_checkpoint_is_up_to_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        train(Lifted(start="given", outer_iterations=0), checkpoint=tmp_path / "run.ckpt")
    finally:
        os.umask(before)
    assert (tmp_path / "run.ckpt").stat().st_mode & 0o777 == 0o666 & ~umask


def test_solvers_by_name():
    assert get_solver("lifted") == Lifted()
    assert get_solver("paper") == Lifted.paper()
    own = Lifted(rho=2.0)
    assert get_solver(own) is own
    with pytest.raises(
        SetpointError, match="unknown solver 'magic'; known: projected, lifted, paper"
    ):
        get_solver("magic")


def test_evaluation_uses_evaluation_mode():
    torch.manual_seed(0)
    module = with_dropout(3)
    X = torch.randn(20, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(scores_of(module, X), scores_of(module, X))
    assert module.training


# --- averages -------------------------------------------------------------------------------------


def validated(goal, seed=1):
    return replace(overlapping(goal), validation=overlapping(goal, seed=seed))


def test_averages_are_on_validation_rows_that_are_in_memory():
    module, problem = build("linear", 3).double(), validated("max f1")
    average = average_for(problem, module)
    weights = {"weight": torch.ones(1, 3), "bias": torch.zeros(1)}
    assert average(weights) == problem.validation.average_gain(module, weights)
    assert average(weights) != problem.average_gain(module, weights)
    assert average_for(overlapping("max f1"), module) is None
    assert average_for(stream_of(overlapping("max f1")), module) is None
    few = replace(problem.validation, positive=torch.arange(300) == 0)
    assert average_for(replace(problem, validation=few), module) is None


def test_an_operation_earns_threads_by_the_rows_and_the_weights(monkeypatch):
    asked = []

    @contextmanager
    def noted(work):
        asked.append(work)
        yield

    monkeypatch.setattr(loop_module, "threads_for", noted)
    problem, module = overlapping("max f1"), torch.nn.Linear(3, 1)
    many = replace(problem, X=torch.zeros(50_000, 3))
    for rows in (problem, many, stream_of(problem)):
        before = torch.get_rng_state()
        with torch_set_up_for(rows, module):
            torch.rand(1)
        assert torch.equal(torch.get_rng_state(), before)
    assert asked == [300 * 4, 40_000 * 4, 40_000 * 4]


class Descending:
    """A solver with two models, one of which is the module itself."""

    outer_iterations = 3

    def prepare(self, problem, module):
        return DescendingRun(problem, module)


class DescendingRun:
    def __init__(self, problem, module):
        self.problem, self.module = problem, module

    def start(self, take=None):
        self.module.load_state_dict({"weight": torch.ones(1, 3), "bias": torch.zeros(1)})
        self.given = {k: v.clone() for k, v in self.module.state_dict().items()}
        return Progress(0.0, 0.0)

    def advance(self, iteration):
        with torch.no_grad():
            self.module.weight[0, 1:] -= 0.1
        return Progress(0.0, 0.0)

    def models(self):
        evaluation, trained = self.problem.evaluation, self.module.state_dict()
        now = {k: v.clone() for k, v in trained.items()}
        self.module.load_state_dict(self.given)
        first = TrainedModel("given", evaluation.operating_point(self.module), self.given)
        self.module.load_state_dict(now)
        return [first, TrainedModel("trained", evaluation.operating_point(self.module), trained)]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_the_comparison_leaves_the_module_as_it_is():
    problem, module = validated("max f1"), build("linear", 3).double()
    run = DescendingRun(problem, module)
    run.start()
    for iteration in range(1, 4):
        run.advance(iteration)
    expected = run.models()[1].point
    solution = solve(problem, build("linear", 3).double(), Descending())
    trained = solution.candidates[1]
    assert (trained.name, trained.iteration) == ("trained", 3)
    assert trained.point == expected
    assert trained.average != solution.candidates[0].average
    assert problem.validation.operating_point(solution.module) == solution.operating_point
    weights = {"weight": torch.ones(1, 3), "bias": torch.ones(1)}
    before = {k: v.clone() for k, v in module.state_dict().items()}
    problem.average_gain(module, weights)
    torch.testing.assert_close(dict(module.state_dict()), before, atol=0, rtol=0)


@pytest.mark.parametrize(
    "solver",
    [
        LossTraining(threshold="fixed", outer_iterations=4, inner_iterations=5),
        Lifted(threshold="fixed", outer_iterations=4, inner_iterations=5),
        Lifted(threshold="learned", outer_iterations=4, inner_iterations=5),
        Lagrangian("lagrangian", threshold="fixed", outer_iterations=4, inner_iterations=5),
    ],
    ids=lambda solver: f"{type(solver).__name__} {solver.threshold}",
)
def test_averages_are_for_exact_thresholds_alone(solver):
    """A model that is used at another threshold is compared by its point there."""
    problem = validated("max f1")
    solution = solve(problem, build("linear", 3).double(), solver)
    assert all(c.average is None for c in solution.candidates)
    exact = replace(solver, threshold="exact")
    solution = solve(problem, build("linear", 3).double(), exact)
    assert all(c.average is not None for c in solution.candidates)
