"""The columns of a model, and whether a table has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import did_you_mean, listed, quoted
from setpoint.data.values import (
    MARKERS,
    Values,
    booleans,
    dates,
    has_unit,
    is_present,
    numbers,
    parse_number,
    texts,
    without_categories,
)
from setpoint.errors import SchemaError
from setpoint.tables.kinds import Column, column_of

pd = OptionalModule("pandas", "cli", "a table")

_MISSING, _CONSTANT = "missing in every row", "the same in every row"
# What each kind of column holds, and what to do about other values.
_EXPECTED = {
    "number": ("numbers", "Correct such values, or leave them empty if the number is not known."),
    "boolean": ("true or false", "Write true or false, or leave unknown ones empty."),
    "category": ("texts", "Save the column as texts."),
    "text": ("texts", "Save the column as texts."),
    "date": ("dates", "Write them so, or leave unknown ones empty."),
}


@dataclass(frozen=True)
class Schema:
    """The columns of a model, in its order.

    Attributes
    ----------
    columns : tuple of Column
        The columns that are used.
    aside : tuple of (str, str)
        Columns that are not used, with the reason. A table need not have them.
    """

    columns: tuple[Column, ...]
    aside: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, frame: Any, aside: Mapping[str, str] | None = None) -> Schema:
        """Learn the columns of a table.

        Columns that are missing or the same in every row are not used.

        Parameters
        ----------
        frame : DataFrame
            The table.
        aside : mapping of str to str, optional
            Columns not to use, and why, e.g. ``{"Class": "the target"}``.

        Examples
        --------
        >>> import pandas as pd
        >>> schema = Schema.of(pd.DataFrame({"amount": [1, 2.5], "where": ["home", "away"]}))
        >>> [(column.name, column.kind) for column in schema.columns]
        [('amount', 'number'), ('where', 'category')]
        """
        _check_names(frame)
        unused = dict(aside or {})
        columns = []
        for name in frame.columns:
            if name in unused:
                continue
            series = frame[name]
            present = is_present(series)
            if not present.any():
                unused[name] = _MISSING
            elif present.all() and _one_value(series):
                unused[name] = _CONSTANT
            else:
                columns.append(column_of(series))
        if not columns:
            raise SchemaError(
                "no column is left to train on: "
                + "; ".join(f"{name!r} is {why}" for name, why in list(unused.items())[:8])
            )
        return cls(tuple(columns), tuple(unused.items()))

    @property
    def names(self) -> list[str]:
        """The names of the columns that are used."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> frozenset[str]:
        """The columns to read as texts, even if all values of a file look like numbers."""
        found = {c.name for c in self.columns if c.kind in ("category", "text") and not c.mixed}
        # In numbers of another format, 1.234 may be 1234.
        return frozenset(found | {c.name for c in self.of_kind("number") if c.format is not None})

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on columns that are not used, and on how others were read."""
        unused = [
            f"The column {name!r} is {why} and is not used."
            for name, why in self.aside
            if why in (_MISSING, _CONSTANT)
        ]
        return (*unused, *(column.note for column in self.columns if column.note))

    def of_kind(self, *kinds: str) -> list[Column]:
        """Return the columns of some kinds."""
        return [column for column in self.columns if column.kind in kinds]

    def check_names(
        self, names: Sequence[str], ignore_extra: bool = False, known: Sequence[str] = ()
    ) -> None:
        """Raise SchemaError, with every missing or unknown column; ``known`` are also allowed."""
        _raise_if_any(self._name_messages(names, ignore_extra, known))

    def _name_messages(
        self, names: Sequence[str], ignore_extra: bool, known: Sequence[str] = ()
    ) -> list[str]:
        known = [*self.names, *(name for name, _ in self.aside), *known]
        extra = [name for name in names if name not in known]
        wrong = [
            f"{name!r} is missing.{did_you_mean(name, extra)}"
            for name in self.names
            if name not in names
        ]
        if extra and not ignore_extra:
            wrong.append(
                f"not known to the model: {listed(extra)}. Leave them out, or ignore "
                "them (--ignore-extra, ignore_extra=True)."
            )
        return wrong

    def check(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Any:
        """Return the model's columns, in its order and with its types.

        Numbers and booleans become 64-bit floats, NaN where missing; categories and texts become
        texts, empty where missing; dates become times in the model's time zone.

        Parameters
        ----------
        frame : DataFrame
            New rows.
        ignore_extra : bool
            Whether to ignore columns that the model does not know.
        first_row : int
            The number of earlier rows of the file, for messages.

        Raises
        ------
        SchemaError
            With every column that is missing, unknown, or of another type.
        """
        _check_names(frame)
        wrong = self._name_messages(list(frame.columns), ignore_extra)
        found = {}
        for column in self.columns:
            if column.name in frame.columns:
                found[column.name], bad = _converted(frame[column.name], column)
                if bad.any():
                    wrong.append(_type_message(frame[column.name], column, bad, first_row))
        _raise_if_any(wrong)
        return pd.DataFrame(found, index=frame.index)

    def counted(self, checked: Any) -> Schema:
        """Return the schema with the number of missing values in checked rows, for training."""
        counts = {name: int(absent(checked[name]).sum()) for name in self.names}
        columns = [replace(c, absent=(counts[c.name], len(checked))) for c in self.columns]
        return replace(self, columns=tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "aside": [list(pair) for pair in self.aside],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Schema:
        """Return the schema from the values of ``to_dict``."""
        try:
            columns = tuple(_column(**column) for column in fields["columns"])
            aside = tuple((str(name), str(why)) for name, why in fields["aside"])
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"this is not a schema: {error}") from error
        unknown = [c.kind for c in columns if c.kind not in _EXPECTED]
        if unknown or not columns:
            raise SchemaError(f"this is not a schema: columns of the kinds {unknown}")
        names = [c.name for c in columns]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SchemaError(f"this is not a schema: columns of the names {listed(names)}")
        return cls(columns, aside)


def find_roles(
    names: list[str],
    target: str | Sequence[str],
    group: str | None,
    time: str | None,
    drop: Sequence[str],
    baseline_scores: str | None = None,
) -> dict[str, str]:
    """Return the columns that are not features, and why; there may be several targets."""
    columns_of: Mapping[str, Sequence[str | None]] = {
        "the target": [target] if isinstance(target, str) else target,
        "the group": [group],
        "the time": [time],
        "the scores of today's model": [baseline_scores],
        "dropped": drop,
    }
    roles: dict[str, str] = {}
    for role, columns in columns_of.items():
        for name in columns:
            if name is None:
                continue
            if name not in names:
                raise SchemaError(
                    f"there is no column {name!r} ({role}); the table has {listed(names)}."
                    f"{did_you_mean(name, names)}"
                )
            if roles.get(name) == "the target":
                raise SchemaError(f"the column {name!r} is the target and cannot be {role} too.")
            roles.setdefault(name, role)
    return roles


def absent(series: Any) -> Any:
    """Return where a column of checked rows is missing."""
    return series.isna() | (series == "")


def _column(*, missing: Sequence[str] = (), absent: Any = None, **fields: Any) -> Column:
    """Return a column from plain values."""
    if absent is not None:
        count, rows = absent
        if not type(count) is type(rows) is int or not 0 <= count <= rows:
            raise ValueError(f"a column that is missing in {count!r} of {rows!r} rows")
        absent = (count, rows)
    column = Column(missing=tuple(map(str, missing)), absent=absent, **fields)
    if column.kind == "number" and column.format is not None:
        parse_number("", column.format)  # raises ValueError unless it is a format
    return column


def _converted(series: Any, column: Column) -> Values:
    """Return the values of a column in the model's type, and which do not fit."""
    if not column.mixed:
        series = without_categories(series)
    if column.kind == "number":
        return numbers(series, {*MARKERS, *column.missing}, column.format)
    if column.kind == "boolean":
        return booleans(series)
    if column.kind == "date":
        return dates(series, column.format, column.zone, {*MARKERS, *column.missing})
    return texts(series, strict=not column.mixed)


def _type_message(series: Any, column: Column, bad: Any, first_row: int) -> str:
    row = int(np.flatnonzero(bad)[0])
    what, remedy = _EXPECTED[column.kind]
    if column.kind == "date":
        what += " without a time zone" if column.zone is None else " with a time zone"
        what += "" if column.format in (None, "ISO8601") else f" such as {column.format}"
    elif column.format is not None:
        what += f" written like {column.format}"
    if column.kind == "number" and column.format is not None:
        remedy = f"Write them like {column.format}, as in training, or fit the model again"
        remedy += " on plain numbers" if has_unit(column.format) else ""
        remedy += "; leave unknown ones empty."
    return (
        f"{column.name!r} held {what} when the model was trained ({column.dtype}), and now holds "
        f"{quoted(series.iloc[row])} in row {first_row + row + 1:,} ({int(bad.sum()):,} such). "
        f"{remedy}"
    )


def _raise_if_any(wrong: list[str]) -> None:
    if wrong:
        raise SchemaError("the table does not fit the columns of the model: " + " ".join(wrong))


def _check_names(frame: Any) -> None:
    if not len(frame.columns) or not len(frame):
        raise SchemaError(f"the table has {len(frame.columns)} columns and {len(frame)} rows.")
    for name in frame.columns:
        if not isinstance(name, str):
            raise SchemaError(
                f"column names must be strings, not {name!r} ({type(name).__name__})."
            )
    twice = [name for name, count in Counter(frame.columns).items() if count > 1]
    if twice:
        raise SchemaError(f"several columns are named {listed(twice)}; rename them.")


def _one_value(series: Any) -> bool:
    try:
        return bool(series.nunique() == 1)
    except TypeError:  # lists and the like, which raise an error later
        return False
