"""What new rows hold that training rows did not, and the reverse."""

from __future__ import annotations

from collections import Counter
from typing import Any

from setpoint.tabular.errors import listed
from setpoint.tabular.schema import Schema

_CATEGORIES = "categories"  # the encoder's part of those whose levels it knows by name
_SHOWN = 3


class Strangers:
    """Levels of categories that a model does not know, and columns that are always missing.

    Rows may come in batches. Categories with so many levels that the encoder goes by their letters
    have no strangers.

    Parameters
    ----------
    schema : Schema
        The model's columns.
    encoder : ColumnTransformer
        What makes features of them.
    """

    def __init__(self, schema: Schema, encoder: Any) -> None:
        self._rows = 0
        self._absent = list(schema.names)
        self._known: dict[str, set[str]] = {}
        for part, transformer, columns in encoder.transformers_:
            if part == _CATEGORIES:
                known = zip(columns, transformer.categories_, strict=True)
                self._known = {name: {"", *levels} for name, levels in known}
        self._unknown: dict[str, Counter[str]] = {name: Counter() for name in self._known}

    def add(self, checked: Any) -> None:
        """Look at rows, as :meth:`Schema.check` returned them."""
        self._rows += len(checked)
        self._absent = [n for n in self._absent if (checked[n].isna() | (checked[n] == "")).all()]
        for name, known in self._known.items():
            counts = checked[name].value_counts()
            self._unknown[name].update({t: int(n) for t, n in counts.items() if t not in known})

    @property
    def notes(self) -> list[str]:
        """A sentence for each column that a person should look at."""
        told = []
        for name, counts in self._unknown.items():
            if counts:
                often = [level for level, _ in counts.most_common(_SHOWN)]
                more = ", ..." if len(counts) > _SHOWN else ""
                told.append(
                    f"In {name!r}, {counts.total():,} of {self._rows:,} values were not there in "
                    f"training ({listed(often)}{more}) and tell the model nothing."
                )
        if self._rows > 1:
            told += [
                f"{name!r} is missing in all {self._rows:,} rows, which it was not in training."
                for name in self._absent
            ]
        return told
