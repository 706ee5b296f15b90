"""The exact penalty as a torch module, for solvers and your own training loops.

It holds the lifted variables s and the threshold t; the training loop has the model. Each step:

    loss = penalty(model(X))     # F(theta, s, t, lambda)
    loss.backward()
    optimizer.step()             # over the model's parameters and penalty.parameters()
    penalty.project_()           # s back into [0, 1]^N, t into [0, 1]

and ``penalty.lam *= rho`` from time to time.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.method import reformulation

Form = Literal["auto", "inequality", "equality", "smooth"]
Scaling = Literal["per_positive", "paper", "mean"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)


class ExactPenalty(nn.Module):
    """The exact penalty F(theta, s, t, lambda) of a goal on one training set.

    Parameters
    ----------
    goal : str or Goal
        What to train for.
    positive : Tensor of bool, shape (n,)
        Which samples are positive, in the order of the logits.
    sample_weight : Tensor of shape (n,), optional
        Weights of the counts.
    form : {"auto", "inequality", "equality", "smooth"}
        How s is tied to the decisions. ``"auto"``: inequality for monotone goals, else equality.
        ``"smooth"``: s is the sigmoid itself, for comparison with other methods.
    scaling : {"per_positive", "paper", "mean"}
        ``"paper"``: the terms as printed, sums over all rows. ``"per_positive"``: constraints,
        ties and regulariser are divided by P, so that one sample has the weight 1/P in every term
        and the same lambda and gamma work for 500 rows and for 500,000. ``"mean"``: constraints as
        printed; ties and regulariser are means over the rows.
    t : float
        The threshold of the scores sigmoid(logit).
    learn_t : bool
        Whether t is optimised too.
    lam, gamma : float
        The penalty parameter and the strength of the regulariser: plain attributes that may be
        changed during training. So is ``objective_scale``, a factor of the objective, initially 1.
    dtype : torch.dtype, optional
        Precision of s if the weights do not determine it. Default: that of torch.

    Examples
    --------
    >>> import torch
    >>> from setpoint.method.penalty import ExactPenalty
    >>> X, y = torch.randn(200, 3), torch.rand(200) < 0.2
    >>> model = torch.nn.Linear(3, 1)
    >>> penalty = ExactPenalty("max recall s.t. precision >= 0.9", y)
    >>> loss = penalty(model(X).squeeze(-1))
    >>> loss.backward()
    """

    positive: Tensor
    sample_weight: Tensor
    _psi_weights: Tensor

    def __init__(
        self,
        goal: str | Goal,
        positive: Tensor,
        sample_weight: Tensor | None = None,
        *,
        form: Form = "auto",
        scaling: Scaling = "per_positive",
        t: float = 0.5,
        learn_t: bool = False,
        lam: float = 1.0,
        gamma: float = 0.1,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if scaling not in SCALINGS:
            raise SetpointError(f"scaling {scaling!r} is not one of {SCALINGS}.")
        self.goal = Goal.parse(goal)
        self.form = reformulation.check_form(self.goal, form)
        self.scaling = scaling
        positive = torch.as_tensor(positive)
        if positive.ndim != 1 or not ((positive == 0) | (positive == 1)).all():
            raise SetpointError("positive must be a vector of booleans, or of 0 and 1.")
        positive = positive.bool()
        if positive.all() or not positive.any():
            raise SetpointError("positive must hold both classes.")
        if sample_weight is None:
            sample_weight = torch.ones(len(positive), dtype=dtype, device=positive.device)
        sample_weight = torch.as_tensor(sample_weight)
        if not sample_weight.is_floating_point():
            sample_weight = sample_weight.to(dtype or torch.get_default_dtype())
        usable = (sample_weight > 0) & sample_weight.isfinite()
        if sample_weight.shape != positive.shape or not usable.all():
            raise SetpointError("sample_weight must be positive and finite, one per sample.")
        self.register_buffer("positive", positive)
        self.register_buffer("sample_weight", sample_weight)
        self.P = float(sample_weight[positive].sum())
        self.N = float(sample_weight[~positive].sum())
        lifted = self.form != "smooth"
        self.s = nn.Parameter(torch.full_like(sample_weight, 0.5), requires_grad=lifted)
        self.t = nn.Parameter(torch.full_like(sample_weight[0], t), requires_grad=learn_t)
        self.lam = lam
        self.gamma = gamma
        self.objective_scale = 1.0
        # The factors of the metric constraints and of the ties.
        if scaling == "paper":
            self._unit = self._tie = 1.0
            psi_weights = reformulation.psi_weights(positive, sample_weight)
        elif scaling == "mean":
            self._unit, self._tie = 1.0, 1.0 / (self.P + self.N)
            psi_weights = sample_weight / (self.P + self.N)
        else:
            self._unit = self._tie = 1.0 / self.P
            psi_weights = sample_weight / self.P
        self.register_buffer("_psi_weights", psi_weights, persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """Return F for the model's logits, of shape (n,) or (n, 1)."""
        if logits.shape not in (self.s.shape, (*self.s.shape, 1)):
            raise SetpointError(
                f"logits must be one per sample, shape ({len(self.s)},); they have the shape "
                f"{tuple(logits.shape)}."
            )
        return self.combine(*self.terms(logits.reshape(-1)))

    def terms(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the objective, psi, the metric constraints and the ties.

        The ties are not in the units of the scaling; the other terms are.
        """
        s = self.decisions(logits)
        tp, fp = reformulation.lifted_counts(s, self.positive, self.sample_weight)
        counts = (tp, fp, self.P, self.N)
        if self.form == "smooth":
            ties = logits.new_zeros(1)
        elif self.form == "inequality":
            ties = reformulation.eta(torch.sigmoid(logits), s, self.t, self.positive)
        else:
            ties = reformulation.eta_equality(torch.sigmoid(logits), s, self.t)
        return (
            self.objective_scale * reformulation.phi_obj(self.goal, *counts),
            reformulation.psi(logits, s, self._psi_weights),
            self._unit * reformulation.phi_con(self.goal, *counts),
            ties,
        )

    def decisions(self, logits: Tensor) -> Tensor:
        """Return s or, in the smooth form, sigmoid(z - logit(t))."""
        if self.form != "smooth":
            return self.s
        return torch.sigmoid(logits - torch.logit(self.t))

    def combine(self, phi_obj: Tensor, psi: Tensor, phi_con: Tensor, ties: Tensor) -> Tensor:
        """Return F of its terms."""
        violated = ties.abs() if self.form == "equality" else ties.relu()
        weighted = self._tie * self.sample_weight * violated
        return reformulation.exact_penalty(phi_obj, psi, phi_con, weighted, self.lam, self.gamma)

    @torch.no_grad()
    def slopes(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of F in the logits and in s, in closed form.

        With u_i = s_i + a_i - t and sigma_i the derivative of the violation of tie i in H_t (1 or 0
        times the sign of the class in the inequality form, the sign of H_t in the equality form),

            dF/dz_i = -gamma psi_i (s_i - a_i)  - lambda w_i sigma_i 1{0 <= u_i <= 1} a_i (1 - a_i)
            dF/ds_i = w_i dF/dcount - gamma psi_i z_i + lambda w_i sigma_i 1{u_i < 0 or u_i > 1},

        where psi_i and w_i are the weights of the regulariser and of the ties in the scaling's
        units. It takes a third of autograd's time. It has no derivative in t, and does not support
        the smooth form.
        """
        if self.form == "smooth" or self.t.requires_grad:
            raise SetpointError(
                "slopes needs the inequality or equality form and a fixed t (learn_t=False)."
            )
        s, a = self.s.detach(), logits.sigmoid()
        # Factors 0 and 1 select: torch.where costs ten times a product.
        u = s + a - self.t
        inside = u.clamp(0.0, 1.0)
        H, inside = s - inside, (u == inside).to(s.dtype)
        sign = self.positive.to(s.dtype).mul_(2.0).sub_(1.0)
        sigma = H.sign() if self.form == "equality" else (H * sign).sign_().relu_() * sign
        sigma *= self.lam * self._tie * self.sample_weight
        pull = sigma * inside
        in_s = sigma.sub_(pull).sub_(self._psi_weights * logits, alpha=self.gamma)
        worth, cost = self._slopes_in_counts(s)
        in_s += self.sample_weight * (sign * ((worth - cost) / 2) + (worth + cost) / 2)
        in_z = self._psi_weights * (a - s) * self.gamma
        return in_z.sub_(pull.mul_(a).mul_(1 - a)), in_s

    def _slopes_in_counts(self, s: Tensor) -> tuple[float, float]:
        """Return the derivatives of F in TP(s) and in FP(s)."""
        tp, fp = (
            np.float64(count)
            for count in reformulation.lifted_counts(s, self.positive, self.sample_weight)
        )
        at, objective = (tp, fp, self.P, self.N), self.goal.objective
        with np.errstate(all="ignore"):
            scale = -objective.sign * self.objective_scale
            slopes = [scale * float(d(*at)) for d in (objective.d_tp, objective.d_fp)]
            for constraint in self.goal.constraints:
                if constraint.cleared(*at) > 0:
                    for i, slope in enumerate(constraint.cleared_slopes(*at)):
                        slopes[i] += self.lam * self._unit * float(slope)
        return slopes[0], slopes[1]

    @torch.no_grad()
    def project_(self) -> None:
        """Put s back into [0, 1]^N and t into [0, 1]."""
        self.s.clamp_(0.0, 1.0)
        # At 0 and 1 the smooth form's logit(t) is infinite, and its slope NaN.
        end = 1e-6 if self.form == "smooth" else 0.0
        self.t.clamp_(end, 1.0 - end)
