"""The loop that all solvers share.

A :class:`Solver` is a frozen set of parameters. For a problem and a module it prepares a
:class:`Run`, which can start, advance by one outer iteration and return its models. :func:`solve`
does the rest: it keeps the best model and the history, reports progress, handles interruption and
writes checkpoints.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import nn

from setpoint._internal.processes import broadcast, is_distributed
from setpoint._internal.threads import threads_for
from setpoint.errors import DivergedError, SetpointError
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import (
    Average,
    Candidate,
    Candidates,
    Selection,
    TrainedModel,
)
from setpoint.training.checkpoint import Checkpoint
from setpoint.training.history import History, Record
from setpoint.training.problem import Problem
from setpoint.training.stream_problem import StreamProblem

if TYPE_CHECKING:
    from setpoint.training.epochs import LoaderProblem

Callback = Callable[[Record, int], Any]


class Progress(NamedTuple):
    """The state of an outer iteration; ``done`` ends the training."""

    lam: float
    loss: float
    done: bool = False


class Run(Protocol):
    """A solver at work on one problem and one module, which it changes in place.

    A run whose models have only approximate operating points also has a method ``exact_point()``,
    which returns that of the module when the best weights have been loaded into it. A run with
    ``distributed = True`` works on all processes of torch's default group.
    """

    def start(self, take: str | None = None) -> Progress:
        """Bring the module to its starting point.

        ``take`` names the only model that is wanted; a run may leave out the others.
        """
        ...

    def advance(self, iteration: int) -> Progress:
        """Do outer iteration 1, 2, ..."""
        ...

    def models(self) -> Sequence[TrainedModel]:
        """Return the current models, the simplest first, evaluated on ``problem.evaluation``."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything the next iteration depends on, besides the module and torch's RNG."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        ...


class Solver(Protocol):
    """The parameters of a method. ``repr`` shows all of them: it identifies checkpoints.

    A solver that can train on a :class:`setpoint.training.StreamProblem` says so by a class
    attribute ``reads_streams = True``.
    """

    @property
    def outer_iterations(self) -> int | None:
        """How often the loop advances; None before the solver is settled."""
        ...

    def prepare(self, problem: Any, module: nn.Module) -> Run:
        """Check that the method suits the problem, and return a run that has not started."""
        ...


@dataclass(frozen=True)
class Solution:
    """The best model found, its operating point, the history, and what it was compared with."""

    module: nn.Module
    operating_point: OperatingPoint
    history: History
    candidates: Candidates


def check_parameters(
    solver: object,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    least: Mapping[str, float] | None = None,
) -> None:
    """Raise SetpointError for the first parameter of a solver that is out of range; None is fine.

    ``choices`` are the values that a parameter may have, ``least`` the smallest value of one, or of
    each of its entries if it is a tuple.
    """
    for name, known in (choices or {}).items():
        if (value := getattr(solver, name)) not in known:
            raise SetpointError(f"{name} is one of {tuple(known)}, not {value!r}.")
    for name in positive:
        if (value := getattr(solver, name)) is not None and not value > 0:
            raise SetpointError(f"{name} must be positive, not {value}.")
    for name, smallest in {**dict.fromkeys(not_negative, 0), **(least or {})}.items():
        value = getattr(solver, name)
        entries = value if isinstance(value, tuple) else (smallest if value is None else value,)
        if not entries or not all(entry >= smallest for entry in entries):
            what = f"every entry of {name}" if isinstance(value, tuple) else name
            default = "None or " if getattr(type(solver), name) is None else ""
            raise SetpointError(f"{what} must be {default}>= {smallest}, not {value}.")


def settled(
    solver: Solver, problem: Problem | StreamProblem | LoaderProblem, module: nn.Module
) -> Solver:
    """Return the solver with all parameters fixed that would depend on problem and module.

    It then trains in the same way on other rows.
    """
    settle = getattr(solver, "settle", None)
    return solver if settle is None else settle(problem, module)


_USUAL_ROWS = 40_000  # of a step


@contextmanager
def torch_set_up_for(
    problem: Problem | StreamProblem | LoaderProblem, module: nn.Module
) -> Iterator[None]:
    """Restore torch's random generators afterwards; set the current GPU and the threads.

    Graphs are recorded and kernels launched on the module's GPU.
    """
    gpu = next((p.device for p in module.parameters() if p.is_cuda), None)
    with ExitStack() as stack:
        if gpu is not None:
            stack.enter_context(torch.cuda.device(gpu))
        stack.enter_context(torch.random.fork_rng(devices=[] if gpu is None else [gpu]))
        rows = min(len(problem.X), _USUAL_ROWS) if isinstance(problem, Problem) else _USUAL_ROWS
        stack.enter_context(threads_for(rows * sum(p.numel() for p in module.parameters())))
        yield


def solve(
    problem: Problem | StreamProblem | LoaderProblem,
    module: nn.Module,
    solver: Solver,
    *,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    take: Candidate | None = None,
) -> Solution:
    """Train the module in place and return its best iterate.

    The best iterate has the least violation and then the best objective at its operating point on
    the validation rows or, without any, on the training rows. The starting point is one of the
    iterates, and of equals the simpler is kept; see ``Candidates.winner``. Ctrl-C ends the loop and
    returns the best iterate so far with a warning; so does a model that diverges. In a process
    group Ctrl-C is raised instead, and the other processes end with a PeerLostError.

    Parameters
    ----------
    problem, module, solver
        What to solve, the model to train, and how.
    seed : int or None
        Seed of all randomness. None: torch's global generator as it is. Either way that generator
        is left unchanged.
    callback : callable, optional
        ``callback(record, outer_iterations)`` after the start and after every outer iteration. If
        it returns ``"stop"``, the training ends as with Ctrl-C, without the warning.
    checkpoint : path, optional
        Written after every outer iteration. If the file exists, the run continues from there, to
        the same result as without the interruption, bit for bit on a CPU. A file with an unfinished
        run of something else raises CheckpointError; one with a finished run is overwritten.
    take : Candidate, optional
        Train only up to this candidate's iteration, and return the best model with its name or its
        start, even if another one is better: what won on other rows is trained again on these.
    """
    if isinstance(problem, StreamProblem) and not getattr(solver, "reads_streams", False):
        raise SetpointError(
            f"{type(solver).__name__} needs all rows in memory, as a Problem; streams are trained "
            "by setpoint.training.Stochastic."
        )
    solver = settled(solver, problem, module)
    assert solver.outer_iterations is not None
    run = solver.prepare(problem, module)
    models_of = _models_of(run)
    distributed = getattr(run, "distributed", False)
    saved = None
    if checkpoint is not None:
        saved = Checkpoint(Path(checkpoint), problem, module, solver, seed, take, distributed)
    total = solver.outer_iterations if take is None else take.iteration
    selection = Selection(take, average_for(problem, module))
    finished = False

    def evaluate(progress: Progress) -> bool:
        """Compare the current models, write the checkpoint; return whether to stop."""
        nonlocal finished
        selection.update(models_of(), progress.lam, progress.loss)
        finished = len(selection.history) > total or progress.done
        if saved is not None:
            saved.write(module, run.state_dict(), selection, finished)
        stop = callback is not None and callback(selection.history[-1], total) == "stop"
        return bool(broadcast(stop)) if distributed else stop

    with torch_set_up_for(problem, module):
        if seed is not None:
            torch.manual_seed(seed)
        stop = False
        try:
            if saved is not None and (found := saved.read(module, selection)) is not None:
                state, finished = found
                run.load_state_dict(state)
            else:
                stop = evaluate(run.start(None if take is None else take.name))
            while not finished and not stop:
                stop = evaluate(run.advance(len(selection.history)))
        except (KeyboardInterrupt, DivergedError) as error:
            if distributed and is_distributed() and isinstance(error, KeyboardInterrupt):
                # Other processes may not have been interrupted; the exact point needs all of them.
                raise
            warn_of_early_end(error, [selection.history], total)
            if selection.history.diverged and saved is not None:
                # Continuing from there would diverge again.
                saved.path.unlink(missing_ok=True)
    selection.history.interrupted = not finished
    if take is not None and finished and take.name not in {c.name for c in selection.candidates}:
        raise SetpointError(f"the solver has no candidate {take.name!r} on these rows.")
    point, weights = selection.best
    module.load_state_dict(weights)
    module.eval()
    exact_point = getattr(run, "exact_point", None)
    point = point if exact_point is None else exact_point()
    return Solution(module, point, selection.history, selection.candidates)


def average_for(
    problem: Problem | StreamProblem | LoaderProblem, module: nn.Module
) -> Average | None:
    """Return how models are compared on validation rows; None where only their points are.

    ``module`` computes the scores.
    """
    validation = problem.validation
    if not isinstance(validation, Problem) or validation.halves is None:
        return None
    return partial(validation.average_gain, module)


def _models_of(run: Run) -> Callable[[], Sequence[TrainedModel]]:
    """Return the method that returns a run's models, under its former name too."""
    if hasattr(run, "contenders"):
        warnings.warn(
            f"{type(run).__name__}.contenders is deprecated; call the method `models`.",
            DeprecationWarning,
            stacklevel=3,
        )
        former: Callable[[], Sequence[TrainedModel]] = run.contenders
        return former
    return run.models


def warn_of_early_end(error: BaseException, histories: Sequence[History], total: int) -> None:
    """Warn that a training ended early; raise the error if there is no model to keep."""
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
