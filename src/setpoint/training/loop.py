"""The one loop that serves all solvers.

A :class:`Solver` is a frozen set of parameters. For a problem and a model it prepares a
:class:`Run`, which knows how to start and how to advance by one outer iteration. :func:`solve`
does the rest: the best iterate, the history, progress, interruption, checkpoints.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from setpoint._internal.processes import broadcast, is_distributed
from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Candidate, Candidates, Contender, standing
from setpoint.training.checkpoint import Checkpoint
from setpoint.training.history import History, Record
from setpoint.training.problem import Problem

Callback = Callable[[Record, int], Any]


class Task(Protocol):
    """A problem as the loop sees it: a :class:`Problem`, or rows that come in blocks."""

    @property
    def goal(self) -> Goal:
        """What to train for."""
        ...

    @property
    def judged_apart(self) -> bool:
        """Whether other rows than those that train judge."""
        ...

    def fingerprint(self) -> str:
        """Return a digest by which a checkpoint knows its problem."""
        ...


class Progress(NamedTuple):
    """What an outer iteration reports of itself; ``done`` where no further one is worth it."""

    lam: float
    loss: float
    done: bool = False


class Run(Protocol):
    """A solver at work on one problem and one model, which it changes in place."""

    def start(self, take: str | None = None) -> Progress:
        """Bring the model to its starting point.

        ``take`` names the one contender that is wanted; a run may leave out the others.
        """
        ...

    def advance(self, iteration: int) -> Progress:
        """Do outer iteration 1, 2, ..."""
        ...

    def contenders(self) -> Sequence[Contender]:
        """Return where the model stands now; several models, the simplest first, if it has them.

        Their operating points are those on ``problem.judge``.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next iteration depends on, besides the model and torch's RNG."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        ...


@runtime_checkable
class FindsPoints(Protocol):
    """A run whose contenders' points are rough; the winner's is found at the end."""

    def exact_point(self) -> OperatingPoint:
        """Return what the module does at its exact threshold on the rows that judge."""
        ...


class Solver(Protocol):
    """The parameters of a method; ``repr`` names them all, for checkpoints know a solver by it."""

    @property
    def outer_iterations(self) -> int:
        """How often the loop advances."""
        ...

    def prepare(self, problem: Any, module: nn.Module) -> Run:
        """Check that the method can serve the problem, and return a run that has not started."""
        ...


@dataclass(frozen=True)
class Solution:
    """The best model found, where it operates, how it came about and what it was compared with."""

    module: nn.Module
    operating_point: OperatingPoint
    history: History
    candidates: Candidates


def settled(solver: Solver, problem: Problem) -> Solver:
    """Return the solver with everything decided that it would decide by the problem's size or kind.

    Training again on other rows is then training in the same way.
    """
    settle = getattr(solver, "settle", None)
    return solver if settle is None else settle(problem)


@contextmanager
def at_work_on(module: nn.Module) -> Iterator[None]:
    """Leave torch's generators as they were; make the module's GPU, if it has one, the current one.

    Graphs are recorded on the current GPU, and kernels launched there.
    """
    gpu = next((p.device for p in module.parameters() if p.is_cuda), None)
    with ExitStack() as stack:
        if gpu is not None:
            stack.enter_context(torch.cuda.device(gpu))
        stack.enter_context(torch.random.fork_rng(devices=[] if gpu is None else [gpu]))
        yield


def solve(
    problem: Task,
    module: nn.Module,
    solver: Solver,
    *,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    take: Candidate | None = None,
) -> Solution:
    """Train the module, in place, and return its best iterate.

    The best iterate is the one with the least violation and then the best objective at its
    operating point on the rows that judge: ``problem.validation``, or else the training data. The
    starting point counts as one, and of equals the simpler is kept, as ``candidates.winner`` has
    it. Ctrl-C ends the loop and returns the best iterate so far, with a warning; so does a model
    that diverges. One of several processes that train together is not stopped alone: there Ctrl-C
    is raised, and the others' work ends with a PeerLostError.

    Parameters
    ----------
    problem, module, solver
        What to solve, the model to train, and how.
    seed : int or None
        All randomness follows from it. None: from torch's global generator as it stands. Either
        way that generator is left as it was.
    callback : callable, optional
        ``callback(record, outer_iterations)`` after the start and after every outer iteration.
        The answer ``"stop"`` ends the training as Ctrl-C would, without the warning.
    checkpoint : path, optional
        Written after every outer iteration. If the file exists, the run goes on from there, to
        the result it would have had without the stop, bit for bit on a CPU. A file with an
        unfinished run of something else is refused, one with a finished run overwritten.
    take : Candidate, optional
        Train only up to this candidate's iteration, and return the best model of its name or its
        start, whatever else is better: what won on other rows is trained again on these.
    """
    run = solver.prepare(problem, module)
    together = getattr(run, "together", False)  # one of several processes that train one model
    saved = None
    if checkpoint is not None:
        saved = Checkpoint(Path(checkpoint), problem, module, solver, seed, take, together)
    total = solver.outer_iterations if take is None else take.iteration
    kept = Keeper(problem.judged_apart, take)
    finished = False

    def keep(progress: Progress) -> bool:
        nonlocal finished
        kept.see(run.contenders(), progress)
        finished = len(kept.history) > total or progress.done
        if saved is not None:
            saved.write(
                module, run.state_dict(), kept.best, kept.history, kept.candidates, finished
            )
        stop = callback is not None and callback(kept.history[-1], total) == "stop"
        return bool(broadcast(stop)) if together else stop

    with at_work_on(module):
        if seed is not None:
            torch.manual_seed(seed)
        stop = False
        try:
            if saved is not None and (state := saved.read(module)) is not None:
                run.load_state_dict(state.run)
                best = state.best_point, state.best_module
                kept.take_up(best, state.history, state.candidates)
                finished = state.finished
            else:
                stop = keep(run.start(None if take is None else take.name))
            while not finished and not stop:
                stop = keep(run.advance(len(kept.history)))
        except (KeyboardInterrupt, DivergedError) as error:
            if together and is_distributed() and isinstance(error, KeyboardInterrupt):
                # The others may know nothing of it, and to find the exact point takes them all.
                raise
            tell_end(error, [kept.history], total)
            if kept.history.diverged and saved is not None:
                # To go on from there would only diverge again; others may have been faster.
                saved.path.unlink(missing_ok=True)
    kept.history.interrupted = not finished
    if take is not None and finished and take.name not in {c.name for c in kept.candidates}:
        raise SetpointError(f"the solver has no candidate {take.name!r} on these rows.")
    point, weights = kept.best
    module.load_state_dict(weights)
    module.eval()
    if isinstance(run, FindsPoints):
        point = run.exact_point()
    return Solution(module, point, kept.history, kept.candidates)


def tell_end(error: BaseException, histories: Sequence[History], total: int) -> None:
    """Warn that a training came to an early end; raise the error if there is nothing to keep."""
    if not all(map(len, histories)):
        raise error
    diverged = isinstance(error, DivergedError)
    for history in histories:
        history.diverged |= diverged
    warnings.warn(
        f"training {'diverged' if diverged else 'was interrupted'} after {len(histories[0]) - 1} "
        f"of {total} iterations; the best model so far is kept.",
        stacklevel=3,
    )


MARGIN = 1.0  # standard errors by which goal-training must win on validation rows


class Keeper:
    """The best model so far, all candidates, and the history.

    Parameters
    ----------
    judged_apart : bool
        Whether other rows than those that train judge. These are few: a goal-trained model must win
        clearly. On training rows the best objective is the best objective.
    take : Candidate, optional
        The one whose name or start the kept model must have, whatever else is better.
    """

    best: tuple[OperatingPoint, dict[str, Any]]

    def __init__(self, judged_apart: bool, take: Candidate | None = None) -> None:
        self.history = History()
        self.candidates = Candidates(margin=MARGIN if judged_apart else 0.0)
        self._take = take
        self._won: Candidate | None = None

    def see(self, contenders: Sequence[Contender], progress: Progress) -> None:
        """Keep what is worth it of the models as they stand after an iteration."""
        iteration = len(self.history)
        for contender in contenders:
            self.candidates.see(contender, iteration)
        leader = max(contenders, key=lambda c: standing(c.point))
        if self._take is not None:
            # Its best moment up to then; a single one may be a bad one on other rows.
            wanted = [c for c in contenders if c.name in (self._take.name, self._take.start)]
            leader = max(wanted, key=lambda c: standing(c.point), default=leader)
            if iteration == 0 or standing(leader.point) > standing(self.best[0]):
                self._hold(leader.point, leader, iteration)
        elif self.candidates.winner is not self._won:  # then it was seen just now
            self._won = self.candidates.winner
            holder = next(c for c in contenders if c.name == self._won.name)
            self._hold(self._won.point, holder, iteration)
        record = Record.of(iteration, leader.point, progress.lam, progress.loss)
        self.history.records.append(record)

    def offer(self, contender: Contender) -> None:
        """Keep a model from elsewhere, which then has a record of its own, if it wins."""
        iteration, last = len(self.history), self.history[-1]
        self.candidates.see(contender, iteration)
        if self.candidates.winner.name == contender.name:
            self._won = self.candidates.winner
            self._hold(contender.point, contender, iteration)
            record = Record.of(iteration, contender.point, last.lam, last.loss)
            self.history.records.append(record)

    def _hold(self, point: OperatingPoint, holder: Contender, iteration: int) -> None:
        self.best = point, copy.deepcopy(holder.weights)
        self.history.best_iteration = iteration

    def take_up(
        self,
        best: tuple[OperatingPoint, dict[str, Any]],
        history: History,
        candidates: Candidates,
    ) -> None:
        """Go on from what an earlier training kept."""
        self.best, self.history, self.candidates = best, history, candidates
        self._won = candidates.winner


# DOC of solvers.keeping: What the loop keeps of a training for one goal.
