"""Solvers: one loop, many rules."""

from setpoint.errors import SetpointError
from setpoint.solvers.base import Callback, Run, Solution, Solver, solve
from setpoint.solvers.cross_entropy import CrossEntropy
from setpoint.solvers.history import History, Record
from setpoint.solvers.lifted import Lifted
from setpoint.solvers.problem import Problem, make_problem

SOLVERS: dict[str, Solver] = {
    "lifted": Lifted(),
    "paper": Lifted.paper(),
    "cross_entropy": CrossEntropy(),
}


def get_solver(solver: str | Solver) -> Solver:
    """Return the solver of that name; a solver is returned as it is."""
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise SetpointError(f"unknown solver {solver!r}; known: {', '.join(SOLVERS)}.")
    return SOLVERS[solver]


__all__ = [
    "Callback",
    "CrossEntropy",
    "History",
    "Lifted",
    "Problem",
    "Record",
    "Run",
    "Solution",
    "Solver",
    "get_solver",
    "make_problem",
    "solve",
]
