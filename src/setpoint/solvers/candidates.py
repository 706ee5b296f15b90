"""The models that were compared, and which of them won."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from setpoint.operating_point import OperatingPoint


class Contender(NamedTuple):
    """A model that a run offers for comparison as it stands now.

    ``weights`` is a state dict for the module; whoever keeps it copies it.
    """

    name: str
    point: OperatingPoint
    weights: dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """The best that one way of training came to.

    Attributes
    ----------
    name : str
        How it was trained, in words.
    point : OperatingPoint
        Where it operates on the rows that judge.
    iteration : int
        The outer iteration at which it was best; 0 is the start.
    """

    name: str
    point: OperatingPoint
    iteration: int


class Candidates(Sequence[Candidate]):
    """All candidates, in the order in which they were first seen: the simpler before the others.

    ``print(candidates)`` shows a table, ``winner`` is the best, the earliest of equals.
    """

    def __init__(self, candidates: Sequence[Candidate] = ()) -> None:
        self._found = {c.name: c for c in candidates}

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> list[Candidate]: ...

    def __getitem__(self, index: int | slice) -> Candidate | list[Candidate]:
        return list(self._found.values())[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._found.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def see(self, contender: Contender, iteration: int) -> None:
        """Keep a contender's point if it is the best under its name."""
        held = self._found.get(contender.name)
        if held is None or contender.point.rank > held.point.rank:
            self._found[contender.name] = Candidate(contender.name, contender.point, iteration)

    @property
    def winner(self) -> Candidate:
        """The candidate with the best operating point."""
        return max(self, key=lambda c: c.point.rank)  # max() keeps the first of equals

    def __str__(self) -> str:
        if not self._found:
            return "no candidates"
        won = self.winner
        goal = won.point.goal
        levels = [c.metric.name for c in goal.constraints]
        rows = [["candidate", goal.objective.name, *levels, "iteration", ""]]
        for c in self:
            values = [f"{c.point.value(name):.3f}" for name in (goal.objective.name, *levels)]
            mark = "won" if c is won else "" if c.point.feasible else "goal not met"
            rows.append([c.name, *values, str(c.iteration), mark])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)) for r in rows]
        lines = [line.rstrip() for line in lines]
        return "\n".join([f"'{goal}' on {won.point.on}", *lines])
