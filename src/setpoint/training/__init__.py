"""Training: the problem, the loop that all solvers share, and the solvers."""

from setpoint.errors import SetpointError
from setpoint.training.candidates import Candidate, Candidates, Contender
from setpoint.training.history import History, Record
from setpoint.training.lifted import Lifted
from setpoint.training.loop import Callback, Run, Solution, Solver, settled, solve
from setpoint.training.loss_training import CrossEntropy, LabelledRows, Loss, LossTraining
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


__all__ = [
    "SOLVERS",
    "Callback",
    "Candidate",
    "Candidates",
    "Contender",
    "CrossEntropy",
    "History",
    "LabelledRows",
    "Lifted",
    "Loss",
    "LossTraining",
    "Ordinary",
    "Problem",
    "Projected",
    "Record",
    "Run",
    "Solution",
    "Solver",
    "Stochastic",
    "StreamProblem",
    "get_solver",
    "make_problem",
    "settled",
    "solve",
    "solve_goals",
    "train",
]
