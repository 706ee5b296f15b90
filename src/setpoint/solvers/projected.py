"""The exact penalty method with the lifted variables eliminated: the default solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setpoint.capped_loss import capped_loss, capped_slope, prices
from setpoint.errors import DivergedError
from setpoint.models import is_linear
from setpoint.solvers.base import Progress
from setpoint.solvers.bundle import Bundle, LinearBundle, make_bundle
from setpoint.solvers.candidates import Contender, standing
from setpoint.solvers.line_search import explore, polish
from setpoint.solvers.ordinary import best_of, ordinary_models
from setpoint.solvers.problem import Problem
from setpoint.solvers.working_set import WorkingSet, near

_RANDOM_DIRECTIONS = 16
_FEWEST_ROUNDS, _MOST_ROUNDS = 10, 30


@dataclass(frozen=True)
class Projected:
    """Minimise  (1/P) sum_i w_i min(fight_i, give_up_i) + nearness/2 |theta - theta_0|^2.

    fight_i and give_up_i are the two sides of :func:`setpoint.capped_loss.capped_loss`. lambda
    grows geometrically from step to step. The prices follow the counts of every step, the
    multipliers the violations. After each outer iteration every model's exact threshold becomes
    the origin of its logits.

    Several models train at once, one for each start and nearness, and some from disturbed starts.

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
    dual_rate : float
        Step size of the multipliers: in one step they change by at most this factor of e.
    nearness : tuple of float
        Strengths of staying near the start, 0 for none.
    restarts : int or None
        Further models from disturbed starts, for linear models only. None: eight on problems of
        at most 2,000 rows, two on larger ones.
    spread : float
        Size of the largest disturbance, relative to the start.
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
    dual_rate: float = 0.1
    nearness: tuple[float, ...] = (0.0, 0.1, 1.0)
    restarts: int | None = None
    spread: float = 1.0
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
        return ProjectedRun(self.settle(problem), problem, module)


class _Column(NamedTuple):
    """How one model of the bundle is trained."""

    name: str
    start: Contender
    nearness: float
    restart: int = 0


def _usual_rate(module: nn.Module, n_features: int) -> float:
    """Return a learning rate; Adam moves every weight by it, so a logit by as much per feature."""
    return 0.1 * min(1.0, 100 / n_features) if is_linear(module) else 2e-3


def _after(start: Contender) -> str:
    return f"goal-trained from {start.name.removeprefix('logistic regression, ')}"


class ProjectedRun:
    """The eliminated form at work on a bundle of models."""

    def __init__(self, solver: Projected, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        weight, positive = problem.sample_weight, problem.positive
        self._P, self._N = float(weight[positive].sum()), float(weight[~positive].sum())
        self._lr = solver.lr or _usual_rate(module, problem.X.shape[1])
        assert solver.inner_iterations is not None
        self._inner_iterations = solver.inner_iterations
        self._ordinary: list[Contender] = []
        self._names: list[str] = []
        self._starts: list[str] = []
        self._bundle: Bundle
        self._step_count = 0

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
        columns = self._columns([best_of(kind) for kind in kinds], [best_of(self._ordinary)])
        if take is not None:  # from whichever start it took
            every = self._columns(self._ordinary, self._ordinary)
            columns = [c for c in every if c.name == take] or columns
        self._names = [c.name for c in columns]
        self._starts = [c.start.name for c in columns]
        self._seed = int(torch.randint(2**31, (1,)))
        self._begin([self._start_of(c) for c in columns], [c.nearness for c in columns])
        return self._progress()

    def _columns(self, starts: list[Contender], disturbed: list[Contender]) -> list[_Column]:
        """Return the models to train from these starts, the simplest first."""
        columns = []
        for start in starts:
            for nearness in sorted(self.solver.nearness, reverse=True):
                held = f"; nearness {nearness:g}" if nearness else ""
                columns.append(_Column(_after(start) + held, start, nearness))
        if is_linear(self.module):
            numbers = range(1, (self.solver.restarts or 0) + 1)
            columns += [
                _Column(f"{_after(start)}; restart {i}", start, 0.0, restart=i)
                for start in disturbed
                for i in numbers
            ]
        return columns

    def _start_of(self, column: _Column) -> dict[str, Any]:
        weights = column.start.weights
        if not column.restart:
            return weights
        w = weights["weight"]
        # The same number is the same disturbance, whatever else is trained.
        generator = torch.Generator().manual_seed(self._seed + column.restart)
        noise = torch.randn(w.shape, dtype=torch.float64, generator=generator).to(w)
        size = self.solver.spread * column.restart / (self.solver.restarts or 1)
        return {**weights, "weight": w + size * w.norm() / w.numel() ** 0.5 * noise}

    def _begin(self, starts: list[dict[str, Any]], nearness: list[float]) -> None:
        self._bundle = make_bundle(self.module, starts)
        self._nearness = torch.tensor(nearness).to(self._bundle.origins)
        self._multipliers = np.ones((len(self.problem.goal.constraints), len(starts)))
        self._optimizer = torch.optim.Adam(self._bundle.parameters, lr=self._lr, fused=True)
        self._find_origins()

    # --- an outer iteration -----------------------------------------------------------------

    def advance(self, iteration: int) -> Progress:
        """Take ``inner_iterations`` steps with a growing lambda, then find the thresholds."""
        problem = self.problem
        logits = self._scores - self._bundle.origins.to(self._scores)[:, None]
        self._work_on(near(problem.positive, problem.sample_weight, logits, self.solver.rows))
        self._ordinary = []
        for _ in range(self._inner_iterations):
            self._step()
        self._find_origins()
        if iteration == self.solver.outer_iterations:
            self._search_lines()
        return self._progress()

    def _work_on(self, chosen: WorkingSet) -> None:
        like = self._bundle.origins
        self._X = self._bundle.prepare(self.problem.X[chosen.rows])
        self._sign = chosen.sign.to(like)
        self._signed_share = (chosen.sign * chosen.weight / self._P).to(like)
        self._classes = torch.stack([chosen.sign > 0, chosen.sign < 0]).to(like)
        self._counted = (self._classes * chosen.counted.to(like)).T.contiguous()
        # TP = rest + right positives;  FP = rest + all negatives that count - right negatives
        self._least_tp = chosen.rest_tp.double().cpu().numpy()
        counted_N = float(chosen.counted[chosen.sign < 0].sum())
        self._most_fp = chosen.rest_fp.double().cpu().numpy() + counted_N

    def _step(self) -> None:
        solver, bundle = self.solver, self._bundle
        for group in self._optimizer.param_groups:
            group["lr"] = self._lr * (1 + math.cos(math.pi * self._elapsed)) / 2
        margins = bundle.logits(self._X).mul_(self._sign)
        self._count(margins)
        slopes = capped_slope(margins, self._prices() @ self._classes, self._lam, solver.gamma)
        bundle.backward(slopes.mul_(self._signed_share))
        bundle.hold_near(self._nearness)
        self._optimizer.step()
        self._step_count += 1

    @property
    def _elapsed(self) -> float:
        """The share of all steps that is done."""
        steps = self.solver.outer_iterations * self._inner_iterations
        return self._step_count / max(steps, 1)

    @property
    def _lam(self) -> float:
        growth = self.solver.lam_max / self.solver.lam0
        return float(self.solver.lam0 * growth**self._elapsed)

    def _count(self, margins: Tensor) -> None:
        """Count what the models do now, and let the multipliers follow the violations."""
        right = (margins.sign().relu_() @ self._counted).double().cpu().numpy()
        self._tp, self._fp = self._least_tp + right[:, 0], self._most_fp - right[:, 1]
        at = (self._tp, self._fp, self._P, self._N)
        for j, constraint in enumerate(self.problem.goal.constraints):
            with np.errstate(all="ignore"):
                missed = np.nan_to_num(constraint.shortfall(*at))
            self._multipliers[j] *= np.exp(self.solver.dual_rate * np.clip(5 * missed, -1, 1))
        np.clip(self._multipliers, 1e-3, 1e3, out=self._multipliers)

    def _prices(self) -> Tensor:
        """Return the price of a positive and of a negative, shape (k, 2)."""
        at = (self._tp, self._fp, self._P, self._N)
        worth, cost = prices(self.problem.goal, *at, self._multipliers)
        return torch.from_numpy(np.stack([worth, cost], axis=1)).to(self._bundle.origins)

    def _search_lines(self) -> None:
        """Settle the best models by exact line searches, as far as the effort allows."""
        if not isinstance(self._bundle, LinearBundle):
            return
        problem, ranks = self.problem, [standing(p) for p in self._points]
        X = problem.X.double().cpu().numpy()
        labels = problem.positive.cpu().numpy(), problem.sample_weight.double().cpu().numpy()
        pairs = len(X) * (X.shape[1] + _RANDOM_DIRECTIONS + 1)  # considered in one round
        rounds = self.solver.line_search // pairs
        models = min(len(ranks), rounds // _FEWEST_ROUNDS)
        if models == 0:
            return
        each = min(rounds // models, _MOST_ROUNDS)
        rng = np.random.default_rng(int(torch.randint(2**31, (1,))))
        alive = [k for k in range(len(ranks)) if self._alive[k]]
        for k in sorted(alive, key=ranks.__getitem__, reverse=True)[:models]:
            w, threshold = self._weights_in_double(k), self._points[k].threshold
            ranks[k] = self._take_over(
                k, polish(w, threshold, X, *labels, problem.goal, rng, each, _RANDOM_DIRECTIONS)
            )
        best = max(alive, key=ranks.__getitem__)
        w, left = self._weights_in_double(best), rounds - models * each
        self._take_over(best, explore(w, X, *labels, problem.goal, rng, left, _RANDOM_DIRECTIONS))
        self._find_origins()

    def _weights_in_double(self, k: int) -> NDArray[np.float64]:
        assert isinstance(self._bundle, LinearBundle)
        return np.asarray(self._bundle.matrix[k].double().cpu().numpy())

    def _take_over(self, k: int, found: NDArray[np.float64]) -> tuple[float, ...]:
        """Give model k these weights if they are as good when rounded; return how good it is."""
        assert isinstance(self._bundle, LinearBundle)
        problem, matrix = self.problem, self._bundle.matrix
        rounded = torch.from_numpy(found).to(matrix)
        old, new = (
            standing(problem.point_of(problem.X @ w.to(problem.X))) for w in (matrix[k], rounded)
        )
        if new >= old:
            matrix[k] = rounded
        return max(old, new)

    # --- looks ------------------------------------------------------------------------------

    def _find_origins(self) -> None:
        """Make each model's exact threshold on the training rows the origin of its logits."""
        self._scores = self._bundle.scores(self.problem.X)
        self._alive = ~self._scores.isnan().any(dim=1)
        if not self._alive.any():
            raise DivergedError("the models' scores are not numbers; try a lower learning rate.")
        self._scores[~self._alive] = 0.0  # a diverged model ends nobody's training but its own
        self._points = [self.problem.point_of(own) for own in self._scores]
        origins = torch.tensor([p.threshold for p in self._points], dtype=torch.float64)
        self._bundle.origins.copy_(origins)

    def _progress(self) -> Progress:
        """Return lambda and the least loss of all models, at their origins, on all rows."""
        problem, gamma = self.problem, self.solver.gamma
        self._tp = np.array([p.tp for p in self._points])
        self._fp = np.array([p.fp for p in self._points])
        like = self._bundle.origins
        classes = torch.stack([problem.positive, ~problem.positive]).to(like)
        margins = (self._scores - like.to(self._scores)[:, None]).to(like)
        margins.mul_(classes[0] - classes[1])
        losses = capped_loss(margins, self._prices() @ classes, self._lam, gamma)
        share = (problem.sample_weight / self._P).to(losses)
        return Progress(self._lam, float((losses @ share).min()))

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
        """Return the bundle, Adam's moments and the multipliers."""
        return {
            "names": self._names,
            "starts": self._starts,
            "nearness": self._nearness,
            "bundle": self._bundle.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "multipliers": torch.from_numpy(self._multipliers),
            "step_count": self._step_count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._names, self._starts = state["names"], state["starts"]
        k = len(self._names)
        self._begin([self.module.state_dict()] * k, [0.0] * k)
        self._nearness = state["nearness"]
        self._bundle.load_state_dict(state["bundle"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._multipliers = state["multipliers"].numpy()
        self._step_count = state["step_count"]
        self._find_origins()
