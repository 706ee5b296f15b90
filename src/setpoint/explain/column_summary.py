"""A short summary of a column of training rows, which a model keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.thresholds.operating_point import jsonable

COUNTED = ("boolean", "category")  # kinds of which each value is counted
_KINDS = ("number", "boolean", "category", "text", "date")
_GRID = np.linspace(0.01, 0.99, 50)  # quantiles; extreme values of single rows are not kept
_LEVELS, _FEWEST = 50, 10  # values of a category, and rows of each of them, that are kept


@dataclass(frozen=True)
class ColumnSummary:
    """A short summary of a column of training rows.

    Attributes
    ----------
    name, kind : str
        The column, and its kind: number, boolean, category, text or date.
    rows, missing : int
        How many rows there were, and in how many of them the column was missing.
    mean, deviation : float
        Of numbers, of dates in seconds since 1970, and of the lengths of texts; NaN for others.
    grid, up_to : tuple
        Some values, and the number of rows with a value up to each of them.
    levels : tuple of (str, int)
        The values of a category and their rows; of very many values, those of ten rows at least.
    """

    name: str
    kind: str
    rows: int
    missing: int
    mean: float = math.nan
    deviation: float = math.nan
    grid: tuple[float, ...] = ()
    up_to: tuple[int, ...] = ()
    levels: tuple[tuple[str, int], ...] = ()

    @property
    def present(self) -> int:
        """In how many rows there was a value."""
        return self.rows - self.missing

    @property
    def is_complete(self) -> bool:
        """Whether all values of a category are known."""
        return sum(count for _, count in self.levels) == self.present

    @classmethod
    def of(cls, name: str, kind: str, values: Any, *, every_level: bool = True) -> ColumnSummary:
        """Return the summary of a column, given its checked values as a series.

        Of a category whose values the model does not keep, ``every_level`` is false.
        """
        present = present_values(values, kind)
        missing = len(values) - len(present)
        if kind in COUNTED:
            levels = level_counts(present)
            if not every_level:
                often = [(level, n) for level, n in levels if n >= _FEWEST]
                levels = often[:_LEVELS]
            return cls(name, kind, len(values), missing, levels=tuple(levels))
        if not len(present):
            return cls(name, kind, len(values), missing)
        grid = np.unique(np.quantile(present, _GRID, method="inverted_cdf"))
        grid = grid[np.isfinite(grid)]
        ranks = np.searchsorted(np.sort(present), grid, side="right")
        mean, deviation = moments(present)
        return cls(
            name, kind, len(values), missing, mean, deviation, tuple(grid.tolist()),
            tuple(ranks.tolist()),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a model file."""
        found = {n: getattr(self, n) for n in ("name", "kind", "rows", "missing")}
        if self.kind in COUNTED:
            return {**found, "levels": [list(pair) for pair in self.levels]}
        numbers = {"mean": jsonable(self.mean), "deviation": jsonable(self.deviation)}
        return {**found, **numbers, "grid": list(self.grid), "up_to": list(self.up_to)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ColumnSummary:
        """Return the summary from the values of ``to_dict``; ValueError if they are not such."""
        numbers = {
            n: math.nan if (x := fields.get(n)) is None else x for n in ("mean", "deviation")
        }
        found = cls(
            fields["name"], fields["kind"], fields["rows"], fields["missing"],
            **numbers,
            grid=tuple(fields.get("grid", ())),
            up_to=tuple(fields.get("up_to", ())),
            levels=tuple((level, count) for level, count in fields.get("levels", ())),
        )  # fmt: skip
        counts = [found.rows, found.missing, *found.up_to, *(count for _, count in found.levels)]
        texts = [found.name, *(level for level, _ in found.levels)]
        floats = [*numbers.values(), *found.grid]
        if (
            found.kind not in _KINDS
            or not all(type(x) is int and 0 <= x <= found.rows for x in counts)
            or not all(type(x) is str for x in texts)
            or not all(type(x) in (int, float) for x in floats)
            or len(found.grid) != len(found.up_to)
            or sorted(found.grid) != list(found.grid)
            or found.missing + sum(count for _, count in found.levels) > found.rows
        ):
            raise ValueError(f"this is not the summary of a column: {fields}")
        return found


def present_values(values: Any, kind: str) -> NDArray[Any]:
    """Return the values that are present: numbers, seconds, lengths, or texts."""
    if kind == "number":
        found = values.to_numpy(dtype=np.float64)
        return np.asarray(found[~np.isnan(found)])
    if kind == "date":
        there = values[values.notna()]
        seconds = there.astype("int64") if not len(there) else [x.timestamp() for x in there]
        return np.asarray(seconds, dtype=np.float64)
    if kind == "boolean":
        found = values.to_numpy(dtype=np.float64)
        return np.where(found[~np.isnan(found)] > 0, "true", "false")
    texts = values.to_numpy(dtype=object)
    texts = texts[texts != ""]
    if kind == "text":
        return np.array([len(text) for text in texts], dtype=np.float64)
    return np.asarray(texts)


def level_counts(texts: NDArray[Any]) -> list[tuple[str, int]]:
    """Return the different texts and how often they occur, the most frequent first."""
    levels, counts = np.unique(texts.astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [(str(levels[i]), int(counts[i])) for i in order]


def moments(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation of the finite values."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return math.nan, math.nan
    size = float(np.abs(finite).max()) or 1.0  # squares of huge numbers would overflow
    return size * float(np.mean(finite / size)), size * float(np.std(finite / size))
