"""Several goals at once: one batched problem for a whole curve of what can be had."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.training.candidates import Contender, standing
from setpoint.training.loop import (
    Callback,
    Keeper,
    Progress,
    Run,
    Solution,
    Solver,
    at_work_on,
    tell_end,
)
from setpoint.training.models import scores_of
from setpoint.training.problem import Problem


class GoalsRun(Run, Protocol):
    """A run that serves several goals."""

    def progress_of(self, goal: int) -> Progress:
        """Return how far the models of a goal are."""
        ...

    def contenders_of(self, goal: int) -> Sequence[Contender]:
        """Return where the models of a goal stand, as :meth:`Run.contenders` does."""
        ...


@runtime_checkable
class GoalsSolver(Solver, Protocol):
    """A solver that can train for several goals at once."""

    def prepare_goals(self, problems: Sequence[Problem], module: nn.Module) -> GoalsRun:
        """Return a run for problems that differ in their goals alone."""
        ...


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

    Each comes to what :func:`solve` would come to for its goal, but for rounding, for what a module
    draws by chance, and, where rows are more than a working set holds, for the rows that are drawn.
    At the end each goal may take over the model of another one, if that serves it better: where the
    training rows judge, a stricter level never does better than a laxer one. What is taken over has
    the last record of the history.

    Ordinary training, from which all start, is done once. After it the linear models of all goals
    are rows of one matrix; a GPU takes hardly longer for many than for one. Interruption and
    divergence are as in :func:`solve`, for all goals together.

    Parameters
    ----------
    problem : Problem
        The rows; its own goal is not looked at.
    goals : iterable of str or Goal
        What to train for, e.g. one objective under several levels of a constraint.
    module : nn.Module
        The model; the solutions' modules are copies of it.
    solver : Solver
        One that has ``prepare_goals``: :class:`setpoint.training.Projected`.
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
    >>> found = solve_goals(make_problem(X, y, goals[0]), goals, torch.nn.Linear(3, 1), Projected())
    >>> [str(s.operating_point.goal) for s in found] == goals
    True
    >>> recalls = [s.operating_point.value("recall") for s in found]
    >>> recalls == sorted(recalls, reverse=True)
    True
    """
    problems = [problem.for_goal(goal) for goal in parsed_goals(goals)]
    if not isinstance(solver, GoalsSolver):
        raise SetpointError(
            f"{type(solver).__name__} trains for one goal at a time; fit each goal by itself, or "
            "take the projected solver."
        )
    module = copy.deepcopy(module)
    run = solver.prepare_goals(problems, module)
    kept = [Keeper(problem.judged_apart) for _ in problems]
    total = solver.outer_iterations
    finished = True

    def keep() -> bool:
        answers = []
        for i, keeper in enumerate(kept):
            keeper.see(run.contenders_of(i), run.progress_of(i))
            answers.append(None if callback is None else callback(keeper.history[-1], total))
        return "stop" in answers

    def train() -> bool:
        run.start()
        stop = keep()
        for iteration in range(1, total + 1):
            if stop:
                return False
            run.advance(iteration)
            stop = keep()
        return True

    def exchange() -> bool:
        _exchange(kept, problems, module)
        return True

    with at_work_on(module):
        if seed is not None:
            torch.manual_seed(seed)
        for work in (train, exchange):
            try:
                finished &= work()
            except (KeyboardInterrupt, DivergedError) as error:
                tell_end(error, [keeper.history for keeper in kept], total)
                finished = False
    solutions = []
    for keeper in kept:
        keeper.history.interrupted = not finished
        point, weights = keeper.best
        own = copy.deepcopy(module)
        own.load_state_dict(weights)
        own.eval()
        solutions.append(Solution(own, point, keeper.history, keeper.candidates))
    return solutions


def parsed_goals(goals: Iterable[str | Goal]) -> list[Goal]:
    """Return goals as objects, one at least."""
    if isinstance(goals, str | Goal) or not isinstance(goals, Iterable):
        raise SetpointError(f"goals must be a list of goals, not {str(goals)!r}.")
    parsed = [Goal.parse(goal) for goal in goals]
    if not parsed:
        raise SetpointError("there are no goals to train for.")
    return parsed


def _exchange(kept: Sequence[Keeper], problems: Sequence[Problem], module: nn.Module) -> None:
    """Offer each goal the model of another one that serves it best."""
    best = [keeper.best[0] for keeper in kept]
    offers: dict[int, Contender] = {}
    for i, giver in enumerate(kept):
        name, start = f"trained for '{problems[i].goal}'", giver.candidates.winner.start
        weights = giver.best[1]
        module.load_state_dict(weights)
        scores = scores_of(module, problems[i].judge.X)
        for j, problem in enumerate(problems):
            if j == i:
                continue
            point = problem.judge.point_of(scores)
            if standing(point) > standing(best[j]):
                best[j], offers[j] = point, Contender(name, point, weights, start)
    for j, offer in offers.items():  # only now, for no goal passes on what it was given
        kept[j].offer(offer)
