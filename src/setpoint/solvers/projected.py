"""The exact penalty method with the lifted variables eliminated: the default solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.errors import DivergedError
from setpoint.models import is_linear
from setpoint.solvers.base import Progress
from setpoint.solvers.bundle import Bundle, LinearBundle
from setpoint.solvers.candidates import Contender, standing
from setpoint.solvers.columns import columns_from, start_of
from setpoint.solvers.descent import Batch, Counts, Descent, usual_rate
from setpoint.solvers.device_steps import DeviceSteps, on_device
from setpoint.solvers.ordinary import best_of, ordinary_models
from setpoint.solvers.penalised import penalised_point
from setpoint.solvers.problem import Problem
from setpoint.solvers.settling import search_lines
from setpoint.solvers.working_set import WorkingSet, near

_BLOCK = 2**16  # rows


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
        of the rest.
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
        # A model that can do more must be asked more gently: it would follow every swing.
        usual = 0.1 if is_linear(module) else 0.03
        settled = replace(self.settle(problem), dual_rate=self.dual_rate or usual)
        return ProjectedRun(settled, problem, module)


class ProjectedRun:
    """The eliminated form at work on a bundle of models."""

    def __init__(self, solver: Projected, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        weight, positive = problem.sample_weight, problem.positive
        self._P, self._N = float(weight[positive].sum()), float(weight[~positive].sum())
        assert solver.inner_iterations is not None
        self._inner_iterations = solver.inner_iterations
        self._ordinary: list[Contender] = []
        self._names: list[str] = []
        self._starts: list[str] = []
        self._relaxed: list[bool] = []
        self._descent: Descent

    # --- the start --------------------------------------------------------------------------

    def start(self, take: str | None = None) -> Progress:
        """Train ordinarily and start the bundle from there."""
        if self.solver.start == "logistic":
            kinds = ordinary_models(self.problem, self.module)
        else:
            point = self.problem.judge.operating_point(self.module)
            weights = {k: v.clone() for k, v in self.module.state_dict().items()}
            kinds = [[Contender("the start", point, weights)]]
        self._ordinary = list(chain.from_iterable(kinds))
        goal, best = self.problem.goal, [best_of(self._ordinary)]
        columns = columns_from(self.solver, self.module, goal, [best_of(k) for k in kinds], best)
        if take is not None:  # from whichever start it took
            every = columns_from(self.solver, self.module, goal, self._ordinary, self._ordinary)
            columns = [c for c in every if c.name == take] or columns
        self._names = [c.name for c in columns]
        self._starts = [c.start.name for c in columns]
        seed = int(torch.randint(2**31, (1,)))
        starts = [start_of(c, self.solver, seed) for c in columns]
        self._relaxed = [c.relaxed for c in columns]
        self._begin(starts, [c.nearness for c in columns])
        self._find_origins()
        return self._progress()

    def _begin(self, starts: list[dict[str, Any]], nearness: list[float]) -> None:
        solver, problem = self.solver, self.problem
        self._descent = Descent(
            solver,
            problem.goal,
            (self._P, self._N),
            self.module,
            starts,
            nearness,
            solver.lr or usual_rate(self.module, problem.X.shape[1]),
            solver.outer_iterations * self._inner_iterations,
        )

    @property
    def _bundle(self) -> Bundle:
        return self._descent.bundle

    # --- an outer iteration -----------------------------------------------------------------

    def advance(self, iteration: int) -> Progress:
        """Take ``inner_iterations`` steps with a growing lambda, then find the thresholds."""
        problem = self.problem
        # In place: the next look finds scores of its own, and these are the largest array.
        logits = self._scores.sub_(self._bundle.origins.to(self._scores)[:, None])
        chosen = near(problem.positive, problem.sample_weight, logits, self.solver.rows)
        descent, batch = self._descent, self._work_on(chosen)
        self._ordinary = []
        if on_device(descent, problem.goal):
            counted = chosen.counted
            DeviceSteps(descent, problem.goal, batch, counted, self._least_tp, self._most_fp).run(
                self._inner_iterations
            )
        else:
            self._take_steps(batch)
        self._find_origins()
        if iteration == self.solver.outer_iterations:
            self._settle()
        return self._progress()

    def _take_steps(self, batch: Batch) -> None:
        descent = self._descent
        for _ in range(self._inner_iterations):
            margins = descent.margins(batch)
            counts = self._count(margins)
            descent.follow(counts)
            descent.push(batch, margins, counts)
            descent.step()

    def _work_on(self, chosen: WorkingSet) -> Batch:
        batch = self._descent.batch(self.problem.X[chosen.rows], chosen.sign, chosen.weight)
        self._counted = (batch.classes * chosen.counted.to(batch.classes)).T.contiguous()
        # TP = rest + right positives;  FP = rest + all negatives that count - right negatives
        self._least_tp = chosen.rest_tp.double().cpu().numpy()
        counted_N = float(chosen.counted[chosen.sign < 0].sum())
        self._most_fp = chosen.rest_fp.double().cpu().numpy() + counted_N
        return batch

    def _count(self, margins: Tensor) -> Counts:
        """Count what the models do now."""
        right = (margins.sign().relu_() @ self._counted).double().cpu().numpy()
        return Counts(self._least_tp + right[:, 0], self._most_fp - right[:, 1])

    def _settle(self) -> None:
        """Let exact line searches settle the best models, if they are linear and rows few."""
        alive = self._alive.nonzero().flatten().tolist()
        effort = self.solver.line_search
        if isinstance(self._bundle, LinearBundle) and search_lines(
            self.problem, self._bundle, self._points, alive, effort
        ):
            self._find_origins()

    # --- looks ------------------------------------------------------------------------------

    def _find_origins(self) -> None:
        """Make each model's threshold on the training rows the origin of its logits.

        It is the exact one, or, where a model may break the goal on its way, the one where lambda
        weighs what is broken.
        """
        self._scores = self._bundle.scores(self.problem.X)
        self._alive = ~self._scores.isnan().any(dim=1)
        if not self._alive.any():
            raise DivergedError("the models' scores are not numbers; try a lower learning rate.")
        self._scores[~self._alive] = 0.0  # a diverged model ends nobody's training but its own
        self._points = [self.problem.point_of(own) for own in self._scores]
        held = [
            penalised_point(self.problem, own, self._descent.lam) if relaxed else point
            for own, point, relaxed in zip(self._scores, self._points, self._relaxed, strict=True)
        ]
        origins = torch.tensor([p.threshold for p in held], dtype=torch.float64)
        self._bundle.origins.copy_(origins)
        self._at = Counts(np.array([p.tp for p in held]), np.array([p.fp for p in held]))

    def _progress(self) -> Progress:
        """Return lambda and the least loss of all models, at their origins, on all rows."""
        problem, descent = self.problem, self._descent
        like = self._bundle.origins
        losses = like.new_zeros(len(like), dtype=torch.float64)
        for start in range(0, len(problem.X), _BLOCK):  # the loss has many parts, each of this size
            rows = slice(start, start + _BLOCK)
            positive = problem.positive[rows]
            classes = torch.stack([positive, ~positive]).to(like)
            margins = (self._scores[:, rows] - like.to(self._scores)[:, None]).to(like)
            margins.mul_(classes[0] - classes[1])
            share = problem.sample_weight[rows] / self._P
            losses += descent.losses(margins, classes, share, self._at)
        return Progress(descent.lam, float(losses.min()))

    def contenders(self) -> list[Contender]:
        """Return the ordinary models at the start, and the goal-trained ones after it."""
        if self._ordinary:
            return self._ordinary
        points, judge = dict(enumerate(self._points)), self.problem.judge
        alive = [k for k in points if self._alive[k]]
        if judge is not self.problem:
            scores = self._bundle.scores(judge.X)
            points = {k: judge.point_of(scores[k]) for k in alive}
        # The module may round otherwise than the bundle: the point of the leader must be its own.
        own: set[int] = set()
        while (leader := max(alive, key=lambda k: standing(points[k]))) not in own:
            self.module.load_state_dict(self._bundle.weights(leader))
            points[leader] = judge.operating_point(self.module)
            own.add(leader)
        return [
            Contender(self._names[k], points[k], self._bundle.weights(k), self._starts[k])
            for k in alive
        ]

    # --- interruption -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the models and how far they are."""
        known = {"names": self._names, "starts": self._starts, "relaxed": self._relaxed}
        return {**known, **self._descent.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._names, self._starts = state["names"], state["starts"]
        self._relaxed = state["relaxed"]
        k = len(self._names)
        self._begin([self.module.state_dict()] * k, [0.0] * k)
        self._descent.load_state_dict(state)
        self._find_origins()
