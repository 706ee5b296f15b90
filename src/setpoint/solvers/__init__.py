"""Solvers: one loop, many rules."""

from setpoint.errors import SetpointError
from setpoint.solvers.augmented import Augmented
from setpoint.solvers.base import Callback, Run, Solution, Solver, settled, solve
from setpoint.solvers.candidates import Candidate, Candidates, Contender
from setpoint.solvers.history import History, Record
from setpoint.solvers.lagrangian import Lagrangian
from setpoint.solvers.lifted import Lifted
from setpoint.solvers.loss_training import LossTraining
from setpoint.solvers.ordinary import Ordinary
from setpoint.solvers.problem import Problem, make_problem
from setpoint.solvers.projected import Projected
from setpoint.solvers.resampled import Resampled
from setpoint.solvers.several_goals import solve_goals
from setpoint.solvers.stochastic import Stochastic

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


__all__ = [
    "Augmented",
    "Callback",
    "Candidate",
    "Candidates",
    "Contender",
    "History",
    "Lagrangian",
    "Lifted",
    "LossTraining",
    "Ordinary",
    "Problem",
    "Projected",
    "Record",
    "Resampled",
    "Run",
    "Solution",
    "Solver",
    "Stochastic",
    "get_solver",
    "make_problem",
    "settled",
    "solve",
    "solve_goals",
]
