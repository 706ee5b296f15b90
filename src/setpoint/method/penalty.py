"""The exact penalty as a torch module, for solvers and your own training loops.

It holds the lifted variables s and the threshold t; the training loop has the model. Each step:

    loss = penalty(model(X))     # F(theta, s, t, lambda)
    loss.backward()
    optimizer.step()             # over the model's parameters and penalty.parameters()
    penalty.project_()           # s back into [0, 1]^N, t into [0, 1]

and ``penalty.lam *= rho`` from time to time.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.errors import SetpointError
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.metrics import Metric
from setpoint.method import reformulation
from setpoint.method.capped_loss import typical_price

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
    factors : Tensor of shape (n, tallies), optional
        What each sample counts in each of ``goal.tallies``, >= 0 and relative to its weight:
        required of a goal that names amounts, segments or periods, which must be bound to those of
        the samples (:class:`setpoint.goals.columns.GoalColumns`).
    form : {"auto", "inequality", "equality", "smooth"}
        How s is tied to the decisions. ``"auto"``: inequality for monotone goals, else equality.
        ``"smooth"``: s is the sigmoid itself, for comparison with other methods.
    scaling : {"per_positive", "paper", "mean"}
        ``"paper"``: the terms as printed, sums over all rows. ``"per_positive"``: constraints,
        ties and regulariser are divided by P, so that one sample has the weight 1/P in every term
        and the same lambda and gamma work for 500 rows and for 500,000; a constraint on amounts of
        money is first divided by the amount of a typical row. ``"mean"``: constraints as printed;
        ties and regulariser are means over the rows.
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
    factors: Tensor | None
    _psi_weights: Tensor

    def __init__(
        self,
        goal: str | Goal,
        positive: Tensor,
        sample_weight: Tensor | None = None,
        *,
        factors: Tensor | None = None,
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
        self.totals: tuple[Any, Any] = self.P, self.N  # with an entry for each tally, if several
        factors = _check_factors(self.goal, factors, sample_weight)
        self.register_buffer("factors", factors, persistent=False)
        if factors is not None:
            tallied = (factors * sample_weight[:, None]).double().cpu()
            P, N = (tallied[own.cpu()].sum(dim=0).numpy() for own in (positive, ~positive))
            self.totals = P, N
        lifted = self.form != "smooth"
        self.s = nn.Parameter(torch.full_like(sample_weight, 0.5), requires_grad=lifted)
        self.t = nn.Parameter(torch.full_like(sample_weight[0], t), requires_grad=learn_t)
        self.lam = lam
        self.gamma = gamma
        self.objective_scale = 1.0
        # The factors of the metric constraints and of the ties.
        unit, sizes = 1.0, [1.0] * len(self.goal.constraints)
        if scaling == "paper":
            self._tie = 1.0
            psi_weights = reformulation.psi_weights(positive, sample_weight)
        elif scaling == "mean":
            self._tie = 1.0 / (self.P + self.N)
            psi_weights = sample_weight / (self.P + self.N)
        else:
            unit = self._tie = 1.0 / self.P
            psi_weights = sample_weight / self.P
            sizes = [self._typical_price(constraint) for constraint in self.goal.constraints]
        self._units = [unit / size for size in sizes]
        self.register_buffer("_psi_weights", psi_weights, persistent=False)

    def _typical_price(self, constraint: Constraint) -> float:
        """Return what a typical row changes in a constraint on money; others are in counts."""
        which = constraint.metric
        if which.is_bounded and not any(tally.amount for tally in which.tallies):
            return 1.0
        P, N = self.totals
        with np.errstate(all="ignore"):
            own = self.goal.counts_of(which, P / 2, N / 2, P, N)
            slopes = constraint.cleared_slopes(*own)
            found = float(np.max(typical_price(self.goal, which, slopes, P, N)))
        return found if found > 0 else 1.0

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
        counts = (*self._lifted_counts(s), *self.totals)
        if self.form == "smooth":
            ties = logits.new_zeros(1)
        elif self.form == "inequality":
            ties = reformulation.eta(torch.sigmoid(logits), s, self.t, self.positive)
        else:
            ties = reformulation.eta_equality(torch.sigmoid(logits), s, self.t)
        return (
            self.objective_scale * reformulation.phi_obj(self.goal, *counts),
            reformulation.psi(logits, s, self._psi_weights),
            self._in_units(reformulation.phi_con(self.goal, *counts)),
            ties,
        )

    def _in_units(self, phi_con: Tensor) -> Tensor:
        if len(set(self._units)) > 1:
            return phi_con * phi_con.new_tensor(self._units)
        return phi_con * self._units[0] if self._units else phi_con  # which can be recorded

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
        in_s += self.sample_weight * self._slopes_in_rows(s, sign)
        in_z = self._psi_weights * (a - s) * self.gamma
        return in_z.sub_(pull.mul_(a).mul_(1 - a)), in_s

    def _lifted_counts(self, s: Tensor) -> tuple[Tensor, Tensor]:
        return reformulation.lifted_counts(s, self.positive, self.sample_weight, self.factors)

    def _slopes_in_rows(self, s: Tensor, sign: Tensor) -> Tensor:
        """Return the derivative of F in the count of each row, by its class and its factors."""
        worth, cost = self._slopes_in_counts(s)
        if self.factors is None:
            worth, cost = float(worth), float(cost)
            return sign * ((worth - cost) / 2) + (worth + cost) / 2
        of_classes = torch.from_numpy(np.stack([worth, cost], axis=1)).to(s)
        in_tp, in_fp = (self.factors @ of_classes).unbind(dim=1)
        return torch.where(self.positive, in_tp, in_fp)

    def _slopes_in_counts(self, s: Tensor) -> tuple[Any, Any]:
        """Return the derivatives of F in TP(s) and in FP(s), in each tally if there are several."""
        tp, fp = self._lifted_counts(s)
        if self.factors is None:
            at: tuple[Any, ...] = (np.float64(tp), np.float64(fp), self.P, self.N)
        else:
            at = (*(count.double().cpu().numpy() for count in (tp, fp)), *self.totals)
        slopes = [np.zeros(np.shape(at[2])) for _ in range(2)]

        def add(which: Metric, scale: float, of_metric: tuple[Any, Any]) -> None:
            places = self._places(which)
            for total, slope in zip(slopes, of_metric, strict=True):
                total[places] += scale * np.asarray(slope)

        with np.errstate(all="ignore"):
            objective = self.goal.objective
            own = self.goal.counts_of(objective, *at)
            scale = -objective.sign * self.objective_scale
            add(objective, scale, (objective.d_tp(*own), objective.d_fp(*own)))
            for constraint, unit in zip(self.goal.constraints, self._units, strict=True):
                own = self.goal.counts_of(constraint.metric, *at)
                if constraint.cleared(*own) > 0:
                    add(constraint.metric, self.lam * unit, constraint.cleared_slopes(*own))
        return slopes[0], slopes[1]

    def _places(self, which: Metric) -> Any:
        """Return where a metric's tallies are among the goal's; all, where there is one."""
        if self.factors is None:
            return ...
        places = [self.goal.tallies.index(tally) for tally in which.tallies]
        return places[0] if len(places) == 1 else places

    @torch.no_grad()
    def project_(self) -> None:
        """Put s back into [0, 1]^N and t into [0, 1]."""
        self.s.clamp_(0.0, 1.0)
        # At 0 and 1 the smooth form's logit(t) is infinite, and its slope NaN.
        end = 1e-6 if self.form == "smooth" else 0.0
        self.t.clamp_(end, 1.0 - end)


def _check_factors(goal: Goal, factors: Tensor | None, weight: Tensor) -> Tensor | None:
    """Return what samples count in each tally; raise SetpointError unless it fits the goal."""
    tallies = len(goal.tallies)
    if factors is None:
        if goal.is_plain and goal.is_bound:
            return None
        raise SetpointError(
            f"the goal '{goal}' names columns of the rows: bind it to them, and pass what each "
            "sample counts as factors, e.g. goal = columns.bind(goal, y) and "
            "columns.factors(goal.tallies).T of setpoint.goals.columns.GoalColumns."
        )
    factors = torch.as_tensor(factors).to(weight)
    if not goal.is_bound or factors.shape != (len(weight), tallies):
        raise SetpointError(
            f"factors must have a row for each sample and a column for each of the {tallies} "
            f"tallies of the bound goal, shape ({len(weight)}, {tallies}); they have the shape "
            f"{tuple(factors.shape)}."
        )
    if not ((factors >= 0) & factors.isfinite()).all():
        raise SetpointError("factors must be finite and at least 0.")
    return None if goal.is_plain else factors
