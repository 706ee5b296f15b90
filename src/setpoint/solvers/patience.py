"""When a training has nothing more to gain that its rows could tell from chance."""

from __future__ import annotations

from typing import Any

from setpoint.operating_point import OperatingPoint

_WORTH_TELLING = 0.1  # standard errors of the objective


class Patience:
    """Counts the looks since the last gain.

    A gain is less violation, or an objective that is better by more than a tenth of its standard
    error on the rows that judge.

    Parameters
    ----------
    looks : int or None
        How many without a gain end a training. None: no number does.

    Examples
    --------
    >>> from setpoint import OFOS
    >>> patience = Patience(2)
    >>> point = OperatingPoint(0.0, 60.0, 40.0, 40.0, 860.0, OFOS())
    >>> [patience.ends_at(point) for _ in range(3)]
    [False, False, True]
    """

    def __init__(self, looks: int | None) -> None:
        self._looks = looks
        self._best: tuple[float, ...] = ()
        self._since = 0

    def ends_at(self, point: OperatingPoint) -> bool:
        """Whether training ends at a look whose best point is this."""
        if not self._best or self._gains(point):
            self._best, self._since = point.rank, 0
        else:
            self._since += 1
        return self._looks is not None and self._since >= self._looks

    def _gains(self, point: OperatingPoint) -> bool:
        rank, best = point.rank, self._best
        if rank[0] != best[0]:
            return rank[0] > best[0]
        return rank[1] > best[1] + _WORTH_TELLING * point.standard_error

    def state_dict(self) -> dict[str, Any]:
        """Return the best rank, and the looks since then."""
        return {"best": self._best, "since": self._since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self._best, self._since = state["best"], state["since"]
