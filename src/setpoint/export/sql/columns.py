"""The columns of a table, and the features that a model's encoder makes of them, as SQL."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from setpoint.data.values import LARGEST
from setpoint.errors import SqlError
from setpoint.export.sql.features import Discrete, Feature, Numeric
from setpoint.export.sql.statement import Sql, Statement, expression
from setpoint.tables.encoder import CATEGORIES, HUGE
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema

_PERIODS = {"month": 12, "day": 30, "hour": 24, "weekday": 7}  # of skrub's DatetimeEncoder
_TINY = 1e-140  # the square of a smaller number underflows, an error in PostgreSQL


def array_features(statement: Statement, names: Sequence[str]) -> list[Feature]:
    """Return features that are columns of the table."""
    found: list[Feature] = []
    for name in names:
        number = statement.dialect.finite_or_infinite(statement.input(name).text)
        found.append(Numeric(statement.define(name, Sql(number))))
    return found


def table_features(statement: Statement, schema: Schema, encoder: Any) -> list[Feature]:
    """Return the features that a fitted encoder computes from the columns of a schema."""
    columns = {column.name: column for column in schema.columns}
    _check_columns(schema, encoder, statement)
    found: list[Feature] = []
    for step, transformer, used in encoder.transformers_:
        names = [used] if isinstance(used, str) else list(used)
        if step == "remainder" or not names:
            continue
        own = [columns[name] for name in names]
        if step.startswith("date_"):
            features = _of_date(statement, own[0], transformer)
        elif step in CATEGORIES:
            features = _of_categories(statement, own, transformer)
        elif step.startswith("booleans"):
            features = _of_booleans(statement, own, transformer)
        elif not hasattr(transformer, "steps"):  # for trees, as they are
            features = [_raw(statement, column) for column in own]
        else:
            values = [_number(statement, column) for column in own]
            features = _squashed(statement, names, values, transformer[0], transformer[1], values)
        where = encoder.output_indices_[step]
        if where.stop - where.start != len(features):
            raise SqlError(f"the step {step!r} of the encoder has an unknown number of features.")
        found += features
    return found


def _check_columns(schema: Schema, encoder: Any, statement: Statement) -> None:
    """Raise SqlError for columns whose features cannot be computed in SQL."""
    for step, _, used in encoder.transformers_:
        if step.startswith("letters_"):
            raise _refused(used, "has many different values, which are encoded by their letters")
        if step.startswith("text_"):
            raise _refused(used, "holds texts, which are encoded by their letters")
    for column in schema.columns:
        if not column.name:
            raise _refused("", "has no name", "Name it and fit the model again")
        if column.kind == "category" and column.mixed:
            raise _refused(
                column.name,
                "holds categories that are not texts, which databases write in other ways",
                "Save it as texts and fit the model again",
            )
        if column.kind == "number" and column.format is not None:
            raise _refused(
                column.name,
                f"holds numbers that are written like {column.format}",
                "Convert it to plain numbers and fit the model again",
            )
        if column.kind == "number" and column.dtype.startswith("timedelta"):
            raise _refused(
                column.name, "holds durations", "Convert it to seconds and fit the model again"
            )
    if not statement.dialect.case_sensitive:
        seen: dict[str, str] = {}
        for name in schema.names:
            other = seen.setdefault(name.casefold(), name)
            if other != name:
                raise SqlError(
                    f"the columns {other!r} and {name!r} differ only in case, and are the same "
                    f"column in {statement.dialect.title}; rename one and fit the model again."
                )


def _refused(name: str, why: str, remedy: str = "") -> SqlError:
    remedy = f"{remedy}, or leave it out" if remedy else "Fit the model without it"
    drop = f"--drop {shlex.quote(name)}"
    return SqlError(f"the column {name!r} {why}; SQL cannot compute that. {remedy}: {drop}.")


def _number(statement: Statement, column: Column) -> Sql:
    """Return a column of numbers, NULL where missing; too large ones are infinite in the model."""
    text = statement.dialect.finite_or_infinite(statement.input(column.name).text)
    return statement.define(column.name, Sql(text))


def _boolean(statement: Statement, column: Column) -> Sql:
    truth = statement.dialect.truth(statement.input(column.name).text)
    text = f"CASE WHEN {truth} THEN 1e0 WHEN NOT {truth} THEN 0e0 END"
    return statement.define(column.name, Sql(text))


def _raw(statement: Statement, column: Column) -> Feature:
    """Return a number or boolean as trees get it."""
    if column.kind == "boolean":
        value = _boolean(statement, column)
        return Discrete(value, {0.0: 0.0, 1.0: 1.0}, null=math.nan)
    return Numeric(_number(statement, column), single=True, largest=HUGE)


def _of_booleans(statement: Statement, columns: list[Column], transformer: Any) -> list[Feature]:
    imputer = transformer[-1]
    values = [_boolean(statement, column) for column in columns]
    found: list[Feature] = []
    for value, often in zip(values, _statistics(imputer), strict=True):
        found.append(Discrete(value, {0.0: 0.0, 1.0: 1.0}, often, often))
    return found + _marks(imputer, values)


def _of_categories(statement: Statement, columns: list[Column], transformer: Any) -> list[Feature]:
    """Return a feature for each level, or for trees one with the number of the level."""
    steps = getattr(transformer, "steps", [("", transformer)])
    encoder = steps[-1][1]
    filled = list(steps[0][1].statistics_) if len(steps) > 1 else [None] * len(columns)
    found: list[Feature] = []
    for column, often, levels in zip(columns, filled, encoder.categories_, strict=True):
        text = statement.dialect.stripped(statement.input(column.name).text)
        value = f"COALESCE({text}, '')"
        if often is not None:
            fill = statement.dialect.text(str(often))
            value = f"COALESCE(NULLIF({text}, ''), {fill})"
        source = statement.define(column.name, Sql(value))
        keys = [str(level) for level in levels]
        if hasattr(encoder, "unknown_value"):
            found.append(Discrete(source, {key: float(i) for i, key in enumerate(keys)}))
        else:
            found += [Discrete(source, {key: 1.0}, 0.0) for key in keys]
    return found


def _of_date(statement: Statement, column: Column, transformer: Any) -> list[Feature]:
    steps = getattr(transformer, "steps", [("", transformer)])
    encoder, dialect = steps[0][1], statement.dialect
    given = statement.input(column.name).text
    time = statement.define(column.name, Sql(dialect.time(given, column.zone)))

    def part(what: str) -> Sql:
        name = f"{column.name}_{what}"
        if what == "total_seconds":
            return statement.define(name, Sql(dialect.seconds(given, column.zone)))
        return statement.define(name, expression(dialect.part(what, time.text), time))

    plain = [what for what in encoder.extracted_features_ if what not in encoder._periodic_encoders]
    parts = [part(what) for what in plain]
    if len(steps) == 1:
        return [Numeric(value, single=True, largest=HUGE) for value in parts]
    names = [f"{column.name}_{what}" for what in plain]
    parts = [
        # The encoder counts seconds in 32-bit floats, which are minutes apart.
        statement.rounded(name, value) if name.endswith("total_seconds") else value
        for name, value in zip(names, parts, strict=True)
    ]
    for what in encoder._periodic_encoders:
        value = part(what)
        angle = f"{value.text} / {_PERIODS[what]}e0 * 2e0 * {dialect.number(math.pi)}"
        for function in ("SIN", "COS"):
            names.append(f"{column.name}_{what}_{function}")
            wave = expression(f"{function}({angle})", value)
            parts.append(statement.define(names[-1], wave))
    return _squashed(statement, names, parts, steps[1][1], steps[2][1], [time] * len(parts))


def _squashed(
    statement: Statement,
    names: list[str],
    values: list[Sql],
    scaler: Any,
    imputer: Any,
    sources: list[Sql],
) -> list[Feature]:
    """Return squashed and imputed numbers, and marks of those missing in ``sources``."""
    found: list[Feature] = []
    scaled = _scaling(scaler)
    number = statement.dialect.number
    limit = number(float(scaler.max_absolute_value))
    for i, (name, value, fill) in enumerate(zip(names, values, _statistics(imputer), strict=True)):
        v = value.text
        scale = scaled(i, v, number)
        if scale is None:  # missing in all training rows
            inner = value
            squashed = number(fill)
        elif scale == "":  # the same in all training rows
            inner, squashed = value, "0e0"
        else:
            inner = statement.define(f"{name}_scaled", expression(scale, value))
            z = inner.text
            ratio = f"{z} / {limit}"
            squashed = f"{z} / SQRT(1e0 + ({ratio}) * ({ratio}))"
        result = (
            f"CASE WHEN {v} IS NULL THEN {number(fill)} WHEN {v} > {number(LARGEST)} THEN {limit} "
            f"WHEN {v} < {number(-LARGEST)} THEN -{limit} ELSE {squashed} END"
        )
        feature = statement.define(f"{name}_squashed", expression(result, value, inner))
        found.append(Numeric(feature, single=True, largest=HUGE))
    return found + _marks(imputer, sources)


def _scaling(scaler: Any) -> Callable[[int, str, Callable[[float], str]], str | None]:
    """Return a function that writes how a fitted SquashingScaler scales a column.

    It returns None for a column that was missing in all rows, and "" for a constant one.
    """

    def scale(i: int, v: str, number: Callable[[float], str]) -> str | None:
        if scaler.zero_cols_[i]:
            return ""
        if scaler.minmax_cols_[i]:
            place = int(np.sum(scaler.minmax_cols_[:i]))
            centre, factor = (
                scaler.minmax_scaler_.median_[place],
                scaler.minmax_scaler_.scale_[place],
            )
            smallest, scaled = _TINY / factor, f"{number(factor)} * ({v} - {number(centre)})"
        else:
            place = int(np.sum(scaler.robust_cols_[:i]))
            centre, width = (
                scaler.robust_scaler_.center_[place],
                scaler.robust_scaler_.scale_[place],
            )
            if not np.isfinite([centre, width]).all():
                return None
            smallest, scaled = _TINY * width, f"({v} - {number(centre)}) / {number(width)}"
        return (
            f"CASE WHEN ABS({v} - {number(centre)}) < {number(smallest)} THEN 0e0 ELSE {scaled} END"
        )

    return scale


def _statistics(imputer: Any) -> list[float]:
    """Return what missing values are replaced by; 0 if all were missing in training."""
    return [0.0 if np.isnan(value) else float(value) for value in imputer.statistics_]


def _marks(imputer: Any, sources: list[Sql]) -> list[Feature]:
    """Return a feature for each column that marks missing values."""
    if not imputer.add_indicator:
        return []
    return [Discrete(sources[i], {}, 0.0, 1.0) for i in imputer.indicator_.features_]
