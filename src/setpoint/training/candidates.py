"""The models that a training compared, and which of them won."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import display_name
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.history import History, Record


class TrainedModel(NamedTuple):
    """A model of a run as it is now, to be compared with others.

    ``weights`` is a state dict for the module; copy it to keep it. ``start`` names the ordinarily
    trained model from which a goal-trained one started. ``exact`` says whether the point is at the
    exact threshold; a model that is used at another one is compared by its point alone.
    """

    name: str
    point: OperatingPoint
    weights: dict[str, Any]
    start: str | None = None
    exact: bool = True


def best_of(models: Iterable[TrainedModel]) -> TrainedModel:
    """Return the model with the best operating point, the first of equals."""
    return max(models, key=lambda model: model.point.sort_key)


@dataclass(frozen=True)
class Candidate:
    """The best that one way of training reached.

    Attributes
    ----------
    name : str
        How the model was trained.
    point : OperatingPoint
        Its operating point on the validation rows or, without any, on the training rows.
    iteration : int
        The outer iteration at which it was best; 0 is the start.
    start : str or None
        The ordinarily trained model from which a goal-trained one started; None for ordinary ones.
    average : float or None
        The mean of the gain on all validation rows and of the average over random halves of them,
        each with its own threshold (:class:`setpoint.thresholds.halves.Halves`). Candidates are
        compared by it. None: it was not computed, and the gain on all rows counts.
    """

    name: str
    point: OperatingPoint
    iteration: int
    start: str | None = None
    average: float | None = None

    @property
    def sort_key(self) -> tuple[float, ...]:
        """Sort key, the greater, the better: -violation, average gain, gain, TP, -FP."""
        violation, gain, *rest = self.point.sort_key
        return (violation, gain if self.average is None else self.average, gain, *rest)


class Candidates(NotebookSummary, Sequence[Candidate]):
    """All candidates in the order in which they were first seen, simpler ones first.

    ``print(candidates)`` shows a table. ``winner`` is the best of them, the simpler of equals.

    Parameters
    ----------
    candidates : sequence of Candidate
        Those known already.
    margin : float
        Standard errors of the best ordinarily trained model by which the best goal-trained one must
        exceed it. Earlier versions asked for a margin, which their files state; today it is 0.
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

    def see(self, model: TrainedModel, iteration: int, average: float | None = None) -> None:
        """Record a model if it is the best so far under its name."""
        seen = Candidate(model.name, model.point, iteration, model.start, average)
        held = self._found.get(model.name)
        if held is None or seen.sort_key > held.sort_key:
            self._found[model.name] = seen

    @property
    def winner(self) -> Candidate:
        """The candidate with the highest sort key, the simpler of equals."""
        best = _best(self)
        if not self.margin:
            return best
        ordinary = [c for c in self if c.start is None]
        if best.start is None or not ordinary:
            return best
        rival = _best(ordinary)
        if best.point.violation < rival.point.violation:
            return best
        gain = best.sort_key[1] - rival.sort_key[1]
        return best if gain > self.margin * rival.point.standard_error else rival

    def __repr__(self) -> str:
        return str(self)

    def table(self) -> list[list[str]]:
        """Return the candidates as rows of text, the header first."""
        won = self.winner
        listed = {m.name for m in won.point.listed_metrics()[0]}  # of many segments, the worst
        metrics = {m.name: m for m in won.point.goal.metrics if m.name in listed}
        required = {c.metric.name: c for c in won.point.goal.constraints}
        rows = [["candidate", *map(display_name, metrics), "iteration", ""]]
        for one in self:
            values = [
                format_metric(one.point.value(name), required.get(name), m)
                for name, m in metrics.items()
            ]
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
        rows, point = self.table(), self.winner.point
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)) for r in rows]
        return "\n".join([f"'{point.goal}' on {point.on}", *(line.rstrip() for line in lines)])


def _best(candidates: Iterable[Candidate]) -> Candidate:
    return max(candidates, key=lambda c: c.sort_key)  # max() keeps the first of equals


_CLOSE = 2.0  # standard errors of the objective within which models are compared by their averages

Average = Callable[[dict[str, Any]], float]


class Selection:
    """The best model of a training so far, all candidates, and the history.

    Parameters
    ----------
    take : Candidate, optional
        Keep only models with this candidate's name or start, even if another one is better.
    average : callable, optional
        Returns the gain of a model with these weights, averaged over halves. It is computed for
        models whose objective is close to the best.
    """

    best: tuple[OperatingPoint, dict[str, Any]]

    def __init__(self, take: Candidate | None = None, average: Average | None = None) -> None:
        self.history = History()
        self.candidates = Candidates()
        self._take, self._average = take, average
        self._won: Candidate | None = None

    def update(self, models: Sequence[TrainedModel], lam: float, loss: float) -> None:
        """Compare the models of an outer iteration with the best so far, and record it."""
        iteration = len(self.history)
        leader = best_of(models)
        for model, average in zip(models, self._averages_of(models, leader), strict=True):
            self.candidates.see(model, iteration, average)
        if self._take is not None:
            # Its best iterate up to that iteration: the very same one may be poor on other rows.
            wanted = [m for m in models if m.name in (self._take.name, self._take.start)]
            leader = best_of(wanted) if wanted else leader
            if iteration == 0 or leader.point.sort_key > self.best[0].sort_key:
                self._keep(leader.point, leader, iteration)
        elif self.candidates.winner is not self._won:  # it is one of these models
            self._won = self.candidates.winner
            model = next(m for m in models if m.name == self._won.name)
            self._keep(self._won.point, model, iteration)
        self.history.records.append(Record.of(iteration, leader.point, lam, loss))

    def _averages_of(
        self, models: Sequence[TrainedModel], leader: TrainedModel
    ) -> list[float | None]:
        """Return each model's average gain, or None if it is far from the best.

        Without an average a model counts with its gain. So it only goes without if that is below
        the leader's average as well.
        """
        if self._average is None or not all(model.exact for model in models):
            return [None] * len(models)
        least, best, *_ = leader.point.sort_key
        of_leader = self._average_of(leader)
        enough = min(of_leader, best - _CLOSE * leader.point.standard_error)
        averages: list[float | None] = []
        for model in models:
            violation, gain, *_ = model.point.sort_key
            if model is leader:
                averages.append(of_leader)
            elif violation < least or gain < enough:
                averages.append(None)
            else:
                averages.append(self._average_of(model))
        return averages

    def _average_of(self, model: TrainedModel) -> float:
        """Return the mean of a model's gain at its threshold and of its average over halves."""
        assert self._average is not None
        return (model.point.sort_key[1] + self._average(model.weights)) / 2

    def offer(self, model: TrainedModel) -> None:
        """Take over a model from another training if it wins; it then gets a record of its own."""
        iteration, last = len(self.history), self.history[-1]
        self.candidates.see(model, iteration, *self._averages_of([model], model))
        if self.candidates.winner.name == model.name:
            self._won = self.candidates.winner
            self._keep(model.point, model, iteration)
            self.history.records.append(Record.of(iteration, model.point, last.lam, last.loss))

    def _keep(self, point: OperatingPoint, model: TrainedModel, iteration: int) -> None:
        self.best = point, copy.deepcopy(model.weights)
        self.history.best_iteration = iteration

    def restore(
        self,
        best: tuple[OperatingPoint, dict[str, Any]],
        history: History,
        candidates: Candidates,
    ) -> None:
        """Continue from the state of an earlier training."""
        self.best, self.history, self.candidates = best, history, candidates
        self._won = candidates.winner
