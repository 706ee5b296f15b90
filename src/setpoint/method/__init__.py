"""The paper's mathematics: reformulation, exact penalty, capped loss, and the MILP referee."""

from setpoint.method.capped_loss import capped_loss, capped_slope, prices
from setpoint.method.penalty import ExactPenalty
from setpoint.method.referee import ExactSolution, solve_exactly

__all__ = [
    "ExactPenalty",
    "ExactSolution",
    "capped_loss",
    "capped_slope",
    "prices",
    "solve_exactly",
]
