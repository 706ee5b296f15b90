"""Dialects of SQL: how each writes names, texts, numbers, dates and whole rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from setpoint._internal.validation import did_you_mean
from setpoint.errors import SqlError

# What Python's str.strip removes; TRIM alone removes spaces only.
_SPACES = "".join(chr(c) for c in range(0x3001) if chr(c).isspace())


@dataclass(frozen=True)
class Dialect:
    """What is written differently by PostgreSQL; subclasses are other databases.

    Attributes
    ----------
    name, title : str
        Its name as an option, and in sentences.
    double, string : str
        The types of 64-bit floats and of texts.
    most_bytes : int or None
        The longest statement that the database accepts.
    case_sensitive : bool
        Whether quoted names that differ in case are different columns.
    end_of_layer : str
        What ends the query of a layer.
    plain_name : str
        A pattern of the names of tables that need no quotes.
    """

    name: str = "postgres"
    title: str = "PostgreSQL"
    double: str = "DOUBLE PRECISION"
    string: str = "TEXT"
    most_bytes: int | None = None
    case_sensitive: bool = True
    end_of_layer: str = ""
    plain_name: str = r"[A-Za-z_][\w$]*"

    def quote(self, name: str) -> str:
        """Return an identifier in quotes."""
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        """Return a text; control characters and separators of lines by their numbers."""
        parts: list[str] = []
        for plain, character in _by_visibility(value):
            if plain:
                parts.append("'" + plain.replace("'", "''") + "'")
            if character:
                parts.append(f"CHR({ord(character)})")
        return parts[0] if len(parts) == 1 else f"({' || '.join(parts)})" if parts else "''"

    def number(self, value: float) -> str:
        """Return a 64-bit float; without an exponent, DuckDB would read a decimal number."""
        if not math.isfinite(value):
            return f"CAST('{'-' if value < 0 else ''}inf' AS {self.double})"
        text = repr(float(value))
        return text if "e" in text else f"{text}e0"

    def literal(self, value: Any) -> str:
        """Return a label: a boolean, an integer, a float or a text."""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value)
        return self.number(value) if isinstance(value, float) else self.text(str(value))

    def finite_or_infinite(self, column: str) -> str:
        """Return a number as a 64-bit float, NULL for NaN."""
        nan = self.cast("'NaN'", self.double)
        return f"NULLIF({self.cast(column, self.double)}, {nan})"

    def truth(self, column: str) -> str:
        """Return booleans, or the numbers 0 and 1, as a boolean."""
        return self.cast(column, "BOOLEAN")

    def cast(self, value: str, kind: str) -> str:
        """Return a value of another type."""
        return f"CAST({value} AS {kind})"

    def stripped(self, value: str) -> str:
        """Return a text without whitespace at both ends."""
        return f"TRIM({value}, {self.text(_SPACES)})"

    def time(self, column: str, zone: str | None) -> str:
        """Return a time as it is written in a time zone, or without one."""
        if zone is None:
            return self.cast(column, "TIMESTAMP")
        return f"{self.cast(column, 'TIMESTAMP WITH TIME ZONE')} AT TIME ZONE {self.text(zone)}"

    def seconds(self, column: str, zone: str | None) -> str:
        """Return the seconds since 1970, in UTC if times have a zone."""
        kind = "TIMESTAMP" if zone is None else "TIMESTAMP WITH TIME ZONE"
        return self.cast(f"EXTRACT(EPOCH FROM {self.cast(column, kind)})", self.double)

    def part(self, what: str, time: str) -> str:
        """Return the year, month, day, hour or weekday (1 to 7) of a time."""
        what = "ISODOW" if what == "weekday" else what.upper()
        return self.cast(f"EXTRACT({what} FROM {time})", self.double)

    def unpacked(self, row: str) -> str | None:
        """Return the columns of a row that a column holds; None if a column cannot hold one."""
        return f"{row}.*"


@dataclass(frozen=True)
class DuckDB(Dialect):
    """DuckDB."""

    name: str = "duckdb"
    title: str = "DuckDB"
    double: str = "DOUBLE"
    string: str = "VARCHAR"
    case_sensitive: bool = False

    def truth(self, column: str) -> str:  # noqa: D102 (as in Dialect)
        # NaN would be true.
        nan = f"{self.cast(column, self.string)} = 'nan'"
        return f"CASE WHEN NOT {nan} THEN {self.cast(column, 'BOOLEAN')} END"


@dataclass(frozen=True)
class Snowflake(Dialect):
    """Snowflake, in whose texts a backslash escapes."""

    name: str = "snowflake"
    title: str = "Snowflake"
    double: str = "DOUBLE"
    string: str = "VARCHAR"
    most_bytes: int | None = 1_000_000

    def text(self, value: str) -> str:  # noqa: D102
        return _escaped(value)

    def time(self, column: str, zone: str | None) -> str:  # noqa: D102
        if zone is None:
            return self.cast(column, "TIMESTAMP_NTZ")
        return f"CONVERT_TIMEZONE({self.text(zone)}, {self.cast(column, 'TIMESTAMP_TZ')})"

    def seconds(self, column: str, zone: str | None) -> str:  # noqa: D102
        kind = "TIMESTAMP_NTZ" if zone is None else "TIMESTAMP_TZ"
        whole = f"DATE_PART(EPOCH_MICROSECOND, {self.cast(column, kind)})"
        return f"{self.cast(whole, self.double)} / 1e6"

    def part(self, what: str, time: str) -> str:  # noqa: D102
        what = "DAYOFWEEKISO" if what == "weekday" else what.upper()
        return self.cast(f"{what}({time})", self.double)

    def unpacked(self, row: str) -> str | None:  # noqa: D102 (its objects keep no types)
        return None


@dataclass(frozen=True)
class BigQuery(Dialect):
    """BigQuery, in whose names and texts a backslash escapes."""

    name: str = "bigquery"
    title: str = "BigQuery"
    double: str = "FLOAT64"
    string: str = "STRING"
    most_bytes: int | None = 1_000_000
    case_sensitive: bool = False
    plain_name: str = r"[A-Za-z_]\w*(?:-\w+)*"  # projects have dashes

    def quote(self, name: str) -> str:  # noqa: D102
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def text(self, value: str) -> str:  # noqa: D102
        return _escaped(value)

    def finite_or_infinite(self, column: str) -> str:  # noqa: D102
        number = self.cast(column, self.double)
        return f"IF(IS_NAN({number}), NULL, {number})"  # here NaN does not equal NaN

    def time(self, column: str, zone: str | None) -> str:  # noqa: D102
        if zone is None:
            return self.cast(column, "DATETIME")
        return f"DATETIME({self.cast(column, 'TIMESTAMP')}, {self.text(zone)})"

    def seconds(self, column: str, zone: str | None) -> str:  # noqa: D102
        written = column if zone is not None else self.cast(column, "DATETIME")
        whole = f"UNIX_MICROS({self.cast(written, 'TIMESTAMP')})"
        return f"{self.cast(whole, self.double)} / 1e6"

    def part(self, what: str, time: str) -> str:  # noqa: D102
        if what == "weekday":  # Sunday is 1 here, and 7 in the model
            return self.cast(f"MOD(EXTRACT(DAYOFWEEK FROM {time}) + 5, 7) + 1", self.double)
        return self.cast(f"EXTRACT({what.upper()} FROM {time})", self.double)


@dataclass(frozen=True)
class Postgres(Dialect):
    """PostgreSQL, whose TRIM has another syntax for other characters than spaces."""

    # Without it, an expression is copied to each place that uses it.
    end_of_layer: str = "\n  OFFSET 0"

    def truth(self, column: str) -> str:  # noqa: D102
        # No cast turns a bigint or a float into a boolean; that of a text reads 1 and true.
        text = f"REGEXP_REPLACE({self.cast(column, self.string)}, '[.]0*$', '')"
        return self.cast(f"NULLIF({text}, 'NaN')", "BOOLEAN")

    def unpacked(self, row: str) -> str | None:  # noqa: D102
        return f"({row}).*"

    def stripped(self, value: str) -> str:  # noqa: D102
        return f"BTRIM({value}, {self.text(_SPACES)})"


DIALECTS: dict[str, Dialect] = {
    each.name: each for each in (DuckDB(), Postgres(), BigQuery(), Snowflake())
}


def dialect_of(name: str) -> Dialect:
    """Return a dialect by name.

    Examples
    --------
    >>> dialect_of("duckdb").text("it's"), dialect_of("bigquery").quote("amount")
    ("'it''s'", '`amount`')
    """
    if name not in DIALECTS:
        raise SqlError(
            f"there is no dialect {name!r}; choose one of {', '.join(DIALECTS)}."
            f"{did_you_mean(name, list(DIALECTS))}"
        )
    return DIALECTS[name]


def _by_visibility(value: str) -> list[tuple[str, str]]:
    """Return pairs of a plain text and the character after it that must not be written as such."""
    found, plain = [], ""
    for character in value:
        if character == " " or character.isprintable():
            plain += character
        else:
            found.append((plain, character))
            plain = ""
    return [*found, (plain, "")]


def _escaped(value: str) -> str:
    text = ""
    for plain, character in _by_visibility(value):
        text += plain.replace("\\", "\\\\").replace("'", "\\'")
        if character:
            code = ord(character)
            text += f"\\u{code:04x}" if code < 0x10000 else character
    return f"'{text}'"
