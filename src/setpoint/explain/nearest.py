"""The rows nearest to the threshold, and what moved their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.listing import Listing, aligned
from setpoint._internal.notebook import Summary
from setpoint._internal.validation import quoted
from setpoint.errors import SetpointError
from setpoint.goals.metrics import format_threshold
from setpoint.thresholds.operating_point import jsonable

Floats = NDArray[np.floating]

EACH_SIDE = 5
_MOST_MOVES = 3  # columns that are listed for a row


@dataclass(frozen=True)
class NearRow:
    """A row whose score is close to the threshold.

    Attributes
    ----------
    number : int
        The number of the row; the first one of a table is 1.
    score : float
        Relative to the threshold: above 0 is an alarm.
    label : str or None
        Its label, if it is known.
    contributions : mapping of str to float
        By how much each column moved the score of a linear model from that of the average
        training row: the column's features less their means, times their coefficients. The
        largest come first; empty for other models.
    values : mapping of str to str
        The values of these columns; empty unless they were asked for.
    """

    number: int
    score: float
    label: str | None = None
    contributions: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alarm(self) -> bool:
        """Whether the row raises an alarm."""
        return self.score > 0


class NearestRows(Listing[NearRow]):
    """The rows nearest to the threshold, from the highest score down.

    Attributes
    ----------
    on : str
        What the rows are called.
    average : float or None
        The score of the average training row, from which contributions are measured; None if
        the model is not linear.
    of : {"score", "log-odds"}
        What contributions are measured in: log-odds if the threshold applies to probabilities.
    """

    def __init__(
        self, found: Sequence[NearRow], on: str, average: float | None = None, of: str = "score"
    ) -> None:
        self._found = tuple(found)
        self.on, self.average, self.of = on, average, of

    @property
    def meaning(self) -> str:
        """What is shown, in a sentence or two."""
        text = f"The scores closest to the threshold on {self.on}. A score above 0 raises an alarm."
        if self.average is not None:
            text += (
                f" The columns are those that moved the {self.of} the most from that of the "
                f"average row, {format_threshold(float(f'{self.average:.4g}'))}."
            )
        return text

    def table(self, *, exact: bool = True) -> list[list[str]]:
        """Return the rows as text, the header first.

        With ``exact=False`` the sizes of contributions are left out: together with the
        coefficients they would tell the values of a row.
        """
        head = ["row", "score", *(["label"] if any(r.label is not None for r in self) else [])]
        moved = any(row.contributions for row in self)
        lines = [[*head, *(["moved by"] if moved else [])]]
        for row in self:
            line = [str(row.number), _score_text(row.score)]
            line += [row.label or "–"] if "label" in head else []
            line += [_moves(row, exact)] if moved else []
            lines.append(line)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "on": self.on,
            "average": None if self.average is None else jsonable(self.average),
            "of": self.of,
            "rows": [
                {
                    "row": row.number,
                    "score": row.score,
                    "alarm": row.is_alarm,
                    "label": row.label,
                    "contributions": dict(row.contributions),
                    **({"values": dict(row.values)} if row.values else {}),
                }
                for row in self
            ],
        }

    def __str__(self) -> str:
        return "\n".join([self.meaning, *aligned(self.table(), left=(2, 3))])

    def _summary(self) -> Summary:
        return Summary(self.meaning, True, f"{len(self)} rows", [self.table()])


def _score_text(score: float) -> str:
    """Write a score with its sign; one just above the threshold never becomes 0."""
    return f"{score:+.4g}".replace("-", "−") if score else "0"


def _moves(row: NearRow, exact: bool) -> str:
    """Return the columns that moved the score of a row the most."""
    parts = []
    for column, moved in list(row.contributions.items())[:_MOST_MOVES]:
        if moved == 0:
            continue
        name = column
        if column in row.values:
            name += f" = {row.values[column]}"
        size = f" {moved:+.2g}".replace("-", "−") if exact else (" ↑" if moved > 0 else " ↓")
        parts.append(name + size)
    return ", ".join(parts) or "–"


def nearest(scores: Floats, each_side: int) -> NDArray[np.intp]:
    """Return the rows nearest to the threshold 0: so many with an alarm, so many without.

    They come from the highest score down; of equal scores, earlier rows are nearer. Infinite
    scores are never near.

    Examples
    --------
    >>> nearest(np.array([3.0, 0.0, 0.5, -9.0, 0.5, -1.0]), 2).tolist()
    [2, 4, 1, 5]
    """
    if each_side < 1:
        raise SetpointError(f"the number of rows on each side must be at least 1, not {each_side}.")
    finite = np.flatnonzero(np.isfinite(scores))
    order = finite[np.argsort(np.abs(scores[finite]), kind="stable")]
    alarm = scores[order] > 0
    kept = np.concatenate([order[alarm][:each_side], order[~alarm][:each_side]])
    return np.asarray(kept[np.lexsort((kept, -scores[kept]))])


def near_rows(
    scores: Floats,
    each_side: int,
    on: str,
    *,
    numbers: NDArray[np.intp] | None = None,
    labels: Sequence[str] | None = None,
    explain: Any = None,
    value: Any = None,
) -> NearestRows:
    """Return the rows nearest to the threshold.

    Parameters
    ----------
    scores : ndarray
        Relative to the threshold.
    each_side : int
        How many rows with and without an alarm.
    on : str
        What to call the rows.
    numbers : ndarray of int, optional
        The number of each row, from 0 on.
    labels : sequence of str, optional
        The label of each row.
    explain : callable, optional
        Returns, for some rows, the contribution of each column, the score of the average row,
        and whether that is a score or log-odds.
    value : callable, optional
        Returns the value of a column in a row; without it no values are shown.
    """
    rows = nearest(scores, each_side)
    moved: list[dict[str, float]] = [{} for _ in rows]
    average, of = None, "score"
    if explain is not None and len(rows):
        moved, average, of = explain(rows)
    found = []
    for row, contributions in zip(rows.tolist(), moved, strict=True):
        largest = dict(sorted(contributions.items(), key=lambda pair: -abs(pair[1])))
        values = {} if value is None else {c: quoted_value(value(row, c)) for c in largest}
        found.append(
            NearRow(
                (row if numbers is None else int(numbers[row])) + 1,
                float(scores[row]),
                None if labels is None else labels[row],
                largest,
                values,
            )
        )
    return NearestRows(found, on, average, of)


def quoted_value(value: object) -> str:
    """Return a value of a row as text, shortened."""
    return quoted(value).strip("'") if isinstance(value, str) else quoted(value)
