"""The exact penalty method with the lifted variables eliminated: the default solver.

A run trains ordinary models first and starts a bundle of variants from the best of them. Each outer
iteration takes steps on a working set of the rows (:mod:`setpoint.training.descent`) and then finds
every model's exact threshold on all rows, which becomes the origin of its logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from setpoint._internal.renamed import renamed_parameters
from setpoint.errors import DivergedError
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.bundle import FEW, Bundle, LinearBundle
from setpoint.training.candidates import TrainedModel, best_of
from setpoint.training.descent import (
    Counts,
    Descent,
    WorkingCounts,
    classes_of,
    take_steps,
    usual_rate,
)
from setpoint.training.gpu import projected_steps, sizes_for
from setpoint.training.line_search import rounds_for, search_lines
from setpoint.training.linear_steps import take_linear_steps
from setpoint.training.loop import Progress, check_parameters
from setpoint.training.models import is_linear
from setpoint.training.ordinary import FEW_ROWS, Variant, start_of, starting_models, variants_of
from setpoint.training.problem import Problem
from setpoint.training.working_set import near


@renamed_parameters(nearness="proximity")
@dataclass(frozen=True)
class Projected:
    """Minimise  (1/P) sum_i w_i min(keep_i, give_up_i) + proximity/2 |theta - theta_0|^2.

    keep_i and give_up_i are the two branches of :func:`setpoint.method.capped_loss`. lambda
    grows geometrically from step to step. The prices follow the counts of every step, the
    multipliers the violations. After each outer iteration every model's exact threshold becomes
    the origin of its logits.

    Several models train at once: one for each start and proximity, one for each start and further
    gamma, restarts from perturbed weights and, where the goal has constraints, one for each start
    that may violate them while it trains. A poor model may meet the goal for a few cases only, and
    training that begins there stays there.

    Parameters
    ----------
    lam0, lam_max : float or None
        First and last lambda. None: 1 and 1,000; in a long training of a linear model 0.1 and 100.
    gamma : float, tuple of float or None
        Strengths of the regulariser psi. The first is that of all models but one for each start,
        without proximity, for every further one. None: 0.1; in a long training also 0.01.
    outer_iterations, inner_iterations : int or None
        Evaluations on all rows, and steps of Adam between two of them. None: for a linear model 8
        and 40 on problems of at most 2,000 rows, where restarts and line searches improve on any
        start; on larger ones 4 and 40 with validation rows and, in a long training, 40 and 100
        without. For any other model 8 and 40 with validation rows and, in a long training, 15 and
        60 without.
    lr : float or None
        Adam's learning rate, which falls to zero on a cosine over the run. None: for a linear model
        0.1, and less with more than 100 features; 2e-3 for any other.
    dual_rate : float or None
        Step size of the multipliers: one step changes them by a factor of at most exp(dual_rate).
        None: 0.1 for a linear model, 0.03 for any other.
    proximity : tuple of float
        Strengths of the regularisation towards the start, 0 for none.
    restarts : int or None
        Further models from perturbed starts, for linear models only. None: eight on problems of
        at most 2,000 rows; on larger ones two, or none with validation rows.
    spread : float
        Size of the largest perturbation, relative to the start.
    relaxed : bool
        Whether, where the goal has constraints, a further model for each start may violate them
        while it trains.
    line_search : int
        How many changed decisions exact line searches on the counts may consider at the end, for
        linear models. With validation rows at most 300,000, and none on more than 2,000 rows.
    start : {"logistic", "given"}
        Where models start: after ordinary training (a linear one from the best plain, balanced and
        cost-weighted logistic regression and the best cost-weighted hinge model), or at the
        module's own weights.
    rows : int or None
        Size of the working set; larger problems train on the rows near a threshold and a sample
        of the rest. None: 40,000, for linear models with validation rows 20,000. Several goals at
        once have up to twice as many, on a GPU up to four times.
    """

    lam0: float | None = None
    lam_max: float | None = None
    gamma: float | tuple[float, ...] | None = None
    outer_iterations: int | None = None
    inner_iterations: int | None = None
    lr: float | None = None
    dual_rate: float | None = None
    proximity: tuple[float, ...] = (0.0, 1.0)
    restarts: int | None = None
    spread: float = 1.0
    relaxed: bool = True
    line_search: int = 60_000_000
    start: Literal["logistic", "given"] = "logistic"
    rows: int | None = None

    def __post_init__(self) -> None:
        check_parameters(
            self,
            choices={"start": ("logistic", "given")},
            positive=("lam0", "lam_max", "lr", "dual_rate"),
            not_negative=(
                "outer_iterations",
                "gamma",
                "spread",
                "line_search",
                "proximity",
                "restarts",
            ),
            least={"inner_iterations": 1, "rows": 2},
        )

    @property
    def gammas(self) -> tuple[float, ...]:
        """``gamma`` as a tuple; the solver must be settled."""
        assert self.gamma is not None
        return self.gamma if isinstance(self.gamma, tuple) else (self.gamma,)

    def settle(self, problem: Problem, module: nn.Module) -> Projected:
        """Return the solver with numbers in place of None, as they suit problem and module."""
        few, selects = len(problem.X) <= FEW_ROWS, problem.has_validation
        if is_linear(module):
            usual = _FEW_ROWS if few else _SELECTION if selects else _LONG
        else:
            usual = _NETWORK if selects else _LONG_NETWORK
        unset = {name: value for name, value in usual.items() if getattr(self, name) is None}
        search = self.line_search
        if selects:  # a long search gains little here
            search = min(search, _SEARCHED_TO_SELECT) if few else 0
        return replace(self, **unset, line_search=search)

    def prepare(self, problem: Problem, module: nn.Module) -> ProjectedRun:
        """Return a run. Supports every goal."""
        return ProjectedRun(self.settle(problem, module), problem, module)


def _settings(outer: int, inner: int, **others: Any) -> dict[str, Any]:
    usual = {"lam0": 1.0, "lam_max": 1000.0, "gamma": (0.1,), "dual_rate": 0.1, "restarts": 0}
    iterations = {"outer_iterations": outer, "inner_iterations": inner}
    return {**usual, "rows": 40_000, **iterations, **others}


_SELECTION = _settings(4, 40, rows=20_000)
_FEW_ROWS = _settings(8, 40, restarts=8)
_LONG = _settings(40, 100, lam0=0.1, lam_max=100.0, gamma=(0.1, 0.01), restarts=2)
# A model that can do more needs smaller steps: it would follow every swing.
_NETWORK = _settings(8, 40, dual_rate=0.03)
_LONG_NETWORK = _settings(15, 60, gamma=(0.1, 0.01), dual_rate=0.03)
_SEARCHED_TO_SELECT = 300_000


class _Record(NamedTuple):
    """A linear model and its operating point on the training rows."""

    point: OperatingPoint
    weight: Tensor
    name: str
    start: str


_SCORES = 2**24  # scores that an evaluation keeps in memory


class ProjectedRun:
    """The projected solver at work for one goal. ``solver`` must be settled."""

    def __init__(self, solver: Projected, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        self._totals = problem.totals
        assert solver.inner_iterations is not None
        assert solver.outer_iterations is not None
        assert solver.rows is not None
        self._inner_iterations = solver.inner_iterations
        self._outer_iterations = solver.outer_iterations
        self._rows = solver.rows
        self._ordinary: list[TrainedModel] = []  # until the first outer iteration
        self._names: list[str] = []  # of each model, as the next two
        self._starts: list[str] = []
        self._relaxed: list[bool] = []
        self._best: _Record | None = None  # of the models so far
        self._records = False  # whether it is kept, for the line searches at the end
        self._descent: Descent
        self._bundle: Bundle

    # --- the start --------------------------------------------------------------------------

    def start(self, take: str | None = None) -> Progress:
        """Train ordinarily and start the variants from there."""
        variants = self._plan(take)
        seed = int(torch.randint(2**31, (1,)))
        starts = [start_of(v, self.solver, seed) for v in variants]
        self._begin(starts, [v.proximity for v in variants], [v.gamma for v in variants])
        self._find_thresholds()
        return self._progress()

    def _plan(self, take: str | None) -> list[Variant]:
        """Train the ordinary models, and return the variants to train from them."""
        (kinds,) = starting_models(self.solver.start, [self.problem], self.module, take)
        return self.variants(kinds, take)

    def variants(
        self, kinds: Sequence[Sequence[TrainedModel]], take: str | None = None
    ) -> list[Variant]:
        """Return the models to train from ordinary ones."""
        self._ordinary = list(chain.from_iterable(kinds))
        # A model that is wanted, or that validation rows chose, must not give way to another.
        self._records = self._searches and take is None and not self.problem.has_validation
        if self._records:
            best = best_of(self._ordinary)
            self._remember(best.point, best.weights["weight"], best.name, best.name)
        variants = variants_of(self.solver, self.module, self.problem.goal, kinds, take)
        self._names = [v.name for v in variants]
        self._starts = [v.start.name for v in variants]
        self._relaxed = [v.relaxed for v in variants]
        return variants

    def _begin(
        self, starts: list[dict[str, Any]], proximity: list[float], gamma: list[float]
    ) -> None:
        solver, module = self.solver, self.module
        X = self.problem.X
        lr = solver.lr or usual_rate(module, X.shape[1])
        steps = self._outer_iterations * self._inner_iterations
        self._descent = self._descent_for(
            solver, self._totals, module, starts, proximity, gamma, lr, steps, X[:FEW]
        )
        self._bundle = self._descent.bundle
        usual = take_linear_steps if self._descent.steps_without_optimizer else take_steps
        self._take_steps = projected_steps(self._descent) or usual

    def _descent_for(self, *arguments: Any) -> Descent:
        return Descent(self.problem.goal, *arguments)

    # --- an outer iteration -----------------------------------------------------------------

    def advance(self, iteration: int) -> Progress:
        """Take ``inner_iterations`` steps with a growing lambda, then find the thresholds."""
        self._ordinary = []
        problem, descent = self.problem, self._descent
        chosen = near(problem.positive, problem.sample_weight, self._distance, self._rows)
        factors = None if problem.factors is None else problem.factors[chosen.rows]
        batch = descent.batch(problem.X[chosen.rows], chosen.sign, chosen.weight, factors)
        counts = WorkingCounts(descent, batch, chosen, self._at)
        self._take_steps(descent, batch, counts, self._inner_iterations)
        self._find_thresholds()
        if self._searches and iteration == self._outer_iterations:
            self.search_lines(int(torch.randint(2**31, (1,))))
            self._find_thresholds()
        return self._progress()

    @property
    def _searches(self) -> bool:
        """Whether the training ends with line searches."""
        return is_linear(self.module) and rounds_for(self.problem, self.solver.line_search) > 0

    def search_lines(self, seed: int) -> None:
        """Improve the best models by exact line searches.

        The best model of the whole training takes the place of the worst one.
        """
        assert isinstance(self._bundle, LinearBundle)
        points, alive, best = self._points, self._alive, self._best
        if best and best.point.sort_key > max(points[k].sort_key for k in alive):
            worst = min(alive, key=lambda k: points[k].sort_key)
            self._bundle.matrix[worst], points[worst] = best.weight, best.point
            self._names[worst], self._starts[worst] = f"{best.name}; line search", best.start
        search_lines(self.problem, self._bundle, points, alive, self.solver.line_search, seed)

    def _remember(self, point: OperatingPoint, weight: Tensor, name: str, start: str) -> None:
        """Keep a model if it is the best so far."""
        if self._best is None or point.sort_key > self._best.point.sort_key:
            self._best = _Record(point, weight.detach().reshape(-1).clone(), name, start)

    # --- evaluation on all rows -------------------------------------------------------------

    def _find_thresholds(self) -> None:
        """Make each model's threshold on the training rows the origin of its logits."""
        self._distance = self._bundle.origins.new_zeros(0)  # free its memory
        X, k = self.problem.X, len(self._bundle.origins)
        scores = self._bundle.scores(X) if k <= _models_at_once(X) else None
        points = self.evaluate(scores, self._descent.lam)
        self._bundle.origins.copy_(torch.tensor([p.threshold for p in points], dtype=torch.float64))
        self._at = Counts.of_points(points)
        self._measure(scores)

    def evaluate(self, scores: Tensor | None, lam: float) -> list[OperatingPoint]:
        """Return each model's operating point on the training rows, at the threshold to train with.

        It is the exact one or, for a relaxed model, the one at which lambda is the price of a
        violation. Without ``scores`` they are computed for some models at a time.
        """
        problem, size = self.problem, _models_at_once(self.problem.X)
        self._points: list[OperatingPoint] = []
        used: list[OperatingPoint] = []
        alive: list[bool] = []
        for first in range(0, len(self._names), size):
            some = slice(first, first + size)
            own = self._bundle[some].scores(problem.X) if scores is None else scores[some]
            alive += _silence_diverged(own)
            relaxed = [k for k, is_relaxed in enumerate(self._relaxed[some]) if is_relaxed]
            strict = [k for k in range(len(own)) if k not in relaxed]
            # Where validation rows decide, a relaxed model needs no exact point on these.
            exact = strict if problem.has_validation else list(range(len(own)))
            points = dict(zip(exact, problem.points_of(own[exact]), strict=True))
            loose = dict(zip(relaxed, problem.points_of(own[relaxed], lam), strict=True))
            self._points += [(loose | points)[k] for k in range(len(own))]
            used += [(points | loose)[k] for k in range(len(own))]
        self._alive = [k for k, lives in enumerate(alive) if lives]
        if not self._alive:
            raise DivergedError("the models' scores are not numbers; try a lower learning rate.")
        if self._records:
            k = max(self._alive, key=lambda k: self._points[k].sort_key)
            weight = self._bundle.weights(k)["weight"]
            self._remember(self._points[k], weight, self._names[k], self._starts[k])
        return used

    def _measure(self, scores: Tensor | None) -> None:
        """Find each model's loss on all rows, and each row's distance from the nearest origin."""
        problem, descent, origins = self.problem, self._descent, self._bundle.origins
        losses = origins.new_zeros(len(origins), dtype=torch.float64)
        distance: Tensor | None = None
        size = sizes_for(origins.device).block_rows
        for start in range(0, len(problem.X), size):
            rows = slice(start, start + size)
            if scores is None:
                own = self._bundle.scores(problem.X[rows])
                _silence_diverged(own)
            else:
                own = scores[:, rows]
            above = own - origins.to(own)[:, None]
            if distance is None:
                distance = own.new_empty(len(problem.X))
            distance[rows] = above.abs().amin(dim=0)
            positive = problem.positive[rows].to(origins)
            margins = above.to(origins).mul_(2 * positive - 1)
            factors = None if problem.factors is None else problem.factors[rows]
            classes = classes_of(problem.positive[rows], origins, factors)
            weight = problem.sample_weight[rows] / float(problem.goal.plain(descent.P))
            losses += descent.losses(margins, classes, weight, self._at)
        assert distance is not None  # there are rows
        self._losses, self._distance = losses.cpu(), distance

    def _progress(self) -> Progress:
        return Progress(self._descent.lam, float(self._losses.min()))

    def models(self) -> list[TrainedModel]:
        """Return the ordinary models at the start, and the goal-trained ones after it."""
        if self._ordinary:
            return self._ordinary
        evaluation, alive = self.problem.evaluation, self._alive
        points = {k: self._points[k] for k in alive}
        if self.problem.has_validation:
            scores = self._bundle.scores(evaluation.X)[alive]
            points = dict(zip(alive, evaluation.points_of(scores), strict=True))
        # The module may round differently from the bundle: the leader's point must be its own.
        own: set[int] = set()
        while (leader := max(alive, key=lambda k: points[k].sort_key)) not in own:
            self.module.load_state_dict(self._bundle.weights(leader))
            points[leader] = evaluation.operating_point(self.module)
            own.add(leader)
        return [
            TrainedModel(self._names[k], points[k], self._bundle.weights(k), self._starts[k])
            for k in alive
        ]

    # --- interruption -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the models and how far they are."""
        best = self._best
        known = {
            "names": self._names,
            "starts": self._starts,
            "relaxed": self._relaxed,
            "best": None if best is None else (best.weight, best.name, best.start),
        }
        return {**known, **self._descent.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._names, self._starts = state["names"], state["starts"]
        self._relaxed = state["relaxed"]
        self._records = state["best"] is not None
        if self._records:
            weight, name, start = state["best"]
            point = self.problem.point_of(self.problem.X @ weight.to(self.problem.X))
            self._remember(point, weight, name, start)
        k = len(self._names)
        self._begin([self.module.state_dict()] * k, [0.0] * k, [0.0] * k)
        self._descent.load_state_dict(state)
        self._find_thresholds()


def _models_at_once(X: Tensor) -> int:
    """Return the number of models whose scores are held in memory at a time."""
    return max(1, _SCORES // len(X))


def _silence_diverged(scores: Tensor) -> list[bool]:
    """Set the scores of diverged models to zero in place; return which models have not diverged.

    A diverged model must not end the training of the others.
    """
    alive: list[bool] = (~scores.isnan().any(dim=1)).tolist()
    if not all(alive):
        scores[~torch.tensor(alive, device=scores.device)] = 0.0
    return alive
