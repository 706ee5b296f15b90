"""The kind of a column: numbers, booleans, categories, texts or dates."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import quoted
from setpoint.data.values import (
    check_present,
    dates,
    is_present,
    is_text_like,
    numbers,
    texts,
    without_categories,
    zone_of,
)
from setpoint.errors import SchemaError, SplitError
from setpoint.tables.text_columns import is_date, read_dates, read_numbers, several_formats

pd = OptionalModule("pandas", "cli", "a table")

Kind = Literal["number", "boolean", "category", "text", "date"]

_SAMPLED = 20_000  # values, spread over the rows, that distinguish texts from categories
_DISTINCT_TEXTS = 40  # fewer are categories, however long they are
_DISTINCT = 0.2  # texts are seldom repeated: at least this fraction of the values is distinct
_WORDS = 3.5  # on average
# 31/12 shows whether the day or the month comes first; without such a date, it is the month.
_DAYS = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y",
         "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y")  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_FORMATS = ("ISO8601", *(day + time for day in _DAYS for time in _TIMES))
_CODE = re.compile(r"[+-]?0[0-9]+$")  # 00123 is not a number


@dataclass(frozen=True)
class Column:
    """One column of a table, as a model uses it.

    Attributes
    ----------
    name : str
        Its name.
    kind : {"number", "boolean", "category", "text", "date"}
        How it is used.
    dtype : str
        Its pandas type in training.
    levels : int, optional
        The number of different values of a category.
    format : str, optional
        The format of dates that are texts, or an example of the format of numbers.
    zone : str, optional
        The time zone of dates.
    missing : tuple of str
        Texts among numbers or dates that count as missing.
    absent : tuple of (int, int), optional
        The number of training rows in which it was missing, and of all training rows.
    note : str
        A note for the user on how it was read.
    """

    name: str
    kind: Kind
    dtype: str
    levels: int | None = None
    format: str | None = None
    zone: str | None = None
    missing: tuple[str, ...] = ()
    absent: tuple[int, int] | None = None
    note: str = ""

    @property
    def mixed(self) -> bool:
        """Whether a category or text also accepts numbers and other objects."""
        return self.dtype == "mixed"


def column_of(series: Any) -> Column:
    """Return the kind of a column that has at least one value."""
    types = pd.api.types
    name, dtype = str(series.name), str(series.dtype)
    values = without_categories(series)
    is_category = isinstance(series.dtype, pd.CategoricalDtype)
    if is_category and not is_text_like(values):  # categories that are named by numbers
        return Column(name, "category", "mixed", int(series.nunique()))
    series = values
    if types.is_bool_dtype(series):
        return Column(name, "boolean", dtype)
    if types.is_complex_dtype(series):
        raise _unusable(series, "complex numbers")
    if types.is_numeric_dtype(series) or types.is_timedelta64_dtype(series):
        return Column(name, "number", dtype)
    if types.is_datetime64_any_dtype(series):
        zone = series.dt.tz
        return Column(name, "date", dtype, zone=None if zone is None else _zone_name(zone))
    present = is_present(series)
    found = _column_of_objects(series[present], name, dtype)
    if found.kind != "category":
        return found
    return _numbers_or_dates(series[present], np.flatnonzero(present), found, dtype)


def _column_of_objects(values: Any, name: str, dtype: str) -> Column:
    """Return the kind of a column of texts or Python objects."""
    if isinstance(values.dtype, pd.StringDtype) or all(isinstance(v, str) for v in values):
        return _column_of_texts(values, name, dtype)
    for value in values:
        if isinstance(value, (bytes, list, tuple, set, dict, np.ndarray, complex)):
            raise _unusable(values, f"values of the type {type(value).__name__}")
    if all(isinstance(v, (bool, np.bool_)) for v in values):
        return Column(name, "boolean", dtype)
    if all(isinstance(v, date) for v in values):
        zoned = getattr(values.iloc[0], "tzinfo", None) is not None
        return Column(name, "date", dtype, zone="UTC" if zoned else None)
    if not any(isinstance(v, (str, date)) for v in values) and not numbers(values).bad.any():
        return Column(name, "number", dtype)
    return _column_of_texts(texts(values, strict=False).values, name, "mixed")


def _numbers_or_dates(values: Any, rows: NDArray[np.intp], category: Column, dtype: str) -> Column:
    """Return a column of numbers or dates if a category is one except for some of its values."""
    if category.mixed and any(isinstance(v, (bool, np.bool_, date)) for v in values):
        return category
    stripped = texts(values, strict=False).values
    if any(_CODE.match(v) for v in stripped.head(_SAMPLED).unique()):
        return category
    found = read_numbers(category.name, stripped, rows)
    if found is None and not category.mixed:
        found = read_dates(category.name, stripped, rows, _FORMATS)
    if found is None:
        return category
    if category.mixed and found.fmt is not None and _has_number(values):
        found = several_formats(category.name, stripped)  # 1.234 as a text may be 1234
    if found.kind == "category":
        return replace(category, note=found.note)
    return Column(
        category.name, found.kind, dtype, format=found.fmt, zone=found.zone,
        missing=found.missing, note=found.note,
    )  # fmt: skip


def _has_number(values: Any) -> bool:
    """Whether some value is a number other than 0, and not a text."""
    return any(not isinstance(v, str) and v != 0 for v in values)


def _column_of_texts(values: Any, name: str, dtype: str) -> Column:
    """Return the kind of a column of texts, none of them blank."""
    sample = values.iloc[:: max(1, len(values) // _SAMPLED)]
    different = sample.drop_duplicates()  # checking each category once is much faster
    first = str(sample.iloc[0]).strip()
    if dtype != "mixed" and not any(_CODE.match(v.strip()) for v in different):
        if not numbers(different).bad.any() and not numbers(values).bad.any():
            return Column(name, "number", dtype)
        fmt = _date_format(values, first)
        if fmt is not None:
            return Column(name, "date", dtype, format=fmt, zone=zone_of(values))
    levels = int(values.nunique())
    seldom_repeated = levels > _DISTINCT_TEXTS and len(different) >= _DISTINCT * len(sample)
    if seldom_repeated and np.mean([len(v.split()) for v in sample]) >= _WORDS:
        return Column(name, "text", dtype)
    return Column(name, "category", dtype, levels)


def _date_format(values: Any, first: str) -> str | None:
    """Return the format in which all values are dates, or None."""
    if not 6 <= len(first) <= 40 or not any(c.isdigit() for c in first):
        return None
    zone = zone_of(values)
    for fmt in _FORMATS:
        if is_date(first, fmt) and not dates(values, fmt, zone).bad.any():
            return fmt
    return None


def _zone_name(zone: Any) -> str:
    """Return a name of a time zone that pandas recognises."""
    try:
        pd.Timestamp("2000-01-01", tz=str(zone))
    except (ValueError, KeyError, TypeError):
        return "UTC"
    return str(zone)


def _unusable(series: Any, what: str) -> SchemaError:
    return SchemaError(
        f"the column {str(series.name)!r} holds {what}, which cannot be used; drop it, or convert "
        "it to numbers or texts."
    )


def times_of(series: Any) -> NDArray[np.float64]:
    """Return a column of dates, or of numbers that grow with time, as numbers."""
    name = str(series.name)
    series = without_categories(series)
    check_present(series, "times", SplitError, "drop such rows, or split the rows in another way.")
    column = column_of(series)
    times: Any
    if column.kind == "number":
        times = np.asarray(numbers(series, column.missing, column.format).values)
        bad = np.isnan(times)
    elif column.kind == "date":
        times, bad = dates(series, column.format, column.zone)
    else:
        raise SplitError(
            f"{name!r} holds neither dates nor numbers (e.g. {quoted(series.iloc[0])}), so rows "
            "cannot be ordered by it; write dates as 2024-12-31 or 2024-12-31 23:59:59."
        )
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise SplitError(
            f"{quoted(series.iloc[row])} in row {row + 1:,} of {name!r} is not a time; correct it, "
            "or drop such rows."
        )
    if column.kind == "number":
        return np.asarray(times)
    if column.zone is not None:
        times = times.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(times.astype("int64").to_numpy(), dtype=np.float64)
