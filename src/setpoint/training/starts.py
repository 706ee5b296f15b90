"""Which models a run trains side by side: from which start, held how near to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from setpoint.goals.goal import Goal
from setpoint.training.candidates import Contender
from setpoint.training.models import is_linear


class Spread(Protocol):
    """What a solver says of the models it trains side by side."""

    @property
    def nearness(self) -> tuple[float, ...]:
        """Strengths of staying near the start."""
        ...

    @property
    def restarts(self) -> int | None:
        """Further models from disturbed starts."""
        ...

    @property
    def spread(self) -> float:
        """Size of the largest disturbance."""
        ...

    @property
    def relaxed(self) -> bool:
        """Whether one model for each start may break the goal on its way."""
        ...


class Column(NamedTuple):
    """How one model of a bundle is trained; a relaxed one may break the goal on its way."""

    name: str
    start: Contender
    nearness: float
    restart: int = 0
    relaxed: bool = False


def columns_from(
    solver: Spread,
    module: nn.Module,
    goal: Goal,
    starts: Sequence[Contender],
    disturbed: Sequence[Contender],
) -> list[Column]:
    """Return the models to train from these starts, the simplest first."""
    columns = []
    for start in starts:
        for nearness in sorted(solver.nearness, reverse=True):
            held = f"; nearness {nearness:g}" if nearness else ""
            columns.append(Column(_after(start) + held, start, nearness))
        if solver.relaxed and goal.constraints:
            columns.append(Column(_after(start) + "; relaxed", start, 0.0, relaxed=True))
    if is_linear(module):
        numbers = range(1, (solver.restarts or 0) + 1)
        columns += [
            Column(f"{_after(start)}; restart {i}", start, 0.0, restart=i)
            for start in disturbed
            for i in numbers
        ]
    return columns


def start_of(column: Column, solver: Spread, seed: int) -> dict[str, Any]:
    """Return the weights that a column starts from, disturbed where it is a restart."""
    weights = column.start.weights
    if not column.restart:
        return weights
    w = weights["weight"]
    # The same number is the same disturbance, whatever else is trained.
    generator = torch.Generator().manual_seed(seed + column.restart)
    noise = torch.randn(w.shape, dtype=torch.float64, generator=generator).to(w)
    size = solver.spread * column.restart / (solver.restarts or 1)
    return {**weights, "weight": w + size * w.norm() / w.numel() ** 0.5 * noise}


def _after(start: Contender) -> str:
    return f"goal-trained from {start.name.removeprefix('logistic regression, ')}"
