"""The eliminated form on mini-batches."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from problems import TALLIED, columns_of, overlapping, tallied, two_kinds

from setpoint import (
    CheckpointError,
    Goal,
    SetpointClassifier,
    SetpointError,
    choose_threshold,
    define_metric,
)
from setpoint.data import ArrayRows, ByChance
from setpoint.training import (
    Candidate,
    Projected,
    Stochastic,
    StreamProblem,
    get_solver,
    make_problem,
    solve,
)
from setpoint.training.models import build, scores_of
from setpoint.training.ordinary import Ordinary

SMALL = Stochastic(
    outer_iterations=2, inner_iterations=5, batch_size=128, rows=400, restarts=0, proximity=(0.0,)
)
LONGER = replace(SMALL, outer_iterations=3, inner_iterations=8, restarts=1, proximity=(0.1,))
FLOOR = "max recall s.t. precision >= 0.7"

PEAK = define_metric(  # best where a tenth of the rows is an alarm; not monotone
    "stochastic_test_peak",
    lambda tp, fp, P, N: 1 - abs((tp + fp) / (P + N) - 0.1) - 0.1 * fp / N,
    monotone=False,
    bounds=(-1.0, 1.0),
)
PROFIT = define_metric(
    "stochastic_test_profit", lambda tp, fp, P, N: (5 * tp - fp) / (5 * P), bounds=(-1e9, 1.0)
)


def fit(problem, solver=SMALL, model="linear", **given):
    torch.manual_seed(0)
    X = problem.X if hasattr(problem, "X") else problem.first_rows()
    module = build(model, X.shape[1]).to(X.dtype)
    return solve(problem, module, solver, **given)


def with_batch_norm(n_features):
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, 6),
        torch.nn.BatchNorm1d(6),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(6, 1),
    )


def assert_same(first, second):
    assert first.operating_point == second.operating_point
    assert first.history.records == second.history.records
    assert first.candidates == second.candidates
    for name, value in first.module.state_dict().items():
        assert torch.equal(value, second.module.state_dict()[name])


@pytest.mark.parametrize(
    "goal",
    [
        "max f1",
        FLOOR,
        "max precision s.t. recall >= 0.8",
        "max mcc s.t. fpr <= 0.1, precision >= 0.5",
        "max recall s.t. alarm_rate <= 0.1",
        "max stochastic_test_peak",
        "max stochastic_test_profit s.t. recall >= 0.5",
    ],
)
def test_any_goal_at_its_exact_threshold(goal):
    problem = overlapping(goal, n=900, dtype=torch.float32)
    solution = fit(problem)
    point = solution.operating_point
    assert point == problem.operating_point(solution.module)
    assert point.feasible
    assert not point.empty
    assert len(solution.history) == 3
    assert point.rank >= max(c.point.rank for c in solution.candidates)  # theirs are rough


def test_float64_rows_have_their_exact_threshold_too():
    problem = overlapping(FLOOR, n=900)
    solution = fit(problem)
    assert solution.operating_point.counts == problem.operating_point(solution.module).counts


def test_goal_training_gains_where_hopeless_positives_mislead():
    problem = two_kinds("max recall s.t. precision >= 0.8", n=2000)
    solution = fit(problem, replace(LONGER, inner_iterations=25, rows=2000, batch_size=500))
    whole = fit(problem, Projected(line_search=0, outer_iterations=8, inner_iterations=10))
    assert solution.history[0].objective < 0.2
    assert solution.operating_point.feasible
    assert solution.operating_point.recall > whole.operating_point.recall - 0.03
    assert solution.candidates.winner.start is not None


def test_impossible_goals_get_the_least_violation():
    solution = fit(overlapping("max f1 s.t. precision >= 0.99, recall >= 0.99"))
    assert not solution.operating_point.feasible
    assert solution.operating_point.violation <= solution.history[0].violation + 1e-6


@pytest.mark.usefixtures("without_cost_path")
def test_a_weight_of_two_is_the_row_twice():
    plain = overlapping("max f1", n=500, dtype=torch.float32)
    twice = torch.arange(500) % 3 == 0
    weighted = make_problem(plain.X, plain.positive, "max f1", 1.0 + twice)
    repeated = make_problem(
        torch.cat([plain.X, plain.X[twice]]),
        torch.cat([plain.positive, plain.positive[twice]]),
        "max f1",
    )
    solution = fit(weighted, replace(SMALL, rows=5000, batch_size=5000))
    again = repeated.operating_point(solution.module, solution.operating_point.threshold)
    assert again.counts == solution.operating_point.counts
    other = fit(repeated, replace(SMALL, rows=5000, batch_size=5000))
    assert other.operating_point.f1 == pytest.approx(solution.operating_point.f1, abs=0.01)
    assert [c.name for c in other.candidates] == [c.name for c in solution.candidates]
    start, other_start = solution.candidates[0].point, other.candidates[0].point
    assert start.counts == pytest.approx(other_start.counts, abs=2)


@pytest.mark.usefixtures("short_ordinary")
@pytest.mark.parametrize("model", ["mlp", with_batch_norm], ids=["mlp", "batch norm"])
def test_modules(model):
    problem = overlapping("max f1", n=900, dtype=torch.float32)
    solution = fit(problem, model=model)
    assert solution.operating_point == problem.operating_point(solution.module)
    assert solution.operating_point.f1 > 0.4
    trained = [c for c in solution.candidates if c.start is not None]
    assert trained
    assert not solution.module.training
    # and steps do change the weights, and what BatchNorm has seen
    given = Stochastic(**{**vars(SMALL), "start": "given"})
    moved = fit(problem, given, model, take=_named("goal-trained from the start", 2)).module
    torch.manual_seed(0)
    for (name, before), after in zip(
        build(model, 3).state_dict().items(), moved.state_dict().values(), strict=True
    ):
        assert not torch.equal(before, after), name


def _named(name, iteration):
    return Candidate(name, None, iteration, "the start")


def test_given_weights_are_the_start():
    problem = overlapping(FLOOR, n=600, dtype=torch.float32)
    solver = replace(SMALL, start="given")
    torch.manual_seed(4)
    module = torch.nn.Linear(3, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0.2, 0.3]]))
    before = problem.operating_point(module)
    solution = solve(problem, module, solver)
    assert solution.candidates[0].name == "the start"
    assert all(c.start == "the start" for c in solution.candidates[1:])
    assert solution.candidates[0].point.recall == pytest.approx(before.recall, abs=0.02)
    assert solution.operating_point.rank >= solution.candidates[0].point.rank


def test_validation_rows_of_their_own():
    train, validation = (overlapping(FLOOR, n=700, seed=s, dtype=torch.float32) for s in (0, 1))
    problem = make_problem(
        train.X, train.positive, FLOOR, validation=replace(validation, on="the validation rows")
    )
    solution = fit(problem)
    assert solution.operating_point == problem.evaluation.operating_point(solution.module)
    assert solution.operating_point.on == "the validation rows"


@cache
def stream():
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.2
    X = (rng.normal(size=(1500, 3)) + 1.2 * y[:, None]).astype(np.float32)
    source = ArrayRows(X, y, sample_weight=1 + np.arange(1500) % 2, block_rows=100)
    return StreamProblem(source, Goal.parse(FLOOR), ByChance(validation=0.3))


@cache
def straight(model):
    return fit(stream(), LONGER if model == "linear" else replace(SMALL, outer_iterations=3), model)


@pytest.mark.usefixtures("short_ordinary")
@pytest.mark.parametrize(
    ("model", "iteration"),
    [("linear", 0), ("linear", 1), (with_batch_norm, 1)],
    ids=["linear at the start", "linear", "dropout"],
)
def test_checkpoints_resume_bit_for_bit(tmp_path, model, iteration):
    whole = straight(model)
    solver = LONGER if model == "linear" else replace(SMALL, outer_iterations=3)
    seen = []

    def stop(record, total):
        seen.append(record.iteration)
        return "stop" if len(seen) == iteration + 1 else None

    first = fit(stream(), solver, model, checkpoint=tmp_path / "run", callback=stop)
    assert first.history.interrupted
    second = fit(stream(), solver, model, checkpoint=tmp_path / "run", callback=stop)
    assert seen == list(range(solver.outer_iterations + 1))  # nothing was done twice
    assert_same(second, whole)
    third = fit(stream(), solver, model, checkpoint=tmp_path / "run", callback=stop)
    assert len(seen) == solver.outer_iterations + 1
    assert_same(third, whole)


def test_checkpoints_know_their_run(tmp_path):
    stop = {"callback": lambda record, total: "stop", "checkpoint": tmp_path / "run"}
    fit(stream(), SMALL, **stop)
    for solver in (replace(SMALL, shards=2), replace(SMALL, rows=401), LONGER):
        with pytest.raises(CheckpointError, match="another solver"):
            fit(stream(), solver, **stop)
    other = replace(stream(), split=ByChance(validation=0.3, seed=1))
    with pytest.raises(CheckpointError, match="another problem"):
        fit(other, SMALL, **stop)


def test_another_seed_is_another_run():
    first, other = straight("linear"), fit(stream(), LONGER, seed=4)
    assert_same(first, fit(stream(), LONGER))
    assert [c.point.counts for c in first.candidates] != [c.point.counts for c in other.candidates]


def started(goal, seed=0, **given):
    """Return a run after its first pass, and its problem."""
    problem = overlapping(goal, n=4000, seed=seed, dtype=torch.float32)
    usual = {"inner_iterations": 20, "batch_size": 500, "rows": 4000}
    solver = replace(SMALL, **{**usual, **given})
    torch.manual_seed(seed)
    run = solver.prepare(problem, build("linear", 3))
    run.start()
    return run, problem


def scanned(run, problem):
    """Return TP and FP of the run's models as they are now, on all rows."""
    bundle = run._descent.bundle
    alarms = bundle.scores(problem.X) > bundle.origins[:, None]
    return np.stack([(alarms & c).sum(dim=1) for c in (problem.positive, ~problem.positive)])


STILL = {"lr": 1e-9, "relaxed": False}  # what moves is moved by the test


@pytest.mark.parametrize("shift", [-0.6, 0.6])
def test_the_counts_follow_models_that_were_moved(shift):
    run, problem = started("max recall s.t. precision >= 0.6", seed=2, **STILL)
    at_pass = np.array(run._counts)
    assert np.allclose(at_pass, scanned(run, problem))
    run._descent.bundle.origins += shift
    now = scanned(run, problem)
    assert np.all(np.abs(now - at_pass) > 50)
    run._take_steps(1)
    assert np.array_equal(scanned(run, problem), now)
    assert np.all(np.abs(run._counts - now) < 0.3 * np.abs(now - at_pass))


@pytest.mark.usefixtures("without_cost_path")
@pytest.mark.parametrize("seed", range(3))
def test_the_counts_follow_the_steps(seed):
    run, problem = started("max recall s.t. precision >= 0.6", seed=seed, lr=0.02)
    at_pass = np.array(run._counts)
    run._take_steps(1)
    now = scanned(run, problem)
    assert np.abs(now - at_pass).sum() > 400
    assert np.abs(run._counts - now).sum() < 0.5 * np.abs(now - at_pass).sum()


@pytest.mark.usefixtures("without_cost_path")
@pytest.mark.parametrize(("shift", "broken"), [(-0.6, True), (0.6, False)], ids=["broken", "kept"])
def test_multipliers_follow_between_two_passes(shift, broken):
    """At the pass precision is just kept; fpr always is."""
    run, problem = started("max recall s.t. precision >= 0.6, fpr <= 0.95", seed=2, **STILL)
    run._descent.bundle.origins += shift
    tp, fp = scanned(run, problem)
    assert np.all((tp / (tp + fp) < 0.6) == broken)
    assert np.all(run._descent.multipliers == 1)
    run._take_steps(1)
    precision, fpr = run._descent.multipliers
    assert np.all(precision > 1.5 if broken else precision < 0.7)
    assert np.all(fpr < 0.7)


def test_each_step_is_at_the_prices_of_the_counts_of_its_time(monkeypatch):
    run, _ = started(FLOOR, lr=0.02)
    at_pass, descent = run._counts, run._descent
    followed, pushed = [], []
    monkeypatch.setattr(descent, "update_multipliers", followed.append)
    push = descent.push
    monkeypatch.setattr(
        descent, "push", lambda batch, margins, now: [pushed.append(now), push(batch, margins, now)]
    )
    run._take_steps(1)
    assert len(followed) == 20
    assert {id(counts) for counts in pushed} == {id(counts) for counts in followed}
    assert pushed[-1] is followed[-1] is run._counts
    assert not any(np.allclose(at_pass, counts) for counts in pushed[len(pushed) // 2 :])


def distances(run, X):
    """Return how far rows are from the nearest of the run's thresholds."""
    bundle = run._descent.bundle
    return (bundle.scores(X) - bundle.origins[:, None]).abs().min(dim=0).values


def nearest_and_farthest(far, own):
    """Return masks of the tenth of a class that is nearest to a threshold, and of the farthest."""
    low, high = far[own].quantile(torch.tensor([0.1, 0.9]))
    return own & (far <= low), own & (far >= high)


@pytest.mark.parametrize("label", [True, False], ids=["positives", "negatives"])
def test_batches_have_more_rows_near_the_thresholds_each_of_less_weight(monkeypatch, label):
    run, problem = started(FLOOR, **STILL)
    taken, descent = [], run._descent
    batch = descent.batch
    monkeypatch.setattr(descent, "batch", lambda *rows: [taken.append(rows), batch(*rows)][1])
    run._take_steps(1)
    X, sign, weight = (torch.cat(parts) for parts in list(zip(*taken, strict=True))[:3])
    number = {tuple(row): i for i, row in enumerate(problem.X.tolist())}
    drawn = torch.tensor([number[tuple(row)] for row in X.tolist()])
    assert torch.equal(sign > 0, problem.positive[drawn])
    near, far = nearest_and_farthest(distances(run, problem.X), problem.positive == label)
    assert near[drawn].sum() > 3 * far[drawn].sum()
    assert 3 * weight[near[drawn]].mean() < weight[far[drawn]].mean()
    for rows in (near, far):  # and so a batch counts on average what all rows do
        average = weight[rows[drawn]].sum() / 20
        assert average == pytest.approx(int(rows.sum()), rel=0.1)


def test_every_pass_corrects_the_counts_to_those_of_all_rows():
    run, problem = started(FLOOR, seed=1, rows=400, lr=0.02)
    for iteration in (1, 2):
        run.advance(iteration)
        assert np.abs(run._counts - scanned(run, problem)).max() <= 1  # one on an edge may round
        tp, fp = np.array(run._counts)[:, ~np.array(run._relaxed)]
        assert np.all(tp / (tp + fp) >= 0.7)  # where the goal is held to, it is on all rows


@pytest.mark.parametrize("shift", [-0.6, 0.6])
def test_the_next_sample_is_drawn_near_the_thresholds_that_steps_have_led_to(shift):
    run, problem = started(FLOOR, seed=1, rows=2000, **STILL)
    run._descent.bundle.origins += shift  # as if steps had
    run.advance(1)
    origins = run._descent.bundle.origins
    assert (run._drawn["shift"] - origins).abs().max() < 0.1  # as far as half of the rows can tell
    near, far = nearest_and_farthest(distances(run, problem.X), ~problem.positive)
    drawn = torch.zeros_like(near)
    drawn[run._sample.number] = True
    assert (drawn & near).sum() > 2 * (drawn & far).sum()


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_ends_training_without_gains(patience):
    solver = replace(SMALL, outer_iterations=9, lr=1e-12, patience=patience)
    solution = fit(stream(), solver)
    assert len(solution.history) == 1 + 1 + patience  # the start, the first pass, and then no gain
    assert not solution.history.interrupted


def test_patience_counts_on_after_a_stop(tmp_path):
    solver = replace(SMALL, outer_iterations=9, lr=1e-12, patience=3)
    for last in (2, 9):
        solution = fit(
            stream(),
            solver,
            checkpoint=tmp_path / "run",
            callback=lambda record, total, last=last: "stop" if record.iteration == last else None,
        )
    assert len(solution.history) == 5


@pytest.mark.usefixtures("without_cost_path")
def test_a_model_that_diverges_ends_only_itself():
    solution = fit(stream(), replace(LONGER, outer_iterations=2, spread=1e39))
    names = [c.name for c in solution.candidates]
    assert not any("restart" in name for name in names)
    assert sum(name.startswith("goal-trained") for name in names) == 4
    assert solution.operating_point.feasible
    assert all(np.isfinite(record.loss) for record in solution.history)


@pytest.mark.usefixtures("short_ordinary")
def test_when_all_diverge_the_ordinary_ones_are_kept(tmp_path):
    with pytest.warns(UserWarning, match="training diverged after 0 of 2 iterations"):
        solution = fit(stream(), replace(SMALL, lr=1e30), "mlp", checkpoint=tmp_path / "run")
    assert solution.history.diverged
    assert solution.operating_point.recall > 0.3
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("shards", [1, 7])
def test_any_number_of_shards(shards):
    solution = fit(stream(), replace(LONGER, shards=shards))
    expected = straight("linear").operating_point.recall
    assert solution.operating_point.recall == pytest.approx(expected, abs=0.02)


def test_few_positives_and_batches_larger_than_the_data():
    problem = overlapping("max f1", n=300, share=0.03, dtype=torch.float32)
    assert problem.positive.sum() < 12
    solution = fit(problem, replace(SMALL, batch_size=10_000, rows=10_000))
    assert solution.operating_point == problem.operating_point(solution.module)
    tiny = fit(problem, replace(SMALL, batch_size=2, rows=2))
    assert tiny.operating_point == problem.operating_point(tiny.module)


def test_a_classifier_operates_at_its_exact_threshold():
    X, y = stream_arrays()
    clf = SetpointClassifier(FLOOR, solver=SMALL, validation=None, random_state=0).fit(X, y)
    expected = choose_threshold(y, clf.positive_scores(X), FLOOR)
    assert clf.operating_point_.counts == expected.counts
    assert clf.operating_point_.threshold == 0.0
    held_out = SetpointClassifier(FLOOR, solver=SMALL, random_state=0).fit(X, y)
    positive, scores = held_out._threshold_rows
    assert held_out._chosen_point.on == "the validation rows"
    best = choose_threshold(positive, scores, FLOOR)
    assert best.recall - 0.2 <= held_out._chosen_point.recall <= best.recall
    held_out = SetpointClassifier(FLOOR, solver=SMALL, caution=0, random_state=0).fit(X, y)
    positive, scores = held_out._threshold_rows
    assert held_out._chosen_point.counts == choose_threshold(positive, scores, FLOOR).counts
    assert held_out.operating_point_.on == "the validation rows (cross-fitted)"


def test_the_winner_is_trained_again_on_all_rows():
    X, y = stream_arrays()
    clf = SetpointClassifier(FLOOR, solver=SMALL, refit=True, random_state=0).fit(X, y)
    assert sum(clf.operating_point_.counts[2:]) == len(y)
    logits = scores_of(clf.module_, torch.from_numpy(clf.standardizer_.transform(X))).numpy()
    expected = choose_threshold(y, logits, FLOOR)
    assert clf.operating_point_.counts[0] == expected.counts[0]


def stream_arrays():
    blocks = list(stream().source.blocks())
    return (torch.cat([getattr(b, f) for b in blocks]).numpy() for f in ("X", "positive"))


def test_the_name():
    assert get_solver("stochastic") == Stochastic()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start": "random"}, "start is one of"),
        ({"lam0": 0.0}, "lam0 must be positive"),
        ({"lam_max": float("nan")}, "lam_max must be positive"),
        ({"lr": -1.0}, "lr must be positive"),
        ({"dual_rate": 0.0}, "dual_rate must be positive"),
        ({"near": 0.0}, "near must be positive"),
        ({"outer_iterations": -1}, "outer_iterations must be >= 0"),
        ({"inner_iterations": 0}, "inner_iterations must be None or >= 1, not 0"),
        ({"batch_size": 1}, "batch_size must be None or >= 2"),
        ({"rows": 1}, "rows must be None or >= 2"),
        ({"rows": 0}, "rows must be None or >= 2"),
        ({"positives": 0.0}, "positives must lie between"),
        ({"positives": 1.0}, "positives must lie between"),
        ({"patience": 0}, "patience must be None or >= 1"),
        ({"shards": 0}, "shards must be None or >= 1"),
        ({"gamma": -0.1}, "gamma must be >= 0"),
        ({"restarts": -1}, "restarts must be >= 0"),
        ({"spread": -1.0}, "spread must be >= 0"),
        ({"proximity": ()}, "every entry of proximity"),
        ({"proximity": (0.0, -1.0)}, "every entry of proximity"),
    ],
    ids=str,
)
def test_bad_parameters_raise(given, message):
    with pytest.raises(SetpointError, match=message):
        Stochastic(**given)


@pytest.mark.parametrize(
    ("features", "rows"),
    [
        (8, 2**18),
        (2**10, 2**15),  # 128 MiB
        (4096, 20_000),
        (3 * 224 * 224, 2**28 // (3 * 224 * 224)),  # 1 GiB
        (2**30, 1),
    ],
)
def test_a_sample_is_bounded_however_wide_rows_are(features, rows):
    run = replace(SMALL, rows=None).prepare(overlapping("max f1"), build("linear", 3))
    run._features = features
    assert run._rows == rows


# --- goals that name amounts, segments and periods ------------------------------------------------


@pytest.mark.usefixtures("without_cost_path")
@pytest.mark.parametrize("goal", TALLIED)
def test_never_worse_than_its_start_where_rows_have_prices_of_their_own(goal):
    """Among the candidates is the best logistic regression at its threshold for the goal."""
    problem = tallied(goal, n=900)
    solution = fit(problem, replace(LONGER, rows=2000))  # ordinary training has all rows, too
    point = solution.operating_point
    assert point == problem.operating_point(solution.module)
    assert point.feasible
    assert not point.empty
    start = fit(problem, Ordinary()).operating_point
    assert point.rank >= (start.rank[0], start.rank[1] - 1e-12)  # sums may round differently
    assert any("goal-trained" in c.name for c in solution.candidates)


def test_better_where_large_amounts_are_in_another_direction():
    """Cross-entropy follows the many small payments, the goal the few large ones."""
    rng = np.random.default_rng(0)
    n = 1500
    y, large = rng.random(n) < 0.3, rng.random(n) < 0.1
    X = rng.normal(size=(n, 2))
    X[y & ~large, 0] += 2
    X[y & large] += [-1, 2]
    amount = np.where(large, 200.0, 2.0)
    usual, ours = (
        SetpointClassifier(
            "min cost(fp=5, fn=amount)", solver=solver, validation=None, random_state=0
        ).fit(X, y, amounts={"amount": amount})
        for solver in ("cross_entropy", LONGER)
    )
    assert ours.operating_point_.objective < 0.8 * usual.operating_point_.objective


def tallied_scan(run, problem):
    """Return TP and FP of the run's models in each tally, on all rows: shape (2, tallies, k)."""
    bundle = run._descent.bundle
    alarms = (bundle.scores(problem.X) > bundle.origins[:, None]).double()
    counted = problem.factors.double() * problem.sample_weight.double()[:, None]
    positive = problem.positive[:, None]
    return np.stack([(alarms @ (counted * own)).T.numpy() for own in (positive, ~positive)])


@pytest.mark.usefixtures("without_cost_path")
@pytest.mark.parametrize("goal", [TALLIED[0], TALLIED[3]])
def test_counts_in_all_tallies_follow_the_steps_and_are_corrected_by_passes(goal):
    problem = tallied(goal, n=4000, dtype=torch.float32, weights=True)
    solver = replace(SMALL, inner_iterations=20, batch_size=500, rows=2000, lr=0.02)
    run = solver.prepare(problem, build("linear", 3))
    torch.manual_seed(0)
    run.start()
    for iteration in (1, 2):
        run.advance(iteration)
        P, N = (np.array(total)[:, None] for total in problem.totals)
        relative = np.abs(np.array(run._counts) - tallied_scan(run, problem)) / np.stack([P, N])
        assert relative.max() < 0.01  # a few rows on an edge may round
    at_pass = np.array(run._counts)
    run._descent.bundle.origins += 0.6
    now = tallied_scan(run, problem)
    run._descent.lr = 1e-9  # what moves was moved by the test
    run._take_steps(3)
    assert np.abs(np.array(run._counts) - now).sum() < 0.5 * np.abs(now - at_pass).sum()


def test_rows_that_count_more_are_drawn_more_often():
    problem = tallied(TALLIED[0], n=4000, dtype=torch.float32)
    run = replace(SMALL, rows=1000).prepare(problem, build("linear", 3))
    run.start()
    run.advance(1)
    amount = problem.factors[:, 1]
    drawn = torch.zeros(4000, dtype=torch.bool)
    drawn[run._sample.number] = True
    assert torch.equal(run._sample.factors, problem.factors.double()[run._sample.number])
    negative = ~problem.positive
    assert amount[drawn & negative].mean() > 1.3 * amount[~drawn & negative].mean()
    # And the weights make up for it.
    estimated = float((run._sample.factors[:, 1] * run._sample.weight).sum())
    assert estimated == pytest.approx(float(amount.sum()), rel=0.05)


def with_validation(goal):
    """A problem whose validation rows are other days and regions than its training rows."""
    rows = overlapping("max f1", n=1200)
    columns, order = columns_of(goal, 1200, days=12), np.arange(1200)
    for codes in columns.periods.values():  # whole days
        order = np.argsort(codes.codes, kind="stable")
    parts = [order[:800], order[800:]]
    validation, problem = None, None
    for rows_of in reversed(parts):
        problem = make_problem(
            rows.X[rows_of],
            rows.positive[rows_of],
            goal,
            validation=validation,
            columns=columns.take(rows_of),
            caution=0.2 if validation is None else 0.0,
        )
        validation = problem
    return problem


@pytest.mark.parametrize("goal", [TALLIED[3], TALLIED[5]])
def test_validation_rows_have_segments_and_periods_of_their_own(goal):
    problem = with_validation(goal)
    solution = fit(problem)
    point = solution.operating_point
    assert point.goal == problem.validation.goal
    assert point.counts == problem.validation.operating_point(solution.module).counts
    if "day" in goal:
        assert problem.goal.tallies != problem.validation.goal.tallies


@pytest.mark.parametrize("goal", [TALLIED[1], TALLIED[5]])
def test_checkpoints_resume_bit_for_bit_in_several_tallies(tmp_path, goal):
    problem, seen = with_validation(goal), []

    def stop(record, total):
        seen.append(record.iteration)
        return "stop" if len(seen) == 2 else None

    whole = fit(problem)
    first = fit(problem, checkpoint=tmp_path / "run", callback=stop)
    assert first.history.interrupted
    second = fit(problem, checkpoint=tmp_path / "run", callback=stop)
    assert seen == [0, 1, 2]
    assert_same(second, whole)
    fit(problem, checkpoint=tmp_path / "new", callback=lambda *_: "stop")
    changed = replace(problem, factors=problem.factors * 1.5)
    with pytest.raises(CheckpointError, match="another problem"):
        fit(changed, checkpoint=tmp_path / "new")
