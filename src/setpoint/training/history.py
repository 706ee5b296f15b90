"""What happened while training, in metric units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.thresholds.operating_point import OperatingPoint


@dataclass(frozen=True)
class Record:
    """One outer iteration: where the model stood after it.

    ``iteration`` 0 is the starting point. ``objective`` and ``violation`` are those of the
    operating point on the rows that judge; ``lam`` is the penalty parameter and ``loss`` the
    function that was minimised, in its own units.
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
        """What the constraints were missed by after each iteration."""
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
        """Return the history that ``to_dict`` described."""
        records = [Record(**record) for record in values["records"]]
        diverged = values.get("diverged", False)  # files of earlier versions do not say
        return cls(records, values["best_iteration"], values["interrupted"], diverged)
