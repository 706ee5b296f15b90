"""Columns of texts, most of which are numbers or dates.

A few other texts among them are missing values or typing errors, such as 1O.5 or 31.02.2024, and
must not turn a column of numbers into one of categories. They are recorded, so that later rows are
read in the same way. Some are informative, though: G0439 is a code, 44-45 a range, <0.5 a limit,
and 5+ and 12% differ from plain numbers beside them. With these the column is one of categories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint.data.values import (
    MARKERS,
    MISSING,
    dates,
    formats_like,
    has_unit,
    looks_like_number,
    parse_number,
    unit_in_words,
    without_units,
    zone_of,
)

pd = OptionalModule("pandas", "cli", "a table")

_MOST = 0.9  # of the values must be numbers or dates
_FEW = 0.01  # more others than this among integers or dates are not typing errors
_MOST_OTHERS = 20  # different ones
_FEWEST_DATES = 10
_SAMPLED, _SAMPLED_DATES = 1_000, 200  # values, for a first check
_SHOWN = 4
_MOST_UNITS = 2
_FEWEST_WITH_UNITS = 10  # different ones; 10kg and 20kg alone may be two sorts of something
_TYPO = re.compile(r"[+-]*\s*[\d.,][\d.,'\sOolI]*")  # 1.2.3, 1O.5, --7
_PLAIN = "Write plain numbers such as 1234.5 for it to be numbers."


class Reading(NamedTuple):
    """How a column of texts is read."""

    kind: Literal["number", "date", "category"]
    note: str  # for the user
    fmt: str | None = None  # the format of dates, or an example of numbers that are not plain
    missing: tuple[str, ...] = ()  # texts that count as missing
    zone: str | None = None  # of dates


def read_numbers(name: str, texts: Any, rows: NDArray[np.intp]) -> Reading | None:
    """Return how a column of texts is read, or None if few of them are numbers.

    ``texts`` is a series of the values that are present, stripped; ``rows`` are their rows in the
    table.
    """
    counts: dict[str, int] = texts.value_counts(sort=False).to_dict()
    values = {t: n for t, n in counts.items() if t.casefold() not in MARKERS}
    sample = _sample(values)
    if not values or max(_like_numbers(sample), _with_word(sample)) < 0.5:
        return None
    found = _format(values)
    if not isinstance(found, _Format):
        why = found or _reason_against_numbers(values)
        return None if why is None else _not_numbers(name, why)
    others = [t for t in values if t not in found.numbers]
    total, other_count = sum(values.values()), sum(values[t] for t in others)
    prefix = _mostly(name, 1 - other_count / total, "numbers")
    if informative := [t for t in others if _is_informative(t, found.fmt)]:
        like = "" if found.fmt is None else f" like {found.fmt}"
        return Reading(
            "category",
            f"{prefix}{like}; others are codes, ranges, limits or numbers of another make: "
            f"{_where(texts, rows, informative)}. For it to be numbers, write these like the "
            "others, or leave them empty.",
        )
    whole = all(float(v).is_integer() for v in found.numbers.values())
    allowed = max(1.0, _FEW * total) if whole else total
    if len(others) > _MOST_OTHERS or other_count > allowed:
        return Reading(
            "category",
            f"{prefix}; others are not: {_where(texts, rows, others)}. If these are mistakes, "
            "correct them or leave them empty for it to be numbers.",
        )
    missing = [t for t in counts if t not in found.numbers and t not in MISSING]
    note = f"The column {name!r} is taken as numbers"
    note += "" if found.fmt is None else f" that are written like {found.fmt}"
    note += _missing_note("number", counts, missing, texts, rows)
    return Reading("number", note, found.fmt, tuple(missing))


def several_formats(name: str, texts: Any) -> Reading:
    """Return that a column of texts is one of categories, since numbers have several formats."""
    return _not_numbers(name, _several_formats_text(texts.value_counts().to_dict()))


def read_dates(
    name: str, texts: Any, rows: NDArray[np.intp], formats: Sequence[str]
) -> Reading | None:
    """Return how a column of texts is read, or None if few of them are dates.

    ``formats`` are those that dates may have; other parameters as in :func:`read_numbers`.
    """
    # Most columns of categories go no further than a first check.
    sample = texts.iloc[:: max(1, len(texts) // _SAMPLED_DATES)].unique()
    tried = [t for t in sample if t.casefold() not in MARKERS]
    if 2 * sum(6 <= len(t) <= 40 and any(map(str.isdigit, t)) for t in tried) <= len(tried):
        return None
    formats = [fmt for fmt in formats if 2 * sum(is_date(t, fmt) for t in tried) > len(tried)]
    if not formats:
        return None
    counts: dict[str, int] = texts.value_counts(sort=False).to_dict()
    values = texts[texts.isin([t for t in counts if t.casefold() not in MARKERS])]
    zone = zone_of(values)
    # The fewest others decide: where most days are below 13, a wrong order reads most.
    bad_of = {fmt: dates(values, fmt, zone).bad for fmt in formats}
    fmt = min(formats, key=lambda fmt: bad_of[fmt].sum())
    bad = bad_of[fmt]
    other_count, total = int(bad.sum()), len(values)
    if total - other_count < max(_FEWEST_DATES, _MOST * total):
        return None
    others = list(dict.fromkeys(values[bad]))
    if other_count > max(1.0, _FEW * total) or len(others) > _MOST_OTHERS:
        return Reading(
            "category",
            f"{_mostly(name, 1 - other_count / total, 'dates')}; others are not: "
            f"{_where(texts, rows, others)}. If these are mistakes, correct them or leave them "
            "empty for it to be dates.",
        )
    missing = [t for t in counts if t in others or t.casefold() in MARKERS]
    missing = [t for t in missing if t not in MISSING]
    note = f"The column {name!r} is taken as dates"
    note += _missing_note("date", counts, missing, texts, rows)
    return Reading("date", note, fmt, tuple(missing), zone)


def is_date(text: str, fmt: str) -> bool:
    """Whether one text may be a date in a format.

    Examples
    --------
    >>> is_date("2024-12-31", "ISO8601"), is_date("31.12.2024", "%m/%d/%Y")
    (True, False)
    """
    if fmt == "ISO8601":
        return text[:4].isdigit()
    try:
        datetime.strptime(text, fmt)
    except ValueError:
        return False
    return True


class _Format(NamedTuple):
    """A format, and the texts that are numbers in it."""

    fmt: str | None
    numbers: dict[str, float]

    def agrees(self, other: _Format) -> bool:
        """Whether no text is a different number in the other format."""
        both = self.numbers.keys() & other.numbers.keys()
        return all(self.numbers[t] == other.numbers[t] for t in both)


def _format(values: dict[str, int]) -> _Format | str | None:
    """Return the format in which most texts are numbers, why it is ambiguous, or None."""

    def size(found: _Format) -> int:
        return sum(values[t] for t in found.numbers)

    enough = _MOST * sum(values.values())
    plain, *others = (
        _Format(h, _numbers(values, h)) for h in (None, *formats_like(_sample(values)))
    )
    if size(plain) >= enough:  # then a format may add to plain numbers, but not change them
        others = [o for o in others if o.agrees(plain)]
    best = max([plain, *others], key=size)  # the first of those that read the most
    if size(best) < enough:
        return None
    for other in others:
        if best is not plain and size(other) == size(best) and not other.agrees(best):
            odd = next(t for t, v in best.numbers.items() if other.numbers.get(t, v) != v)
            return f"{odd!r} may be {best.numbers[odd]:.15g} or {other.numbers[odd]:.15g}"
    return best


def _sample(values: dict[str, int]) -> dict[str, int]:
    """Return some of the values, for a first check."""
    return dict(list(values.items())[:: max(1, len(values) // _SAMPLED)])


def _numbers(values: dict[str, int], fmt: str | None) -> dict[str, float]:
    """Return the texts that are numbers in a format."""
    if fmt is None:
        found = pd.to_numeric(pd.Series(list(values), dtype=object), errors="coerce").tolist()
    else:
        found = [parse_number(text, fmt) for text in values]
    return {t: v for t, v in zip(values, found, strict=True) if not math.isnan(v)}


def _like_numbers(values: dict[str, int]) -> float:
    """Return the fraction of the values that may be numbers."""
    return sum(n for t, n in values.items() if looks_like_number(t)) / sum(values.values())


def _with_word(values: dict[str, int]) -> float:
    """Return the fraction of the values that may be numbers with a unit in letters, or brackets."""
    found = sum(n for t, n in values.items() if unit_in_words(t) is not None)
    return found / sum(values.values())


def _reason_against_numbers(values: dict[str, int]) -> str | None:
    """Return why texts that look like numbers are not read as such; None if they do not."""
    if _like_numbers(values) >= _MOST:
        return _several_formats_text(values)
    units = {unit_in_words(t) for t in values} - {None, ""}
    many = len(units) > _MOST_UNITS or len(values) < _FEWEST_WITH_UNITS
    if many or _with_word(values) < _MOST:
        return None
    if units == {"("}:
        return f"some stand in brackets, e.g. {_examples(values)}; (12.50) may be -12.50"
    return f"they have a unit in letters, e.g. {_examples(values)}"


def _is_informative(text: str, fmt: str | None) -> bool:
    """Whether a text among numbers is more than a missing value or a typing error."""
    if not any(c.isdigit() for c in text):
        return text[0] in "<>≤≥" and not text.endswith(">")  # <LOD, but not <none>
    if has_unit(fmt):
        if looks_like_number(text):  # without the unit, or with another one
            return True
        text = without_units(text)
    return _TYPO.fullmatch(text) is None


def _mostly(name: str, fraction: float, what: str) -> str:
    """Return the beginning of a note; per cent are rounded down, so that only all are 100 %."""
    return (
        f"The column {name!r} is taken as categories, though {math.floor(100 * fraction)} % of its "
        f"values are {what}"
    )


def _missing_note(
    what: str, counts: dict[str, int], missing: Collection[str], texts: Any, rows: NDArray[np.intp]
) -> str:
    """Return the end of a note: which values count as missing."""
    if not missing:
        return "."
    count = sum(counts[t] for t in missing)
    some = f"1 value is not a {what} and counts"
    if count > 1:
        some = f"{count:,} values are not {what}s and count"
    return f"; {some} as missing: {_where(texts, rows, list(missing))}."


def _not_numbers(name: str, why: str) -> Reading:
    return Reading(
        "category",
        f"The column {name!r} is taken as categories, though its values look like numbers: {why}. "
        f"{_PLAIN}",
    )


def _several_formats_text(values: dict[str, int]) -> str:
    return f"they are written in several ways, e.g. {_examples(values)}"


def _examples(values: dict[str, int]) -> str:
    """Return texts of different formats."""
    makes = {"".join("1" if c.isdigit() else c for c in t).replace("11", "1"): t for t in values}
    return ", ".join(map(repr, list(makes.values())[:_SHOWN]))


def _where(texts: Any, rows: NDArray[np.intp], which: list[str]) -> str:
    """Return some texts and the first row of each."""
    values = texts.to_numpy(dtype=object)
    shown = []
    for text in which[:_SHOWN]:
        found = rows[values == text]
        again = f"{len(found):,} times, first in " if len(found) > 1 else ""
        shown.append(f"{text!r} ({again}row {found[0] + 1:,})")
    return ", ".join(shown) + (", ..." if len(which) > _SHOWN else "")
