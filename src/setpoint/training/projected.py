"""The exact penalty method with the lifted variables eliminated: the default solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.errors import DivergedError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.bundle import Bundle, LinearBundle
from setpoint.training.candidates import Contender, standing
from setpoint.training.descent import Batch, Columns, Counts, Descent, usual_rate
from setpoint.training.gpu.steps import DeviceSteps, on_device
from setpoint.training.line_search import search_lines
from setpoint.training.loop import Progress
from setpoint.training.models import is_linear
from setpoint.training.ordinary import best_of, judged, ordinary_models
from setpoint.training.problem import Problem, penalised_point
from setpoint.training.starts import Column, columns_from, start_of
from setpoint.training.working_set import WorkingSet, near

_MOST_WORKING_SETS = {"cpu": 2, "cuda": 4}  # for several goals: rows cost a GPU little


@dataclass(frozen=True)
class Projected:
    """Minimise  (1/P) sum_i w_i min(fight_i, give_up_i) + nearness/2 |theta - theta_0|^2.

    fight_i and give_up_i are the two sides of :func:`setpoint.method.capped_loss`. lambda
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


_SCORES = 2**24  # numbers that a look keeps in memory
_BLOCK = {"cpu": 2**16, "cuda": 2**20}  # rows of a block: a GPU has much memory and likes few


class ProjectedRun:
    """The eliminated form at work on a bundle of models.

    Parameters
    ----------
    solver : Projected
        Settled.
    problems : sequence of Problem
        One for each goal; they have their rows in common. Each gets models of its own, all in one
        bundle.
    module : nn.Module
        Whose copies are trained.
    """

    def __init__(self, solver: Projected, problems: Sequence[Problem], module: nn.Module) -> None:
        self.solver, self.problems, self.module = solver, problems, module
        self.problem = problem = problems[0]  # for its rows, which all have
        weight, positive = problem.sample_weight, problem.positive
        self._P, self._N = float(weight[positive].sum()), float(weight[~positive].sum())
        assert solver.inner_iterations is not None
        self._inner_iterations = solver.inner_iterations
        self._ordinary: list[list[Contender]] = []  # by goal
        self._goal_of: list[int] = []  # by model, as the next three
        self._names: list[str] = []
        self._starts: list[str] = []
        self._relaxed: list[bool] = []
        self._descent: Descent

    # --- the start --------------------------------------------------------------------------

    def start(self, take: str | None = None) -> Progress:
        """Train ordinarily and start the bundle from there."""
        columns: list[Column] = []
        for goal, kinds in enumerate(self._ordinary_models()):
            own = self._columns(self.problems[goal].goal, kinds, take)
            self._ordinary.append(list(chain.from_iterable(kinds)))
            self._goal_of += [goal] * len(own)
            columns += own
        self._names = [c.name for c in columns]
        self._starts = [c.start.name for c in columns]
        seed = int(torch.randint(2**31, (1,)))
        starts = [start_of(c, self.solver, seed) for c in columns]
        self._relaxed = [c.relaxed for c in columns]
        self._begin(starts, [c.nearness for c in columns])
        self._find_origins()
        return self.progress_of(0)

    def _ordinary_models(self) -> Iterator[list[list[Contender]]]:
        """Yield the ordinary models by kind, as each goal sees them; they are trained once."""
        if self.solver.start == "logistic":
            kinds = ordinary_models(self.problem, self.module)
        else:
            point = self.problem.judge.operating_point(self.module)
            weights = {k: v.clone() for k, v in self.module.state_dict().items()}
            kinds = [[Contender("the start", point, weights)]]
        yield kinds
        for problem in self.problems[1:]:
            yield [judged(kind, problem, self.module) for kind in kinds]

    def _columns(self, goal: Goal, kinds: list[list[Contender]], take: str | None) -> list[Column]:
        """Return the models to train for a goal."""
        ordinary = list(chain.from_iterable(kinds))
        starts, disturbed = [best_of(kind) for kind in kinds], [best_of(ordinary)]
        columns = columns_from(self.solver, self.module, goal, starts, disturbed)
        if take is not None:  # from whichever start it took
            every = columns_from(self.solver, self.module, goal, ordinary, ordinary)
            columns = [c for c in every if c.name == take] or columns
        return columns

    def _begin(self, starts: list[dict[str, Any]], nearness: list[float]) -> None:
        solver, problem = self.solver, self.problem
        self._descent = Descent(
            solver,
            [self.problems[g].goal for g in self._goal_of],
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
        chosen = near(problem.positive, problem.sample_weight, self._distance, self.solver.rows)
        descent, batch = self._descent, self._work_on(chosen)
        self._ordinary = []
        if on_device(descent):
            counted = chosen.counted
            DeviceSteps(descent, batch, counted, self._least_tp, self._most_fp).run(
                self._inner_iterations
            )
        else:
            self._take_steps(batch)
        self._find_origins()
        if iteration == self.solver.outer_iterations:
            self._settle()
        return self.progress_of(0)

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
        # TP = rest + right positives;  FP = rest + all negatives that count - right negatives,
        # where the rest counts what is left of the look's counts.
        if chosen.whole:
            nothing = np.zeros(len(self._names))
            self._least_tp, self._most_fp = nothing, nothing + self._N
        else:
            right = self._right(self._descent.margins(batch))
            self._least_tp, self._most_fp = self._at.tp - right[:, 0], self._at.fp + right[:, 1]
        return batch

    def _right(self, margins: Tensor) -> Columns:
        """Return how many positives and negatives that count each model has right."""
        right = margins.sign().relu_() @ self._counted
        return np.asarray(right.double().cpu().numpy())

    def _count(self, margins: Tensor) -> Counts:
        """Count what the models do now."""
        right = self._right(margins)
        return Counts(self._least_tp + right[:, 0], self._most_fp - right[:, 1])

    def _settle(self) -> None:
        """Let exact line searches settle the best models, if they are linear and rows few."""
        bundle, effort = self._bundle, self.solver.line_search
        if not isinstance(bundle, LinearBundle):
            return
        seed = int(torch.randint(2**31, (1,)))
        found = [
            search_lines(problem, bundle, self._points, self._alive_for(g), effort, seed)
            for g, problem in enumerate(self.problems)
        ]
        if any(found):
            self._find_origins()

    # --- looks ------------------------------------------------------------------------------

    def _find_origins(self) -> None:
        """Make each model's threshold on the training rows the origin of its logits.

        It is the exact one, or, where a model may break the goal on its way, the one where lambda
        weighs what is broken.
        """
        self._distance = self._bundle.origins.new_zeros(0)  # make room
        X, alive = self.problem.X, []
        held: list[OperatingPoint] = []
        self._points = []
        size = max(1, _SCORES // len(X))  # models whose scores are in memory at a time
        kept = self._bundle.scores(X) if len(self._names) <= size else None
        for g, problem in enumerate(self.problems):
            models = self._models_of(g)
            for first in range(models.start, models.stop, size):
                some = slice(first, min(first + size, models.stop))
                scores = self._bundle.scores(X, some) if kept is None else kept[some]
                alive += _silenced(scores)
                points = problem.points_of(scores)
                self._points += points
                held += [
                    penalised_point(problem, own, self._descent.lam) if relaxed else point
                    for own, point, relaxed in zip(scores, points, self._relaxed[some], strict=True)
                ]
        self._alive = torch.tensor(alive)
        if not all(self._alive_for(g) for g in range(len(self.problems))):
            raise DivergedError("the models' scores are not numbers; try a lower learning rate.")
        origins = torch.tensor([p.threshold for p in held], dtype=torch.float64)
        self._bundle.origins.copy_(origins)
        self._at = Counts(np.array([p.tp for p in held]), np.array([p.fp for p in held]))
        self._measure(kept)

    def _measure(self, scores: Tensor | None) -> None:
        """Find each model's loss on all rows, and how far each row is from the nearest origin.

        Scores are computed anew, in blocks, if they were too many to keep.
        """
        problem, descent, bundle = self.problem, self._descent, self._bundle
        like = bundle.origins
        losses = like.new_zeros(len(like), dtype=torch.float64)
        distance: Tensor | None = None
        size = _BLOCK[like.device.type]
        for start in range(0, len(problem.X), size):
            rows = slice(start, start + size)
            if scores is None:
                own = bundle.scores(problem.X[rows])
                _silenced(own)
            else:
                own = scores[:, rows]
            above = own - like.to(own)[:, None]
            if distance is None:
                distance = own.new_empty(len(problem.X))
            distance[rows] = above.abs().amin(dim=0)
            positive = problem.positive[rows]
            classes = torch.stack([positive, ~positive]).to(like)
            margins = above.to(like).mul_(classes[0] - classes[1])
            share = problem.sample_weight[rows] / self._P
            losses += descent.losses(margins, classes, share, self._at)
        assert distance is not None  # there are rows
        self._losses, self._distance = losses.cpu(), distance

    def _models_of(self, goal: int) -> slice:
        """Return the models of a goal, which follow one another."""
        begin = self._goal_of.index(goal)
        return slice(begin, begin + self._goal_of.count(goal))

    def _alive_for(self, goal: int) -> list[int]:
        """Return the models of a goal that have not diverged."""
        models = self._models_of(goal)
        alive = self._alive[models].nonzero().flatten() + models.start
        return [int(k) for k in alive]

    def progress_of(self, goal: int) -> Progress:
        """Return lambda and the least loss of a goal's models."""
        return Progress(self._descent.lam, float(self._losses[self._models_of(goal)].min()))

    def contenders(self) -> list[Contender]:
        """Return those of the first goal, which is the only one but for ``solve_goals``."""
        return self.contenders_of(0)

    def contenders_of(self, goal: int) -> list[Contender]:
        """Return the ordinary models at the start, and the goal-trained ones after it."""
        if self._ordinary:
            return self._ordinary[goal]
        judge, alive = self.problems[goal].judge, self._alive_for(goal)
        points = {k: self._points[k] for k in alive}
        if self.problem.judged_apart:
            models = self._models_of(goal)
            scores = self._bundle.scores(judge.X, models)[[k - models.start for k in alive]]
            points = dict(zip(alive, judge.points_of(scores), strict=True))
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
        self._goal_of = [0] * k  # only a training for one goal is taken up
        self._begin([self.module.state_dict()] * k, [0.0] * k)
        self._descent.load_state_dict(state)
        self._find_origins()


def _silenced(scores: Tensor) -> list[bool]:
    """Set models that diverged to zero, in place, and return which have not.

    A diverged model ends nobody's training but its own.
    """
    alive: list[bool] = (~scores.isnan().any(dim=1)).tolist()
    if not all(alive):
        scores[~torch.tensor(alive, device=scores.device)] = 0.0
    return alive


# DOC of solvers.projected_run: The projected solver at work.
