"""Conversion of columns to the types of a model: numbers, booleans, texts and dates.

Texts may write numbers with thousands separators, decimal commas, a currency or a per cent sign.
The format of such a column is kept as an example, such as ``€1,234.5`` or ``1.234,5``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import as_text
from setpoint.errors import SetpointError

pd = OptionalModule("pandas", "cli", "a table")

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "None", "#N/A", "<NA>")
# Other texts that stand for a missing number or date, in lower case.
MARKERS = frozenset(
    [
        *(m.casefold() for m in MISSING), "?", "??", "-", "--", "---", ".", "..", "...", "*",
        "unknown", "unk", "missing", "n.a.", "n.a", "not available", "not applicable", "not known",
        "undefined", "nil", "(null)", "\\n", "#na", "#div/0!", "#value!", "#ref!", "#num!",
        "#name?", "#null!", "1.#qnan", "-1.#ind",
    ]
) - {"none"}  # fmt: skip
LARGEST = 1e100  # beyond it a square overflows; such a number counts as infinite
_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
# A zone that follows a time of day; 31-12-2024 has none.
_WRITTEN_ZONE = re.compile(r"([T ]\d\d?:\d\d[\d:.,]*)\s*(?:Z|[+-][01]\d(?::?\d\d)?)\s*$")
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


class Values(NamedTuple):
    """Converted values, and a mask of those that could not be converted."""

    values: Any
    bad: NDArray[np.bool_]


def is_text_like(series: Any) -> bool:
    """Whether a column holds texts or arbitrary objects, and not numbers, booleans or dates."""
    types = pd.api.types
    return bool(types.is_object_dtype(series) or types.is_string_dtype(series.dtype))


def without_categories(series: Any) -> Any:
    """Return a column of categories, or of a type of Arrow or Ray, as pandas' usual values."""
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        known = len(series.cat.categories)
        return series.astype(series.cat.categories.dtype if known else "float64")
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.type in (object, date):
        return series.astype(object)
    if isinstance(dtype, pd.ArrowDtype) and dtype.kind == "M":
        zone = series.dt.tz
        return series.astype("datetime64[us]" if zone is None else pd.DatetimeTZDtype("us", zone))
    return series


def is_present(series: Any) -> NDArray[np.bool_]:
    """Return where a value is present; a blank text is missing."""
    found = np.array(series.notna(), dtype=bool)
    if isinstance(series.dtype, pd.StringDtype):
        found &= (series.fillna("").str.strip() != "").to_numpy(dtype=bool)
    elif is_text_like(series):
        found &= np.array([not (isinstance(v, str) and not v.strip()) for v in series], dtype=bool)
    return found


def check_present(series: Any, what: str, error: type[SetpointError], remedy: str) -> None:
    """Raise an error if values of a column are missing; ``what`` names them, e.g. "labels"."""
    missing = ~is_present(series)
    if missing.any():
        count = int(missing.sum())
        raise error(
            f"{count:,} of {len(missing):,} {what} in {str(series.name)!r} "
            f"{'is' if count == 1 else 'are'} missing, the first in row "
            f"{int(missing.argmax()) + 1:,}; {remedy}"
        )


def numbers(series: Any, missing: Collection[str] = (), fmt: str | None = None) -> Values:
    """Return 64-bit floats: NaN where missing, infinite if too large to be squared.

    Parameters
    ----------
    series : Series
        Numbers, or texts.
    missing : collection of str
        Texts that count as missing, besides those that always do.
    fmt : str, optional
        An example of the format of texts, such as ``€1,234.5``; by default they are plain. If it
        has a unit, numbers without one do not fit, whether texts or not: 0.081 may be 8.1 %.
    """
    types = pd.api.types
    bad = np.zeros(len(series), dtype=bool)
    if types.is_timedelta64_dtype(series):
        values = series.dt.total_seconds().to_numpy(dtype=np.float64)
    elif types.is_datetime64_any_dtype(series):
        return Values(np.full(len(series), np.nan), is_present(series))
    elif is_text_like(series):
        present = is_present(series)
        values = np.full(len(series), np.nan)
        values[present] = _parsed(series[present], fmt)
        bad = present & np.isnan(values)
        bad[bad] = ~_counts_as_missing(series[bad], {*MISSING, *missing})
    else:
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        if has_unit(fmt):
            bad = ~np.isnan(values) & (values != 0)
    return Values(np.where(np.abs(values) > LARGEST, np.copysign(np.inf, values), values), bad)


def _parsed(series: Any, fmt: str | None) -> NDArray[np.float64]:
    """Return texts as numbers, NaN where they are not numbers."""
    if fmt is not None:
        codes, distinct = pd.factorize(series)
        found = np.array([_as_number(value, fmt) for value in distinct], dtype=np.float64)
        return np.asarray(found[codes])
    values = pd.to_numeric(series, errors="coerce")
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _as_number(value: Any, fmt: str) -> float:
    """Return the number of a text, or of a number if the format has no unit."""
    if isinstance(value, str) or has_unit(fmt):
        return parse_number(str(value), fmt)
    return float(value) if isinstance(value, (int, float, np.number, Decimal)) else np.nan


def _counts_as_missing(series: Any, missing: Collection[str]) -> NDArray[np.bool_]:
    """Return which values are texts that count as missing."""
    found = (str(v).strip() for v in series)
    return np.array([t in missing or t.casefold() in missing for t in found], dtype=bool)


def booleans(series: Any) -> Values:
    """Return 1, 0 or NaN."""
    if is_text_like(series):
        present = is_present(series)
        values = np.full(len(series), np.nan)
        lower = [str(v).strip().lower() for v in series[present]]
        values[present] = [_TRUTH.get(v, np.nan) for v in lower]
        return Values(values, present & np.isnan(values))
    values, bad = numbers(series)
    return Values(values, bad | ~(np.isnan(values) | (values == 0) | (values == 1)))


def texts(series: Any, strict: bool = True) -> Values:
    """Return stripped texts, empty where missing; ``strict`` marks numbers and dates as bad."""
    bad = np.zeros(len(series), dtype=bool)
    if isinstance(series.dtype, pd.StringDtype):
        return Values(series.fillna("").str.strip().astype("str"), bad)
    present = is_present(series)
    if is_text_like(series):
        if strict:
            bad = present & np.array([not isinstance(v, str) for v in series], dtype=bool)
    elif strict:
        bad = present
    found = [as_text(v) if t else "" for v, t in zip(series, present, strict=True)]
    return Values(pd.Series(found, index=series.index, name=series.name, dtype="str"), bad)


def dates(series: Any, fmt: str | None, zone: str | None, missing: Collection[str] = ()) -> Values:
    """Return times in a time zone, or without one.

    Parameters
    ----------
    series : Series
        Dates, or texts.
    fmt : str, optional
        The format of texts, as for ``strptime``, or ``"ISO8601"``, which is the default.
    zone : str, optional
        The time zone to convert to; times without a zone then do not fit.
    missing : collection of str
        Texts that count as missing.
    """
    present = is_present(series)
    if missing and is_text_like(series):
        present[present] = ~_counts_as_missing(series[present], missing)
    if pd.api.types.is_datetime64_any_dtype(series):
        times, found = series, series.dt.tz
    elif is_text_like(series) and present.any():
        chosen = series[present]
        if all(isinstance(v, str) for v in chosen):
            found = zone_of(chosen)
            parsed = _read(chosen.str.strip(), fmt or "ISO8601", found is not None)
            if parsed.isna().any() and fmt not in (None, "ISO8601"):
                parsed = parsed.fillna(_read(chosen.str.strip(), "ISO8601", found is not None))
        else:
            chosen = chosen.where([isinstance(v, date) for v in chosen])
            found = "UTC" if any(getattr(v, "tzinfo", None) for v in chosen.head(100)) else None
            parsed = pd.to_datetime(chosen, errors="coerce", utc=found is not None)
        times = parsed.reindex(series.index)
    else:
        return Values(_no_times(series, zone), present)
    if (found is None) != (zone is None):
        return Values(_no_times(series, zone), present)
    if zone is not None:
        times = times.dt.tz_convert(zone)
    times = times.dt.as_unit("us")
    return Values(times, present & times.isna().to_numpy(dtype=bool))


def zone_of(values: Any) -> str | None:
    """Return the time zone to convert texts of times to, or None if they have none."""
    return "UTC" if any(_ZONE.search(v.strip()) for v in values.head(100)) else None


def without_zones(series: Any) -> Any:
    """Return times as they are written, without their time zones; other values stay as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> without_zones(pd.Series(["2024-03-31 00:30:00+01:00", "2024-03-31"])).tolist()
    ['2024-03-31 00:30:00', '2024-03-31']
    """
    if pd.api.types.is_datetime64_any_dtype(series):
        return series if series.dt.tz is None else series.dt.tz_localize(None)
    if isinstance(series.dtype, pd.StringDtype):
        return series.str.replace(_WRITTEN_ZONE, r"\1", regex=True)
    if not is_text_like(series):
        return series
    return pd.Series(
        [_without_zone(v) for v in series], index=series.index, name=series.name, dtype=object
    )


def _without_zone(value: Any) -> Any:
    if isinstance(value, str):
        return _WRITTEN_ZONE.sub(r"\1", value)
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _read(texts: Any, fmt: str, zoned: bool) -> Any:
    try:
        return pd.to_datetime(texts, format=fmt, errors="coerce", utc=zoned)
    except ValueError:  # offsets that zone_of did not see differ: later ones, or short ones (+02)
        return pd.to_datetime(texts, format=fmt, errors="coerce", utc=True)


def _no_times(series: Any, zone: str | None) -> Any:
    nothing = pd.Series(pd.NaT, index=series.index, name=series.name, dtype="datetime64[us]")
    return nothing if zone is None else nothing.dt.tz_localize(zone)


_MONEY = "€$£¥"
_SEPARATORS = {"1,234.5": (",", "."), "1.234,5": (".", ",")}  # of thousands and of decimals
_WITH_UNIT = re.compile(rf"[+-]?\s*([{_MONEY}]?)\s*[+-]?[\d.,]+\s*([%{_MONEY}]?)")
_BARE = r"(?:(?:\d{1,3}(?:[.,'\s]\d{3})+|\d+)(?:[.,]\d+)?|[.,]\d+)(?:[eE][+-]?\d+)?"
_LIKE_NUMBERS = re.compile(rf"[+-]?\s*[{_MONEY}]?\s*[+-]?{_BARE}\s*[%{_MONEY}]?")
_ZERO = re.compile(r"[+-]?0(?:[.,]0+)?")  # the same in every unit
_CURRENCIES = (
    "USD|EUR|GBP|CHF|JPY|CNY|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|RUB|UAH|ILS|INR|KRW|SGD|HKD|THB|IDR|"
    "AUD|NZD|CAD|MXN|BRL|ZAR|NGN|KES|EGP|AED|SAR|Rs\\.?|kr\\.?|R\\$|US\\$"
)
_WITH_WORD = re.compile(
    rf"[+-]?\s*({_CURRENCIES})?\s*[+-]?{_BARE}\s*([^\W\d_]{{1,8}}[²³]?(?:/[^\W\d_]{{1,4}})?|°[CF]?)?"
    rf"|(\()\s*[{_MONEY}]?\s*{_BARE}\s*\)"
)


def looks_like_number(text: str) -> bool:
    """Whether a text may be a number, in any format.

    Examples
    --------
    >>> [looks_like_number(t) for t in ("1'234,50 €", "-7e3", "10.0.0.1", "12kg")]
    [True, True, False, False]
    """
    return _LIKE_NUMBERS.fullmatch(text) is not None


def unit_in_words(text: str) -> str | None:
    """Return a number's unit in letters, ``(`` for brackets, or None if it is not a number.

    Examples
    --------
    >>> [unit_in_words(t) for t in ("USD 9.12", "12.5 kg", "(12.50)", "7", "E885.9")]
    ['USD', 'kg', '(', '', None]
    """
    found = _WITH_WORD.fullmatch(text)
    return None if found is None else "".join(part or "" for part in found.groups())


def has_unit(fmt: str | None) -> bool:
    """Whether a format has a currency or per cent sign.

    Examples
    --------
    >>> has_unit("1,234.5%"), has_unit("1,234.5"), has_unit(None)
    (True, False, False)
    """
    return fmt is not None and any(c in _MONEY + "%" for c in fmt)


def without_units(text: str) -> str:
    """Return a text without currency and per cent signs."""
    return "".join(c for c in text if c not in _MONEY + "%").strip()


def formats_like(texts: Iterable[str]) -> list[str]:
    """Return possible formats of numbers, with the unit that most texts have.

    Examples
    --------
    >>> formats_like(["12.5 %"])
    ['1,234.5%', '1.234,5%']
    """
    found = (_WITH_UNIT.fullmatch(t) for t in texts if not _ZERO.fullmatch(t))
    units = Counter(m.groups() for m in found if m)
    before, after = units.most_common(1)[0][0] if units else ("", "")
    return [f"{before}{core}{after}" for core in _SEPARATORS]


def parse_number(text: str, fmt: str) -> float:
    """Return the number of a text, NaN if it has another format; a plain 0 fits every format.

    Examples
    --------
    >>> parse_number("-€1,234.50", "€1,234.5"), parse_number("7", "1,234.5%")
    (-1234.5, nan)
    """
    pattern, thousands, decimal = _pattern(fmt)
    found = pattern.fullmatch(text := text.strip())
    if found is None or (found[1] and found[2]):  # two signs
        return 0.0 if _ZERO.fullmatch(text) else math.nan
    return float(found[1] + found[2] + found[3].replace(thousands, "").replace(decimal, "."))


@cache
def _pattern(fmt: str) -> tuple[re.Pattern[str], str, str]:
    cores = [core for core in _SEPARATORS if core in fmt]
    if len(cores) != 1:
        raise ValueError(f"{fmt!r} is not a format of numbers")
    before, _, after = fmt.partition(cores[0])
    thousands, decimal = _SEPARATORS[cores[0]]
    # Amounts of money do not have three decimals: before three digits, a mark separates thousands.
    short = r"(?!\d{3}(?!\d))" if any(c in _MONEY for c in before + after) else ""
    number = (
        rf"(?:[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|\d+)"
        rf"(?:{re.escape(decimal)}{short}\d+)?(?:[eE][+-]?\d+)?"
    )
    pattern = rf"([+-]?)\s*{re.escape(before)}\s*([+-]?)({number})\s*{re.escape(after)}"
    return re.compile(pattern), thousands, decimal
