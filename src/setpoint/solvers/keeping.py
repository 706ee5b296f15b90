"""What the loop keeps of a training for one goal."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from setpoint.operating_point import OperatingPoint
from setpoint.solvers.candidates import Candidate, Candidates, Contender, standing
from setpoint.solvers.history import History, Record

if TYPE_CHECKING:
    from setpoint.solvers.base import Progress

MARGIN = 1.0  # standard errors by which goal-training must win on validation rows


class Keeper:
    """The best model so far, all candidates, and the history.

    Parameters
    ----------
    judged_apart : bool
        Whether other rows than those that train judge. These are few: a goal-trained model must win
        clearly. On training rows the best objective is the best objective.
    take : Candidate, optional
        The one whose name or start the kept model must have, whatever else is better.
    """

    best: tuple[OperatingPoint, dict[str, Any]]

    def __init__(self, judged_apart: bool, take: Candidate | None = None) -> None:
        self.history = History()
        self.candidates = Candidates(margin=MARGIN if judged_apart else 0.0)
        self._take = take
        self._won: Candidate | None = None

    def see(self, contenders: Sequence[Contender], progress: Progress) -> None:
        """Keep what is worth it of the models as they stand after an iteration."""
        iteration = len(self.history)
        for contender in contenders:
            self.candidates.see(contender, iteration)
        leader = max(contenders, key=lambda c: standing(c.point))
        if self._take is not None:
            # Its best moment up to then; a single one may be a bad one on other rows.
            wanted = [c for c in contenders if c.name in (self._take.name, self._take.start)]
            leader = max(wanted, key=lambda c: standing(c.point), default=leader)
            if iteration == 0 or standing(leader.point) > standing(self.best[0]):
                self._hold(leader.point, leader, iteration)
        elif self.candidates.winner is not self._won:  # then it was seen just now
            self._won = self.candidates.winner
            holder = next(c for c in contenders if c.name == self._won.name)
            self._hold(self._won.point, holder, iteration)
        record = Record.of(iteration, leader.point, progress.lam, progress.loss)
        self.history.records.append(record)

    def offer(self, contender: Contender) -> None:
        """Keep a model from elsewhere, which then has a record of its own, if it wins."""
        iteration, last = len(self.history), self.history[-1]
        self.candidates.see(contender, iteration)
        if self.candidates.winner.name == contender.name:
            self._won = self.candidates.winner
            self._hold(contender.point, contender, iteration)
            record = Record.of(iteration, contender.point, last.lam, last.loss)
            self.history.records.append(record)

    def _hold(self, point: OperatingPoint, holder: Contender, iteration: int) -> None:
        self.best = point, copy.deepcopy(holder.weights)
        self.history.best_iteration = iteration

    def take_up(
        self,
        best: tuple[OperatingPoint, dict[str, Any]],
        history: History,
        candidates: Candidates,
    ) -> None:
        """Go on from what an earlier training kept."""
        self.best, self.history, self.candidates = best, history, candidates
        self._won = candidates.winner
