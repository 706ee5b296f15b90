"""What new rows hold that training rows did not, and the reverse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from setpoint._internal.validation import listed
from setpoint.data.values import MISSING, given, is_text_like, uncategorised
from setpoint.tables.encoder import CATEGORIES
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema, absent

_SHOWN = 3
_OFTEN = 0.05  # of the rows; fewer missing values are not told of
_TIMES = 10  # as often as in training


class Strangers:
    """Levels of categories that a model does not know, and columns that are missing too often.

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
        self._columns = schema.columns
        self._absent: Counter[str] = Counter()
        self._known: dict[str, set[str]] = {}
        for part, transformer, columns in encoder.transformers_:
            if part in CATEGORIES:
                levels = getattr(transformer, "steps", [("", transformer)])[-1][1].categories_
                self._known |= {n: {"", *told} for n, told in zip(columns, levels, strict=True)}
        self._unknown: dict[str, Counter[str]] = {name: Counter() for name in self._known}
        self._markers: dict[str, Counter[str]] = {name: Counter() for name in schema.names}

    def add(self, checked: Any, given_rows: Any) -> None:
        """Look at rows, as :meth:`Schema.check` returned them, and as it was given them."""
        self._rows += len(checked)
        for column in self._columns:
            name = column.name
            missing = absent(checked[name]).to_numpy(dtype=bool)
            self._absent[name] += int(missing.sum())
            if column.kind in ("number", "date"):
                self._markers[name].update(_markers(given_rows[name], missing, column))
        for name, known in self._known.items():
            counts = checked[name].value_counts()
            self._unknown[name].update({t: int(n) for t, n in counts.items() if t not in known})

    @property
    def notes(self) -> list[str]:
        """A sentence for each column that a person should look at."""
        told = []
        for name, counts in self._unknown.items():
            if counts:
                told.append(
                    f"In {name!r}, {counts.total():,} of {self._rows:,} values were not there in "
                    f"training ({_often(counts)}) and tell the model nothing."
                )
        for column in self._columns:
            if counts := self._markers[column.name]:
                what, one = column.kind, counts.total() == 1
                told.append(
                    f"In {column.name!r}, {counts.total():,} value{'' if one else 's'} "
                    f"count{'s' if one else ''} as missing ({_often(counts)}), as "
                    f"{f'it is no {what}' if one else f'they are no {what}s'}."
                )
        return told + list(self._missing())

    def _missing(self) -> Iterator[str]:
        """Yield a sentence for each column that is missing much more often than in training."""
        for column in self._columns:
            count = self._absent[column.name]
            if self._rows < 2 or count < 2:  # one row may well lack it
                continue
            rows = f"all {count:,}" if count == self._rows else f"{count:,} of {self._rows:,}"
            before, total = column.absent or (0, 0)  # older models do not know it
            if count == self._rows and before == 0:
                yield f"{column.name!r} is missing in {rows} rows, which it was not in training."
            elif total and count >= self._rows * _worth_telling(before / total):
                told = f"{before:,} of {total:,}"
                yield f"{column.name!r} is missing in {rows} rows; in training it was in {told}."


def _worth_telling(then: float) -> float:
    """Return which share of missing values is told of, by that in training."""
    return 1.0 if _TIMES * then > 1 > then else max(_OFTEN, _TIMES * then)


def _markers(series: Any, missing: Any, column: Column) -> Iterator[str]:
    """Yield the texts that count as missing, and that training did not know."""
    series = uncategorised(series)
    if is_text_like(series):
        known = {*MISSING, *column.missing}
        told = (str(v).strip() for v in series[missing & given(series)])
        yield from (text for text in told if text not in known)


def _often(counts: Counter[str]) -> str:
    """Return the texts that come most often."""
    often = listed(text for text, _ in counts.most_common(_SHOWN))
    return often + (", ..." if len(counts) > _SHOWN else "")
