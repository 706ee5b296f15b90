"""The models that were compared, and which of them won."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint.goals.goal import shown
from setpoint.goals.metrics import called
from setpoint.thresholds.operating_point import OperatingPoint


class Contender(NamedTuple):
    """A model that a run offers for comparison as it stands now.

    ``weights`` is a state dict for the module; whoever keeps it copies it. ``start`` names the
    ordinary model from which a goal-trained one started.
    """

    name: str
    point: OperatingPoint
    weights: dict[str, Any]
    start: str | None = None


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
    start : str or None
        The ordinary model from which a goal-trained one started; None for ordinary ones.
    """

    name: str
    point: OperatingPoint
    iteration: int
    start: str | None = None


def standing(point: OperatingPoint) -> tuple[float, ...]:
    """Return the key by which points compare: violation, objective, more TP, fewer FP."""
    return (*point.rank, point.tp, -point.fp)


class Candidates(NotebookSummary, Sequence[Candidate]):
    """All candidates, in the order in which they were first seen: the simpler before the others.

    ``print(candidates)`` shows a table. ``winner`` is the best of them, the simpler of equals. Many
    goal-trained models compete, and the best of many on few rows looks better than it is; so one
    wins over the best ordinary model only if its objective is higher by more than ``margin``
    standard errors of the latter.

    Parameters
    ----------
    candidates : sequence of Candidate
        Those known already.
    margin : float
        0 where no model shall have an advantage.
    """

    def __init__(self, candidates: Sequence[Candidate] = (), *, margin: float = 0.0) -> None:
        self._found = {c.name: c for c in candidates}
        self.margin = margin

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
        name, point, _, start = contender
        held = self._found.get(name)
        if held is None or standing(point) > standing(held.point):
            self._found[name] = Candidate(name, point, iteration, start)

    @property
    def winner(self) -> Candidate:
        """The candidate with the best operating point, but for the margin."""
        best = _best(self)
        ordinary = [c for c in self if c.start is None]
        if best.start is None or not ordinary:
            return best
        rival = _best(ordinary)
        sign = best.point.goal.objective.sign
        gain = sign * (best.point.objective - rival.point.objective)
        if best.point.violation < rival.point.violation:
            return best
        return best if gain > self.margin * rival.point.standard_error else rival

    def __repr__(self) -> str:
        return str(self)

    def table(self) -> list[list[str]]:
        """Return the candidates as rows of text, the header first."""
        won = self.winner
        names = list(dict.fromkeys(m.name for m in won.point.goal.metrics))
        required = {c.metric.name: c for c in won.point.goal.constraints}
        rows = [["candidate", *map(called, names), "iteration", ""]]
        for one in self:
            values = [shown(one.point.value(name), required.get(name)) for name in names]
            marks = ["★ chosen"] * (one is won) + ["✗ goal not met"] * (not one.point.feasible)
            rows.append([one.name, *values, str(one.iteration), ", ".join(marks) or "–"])
        return rows

    def _summary(self) -> Summary:
        if not len(self):
            return Summary("no candidates", False, "", [])
        point = self.winner.point
        caption = f"{len(self)} candidates, on {point.on}"
        message = f"{self.winner.name} was chosen for '{point.goal}'"
        return Summary(message, point.feasible and not point.empty, caption, [self.table()])

    def __str__(self) -> str:
        if not self._found:
            return "no candidates"
        won = self.winner
        goal = won.point.goal
        names = dict.fromkeys([goal.objective.name, *(c.metric.name for c in goal.constraints)])
        rows = [["candidate", *names, "iteration", ""]]
        for c in self:
            values = [f"{c.point.value(name):.3f}" for name in names]
            marks = ["won"] * (c is won) + ["goal not met"] * (not c.point.feasible)
            rows.append([c.name, *values, str(c.iteration), ", ".join(marks)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)) for r in rows]
        lines = [line.rstrip() for line in lines]
        return "\n".join([f"'{goal}' on {won.point.on}", *lines])


def _best(candidates: Iterable[Candidate]) -> Candidate:
    return max(candidates, key=lambda c: standing(c.point))  # max() keeps the first of equals
