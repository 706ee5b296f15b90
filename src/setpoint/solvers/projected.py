"""The exact penalty method with the lifted variables eliminated: the default solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from setpoint.models import is_linear
from setpoint.solvers.problem import Problem
from setpoint.solvers.projected_run import ProjectedRun

_MOST_WORKING_SETS = {"cpu": 2, "cuda": 4}  # for several goals: rows cost a GPU little


@dataclass(frozen=True)
class Projected:
    """Minimise  (1/P) sum_i w_i min(fight_i, give_up_i) + nearness/2 |theta - theta_0|^2.

    fight_i and give_up_i are the two sides of :func:`setpoint.capped_loss.capped_loss`. lambda
    grows geometrically from step to step. The prices follow the counts of every step, the
    multipliers the violations. After each outer iteration every model's exact threshold becomes
    the origin of its logits.

    Several models train at once: one for each start and nearness, some from disturbed starts, and
    where the goal has constraints one for each start that may break them on its way. What can be
    promised of a poor model may be a few cases only, and a training that begins there stays there.

    Parameters
    ----------
    lam0, lam_max : float
        First and last lambda.
    gamma : float
        Strength of the regulariser psi.
    outer_iterations : int
        Looks.
    inner_iterations : int or None
        Steps of Adam between two looks. None: 20 where a validation part judges, 60 where the
        training rows do and it pays to go to the end.
    lr : float or None
        Adam's learning rate, which falls to zero on a cosine over the run. None: for a linear model
        0.1, and less with more than 100 features; 2e-3 for any other.
    dual_rate : float or None
        Step size of the multipliers: in one step they change by at most this factor of e. None: 0.1
        for a linear model, 0.03 for any other.
    nearness : tuple of float
        Strengths of staying near the start, 0 for none.
    restarts : int or None
        Further models from disturbed starts, for linear models only. None: eight on problems of
        at most 2,000 rows, two on larger ones.
    spread : float
        Size of the largest disturbance, relative to the start.
    relaxed : bool
        Whether, where the goal has constraints, a further model for each start may break them on
        its way.
    line_search : int
        How many changed decisions an exact line search on the counts may consider at the end,
        for linear models where the training rows judge. It settles small problems; on large ones
        it has nothing left to find.
    start : {"logistic", "given"}
        Where models start: after ordinary training (a linear one from the best plain and the best
        balanced logistic regression), or at the weights that the module brings.
    rows : int
        Size of the working set; larger problems train on the rows near a threshold and a sample
        of the rest. Several goals at once have up to twice as many, on a GPU up to four times.
    """

    lam0: float = 1.0
    lam_max: float = 1000.0
    gamma: float = 0.1
    outer_iterations: int = 15
    inner_iterations: int | None = None
    lr: float | None = None
    dual_rate: float | None = None
    nearness: tuple[float, ...] = (0.0, 0.1, 1.0)
    restarts: int | None = None
    spread: float = 1.0
    relaxed: bool = False
    line_search: int = 1_500_000
    start: Literal["logistic", "given"] = "logistic"
    rows: int = 40_000

    def __post_init__(self) -> None:
        if self.start not in ("logistic", "given"):
            raise ValueError(f"start is one of ('logistic', 'given'), not {self.start!r}.")
        if self.outer_iterations < 0 or self.inner_iterations == 0 or self.rows < 2:
            raise ValueError("outer_iterations must be >= 0, inner_iterations >= 1, rows >= 2.")
        for name in ("lam0", "lam_max", "lr", "dual_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}.")
        sizes = (self.gamma, self.spread, self.line_search, *self.nearness)
        sizes = (*sizes, self.restarts or 0, self.inner_iterations or 0)
        if min(sizes) < 0 or not self.nearness:
            raise ValueError(
                "gamma, spread, restarts, line_search, inner_iterations and every nearness must "
                "be >= 0."
            )

    def settle(self, problem: Problem) -> Projected:
        """Return the same with numbers in place of None, as this problem has them."""
        judged_apart = problem.validation is not None
        inner, restarts = self.inner_iterations, self.restarts
        return replace(
            self,
            inner_iterations=(20 if judged_apart else 60) if inner is None else inner,
            restarts=(8 if len(problem.X) <= 2000 else 2) if restarts is None else restarts,
            line_search=0 if judged_apart else self.line_search,
        )

    def prepare(self, problem: Problem, module: nn.Module) -> ProjectedRun:
        """Return a run; any goal will do."""
        return self.prepare_goals([problem], module)

    def prepare_goals(self, problems: Sequence[Problem], module: nn.Module) -> ProjectedRun:
        """Return a run that serves problems at once which differ in their goals alone."""
        # A model that can do more must be asked more gently: it would follow every swing.
        usual = 0.1 if is_linear(module) else 0.03
        # Thresholds of several goals lie apart, and rows near any of them matter.
        most = _MOST_WORKING_SETS[problems[0].X.device.type]
        settled = replace(
            self.settle(problems[0]),
            dual_rate=self.dual_rate or usual,
            rows=self.rows * min(len(problems), most),
        )
        return ProjectedRun(settled, problems, module)
