import numpy as np
import pytest
import torch
from problems import misled, overlapping

from setpoint import FPOR, FROP, OFOS, GoalError
from setpoint.paper.competitors import Augmented
from setpoint.paper.competitors.augmented import AugmentedLagrangian
from setpoint.training import Lifted, make_problem, solve
from setpoint.training.models import build, scores_of

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


@pytest.mark.parametrize("lam", [0.5, 20.0])
@pytest.mark.parametrize("form", ["inequality", "equality"])
@pytest.mark.parametrize("scaling", ["paper", "per_positive"])
@pytest.mark.parametrize(("goal", "objective", "constraints"), GOALS, ids=lambda v: str(v)[:30])
def test_without_multipliers_it_is_the_quadratic_penalty(
    goal, objective, constraints, scaling, form, lam
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
def test_multipliers_follow_what_is_missed(form):
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


def test_s_goes_on_from_subproblem_to_subproblem():
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


def test_it_goes_further_than_its_start_where_cross_entropy_is_misled():
    problem = misled(FPOR(0.9))
    solution = solve(problem, build("linear", 2).double(), Augmented(outer_iterations=15))
    assert solution.operating_point.feasible
    assert solution.operating_point.objective > solution.history[0].objective + 0.02


def test_the_papers_constants_can_be_had():
    paper = Augmented.paper(inner_iterations=7)
    assert type(paper) is Augmented
    assert (paper.s_step, paper.start_s, paper.scaling) == ("adam", "random", "paper")
    assert paper.inner_iterations == 7
    assert Augmented().start_s == "random"
    assert Lifted().start_s == "labels"


def test_a_goal_that_is_not_monotone_takes_the_equality_form():
    problem = overlapping("max recall s.t. alarm_rate <= 0.1")
    run = Augmented().prepare(problem, build("linear", 3).double())
    assert run.penalty.form == "equality"
    with pytest.raises(GoalError, match="alarm_rate"):
        Augmented(form="inequality").prepare(problem, build("linear", 3).double())


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"start_s": "zeros"}, "start_s is one of"),
        ({"lam0": 0.0}, "lam0 must be positive"),
        ({"rho": 0.9}, "rho must be None or >= 1"),
        ({"inner_iterations": 0}, "inner_iterations must be >= 1"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters, expected):
    with pytest.raises(ValueError, match=expected):
        Augmented(**parameters)


def test_bad_data_are_refused_as_by_the_exact_penalty():
    with pytest.raises(ValueError, match="both classes"):
        AugmentedLagrangian(FPOR(0.9), torch.ones(3))
    with pytest.raises(ValueError, match="form 'both' is not"):
        AugmentedLagrangian(FPOR(0.9), POSITIVE, form="both")
