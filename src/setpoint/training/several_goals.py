"""Several goals at once: one batched training for a whole trade-off curve.

Each goal has a :class:`setpoint.training.projected.ProjectedRun` of its own, which chooses its
models and evaluates them. The models of all runs are parts of one bundle, and the steps of that
bundle are taken together, with prices by goal.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.method.capped_loss import prices
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Selection, TrainedModel
from setpoint.training.descent import Counts, Descent, multiplier_step
from setpoint.training.gpu import sizes_for
from setpoint.training.loop import (
    Callback,
    Progress,
    Solution,
    Solver,
    average_for,
    torch_set_up_for,
    warn_of_early_end,
)
from setpoint.training.models import scores_of
from setpoint.training.ordinary import Variant, starting_models
from setpoint.training.problem import Problem
from setpoint.training.projected import Projected, ProjectedRun

Part = tuple[Goal, slice]  # a goal and its models, which follow one another in the bundle


class SeveralGoalsDescent(Descent):
    """A descent in which each part of the models has a goal of its own.

    The multipliers have as many rows as the goal with the most constraints needs; a goal with fewer
    leaves the last rows unchanged.
    """

    def __init__(self, parts: Sequence[Part], *arguments: Any) -> None:
        super().__init__(max((goal for goal, _ in parts), key=_constraints), *arguments)
        self._parts = parts

    @property
    def parts(self) -> Sequence[Part]:
        """The goals and the models of each."""
        return self._parts

    def update_multipliers(self, counts: Counts) -> None:
        """Let the multipliers follow the violations, each those of its goal."""
        for goal, own in self._parts:
            mine = Counts(counts.tp[own], counts.fp[own])
            held = self.multipliers[: _constraints(goal), own]
            multiplier_step(held, goal, mine, self.P, self.N, self.dual_rate)

    def prices(self, counts: Counts) -> Tensor:
        """Return the prices of each model, by its goal, shape (k, 2)."""
        found = []
        for goal, own in self._parts:
            held = self.multipliers[: _constraints(goal), own]
            mine = prices(goal, counts.tp[own], counts.fp[own], self.P, self.N, held)
            found.append(self._tensor(mine))
        return torch.cat(found)


def _constraints(goal: Goal) -> int:
    return len(goal.constraints)


class SeveralGoalsRun(ProjectedRun):
    """The projected solver at work for several goals. The problems differ in their goals only."""

    def __init__(self, solver: Projected, problems: Sequence[Problem], module: nn.Module) -> None:
        # Thresholds of several goals lie apart, and rows near any of them matter.
        factor = min(len(problems), sizes_for(problems[0].X.device).working_sets)
        solver = solver.settle(problems[0], module)
        assert solver.rows is not None
        solver = replace(solver, rows=solver.rows * factor)
        super().__init__(solver, problems[0], module)
        self.runs = [ProjectedRun(solver, problem, module) for problem in problems]
        self._parts: list[Part] = []

    def _plan(self, take: str | None) -> list[Variant]:
        """Train the ordinary models once, and return the variants of all goals."""
        variants: list[Variant] = []
        problems = [run.problem for run in self.runs]
        of_each = starting_models(self.solver.start, problems, self.module, take)
        for run, kinds in zip(self.runs, of_each, strict=True):
            own = run.variants(kinds, take)
            self._parts.append((run.problem.goal, slice(len(variants), len(variants) + len(own))))
            variants += own
        return variants

    def _descent_for(self, *arguments: Any) -> Descent:
        return SeveralGoalsDescent(self._parts, *arguments)

    def _begin(
        self, starts: list[dict[str, Any]], proximity: list[float], gamma: list[float]
    ) -> None:
        super()._begin(starts, proximity, gamma)
        for run, (_, own) in zip(self.runs, self._parts, strict=True):
            run._bundle = self._bundle[own]

    def advance(self, iteration: int) -> Progress:
        """Take steps for all goals, then find the thresholds of each."""
        for run in self.runs:
            run._ordinary = []
        return super().advance(iteration)

    def search_lines(self, seed: int) -> None:
        """Search for each goal."""
        for run in self.runs:
            run.search_lines(seed)

    def evaluate(self, scores: Tensor | None, lam: float) -> list[OperatingPoint]:
        """Let each goal evaluate its models."""
        used: list[OperatingPoint] = []
        for run, (_, own) in zip(self.runs, self._parts, strict=True):
            used += run.evaluate(None if scores is None else scores[own], lam)
        return used

    def models_of(self, goal: int) -> list[TrainedModel]:
        """Return the current models of a goal."""
        return self.runs[goal].models()

    def loss_of(self, goal: int) -> float:
        """Return the least loss of a goal's models."""
        return float(self._losses[self._parts[goal][1]].min())

    @property
    def lam(self) -> float:
        """The current lambda."""
        return self._descent.lam


def solve_goals(
    problem: Problem,
    goals: Iterable[str | Goal],
    module: nn.Module,
    solver: Solver,
    *,
    seed: int | None = 0,
    callback: Callback | None = None,
) -> list[Solution]:
    """Train a model for each goal, all at once, and return the solutions in the goals' order.

    Each solution is that of :func:`solve` for its goal, up to rounding, the randomness of a module
    and, where there are more rows than a working set holds, the sampled rows. At the end each goal
    may take over the model of another one that serves it better: without validation rows, a
    stricter level then never does better than a laxer one. A model taken over has the last record
    of the history.

    Ordinary training, from which all goals start, is done once. After it the linear models of all
    goals are rows of one matrix; a GPU takes hardly longer for many than for one. Interruption and
    divergence are as in :func:`solve`, for all goals together.

    Parameters
    ----------
    problem : Problem
        The rows; its own goal is ignored.
    goals : iterable of str or Goal
        What to train for, e.g. one objective under several levels of a constraint.
    module : nn.Module
        The model; the solutions' modules are copies of it.
    solver : Solver
        A :class:`setpoint.training.Projected`; other solvers train for one goal at a time.
    seed, callback
        As in :func:`solve`; the callback is called for every goal's record, in their order.

    Examples
    --------
    >>> import torch
    >>> from setpoint.training import Projected, make_problem, solve_goals
    >>> generator = torch.Generator().manual_seed(0)
    >>> y = torch.rand(500, generator=generator) < 0.2
    >>> X = torch.randn(500, 3, generator=generator) + 1.5 * y[:, None]
    >>> goals = [f"max recall s.t. precision >= {level}" for level in (0.6, 0.8, 0.95)]
    >>> short = Projected(outer_iterations=3)
    >>> found = solve_goals(make_problem(X, y, goals[0]), goals, torch.nn.Linear(3, 1), short)
    >>> [str(s.operating_point.goal) for s in found] == goals
    True
    >>> recalls = [s.operating_point.value("recall") for s in found]
    >>> recalls == sorted(recalls, reverse=True)
    True
    """
    problems = [problem.for_goal(goal) for goal in parsed_goals(goals)]
    if not isinstance(solver, Projected):
        raise SetpointError(
            f"{type(solver).__name__} trains for one goal at a time; fit each goal by itself, or "
            "take the projected solver."
        )
    module = copy.deepcopy(module)
    run = SeveralGoalsRun(solver, problems, module)
    selections = [Selection(average=average_for(own, module)) for own in problems]
    total = run.solver.outer_iterations
    assert total is not None
    finished = True

    def evaluate() -> bool:
        """Compare the current models of every goal; return whether to stop."""
        answers = []
        for i, selection in enumerate(selections):
            selection.update(run.models_of(i), run.lam, run.loss_of(i))
            answers.append(None if callback is None else callback(selection.history[-1], total))
        return "stop" in answers

    def train() -> bool:
        run.start()
        stop = evaluate()
        for iteration in range(1, total + 1):
            if stop:
                return False
            run.advance(iteration)
            stop = evaluate()
        return True

    def exchange() -> bool:
        _exchange(selections, problems, module)
        return True

    with torch_set_up_for(problem, module):
        if seed is not None:
            torch.manual_seed(seed)
        for work in (train, exchange):
            try:
                finished &= work()
            except (KeyboardInterrupt, DivergedError) as error:
                warn_of_early_end(error, [selection.history for selection in selections], total)
                finished = False
    solutions = []
    for selection in selections:
        selection.history.interrupted = not finished
        point, weights = selection.best
        own = copy.deepcopy(module)
        own.load_state_dict(weights)
        own.eval()
        solutions.append(Solution(own, point, selection.history, selection.candidates))
    return solutions


def parsed_goals(goals: Iterable[str | Goal]) -> list[Goal]:
    """Return the parsed goals, at least one."""
    if isinstance(goals, str | Goal) or not isinstance(goals, Iterable):
        raise SetpointError(f"goals must be a list of goals, not {str(goals)!r}.")
    parsed = [Goal.parse(goal) for goal in goals]
    if not parsed:
        raise SetpointError("there are no goals to train for.")
    return parsed


def _exchange(
    selections: Sequence[Selection], problems: Sequence[Problem], module: nn.Module
) -> None:
    """Offer each goal the model of another one that serves it best."""
    best = [selection.best[0] for selection in selections]
    offers: dict[int, TrainedModel] = {}
    for i, giver in enumerate(selections):
        name, start = f"trained for '{problems[i].goal}'", giver.candidates.winner.start
        weights = giver.best[1]
        module.load_state_dict(weights)
        scores = scores_of(module, problems[i].evaluation.X)
        for j, problem in enumerate(problems):
            if j == i:
                continue
            point = problem.evaluation.point_of(scores)
            if point.sort_key > best[j].sort_key:
                best[j], offers[j] = point, TrainedModel(name, point, weights, start)
    for j, offer in offers.items():  # only now: no goal passes on a model that it was given
        selections[j].offer(offer)
