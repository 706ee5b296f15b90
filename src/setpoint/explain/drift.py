r"""How columns of later rows differ from those of training.

A model keeps a short summary of each column. Numbers are compared by the Kolmogorov–Smirnov
distance, the largest difference between the fractions of rows up to a value; categories by total
variation, half the sum of the differences between the fractions of all values. Both are 0 for equal
distributions and 1 for disjoint ones. With enough rows every difference is significant, so columns
are reported by the size of the difference, unless chance explains it.

By chance alone, with n and m rows, the first distance exceeds

.. math:: \sqrt{\tfrac12 \ln(2k / \alpha) (1/n + 1/m)}

in any of k columns with a probability of about :math:`\alpha = 0.01`, and total variation exceeds
its mean by :math:`\sqrt{\tfrac12 \ln(k / \alpha) (1/n + 1/m)}` (McDiarmid).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.listing import MOST_SHOWN, Ranking
from setpoint._internal.notebook import Summary
from setpoint.explain.column_summary import (
    COUNTED,
    ColumnSummary,
    level_counts,
    moments,
    present_values,
)

LARGE, NOTABLE = 0.25, 0.1  # sizes of a difference
_ALPHA = 0.01  # of a difference by chance alone in any column
_SCALE = "0: distributed as in training; 1: no overlap."


@dataclass(frozen=True)
class ColumnDrift:
    """How a column differs from training.

    Attributes
    ----------
    name, kind : str
        The column and its kind.
    distance : float
        Of the values that are present: Kolmogorov–Smirnov, or total variation of categories and
        booleans; 0 where either has no values.
    missing_before, missing : float
        The fraction of rows in which it was missing in training, and is missing now.
    chance : float
        Differences up to this size are explained by chance.
    before, now : str
        What is typical: mean and standard deviation, or the value whose fraction differs most.
    unseen : float or None
        The fraction of rows with values that training has not seen; None where that is unknown.
    """

    name: str
    kind: str
    distance: float
    missing_before: float
    missing: float
    chance: float
    before: str
    now: str
    unseen: float | None = None

    @property
    def size(self) -> float:
        """The larger of the distance and the difference in missing values."""
        return max(self.distance, abs(self.missing - self.missing_before))

    @property
    def is_notable(self) -> bool:
        """Whether the difference is at least 0.1, and more than chance explains."""
        return self.size >= NOTABLE and self.size > self.chance

    @property
    def judgement(self) -> str:
        """The size of the difference in words."""
        if self.size <= self.chance:
            return "within chance"
        return "large" if self.size >= LARGE else "moderate" if self.size >= NOTABLE else "small"


class Drift(Ranking[ColumnDrift]):
    """How the columns of some rows differ from training, the most different first.

    Attributes
    ----------
    on : str
        What the rows are called.
    rows : int
        How many there are.
    """

    def __init__(self, found: Sequence[ColumnDrift], on: str, rows: int) -> None:
        self._found = tuple(sorted(found, key=lambda one: -one.size))
        self.on, self.rows = on, rows

    @classmethod
    def of(cls, summaries: Sequence[ColumnSummary], checked: Any, on: str) -> Drift:
        """Return how checked rows differ from the summaries of training."""
        found = [_compared(one, checked[one.name], len(summaries)) for one in summaries]
        return cls(found, on, len(checked))

    @property
    def notable(self) -> tuple[ColumnDrift, ...]:
        """The columns that differ by at least 0.1, and by more than chance explains."""
        return tuple(one for one in self if one.is_notable)

    @property
    def meaning(self) -> str:
        """The result in a sentence or two."""
        number = len(self.notable)
        if not number:
            return (
                f"No column of {self.on} ({self.rows:,} rows) differs from training by {NOTABLE:g} "
                f"or more beyond what chance explains. {_SCALE}"
            )
        return (
            f"On {self.on} ({self.rows:,} rows), {number:,} of {len(self):,} columns "
            f"{'differs' if number == 1 else 'differ'} from training by {NOTABLE:g} or more, and "
            f"by more than chance explains. {_SCALE}"
        )

    def table(self, most: int | None = None) -> list[list[str]]:
        """Return the columns as rows of text, the header first; ``most``: only so many."""
        head = ["column", "difference", "", "training", "now", "missing"]
        unseen = any(one.unseen for one in self)
        rows = [[*head, *(["unseen"] * unseen)]]
        for one in self[: len(self) if most is None else most]:
            missing = f"{_percent(one.missing_before)} → {_percent(one.missing)}"
            row = [one.name, f"{one.size:.2f}", one.judgement, one.before, one.now, missing]
            rows.append([*row, *([_percent(one.unseen) if one.unseen else ""] * unseen)])
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        names = ("kind", "size", "distance", "missing_before", "missing", "unseen", "chance")
        return {
            "on": self.on,
            "rows": self.rows,
            "notable": len(self.notable),
            "columns": [
                {
                    "column": one.name,
                    **{name: getattr(one, name) for name in names},
                    "training": one.before,
                    "now": one.now,
                    "judgement": one.judgement,
                }
                for one in self
            ],
        }

    def _summary(self) -> Summary:
        caption = f"{len(self):,} columns, the most different first"
        return Summary(self.meaning, not self.notable, caption, [self.table(MOST_SHOWN)])


# --- comparing -----------------------------------------------------------------------------------


def _compared(before: ColumnSummary, values: Any, columns: int) -> ColumnDrift:
    """Return how the values of a column differ from its summary."""
    present = present_values(values, before.kind)
    n, m = before.present, len(present)
    rows = len(values)
    missing_before, missing = before.missing / max(before.rows, 1), (rows - m) / max(rows, 1)
    chance = 0.0
    if abs(missing - missing_before) > 0:
        chance = _by_chance(2 * columns, before.rows, rows)
    if not n or not m:  # nothing to compare but missing values
        return ColumnDrift(before.name, before.kind, 0.0, missing_before, missing, chance, "–", "–")
    if before.kind in COUNTED:
        distance, mean, words, unseen = _of_levels(before, present)
        chance = max(chance, mean + _by_chance(columns, n, m))
        return ColumnDrift(
            before.name, before.kind, distance, missing_before, missing, chance, *words, unseen
        )
    chance = max(chance, _by_chance(2 * columns, n, m))
    ranks = np.searchsorted(np.sort(present), before.grid, side="right")
    gaps = np.abs(np.array(before.up_to) / n - ranks / m)
    return ColumnDrift(
        before.name, before.kind, float(gaps.max(initial=0.0)), missing_before, missing, chance,
        _typical(before.kind, before.mean, before.deviation),
        _typical(before.kind, *moments(present)),
    )  # fmt: skip


def _of_levels(
    before: ColumnSummary, present: NDArray[Any]
) -> tuple[float, float, tuple[str, str], float | None]:
    """Return total variation, its mean by chance, the most different value, and unseen ones."""
    n, m = before.present, len(present)
    known, now = dict(before.levels), dict(level_counts(present))
    shares = {level: count / n for level, count in known.items()}
    rest = 1.0 - sum(shares.values())  # of values that are not kept
    shares_now = {level: now.get(level, 0) / m for level in known}
    new = (m - sum(now.get(level, 0) for level in known)) / m
    gaps = {level: shares_now[level] - share for level, share in shares.items()}
    distance = (sum(map(abs, gaps.values())) + abs(new - rest)) / 2
    pooled = np.array([(n * shares[k] + m * shares_now[k]) / (n + m) for k in known])
    spread = np.sqrt(np.clip(pooled * (1 - pooled), 0, None) * (1 / n + 1 / m))
    by_chance = float(spread.sum()) * math.sqrt(2 / math.pi) / 2
    unseen = new if before.is_complete else None
    if not gaps:
        return distance, by_chance, ("–", "–"), unseen
    most = max(gaps, key=lambda level: abs(gaps[level]))
    name = most if len(most) <= 20 else most[:19] + "…"
    words = f"{name} {_percent(shares[most])}", f"{name} {_percent(shares_now[most])}"
    return min(distance, 1.0), by_chance, words, unseen


def _by_chance(tests: int, n: int, m: int) -> float:
    return math.sqrt(math.log(tests / _ALPHA) / 2 * (1 / max(n, 1) + 1 / max(m, 1)))


def _typical(kind: str, mean: float, deviation: float) -> str:
    """Write mean and deviation; of dates the mean."""
    if math.isnan(mean):
        return "–"
    if kind == "date":
        try:
            return f"mean {datetime.fromtimestamp(mean, UTC):%Y-%m-%d}"
        except (ValueError, OverflowError, OSError):
            return "–"
    unit = " letters" if kind == "text" else ""
    return f"{_short(mean, 4)} ± {_short(deviation, 3)}{unit}".replace("-", "−")


def _short(value: float, digits: int) -> str:
    """Write a number in few digits, large ones without an exponent."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.{digits}g}"


def _percent(share: float) -> str:
    text = f"{100 * share:.0f} %" if 0.095 <= share <= 0.995 or share in (0, 1) else ""
    return text or f"{100 * share:.1f} %"
