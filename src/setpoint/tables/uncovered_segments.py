"""Rows of segments about which a goal says nothing: new ones, and those too small in training."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from setpoint._internal.validation import listed
from setpoint.goals.columns import OTHER
from setpoint.tables.goal_columns import segments_of

_SHOWN = 3


class UncoveredSegments:
    """Counts rows of segments that no constraint "for each" segment covers; rows come in batches.

    Where small segments were pooled in training, new ones belong to this pool, and are covered.

    Attributes
    ----------
    columns : tuple of str
        The columns of segments to look at.
    """

    def __init__(self, classifier: Any) -> None:
        judged = getattr(classifier, "segments_", {})
        own = getattr(classifier, "segment_thresholds_", None)
        self._judged = {name: v for name, v in judged.items() if OTHER not in v}
        self._with_thresholds = None if own is None else own.column
        self._uncovered: dict[str, Counter[str]] = {name: Counter() for name in self._judged}
        self._rows = 0
        self.columns = tuple(self._judged)

    def add(self, frame: Any) -> None:
        """Count the rows of a table; columns that it does not have are left out."""
        self._rows += len(frame)
        for name, values in self._judged.items():
            if name in frame.columns:
                texts = segments_of(frame[name])
                self._uncovered[name].update(texts[~np.isin(texts, values)].tolist())

    @property
    def notes(self) -> list[str]:
        """A sentence or two for each column with such rows."""
        found = []
        for name, counts in self._uncovered.items():
            if not counts:
                continue
            often = listed([text for text, _ in counts.most_common(_SHOWN)])
            more = ", ..." if len(counts) > _SHOWN else ""
            note = (
                f"The goal says nothing about {counts.total():,} of {self._rows:,} rows: their "
                f"{name!r} ({often}{more}) did not occur, or was too small, in training."
            )
            if name == self._with_thresholds:
                note += f" The threshold for any other {name!r} applies to them."
            found.append(note)
        return found
