"""Training: the problem, the loop that all solvers share, and the solvers.

Read a default fit in this order: ``loop`` (:func:`solve`), ``projected`` (the default solver),
``descent`` (its steps) and ``setpoint.method.capped_loss`` (what the steps minimise).

A solver is made of two classes in one file. A frozen dataclass holds the parameters, checks them in
``__post_init__`` with ``loop.check_parameters`` and has ``outer_iterations`` and
``prepare(problem, module)``. The run that ``prepare`` returns has the methods of :class:`Run`:
``start`` and ``advance`` do the work, ``models`` returns the current models with their operating
points, ``state_dict`` and ``load_state_dict`` make it resumable. :func:`solve` does the rest.
"""

import warnings
from typing import Any

from setpoint.errors import SetpointError
from setpoint.training.candidates import Candidate, Candidates, TrainedModel
from setpoint.training.epochs import Epochs, LoaderProblem
from setpoint.training.history import History, Record
from setpoint.training.lifted import Lifted
from setpoint.training.loop import Callback, Run, Solution, Solver, settled, solve
from setpoint.training.loss_training import CrossEntropy, LabelledRows, Loss, LossTraining
from setpoint.training.mini_batch_penalty import MiniBatchPenalty
from setpoint.training.ordinary import Ordinary
from setpoint.training.problem import Problem, make_problem
from setpoint.training.projected import Projected
from setpoint.training.several_goals import solve_goals
from setpoint.training.stochastic import Stochastic
from setpoint.training.stream_problem import StreamProblem
from setpoint.training.streams import train

SOLVERS: dict[str, Solver] = {
    "projected": Projected(),
    "lifted": Lifted(),
    "paper": Lifted.paper(),
    "cross_entropy": LossTraining(),
    "stochastic": Stochastic(),
}


def get_solver(solver: str | Solver) -> Solver:
    """Return the solver of that name; a solver is returned as it is."""
    if not isinstance(solver, str):
        if not hasattr(solver, "prepare"):
            raise SetpointError(
                f"solver {solver!r} is neither a name ({', '.join(SOLVERS)}) nor a Solver."
            )
        return solver
    if solver not in SOLVERS:
        raise SetpointError(f"unknown solver {solver!r}; known: {', '.join(SOLVERS)}.")
    return SOLVERS[solver]


def __getattr__(name: str) -> Any:
    if name == "Contender":
        warnings.warn("Contender is now called TrainedModel.", DeprecationWarning, stacklevel=2)
        return TrainedModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "SOLVERS",
    "Callback",
    "Candidate",
    "Candidates",
    "CrossEntropy",
    "Epochs",
    "History",
    "LabelledRows",
    "Lifted",
    "LoaderProblem",
    "Loss",
    "LossTraining",
    "MiniBatchPenalty",
    "Ordinary",
    "Problem",
    "Projected",
    "Record",
    "Run",
    "Solution",
    "Solver",
    "Stochastic",
    "StreamProblem",
    "TrainedModel",
    "get_solver",
    "make_problem",
    "settled",
    "solve",
    "solve_goals",
    "train",
]
