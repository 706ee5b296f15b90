"""Rows in memory as a stream, for solvers that take streams."""

from __future__ import annotations

from setpoint.solvers.problem import Problem
from setpoint.streams.arrays import ArrayRows
from setpoint.streams.problem import StreamProblem


def stream_of(problem: Problem) -> StreamProblem:
    """Return the same problem as a stream of blocks."""
    judge = problem.validation
    return StreamProblem(
        _rows(problem),
        problem.goal,
        validation=None if judge is None else _rows(judge),
        device=problem.X.device,
    )


def _rows(problem: Problem) -> ArrayRows:
    return ArrayRows(problem.X, problem.positive, sample_weight=problem.sample_weight)
