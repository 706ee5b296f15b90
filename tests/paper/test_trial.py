"""Running a job: rows, seeds and counts do not depend on earlier jobs."""

import warnings
from collections import defaultdict
from dataclasses import asdict, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch

from setpoint.errors import SetpointError
from setpoint.paper import trial
from setpoint.paper.competitors.lagrangian import LagrangianRun
from setpoint.paper.datasets import Dataset, honest_split, paper_split, stand_in
from setpoint.paper.jobs import OFOS_TARGET, TARGETS, Job, Target
from setpoint.paper.methods import METHODS
from setpoint.thresholds.choose import evaluate_threshold
from setpoint.training import make_problem, solve
from setpoint.training.loss_training import LossRun
from setpoint.training.models import mlp, scores_of

ADE = stand_in("ade")
FPOR, FROP = Target("fpor", 0.9), Target("frop", 0.9)
BLIND = ("wce", "focal", "ldam", "term", "sigmoidf1", "ros", "rus")
SEEING = ("tfco", "alm", "ordinary", "printed", "lifted", "projected", "default")


def job(method, target=FPOR, **changes):
    target = target if METHODS[method].sees_goal else None
    base = Job("ade", "honest", False, 0, method, "paper", 0, target, "smoke")
    return replace(base, **changes)


def table(result):
    """Return the counts by goal, rule and part."""
    return {
        (row["kind"], row["alpha"], row["threshold"], row["part"]): tuple(
            row[k] for k in ("tp", "fp", "fn", "tn")
        )
        for row in result["counts"]
    }


def of_train(result):
    return {k: v for k, v in table(result).items() if k[2] != "validation" and k[3] == "train"}


# --- counts ---------------------------------------------------------------------------------------


def test_counts_add_up_to_the_splits_and_every_rule_occurs_once():
    for three, method in product((False, True), ("wce", "tfco", "default")):
        done = job(method, three=three, trial=1)
        result = trial.run_job(done, ADE)
        split = honest_split(ADE, 1, three)
        parts = {"train": split.train, "validation": split.validation, "test": split.test}
        parts = {name: rows for name, rows in parts.items() if rows is not None}
        rules = ["own", "train", "validation"] if three else ["own", "train"]
        found = table(result)
        assert len(found) == len(result["counts"])
        assert set(found) == {
            (t.kind, t.alpha, rule, part) for t in done.targets for rule in rules for part in parts
        }
        for (_, _, _, part), (tp, fp, fn, tn) in found.items():
            rows = parts[part]
            assert tp + fn == ADE.y[rows].sum()
            assert fp + tn == (~ADE.y[rows]).sum()
            assert all(type(count) is int for count in (tp, fp, fn, tn))


def test_the_source_names_the_files():
    done = job("tfco", FROP, configuration=1)
    result = trial.run_job(done, ADE)
    assert result["job"] == asdict(done)
    assert result["solver"] == repr(done.solver)
    assert result["source"] == ADE.source
    assert result["seconds"] > 0


def test_adjusted_thresholds_are_the_best_of_all(monkeypatch):
    """Compared with every cut of the same scores, on the rows on which they are adjusted."""
    seen = []
    monkeypatch.setattr(
        trial, "scores_of", lambda *given: seen.append(scores_of(*given)) or seen[-1]
    )
    split = honest_split(ADE, 0, True)
    for method, target in product(("wce", "printed", "projected"), (FPOR, FROP, OFOS_TARGET)):
        result = table(trial.run_job(job(method, target, three=True), ADE))
        scores = seen[-1].numpy()
        for part, rows in (("train", split.train), ("validation", split.validation)):
            tp, fp, fn, tn = result[target.kind, target.alpha, part, part]
            cuts = [-np.inf, *np.unique(scores[rows])]
            points = [evaluate_threshold(ADE.y[rows], scores[rows], c, target.goal) for c in cuts]
            best = max(points, key=lambda p: p.rank)
            assert best.feasible
            assert (best.tp, best.fp, best.fn, best.tn) == (tp, fp, fn, tn)


def test_a_goal_blind_model_has_its_threshold_at_logit_0(monkeypatch):
    seen = []
    monkeypatch.setattr(
        trial, "scores_of", lambda *given: seen.append(scores_of(*given)) or seen[-1]
    )
    result = table(trial.run_job(job("focal"), ADE))
    positive = seen[0].numpy() > 0
    test = honest_split(ADE, 0).test
    for target in TARGETS:
        tp, fp, _, _ = result[target.kind, target.alpha, "own", "test"]
        assert tp == (positive & ADE.y)[test].sum()
        assert fp == (positive & ~ADE.y)[test].sum()


# --- the same by hand -----------------------------------------------------------------------------


def standardized(dataset, rows):
    X = dataset.X.astype(np.float64)
    return ((X - X[rows].mean(0)) / X[rows].std(0)).astype(np.float32)


def test_a_goal_blind_job_is_plain_training_with_the_same_solver():
    for method, variant in product(BLIND, ("paper", "converged")):
        done = job(method, variant=variant, configuration=1 if method == "focal" else 0, trial=2)
        split = honest_split(ADE, 2)
        X = torch.from_numpy(standardized(ADE, split.train))
        torch.manual_seed(2)
        module = torch.nn.Linear(X.shape[1], 1)
        module.reset_parameters()  # the seed's second draw; building a model of ours took the first
        y = torch.from_numpy(ADE.y)
        problem = make_problem(X[split.train], y[split.train], OFOS_TARGET.goal)
        torch.manual_seed(2)
        run = done.solver.prepare(problem, module)
        run.start()
        for iteration in range(done.solver.outer_iterations):
            run.advance(iteration + 1)
        with torch.no_grad():
            decided = (module(X)[:, 0] > 0).numpy()
        counts = table(trial.run_job(done, ADE))
        for part, rows in (("train", split.train), ("test", split.test)):
            tp, fp, _, _ = counts["frop", 0.99, "own", part]
            assert (tp, fp) == ((decided & ADE.y)[rows].sum(), (decided & ~ADE.y)[rows].sum())


@pytest.mark.parametrize("method", ["lifted", "printed"])  # the second starts at random
def test_a_job_that_sees_its_goal_is_the_solution_of_its_problem(method, short_ordinary):
    dataset = stand_in("creditcard")  # an MLP
    done = job(method, FROP, dataset="creditcard", split="paper", trial=1)
    split = paper_split(dataset, 1)
    X = torch.from_numpy(standardized(dataset, split.train))
    y = torch.from_numpy(dataset.y)
    torch.manual_seed(1)
    module = mlp(X.shape[1])
    problem = make_problem(X[split.train], y[split.train], "max precision s.t. recall >= 0.9")
    point = solve(problem, module, done.solver, seed=1).operating_point
    tp, fp, fn, tn = table(trial.run_job(done, dataset))["frop", 0.9, "own", "train"]
    assert (point.tp, point.fp, point.fn, point.tn) == (tp, fp, fn, tn)


# --- determinism ----------------------------------------------------------------------------------


def test_the_same_job_gives_the_same_counts_whatever_came_before():
    for method in (*BLIND, *SEEING):
        done = job(method, variant=METHODS[method].variants[-1])
        first = trial.run_job(done, ADE)["counts"]
        trial.run_job(job("tfco", FROP, trial=1), ADE)  # replaces the cached split
        trial.run_job(job("ros", dataset="eyepacs"), stand_in("eyepacs"))
        torch.manual_seed(12345)
        np.random.seed(12345)  # noqa: NPY002
        again = trial.run_job(done, stand_in("ade"))["counts"]  # an equal data set, not the same
        assert again == first, method


def test_an_mlp_gives_the_same_counts_twice():
    dataset = stand_in("creditcard")
    done = job("ros", dataset="creditcard", variant="converged")
    first = trial.run_job(done, dataset)["counts"]
    trial.run_job(job("wce", dataset="creditcard"), dataset)
    assert trial.run_job(done, dataset)["counts"] == first


def test_trials_differ_in_their_split_and_start():
    counts = [trial.run_job(job("wce", trial=k), ADE)["counts"] for k in range(3)]
    assert counts[0] != counts[1] != counts[2] != counts[0]


def test_a_data_set_of_the_same_name_and_split_is_not_taken_for_the_one_before():
    other = Dataset("ade", ADE.X[:, ::-1] + 0, ~ADE.y, ADE.groups, None, "another")
    trial.run_job(job("wce"), ADE)
    after = trial.run_job(job("wce"), other)
    trial.split_rows.cache_clear()
    assert after["counts"] == trial.run_job(job("wce"), other)["counts"]


# --- who sees which rows --------------------------------------------------------------------------


def spoiled(dataset, rows):
    """Return the data set with other features and labels in these rows."""
    rng = np.random.default_rng(5)
    X, y = dataset.X.copy(), dataset.y.copy()
    X[rows] = 100 * rng.normal(size=X[rows].shape)
    y[rows] = rng.random(len(rows)) < 0.5
    return Dataset(dataset.name, X, y, dataset.groups, dataset.part, dataset.source)


@cache
def result_on_clean_rows(method, three):
    return trial.run_job(job(method, three=three), ADE)


def test_no_method_sees_test_rows():
    for three in (False, True):
        dataset = spoiled(ADE, honest_split(ADE, 0, three).test)
        for method in (*BLIND, *SEEING):
            clean = result_on_clean_rows(method, three)
            dirty = trial.run_job(job(method, three=three), dataset)
            seen = {k: v for k, v in table(clean).items() if k[3] != "test"}
            assert seen == {k: v for k, v in table(dirty).items() if k[3] != "test"}, method
            assert clean["counts"] != dirty["counts"], method


def test_only_methods_that_select_see_validation_rows():
    dataset = spoiled(ADE, honest_split(ADE, 0, True).validation)
    for method in (*BLIND, *SEEING):
        clean = of_train(result_on_clean_rows(method, three=True))
        dirty = of_train(trial.run_job(job(method, three=True), dataset))
        assert (clean == dirty) == (not METHODS[method].selects), method


class SpiedError(Exception):
    """The problem that would have been solved."""


def problem_of(done, dataset, monkeypatch):
    def spy(problem, *_, **__):
        raise SpiedError(problem)

    monkeypatch.setattr(trial, "solve", spy)
    with pytest.raises(SpiedError) as caught:
        trial.run_job(done, dataset)
    return caught.value.args[0]


def rows_of(X, dataset, rows):
    """Return the names of the groups whose (standardized) rows are in X; each row is unlike."""
    names = defaultdict(set)
    for features, name in zip(standardized(dataset, rows), dataset.groups, strict=True):
        names[tuple(np.round(features, 3))].add(name)
    found = set()
    for row in X.numpy():
        key = tuple(np.round(row, 3))
        assert key in names
        found |= names[key]
    return found


@pytest.mark.parametrize("number", range(2))
def test_a_method_that_selects_keeps_groups_together_and_test_rows_out(number, monkeypatch):
    split = honest_split(ADE, number)
    problem = problem_of(job("default", trial=number), ADE, monkeypatch)
    training = rows_of(problem.X, ADE, split.train)
    selecting = rows_of(problem.validation.X, ADE, split.train)
    of_training, of_test = set(ADE.groups[split.train]), set(ADE.groups[split.test])
    assert not training & selecting
    assert training | selecting == of_training
    assert not (training | selecting) & of_test
    assert len(problem.X) + len(problem.validation.X) == len(split.train)
    assert abs(len(problem.validation.X) / len(split.train) - 1 / 4) < 0.05
    fractions = [p.positive.double().mean().item() for p in (problem, problem.validation)]
    assert fractions[0] == pytest.approx(fractions[1], abs=0.05)  # by groups it cannot be exact
    assert problem.validation.goal == problem.goal == FPOR.goal


def test_selection_keeps_groups_together_even_where_the_papers_split_does_not(monkeypatch):
    """Selection is ours; a row's twin among the rows that select would choose what memorises."""
    split = paper_split(ADE, 0)
    problem = problem_of(job("default", split="paper"), ADE, monkeypatch)
    training = rows_of(problem.X, ADE, split.train)
    assert not training & rows_of(problem.validation.X, ADE, split.train)


def test_without_groups_every_row_is_its_own(monkeypatch):
    rng = np.random.default_rng(0)
    plain = Dataset("ade", rng.normal(size=(100, 3)), np.arange(100) % 4 == 0)
    problem = problem_of(job("default"), plain, monkeypatch)
    assert (len(problem.X), len(problem.validation.X)) == (60, 20)


def test_with_validation_rows_these_are_the_selection_rows(monkeypatch):
    split = honest_split(ADE, 0, True)
    problem = problem_of(job("default", three=True), ADE, monkeypatch)
    assert np.array_equal(problem.X.numpy(), trial.split_rows(ADE, "honest", True, 0, "cpu").X[
        split.train
    ].numpy())  # fmt: skip
    assert np.array_equal(problem.validation.positive.numpy(), ADE.y[split.validation])


def test_all_others_train_on_all_training_rows(monkeypatch):
    for method in ("tfco", "lifted", "projected"):
        problem = problem_of(job(method), ADE, monkeypatch)
        assert problem.validation is None
        assert np.array_equal(problem.positive.numpy(), ADE.y[honest_split(ADE, 0).train])


def test_features_are_standardized_by_the_training_rows():
    split, X, _ = trial.split_rows(ADE, "honest", False, 0, "cpu")
    assert X.dtype == torch.float32
    assert torch.allclose(X[split.train].mean(0), torch.zeros(5), atol=1e-5)
    assert torch.allclose(X[split.train].std(0, correction=0), torch.ones(5), atol=1e-4)
    assert not torch.allclose(X[split.test].mean(0), torch.zeros(5), atol=1e-3)


# --- stops and failures ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lifted", "wce"])
def test_ctrl_c_ends_the_job_and_leaves_no_result_of_half_a_training(method, monkeypatch):
    """`solve` would return its best model so far; kept, that would pass for a finished training."""

    def stopping(*given, **named):
        def interrupt(record, total):
            if record.iteration == 1:
                raise KeyboardInterrupt

        return solve(*given, **named, callback=interrupt)

    def stopping_blind(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "solve", stopping)
    monkeypatch.setattr("setpoint.training.loss_training.LossRun.advance", stopping_blind)
    warnings.simplefilter("ignore")  # as a user might; pytest puts it back
    with pytest.raises(KeyboardInterrupt):
        trial.run_job(job(method), ADE)


def diverging(run_class, at, monkeypatch):
    """Let the weights become NaN in an outer iteration."""
    advance = run_class.advance

    def diverge(run, iteration):
        progress = advance(run, iteration)
        if iteration == at:
            with torch.no_grad():
                run.module.weight.fill_(torch.nan)
        return progress

    def diverge_at_once(run, take=None):
        progress = start(run, take)
        run.module.weight.data.fill_(torch.nan)
        return progress

    start = run_class.start
    monkeypatch.setattr(run_class, "advance", diverge)
    if at == 0:
        monkeypatch.setattr(run_class, "start", diverge_at_once)


def test_a_training_that_diverges_late_counts_with_its_best_model(monkeypatch):
    diverging(LagrangianRun, 3, monkeypatch)
    with pytest.warns(UserWarning, match="diverged after 2 of 20"):
        found = table(trial.run_job(job("tfco"), ADE))
    assert {sum(counts) for counts in found.values()} == {192, 48}


@pytest.mark.parametrize(("method", "run", "at"), [("wce", LossRun, 1), ("tfco", LagrangianRun, 0)])
def test_a_training_that_diverges_from_the_start_has_no_counts(method, run, at, monkeypatch):
    diverging(run, at, monkeypatch)
    found = trial.run_job(job(method), ADE)
    assert found["diverged"]
    assert found["counts"] == []
    assert found["solver"] == repr(job(method).solver)


def test_a_split_without_positives_raises():
    y = np.zeros(40, dtype=bool)
    y[:2] = True
    poor = Dataset("ade", np.random.default_rng(0).normal(size=(40, 2)), y, np.arange(40) // 2)
    with pytest.raises(SetpointError, match="split of data set 'ade' has no positives"):
        trial.run_job(job("wce"), poor)
