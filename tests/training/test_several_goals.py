"""Several goals at once come to what they come to one by one."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import misled, overlapping, two_kinds

from setpoint import FPOR, FROP, OFOS, Goal, SetpointError
from setpoint.training import (
    Lifted,
    Projected,
    Stochastic,
    TrainedModel,
    several_goals,
    solve,
    solve_goals,
)
from setpoint.training.candidates import Selection
from setpoint.training.models import build
from setpoint.training.several_goals import SeveralGoalsRun, _exchange

LEVELS = (0.5, 0.7, 0.9)
MIXED = [
    "max recall s.t. precision >= 0.8",
    "max f1",
    "max recall s.t. fpr <= 0.1, precision >= 0.5",
    "max gmean",
    "min alarm_rate s.t. recall >= 0.7",
]
SHORT = Projected(outer_iterations=4, inner_iterations=15, restarts=2, line_search=100_000)


def alone(problem, goals, kind="linear", solver=SHORT):
    torch.manual_seed(0)
    given = build(kind, problem.X.shape[1]).to(problem.X.dtype).state_dict()
    solutions = []
    for goal in goals:
        module = build(kind, problem.X.shape[1]).to(problem.X.dtype)
        module.load_state_dict(given)
        solutions.append(solve(problem.for_goal(Goal.parse(goal)), module, solver))
    return solutions


def at_once(problem, goals, kind="linear", solver=SHORT, **options):
    torch.manual_seed(0)
    module = build(kind, problem.X.shape[1]).to(problem.X.dtype)
    return solve_goals(problem, goals, module, solver, **options)


@pytest.mark.usefixtures("short_ordinary")
@pytest.mark.parametrize(("kind", "goals"), [("linear", MIXED), ("mlp", MIXED[:2])])
def test_each_goal_gets_the_model_that_it_gets_alone(kind, goals):
    problem = overlapping("max f1", n=400)
    solver = replace(SHORT, line_search=0)  # a search tells apart what only rounding parts
    found, by_themselves = (f(problem, goals, kind, solver) for f in (at_once, alone))
    for one, own in zip(found, by_themselves, strict=True):
        assert one.operating_point.goal == own.operating_point.goal
        np.testing.assert_allclose(
            one.history.column("loss"), own.history.column("loss"), rtol=2e-3, atol=1e-4
        )
        np.testing.assert_allclose(one.history.objective, own.history.objective, atol=0.01)
        ours = [c.name for c in one.candidates if not c.name.startswith("trained for")]
        assert ours == [c.name for c in own.candidates]


@pytest.mark.parametrize(("make", "kind"), [(overlapping, FPOR), (misled, FROP), (two_kinds, FPOR)])
def test_a_curve_is_as_good_as_its_points_and_falls(make, kind):
    problem = make("max f1")
    goals = [kind(level) for level in LEVELS]
    curve = [s.operating_point for s in at_once(problem, goals)]
    for point, own in zip(curve, alone(problem, goals), strict=True):
        assert point.violation <= own.operating_point.violation + 1e-12
        if own.operating_point.feasible:
            assert point.objective >= own.operating_point.objective - 0.02
    objectives = [p.objective for p in curve if p.feasible]
    assert objectives == sorted(objectives, reverse=True)


def test_the_point_is_the_module_s_own():
    problem = overlapping("max f1")
    found = at_once(problem, [FPOR(0.6), FPOR(0.9), OFOS()])
    assert len({id(s.module) for s in found}) == 3
    for solution in found:
        point = solution.operating_point
        validation = problem.for_goal(point.goal)
        assert validation.operating_point(solution.module, point.threshold) == point
        assert validation.operating_point(solution.module) == point
        assert not solution.module.training


def kept_with(problem, **models):
    """Return a selection from linear models in two features, given by their weights."""
    selection = Selection()
    module = torch.nn.Linear(2, 1).double()
    models_of = []
    for name, weights in models.items():
        module.weight.data[:] = torch.tensor(weights)
        state = {k: v.clone() for k, v in module.state_dict().items()}
        start = None if name == "ordinary" else "ordinary"
        models_of.append(TrainedModel(name, problem.operating_point(module), state, start))
    selection.update(models_of, 1.0, 0.0)
    return selection


def test_a_goal_takes_over_the_model_of_another_that_serves_it_better():
    problem = misled("max f1")  # the first feature tells the classes apart
    goals = [FPOR(0.6), FPOR(0.7), FPOR(0.8)]
    problems = [problem.for_goal(goal) for goal in goals]
    weights = {"poor": [-1.0, 0.2], "good": [1.0, 0.0], "fair": [1.0, 1.0]}
    kept = [kept_with(p, **{k: w}) for p, (k, w) in zip(problems, weights.items(), strict=True)]
    _exchange(kept, problems, torch.nn.Linear(2, 1).double())
    good = f"trained for '{goals[1]}'"
    assert [k.candidates.winner.name for k in kept] == [good, "good", good]
    assert [k.candidates.winner.start for k in kept] == ["ordinary"] * 3
    for selection in kept:
        assert selection.best[1]["weight"].tolist() == [[1.0, 0.0]]
        assert selection.best[0] == selection.candidates.winner.point
    recalls = [k.best[0].value("recall") for k in kept]
    assert recalls == sorted(recalls, reverse=True)


@pytest.mark.parametrize(("margin", "won"), [(0.0, "trained for"), (1.0, "ordinary")])
def test_a_model_taken_over_must_win_over_ordinary_training_by_the_margin(margin, won):
    judged = replace(misled("max f1"), validation=misled("max f1", n=100, seed=1))
    problems = [judged.for_goal(OFOS()), judged.for_goal(FPOR(0.7))]
    first = kept_with(problems[0].evaluation, ordinary=[1.0, 0.75])  # a little worse
    first.candidates.margin = margin
    second = kept_with(problems[1].evaluation, good=[1.0, 0.0])
    _exchange([first, second], problems, torch.nn.Linear(2, 1).double())
    assert first.candidates.winner.name.startswith(won)
    assert first.best[1]["weight"].tolist() == [[1.0, 0.75 if margin else 0.0]]


def test_validation_rows_choose_for_each_goal():
    problem = replace(
        overlapping("max f1", seed=1), validation=overlapping("max f1", n=200, seed=2)
    )
    goals = [FPOR(0.6), FPOR(0.8)]
    found, own = at_once(problem, goals), alone(problem, goals)
    for one, other in zip(found, own, strict=True):
        assert one.operating_point.on == problem.validation.on
        assert one.operating_point.objective == pytest.approx(
            other.operating_point.objective, abs=0.03
        )


def test_the_given_module_and_the_generator_are_left_alone():
    problem = overlapping("max f1")
    module = build("linear", 3).double()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    state = torch.get_rng_state()
    solve_goals(problem, [FPOR(0.6), OFOS()], module, SHORT)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_seed_is_the_same_curve():
    problem = overlapping("max f1", n=120)
    curves = [at_once(problem, [FPOR(0.6), OFOS()], seed=seed) for seed in (3, 3)]
    first, second = ([s.operating_point for s in curve] for curve in curves)
    assert first == second


def test_a_callback_sees_every_goal_and_stops_all():
    seen = []

    def see(record, total):
        seen.append((record.iteration, total))
        return "stop" if len(seen) == 3 else None

    found = at_once(overlapping("max f1"), [FPOR(0.6), OFOS()], callback=see)
    assert seen == [(0, 4), (0, 4), (1, 4), (1, 4)]
    assert [len(s.history) for s in found] == [2, 2]
    assert all(s.history.interrupted for s in found)


@pytest.mark.parametrize("when", [0, 2])
def test_an_interrupt_keeps_the_best_so_far_if_there_is_one(when):
    def interrupt(record, total):
        if record.iteration == when:
            raise KeyboardInterrupt

    def train():
        return at_once(overlapping("max f1"), [FPOR(0.6), OFOS()], callback=interrupt)

    if when == 0:
        with pytest.raises(KeyboardInterrupt):
            train()
        return
    with pytest.warns(UserWarning, match="was interrupted after 2 of 4 iterations") as caught:
        found = train()
    assert caught[0].filename == __file__
    assert all(s.history.interrupted and not s.history.diverged for s in found)


def test_divergence_keeps_the_best_so_far():
    problem = overlapping("max f1")
    with pytest.warns(UserWarning, match="diverged"):
        found = at_once(problem, [FPOR(0.6), OFOS()], solver=replace(SHORT, lr=1e300))
    assert all(s.history.diverged for s in found)
    assert all(np.isfinite(s.operating_point.objective) for s in found)


def test_one_goal_is_the_same_to_the_last_bit():
    problem = overlapping("max f1")
    (one,), (own,) = at_once(problem, [FPOR(0.7)]), alone(problem, [FPOR(0.7)])
    assert one.operating_point == own.operating_point
    assert one.history == own.history
    assert one.candidates == own.candidates


@pytest.mark.parametrize("solver", [Lifted(), Stochastic()])
def test_solvers_for_one_goal_raise(solver):
    with pytest.raises(SetpointError, match=f"{type(solver).__name__} trains for one goal"):
        at_once(overlapping("max f1"), [FPOR(0.6), OFOS()], solver=solver)


@pytest.mark.parametrize(
    ("goals", "message"),
    [([], "no goals"), ("max f1", "a list of goals, not 'max f1'"), (OFOS(), "not 'max f1'")],
)
def test_invalid_lists_of_goals_raise(goals, message):
    with pytest.raises(SetpointError, match=message):
        at_once(overlapping("max f1"), goals)


@pytest.mark.parametrize("goals", [[OFOS(), FPOR(0.8)], [FPOR(0.8), OFOS()]])
def test_which_models_are_trained_is_each_goal_s_own(goals):
    problem = overlapping("max f1")
    solver = replace(SHORT, relaxed=True)
    found, own = (f(problem, goals, solver=solver) for f in (at_once, alone))
    for one, other in zip(found, own, strict=True):
        names = [c.name for c in one.candidates if not c.name.startswith("trained for")]
        assert names == [c.name for c in other.candidates]
    relaxed = [any("relaxed" in c.name for c in s.candidates) for s in found]
    assert relaxed == [bool(goal.constraints) for goal in goals]


def lame(monkeypatch, goal):
    """Let a goal see nothing but the first of its ordinary models."""
    whole, seen = SeveralGoalsRun.models_of, []

    def models_of(self, which):
        found = whole(self, which)
        if which != goal:
            return found
        seen.extend(found[: 1 - len(seen)])
        return seen

    monkeypatch.setattr(SeveralGoalsRun, "models_of", models_of)


def test_a_model_taken_over_has_the_last_record(monkeypatch):
    lame(monkeypatch, 0)
    first, second = at_once(two_kinds("max f1"), [FPOR(0.7), FPOR(0.75)])
    assert first.candidates.winner.name == f"trained for '{FPOR(0.75)}'"
    assert first.candidates.winner.iteration == first.history.best_iteration == 5
    assert [len(s.history) for s in (first, second)] == [6, 5]
    for solution in (first, second):
        record = solution.history[solution.history.best_iteration]
        assert record.objective == solution.operating_point.objective
        assert record.threshold == solution.operating_point.threshold
    for a, b in zip(first.module.parameters(), second.module.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not first.history.interrupted


def test_an_interrupt_between_two_goals_records_and_in_the_exchange(monkeypatch):
    calls = []

    def interrupt(record, total):
        calls.append(record)
        if len(calls) == 5:  # the first goal has a record more than the second
            raise KeyboardInterrupt

    problem, goals = two_kinds("max f1"), [FPOR(0.7), FPOR(0.75)]
    with pytest.warns(UserWarning, match="was interrupted after 2 of 4"):
        found = at_once(problem, goals, callback=interrupt)
    for solution in found:
        assert solution.history.interrupted
        record = solution.history[solution.history.best_iteration]
        assert record.objective == solution.operating_point.objective

    def busy(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(several_goals, "scores_of", busy)
    with pytest.warns(UserWarning, match="was interrupted after 4 of 4"):
        found = at_once(problem, goals)
    assert all(s.history.interrupted for s in found)


def test_without_a_seed_torch_s_generator_decides():
    problem = overlapping("max f1", n=100)
    few = replace(SHORT, outer_iterations=1, restarts=8)

    def losses(state):
        torch.manual_seed(state)
        module = torch.nn.Linear(3, 1).double()
        torch.manual_seed(state)
        found = solve_goals(problem, [FPOR(0.6), OFOS()], module, few, seed=None)
        return [s.history.column("loss").tolist() for s in found]

    assert losses(1) == losses(1) != losses(2)


def test_unreachable_and_repeated_goals():
    problem = overlapping("max f1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = at_once(problem, ["max recall s.t. precision >= 1", OFOS(), OFOS()])
    assert found[1].operating_point.objective == pytest.approx(
        found[2].operating_point.objective, abs=0.02
    )


def test_several_goals_have_more_rows_near_their_thresholds(monkeypatch):
    problem = overlapping("max f1", n=400)
    found = []
    for goals in ([OFOS()], [OFOS(), FPOR(0.6)], [FPOR(0.5), FPOR(0.6), FPOR(0.7)]):
        problems = [problem.for_goal(goal) for goal in goals]
        run = SeveralGoalsRun(replace(SHORT, rows=50), problems, build("linear", 3).double())
        sizes = []
        monkeypatch.setattr(
            "setpoint.training.projected.take_linear_steps",
            lambda descent, batch, *_, sizes=sizes: sizes.append(len(batch.sign)),
        )
        run.start()
        run.advance(1)
        found += sizes
    assert found == [50, 100, 100]
