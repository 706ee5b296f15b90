"""The history of a training in metric units, and when it has stopped improving."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.thresholds.operating_point import OperatingPoint


@dataclass(frozen=True)
class Record:
    """The best model of one outer iteration.

    ``iteration`` 0 is the starting point. ``objective`` and ``violation`` belong to the operating
    point on the validation rows or, without any, on the training rows; ``lam`` is the penalty
    parameter and ``loss`` the function that was minimised, in its own units.
    """

    iteration: int
    objective: float
    violation: float
    feasible: bool
    threshold: float
    lam: float
    loss: float
    metrics: dict[str, float]

    @classmethod
    def of(cls, iteration: int, point: OperatingPoint, lam: float, loss: float) -> Record:
        """Return the record of an operating point."""
        names = {"precision", "recall", "f1", *(m.name for m in point.goal.metrics)}
        return cls(
            iteration,
            point.objective,
            point.violation,
            point.feasible,
            point.threshold,
            lam,
            loss,
            {name: point.value(name) for name in sorted(names)},
        )


@dataclass
class History:
    """The records of a training run, in order.

    Attributes
    ----------
    best_iteration : int
        The iteration whose model was kept.
    interrupted : bool
        Whether the run was stopped before its end.
    diverged : bool
        Whether it was stopped because the model's scores were no longer numbers.
    """

    records: list[Record] = field(default_factory=list)
    best_iteration: int = 0
    interrupted: bool = False
    diverged: bool = False

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def column(self, name: str) -> NDArray[np.float64]:
        """Return a field of the records, or a metric, over the iterations."""
        return np.array([r.metrics[name] if name in r.metrics else getattr(r, name) for r in self])

    @property
    def objective(self) -> NDArray[np.float64]:
        """The goal's objective after each iteration."""
        return self.column("objective")

    @property
    def violation(self) -> NDArray[np.float64]:
        """The violation of the goal's constraints after each iteration."""
        return self.column("violation")

    @property
    def lam(self) -> NDArray[np.float64]:
        """The penalty parameter lambda of each iteration."""
        return self.column("lam")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON or a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """Return the history from the values of ``to_dict``."""
        records = [Record(**record) for record in values["records"]]
        diverged = values.get("diverged", False)  # missing in files of earlier versions
        return cls(records, values["best_iteration"], values["interrupted"], diverged)


_SMALLEST_GAIN = 0.1  # standard errors of the objective


class Patience:
    """Counts the evaluations since the last gain.

    A gain is less violation, or an objective that is better by more than a tenth of its standard
    error.

    Parameters
    ----------
    evaluations : int or None
        How many without a gain end the training. None: it never ends early.

    Examples
    --------
    >>> from setpoint import OFOS
    >>> patience = Patience(2)
    >>> point = OperatingPoint(0.0, 60.0, 40.0, 40.0, 860.0, OFOS())
    >>> [patience.ends_at(point) for _ in range(3)]
    [False, False, True]
    """

    def __init__(self, evaluations: int | None) -> None:
        self._evaluations = evaluations
        self._best: tuple[float, ...] = ()
        self._since = 0

    def ends_at(self, point: OperatingPoint) -> bool:
        """Return whether training ends at an evaluation whose best operating point is this."""
        if not self._best or self._gains(point):
            self._best, self._since = point.rank, 0
        else:
            self._since += 1
        return self._evaluations is not None and self._since >= self._evaluations

    def _gains(self, point: OperatingPoint) -> bool:
        rank, best = point.rank, self._best
        if rank[0] != best[0]:
            return rank[0] > best[0]
        return rank[1] > best[1] + _SMALLEST_GAIN * point.standard_error

    def state_dict(self) -> dict[str, Any]:
        """Return the best rank and the evaluations since."""
        return {"best": self._best, "since": self._since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._best, self._since = state["best"], state["since"]
