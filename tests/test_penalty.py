import pytest
import torch

from setpoint import FPOR, FROP, OFOS, ExactPenalty, GoalError, SetpointError
from setpoint.reformulation import H, psi, psi_weights

POSITIVE = torch.tensor([True, True, False, False, False])
LOGITS = torch.tensor([2.0, -1.0, 0.5, -3.0, 1.0], dtype=torch.float64)
S = torch.tensor([1.0, 0.6, 0.3, 0.0, 0.9], dtype=torch.float64)


def penalty(goal, **kwargs):
    p = ExactPenalty(goal, POSITIVE, dtype=torch.float64, lam=3.0, gamma=0.5, **kwargs)
    with torch.no_grad():
        p.s.copy_(S)
    return p


def by_hand(obj, con, unit, psi_w, ties):
    reg = psi(LOGITS, S, psi_w)
    return -obj - 0.5 * reg + 3.0 * (unit * max(con, 0.0) + unit * ties)


@pytest.mark.parametrize("scaling", ["paper", "per_positive"])
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


def test_state_goes_through_state_dict():
    p, q = penalty(OFOS()), ExactPenalty(OFOS(), POSITIVE, dtype=torch.float64)
    q.load_state_dict(p.state_dict())
    assert torch.equal(q.s, p.s)


def test_a_column_of_logits_is_a_vector_of_logits():
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
def test_bad_input_is_refused(arguments, options, expected):
    with pytest.raises(SetpointError, match=expected):
        ExactPenalty(OFOS(), *arguments, **options)


def test_a_form_that_is_not_exact_is_refused():
    with pytest.raises(GoalError, match="inequality form"):
        ExactPenalty("max recall s.t. alarm_rate <= 0.1", POSITIVE, form="inequality")
