import math
from itertools import product

import numpy as np
import pytest
import torch
from problems import TALLIED, overlapping, tallied

from setpoint import FPOR, FROP, OFOS, ExactPenalty, Goal, GoalError, SetpointError
from setpoint.method.reformulation import H, psi, psi_weights
from setpoint.training import Lifted
from setpoint.training.models import build

POSITIVE = torch.tensor([True, True, False, False, False])
LOGITS = torch.tensor([2.0, -1.0, 0.5, -3.0, 1.0], dtype=torch.float64)
S = torch.tensor([1.0, 0.6, 0.3, 0.0, 0.9], dtype=torch.float64)


def penalty(goal, **kwargs):
    p = ExactPenalty(goal, POSITIVE, dtype=torch.float64, lam=3.0, gamma=0.5, **kwargs)
    with torch.no_grad():
        p.s.copy_(S)
    return p


def by_hand(obj, con, unit, psi_w, ties, tie=None):
    reg = psi(LOGITS, S, psi_w)
    return -obj - 0.5 * reg + 3.0 * (unit * max(con, 0.0) + (unit if tie is None else tie) * ties)


@pytest.mark.parametrize("scaling", ["paper", "per_positive", "mean"])
@pytest.mark.parametrize(
    ("goal", "objective", "constraint"),
    [
        (FPOR(0.9), 1.6 / 2, 0.9 * 1.2 - 0.1 * 1.6),
        (FROP(0.9), 1.6 / 2.8, 0.9 * 2 - 1.6),
        (OFOS(), 2 * 1.6 / (2 + 2.8), 0.0),
    ],
)
def test_the_three_problems_by_hand(scaling, goal, objective, constraint):
    h = H(torch.sigmoid(LOGITS), S, 0.5)
    ties = float(torch.where(POSITIVE, h, -h).relu().sum())
    if scaling == "paper":
        expected = by_hand(objective, constraint, 1.0, psi_weights(POSITIVE, torch.ones(5)), ties)
    elif scaling == "mean":
        expected = by_hand(objective, constraint, 1.0, torch.full((5,), 1 / 5), ties, 1 / 5)
    else:
        expected = by_hand(objective, constraint, 1 / 2, torch.full((5,), 1 / 2), ties)
    value = penalty(goal, scaling=scaling)(LOGITS)
    assert float(value.detach()) == pytest.approx(float(expected), rel=1e-6)


def test_the_equality_form_penalises_both_signs():
    h = H(torch.sigmoid(LOGITS), S, 0.5)
    expected = by_hand(1.6 / 2, 0.92, 1 / 2, torch.full((5,), 1 / 2), float(h.abs().sum()))
    value = penalty(FPOR(0.9), form="equality")(LOGITS)
    assert float(value.detach()) == pytest.approx(float(expected), rel=1e-6)


def test_at_the_decisions_only_objective_and_constraint_remain():
    """s = 1{f > t} satisfies all ties, so F without psi is -objective + lambda * violation."""
    p = ExactPenalty(FPOR(0.9), POSITIVE, dtype=torch.float64, lam=3.0, gamma=0.0)
    with torch.no_grad():
        p.s.copy_(LOGITS > 0)
    tp, fp = 1.0, 2.0
    assert float(p(LOGITS).detach()) == pytest.approx(-tp / 2 + 3 * (0.9 * fp - 0.1 * tp) / 2)


def test_weights_are_repetitions():
    times = torch.tensor([2, 1, 3, 1, 2])
    weighted = ExactPenalty(FPOR(0.9), POSITIVE, times, dtype=torch.float64)
    repeated = ExactPenalty(FPOR(0.9), POSITIVE.repeat_interleave(times), dtype=torch.float64)
    with torch.no_grad():
        weighted.s.copy_(S)
        repeated.s.copy_(S.repeat_interleave(times))
    assert torch.allclose(weighted(LOGITS), repeated(LOGITS.repeat_interleave(times)))


def test_projection():
    p = penalty(OFOS(), learn_t=True)
    with torch.no_grad():
        p.s.add_(torch.tensor([5.0, -5.0, 0.0, 0.0, 0.0]))
        p.t.fill_(-3.0)
    p.project_()
    assert p.s.tolist() == [1.0, 0.0, 0.3, 0.0, 0.9]
    assert p.t.item() == 0.0


def test_t_is_a_parameter_only_where_learned():
    assert not penalty(OFOS()).t.requires_grad
    p = penalty(OFOS(), learn_t=True)
    p(LOGITS).backward()
    assert p.t.grad is not None


def test_state_dict_holds_s():
    p, q = penalty(OFOS()), ExactPenalty(OFOS(), POSITIVE, dtype=torch.float64)
    q.load_state_dict(p.state_dict())
    assert torch.equal(q.s, p.s)


def test_logits_may_be_a_column():
    p = penalty(OFOS())
    assert torch.equal(p(LOGITS[:, None]), p(LOGITS))
    with pytest.raises(SetpointError, match=r"one per sample, shape \(5,\).*shape \(5, 2\)"):
        p(LOGITS[:, None].repeat(1, 2))


@pytest.mark.parametrize(
    ("arguments", "options", "expected"),
    [
        ((torch.ones(3),), {}, "both classes"),
        ((torch.tensor([float("nan"), 0.0, 1.0]),), {}, "of booleans, or of 0 and 1"),
        ((torch.tensor([-1, 1]),), {}, "of booleans, or of 0 and 1"),
        ((POSITIVE, torch.ones(3)), {}, "one per sample"),
        ((POSITIVE, torch.full((5,), torch.inf)), {}, "finite"),
        ((POSITIVE, -torch.ones(5)), {}, "must be positive"),
        ((POSITIVE,), {"scaling": "big"}, "'big' is not"),
    ],
)
def test_invalid_input_raises(arguments, options, expected):
    with pytest.raises(SetpointError, match=expected):
        ExactPenalty(OFOS(), *arguments, **options)


def test_a_form_that_is_not_exact_raises():
    with pytest.raises(GoalError, match="inequality form"):
        ExactPenalty("max recall s.t. alarm_rate <= 0.1", POSITIVE, form="inequality")


# --- the smooth form ------------------------------------------------------------------------------


def smooth_by_hand(t, scaling, weight, lam=3.0, gamma=0.5):
    """Return F of 'max recall s.t. precision >= 0.9, fpr <= 0.2' with sigmoids for decisions."""
    z, y, w = LOGITS.numpy(), POSITIVE.numpy(), np.asarray(weight, dtype=float)
    s = 1 / (1 + np.exp(-(z - math.log(t / (1 - t)))))
    P, N = w[y].sum(), w[~y].sum()
    tp, fp = (w * s)[y].sum(), (w * s)[~y].sum()
    missed = max(0.9 * fp - 0.1 * tp, 0.0) + max(fp - 0.2 * N, 0.0)
    a = 1 / (1 + np.exp(-z))
    if scaling == "paper":
        unit, psi_w = 1.0, w / np.where(y, P, N) / (P + N)
    else:
        unit, psi_w = 1 / P, w / P
    reg = (psi_w * (s * np.log(a) + (1 - s) * np.log(1 - a))).sum()
    return -tp / P + lam * unit * missed - gamma * reg


SMOOTH = {"goal": "max recall s.t. precision >= 0.9, fpr <= 0.2", "form": "smooth"}


@pytest.mark.parametrize("scaling", ["paper", "per_positive"])
def test_the_smooth_form_by_hand(scaling):
    for weight, t in product(([1.0] * 5, [1.0, 2.0, 0.5, 3.0, 0.1]), (0.5, 0.3, 0.999)):
        p = ExactPenalty(
            **SMOOTH, positive=POSITIVE, sample_weight=torch.tensor(weight, dtype=torch.float64),
            scaling=scaling, t=t, lam=3.0, gamma=0.5,
        )  # fmt: skip
        assert p(LOGITS).item() == pytest.approx(smooth_by_hand(t, scaling, weight), rel=1e-9)


def test_the_smooth_form_has_neither_ties_nor_s():
    p = penalty(**SMOOTH)
    with torch.no_grad():
        p.s.fill_(float("nan"))
    z = LOGITS.clone().requires_grad_()
    value = p(z)
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()
    assert p.s.grad is None
    assert not p.s.requires_grad
    assert not p.terms(LOGITS)[3].any()


def test_slopes_of_the_smooth_form_in_logits_and_threshold():
    p = penalty(**SMOOTH, learn_t=True, t=0.3)

    def value(z, t):
        return torch.func.functional_call(p, {"t": t}, (z,))

    t = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(value, (LOGITS.clone().requires_grad_(), t))


def test_the_smooth_form_supports_every_goal():
    p = ExactPenalty("max recall s.t. alarm_rate <= 0.1", POSITIVE, form="smooth")
    assert p(LOGITS.float()).isfinite()
    with pytest.raises(GoalError, match="'auto', 'inequality', 'equality' or 'smooth'"):
        ExactPenalty("max f1", POSITIVE, form="rough")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beyond", [-3.0, 7.0])
def test_a_learned_threshold_of_the_smooth_form_stays_where_its_slope_is_finite(beyond, dtype):
    """logit(t) is infinite at the ends of [0, 1], and its slope times 0 is NaN."""
    p = ExactPenalty("max f1", POSITIVE, form="smooth", learn_t=True, dtype=dtype)
    with torch.no_grad():
        p.t.fill_(beyond)
    p.project_()
    assert 0 <= p.t <= 1
    p(LOGITS.to(dtype)).backward()
    assert p.t.grad.isfinite()
    assert p.t.grad != 0  # nor is it stuck there


def smooth_run(**changes):
    problem = overlapping("max recall s.t. precision >= 0.6", n=120)
    solver = Lifted(form="smooth", inner_iterations=20, outer_iterations=5, **changes)
    return problem, solver.prepare(problem, build("linear", 3).double())


@pytest.mark.parametrize(("s_step", "start_s"), [("gradient", "labels"), ("adam", "random")])
def test_lifted_trains_the_smooth_form_without_changing_s(s_step, start_s):
    problem, run = smooth_run(start="given", gamma0=0.0, s_step=s_step, start_s=start_s)
    losses = [run.start().loss]
    s = run.penalty.s.detach().clone()
    for k in range(1, 6):
        with torch.no_grad():
            start = float(run.penalty(run.module(problem.X)[:, 0] - run._origin))
        losses.append(run.advance(k).loss)
        assert torch.equal(run.penalty.s.detach(), s)
        if k == 1:
            assert losses[-1] < start
    (candidate,) = run.models()
    assert candidate.point.feasible
    assert candidate.point.recall > 0.2


@pytest.mark.parametrize(("lr", "places"), [(0.005, 5), (0.5, 1)])
def test_lifted_learns_the_threshold_of_the_smooth_form(lr, places):
    """Also where the steps are so large that t reaches an end of its interval."""
    _, run = smooth_run(start="given", threshold="learned", lr=lr)
    run.start()
    seen = set()
    for k in range(1, 6):
        run.advance(k)
        t = float(run.penalty.t.detach())
        seen.add(t)
        assert 0 < t < 1
        (candidate,) = run.models()
        assert candidate.point.threshold == pytest.approx(math.log(t / (1 - t)))
    assert len(seen) >= places
    assert 0.5 not in seen


@pytest.mark.parametrize("scaling", ["paper", "per_positive", "mean"])
@pytest.mark.parametrize("form", ["inequality", "equality"])
def test_slopes_are_those_of_autograd(form, scaling):
    several = Goal.parse("max recall s.t. mcc >= 0.9, fpr <= 0.01")
    for goal in (FPOR(0.9), FROP(0.9), OFOS(), Goal.parse("max gmean"), several):
        check_slopes(goal, form, scaling)


@pytest.mark.parametrize("scaling", ["paper", "per_positive", "mean"])
@pytest.mark.parametrize(
    "text",
    [
        *TALLIED,
        "max gmean[amount] s.t. mcc[region=north] >= 0.6, recall >= 0.9 for each region",
        "max profit(tp=amount, fp=-7) s.t. precision[amount] >= 0.9, fpr <= 0.3",
    ],
)
def test_slopes_are_those_of_autograd_in_several_tallies(text, scaling):
    problem = tallied(text, weights=True)
    for form in ("equality", "inequality") if problem.goal.is_monotone else ("equality",):
        check_slopes(problem.goal, form, scaling, problem)


def check_slopes(goal, form, scaling, problem=None):
    rng = torch.Generator().manual_seed(0)
    n = 400
    positive = torch.rand(n, generator=rng) < 0.3
    weight = torch.rand(n, generator=rng, dtype=torch.float64) + 0.5
    factors = None
    if problem is not None:
        positive, weight, factors = problem.positive, problem.sample_weight, problem.factors
    p = ExactPenalty(
        goal, positive, weight, factors=factors, form=form, scaling=scaling, lam=3.0, gamma=0.5
    )
    p.objective_scale = 1.7
    logits = (3 * torch.randn(n, generator=rng, dtype=torch.float64)).requires_grad_()
    for low, high in ((0.0, 1.0), (-0.5, 1.5), (0.0, 0.05)):  # the last meets the constraint on fpr
        with torch.no_grad():
            p.s.copy_(torch.rand(n, generator=rng, dtype=torch.float64) * (high - low) + low)
            p.s.clamp_(0.0, 1.0)
        logits.grad = p.s.grad = None
        p(logits).backward()
        in_z, in_s = p.slopes(logits.detach())
        torch.testing.assert_close(in_z, logits.grad, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(in_s, p.s.grad, rtol=1e-9, atol=1e-12)


def test_slopes_need_a_fixed_threshold_and_s():
    for kwargs in ({"learn_t": True}, {"form": "smooth"}):
        with pytest.raises(SetpointError, match="slopes needs the inequality or equality form"):
            penalty(OFOS(), **kwargs).slopes(LOGITS)


# --- several tallies ------------------------------------------------------------------------------

AMOUNTS = torch.tensor([30.0, 4.0, 100.0, 1.0, 0.0], dtype=torch.float64)
FACTORS = torch.stack([torch.ones_like(AMOUNTS), AMOUNTS], dim=1)


def test_a_cost_by_hand():
    """With s as decisions: 10 for each false alarm, and the amount of each miss, per row."""
    p = penalty("min cost(fp=10, fn=amount) s.t. recall[amount] >= 0.95", factors=FACTORS)
    assert p.form == "inequality"
    objective = -(10 * 1.2 + 34 - (30 + 0.6 * 4)) / 5
    missed = 0.95 * 34 - (30 + 0.6 * 4)  # < 0: it is met
    h = H(torch.sigmoid(LOGITS), S, 0.5)
    ties = float(torch.where(POSITIVE, h, -h).relu().sum())
    expected = by_hand(objective, missed, 1 / 2, torch.full((5,), 1 / 2), ties)
    assert float(p(LOGITS).detach()) == pytest.approx(float(expected), rel=1e-9)


def terms(*args, **kwargs):
    return [term.detach() for term in penalty(*args, **kwargs).terms(LOGITS)]


def test_a_constraint_on_money_is_in_units_of_a_typical_row():
    """A miss costs 17 on average, a false alarm 10. In cents the terms are the same."""
    euros = terms("max recall s.t. cost(fp=10, fn=amount) <= 1", factors=FACTORS)
    assert float(euros[2]) == pytest.approx((12 + 34 - 30 - 2.4 - 5) / 17 / 2)
    factors = FACTORS * torch.tensor([1.0, 100.0])
    cents = terms("max recall s.t. cost(fp=1000, fn=amount) <= 100", factors=factors)
    for ours, theirs in zip(euros, cents, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_equal_amounts_are_plain_counts():
    """But for the units of the constraint: a typical row changes it by 0.9."""
    plain = terms("max recall s.t. precision >= 0.9")
    goal = "max recall[amount] s.t. precision[amount] >= 0.9"
    same = terms(goal, factors=torch.ones_like(FACTORS))
    same[2] *= 0.9
    for ours, theirs in zip(plain, same, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("goal", "form"),
    [
        ("min cost(fp=5, fn=amount)", "inequality"),
        ("min cost(tp=5, fn=amount)", "equality"),  # an alarm may cost more than the miss
        ("max recall s.t. precision >= 0.9 for each region", "inequality"),
        ("max recall s.t. alarms <= 3 per day", "equality"),
    ],
)
def test_the_form_follows_the_prices_of_rows(goal, form):
    problem = tallied(goal, n=100)
    given = problem.goal, problem.positive, problem.sample_weight
    assert ExactPenalty(*given, factors=problem.factors).form == form
    if form == "equality":
        with pytest.raises(GoalError, match="inequality form is not exact"):
            ExactPenalty(*given, factors=problem.factors, form="inequality")


@pytest.mark.parametrize(
    ("goal", "factors", "message"),
    [
        ("min cost(fp=5, fn=amount)", None, r"names columns of the rows.*pass what each sample"),
        ("max recall s.t. precision >= 0.9 for each region", None, "names columns"),
        ("max recall s.t. precision >= 0.9 for each region", FACTORS[:, :1], "bound goal"),
        ("min cost(fp=5, fn=amount)", FACTORS[:3], r"shape \(5, 2\); they have .* \(3, 2\)"),
        ("min cost(fp=5, fn=amount)", FACTORS[:, :1], r"the 2 tallies"),
        ("min cost(fp=5, fn=amount)", -FACTORS, "at least 0"),
        ("min cost(fp=5, fn=amount)", FACTORS / 0, "finite"),
    ],
)
def test_factors_must_fit_the_goal(goal, factors, message):
    with pytest.raises(SetpointError, match=message):
        penalty(goal, factors=factors)
