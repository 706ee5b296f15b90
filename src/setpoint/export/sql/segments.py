"""Thresholds of segments as SQL: which known segment a row belongs to, as Python's texts decide.

A database writes numbers, booleans and dates in other ways than Python, ``10.0`` and not ``10``.
Numbers and booleans are therefore compared as such, and what cannot be compared is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from setpoint._internal.validation import as_text
from setpoint.errors import SqlError
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.sql.dialects import Dialect
from setpoint.export.sql.statement import Sql, Statement, expression
from setpoint.goals.columns import NO_SEGMENT, OTHER
from setpoint.tables.goal_columns import NO_VALUE
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema

_INTEGER = re.compile(r"0|-?[1-9]\d*", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d\b")
_WHOLE = 2**63  # smaller ones are integers in all databases


def threshold_of_segment(
    statement: Statement, model: SetpointThreshold, schema: Schema | None
) -> Sql:
    """Add the threshold of each row's segment; return it.

    ``schema`` are the columns of a model of tables. In these a missing segment is one by itself;
    other classifiers refuse it, and such rows have no threshold here.
    """
    found, dialect = model.segment_thresholds_, statement.dialect
    assert found is not None
    known = list(dict.fromkeys([*found.thresholds, *model.segments_.get(found.column, ())]))
    unseen = "".join(map(str, known)) + "?"  # longer than any of them
    texts = model._known_segments(found.column, np.array([*known, NO_VALUE, unseen]))
    *thresholds, of_missing, other = found.of_rows(texts).tolist()
    names = [name for name in known if name not in (NO_VALUE, OTHER, NO_SEGMENT)]
    columns = {} if schema is None else {column.name: column for column in schema.columns}
    kind = _kind(found.column, names, columns.get(found.column))
    given = statement.input(found.column).text
    if kind == "boolean":
        given = dialect.truth(given)
    elif kind == "text":
        given = dialect.cast(given, dialect.string)
        given = f"NULLIF({given if schema is None else dialect.stripped(given)}, '')"
    column = statement.define(f"{found.column}_segment", Sql(given))
    present = dialect.finite_or_infinite(column.text) if kind == "number" else column.text
    cases = [f"WHEN {present} IS NULL THEN {_or_null(dialect, schema, of_missing)}"]
    cases += [
        f"WHEN {_condition(dialect, kind, column.text, name)} THEN {dialect.number(threshold)}"
        for name, threshold in zip(known, thresholds, strict=True)
        if threshold != other and (kind == "text" or name in names)
    ]
    chosen = f"CASE {' '.join(cases)} ELSE {dialect.number(other)} END"
    chosen = dialect.cast(chosen, dialect.double)  # PostgreSQL: else a decimal number
    return statement.define(f"{found.column}_threshold", expression(chosen, column))


def _or_null(dialect: Dialect, schema: Schema | None, of_missing: float) -> str:
    return "NULL" if schema is None else dialect.number(of_missing)


def _condition(dialect: Dialect, kind: str, column: str, name: str) -> str:
    if kind == "boolean":
        return column if name == "True" else f"NOT {column}"
    return f"{column} = {_number(dialect, name) if kind == 'number' else dialect.text(name)}"


def _number(dialect: Dialect, name: str) -> str:
    whole = _INTEGER.fullmatch(name) and abs(int(name)) < _WHOLE
    return name if whole else dialect.number(float(name))


def _kind(column: str, names: Sequence[str], of: Column | None) -> str:
    """Return how segments are compared: as "number", "boolean" or "text".

    ``of`` describes the column of a table; otherwise the known names tell.
    """
    if of is None:
        if names and set(names) <= {"True", "False"}:
            return "boolean"
        if names and all(map(_is_number, names)):
            return "number"
        if any(_DATE.match(name) for name in names):
            raise _dates(column)
        return "text"
    if of.kind == "date":
        raise _dates(column)
    if of.kind == "number":
        for name in names:
            if not _is_number(name):
                raise SqlError(
                    f"the segment {name!r} in {column!r} is written like a text, and the column "
                    "holds numbers, which databases write in other ways. Convert it to numbers, "
                    "or write texts with letters, and fit the model again."
                )
    return of.kind if of.kind in ("number", "boolean") else "text"


def _is_number(name: str) -> bool:
    """Whether a text is a number as Python writes it in segments: 10 and 2.5, not 10.0 or 007."""
    if _INTEGER.fullmatch(name):
        return True
    try:
        return name != "nan" and name == as_text(float(name))
    except ValueError:
        return False


def _dates(column: str) -> SqlError:
    return SqlError(
        f"the column of segments {column!r} holds dates, which databases write in other ways; SQL "
        "cannot compare them. Save them as other texts, such as 'January', and fit the model again."
    )
