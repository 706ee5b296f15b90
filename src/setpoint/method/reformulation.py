"""The paper's equations, one function each.

Notation: a_i = f(x_i) in [0, 1] is the score of sample i and z_i its logit, s_i in [0, 1] its
lifted variable, t the threshold; P and N are the sums of weights of the positives and of the
negatives. With unit weights they are the paper's N_+ and N_-.

The idea: a decision 1{a > t} has no useful gradient in a. A lifted variable s is tied to it by
s - 1{a > t} = 0, and that equation is replaced by H_t(a, s) = 0, which has the same solutions for
a != t (Lemma 1) and a gradient in a where t < s + a < 1 + t.

All functions work elementwise on torch tensors and are differentiable by autograd.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from setpoint.errors import GoalError
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import Metric

# --- the indicator and its exact replacement ------------------------------------------------------


def G(a: Tensor, s: Tensor, t: Tensor | float) -> Tensor:  # noqa: N802
    """Tie a lifted variable to the decision (eq. "g-h"): G_t(a, s) = s - 1{a > t}."""
    return s - (a > t).to(s.dtype)


def H(a: Tensor, s: Tensor, t: Tensor | float) -> Tensor:  # noqa: N802
    """Replace G_t by a continuous function with the same zeros (eq. "g-h").

        H_t(a, s) = s + [s + a - 1 - t]_+ - [s + a - t]_+  =  s - min(1, [s + a - t]_+).

    Lemma 1: for a != t, H_t(a, s) = 0 if and only if s = 1{a > t}.
    Lemma 2: for a != t and s in [0, 1], H_t(a, s) <= 0 iff s <= 1{a > t}, and
    H_t(a, s) >= 0 iff s >= 1{a > t}.
    """
    return s - (s + a - t).clamp(0.0, 1.0)


def clarke_subdifferential_of_H(  # noqa: N802
    a: Tensor, s: Tensor, t: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Return the Clarke subdifferential of H_t as an interval of omega.

    In all three cases of the paper it is {(omega - 1, omega)}, gradient in a first, with

    - omega = 0          where t < s + a < 1 + t,
    - omega = 1          where s + a < t or s + a > 1 + t,
    - omega in [0, 1]    where s + a = t or s + a = 1 + t.

    Returns
    -------
    (low, high) : tuple of Tensor
        The ends of the interval of omega.
    """
    u = s + a - t
    flat = (u < 0) | (u > 1)
    kink = (u == 0) | (u == 1)
    return flat.to(s.dtype), (flat | kink).to(s.dtype)


def sigmoid_surrogate(x: Tensor, t: Tensor | float, temperature: float) -> Tensor:
    """Return the usual surrogate of 1{x > t}: 1 / (1 + exp(-T (x - t))).

    Section "Critical issues": for small T its metrics are far from the true ones, for large T its
    gradient vanishes.
    """
    return torch.sigmoid(temperature * (x - t))


# --- the constraints that tie s to the decisions --------------------------------------------------


def eta(a: Tensor, s: Tensor, t: Tensor | float, positive: Tensor) -> Tensor:
    """Return the inequality constraints (eq. "unify"): eta_i = H_t on P, -H_t on N; eta <= 0.

    They require s_i <= 1{a_i > t} of positives and s_i >= 1{a_i > t} of negatives. That suffices
    for monotone goals, because the other direction can only make the goal worse.
    """
    h = H(a, s, t)
    return torch.where(positive, h, -h)


def eta_equality(a: Tensor, s: Tensor, t: Tensor | float) -> Tensor:
    """Return the equality constraints (eq. "FPOR_eq_continuous"): H_t(a_i, s_i) = 0 for all i.

    In the penalty they enter as |H_t|, which is ``[H_t]_+ + [-H_t]_+``.
    """
    return H(a, s, t)


# --- regularisation -------------------------------------------------------------------------------


def psi(logits: Tensor, s: Tensor, weights: Tensor) -> Tensor:
    """Return the confidence regulariser (eq. "reg-term"), which is maximised.

    psi = sum_i weights_i * ( s_i log f(x_i) + (1 - s_i) log(1 - f(x_i)) )
        = sum_i weights_i * ( s_i z_i - softplus(z_i) ).

    It pushes f(x_i) away from the threshold, to the side of s_i.
    :func:`psi_weights` returns the paper's weights.
    """
    return (weights * (s * logits - softplus(logits))).sum()


def psi_weights(positive: Tensor, sample_weight: Tensor) -> Tensor:
    """Return the weights of psi as printed: w_i / N with w_i = 1/N_+ on P and 1/N_- on N.

    Together they add up to 2/N, so for large N the printed regulariser vanishes; the solver's
    default leaves the factor 1/N out.
    """
    P, N = sample_weight[positive].sum(), sample_weight[~positive].sum()
    return sample_weight / torch.where(positive, P, N) / (P + N)


# --- metrics of the lifted variables --------------------------------------------------------------


def lifted_counts(
    s: Tensor,
    positive: Tensor,
    sample_weight: Tensor | None = None,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return TP(s) = sum of s over P and FP(s) = sum of s over N.

    With ``factors`` f, what a row counts in each of several tallies, shape (n, tallies), they are
    vectors: TP_j(s) = sum of f_ij s_i over P.
    """
    weighted = s if sample_weight is None else s * sample_weight
    if factors is not None:
        return (weighted * positive) @ factors, (weighted * ~positive) @ factors
    return (weighted * positive).sum(), (weighted * ~positive).sum()


def phi(metric: Metric, tp: Tensor, fp: Tensor, P: Any, N: Any) -> Tensor:
    """Return a metric of the lifted counts (eq. "phi": phi_p, phi_r, phi_F1 and any other).

    Its gradient is the metric's d_tp and d_fp, with their conventions at empty counts. The counts
    of a metric of several tallies are vectors.
    """
    here, there = tp.detach(), fp.detach()
    functions = (metric.value, metric.d_tp, metric.d_fp)
    if tp.ndim:
        counts = (here.double().cpu().numpy(), there.double().cpu().numpy(), P, N)
        with np.errstate(all="ignore"):
            at, *slopes = (f(*counts) for f in functions)
        in_tp, in_fp = (torch.as_tensor(slope).to(tp) for slope in slopes)
        return torch.as_tensor(float(at) + in_tp @ (tp - here) + in_fp @ (fp - there))
    if metric.fraction is not None and tp.is_cuda:  # without waiting for the device
        value, d_tp, d_fp = (f(here, there, P, N) for f in functions)
    else:  # faster on a CPU, and documented for custom metrics
        numbers = (np.float64(here), np.float64(there), P, N)
        with np.errstate(all="ignore"):
            value, d_tp, d_fp = (float(f(*numbers)) for f in functions)
    return torch.as_tensor(value + d_tp * (tp - here) + d_fp * (fp - there))


def _own_counts(
    goal: Goal, metric: Metric, tp: Tensor, fp: Tensor, P: Any, N: Any
) -> tuple[Tensor, Tensor, Any, Any]:
    """Return the counts in a metric's own tallies."""
    tp, fp, P, N = goal.counts_of(metric, tp, fp, P, N)
    return (tp, fp, P, N) if np.ndim(P) else (tp, fp, float(P), float(N))


def phi_obj(goal: Goal, tp: Tensor, fp: Tensor, P: Any, N: Any) -> Tensor:
    """Return the objective to be maximised (eq. "unify"), negated where lower is better."""
    own = _own_counts(goal, goal.objective, tp, fp, P, N)
    return goal.objective.sign * phi(goal.objective, *own)


def phi_con(goal: Goal, tp: Tensor, fp: Tensor, P: Any, N: Any) -> Tensor:
    """Return one value per metric constraint, <= 0 where it is met (eq. "unify").

    Quotients are multiplied by their denominators, as in the paper for FPOR:

    - FPOR:  alpha * FP(s) - (1 - alpha) * TP(s)
    - FROP:  alpha * P - TP(s)
    - OFOS:  no constraint, an empty vector
    """
    if not goal.constraints:
        return tp.new_zeros(0)
    return torch.stack([
        _cleared(c, *_own_counts(goal, c.metric, tp, fp, P, N)) for c in goal.constraints
    ])  # fmt: skip


def _cleared(constraint: Constraint, tp: Tensor, fp: Tensor, P: Any, N: Any) -> Tensor:
    metric = constraint.metric
    if metric.fraction is not None:
        return torch.as_tensor(constraint.cleared(tp, fp, P, N))
    scale = float(np.sum(P)) * metric.sign / constraint.size
    return scale * (constraint.level - phi(metric, tp, fp, P, N))


def check_form(goal: Goal, form: str) -> str:
    """Return the form to use; ``"auto"`` depends on the goal.

    The inequality form is exact for monotone goals only (Theorem "Reformulation of general DMO
    problems"): for others an s_i that differs from its decision could be better for the goal. A
    goal of several tallies is monotone if it is so in the counts of each; rows count at least 0 in
    each, so no row has a negative price then.
    """
    if form not in ("auto", "inequality", "equality", "smooth"):
        raise GoalError(f"form {form!r} is not 'auto', 'inequality', 'equality' or 'smooth'.")
    if form == "auto":
        return "inequality" if goal.is_monotone else "equality"
    if form == "inequality" and not goal.is_monotone:
        names = ", ".join(m.name for m in goal.metrics if not m.monotone)
        raise GoalError(
            f"the inequality form is not exact for the goal '{goal}': {names} may get worse by "
            "one more true positive or better by one more false positive. Use form='equality'."
        )
    return form


# --- the exact penalty ----------------------------------------------------------------------------


def exact_penalty(
    phi_obj: Tensor, psi: Tensor, phi_con: Tensor, ties: Tensor, lam: float, gamma: float
) -> Tensor:
    """Return the exact penalty function F(theta, s, t, lambda) of Section "Optimization".

        F = -phi_obj - gamma psi + lambda ( sum_j [phi_con_j]_+ + sum_i ties_i ),

    with ties_i = [eta_i]_+ in the inequality form and |H_t(a_i, s_i)| in the equality form.
    """
    return -phi_obj - gamma * psi + lam * (phi_con.relu().sum() + ties.sum())
