"""The Lagrangian game (TFCO) and the augmented Lagrangian."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import misled, overlapping

from setpoint import FPOR, FROP, OFOS, GoalError
from setpoint.paper.competitors import Augmented, Lagrangian, SigmoidF1
from setpoint.paper.competitors.lagrangian import Ascent, AugmentedLagrangian, SwapRegret
from setpoint.training import LabelledRows, Lifted, make_problem, solve
from setpoint.training.models import build, scores_of

# --- lagrangian -----------------------------------------------------------------------------------


FORMULATIONS = ["lagrangian", "proxy_lagrangian"]


class Shift(torch.nn.Module):
    """The first feature plus a bias, which is all there is to learn."""

    def __init__(self, bias=0.0):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor(bias, dtype=torch.float64))

    def forward(self, X):
        return X[:, 0] + self.bias


def two_heaps(goal, P=3, N=12, of_positives=1.5, of_negatives=-1.0, **kwargs):
    """All positives at one logit, all negatives at another."""
    X = torch.tensor([[of_positives]] * P + [[of_negatives]] * N, dtype=torch.float64)
    return make_problem(X, torch.arange(P + N) < P, goal, **kwargs)


def separable(goal, n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    X = rng.normal(size=(n, 2)) * 0.3 + np.where(y, 1.5, -1.5)[:, None]
    return make_problem(torch.tensor(X), torch.tensor(y), goal)


def weights_of(dual):
    """The objective's weight, then the constraints'."""
    worth, prices = dual.weights
    return [float(worth), *prices.tolist()]


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def slope(z):
    return sigmoid(z) * (1 - sigmoid(z))


# --- the plain Lagrangian -------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.1, 0.2, 0.3])
def test_it_converges_to_the_known_multiplier_of_a_false_positive_rate(level):
    """Maximise sigmoid(b + 1.5) subject to (N/P) (sigmoid(b - 1) - level) <= 0.

    The constraint binds, sigmoid(b* - 1) = level, and the slopes of both agree:
    sigmoid'(b* + 1.5) = mu* (N/P) sigmoid'(b* - 1).
    """
    best = math.log(level / (1 - level)) + 1.0
    multiplier = 3 / 12 * slope(best + 1.5) / slope(best - 1.0)
    module = Shift()
    solver = Lagrangian("lagrangian", lr=1.0, dual_scale=0.2, inner_iterations=300)
    run = solver.prepare(two_heaps(f"max recall s.t. fpr <= {level}"), module)
    run.start()
    progress = run.advance(1)
    assert module.bias.item() == pytest.approx(best, abs=1e-6)
    assert progress.lam == pytest.approx(multiplier, abs=1e-6)
    assert sigmoid(module.bias.item() - 1.0) == pytest.approx(level, abs=1e-6)
    assert progress.loss == pytest.approx(-sigmoid(best + 1.5), abs=1e-6)  # the gap is closed


def test_it_converges_to_the_known_multiplier_of_an_alarm_rate():
    """Alarms are P sigmoid(b + 1.5) + N sigmoid(b - 1) = 0.2 (P + N); solved by bisection."""
    low, high = -20.0, 20.0
    for _ in range(100):
        b = (low + high) / 2
        if 3 * sigmoid(b + 1.5) + 12 * sigmoid(b - 1) < 0.2 * 15:
            low = b
        else:
            high = b
    # cleared of its denominator and divided by P, as the Lagrangian has it
    multiplier = slope(b + 1.5) / ((3 * slope(b + 1.5) + 12 * slope(b - 1)) / 3)
    module = Shift()
    run = Lagrangian("lagrangian", lr=1.0, dual_scale=0.2, inner_iterations=300).prepare(
        two_heaps("max recall s.t. alarm_rate <= 0.2"), module
    )
    run.start()
    progress = run.advance(1)
    assert module.bias.item() == pytest.approx(b, abs=1e-6)
    assert progress.lam == pytest.approx(multiplier, abs=1e-6)


def test_a_constraint_that_does_not_bind_has_no_multiplier():
    """precision >= 0.1 holds whatever the bias: 3 of 15 rows are positive."""
    run = Lagrangian("lagrangian", lr=0.5, inner_iterations=100).prepare(
        two_heaps("max recall s.t. precision >= 0.1, fpr <= 0.1"), Shift()
    )
    run.start()
    run.advance(1)
    of_precision, of_fpr = weights_of(run.dual)[1:]
    assert of_precision == 0.0
    assert of_fpr > 0.1


def test_weights_are_repetitions():
    weighted = overlapping("max recall s.t. precision >= 0.7", n=60, weights=True)
    times = weighted.sample_weight.long()
    repeated = make_problem(
        weighted.X.repeat_interleave(times, 0),
        weighted.positive.repeat_interleave(times),
        weighted.goal,
    )
    for formulation in FORMULATIONS:
        solver = Lagrangian(formulation, outer_iterations=3, inner_iterations=10)
        one, many = (
            solve(p, build("linear", 3).double(), solver).history for p in (weighted, repeated)
        )
        np.testing.assert_allclose(one.column("loss"), many.column("loss"), rtol=1e-9)
        np.testing.assert_allclose(one.lam, many.lam, rtol=1e-9)


def test_the_multipliers_climb_by_adagrad():
    """Against torch's, with its values put back to 0 where they fall below."""
    rng = np.random.default_rng(0)
    dual = Ascent(3, 0.2)
    mu = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    adagrad = torch.optim.Adagrad([mu], lr=0.2, maximize=True)
    for _ in range(50):
        constraints = rng.normal(loc=[0.5, 0.0, -0.5])
        dual.follow(torch.tensor(constraints))
        mu.grad = torch.tensor(constraints)
        adagrad.step()
        with torch.no_grad():
            mu.clamp_(min=0.0)
        worth, prices = dual.weights
        assert worth == 1.0
        assert prices.tolist() == pytest.approx(mu.tolist(), rel=1e-7)
    assert min(prices) >= 0
    before = prices.tolist()
    dual.follow(torch.zeros(3, dtype=torch.float64))
    assert dual.weights[1].tolist() == before


def test_a_constraint_that_is_exactly_met_from_the_start_is_no_division_by_zero():
    dual = Ascent(2, 0.1)
    dual.follow(torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert weights_of(dual) == [1.0, 0.0, pytest.approx(0.1)]


# --- the proxy-Lagrangian's multipliers -----------------------------------------------------------


@given(m=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_the_weights_are_the_stationary_distribution(m, seed):
    M = np.random.default_rng(seed).random((m + 1, m + 1)) ** 3 + 1e-3
    dual = SwapRegret(m, 0.1)
    dual.state = {"M": torch.tensor(M / M.sum(axis=0))}
    values, vectors = np.linalg.eig(dual.state["M"].numpy())
    expected = np.real(vectors[:, np.argmax(np.real(values))])
    assert weights_of(dual) == pytest.approx(expected / expected.sum(), rel=1e-7)


def test_the_weights_of_a_matrix_that_hardly_mixes():
    """Of two states that are left with 1e-9 and 3e-9, the first holds three quarters."""
    dual = SwapRegret(1, 0.1)
    dual.state = {"M": torch.tensor([[1 - 1e-9, 3e-9], [1e-9, 1 - 3e-9]], dtype=torch.float64)}
    assert weights_of(dual) == pytest.approx([0.75, 0.25], rel=1e-7)


def test_the_published_example():
    """TFCO's own test of multiplicative swap-regret updates: a matrix, constraints, two steps."""
    dual = SwapRegret(3, 1.0)
    dual.state = {"M": torch.tensor(np.repeat([[0.4], [0.2], [0.2], [0.2]], 4, axis=1))}
    first = [
        [0.36999014, 0.38528351, 0.38528351, 0.38528351],
        [0.23517483, 0.21720297, 0.21720297, 0.21720297],
        [0.17774131, 0.18882719, 0.18882719, 0.18882719],
        [0.21709373, 0.20868632, 0.20868632, 0.20868632],
    ]
    second = [
        [0.33972109, 0.36811863, 0.37118462, 0.36906575],
        [0.27114826, 0.23738228, 0.23376693, 0.23626491],
        [0.15712313, 0.17641793, 0.17858959, 0.17708679],
        [0.23200752, 0.21808115, 0.21645886, 0.21758255],
    ]
    for expected in (first, second):
        dual.follow(torch.tensor([0.6, -0.1, 0.4], dtype=torch.float64))
        np.testing.assert_allclose(dual.state["M"], expected, atol=1e-6)


@pytest.mark.parametrize(("constraint", "end"), [(0.3, 1.0), (-0.3, 0.0)])
def test_a_constraint_always_missed_gets_all_the_weight_one_always_met_none(constraint, end):
    dual = SwapRegret(1, 1.0)
    path = [weights_of(dual)[1]]
    for _ in range(400):
        dual.follow(torch.tensor([constraint], dtype=torch.float64))
        path.append(weights_of(dual)[1])
    assert path[0] == pytest.approx(0.5)
    assert path[-1] == pytest.approx(end, abs=1e-9)
    assert (np.diff(path) * constraint >= -1e-9).all()


def test_of_two_constraints_the_one_that_is_missed_gets_the_weight():
    dual = SwapRegret(2, 1.0)
    for _ in range(400):
        dual.follow(torch.tensor([-0.2, 0.2], dtype=torch.float64))
    assert weights_of(dual) == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)


def test_extreme_constraints_leave_a_distribution():
    for end in (1e-300, 1e300, -1e300):
        dual = SwapRegret(2, 1.0)
        for constraint in (end, -end, end):
            dual.follow(torch.tensor([constraint, 0.1], dtype=torch.float64))
            weights = weights_of(dual)
            assert sum(weights) == pytest.approx(1.0)
            assert min(weights) > 0
            np.testing.assert_allclose(dual.state["M"].sum(axis=0), 1.0)


def test_the_multipliers_see_decisions_and_theta_sees_sigmoids():
    """All negatives a little above 0: in truth every one is an alarm, to the sigmoid half of one.

    fpr <= 0.7 is then missed by 0.3 in truth and met with 0.2 to spare in the proxies.
    """
    problem = two_heaps("max recall s.t. fpr <= 0.7", of_negatives=1e-3)
    still = {"lr": 1e-9, "dual_scale": 1e9, "inner_iterations": 5}
    plain = Lagrangian("lagrangian", **still).prepare(problem, Shift())
    proxy = Lagrangian("proxy_lagrangian", **still).prepare(problem, Shift())
    for run in (plain, proxy):
        run.start()
        run.advance(1)
    assert weights_of(plain.dual)[1:] == [0.0]
    expected = SwapRegret(1, 1.0)
    for _ in range(5):
        expected.follow(torch.tensor([(12 - 0.7 * 12) / 3], dtype=torch.float64))
    assert weights_of(proxy.dual) == pytest.approx(weights_of(expected), rel=1e-6)
    assert weights_of(proxy.dual)[1] > 0.7


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_game_written_out(formulation):
    """Both players' steps in plain numbers, while the true rate goes over its level and back."""
    module = Shift()
    solver = Lagrangian(formulation, lr=0.5, dual_scale=2.0, inner_iterations=60)
    run = solver.prepare(two_heaps("max recall s.t. fpr <= 0.1"), module)
    run.start()
    run.advance(1)
    b, squares, sides = 0.0, 0.0, set()
    mu, dual_squares, M = 0.0, 0.0, np.full((2, 2), 0.5)
    for _ in range(60):
        worth, price = 1.0, mu
        if formulation == "proxy_lagrangian":  # the stationary distribution of two states
            worth = M[0, 1] / (M[0, 1] + M[1, 0])
            price = 1 - worth
        proxy = 12 / 3 * (sigmoid(b - 1) - 0.1)
        truth = 12 / 3 * ((b - 1 > 0) - 0.1)
        sides.add(truth > 0)
        pull = -worth * slope(b + 1.5) + price * 12 / 3 * slope(b - 1)
        squares += pull**2
        b -= 0.5 * pull / math.sqrt(squares)
        if formulation == "lagrangian":
            dual_squares += proxy**2
            mu = max(mu + 1.0 * proxy / math.sqrt(dual_squares), 0.0)
        else:
            M[1] *= np.exp(1.0 * truth * np.array([worth, price]))
            M /= M.sum(axis=0)
    assert module.bias.item() == pytest.approx(b, rel=1e-6)
    if formulation == "lagrangian":
        assert weights_of(run.dual) == [1.0, pytest.approx(mu, rel=1e-6)]
    else:
        assert sides == {True, False}
        np.testing.assert_allclose(run.dual.state["M"], M, rtol=1e-5)


# --- what theta sees ------------------------------------------------------------------------------


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_lagrangian_written_out(formulation):
    problem = overlapping("max recall s.t. precision >= 0.7, fpr <= 0.1", weights=True)
    module = build("linear", 3).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, -0.5, 2.0]]))
    run = Lagrangian(formulation, inner_iterations=3).prepare(problem, module)
    run.start()
    progress = run.advance(1)
    z = scores_of(module, problem.X).numpy()
    w, y = problem.sample_weight.numpy(), problem.positive.numpy()
    decided = w / (1 + np.exp(-z))
    tp, fp, P, N = decided[y].sum(), decided[~y].sum(), w[y].sum(), w[~y].sum()
    worth, of_precision, of_fpr = weights_of(run.dual)
    value = -worth * tp / P + (of_precision * (0.7 * fp - 0.3 * tp) + of_fpr * (fp - 0.1 * N)) / P
    assert progress.loss == pytest.approx(value, rel=1e-9)
    assert progress.lam == pytest.approx(max(of_precision, of_fpr) / worth)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_without_constraints_it_is_sigmoid_f1(formulation):
    problem = overlapping("max f1")
    module = build("linear", 3).double()
    run = Lagrangian(formulation, outer_iterations=3).prepare(problem, module)
    run.start()
    progress = run.advance(1)
    share = torch.full((300,), 1 / 300, dtype=torch.float64)
    rows = LabelledRows(problem.positive, share, 1.0, 1.0)
    expected = SigmoidF1()(scores_of(module, problem.X), rows)
    assert progress.loss == pytest.approx(float(expected) - 1)
    assert progress.lam == 0.0
    assert run.advance(2).loss < progress.loss


@given(
    st.lists(
        st.tuples(st.floats(-30, 30), st.booleans(), st.floats(0.1, 9)), min_size=1, max_size=20
    )
)
def test_hinges_bound_the_counts(rows):
    """TP from below, FP from above; touching where |z| >= 1 on the right side."""
    logits, positive, weight = (torch.tensor(v) for v in zip(*rows, strict=True))
    logits = torch.cat([logits.double(), torch.tensor([0.0, 0.0])])
    positive = torch.cat([positive, torch.tensor([True, False])])
    weight = torch.cat([weight.double(), torch.ones(2)])
    problem = make_problem(logits[:, None], positive, "max recall s.t. fpr <= 0.1", weight)
    run = Lagrangian(proxy="hinge").prepare(problem, Shift())
    weighted = run._proxies(logits) * weight
    tp, fp = weighted[positive].sum(), weighted[~positive].sum()
    alarm = logits > 0
    assert tp <= weight[alarm & positive].sum() + 1e-9
    assert fp >= weight[alarm & ~positive].sum() - 1e-9
    sure = torch.where(positive, 5.0, -5.0).double()
    assert torch.equal(run._proxies(sure), positive.double())


def test_the_hinge_takes_the_objective_at_the_true_counts():
    """Its value is the true precision; its slope the quotient rule there, times hinge slopes."""
    logits = torch.tensor([2.0, 0.5, -0.5, 0.25, -0.5, -3.0], dtype=torch.float64)
    problem = make_problem(logits[:, None], torch.arange(6) < 3, "max precision s.t. recall >= 0.5")
    run = Lagrangian(proxy="hinge").prepare(problem, Shift())
    run.dual.state = {
        "M": torch.tensor([[0.25, 0.25], [0.75, 0.75]], dtype=torch.float64)
    }  # weights 1/4 and 3/4
    game = run._evaluate(logits, run._proxies(logits))
    # TP = 2 and FP = 1. Recall's constraint sees the hinges: TP~ = 1 + 0.5 - 0.5 of 3.
    assert float(game.value) == pytest.approx(-1 / 4 * 2 / 3 + 3 / 4 * (0.5 * 3 - 1) / 3)
    d_tp, d_fp = 1 / 9, -2 / 9  # FP / (TP + FP)^2 and -TP / (TP + FP)^2
    assert game.slopes.tolist() == pytest.approx([-1 / 4 * d_tp - 3 / 4 / 3, -1 / 4 * d_fp])
    assert game.seen.tolist() == pytest.approx([(0.5 * 3 - 2) / 3])  # the dual player: TP


# --- the whole ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    [
        "max recall s.t. precision >= 0.9",
        "max precision s.t. recall >= 0.9",
        "max recall s.t. fpr <= 0.05, precision >= 0.8",
        "max f1",
    ],
)
def test_an_easy_problem_ends_feasible_in_true_counts(goal):
    for proxy, formulation in product(("sigmoid", "hinge"), FORMULATIONS):
        problem = separable(goal)
        module = build("linear", 2).double()
        solver = Lagrangian(formulation, proxy, threshold="fixed", outer_iterations=5)
        solution = solve(problem, module, solver)
        last = solution.history[-1]
        assert last.feasible
        assert last.objective > 0.95
        point = solution.operating_point
        alarm = scores_of(module, problem.X) > 0
        assert point.threshold == 0.0
        assert point.tp == int((alarm & problem.positive).sum())
        assert point.fp == int((alarm & ~problem.positive).sum())


def test_an_mlp_and_float32_are_trained_too():
    problem = overlapping("max recall s.t. precision >= 0.5", dtype=torch.float32)
    torch.manual_seed(0)
    solution = solve(problem, build("mlp", 3), Lagrangian(lr=0.03, outer_iterations=5))
    assert solution.operating_point.feasible
    assert solution.operating_point.recall > 0.3


def test_bad_parameters_raise():
    for parameters, expected in (
        ({"formulation": "dual"}, "formulation must be one of"),
        ({"proxy": "relu"}, "proxy must be one of"),
        ({"threshold": "learned"}, "threshold must be one of"),
        ({"lr": 0.0}, "lr and dual_scale must be positive"),
        ({"lr": float("nan")}, "lr and dual_scale must be positive"),
        ({"dual_scale": -1.0}, "lr and dual_scale must be positive"),
        ({"outer_iterations": -1}, "outer_iterations must be >= 0"),
        ({"inner_iterations": 0}, "inner_iterations >= 1"),
    ):
        with pytest.raises(ValueError, match=expected):
            Lagrangian(**parameters)


# --- augmented ------------------------------------------------------------------------------------


POSITIVE = torch.tensor([True, True, False, False, False])
WEIGHT = torch.tensor([1.0, 2.0, 1.0, 0.5, 3.0], dtype=torch.float64)
LOGITS = torch.tensor([2.0, -1.0, 0.5, -3.0, 1.0], dtype=torch.float64)
S = torch.tensor([1.0, 0.6, 0.3, 0.0, 0.9], dtype=torch.float64)
P, N = 3.0, 4.5
TP, FP = 1.0 * 1.0 + 2.0 * 0.6, 1.0 * 0.3 + 3.0 * 0.9


def augmented(goal, lam=3.0, gamma=0.5, **kwargs):
    penalty = AugmentedLagrangian(goal, POSITIVE, WEIGHT, lam=lam, gamma=gamma, **kwargs)
    with torch.no_grad():
        penalty.s.copy_(S)
    return penalty


def by_hand(scaling, form="inequality"):
    """Return psi with its weights, the ties and their weights, and the unit, in numpy."""
    z, s, w, y = LOGITS.numpy(), S.numpy(), WEIGHT.numpy(), POSITIVE.numpy()
    a = 1 / (1 + np.exp(-z))
    h = s + np.maximum(s + a - 1.5, 0) - np.maximum(s + a - 0.5, 0)
    ties = np.where(y, h, -h) if form == "inequality" else h
    if scaling == "paper":
        unit, psi_weights = 1.0, w / np.where(y, P, N) / (P + N)
    else:
        unit, psi_weights = 1 / P, w / P
    psi = (psi_weights * (s * np.log(a) + (1 - s) * np.log(1 - a))).sum()
    return psi, ties, unit * w, unit


GOALS = [
    (FPOR(0.9), TP / P, [0.9 * FP - 0.1 * TP]),
    (FROP(0.9), TP / (TP + FP), [0.9 * P - TP]),
    (OFOS(), 2 * TP / (P + TP + FP), []),
    ("max recall s.t. fpr <= 0.99, precision >= 0.9", TP / P,
     [FP - 0.99 * N, 0.9 * FP - 0.1 * TP]),
]  # fmt: skip


def test_without_multipliers_it_is_the_quadratic_penalty():
    for lam, form, scaling, (goal, objective, constraints) in product(
        (0.5, 20.0), ("inequality", "equality"), ("paper", "per_positive"), GOALS
    ):
        psi, ties, weights, unit = by_hand(scaling, form)
        missed = ties if form == "equality" else np.maximum(ties, 0)
        squares = sum(max(unit * c, 0) ** 2 for c in constraints) + (weights * missed**2).sum()
        value = augmented(goal, lam, scaling=scaling, form=form)(LOGITS)
        assert value.item() == pytest.approx(-objective - 0.5 * psi + lam / 2 * squares, rel=1e-9)


@pytest.mark.parametrize("form", ["inequality", "equality"])
def test_with_multipliers_it_is_the_textbooks(form):
    """Of a slack inequality only -mu^2 / (2 lambda) is left (Nocedal and Wright, chapter 17)."""
    penalty = augmented(FPOR(0.9), form=form)
    psi, ties, weights, unit = by_hand("per_positive", form)
    mu = np.array([0.0, 0.5, 2.0, 0.1, 9.0])
    penalty.of_rows.copy_(torch.tensor(mu))
    penalty.of_goal.fill_(0.7)

    def of_inequality(c, m):
        return m * c + 1.5 * c**2 if c >= -m / 3.0 else -(m**2) / 6.0

    con = unit * (0.9 * FP - 0.1 * TP)
    tied = (
        [m * h + 1.5 * h**2 for h, m in zip(ties, mu, strict=True)]
        if form == "equality"
        else [of_inequality(h, m) for h, m in zip(ties, mu, strict=True)]
    )
    expected = -TP / P - 0.5 * psi + of_inequality(con, 0.7) + (weights * tied).sum()
    assert penalty(LOGITS).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("form", ["inequality", "equality"])
def test_multipliers_follow_violations(form):
    penalty = augmented("max recall s.t. fpr <= 0.99, precision >= 0.9", form=form)
    _, ties, _, unit = by_hand("per_positive", form)
    before = np.array([0.0, 0.01, 2.0, 0.1, 9.0])
    penalty.of_rows.copy_(torch.tensor(before))
    penalty.of_goal.copy_(torch.tensor([0.001, 0.5]))
    penalty.raise_multipliers_(LOGITS)
    raised = before + 3.0 * ties
    if form == "inequality":
        raised = np.maximum(raised, 0)
        assert (raised == 0).any()  # one has fallen to 0 and stays there
    np.testing.assert_allclose(penalty.of_rows, raised, rtol=1e-9, atol=1e-15)
    constraints = unit * np.array([FP - 0.99 * N, 0.9 * FP - 0.1 * TP])
    expected = np.maximum([0.001, 0.5] + 3.0 * constraints, 0)
    assert expected[0] == 0 < expected[1]
    np.testing.assert_allclose(penalty.of_goal, expected, rtol=1e-9)


@pytest.mark.parametrize("form", ["inequality", "equality"])
def test_its_slope_is_the_lagrangians_with_the_next_multipliers(form):
    """d A / d c = mu_next: what makes the update right."""
    penalty = augmented(FPOR(0.9), form=form, scaling="paper")
    penalty.of_rows.copy_(torch.tensor([0.0, 0.5, 2.0, 0.1, 9.0]))
    penalty.of_goal.fill_(0.7)
    terms = [term.detach().requires_grad_() for term in penalty.terms(LOGITS)]
    slopes = torch.autograd.grad(penalty.combine(*terms), terms)
    penalty.raise_multipliers_(LOGITS)
    assert slopes[0].item() == -1.0
    assert slopes[1].item() == -0.5
    torch.testing.assert_close(slopes[2], penalty.of_goal)
    torch.testing.assert_close(slopes[3], WEIGHT * penalty.of_rows)


class Quadratic(AugmentedLagrangian):
    """Minimise |x - a|^2 / 2 with linear constraints in place of a classifier's."""

    def pose(self, a, of_goal, of_rows):
        self.a, self.linear, self.rows = a, of_goal, of_rows
        return self

    def terms(self, x):
        (c, d), (B, e) = self.linear, self.rows
        return -(x - self.a).square().sum() / 2, x.new_zeros(()), c @ x - d, B @ x - e


@pytest.mark.parametrize("form", ["inequality", "equality"])
def test_multipliers_converge_to_those_of_a_known_problem(form):
    """A quadratic whose solution and multipliers are chosen first: a = x* + C' mu + B' nu.

    The second constraint of the goal is slack; so, among inequalities, are two of the ties.
    """
    rng = np.random.default_rng(0)
    C, B = torch.tensor(rng.normal(size=(2, 7))), torch.tensor(rng.normal(size=(4, 7)))
    solution = torch.tensor(rng.normal(size=7))
    mu = torch.tensor([0.8, 0.0], dtype=torch.float64)
    nu = torch.tensor([1.5, 0.0, 0.4, 0.0] if form == "inequality" else [1.5, -2.0, 0.4, -0.1])
    slack = torch.tensor([0.0, 1.0, 0.0, 0.3]) if form == "inequality" else torch.zeros(4)
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0], dtype=torch.float64)
    a = solution + C.T @ mu + B.T @ (weight * nu)
    penalty = Quadratic(
        "max recall s.t. precision >= 0.9, fpr <= 0.1",
        torch.tensor([True, False, True, False]), weight,
        form=form, scaling="paper", lam=20.0, gamma=0.0,
    ).pose(a, (C, C @ solution + torch.tensor([0.0, 0.5])), (B, B @ solution + slack))  # fmt: skip
    x = torch.zeros(7, dtype=torch.float64, requires_grad=True)
    lbfgs = torch.optim.LBFGS(
        [x], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure():
        lbfgs.zero_grad()
        value = penalty.combine(*penalty.terms(x))
        value.backward()
        return value

    errors = []
    for _ in range(40):
        lbfgs.step(closure)
        penalty.raise_multipliers_(x)
        errors.append(float((penalty.of_rows - nu).abs().max()))
    torch.testing.assert_close(x.detach(), solution, rtol=0, atol=1e-6)
    torch.testing.assert_close(penalty.of_goal, mu, rtol=0, atol=1e-5)
    assert errors[0] > 0.01  # after one round it is a penalty method still
    assert errors[-1] < 1e-5


def test_the_run_raises_multipliers_after_each_subproblem():
    problem = overlapping("max recall s.t. precision >= 0.9")
    module = build("linear", 3).double()
    run = Augmented(inner_iterations=5).prepare(problem, module)
    run.start()
    assert not run.penalty.of_rows.any()
    for k in (1, 2):
        before = run.penalty.of_rows.clone(), run.penalty.of_goal.clone()
        progress = run.advance(k)
        logits = scores_of(module, problem.X) - run._origin
        with torch.no_grad():
            _, _, con, ties = run.penalty.terms(logits)
        torch.testing.assert_close(run.penalty.of_rows, (before[0] + progress.lam * ties).relu())
        torch.testing.assert_close(run.penalty.of_goal, (before[1] + progress.lam * con).relu())
    assert run.penalty.of_rows.any()


def test_s_continues_from_subproblem_to_subproblem():
    run = Augmented(inner_iterations=1).prepare(overlapping(OFOS()), build("linear", 3).double())
    run.start()
    run.advance(1)
    before = run.penalty.s.detach().clone()
    run.advance(2)
    assert 0 < (run.penalty.s.detach() - before).abs().max() <= 0.6
    assert not torch.equal(run.penalty.s.detach(), run.penalty.positive.double())


def test_multipliers_are_part_of_the_state():
    penalty = augmented(FPOR(0.9))
    penalty.raise_multipliers_(LOGITS)
    other = AugmentedLagrangian(FPOR(0.9), POSITIVE, WEIGHT)
    other.load_state_dict(penalty.state_dict())
    assert torch.equal(other.of_rows, penalty.of_rows)
    assert torch.equal(other.of_goal, penalty.of_goal)
    assert {name for name, _ in penalty.named_parameters()} == {"s", "t"}


def test_the_oldest_torch_has_no_class_for_buffers(monkeypatch):
    """nn.Buffer came with 2.5; the package promises 2.4."""
    monkeypatch.delattr(torch.nn, "Buffer", raising=False)
    assert augmented(FPOR(0.9)).of_goal.tolist() == [0.0]


@pytest.mark.parametrize("goal", [FPOR(0.9), FROP(0.9), OFOS()], ids=str)
def test_a_separable_problem_is_solved(goal):
    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.3
    X = rng.normal(size=(200, 2)) * 0.3 + np.where(y, 1.5, -1.5)[:, None]
    problem = make_problem(torch.tensor(X), torch.tensor(y), goal)
    solver = Augmented(start="random", outer_iterations=8, inner_iterations=30)
    torch.manual_seed(0)
    solution = solve(problem, build("linear", 2).double(), solver)
    assert solution.operating_point.objective == 1.0
    assert solution.history[-1].feasible


@pytest.mark.usefixtures("without_cost_path")
def test_it_goes_further_than_its_start_where_cross_entropy_is_misled():
    problem = misled(FPOR(0.9))
    solution = solve(problem, build("linear", 2).double(), Augmented(outer_iterations=15))
    assert solution.operating_point.feasible
    assert solution.operating_point.objective > solution.history[0].objective + 0.02


def test_the_papers_constants_can_be_had():
    for preset, scaling in ((Augmented.printed, "paper"), (Augmented.paper, "mean")):
        solver = preset(inner_iterations=7)
        assert type(solver) is Augmented
        assert (solver.s_step, solver.start_s, solver.scaling) == ("adam", "random", scaling)
        assert solver.inner_iterations == 7
    assert Augmented().start_s == "random"
    assert Lifted().start_s == "labels"


def test_a_goal_that_is_not_monotone_takes_the_equality_form():
    problem = overlapping("max recall s.t. alarm_rate <= 0.1")
    run = Augmented().prepare(problem, build("linear", 3).double())
    assert run.penalty.form == "equality"
    with pytest.raises(GoalError, match="alarm_rate"):
        Augmented(form="inequality").prepare(problem, build("linear", 3).double())


def test_augmented_rejects_bad_parameters():
    for parameters, expected in (
        ({"start_s": "zeros"}, "start_s (is|must be) one of"),
        ({"lam0": 0.0}, "lam0 must be positive"),
        ({"rho": 0.9}, "rho must be None or >= 1"),
        ({"inner_iterations": 0}, "inner_iterations must be >= 1"),
    ):
        with pytest.raises(ValueError, match=expected):
            Augmented(**parameters)


def test_bad_data_raise_as_in_the_exact_penalty():
    with pytest.raises(ValueError, match="both classes"):
        AugmentedLagrangian(FPOR(0.9), torch.ones(3))
    with pytest.raises(ValueError, match="form 'both' is not"):
        AugmentedLagrangian(FPOR(0.9), POSITIVE, form="both")
