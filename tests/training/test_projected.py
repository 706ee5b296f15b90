import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from problems import overlapping, two_kinds

from setpoint import FPOR, FROP, OFOS, Goal, SetpointError
from setpoint.errors import DivergedError
from setpoint.method.referee import solve_exactly
from setpoint.training import Lifted, Projected, make_problem, solve
from setpoint.training.models import build, scores_of

QUICK = Projected(outer_iterations=8, inner_iterations=10, line_search=200_000)
SHORT_SEARCH = Projected(line_search=20_000)  # a few rows would take all that is allowed
GOALS = [FPOR(0.7), FROP(0.8), OFOS()]


def fit(problem, solver=QUICK, model="linear", **kwargs):
    torch.manual_seed(0)
    module = build(model, problem.X.shape[1]).to(problem.X.dtype)
    return solve(problem, module, solver, **kwargs)


@cache
def fitted(goal):
    """Fit the usual problem; several tests look at the result."""
    return fit(overlapping(goal))


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_never_worse_than_the_best_ordinary_model(goal):
    solution = fitted(goal)
    start = solution.history[0]
    assert solution.operating_point.rank >= (-start.violation, start.objective)
    ordinary = [c for c in solution.candidates if c.name.startswith("logistic")]
    assert solution.operating_point.rank >= max(c.point.rank for c in ordinary)
    assert len(ordinary) == 14


def test_goal_training_gains_where_hopeless_positives_mislead():
    solution = fit(two_kinds(FPOR(0.8)))
    logistic = [c.point for c in solution.candidates if c.name.startswith("logistic")]
    assert max(p.objective for p in logistic) == 0.0  # no logistic regression raises an alarm
    assert solution.operating_point.recall > 0.4
    assert solution.operating_point.feasible


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("seed", range(1))
def test_near_the_proven_optimum(goal, seed):
    problem = overlapping(goal, n=45, d=2, share=0.35, seed=seed)
    proven = solve_exactly(problem.X.numpy(), problem.positive.numpy(), goal, time_limit=30)
    assert proven.proven
    found = fit(problem, SHORT_SEARCH).operating_point
    assert found.feasible
    assert 0.95 * proven.bound <= found.objective <= proven.bound + 1e-9


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("seed", range(1))
def test_lifted_and_projected_agree_where_all_separations_can_be_tried(goal, seed):
    problem = overlapping(goal, n=30, d=1, share=0.4, seed=seed)
    both = [problem.operating_point(w) for w in signs(problem)]
    optimum = max(p.rank for p in both)
    for solver in (SHORT_SEARCH, Lifted(outer_iterations=20)):
        assert fit(problem, solver).operating_point.rank == optimum


def signs(problem):
    for sign in (-1.0, 1.0):
        module = build("linear", 1).double()
        torch.nn.init.constant_(module.weight, sign)
        yield module


@pytest.mark.parametrize(
    "goal",
    [
        "max recall s.t. fpr <= 0.1, precision >= 0.5",
        "max precision s.t. recall >= 0.5, fpr <= 0.2, npv >= 0.8",
        "max gmean",
        "max mcc s.t. recall >= 0.6",
        "max accuracy",
        "max fbeta(2)",
        "min fpr s.t. recall >= 0.7",
        "max recall s.t. alarm_rate <= 0.1",
    ],
)
def test_any_goal_and_any_number_of_constraints(goal):
    point = fit(overlapping(goal)).operating_point
    assert point.feasible
    assert not point.empty


def test_impossible_goals_get_the_least_violation():
    problem = overlapping("max f1 s.t. precision >= 0.99, recall >= 0.99")
    solution = fit(problem)
    assert not solution.operating_point.feasible
    assert solution.operating_point.violation <= solution.history[0].violation


def test_validation_rows_choose_the_model():
    train, validation = overlapping("max f1"), overlapping("max f1", seed=1)
    problem = make_problem(train.X, train.positive, "max f1", validation=validation)
    solution = fit(problem)
    assert validation.operating_point(solution.module) == solution.operating_point
    best = max(solution.candidates, key=lambda c: c.sort_key)
    assert solution.operating_point == best.point
    scores = scores_of(solution.module, validation.X).numpy()
    expected = (best.point.objective + validation.halves.average(scores, OFOS())) / 2
    assert best.average == pytest.approx(expected)


def test_large_problems_train_on_a_working_set():
    problem = two_kinds(FPOR(0.8), n=4000)
    whole = fit(problem, replace(QUICK, line_search=0))
    part = fit(problem, replace(QUICK, line_search=0, rows=400)).operating_point
    assert part.recall == pytest.approx(whole.operating_point.recall, abs=0.03)
    assert part.recall > whole.history[0].objective + 0.2


@pytest.mark.usefixtures("without_cost_path")
def test_weights_are_repetitions():
    goal = Goal.parse("max recall s.t. precision >= 0.7")
    once = overlapping(goal, n=200, weights=True)
    times = once.sample_weight.long()
    many = make_problem(
        once.X.repeat_interleave(times, 0), once.positive.repeat_interleave(times), goal
    )
    solver = replace(QUICK, line_search=0)
    one, repeated = fit(once, solver), fit(many, solver)
    assert one.operating_point.recall == pytest.approx(repeated.operating_point.recall, abs=0.02)
    assert one.history[0].objective == pytest.approx(repeated.history[0].objective)


@pytest.mark.usefixtures("without_cost_path")
def test_proximity_keeps_models_near_their_start():
    problem = two_kinds(FPOR(0.8))
    moved = []
    for proximity in (0.0, 1.0, 100.0):
        run = replace(QUICK, proximity=(proximity,), gamma=0.1, restarts=0, line_search=0).prepare(
            problem, build("linear", 2).double()
        )
        run.start()
        held = [not relaxed for relaxed in run._relaxed]
        start = run._bundle.matrix[held]
        for k in range(1, 9):
            run.advance(k)
        moved.append(float((run._bundle.matrix[held] - start).norm()))
    assert moved[0] > 2 * moved[1] > 4 * moved[2]


def test_an_mlp_can_be_trained(short_ordinary):
    solution = fit(two_kinds("max f1"), model="mlp")
    names = [c.name for c in solution.candidates]
    assert names[0] == "as given"
    trained = [name for name in names if name.startswith("goal-trained from ordinary, ")]
    assert len(trained) == 6  # from the best plain and from the best weighted one
    assert trained[0].endswith("; proximity 1")
    assert solution.operating_point.f1 > 0.75  # a linear model reaches 0.61


def test_the_given_start_is_kept_where_asked():
    problem = overlapping("max f1")
    module = build("linear", 3).double()
    torch.nn.init.constant_(module.weight, 1.0)
    solution = solve(problem, module, replace(QUICK, start="given", outer_iterations=0))
    assert solution.candidates[0].name == "the start"
    assert (solution.module.weight == 1.0).all()


def test_a_module_without_bias():
    problem = overlapping("max f1")
    solution = fit(problem, model=lambda d: torch.nn.Linear(d, 1, bias=False))
    assert problem.operating_point(solution.module) == solution.operating_point


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_point_is_that_of_the_module(dtype):
    problem = overlapping("max f1", dtype=dtype, n=2000)
    solution = fit(problem)
    assert problem.operating_point(solution.module) == solution.operating_point
    assert solution.module.weight.dtype == dtype


def test_one_feature_two_rows_of_a_class():
    X = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    problem = make_problem(X, torch.tensor([False, True, False, True]), "max f1")
    assert fit(problem, SHORT_SEARCH).operating_point.f1 == pytest.approx(0.8)


def test_the_loss_is_recorded_and_lambda_grows():
    history = fitted(OFOS()).history
    assert np.isfinite(history.column("loss")).all()
    assert (np.diff(history.lam) > 0).all()
    assert history.lam[0] == 1.0
    assert history.lam[-1] == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"start": "x"}, "start is one of"),
        ({"lam0": 0.0}, "lam0 must be positive"),
        ({"lr": -1.0}, "lr must be positive"),
        ({"proximity": ()}, "proximity"),
        ({"proximity": (-1.0,)}, "every entry of proximity must be >= 0"),
        ({"outer_iterations": -1}, "outer_iterations"),
        ({"inner_iterations": 0}, "inner_iterations"),
        ({"inner_iterations": -3}, "inner_iterations"),
        ({"rows": 1}, "rows must be None or >= 2"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises(SetpointError, match=message):
        Projected(**params)


def test_a_candidate_can_be_trained_again_on_other_rows():
    """From the same kind of start, though another would be best on these rows."""
    second = overlapping("max f1", seed=5)
    wanted = fitted(OFOS()).candidates[-2]
    assert wanted.iteration > 0
    assert "restart" in wanted.name
    again = fit(second, take=wanted)
    assert [c.name for c in again.candidates][14:] == [wanted.start, wanted.name]
    assert len(again.history) == wanted.iteration + 1
    assert again.history.best_iteration == wanted.iteration
    assert second.operating_point(again.module) == again.operating_point


def test_an_ordinary_candidate_can_be_trained_again():
    second = overlapping("max f1", seed=5)
    wanted = fitted(OFOS()).candidates[3]
    again = fit(second, take=wanted)
    assert len(again.history) == 1
    assert again.operating_point == again.candidates[3].point


def test_the_winner_is_the_model_that_is_returned():
    """Ties are common on few rows; the simpler wins, and it is what is kept."""
    for seed in range(12):
        train, validation = (overlapping("max f1", n=n, seed=seed) for n in (120, 41))
        problem = make_problem(train.X, train.positive, "max f1", validation=validation)
        solution = fit(problem)
        won = solution.candidates.winner
        assert won.point == solution.operating_point
        assert won.iteration == solution.history.best_iteration
        assert validation.operating_point(solution.module) == won.point


def test_settled_parameters_stay_the_same_on_other_rows():
    small, large = overlapping("max f1"), overlapping("max f1", n=3000)
    judged = make_problem(small.X, small.positive, "max f1", validation=small)
    linear = build("linear", 3)
    settled = Projected().settle(judged, linear)
    assert (settled.outer_iterations, settled.inner_iterations, settled.gammas) == (8, 40, (0.1,))
    assert settled.restarts == 8
    assert 0 < settled.line_search < Projected().line_search
    assert settled.settle(large, linear) == settled
    alone = Projected().settle(large, linear)
    assert (alone.outer_iterations, alone.inner_iterations, alone.restarts) == (40, 100, 2)
    assert (alone.lam0, alone.lam_max, alone.gammas) == (0.1, 100.0, (0.1, 0.01))
    assert alone.line_search == Projected().line_search
    both = make_problem(large.X, large.positive, "max f1", validation=small)
    assert Projected().settle(both, linear).line_search == 0
    network = Projected().settle(large, build("mlp", 3))
    assert network.dual_rate < alone.dual_rate
    given = Projected(lam0=2.0, rows=50, dual_rate=0.2).settle(large, linear)
    assert (given.lam0, given.rows, given.dual_rate) == (2.0, 50, 0.2)


def test_searches_start_from_the_best_model_of_the_whole_training():
    """Goal training spoils every model here, and the best one is an ordinary one."""
    problem = overlapping("max recall s.t. precision >= 0.8", n=400)
    solver = replace(QUICK, outer_iterations=2, lr=50.0, proximity=(0.0,), relaxed=False)
    without, searched = (fit(problem, replace(solver, line_search=n)) for n in (0, 10**7))
    start = without.candidates.winner
    assert "goal-trained" not in start.name
    (found,) = (c for c in searched.candidates if c.name == f"{start.name}; line search")
    assert found.start == start.name
    assert found.point.sort_key >= start.point.sort_key
    assert searched.operating_point.sort_key > without.operating_point.sort_key
    assert searched.operating_point == problem.operating_point(searched.module)


def test_a_wanted_model_does_not_give_way_to_a_better_one():
    problem = overlapping("max recall s.t. precision >= 0.8", n=400)
    solver = replace(QUICK, outer_iterations=2, lr=50.0, relaxed=False, line_search=10**6)
    wanted = next(c for c in fit(problem, solver).candidates if c.name.endswith("; proximity 1"))
    again = fit(problem, solver, take=replace(wanted, iteration=2))
    assert {c.name for c in again.candidates if c.start} == {wanted.name}


def test_searches_in_half_precision_do_not_end_the_training():
    X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).half()
    problem = make_problem(X, X[:, 0].float() + X[:, 1].float() > 1, "max f1")
    solution = fit(problem, replace(QUICK, line_search=10**6))
    assert not solution.history.diverged
    assert solution.operating_point.f1 > 0.9


def test_features_that_are_not_numbers_raise():
    X = torch.randn(300, 3)
    X[7, 1] = torch.nan
    with pytest.raises(DivergedError, match="not finite"):
        fit(make_problem(X, X[:, 0] > 1, "max f1"))


def test_a_parameter_that_is_not_used_survives_a_checkpoint():
    class Unused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.aside = torch.nn.Parameter(torch.zeros(7))
            self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))

        def forward(self, X):
            return self.layers(X)

    torch.manual_seed(0)
    problem, module = overlapping("max f1"), Unused().double()
    solver = Projected(start="given", outer_iterations=3, inner_iterations=4)
    runs = [solver.prepare(problem, copy.deepcopy(module)) for _ in range(2)]
    runs[0].start()
    runs[0].advance(1)
    runs[1].load_state_dict(copy.deepcopy(runs[0].state_dict()))
    runs[1].state_dict()
    for run in runs:
        torch.manual_seed(1)
        run.advance(2)
    for a, b in zip(*(run._bundle.parameters for run in runs), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_candidate_that_does_not_exist_raises():
    wanted = fitted(OFOS()).candidates[-1]
    with pytest.raises(SetpointError, match="no candidate 'goal-trained from .*restart 8'"):
        fit(overlapping("max f1"), replace(QUICK, restarts=1), take=wanted)


def test_a_diverged_model_ends_only_its_own_training():
    problem = overlapping("max f1")
    run = QUICK.prepare(problem, build("linear", 3).double())
    run.start()
    run.advance(1)
    run._bundle.matrix[2] = torch.nan
    lost = run._names[2]
    for k in range(2, 9):
        run.advance(k)
        names = [c.name for c in run.models()]
        assert lost not in names
        assert len(names) == len(run._names) - 1
    run._bundle.matrix[:] = torch.nan
    with pytest.raises(DivergedError):
        run.advance(9)


@pytest.mark.parametrize("kind", ["subclass", "frozen", "parametrised", "hook"])
def test_layers_that_are_only_nearly_linear_are_trained_as_modules(kind, short_ordinary):
    class Squared(torch.nn.Linear):
        def forward(self, X):
            return super().forward(X) ** 2

    problem = overlapping("max f1", n=150)
    torch.manual_seed(0)
    module = Squared(3, 1) if kind == "subclass" else torch.nn.Linear(3, 1)
    module = module.double()
    before = module.weight.detach().clone()
    if kind == "frozen":
        module.weight.requires_grad_(False)
    if kind == "parametrised":
        module = torch.nn.utils.parametrizations.weight_norm(module)
    if kind == "hook":
        module.register_forward_hook(lambda m, args, out: out - args[0][:, :1])
    solution = solve(problem, module, QUICK)
    assert solution.candidates[0].name == "as given"
    assert problem.operating_point(solution.module) == solution.operating_point
    if kind == "frozen":
        assert torch.equal(module.weight, before)
