import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import TALLIED, misled, overlapping, tallied

from setpoint import FPOR, FROP, OFOS, Goal, GoalError, SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.paper.competitors import Augmented
from setpoint.training import CrossEntropy, Lifted, LossTraining, lifted, make_problem, solve
from setpoint.training.lifted import AutogradSteps, ClosedSteps, objective_scale
from setpoint.training.models import build
from setpoint.training.ordinary import Ordinary

GOALS = [FPOR(0.7), FROP(0.8), OFOS()]


def fit(problem, solver, model="linear", seed=0):
    torch.manual_seed(seed)
    module = build(model, problem.X.shape[1]).to(problem.X.dtype)
    return solve(problem, module, solver, seed=seed)


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_never_worse_than_ordinary_training(goal, seed):
    problem = overlapping(goal, seed=seed)
    best = max(
        fit(
            problem, LossTraining(CrossEntropy(float(balanced)), l2, outer_iterations=2)
        ).operating_point.rank
        for l2 in (1.0, 0.01)
        for balanced in (False, True)
    )
    solution = fit(problem, Lifted(outer_iterations=10))
    assert solution.operating_point.rank >= best
    assert solution.history[0].objective <= solution.operating_point.objective


@pytest.mark.usefixtures("without_cost_path")
@pytest.mark.parametrize("goal", TALLIED)
def test_never_worse_than_its_start_where_rows_have_prices_of_their_own(goal):
    """The start is the best logistic regression at its exact threshold for the goal."""
    problem = tallied(goal)
    start = fit(problem, Ordinary()).operating_point
    solution = fit(problem, Lifted(outer_iterations=10))
    assert solution.operating_point.rank >= start.rank
    assert solution.operating_point.feasible
    exact = problem.operating_point(solution.module)
    assert solution.operating_point == exact


def test_better_where_large_amounts_are_in_another_direction():
    """Cross-entropy follows the many small payments, the goal the few large ones."""
    rng = np.random.default_rng(0)
    n = 600
    y, large = rng.random(n) < 0.3, rng.random(n) < 0.1
    X = rng.normal(size=(n, 2))
    X[y & ~large, 0] += 2
    X[y & large] += [-1, 2]
    goal = "min cost(fp=5, fn=amount)"
    columns = GoalColumns.of(Goal.parse(goal), n, amounts={"amount": np.where(large, 200.0, 2.0)})
    problem = make_problem(torch.tensor(X), torch.tensor(y), goal, columns=columns)
    ordinary = fit(problem, LossTraining()).operating_point
    trained = fit(problem, Lifted()).operating_point
    assert trained.objective < 0.8 * ordinary.objective


@pytest.mark.parametrize(("goal", "gain"), [(FPOR(0.9), 0.05), (OFOS(), 0.01)], ids=str)
def test_better_where_cross_entropy_is_misled(goal, gain):
    """A quarter of the positives lies far on the wrong side; giving it up is the answer."""
    problem = misled(goal)
    ordinary = fit(problem, LossTraining()).operating_point
    trained = fit(problem, Lifted()).operating_point
    assert trained.feasible
    assert trained.objective > ordinary.objective + gain


@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("preset", [Lifted.paper, Lifted.printed], ids=["paper", "printed"])
def test_the_papers_presets_solve_a_separable_problem(preset, goal):
    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.3
    X = rng.normal(size=(200, 2)) * 0.3 + np.where(y, -1.5, 1.5)[:, None]
    problem = make_problem(torch.tensor(X), torch.tensor(y), goal)
    solution = fit(problem, preset(outer_iterations=6, inner_iterations=100, lr=0.05))
    assert solution.history[0].objective == 0.0  # the random start looks the other way
    assert solution.operating_point.objective == 1.0
    assert solution.operating_point.threshold == 0.0  # the logit of t = 0.5


def test_the_printed_preset_has_the_papers_constants():
    printed = Lifted.printed()
    assert (printed.lam0, printed.lam_max) == (1.0, 1e6)
    assert (printed.gamma0, printed.gamma_max) == (0.5, 10.0)
    assert (printed.outer_iterations, printed.lr_s, printed.s_step) == (50, 0.1, "adam")
    assert (printed.start, printed.start_s, printed.threshold) == ("random", "random", "fixed")
    assert (printed.inner_iterations, printed.patience) == (30_000, 10)
    assert (printed.cosine, printed.scaling) == ("subproblem", "paper")


def test_the_paper_preset_differs_in_the_scaling_and_in_the_limit_of_gamma():
    changes = {"scaling": "mean", "gamma_max": math.inf}
    assert Lifted.paper() == replace(Lifted.printed(), **changes)


@pytest.mark.parametrize("preset", [Lifted.paper, Lifted.printed], ids=["paper", "printed"])
def test_a_preset_can_be_changed(preset):
    changes = {"threshold": "learned", "scaling": "per_positive", "gamma_max": 3.0}
    assert preset(**changes) == replace(preset(), **changes)


@pytest.mark.parametrize(
    ("goal", "model", "rho", "lr"),
    [
        (FPOR(0.9), "linear", 1.3, 1e-3),
        (FROP(0.9), "mlp", 1.3, 1e-4),
        (OFOS(), "mlp", 1.5, 1e-4),
    ],
)
def test_the_papers_constants_that_depend_on_goal_and_model(goal, model, rho, lr):
    problem = overlapping(goal)
    for preset, limit in ((Lifted.printed, 10.0), (Lifted.paper, math.inf)):
        run = preset(inner_iterations=3).prepare(problem, build(model, 3).double())
        run.start()
        assert (run._rho, run._lr) == (rho, lr)
        for k in (1, 2, 15):
            progress = run.advance(k)
            assert progress.lam == pytest.approx(rho ** (k - 1))
            assert run.penalty.gamma == pytest.approx(min(0.5 * rho ** (k - 1), limit))


def test_lambda_stays_below_its_limit():
    solution = fit(overlapping(OFOS()), Lifted(outer_iterations=8, inner_iterations=1, lam_max=3.0))
    assert solution.history.lam.tolist() == pytest.approx(
        [1, 1, 1.5, 2.25, 3, 3, 3, 3, 3]
    )  # the start, then one per subproblem


def test_patience_ends_a_subproblem():
    problem = overlapping(FPOR(0.7))
    run = Lifted.paper(patience=1, lr=10.0).prepare(problem, build("linear", 3).double())
    run.start()
    steps = []
    project = run.penalty.project_
    run.penalty.project_ = lambda: steps.append(1) or project()
    run.advance(1)
    assert 1 < len(steps) < 1000


def test_s_and_t_stay_in_their_boxes_and_t_is_learned():
    problem = overlapping(FPOR(0.7))
    solver = Lifted.paper(threshold="learned", inner_iterations=30, lr=0.1)
    run = solver.prepare(problem, build("linear", 3).double())
    run.start()
    seen = set()
    for k in range(1, 5):
        run.advance(k)
        assert ((run.penalty.s >= 0) & (run.penalty.s <= 1)).all()
        assert 0 <= run.penalty.t <= 1
        seen.add(float(run.penalty.t.detach()))
        (contender,) = run.models()
        point = contender.point
        assert point.threshold == pytest.approx(float(torch.logit(run.penalty.t.detach())))
    assert len(seen) > 1


def test_a_goal_that_is_not_monotone_takes_the_equality_form():
    goal = Goal.parse("max recall s.t. alarm_rate <= 0.1")
    problem = overlapping(goal)
    run = Lifted().prepare(problem, build("linear", 3).double())
    assert run.penalty.form == "equality"
    solution = fit(problem, Lifted(outer_iterations=10))
    assert solution.operating_point.feasible
    assert solution.operating_point.value("alarm_rate") <= 0.1
    with pytest.raises(GoalError, match="alarm_rate"):
        Lifted(form="inequality").prepare(problem, build("linear", 3).double())


@pytest.mark.parametrize("field", ["s_step", "cosine", "start", "start_s", "threshold"])
def test_unknown_choices_raise(field):
    with pytest.raises(SetpointError, match=f"{field} is one of"):
        Lifted(**{field: "nonsense"})


@pytest.mark.parametrize(
    "field", [{"inner_iterations": 0}, {"lr": 0.0}, {"rho": 0.5}, {"lam0": -1.0}, {"gamma0": -1.0}]
)
def test_numbers_must_make_sense(field):
    with pytest.raises(SetpointError, match=next(iter(field))):
        Lifted(**field)


def test_given_weights_are_the_start():
    problem = overlapping(OFOS())
    module = build("linear", 3).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0.3, 0.3]]))
    expected = problem.operating_point(module).f1
    solution = solve(problem, module, Lifted(start="given", outer_iterations=1))
    assert solution.history.objective[0] == expected


def test_the_recorded_loss_is_that_of_the_iterate():
    problem = overlapping(FPOR(0.7))
    run = Lifted(outer_iterations=3, inner_iterations=5).prepare(
        problem, build("linear", 3).double()
    )
    run.start()
    run.models()
    progress = run.advance(1)
    with torch.no_grad():
        logits = run.module(problem.X).reshape(-1) - run._origin
        assert progress.loss == float(run.penalty(logits))


def test_scaling_serves_small_and_large_data_alike():
    """Every row repeated 50 times is the same problem: F and the iterates agree.

    From a common start, for the ridge of the warm start is not scaled.
    """
    small = overlapping(FPOR(0.7), n=120)
    large = make_problem(small.X.repeat(50, 1), small.positive.repeat(50), small.goal)
    solver = Lifted(outer_iterations=6, inner_iterations=10, start="random")
    one, many = fit(small, solver), fit(large, solver)
    assert one.operating_point.recall == many.operating_point.recall
    np.testing.assert_allclose(one.history.column("loss"), many.history.column("loss"), rtol=1e-6)


@pytest.mark.usefixtures("without_cost_path")
def test_weights_are_repetitions():
    weighted = overlapping(FPOR(0.7), n=120, weights=True)
    times = weighted.sample_weight.long()
    repeated = make_problem(
        weighted.X.repeat_interleave(times, 0),
        weighted.positive.repeat_interleave(times),
        weighted.goal,
    )
    solver = Lifted(outer_iterations=6, inner_iterations=10)
    one, many = fit(weighted, solver), fit(repeated, solver)
    assert one.operating_point.tp == many.operating_point.tp
    np.testing.assert_allclose(one.history.column("loss"), many.history.column("loss"), rtol=1e-6)


def test_objective_scale_makes_the_more_valuable_count_worth_one_sample():
    point = overlapping("max precision s.t. recall >= 0.9").operating_point(
        build("linear", 3).double(), threshold=-1.0
    )
    objective = point.goal.objective
    P, N = point.tp + point.fn, point.fp + point.tn
    at = (point.tp, point.fp, P, N)
    worth = max(abs(objective.d_tp(*at)), abs(objective.d_fp(*at))) * P
    assert objective_scale(point) * worth == pytest.approx(1.0)


def test_objective_scale_of_money_is_that_of_a_typical_row_in_any_currency():
    goal = "min cost(fp=5, fn=amount)"
    problem = tallied(goal)
    point = problem.operating_point(build("linear", 3).double(), threshold=-1.0)
    (P, amount), n = problem.totals[0], len(problem.X)
    assert objective_scale(point) == pytest.approx(1 / (P * max(5, amount / P) / n))
    cents = replace(point, goal=Goal.parse("min cost(fp=500, fn=100*amount)"))
    assert objective_scale(cents) == pytest.approx(objective_scale(point) / 100)


def test_an_mlp_is_trained_too(short_ordinary):
    problem = misled(OFOS(), n=200)
    solution = fit(problem, Lifted(outer_iterations=5, inner_iterations=10), model="mlp")
    assert solution.operating_point.f1 > 0.85  # a linear model reaches 0.76


# --- steps in closed form come to where autograd's steps come to ----------------------------------


def advanced(solver, goal, kind="linear"):
    """Return a run after three subproblems."""
    torch.manual_seed(0)
    make = tallied if isinstance(goal, str) and goal in TALLIED else overlapping
    problem = make(goal, weights=True)
    run = solver.prepare(problem, build(kind, 3).double())
    run.start()
    for iteration in (1, 2, 3):
        run.advance(iteration)
        run.models()
    return run


@pytest.mark.parametrize(
    ("goal", "kind", "scaling", "cosine"),
    [
        (FPOR(0.7), "linear", "per_positive", "run"),
        (FPOR(0.7), "linear", "paper", "subproblem"),
        (FPOR(0.7), "linear", "mean", "subproblem"),
        (FROP(0.8), "mlp", "per_positive", "subproblem"),
        (FROP(0.8), "mlp", "paper", "run"),
        (OFOS(), "linear", "per_positive", "subproblem"),
        (OFOS(), "linear", "paper", "run"),
        ("max mcc s.t. recall >= 0.6", "linear", "per_positive", "run"),
        ("max mcc s.t. recall >= 0.6", "linear", "paper", "subproblem"),
        *((goal, "linear", "per_positive", "run") for goal in TALLIED),
        (TALLIED[0], "linear", "paper", "subproblem"),
    ],
    ids=str,
)
def test_the_same_steps(goal, kind, scaling, cosine, monkeypatch, short_ordinary):
    solver = Lifted(outer_iterations=5, inner_iterations=20, scaling=scaling, cosine=cosine)
    closed = advanced(solver, goal, kind)
    assert isinstance(closed._steps, ClosedSteps)
    monkeypatch.setattr(lifted, "steps_for", AutogradSteps)
    by_autograd = advanced(solver, goal, kind)
    assert isinstance(by_autograd._steps, AutogradSteps)
    torch.testing.assert_close(closed.penalty.s, by_autograd.penalty.s, rtol=1e-6, atol=1e-8)
    for a, b in zip(closed.module.parameters(), by_autograd.module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "solver",
    [
        Lifted(s_step="adam"),
        Lifted(patience=10),
        Lifted(threshold="learned"),
        Lifted(form="smooth"),
        Augmented(),
    ],
)
def test_solvers_that_need_autograd(solver):
    run = solver.prepare(overlapping(OFOS()), build("linear", 3).double())
    assert isinstance(run._steps, AutogradSteps)
