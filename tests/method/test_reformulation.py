"""Lemmas 1 and 2, both corollaries, the subdifferential, and the terms of the penalty.

Numbers are multiples of 2^-10, on which sums and differences are exact: the lemmas can be tested
without a tolerance.
"""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from setpoint import FPOR, FROP, OFOS, Goal, GoalError
from setpoint.goals.metrics import metric
from setpoint.method.reformulation import (
    G,
    H,
    check_form,
    clarke_subdifferential_of_H,
    eta,
    eta_equality,
    exact_penalty,
    lifted_counts,
    phi,
    phi_con,
    phi_obj,
    psi,
    psi_weights,
)

grid = st.integers(-3 * 1024, 3 * 1024).map(lambda k: k / 1024)
unit = st.integers(0, 1024).map(lambda k: k / 1024)


def tensors(*numbers):
    return tuple(torch.tensor(x, dtype=torch.float64) for x in numbers)


@given(grid, grid | st.sampled_from([0.0, 1.0]), grid)
def test_lemma_1(a, s, t):
    """For a != t and any real s: G_t(a, s) = 0 iff H_t(a, s) = 0, and then s is 0 or 1."""
    assume(a != t)
    a, s, t = tensors(a, s, t)
    assert (G(a, s, t) == 0) == (H(a, s, t) == 0)
    if H(a, s, t) == 0:
        assert s in (0.0, 1.0)


@given(grid, unit, grid)
def test_lemma_2(a, s, t):
    """For a != t, s in [0, 1]: H <= 0 iff s <= 1{a > t}, and H >= 0 iff s >= 1{a > t}."""
    assume(a != t)
    decision = float(a > t)
    a, s, t = tensors(a, s, t)
    assert (H(a, s, t) <= 0) == (s <= decision)
    assert (H(a, s, t) >= 0) == (s >= decision)


@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=50), unit)
def test_corollaries_on_level_sets(points, t):
    """Corollaries 1 and 2: L_0, L_0^- and L_0^+ of G_t and H_t are the same sets off a = t."""
    a, s = torch.tensor(points, dtype=torch.float64).T
    off = a != t
    g, h = G(a, s, t)[off], H(a, s, t)[off]
    assert torch.equal(g == 0, h == 0)
    assert torch.equal(g <= 0, h <= 0)
    assert torch.equal(g >= 0, h >= 0)


def test_lemmas_need_a_unequal_t():
    """At a = t any s gives H = 0: the non-singularity that the paper asks for is needed."""
    a, s, t = tensors(0.5, 0.25, 0.5)
    assert H(a, s, t) == 0
    assert G(a, s, t) != 0


@given(grid, grid, grid)
def test_H_equals_the_printed_form(a, s, t):
    printed = s + max(s + a - 1 - t, 0) - max(s + a - t, 0)
    assert H(*tensors(a, s, t)) == printed


@given(unit, unit, unit, st.floats(0, 2 * np.pi))
def test_subdifferential_cases_against_finite_differences(a, s, t, angle):
    """Clarke: directional difference quotients lie between the extreme subgradients.

    Away from the kinks both ends coincide and the quotient is the derivative.
    """
    low, high = (float(x) for x in clarke_subdifferential_of_H(*tensors(a, s, t)))
    u = s + a - t
    expected = {True: (0.0, 0.0), False: (1.0, 1.0)}[0 < u < 1] if u not in (0, 1) else (0.0, 1.0)
    assert (low, high) == expected
    da, ds = np.cos(angle), np.sin(angle)
    step = 2.0**-20  # smaller than the grid, so that no other kink is crossed
    there = H(*tensors(a + step * da, s + step * ds, t))
    quotient = float(there - H(*tensors(a, s, t))) / step
    ends = [(omega - 1) * da + omega * ds for omega in (low, high)]
    assert min(ends) - 1e-6 <= quotient <= max(ends) + 1e-6


@given(unit, unit, unit)
def test_autograd_gives_an_element_of_the_subdifferential(a, s, t):
    a, s, t = tensors(a, s, t)
    a.requires_grad_(), s.requires_grad_()
    H(a, s, t).backward()
    low, high = clarke_subdifferential_of_H(a.detach(), s.detach(), t)
    assert low <= s.grad <= high
    assert a.grad == s.grad - 1


def test_the_gradient_in_a_is_nonzero_on_at_least_half_of_the_square():
    """Paper: dH/da != 0 on a set of measure 1 - t^2/2 - (1-t)^2/2 >= 1/2 of [0, 1]^2."""
    side = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    a, s = torch.meshgrid(side, side, indexing="ij")
    for t in (0.0, 0.3, 0.5, 0.9):
        low, _ = clarke_subdifferential_of_H(a, s, t)
        fraction = float((low == 0).double().mean())
        assert fraction == pytest.approx(1 - t**2 / 2 - (1 - t) ** 2 / 2, abs=2e-3)


def test_eta_has_the_sign_of_the_class():
    a, s = torch.tensor([0.9, 0.1, 0.9, 0.1]), torch.tensor([0.2, 0.2, 0.2, 0.2])
    positive = torch.tensor([True, True, False, False])
    h = H(a, s, 0.5)
    assert torch.equal(eta(a, s, 0.5, positive), torch.stack([h[0], h[1], -h[2], -h[3]]))
    assert torch.equal(eta_equality(a, s, 0.5), h)
    # eta <= 0: s of a positive may be below its decision, s of a negative above it.
    assert (eta(a, s, 0.5, positive) <= 0).tolist() == [True, False, False, True]


@given(unit, unit, unit, st.booleans())
def test_penalised_ties_in_closed_form(a, s, t, positive):
    """Solver notes: [eta]_+ is 0 on the right side, else min(s, t-a) on P, min(1-s, a-t) on N."""
    at = tensors(a, s, t)
    tie = float(eta(*at, torch.tensor(positive)).relu())
    if positive:
        assert tie == (0 if a >= t else min(s, t - a))
    else:
        assert tie == (0 if a <= t else min(1 - s, a - t))


def test_psi_is_the_printed_sum():
    z = torch.tensor([-30.0, -1.0, 0.0, 2.0, 40.0], dtype=torch.float64)
    s = torch.tensor([0.0, 0.3, 1.0, 0.9, 0.5], dtype=torch.float64)
    w = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0], dtype=torch.float64)
    log_f, log_rest = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
    assert float(psi(z, s, w)) == pytest.approx(float((w * (s * log_f + (1 - s) * log_rest)).sum()))


def test_psi_weights_are_the_printed_ones():
    positive = torch.tensor([True, False, False, False])
    w = psi_weights(positive, torch.ones(4, dtype=torch.float64))
    assert w.tolist() == pytest.approx([1 / 4, 1 / 12, 1 / 12, 1 / 12])
    weighted = psi_weights(positive, torch.tensor([2.0, 1.0, 1.0, 2.0], dtype=torch.float64))
    assert weighted[positive].sum() == pytest.approx(float(weighted[~positive].sum()))


def test_psi_is_largest_where_s_and_the_score_agree_at_an_end():
    z = torch.tensor([[-9.0, 0.0, 9.0]]).T
    s = torch.tensor([[0.0, 0.5, 1.0]])
    values = [[float(psi(zi, si, torch.ones(1))) for si in s[0]] for zi in z[:, 0]]
    values = np.array(values)
    assert values[0, 0] == values.max() or values[2, 2] == values.max()
    assert values[0, 2] == pytest.approx(values.min())


def test_lifted_counts_and_phi_are_the_printed_ones():
    s = torch.tensor([1.0, 0.5, 0.25, 0.0])
    positive = torch.tensor([True, True, False, False])
    tp, fp = lifted_counts(s, positive)
    assert (float(tp), float(fp)) == (1.5, 0.25)
    assert float(phi(metric("precision"), tp, fp, 2, 2)) == pytest.approx(1.5 / 1.75)
    assert float(phi(metric("recall"), tp, fp, 2, 2)) == pytest.approx(1.5 / 2)
    assert float(phi(metric("f1"), tp, fp, 2, 2)) == pytest.approx(2 * 1.5 / (2 + 1.75))
    weighted = lifted_counts(s, positive, torch.tensor([1.0, 2.0, 4.0, 1.0]))
    assert [float(x) for x in weighted] == [2.0, 1.0]


@pytest.mark.parametrize("name", ["precision", "recall", "f1", "gmean", "mcc"])
def test_phi_has_the_gradient_of_the_metric(name):
    s = torch.tensor([1.0, 0.5, 0.25, 0.0], dtype=torch.float64, requires_grad=True)
    positive = torch.tensor([True, True, False, False])
    tp, fp = lifted_counts(s, positive)
    phi(metric(name), tp, fp, 2.0, 2.0).backward()
    m = metric(name)
    at = (float(tp.detach()), float(fp.detach()), 2.0, 2.0)
    assert s.grad.tolist() == pytest.approx([m.d_tp(*at)] * 2 + [m.d_fp(*at)] * 2)


def test_phi_obj_and_phi_con_of_the_three_problems():
    at = (*tensors(3.0, 2.0), 5.0, 20.0)
    assert float(phi_obj(FPOR(0.9), *at)) == pytest.approx(3 / 5)
    assert phi_con(FPOR(0.9), *at).tolist() == pytest.approx([0.9 * 2 - 0.1 * 3])
    assert float(phi_obj(FROP(0.9), *at)) == pytest.approx(3 / 5)
    assert phi_con(FROP(0.9), *at).tolist() == pytest.approx([0.9 * 5 - 3])
    assert float(phi_obj(OFOS(), *at)) == pytest.approx(6 / 10)
    assert phi_con(OFOS(), *at).shape == (0,)


def test_phi_of_other_goals():
    at = (*tensors(3.0, 2.0), 5.0, 20.0)
    goal = Goal.parse("min fpr s.t. recall >= 0.8, mcc >= 0.7")
    assert float(phi_obj(goal, *at)) == pytest.approx(-2 / 20)
    mcc = metric("mcc").value(3.0, 2.0, 5.0, 20.0)
    assert phi_con(goal, *at).tolist() == pytest.approx([0.8 * 5 - 3, 5 * (0.7 - mcc)])


def test_the_form_follows_from_the_goal():
    capacity = Goal.parse("max recall s.t. alarm_rate <= 0.01")
    assert check_form(FPOR(0.9), "auto") == "inequality"
    assert check_form(FPOR(0.9), "equality") == "equality"
    assert check_form(capacity, "auto") == "equality"
    with pytest.raises(
        GoalError, match="inequality form is not exact .*: alarm_rate may get worse"
    ):
        check_form(capacity, "inequality")
    with pytest.raises(GoalError, match="'sideways'"):
        check_form(FPOR(0.9), "sideways")


def test_exact_penalty_is_the_printed_sum():
    obj, reg = tensors(0.7, -2.0)
    con, ties = torch.tensor([0.5, -3.0]), torch.tensor([0.0, 0.25])
    assert float(exact_penalty(obj, reg, con, ties, lam=4.0, gamma=0.1)) == pytest.approx(
        -0.7 + 0.2 + 4.0 * (0.5 + 0.25)
    )
