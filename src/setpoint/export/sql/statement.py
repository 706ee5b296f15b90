"""A SELECT statement, built column by column, in layers each of which uses the earlier ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from setpoint.errors import SqlError
from setpoint.export.sql.dialects import Dialect

_CHUNK = 50  # terms of a sum; databases limit the depth of an expression
_SPLITTER = 2.0**29 + 1  # leaves 24 of the 53 bits of a 64-bit float


class Sql(NamedTuple):
    """An expression, and the number of layers that must come before it."""

    text: str
    level: int = 0


def expression(text: str, *parts: Sql) -> Sql:
    """Return an expression that contains others."""
    return Sql(text, max((part.level for part in parts), default=0))


def constant(text: str, scores: Sql) -> Sql:
    """Return a constant for rows that have a score, and NULL for others."""
    return expression(f"CASE WHEN {scores.text} IS NOT NULL THEN {text} END", scores)


class Statement:
    """Helper columns in layers, and the statement that computes them for the rows of a table.

    Parameters
    ----------
    dialect : Dialect
        The dialect.
    names : iterable of str
        Names that helper columns must not have: of the table, and of its columns that are used.
    """

    def __init__(self, dialect: Dialect, names: Iterable[str]) -> None:
        self.dialect = dialect
        taken, number = {name.casefold() for name in names}, 0
        self._prefix = "setpoint_"
        while any(name.startswith(self._prefix) for name in taken):
            number += 1
            self._prefix = f"setpoint{number}_"
        self._input = f"{self._prefix}rows"
        self._names: set[str] = {self._input, f"{self._prefix}row"}
        self._layers: list[list[tuple[str, str]]] = []

    def input(self, name: str) -> Sql:
        """Return a column of the table; only a first helper column can be defined by it."""
        return Sql(f"{self._input}.{self.dialect.quote(name)}")

    def define(self, name: str, value: Sql) -> Sql:
        """Add a helper column with a name like this; return it."""
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower().strip()).strip("_")[:40] or "column"
        found, number = f"{self._prefix}{plain}", 1
        while found in self._names:
            number += 1
            found = f"{self._prefix}{plain}_{number}"
        self._names.add(found)
        while len(self._layers) <= value.level:
            self._layers.append([])
        self._layers[value.level].append((value.text, found))
        return Sql(found, value.level + 1)

    def sum(self, name: str, terms: Sequence[Sql]) -> Sql:
        """Add columns for the sum of terms, which are added up in their order; return it."""
        total, rest = terms[0], list(terms[1:])
        while rest:
            some, rest = rest[:_CHUNK], rest[_CHUNK:]
            text = " + ".join(term.text for term in (total, *some))
            total = self.define(name, expression(text, total, *some))
        return total

    def rounded(self, name: str, value: Sql) -> Sql:
        """Add columns for a value rounded to 24 bits, as a 32-bit float has them; return it.

        This is Dekker's splitting, which is exact in 64-bit floats, since not every database has
        32-bit ones. PostgreSQL's raise an error for tiny values.
        """
        value = self.define(name, value)
        large = f"{value.text} * {self.dialect.number(_SPLITTER)}"
        split = expression(f"{large} - ({large} - {value.text})", value)
        return self.define(f"{name}_rounded", split)

    def write(self, table: str, outputs: Sequence[tuple[str, Sql]]) -> str:
        """Return the statement: all columns of a table, and the outputs by name."""
        results = ",\n  ".join(f"{value.text} AS {name}" for name, value in outputs)
        layers = [
            (f"{self._prefix}{i}", ",\n    ".join(f"{text} AS {name}" for text, name in layer))
            for i, layer in enumerate(self._layers, start=1)
        ]
        # One column holds the whole row, so that none of the table's can be taken for a helper.
        row, end = f"{self._prefix}row", self.dialect.end_of_layer
        everything, first = self.dialect.unpacked(row), f"{self._input} AS {row}"
        if everything is None:
            helpers = [name for layer in self._layers for _, name in layer]
            everything, first = f"* EXCLUDE ({', '.join(helpers)})", "*"
        source, parts = f"{table} AS {self._input}", []
        for name, columns in layers:
            parts.append(
                f"{name} AS (\n  SELECT\n    {first},\n    {columns}\n  FROM {source}{end}\n)"
            )
            source, first = name, "*"
        layered = ",\n".join(parts)
        return f"WITH {layered}\nSELECT\n  {everything},\n  {results}\nFROM {source}\n"


def table_name(table: str, dialect: Dialect) -> str:
    """Return a table's name as the dialect writes it; SqlError if it is not a name.

    A plain name, or several with dots, and names that are quoted already stay as they are.
    """
    quote = dialect.quote("")[0]
    quoted = f"{quote}(?:[^{quote}\\\\]|{quote}{quote})+{quote}"
    part = f"(?:{quoted}|{dialect.plain_name})"
    if not re.fullmatch(rf"{part}(?:\.{part}){{0,3}}", table, re.ASCII):
        parts = table.split(".")
        if quote in table or not all(parts) or not table.isprintable():
            parts = ["my table"]
        plain = re.compile(dialect.plain_name, re.ASCII)
        example = ".".join(p if plain.fullmatch(p) else dialect.quote(p) for p in parts)
        raise SqlError(
            f"{table!r} is not the name of a table; write a name with other characters than "
            f"letters, digits and _ in quotes: {example}"
        )
    if table.casefold() == "rows":  # a reserved word in some of them
        return dialect.quote(table)
    return table
