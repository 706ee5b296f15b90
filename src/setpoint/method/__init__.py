"""The mathematics of the paper: reformulation, exact penalty, capped loss, MILP referee."""

from setpoint.method.penalty import ExactPenalty

__all__ = ["ExactPenalty"]
